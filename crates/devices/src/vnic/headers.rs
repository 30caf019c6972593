//! Header descriptors: what the server asks for, and whether it was given.
//!
//! The length of each header is what the sender's stack knows of it (Linux `get_hdr_lens`): the
//! Ethernet header with a tag if there is one in the frame; IPv4 by its IHL, IPv6 40, ARP its 28;
//! TCP by its data offset, UDP 8. The lengths that the bits select are added up, and so many bytes
//! from the frame's first on are sent: 24 in the first descriptor, 29 in each that follows.

use alloc::vec::Vec;
use doorbell_layout::ibmvnic::{
    DESCRIPTOR, HDR_DATA, HDR_EXT_DATA, Hdr, HdrExt, desc, desc_req, first,
};

/// Lengths of Ethernet, IP and transport header.
pub(super) fn lengths(frame: &[u8]) -> [usize; 3] {
    let at = |i: usize| frame.get(i).copied().unwrap_or(0);
    let tagged = at(12) == 0x81 && at(13) == 0;
    let l2 = if tagged { 18 } else { 14 };
    let (l3, protocol) = match (at(l2 - 2), at(l2 - 1)) {
        (0x08, 0x00) => (usize::from(at(l2) & 0xf) * 4, at(l2 + 9)),
        (0x86, 0xdd) => (40, at(l2 + 6)),
        (0x08, 0x06) => (28, 0),
        _ => (0, 0),
    };
    let l4 = match protocol {
        6 => usize::from(at(l2 + l3 + 12) >> 4) * 4,
        17 => 8,
        _ => 0,
    };
    [l2, l3, l4]
}

/// Returns the header bytes of `frame` that the byte `wanted` asks for; `None`: no descriptors.
pub(super) fn demanded(wanted: u8, frame: &[u8]) -> Option<usize> {
    let [l2, l3, l4] = lengths(frame);
    let part = |bit, len| if wanted & bit != 0 { len } else { 0 };
    let sum = part(desc_req::L2, l2) + part(desc_req::L3, l3) + part(desc_req::L4, l4);
    (wanted & desc_req::WANTED != 0).then_some(sum.min(frame.len()))
}

/// Returns true if the descriptors behind a transmit descriptor can be header descriptors.
pub(super) fn are_headers(entries: &[[u8; DESCRIPTOR]]) -> bool {
    let Some((head, more)) = entries.split_first() else { return true };
    let h = Hdr::of(*head);
    let next = |e: &[u8; DESCRIPTOR]| {
        let x = HdrExt::of(*e);
        x.first == first::VALID && x.kind == desc::HDR_EXT && usize::from(x.len) <= HDR_EXT_DATA
    };
    h.first == first::VALID
        && h.kind == desc::HDR
        && usize::from(h.len) <= HDR_DATA
        && more.iter().all(next)
}

/// The header descriptors of one frame, together.
#[derive(Debug, Default)]
pub(super) struct Headers {
    /// As the descriptors say.
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
    pub(super) fn parse(entries: &[[u8; DESCRIPTOR]], mut data: Vec<u8>) -> Option<Headers> {
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

    /// Returns true if there are any.
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
