//! Reading pcapng.

use super::*;
use proptest::prelude::*;

const ETHERNET: u16 = 1;
const END: u16 = 0;
const FLAGS: u16 = 2;
const TSRESOL: u16 = 9;
const FCSLEN: u16 = 13;
const TSOFFSET: u16 = 14;

/// Every kind of block, in two sections.
pub(super) fn one_of_each(o: Order) -> Vec<Vec<u8>> {
    vec![
        o.section(),
        o.interface(
            ETHERNET,
            0,
            &[o.option(2, b"eth0"), o.option(TSRESOL, &[9]), o.option(END, &[])],
        ),
        o.block(4, &[0; 8]), // name resolution
        o.enhanced(0, 1_000, &frame(61), &[o.option(1, b"a comment"), o.option(END, &[])]),
        o.old(0, 2_500, &frame(62), &[]),
        o.simple(&frame(63), 63),
        o.block(5, &o.words(&[0, 0, 0])), // interface statistics
        o.block(0xbad, &o.words(&[32_473, 1, 2, 3])),
        o.section(),
        o.interface(ETHERNET, 0, &[]),
        o.enhanced(0, 9, &frame(64), &[]),
    ]
}

#[test]
fn all_three_kinds_of_packet_block_are_read_in_both_byte_orders() {
    for o in [LITTLE, BIG] {
        let c = good(&one_of_each(o));
        assert_eq!(
            content(&c),
            [(0, frame(61)), (1_500, frame(62)), (1_500, frame(63)), (8_000, frame(64))]
        );
        assert_eq!((c.backwards, c.untimed), (0, 1));
    }
}

#[test]
fn a_section_may_change_the_byte_order_and_forgets_the_interfaces() {
    let c = good(&[one_of_each(BIG), one_of_each(LITTLE)].concat());
    assert_eq!(c.frames.len(), 8);
    let mut file = one_of_each(LITTLE);
    file.remove(9);
    assert_eq!(
        bad(&file),
        format!(
            "x.cap: byte {}, packet 4: the packet is of interface 0, but its section \
             describes 0, counted from 0",
            file[..9].concat().len()
        )
    );
}

#[test]
fn a_pipe_that_gives_a_few_bytes_at_a_time_is_read_the_same() {
    struct Pipe<'a>(&'a [u8], usize);
    impl std::io::Read for Pipe<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1 % 7 + 1;
            let n = self.1.min(into.len());
            self.0.read(&mut into[..n])
        }
    }
    let file = one_of_each(BIG).concat();
    assert_eq!(read_from("x.cap", Pipe(&file, 0)).unwrap(), read_from("x.cap", &file[..]).unwrap());
    for n in 1..file.len() {
        let (slow, fast) =
            (read_from("x.cap", Pipe(&file[..n], 0)), read_from("x.cap", &file[..n]));
        assert_eq!(slow.map_err(|e| e.to_string()), fast.map_err(|e| e.to_string()), "cut at {n}");
    }
}

#[test]
fn a_file_that_is_cut_short_says_where() {
    cut_anywhere(&one_of_each(LITTLE));
    cut_anywhere(&one_of_each(BIG));
}

/// Interface clocks: (if_tsresol, if_tsoffset), and a nanosecond in its ticks
/// per 10^9 nanoseconds.
fn clocks(o: Order) -> [(Vec<Vec<u8>>, u128, i64); 5] {
    [
        (vec![], 1_000_000, 0),
        (vec![o.option(TSRESOL, &[3])], 1_000, 0),
        (vec![o.option(TSRESOL, &[12]), o.option(TSOFFSET, &o.i64(-3))], 1_000_000_000_000, -3),
        (
            vec![o.option(TSOFFSET, &o.i64(1 << 30)), o.option(TSRESOL, &[9])],
            1_000_000_000,
            1 << 30,
        ),
        (vec![o.option(TSRESOL, &[0x80 | 32])], 1 << 32, 0),
    ]
}

proptest! {
    #[test]
    fn each_interface_has_its_own_clock(
        big: bool,
        packets in prop::collection::vec(
            (0..5u32, any::<u32>(), any::<bool>(), 14..100usize),
            1..20,
        ),
    ) {
        let o = Order { big };
        let clocks = clocks(o);
        let mut file = vec![o.section()];
        file.extend(clocks.iter().map(|c| o.interface(ETHERNET, 0, &c.0)));
        file.extend(packets.iter().map(|&(i, ticks, old, n)| {
            let ticks = u64::from(ticks) << 8;
            if old {
                o.old(i as u16, ticks, &frame(n), &[])
            } else {
                o.enhanced(i, ticks, &frame(n), &[])
            }
        }));
        let ns: Vec<i128> = packets.iter().map(|&(i, ticks, ..)| {
            let (_, per_second, offset) = clocks[i as usize];
            ((u128::from(ticks) << 8) * 1_000_000_000 / per_second) as i128
                + i128::from(offset) * 1_000_000_000
        }).collect();
        let earliest = ns.iter().min().unwrap();
        let expect: Vec<_> =
            packets.iter().zip(&ns).map(|(p, t)| ((t - earliest) as u64, frame(p.3))).collect();
        prop_assert_eq!(content(&good(&file)), expect);
    }
}

