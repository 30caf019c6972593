//! Cutting a transfer into packets, one by one and in closed form.

use super::Rules;
use super::tlp::{double_words, wide_address};

/// A request must not cross a multiple of this (base specification 2.2.7).
const PAGE_SHIFT: u32 = 12;

/// Where 3-double-word headers end.
const FOUR_GIB: u64 = 1 << 32;

/// The range of one packet: `len` bytes at `addr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte.
    pub addr: u64,
    /// Bytes, never zero.
    pub len: u32,
}

/// The pieces of a range in address order. An empty range has none.
#[derive(Clone, Copy, Debug)]
pub struct Pieces {
    addr: u64,
    left: u32,
    /// The most double words of a piece, as bytes.
    limit: u32,
    /// A piece ends at every multiple of this power of two.
    window: u32,
}

impl Pieces {
    pub(super) const EMPTY: Pieces = Pieces { addr: 0, left: 0, limit: 0, window: 1 };
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let to_boundary = self.window - (self.addr as u32 & (self.window - 1));
        let to_limit = self.limit - (self.addr as u32 & 3);
        let piece = Piece { addr: self.addr, len: self.left.min(to_boundary).min(to_limit) };
        self.addr = self.addr.wrapping_add(piece.len.into());
        self.left -= piece.len;
        Some(piece)
    }
}

/// What a read by the device puts on the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadBill {
    /// MRd packets, toward the host.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
    /// CplD packets, toward the device.
    pub completions: u64,
    /// Their bytes on the wire.
    pub completion_bytes: u64,
}

/// What a write puts on the link, all in the direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteBill {
    /// MWr packets.
    pub requests: u64,
    /// Their bytes on the wire.
    pub request_bytes: u64,
}

/// How many windows of `1 << shift` bytes the range touches. `len` is not zero.
#[inline]
const fn windows(addr: u64, len: u64, shift: u32) -> u64 {
    let mask = (1 << shift) - 1;
    ((addr & mask) + len + mask) >> shift
}

/// Bytes up to the next multiple of 4 GiB if the range goes beyond it. Header sizes change at the
/// first one and addresses wrap at the last; both are too rare to burden the bill.
#[inline]
const fn crosses_4_gib(addr: u64, len: u32) -> bool {
    (addr & (FOUR_GIB - 1)) + len as u64 > FOUR_GIB
}

const fn to_4_gib(addr: u64) -> u32 {
    // Not zero and not 2^32: the range, shorter than 2^32, crosses, so it does not start there.
    (FOUR_GIB - (addr & (FOUR_GIB - 1))) as u32
}

impl Rules {
    /// The MRd packets of a read by the device.
    #[inline]
    pub const fn split_read(&self, addr: u64, len: u32) -> Pieces {
        Pieces { addr, left: len, limit: 1 << self.mrrs_shift, window: 1 << PAGE_SHIFT }
    }

    /// The CplD packets that answer one MRd.
    #[inline]
    pub const fn split_completions(&self, addr: u64, len: u32) -> Pieces {
        let window = 1 << self.completion_shift;
        Pieces { addr, left: len, limit: window, window }
    }

    /// The MWr packets of a write.
    #[inline]
    pub const fn split_write(&self, addr: u64, len: u32) -> Pieces {
        let window = 1 << self.mps_shift;
        Pieces { addr, left: len, limit: window, window }
    }

    /// Packets and bytes of a read by the device: the sums over [`Rules::split_read`] and
    /// [`Rules::split_completions`] of each, without walking them.
    #[inline]
    pub const fn read_bill(&self, addr: u64, len: u32) -> ReadBill {
        if len == 0 {
            return ReadBill { requests: 0, request_bytes: 0, completions: 0, completion_bytes: 0 };
        }
        if crosses_4_gib(addr, len) {
            return self.read_bill_in_two(addr, len);
        }
        // In whole double words: MRRS counts them, and every cut lies between them.
        let start = addr & !3;
        let span = double_words(addr, len as u64);
        // Up to the first page boundary requests keep the phase of their start. From there on they
        // lie on multiples of MRRS, and page boundaries are among those.
        let to_page = (1 << PAGE_SHIFT) - (start & ((1 << PAGE_SHIFT) - 1));
        let head = if span < to_page { span } else { to_page };
        let rest = span - head;
        let mrrs_mask = (1 << self.mrrs_shift) - 1;
        let head_requests = (head + mrrs_mask) >> self.mrrs_shift;
        let requests = head_requests + ((rest + mrrs_mask) >> self.mrrs_shift);

        // A request is one completion, and one more for every window boundary inside it. If the
        // start lies on a multiple of the smaller of MRRS and window, the boundaries of the one
        // kind fall on those of the other and are not inside.
        let boundaries = windows(start, head, self.completion_shift) - 1;
        let cuts = head_requests - 1;
        let finer_shift = if self.completion_shift < self.mrrs_shift { self.completion_shift } else { self.mrrs_shift };
        let finer_mask = (1 << finer_shift) - 1;
        let in_phase = ((start & finer_mask == 0) as u64).wrapping_neg();
        let common = (if boundaries < cuts { boundaries } else { cuts }) & in_phase;
        let completions = head_requests + boundaries - common + ((rest + finer_mask) >> finer_shift);

        ReadBill {
            requests,
            request_bytes: requests * (self.request_bytes + wide_address(addr)) as u64,
            completions,
            completion_bytes: completions * self.completion_bytes as u64 + span,
        }
    }

