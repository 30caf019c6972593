use super::*;
use crate::segment::{Segments, prepare_gso};
use crate::tests::{Frame, any_frame};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// The second of two segments must not join the first after `change`.
fn stays_apart(change: impl Fn(&mut Frame)) {
    let first = Frame::tcp4(100);
    let mut second = Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() };
    let mut out = [0; 400];
    assert!(
        Merge::start(&mut out, &first.build()).unwrap().add(&second.build()),
        "without the change it joins"
    );
    change(&mut second);
    assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second.build()));
}

#[test]
fn a_segment_that_does_not_follow_on_stays_apart() {
    stays_apart(|f| f.seq ^= 1);
    stays_apart(|f| f.id ^= 1);
    stays_apart(|f| f.flags |= CWR);
    stays_apart(|f| f.flags |= SYN);
    stays_apart(|f| f.flags = 0x50);
    stays_apart(|f| f.tcp_options = 4);
    stays_apart(|f| f.ip_options = 4);
    stays_apart(|f| f.tags = 1);
    stays_apart(|f| f.payload.push(0));
    stays_apart(|f| f.payload.clear());
}

#[test]
fn a_segment_with_a_wrong_checksum_stays_apart() {
    let first = Frame::tcp4(100);
    let mut second =
        Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() }.build();
    second[80] ^= 1;
    let mut out = [0; 400];
    assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second));
}

#[test]
fn nothing_follows_psh_or_a_short_segment() {
    let first = Frame::tcp4(100);
    let next = |f: &Frame| Frame {
        id: f.id.wrapping_add(1),
        seq: f.seq.wrapping_add(f.payload.len() as u32),
        ..first.clone()
    };
    let mut out = [0; 600];
    let psh = Frame { flags: 0x18, ..first.clone() };
    assert!(!Merge::start(&mut out, &psh.build()).unwrap().add(&next(&psh).build()));
    let mut short = next(&first);
    short.payload.truncate(40);
    let mut m = Merge::start(&mut out, &first.build()).unwrap();
    assert!(m.add(&short.build()));
    assert!(!m.add(&next(&short).build()));
    assert_eq!(m.segments(), 2);
}

/// The bytes of `frame` after `change` to an IPv4 header without tags, with its checksum made anew.
fn with_header(frame: &Frame, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = frame.build();
    change(&mut bytes);
    write_ipv4_checksum(&mut bytes, 14);
    bytes
}

#[test]
fn addresses_and_classes_that_differ_stay_apart() {
    // Bytes of the frame: destination station, TOS, DF, TTL. None is under the TCP checksum.
    for at in [5, 15, 20, 22] {
        let first = Frame::tcp4(100);
        let second = Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() };
        let mut out = [0; 400];
        let second = with_header(&second, |b| b[at] ^= 0x40);
        assert_eq!(verify(&second).transport, Check::Good);
        assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second), "byte {at}");
    }
    // Destination station, traffic class, flow label, hop limit.
    for at in [5, 15, 17, 21] {
        let first = Frame::tcp6(100);
        let second = Frame { seq: first.seq.wrapping_add(100), ..first.clone() };
        let mut out = [0; 400];
        let mut second = second.build();
        second[at] ^= 0x04;
        assert_eq!(verify(&second).transport, Check::Good);
        assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second), "byte {at}");
    }
}

#[test]
fn another_host_s_segment_stays_apart() {
    let first = Frame::tcp4(100);
    let second = Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() };
    // Two words of the addresses exchanged: neither checksum changes.
    let second = with_header(&second, |b| b[26..34].rotate_left(2));
    assert_eq!((verify(&second).ip, verify(&second).transport), (Check::Good, Check::Good));
    let mut out = [0; 400];
    assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second));
}

#[test]
fn syn_rst_and_urg_begin_no_merge() {
    let mut out = [0; 400];
    for flag in [SYN, RST, URG] {
        let frame = Frame { flags: 0x10 | flag, ..Frame::tcp4(100) }.build();
        assert!(Merge::start(&mut out, &frame).is_none(), "{flag:#x}");
    }
}

#[test]
fn padding_and_no_payload_begin_no_merge() {
    let mut out = [0; 400];
    let mut padded = Frame::tcp4(100).build();
    padded.push(0);
    assert!(Merge::start(&mut out, &padded).is_none());
    assert!(Merge::start(&mut out, &Frame::tcp4(0).build()).is_none());
}

#[test]
fn a_merge_fills_ip_s_length_and_stops() {
    // Headers of 40 bytes, and 5 times 13099: together 65535.
    let first = Frame::tcp4(13_099);
    let nth = |n: u16, len| Frame {
        id: first.id.wrapping_add(n),
        seq: first.seq.wrapping_add(13_099 * u32::from(n)),
        ..Frame::tcp4(len)
    };
    let mut out = vec![0; 70_000];
    let mut merge = Merge::start(&mut out, &first.build()).unwrap();
    for n in 1..5 {
        assert!(merge.add(&nth(n, 13_099).build()));
    }
    assert!(!merge.add(&nth(5, 1).build()));
    assert_eq!(merge.segments(), 5);
    assert_eq!(merge.finish().0, 14 + 0xffff);
}

#[test]
fn of_udp_64_datagrams_merge() {
    let nth = |f: &Frame, n: u32| {
        let seq = f.seq.wrapping_add(n);
        Frame { id: f.id.wrapping_add(n as u16), seq, ..f.clone() }.build()
    };
    for (first, most) in [(Frame::udp4(1), 64), (Frame::udp6(1), 64), (Frame::tcp4(1), 100)] {
        let mut out = [0; 200];
        let mut merge = Merge::start(&mut out, &nth(&first, 0)).unwrap();
        let added = (1..100).take_while(|n| merge.add(&nth(&first, *n))).count();
        assert_eq!(added + 1, most);
    }
}

#[test]
fn one_segment_alone_is_no_large_send() {
    let mut out = [0; 400];
    let (len, todo) = Merge::start(&mut out, &Frame::tcp4(100).build()).unwrap().finish();
    assert_eq!((len, todo.gso), (154, None));
    assert!(todo.checksum.is_some());
}

proptest! {
    #[test]
    fn merging_what_was_cut_gives_the_large_send_back(
        f in any_frame(2..900),
        size in any::<u16>(),
    ) {
        let len = f.payload.len() as u16;
        let least = if f.udp { len.div_ceil(DATAGRAMS as u16) } else { 1 };
        let size = (1 + size % (len - 1)).max(least);
        let mut whole = f.build();
        let todo = prepare_gso(&mut whole, size).unwrap();
        let mut segments = Segments::new(&whole, todo.gso.unwrap()).unwrap();
        let (mut out, mut merged) = (vec![0; segments.plan().longest()], vec![0; whole.len()]);
        let n = segments.next_into(&mut out).unwrap();
        let mut merge = Merge::start(&mut merged, &out[..n]).unwrap();
        while let Some(n) = segments.next_into(&mut out) {
            prop_assert!(merge.add(&out[..n]));
        }
        prop_assert_eq!(merge.finish(), (whole.len(), todo));
        prop_assert_eq!(merged, whole);
    }
}
