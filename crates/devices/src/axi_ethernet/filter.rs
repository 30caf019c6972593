//! Which frames the MAC takes.
//!
//! | destination | taken when |
//! |---|---|
//! | any | promiscuous, or one of the four entries that are on matches the frame's first 8 bytes under its mask |
//! | broadcast | not rejected (RAF) |
//! | multicast | rejected (RAF): never but by the above; with the extended table: its bit is set |
//! | unicast | it is the station address |
//!
//! The extended table has one word, of which bit 0 counts, for each of 32768 hashes: the low 15 bits
//! of the address, as far as its size tells. A rejected frame sets RxRject.
//!
//! Source: PG138, RAF, UAW, FMI, AF; Linux `axienet_set_multicast_list`.

use alloc::vec;
use alloc::vec::Vec;
use doorbell_layout::axienet::{fmi, mac, raf};

/// Words of the extended multicast table.
const TABLE: u32 = 1 << 15;

/// An entry of the frame filter.
#[derive(Clone, Copy, Debug)]
struct Entry {
    on: bool,
    pattern: [u32; 2],
    mask: [u32; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// UAW0, UAW1.
    unicast: [u32; 2],
    /// FMI.
    index: u32,
    entries: [Entry; mac::FILTERS as usize],
    /// A bit for each word of the table; empty until the first is set.
    table: Vec<u64>,
}

impl Filter {
    pub(super) const fn new() -> Filter {
        let entry = Entry { on: false, pattern: [0; 2], mask: [!0, 0xffff] };
        Filter { unicast: [0; 2], index: 0, entries: [entry; mac::FILTERS as usize], table: Vec::new() }
    }

    fn entry(&mut self) -> Option<&mut Entry> {
        self.entries.get_mut((self.index & fmi::INDEX) as usize)
    }

    /// A register of the filter, if it is one.
    pub(super) fn read(&mut self, r: u32) -> Option<u32> {
        let entry = self.entry().copied();
        let of = |f: fn(Entry) -> u32| entry.map_or(0, f);
        Some(match r {
            mac::UAW0 => self.unicast[0],
            mac::UAW1 => self.unicast[1],
            mac::FMI => self.index,
            mac::FFE => of(|e| e.on.into()),
            mac::AF0 => of(|e| e.pattern[0]),
            mac::AF1 => of(|e| e.pattern[1]),
            mac::AM0 => of(|e| e.mask[0]),
            mac::AM1 => of(|e| e.mask[1]),
            _ => return None,
        })
    }