    /// Packets and bytes of a write: the sums over [`Rules::split_write`], without walking it.
    #[inline]
    pub const fn write_bill(&self, addr: u64, len: u32) -> WriteBill {
        if len == 0 {
            return WriteBill { requests: 0, request_bytes: 0 };
        }
        if crosses_4_gib(addr, len) {
            return self.write_bill_in_two(addr, len);
        }
        let requests = windows(addr, len as u64, self.mps_shift);
        let headers = requests * (self.request_bytes + wide_address(addr)) as u64;
        WriteBill { requests, request_bytes: headers + double_words(addr, len as u64) }
    }

    #[cold]
    const fn read_bill_in_two(&self, addr: u64, len: u32) -> ReadBill {
        let low = to_4_gib(addr);
        let a = self.read_bill(addr, low);
        let b = self.read_bill(addr.wrapping_add(low as u64), len - low);
        ReadBill {
            requests: a.requests + b.requests,
            request_bytes: a.request_bytes + b.request_bytes,
            completions: a.completions + b.completions,
            completion_bytes: a.completion_bytes + b.completion_bytes,
        }
    }

    #[cold]
    const fn write_bill_in_two(&self, addr: u64, len: u32) -> WriteBill {
        let low = to_4_gib(addr);
        let a = self.write_bill(addr, low);
        let b = self.write_bill(addr.wrapping_add(low as u64), len - low);
        WriteBill { requests: a.requests + b.requests, request_bytes: a.request_bytes + b.request_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Completions, Settings};
    use super::*;

    const HIGH: u64 = 0x12_3456_0000;

    fn rules() -> Rules {
        Rules::new(Settings::link(3, 16)).unwrap()
    }

    fn lens(pieces: Pieces) -> Vec<u32> {
        pieces.map(|p| p.len).collect()
    }

    /// facts: the worked example and the accounting recipes of section 6.
    #[test]
    fn a_1514_byte_frame_is_72_bytes_up_and_1636_down() {
        let bill = rules().read_bill(HIGH, 1514);
        assert_eq!(bill, ReadBill { requests: 3, request_bytes: 72, completions: 6, completion_bytes: 1636 });
        let descriptor = rules().read_bill(HIGH, 16);
        assert_eq!((descriptor.request_bytes, descriptor.completion_bytes), (24, 36));
        assert_eq!(rules().write_bill(HIGH, 4).request_bytes, 28, "doorbell, MSI-X");
        assert_eq!(rules().write_bill(HIGH, 64).request_bytes, 88, "CQE");
        assert_eq!(rules().write_bill(HIGH, 1514).request_bytes, 6 * 24 + 1516);
    }

    /// facts: mlx5 per packet.
    #[test]
    fn a_session_of_58_packets_is_48_bytes_up_and_1040_down() {
        let bill = rules().read_bill(HIGH, 960);
        assert_eq!((bill.requests, bill.request_bytes), (2, 48));
        assert_eq!((bill.completions, bill.completion_bytes), (4, 1040));
        let send = rules().read_bill(HIGH, 64);
        assert_eq!((send.request_bytes, send.completion_bytes), (24, 84));
        assert_eq!(rules().read_bill(HIGH, 256).completion_bytes, 276, "four blocks merged");
    }

    /// PG346: 128 bytes from 0x10020 with RCB 64 may come as 32+64+32, 96+32, 32+96 or 128.
    #[test]
    fn completions_are_cut_as_pg346_allows() {
        let cut = |mps, completions, addr| {
            let rules = Rules::new(Settings { mps, completions, ..Settings::link(3, 16) }).unwrap();
            lens(rules.split_completions(addr, 128))
        };
        assert_eq!(cut(256, Completions::Rcb(64), 0x10020), [32, 64, 32]);
        assert_eq!(cut(128, Completions::Merged, 0x10020), [96, 32]);
        assert_eq!(cut(256, Completions::Merged, 0x10020), [128]);
        assert_eq!(cut(256, Completions::Rcb(128), 0x10020), [96, 32]);
    }

    #[test]
    fn the_length_field_of_a_read_never_exceeds_mrrs() {
        // 512 bytes from an odd address touch 129 double words: two requests.
        assert_eq!(lens(rules().split_read(0x1002, 512)), [510, 2]);
        assert_eq!(lens(rules().split_read(0x1004, 512)), [512]);
        assert_eq!(lens(rules().split_read(0x1F02, 1024)), [254, 512, 258]);
    }

    #[test]
    fn buffers_below_4_gib_save_four_bytes_a_request() {
        assert_eq!(rules().read_bill(0xFFFF_F000, 4096).request_bytes, 8 * 20);
        assert_eq!(rules().read_bill(0xFFFF_F000, 8192).request_bytes, 8 * 20 + 8 * 24);
        assert_eq!(rules().write_bill(0xFFFF_FF00, 512).request_bytes, 20 + 24 + 512);
    }

    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(rules().read_bill(3, 0), ReadBill::default());
        assert_eq!(rules().write_bill(3, 0), WriteBill::default());
        assert_eq!(rules().split_read(3, 0).next(), None);
    }
}
