//! The 82574: descriptors that split packets.

use super::super::Config;
use super::{BUFFERS, Bench, RX_RING, frame};
use alloc::vec::Vec;
use doorbell_layout::e1000::*;

const DD: u32 = Rx::DD as u32;
const EOP: u32 = Rx::EOP as u32;
const SPLIT: u32 = RCTL_EN | RCTL_BAM | RCTL_UPE | RCTL_SECRC | RCTL_LPE | RCTL_DTYP_SPLIT;

/// A card with `n` descriptors of 128 bytes and three pages, or fewer.
fn up(n: u64, psrctl: u32) -> Bench {
    let mut b = Bench::up(Config::I82574L);
    b.write(reg::RFCTL, RFCTL_EXTEN);
    b.write(reg::RXCSUM, RXCSUM_PCSD);
    b.write(reg::PSRCTL, psrctl);
    b.write(reg::RCTL, SPLIT);
    for i in 0..n {
        for buffer in 0..4 {
            let to = BUFFERS + (i * 4 + buffer) * 0x1000;
            b.put(RX_RING + i * 32 + buffer * 8, &to.to_le_bytes());
        }
    }
    b.write(reg::RDT, 2 * n as u32);
    b
}

const PAGES: u32 = 1 | 4 << 8 | 4 << 16 | 4 << 24;

/// A UDP frame of this length, whose headers are 42 bytes.
fn udp(len: usize) -> Vec<u8> {
    let mut f = frame(len);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0, 76, 0, 0, 0, 0, 64, 17]);
    f
}

/// Returns descriptor `i`: status, the bytes in its buffers, the field of the headers, and all
/// those bytes.
fn written(b: &Bench, i: usize) -> (u32, [u16; 4], u16, Vec<u8>) {
    let at = RX_RING as usize + i * 32;
    let half = |at| b.p.memory[at..at + 16].try_into().unwrap();
    let (d, more) = (RxExtended::of(half(at)), RxSplit::of(half(at + 16)));
    let lengths = [d.length, more.length1, more.length2, more.length3].map(|n| n.get());
    let mut bytes = Vec::new();
    for (buffer, n) in lengths.iter().enumerate() {
        let at = BUFFERS as usize + (i * 4 + buffer) * 0x1000;
        bytes.extend_from_slice(&b.p.memory[at..at + usize::from(*n)]);
    }
    (d.status.get() & 0xff, lengths, more.header.get(), bytes)
}

#[test]
fn headers_are_alone_in_the_first_buffer() {
    let mut b = up(4, PAGES);
    let f = udp(9000);
    b.receive(&f);
    b.settle();
    let (status, lengths, header, bytes) = written(&b, 0);
    assert_eq!((status & 3, lengths), (DD | EOP, [42, 4096, 4096, 766]));
    assert_eq!((header, bytes), (RxSplit::HDRSP | 42, f));
    assert_eq!(b.read(reg::RDH), 2, "two places of 16 bytes");
    assert_eq!(b.p.writes.last().map(|w| (w.1, w.2)), Some((RX_RING, 32)), "in one write");
}

#[test]
fn other_frames_fill_one_buffer_after_the_other() {
    let fragment = {
        let mut f = udp(300);
        f[20] = 0x20;
        f
    };
    // No headers, headers that are longer than the first buffer, and headers that are not split.
    for (f, psrctl, rfctl, first) in [
        (frame(300), PAGES, 0, 128),
        (udp(300), PAGES & !0x7f, 0, 0),
        (fragment, PAGES, RFCTL_IPFRSP_DIS, 128),
    ] {
        let mut b = up(4, psrctl);
        b.write(reg::RFCTL, RFCTL_EXTEN | rfctl);
        b.receive(&f);
        b.settle();
        let (status, lengths, header, bytes) = written(&b, 0);
        assert_eq!((status & 3, lengths), (DD | EOP, [first, 300 - first, 0, 0]));
        assert_eq!((header, bytes), (0, f));
    }
}

#[test]
fn a_long_frame_leaves_the_first_buffers_of_further_descriptors() {
    // One page a descriptor; all ones is no buffer.
    let mut b = up(4, 1 | 4 << 8 | 4 << 16);
    for i in 0..4 {
        b.put(RX_RING + i * 32 + 16, &[0xff; 16]);
    }
    let f = udp(9000);
    b.receive(&f);
    b.settle();
    let all: Vec<_> = (0..3).map(|i| written(&b, i)).collect();
    assert_eq!(all[0].1, [42, 4096, 0, 0]);
    assert_eq!((all[1].0 & 3, all[1].1), (DD, [0, 4096, 0, 0]));
    assert_eq!((all[2].0 & 3, all[2].1), (DD | EOP, [0, 766, 0, 0]));
    assert_eq!(all.into_iter().flat_map(|d| d.3).collect::<Vec<_>>(), f);
}

#[test]
fn half_a_descriptor_is_none() {
    let mut b = up(4, PAGES);
    b.write(reg::RDT, 1);
    b.write(reg::RDH, 0);
    b.receive(&udp(100));
    b.settle();
    assert_eq!(b.read(reg::RDH), 0);
    b.write(reg::RDT, 2);
    b.settle();
    assert_eq!((b.read(reg::RDH), written(&b, 0).0 & 3), (2, DD | EOP));
}

#[test]
fn a_descriptor_without_room_is_done_and_empty() {
    for (psrctl, first) in [(PAGES, 0u64), (0, BUFFERS)] {
        let mut b = up(4, psrctl);
        b.put(RX_RING, &first.to_le_bytes());
        b.receive(&udp(100));
        b.settle();
        let (status, lengths, header, _) = written(&b, 0);
        assert_eq!((status & 3, lengths, header), (DD, [0; 4], 0));
    }
}

#[test]
fn without_extended_descriptors_nothing_is_split() {
    let mut b = up(4, PAGES);
    b.write(reg::RFCTL, 0);
    b.receive(&udp(100));
    b.settle();
    assert_eq!((b.read(reg::RDH), b.rx(0).length.get()), (1, 100));
}

#[test]
fn a_flexible_buffer_has_its_size_in_kib() {
    let mut b = Bench::up(Config::I82574L);
    b.write(reg::RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC | RCTL_LPE | 3 << RCTL_FLXBUF_SHIFT);
    b.post(8);
    b.receive(&frame(4000));
    b.settle();
    assert_eq!([0, 1].map(|i| b.rx(i).length.get()), [3072, 928]);
}
