//! The MAC's address filter.
//!
//! Any destination passes in promiscuous mode, or if an entry that is on matches the frame's first
//! 8 bytes under its mask; broadcast unless RAF rejects it; multicast if RAF rejects nothing or its
//! bit of the extended table is set; unicast if it is the station address. The extended table has a
//! word, of which bit 0 counts, for each hash: the low 15 bits of the address.
//!
//! Source: PG138, RAF, UAW, FMI, AF; Linux `axienet_set_multicast_list`.

use alloc::vec;
use alloc::vec::Vec;
use doorbell_layout::axienet::{fmi, mac, raf};

/// Words of the extended multicast table.
const TABLE: u32 = 1 << 15;

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
        let entries = [entry; mac::FILTERS as usize];
        Filter { unicast: [0; 2], index: 0, entries, table: Vec::new() }
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

    /// Writes a register. Returns false if it is none of the filter's.
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

    /// Returns true if the filter passes `frame`, of 14 bytes at least.
    pub(super) fn pass(&self, raf_word: u32, frame: &[u8]) -> bool {
        let [first, second, ..] = frame.as_chunks().0 else { return false };
        let head = [first, second].map(|word| u32::from_le_bytes(*word));
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
mod tests;
