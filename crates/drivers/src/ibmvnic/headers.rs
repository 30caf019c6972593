//! Header descriptors: copies of a frame's headers, for a server that requests them.
//!
//! Source: ibmvnic.c `get_hdr_lens`, `create_hdr_descs`, `build_hdr_descs_arr`.
//!
//! The lengths of the selected layers are added up, and that many bytes from the start of the frame
//! are sent: 24 in the first descriptor, 29 in each further one. As in Linux, a selection without
//! L2 therefore sends L2's bytes and cuts L4's.

use doorbell_layout::ibmvnic::{
    DESCRIPTOR, HDR_DATA, HDR_EXT_DATA, Hdr, HdrExt, desc, desc_req, first,
};
use zerocopy::byteorder::big_endian::U16;

/// Most header bytes (`hdr_data`).
pub(super) const MAX: usize = 140;
/// Descriptors for those.
pub(super) const MAX_DESCRIPTORS: usize = 1 + (MAX - HDR_DATA).div_ceil(HDR_EXT_DATA);

/// Returns the lengths of the Ethernet, IP and transport headers of a frame that begins with `b`.
fn lengths(b: &[u8]) -> [usize; 3] {
    let at = |i: usize| b.get(i).copied().unwrap_or(0);
    let tagged = (at(12), at(13)) == (0x81, 0x00);
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

/// Builds the descriptors that `wanted`, a byte of the server's request, selects of a frame that
/// begins with `b`. Returns the number of descriptors and of header bytes.
pub(super) fn build(wanted: u8, b: &[u8], to: &mut [[u8; DESCRIPTOR]]) -> (usize, usize) {
    if wanted & desc_req::WANTED == 0 {
        return (0, 0);
    }
    let [l2, l3, l4] = lengths(b);
    let part = |bit: u8, len: usize| if wanted & bit != 0 { len } else { 0 };
    let sum = part(desc_req::L2, l2) + part(desc_req::L3, l3) + part(desc_req::L4, l4);
    let data = &b[..sum.min(b.len()).min(MAX)];
    let (head, more) = data.split_at(data.len().min(HDR_DATA));
    let mut h = Hdr {
        first: first::VALID,
        kind: desc::HDR,
        len: head.len() as u8,
        l2_len: l2 as u8,
        l3_len: U16::new(l3 as u16),
        l4_len: l4 as u8,
        flag: wanted << 1,
        data: [0; HDR_DATA],
    };
    h.data[..head.len()].copy_from_slice(head);
    to[0] = h.bytes();
    let mut n = 1;
    for part in more.chunks(HDR_EXT_DATA) {
        let len = part.len();
        let mut x = HdrExt {
            first: first::VALID,
            kind: desc::HDR_EXT,
            len: len as u8,
            data: [0; HDR_EXT_DATA],
        };
        x.data[..len].copy_from_slice(part);
        to[n] = x.bytes();
        n += 1;
    }
    (n, data.len())
}
