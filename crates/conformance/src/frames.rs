//! Frames of every kind that NICs and drivers distinguish, from another station.

use doorbell_packet::{OffloadRequest, vlan};
use doorbell_packet::{checksum::Sum, headers, segment};

/// Another station.
pub const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];

/// A frame of no protocol, whose bytes tell its length.
pub fn plain(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &PEER, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..len).map(|i| (i * 7 + i / 256 + len) as u8));
    frame
}

/// A frame of TCP or UDP over IPv4 or IPv6, with right checksums.
pub fn ip(to: [u8; 6], v4: bool, udp: bool, payload: usize) -> Vec<u8> {
    let l4 = if udp { 8 } else { 20 } + payload;
    let protocol = if udp { 17 } else { 6 };
    let mut f = [&to[..], &PEER].concat();
    if v4 {
        f.extend([8, 0, 0x45, 0]);
        f.extend(((20 + l4) as u16).to_be_bytes());
        f.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = Sum::of(&f[14..34]).checksum();
        f[24..26].copy_from_slice(&check.to_be_bytes());
    } else {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((l4 as u16).to_be_bytes());
        f.extend([protocol, 64]);
        f.extend([[0xfd; 16], [0xfc; 16]].concat());
    }
    f.extend([0x30, 0x39, 0x16, 0x2e]);
    if udp {
        f.extend((l4 as u16).to_be_bytes());
        // Anything but 0, which would say that there is none.
        f.extend([1, 0]);
    } else {
        f.extend([0x01, 0x02, 0x03, 0x04, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 13 + i / 256) as u8));
    headers::prepare_partial(&mut f).unwrap().complete(&mut f).unwrap();
    f
}

/// The same with a tag in the frame.
pub fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let mut f = vec![0; frame.len() + vlan::TAG];
    vlan::insert_into(&mut f, frame, tci);
    f
}

/// Prepares a frame with deferred checksum.
pub fn partial(frame: &[u8]) -> (Vec<u8>, OffloadRequest) {
    let mut f = frame.to_vec();
    let checksum = headers::prepare_partial(&mut f);
    (f, OffloadRequest { checksum, ..OffloadRequest::NONE })
}

/// Prepares a frame with deferred segmentation.
pub fn large(frame: &[u8], mss: u16) -> (Vec<u8>, OffloadRequest) {
    let mut f = frame.to_vec();
    let todo = segment::prepare_gso(&mut f, mss).unwrap();
    (f, todo)
}