    /// Whether it was a register of the filter.
    pub(super) fn write(&mut self, r: u32, v: u32) -> bool {
        match r {
            mac::UAW0 => self.unicast[0] = v,
            mac::UAW1 => self.unicast[1] = v,
            mac::FMI => self.index = v & (fmi::PROMISCUOUS | fmi::INDEX),
            mac::FFE | mac::AF0 | mac::AF1 | mac::AM0 | mac::AM1 => {
                if let Some(e) = self.entry() {
                    match r {
                        mac::FFE => e.on = v & 1 != 0,
                        mac::AF0 => e.pattern[0] = v,
                        mac::AF1 => e.pattern[1] = v,
                        mac::AM0 => e.mask[0] = v,
                        _ => e.mask[1] = v,
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// The word of the extended table at `r`, from the table's offset.
    pub(super) fn read_table(&self, r: u32) -> u32 {
        u32::from(self.has(r / 4))
    }

    pub(super) fn write_table(&mut self, r: u32, v: u32) {
        if self.table.is_empty() {
            self.table = vec![0; TABLE as usize / 64];
        }
        let i = r / 4 % TABLE;
        let bit = 1u64 << (i % 64);
        let word = &mut self.table[i as usize / 64];
        *word = if v & 1 != 0 { *word | bit } else { *word & !bit };
    }

    fn has(&self, hash: u32) -> bool {
        let i = hash % TABLE;
        self.table.get(i as usize / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }

    /// Whether `frame`, of 14 bytes at least, is taken.
    pub(super) fn pass(&self, raf_word: u32, frame: &[u8]) -> bool {
        let word = |i: usize| u32::from_le_bytes([frame[i], frame[i + 1], frame[i + 2], frame[i + 3]]);
        let head = [word(0), word(4)];
        let matches = |e: &Entry| e.on && (0..2).all(|i| (head[i] ^ e.pattern[i]) & e.mask[i] == 0);
        if self.index & fmi::PROMISCUOUS != 0 || self.entries.iter().any(matches) {
            return true;
        }
        match frame[0] & 1 {
            0 => head[0] == self.unicast[0] && (head[1] ^ self.unicast[1]) & 0xffff == 0,
            _ if frame[..6] == [0xff; 6] => raf_word & raf::BCAST_REJECT == 0,
            _ if raf_word & raf::MCAST_REJECT != 0 => false,
            _ => {
                let hash = u32::from(frame[4]) << 8 | u32::from(frame[5]);
                raf_word & raf::EXTENDED_MCAST != 0 && self.has(hash)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
    const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x12, 0xa7, 0x3c];

    fn frame(to: [u8; 6]) -> [u8; 60] {
        let mut f = [0; 60];
        f[..6].copy_from_slice(&to);
        f
    }

    fn set(f: &mut Filter, low: u32, a: [u8; 6]) {
        assert!(f.write(low, u32::from_le_bytes([a[0], a[1], a[2], a[3]])));
        assert!(f.write(low + 4, u32::from_le_bytes([a[4], a[5], 0, 0])));
    }

    #[test]
    fn the_station_address_is_bytes_little_endian() {
        let mut f = Filter::new();
        assert!(!f.pass(0, &frame(OWN)));
        set(&mut f, mac::UAW0, OWN);
        assert!(f.pass(0, &frame(OWN)));
        assert!(!f.pass(0, &frame([0x02, 0x11, 0x22, 0x33, 0x44, 0x56])));
        f.write(mac::UAW1, 0xabcd_0000 | 0x5544);
        assert!(f.pass(0, &frame(OWN)), "the upper half of UAW1 is not the address's");
    }

    #[test]
    fn broadcast_and_multicast_are_rejected_apart() {
        let mut f = Filter::new();
        assert!(f.pass(0, &frame([0xff; 6])));
        assert!(!f.pass(raf::BCAST_REJECT, &frame([0xff; 6])));
        assert!(f.pass(raf::MCAST_REJECT, &frame([0xff; 6])));
        assert!(!f.pass(0, &frame(GROUP)), "no entry, no table");
        f.write(mac::FMI, fmi::PROMISCUOUS);
        for a in [OWN, GROUP, [0xff; 6]] {
            assert!(f.pass(raf::BCAST_REJECT | raf::MCAST_REJECT, &frame(a)));
        }
    }

    #[test]
    fn an_entry_matches_when_it_is_on() {
        let mut f = Filter::new();
        f.write(mac::FMI, 3);
        set(&mut f, mac::AF0, GROUP);
        assert!(!f.pass(0, &frame(GROUP)));
        f.write(mac::FFE, 1);
        assert!(f.pass(0, &frame(GROUP)));
        f.write(mac::FMI, 2);
        assert_eq!(f.read(mac::FFE), Some(0), "an entry of its own");
        f.write(mac::FMI, 200);
        assert!(f.write(mac::FFE, 1), "there is none");
        assert_eq!(f.read(mac::FFE), Some(0));
    }

    #[test]
    fn a_mask_of_the_group_bit_takes_all_multicast() {
        let mut f = Filter::new();
        for (r, v) in [(mac::AF0, 1), (mac::AF1, 0), (mac::AM0, 1), (mac::AM1, 0), (mac::FFE, 1)] {
            f.write(r, v);
        }
        assert!(f.pass(0, &frame(GROUP)) && !f.pass(0, &frame(OWN)));
    }

    #[test]
    fn the_table_has_a_word_for_each_of_15_bits() {
        let mut f = Filter::new();
        let at = (0xa73c & 0x7fff) * 4;
        f.write_table(at, 1);
        assert_eq!(f.read_table(at), 1);
        assert!(!f.pass(0, &frame(GROUP)), "not without EMULTIFLTRENBL");
        assert!(f.pass(raf::EXTENDED_MCAST, &frame(GROUP)));
        assert!(!f.pass(raf::EXTENDED_MCAST | raf::MCAST_REJECT, &frame(GROUP)));
        f.write_table(at, 0);
        assert!(!f.pass(raf::EXTENDED_MCAST, &frame(GROUP)));
    }
}
