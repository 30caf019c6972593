//! Reading pcap, and what any file may have wrong.

use super::super::{Fault, Frame, read, read_within};
use super::*;
use proptest::prelude::*;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;

proptest! {
    #[test]
    fn every_frame_comes_back_in_both_byte_orders_and_both_resolutions(
        big: bool, nano: bool,
        packets in prop::collection::vec((any::<u32>(), 0..1_000_000u32, 14..200usize), 1..20),
    ) {
        let order = Order { big };
        let (magic, unit) = if nano { (NANO, 1) } else { (MICRO, 1_000) };
        let mut file = vec![order.pcap(magic, ETHERNET)];
        file.extend(packets.iter().map(|&(s, f, n)| order.record(s, f, &frame(n))));
        let ns: Vec<u64> = packets
            .iter()
            .map(|&(s, f, _)| u64::from(s) * 1_000_000_000 + u64::from(f) * unit)
            .collect();
        let earliest = *ns.iter().min().unwrap();
        let c = good(&file);
        let expect: Vec<_> =
            packets.iter().zip(&ns).map(|(p, t)| (t - earliest, frame(p.2))).collect();
        prop_assert_eq!(content(&c), expect);
        prop_assert_eq!(c.backwards, ns.windows(2).filter(|w| w[1] < w[0]).count() as u64);
        prop_assert_eq!(c.untimed, 0);
    }

    #[test]
    fn no_bytes_make_it_panic(
        start in prop::sample::select(vec![
            MICRO.to_le_bytes(),
            MICRO.to_be_bytes(),
            NANO.to_le_bytes(),
            [0x0a, 0x0d, 0x0d, 0x0a],
            [0; 4],
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = read_from("x.cap", &[&start[..], &rest].concat()[..]);
    }

    #[test]
    fn no_damage_to_a_good_file_makes_it_panic(
        ng: bool,
        big: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let order = Order { big };
        let mut file = if ng { super::ng::one_of_each(order) } else { two(order) }.concat();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Ok(c) = read_from("x.cap", &file[..]) {
            prop_assert_eq!(c.iter().map(|(_, b)| b.len()).sum::<usize>(), c.bytes.len());
        }
    }
}

fn two(order: Order) -> Vec<Vec<u8>> {
    vec![
        order.pcap(MICRO, ETHERNET),
        order.record(7, 1, &frame(60)),
        order.record(7, 3, &frame(61)),
    ]
}

#[test]
fn the_format_is_told() {
    let of = |magic| good(&[BIG.pcap(magic, ETHERNET), BIG.record(0, 0, &frame(60))]).format;
    assert_eq!(of(MICRO).to_string(), "pcap, microseconds");
    assert_eq!(of(NANO).to_string(), "pcap, nanoseconds");
}

#[test]
fn frames_lie_one_after_the_other_in_the_arena() {
    let c = good(&two(BIG));
    assert_eq!(
        c.frames,
        [
            Frame { at_ns: 0, start: 0, len: 60, number: 1 },
            Frame { at_ns: 2_000, start: 60, len: 61, number: 2 }
        ]
    );
    assert_eq!(c.bytes, [frame(60), frame(61)].concat());
}

#[test]
fn a_file_that_is_cut_short_says_where() {
    cut_anywhere(&two(LITTLE));
    let mut file = two(LITTLE);
    file[2].truncate(50);
    let c = good(&file);
    assert_eq!((c.frames.len(), c.cut_short), (1, Some(100)));
    file.remove(1);
    assert_eq!(
        bad(&file),
        "x.cap: byte 24, packet 1: the file is cut short: 50 bytes are left of 77"
    );
}

#[test]
fn a_frame_before_the_first_keeps_its_distance() {
    let file = [
        LITTLE.pcap(NANO, ETHERNET),
        LITTLE.record(5, 9, &frame(14)),
        LITTLE.record(5, 2, &frame(15)),
    ];
    let c = good(&file);
    assert_eq!(content(&c), [(7, frame(14)), (0, frame(15))]);
    assert_eq!(c.backwards, 1);
}

#[test]
fn a_link_type_other_than_ethernet_is_named() {
    let file = [LITTLE.pcap(MICRO, 105), LITTLE.record(0, 0, &frame(60))];
    assert_eq!(
        bad(&file),
        "x.cap: byte 24, packet 1: link type 105 (IEEE 802.11) cannot be replayed; allowed are \
         1 (Ethernet), 113 and 276 (Linux cooked), and with IP inside 101, 228 and 229 (raw), 0 \
         and 108 (loopback), 9 and 50 (PPP), 104 (Cisco HDLC)"
    );
}

#[test]
fn a_snapped_packet_is_named() {
    let mut file = two(BIG);
    file[2] = [BIG.words(&[7, 3, 61, 1514]), frame(61)].concat();
    assert_eq!(
        bad(&file),
        "x.cap: byte 100, packet 2: only 61 of the packet's 1514 bytes were captured; fill it with \
         zeros (--pad), or capture with a larger snap length (tcpdump -s 0)"
    );
    let c = super::super::read_from("x.cap", &file.concat()[..], PAD).unwrap();
    let mut filled = frame(61);
    filled.resize(1514, 0);
    assert_eq!((content(&c)[1].1.clone(), c.padded), (filled, 1));
    // A frame's header has to be there.
    file[2] = [BIG.words(&[7, 3, 13, 1514]), frame(13)].concat();
    let e = super::super::read_from("x.cap", &file.concat()[..], PAD).unwrap_err();
    assert!(matches!(e.why, Fault::Snapped { captured: 13, original: 1514 }), "{e}");
}

#[test]
fn an_fcs_that_was_not_captured_is_not_filled_in() {
    let link = ETHERNET | 1 << 26 | 2 << 28;
    for (captured, len) in [(61, 1510), (1512, 1510), (1514, 1510)] {
        let record = [LITTLE.words(&[0, 0, captured, 1514]), frame(captured as usize)].concat();
        let file = [LITTLE.pcap(MICRO, link), record].concat();
        let c = super::super::read_from("x.cap", &file[..], PAD).unwrap();
        let known = captured.min(len) as usize;
        assert_eq!((c.frames[0].len, &c.bytes[..known]), (len, &frame(captured as usize)[..known]));
        assert!(c.bytes[known..].iter().all(|b| *b == 0));
    }
}

#[test]
fn the_header_may_say_that_frames_end_in_an_fcs() {
    let words = |n: u32| ETHERNET | 1 << 26 | n << 28;
    let file = |link| [LITTLE.pcap(MICRO, link), LITTLE.record(0, 0, &frame(64))];
    assert_eq!(good(&file(words(2))).bytes, frame(64)[..60]);
    assert_eq!(good(&file(words(0))).bytes, frame(64));
    assert_eq!(
        good(&file(ETHERNET | 2 << 28)).bytes,
        frame(64),
        "a length without the flag says nothing"
    );
    assert_eq!(
        bad(&file(words(1))),
        "x.cap: byte 0, packet 1: frame check sequences of 1 16-bit words (pcap header); \
         Ethernet has none captured, \
         or 4 bytes"
    );
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    assert_eq!(
        bad(&[b"# speed = 10\n".to_vec()]),
        "x.cap: not a capture file: it starts with 23 20 73 70; allowed are pcap \
         (microseconds or nanoseconds) and pcapng, each also in gzip or zstd"
    );
    assert_eq!(bad(&[]), "x.cap: the capture has no packets");
    assert_eq!(bad(&two(LITTLE)[..1]), "x.cap: the capture has no packets");
    let mut old = two(LITTLE);
    old[0][6] = 2;
    assert_eq!(
        bad(&old),
        "x.cap: byte 0, packet 1: format version 2.2; allowed are pcap 2.4 and pcapng 1.x"
    );
}

#[test]
fn a_length_that_no_frame_has_is_refused_before_it_is_read() {
    let file = [LITTLE.pcap(MICRO, ETHERNET), LITTLE.words(&[0, 0, u32::MAX, u32::MAX])];
    assert_eq!(
        bad(&file),
        "x.cap: byte 24, packet 1: a frame of 4294967295 bytes without FCS; \
         allowed are 14 to 262144"
    );
    let file = [LITTLE.pcap(MICRO, ETHERNET), LITTLE.record(0, 0, &frame(13))];
    assert_eq!(
        bad(&file),
        "x.cap: byte 24, packet 1: a frame of 13 bytes without FCS; allowed are 14 to 262144"
    );
}

#[test]
fn a_capture_larger_than_the_limit_is_refused() {
    let file = two(LITTLE).concat();
    assert!(read_within("x.cap".as_ref(), &file[..], Reading::default(), 169).is_ok());
    let e = read_within("x.cap".as_ref(), &file[..], Reading::default(), 168).unwrap_err();
    assert!(
        matches!(e, crate::pcap::CaptureError { packet: 2, why: Fault::TooBig(168), .. }),
        "{e}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let e = read("/nonexistent/x.cap").unwrap_err();
    assert_eq!(e.to_string(), "/nonexistent/x.cap: No such file or directory (os error 2)");
    assert!(read("/").unwrap_err().to_string().contains("directory"));
}
