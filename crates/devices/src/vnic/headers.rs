//! Header descriptors of sent frames: parsing, and comparison with the server's request.

use super::Entry;
use alloc::vec::Vec;
use doorbell_layout::ibmvnic::headers::{lengths, selected};
use doorbell_layout::ibmvnic::{HDR_DATA, HDR_EXT_DATA, Hdr, HdrExt, are_headers};

/// Returns the header bytes of `frame` that the byte `wanted` asks for; `None`: no descriptors.
pub(super) fn demanded(wanted: u8, frame: &[u8]) -> Option<usize> {
    selected(wanted, lengths(frame)).map(|n| n.min(frame.len()))
}

/// The header descriptors of one frame, together.
#[derive(Debug, Default)]
pub(super) struct Headers {
    /// Lengths that the descriptors give.
    lengths: [usize; 3],
    flag: u8,
    /// Descriptors.
    count: usize,
    /// Each but the last was full.
    packed: bool,
    pub(super) data: Vec<u8>,
}

impl Headers {
    /// Reads the descriptors behind a transmit descriptor into `data`, which is empty.
    /// `None` when they cannot be header descriptors.
    pub(super) fn parse(entries: &[Entry], mut data: Vec<u8>) -> Option<Headers> {
        let Some((head, more)) = entries.split_first() else { return Some(Headers::default()) };
        if !are_headers(entries) {
            return None;
        }
        let h = Hdr::of(*head);
        data.extend_from_slice(&h.data[..usize::from(h.len)]);
        let mut packed = true;
        let mut full = usize::from(h.len) == HDR_DATA;
        for e in more {
            let x = HdrExt::of(*e);
            packed &= full;
            full = usize::from(x.len) == HDR_EXT_DATA;
            data.extend_from_slice(&x.data[..usize::from(x.len)]);
        }
        let lengths = [h.l2_len.into(), h.l3_len.get().into(), h.l4_len.into()];
        Some(Headers { lengths, flag: h.flag, count: entries.len(), packed, data })
    }

    pub(super) fn any(&self) -> bool {
        self.count > 0
    }

    /// Returns true if they are what `wanted` asks for of `frame`, byte for byte.
    pub(super) fn are(&self, wanted: u8, frame: &[u8]) -> bool {
        let Some(len) = demanded(wanted, frame) else { return false };
        let count = 1 + len.saturating_sub(HDR_DATA).div_ceil(HDR_EXT_DATA);
        self.flag == wanted << 1
            && self.lengths == lengths(frame)
            && self.count == count
            && self.packed
            && self.data == frame[..len]
    }
}