#[test]
fn times_centuries_apart_are_refused() {
    let file =
        [LITTLE.section(), LITTLE.interface(ETHERNET, 0, &[LITTLE.option(TSRESOL, &[0])])].concat();
    let at = |t| LITTLE.enhanced(0, t, &frame(60), &[]);
    let file = |t| [file.clone(), at(0), at(t)];
    assert_eq!(good(&file(9_223_372_036)).frames[1].at_ns, 9_223_372_036_000_000_000);
    assert!(
        bad(&file(9_223_372_037)).ends_with(
            "packet 2: the file is damaged: its time is centuries away from the first's"
        )
    );
}

#[test]
fn a_resolution_beyond_64_bits_is_refused() {
    let file =
        |n| [LITTLE.section(), LITTLE.interface(ETHERNET, 0, &[LITTLE.option(TSRESOL, &[n])])];
    for n in [0x14, 0x7f, 0xc0, 0xff] {
        assert!(bad(&file(n)).contains("(if_tsresol); allowed are 0x00 to 0x13 (powers of ten)"));
    }
    assert_eq!(bad(&file(0x13)), "x.cap: the capture has no packets");
}

#[test]
fn an_fcs_is_stripped_where_interface_or_packet_say_so() {
    for o in [LITTLE, BIG] {
        let file = |fcslen: u8, flags: u32| {
            let options = [o.option(FLAGS, &o.u32(flags)), o.option(END, &[])];
            let of_interface = [o.option(FCSLEN, &[fcslen]), o.option(END, &[])];
            [
                o.section(),
                o.interface(ETHERNET, 0, &of_interface),
                o.enhanced(0, 0, &frame(64), &options),
                o.old(0, 0, &frame(65), &options),
            ]
        };
        let lengths = |f: &[Vec<u8>]| good(f).frames.iter().map(|f| f.len).collect::<Vec<_>>();
        assert_eq!(lengths(&file(0, 0)), [64, 65]);
        assert_eq!(lengths(&file(32, 0)), [60, 61], "in bits, as the text has it");
        assert_eq!(lengths(&file(4, 0)), [60, 61], "in bytes, as the example has it");
        assert_eq!(lengths(&file(0, 4 << 5)), [60, 61], "the packet overrides");
        assert!(bad(&file(16, 0)).contains("frame check sequences of 16 bits (if_fcslen)"));
        assert!(
            bad(&file(0, 2 << 5))
                .contains("packet 1: frame check sequences of 2 bytes (packet flags)")
        );
    }
}

#[test]
fn an_idle_interface_may_be_of_any_link_type() {
    let mut file = vec![
        LITTLE.section(),
        LITTLE.interface(ETHERNET, 0, &[]),
        LITTLE.interface(127, 0, &[]),
        LITTLE.enhanced(0, 0, &frame(60), &[]),
    ];
    assert_eq!(good(&file).frames.len(), 1);
    file.push(LITTLE.enhanced(1, 0, &frame(60), &[]));
    assert!(
        bad(&file)
            .contains("packet 2: link type 127 (IEEE 802.11 with radiotap) cannot be replayed")
    );
}

#[test]
fn a_simple_packet_is_cut_at_the_interfaces_snap_length() {
    let file = |snap| {
        [LITTLE.section(), LITTLE.interface(ETHERNET, snap, &[]), LITTLE.simple(&frame(60), 61)]
    };
    assert!(bad(&file(60)).contains("packet 1: only 60 of the packet's 61 bytes were captured"));
    assert_eq!(
        good(&[file(61)[..2].to_vec(), vec![LITTLE.simple(&frame(61), 61)]].concat()).bytes,
        frame(61)
    );
}

#[test]
fn a_block_that_lies_is_damaged_and_not_cut_short() {
    let damaged = |at: usize, byte: u8| {
        let mut file = one_of_each(LITTLE);
        file[3][at] = byte;
        bad(&file)
    };
    assert!(
        damaged(4, 107)
            .ends_with("the file is damaged: a block length is below 12 or not a multiple of 4")
    );
    assert!(
        damaged(20, 200)
            .ends_with("the file is damaged: a block's content does not fit its length")
    );
    let len = one_of_each(LITTLE)[3].len();
    assert!(damaged(len - 4, 0).ends_with("the file is damaged: a block's two lengths differ"));
}

#[test]
fn blocks_of_other_kinds_may_be_of_any_size() {
    let file = [
        LITTLE.section(),
        LITTLE.block(10, &vec![7; 17 << 20]),
        LITTLE.interface(ETHERNET, 0, &[]),
    ]
    .concat();
    assert_eq!(good(&[file, LITTLE.enhanced(0, 0, &frame(60), &[])]).frames.len(), 1);
}

#[test]
fn interfaces_of_a_section_have_a_bound() {
    let mut file = vec![LITTLE.section()];
    file.extend(vec![LITTLE.interface(ETHERNET, 0, &[]); 1 << 16]);
    file.push(LITTLE.enhanced(65_535, 0, &frame(60), &[]));
    assert_eq!(good(&file).frames.len(), 1);
    file.push(LITTLE.interface(ETHERNET, 0, &[]));
    assert!(bad(&file).contains("a section describes more than 65536 interfaces"));
    // Each section has its own.
    file.pop();
    file.extend([LITTLE.section(), LITTLE.interface(ETHERNET, 0, &[])]);
    assert_eq!(good(&file).frames.len(), 1);
}
