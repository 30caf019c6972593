//! Header descriptors: copies of a frame's headers, for a server that requests them.
//!
//! Source: ibmvnic.c `get_hdr_lens`, `create_hdr_descs`, `build_hdr_descs_arr`.
//!
//! The lengths of the selected layers are added up, and that many bytes from the start of the frame
//! are sent: 24 in the first descriptor, 29 in each further one. As in Linux, a selection without
//! L2 therefore sends L2's bytes and cuts L4's.

use doorbell_layout::ibmvnic::headers::{lengths, selected};
use doorbell_layout::ibmvnic::{DESCRIPTOR, HDR_DATA, HDR_EXT_DATA, Hdr, HdrExt, desc, first};
use zerocopy::byteorder::big_endian::U16;

/// Most header bytes (`hdr_data`).
pub(super) const MAX: usize = 140;
/// Descriptors for those.
pub(super) const MAX_DESCRIPTORS: usize = 1 + (MAX - HDR_DATA).div_ceil(HDR_EXT_DATA);

/// Appends the descriptors that `wanted`, a byte of the server's request, asks for of the frame
/// that begins with `b`. Returns how many descriptors and header bytes.
pub(super) fn build(wanted: u8, b: &[u8], to: &mut [[u8; DESCRIPTOR]]) -> (usize, usize) {
    let [l2, l3, l4] = lengths(b);
    let Some(sum) = selected(wanted, [l2, l3, l4]) else { return (0, 0) };
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
        let (first, kind, data) = (first::VALID, desc::HDR_EXT, [0; HDR_EXT_DATA]);
        let mut x = HdrExt { first, kind, len: len as u8, data };
        x.data[..len].copy_from_slice(part);
        to[n] = x.bytes();
        n += 1;
    }
    (n, data.len())
}
