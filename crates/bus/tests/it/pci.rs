//! Conventional PCI: the POWER4 traces row by row, and properties of cutting.
//!
//! The rows are from a note of 16 March 2003 in Dierks, "RE: e1000 performance
//! hack for ppc64 (Power4)", linux-kernel, 13 June 2003.

use doorbell_bus::pci::{
    Command, Latencies, Operation, Pci, Protocol, Rules, Settings, Transaction, transactions,
};
use doorbell_bus::{Access, Bus, Ledger, Meter, Platform, ProtectionGranularity};
use doorbell_hal::{Direction, Iova, Port, Span, Time};
use proptest::collection::vec;
use proptest::prelude::*;

const FRAME: u32 = 1514;

fn power4() -> Rules {
    Rules::new(Settings::POWER4).unwrap()
}

fn list(rules: &Rules, operation: Operation, addr: u64, len: u32) -> Vec<(Command, u32)> {
    transactions(rules, operation, addr, len).map(|t| (t.command, t.bytes)).collect()
}

fn partial_lines(addr: u64) -> u32 {
    power4().writes(addr, FRAME).map(|t| t.partial_lines(128)).sum()
}

use Command::{Mr, Mrl, Mrm, Mw, Mwi};

#[test]
fn a_frame_sent_from_a_512_byte_boundary_takes_three_commands() {
    assert_eq!(
        list(&power4(), Operation::Read, 0x4800, FRAME),
        [(Mrm, 512), (Mrm, 512), (Mrm, 490)]
    );
}

#[test]
fn a_frame_sent_from_420a8_takes_five_commands() {
    let expected = [(Mrm, 344), (Mrm, 512), (Mrm, 512), (Mrl, 128), (Mr, 18)];
    assert_eq!(list(&power4(), Operation::Read, 0x420A8, FRAME), expected);
    let addresses: Vec<u64> = power4().reads(0x420A8, FRAME).map(|t| t.addr).collect();
    assert_eq!(addresses, [0x420A8, 0x42200, 0x42400, 0x42600, 0x42680]);
}

#[test]
fn a_frame_received_on_a_line_ends_in_one_partial_line() {
    assert_eq!(
        list(&power4(), Operation::Write, 0xEE800, FRAME),
        [(Mwi, 512), (Mwi, 512), (Mwi, 384), (Mw, 106)]
    );
    assert_eq!(partial_lines(0xEE800), 1);
}

/// The trace labels all three MWI, which only whole lines can be; sizes and partial lines are its.
#[test]
fn a_frame_received_at_2012_takes_three_commands_and_two_partial_lines() {
    assert_eq!(list(&power4(), Operation::Write, 0x2012, FRAME), [(Mw, 494), (Mw, 512), (Mw, 508)]);
    assert_eq!(partial_lines(0x2012), 2);
}

/// The fix proposed there, 128-byte alignment, reaches three commands on one line of four only.
#[test]
fn a_frame_on_a_line_takes_3_4_5_or_4_commands() {
    for (base, expected) in [(0x4800, 3), (0x4880, 4), (0x4900, 5), (0x4980, 4), (0x4A00, 3)] {
        assert_eq!(power4().reads(base, FRAME).count(), expected, "{base:#x}");
    }
}

/// The note has 10 commands with the old firmware. The rule gives 7 on every line, and never more
/// than 8.
#[test]
fn read_ahead_of_256_takes_seven_commands_on_a_line() {
    let old = Rules::new(Settings { boundary: 256, ..Settings::POWER4 }).unwrap();
    let count = |offset: u64| old.reads(0x4800 + offset, FRAME).count();
    assert_eq!([count(0), count(0x80), count(0x100), count(0x180)], [7, 7, 7, 7]);
    let all: Vec<usize> = (0..256).map(count).collect();
    assert_eq!((all.iter().min(), all.iter().max()), (Some(&7), Some(&8)));
}

/// Conventional PCI: five commands for 1514 bytes are 190 data clocks at 64 bits.
#[test]
fn the_unaligned_frame_is_190_data_clocks_in_five_commands() {
    let rules = power4();
    let clocks: u64 = rules.reads(0x420A8, FRAME).map(|t| rules.clocks(&t)).sum();
    assert_eq!(clocks, 190 + 5 * 4);
    let clocks: u64 = rules.writes(0x2012, FRAME).map(|t| rules.clocks(&t)).sum();
    assert_eq!(clocks, 190 + 3 * 3);
}

#[test]
fn pci_x_reads_a_frame_in_as_many_requests_as_mmrbc_says() {
    for (mmrbc, requests) in [(512, 3), (1024, 2), (2048, 1), (4096, 1)] {
        let protocol = Protocol::X { mmrbc, outstanding: 1 };
        let rules = Rules::new(Settings { protocol, mhz: 133, ..Settings::POWER4 }).unwrap();
        for addr in [0x4800, 0x420A8] {
            assert_eq!(rules.reads(addr, FRAME).count(), requests, "MMRBC {mmrbc} at {addr:#x}");
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let conventional = any::<bool>().prop_map(|delayed| (Protocol::Conventional { delayed }, 66));
    let x = (9u32..=12).prop_map(|mmrbc| (Protocol::X { mmrbc: 1 << mmrbc, outstanding: 1 }, 133));
    let timer = prop_oneof![Just(None), (16u32..=255).prop_map(Some)];
    (prop_oneof![conventional, x], any::<bool>(), 4u32..=8, 7u32..=12, timer, any::<bool>())
        .prop_map(|((protocol, mhz), wide, line, boundary, latency_timer, mwi)| Settings {
            protocol,
            mhz,
            bits: if wide { 64 } else { 32 },
            line: 1 << line,
            boundary: 1 << boundary.max(line),
            latency_timer,
            mwi,
            ..Settings::POWER4
        })
}

/// Ranges of a packet's size, of several pages, around 4 GiB and around the end of the address
/// space.
fn range() -> impl Strategy<Value = (u64, u32)> {
    let near = prop_oneof![Just(0u64), Just(1 << 32), Just(0x4800), Just(u64::MAX - 4095)];
    let len = prop_oneof![0u32..200, 0u32..2_000, 0u32..70_000];
    (near, 0u64..20_000, any::<bool>(), len).prop_map(|(near, offset, below, len)| {
        (if below { near.wrapping_sub(offset) } else { near.wrapping_add(offset) }, len)
    })
}

/// The pieces cover the range once, in order.
fn check_cover(
    addr: u64,
    len: u32,
    pieces: impl Iterator<Item = Transaction>,
) -> Result<Vec<Transaction>, TestCaseError> {
    let pieces: Vec<Transaction> = pieces.collect();
    let mut next = addr;
    for piece in &pieces {
        prop_assert!(piece.bytes > 0);
        prop_assert_eq!(piece.addr, next);
        next = next.wrapping_add(piece.bytes.into());
    }
    prop_assert_eq!(next.wrapping_sub(addr), u64::from(len));
    Ok(pieces)
}

fn crosses(t: &Transaction, window: u32) -> bool {
    let window = !u64::from(window - 1);
    t.addr & window != t.addr.wrapping_add(u64::from(t.bytes - 1)) & window
}

/// The sheet's rule for a read, in lines: how many commands, without walking them. `boundary` is a
/// multiple of the line.
fn read_commands(s: &Settings, addr: u64, len: u32) -> u64 {
    if len == 0 {
        return 0;
    }
    let (first, last) = (addr / u64::from(s.line), (addr + u64::from(len) - 1) / u64::from(s.line));
    if last - first < 2 {
        return last - first + 1;
    }
    // MRM from the start, and from each boundary that has three lines left.
    let ahead = u64::from(s.boundary / s.line);
    let multiples = 1 + (last - 2) / ahead - first / ahead;
    let after = ((last - 2) / ahead + 1) * ahead;
    multiples + (last + 1).saturating_sub(after)
}

proptest! {
    #[test]
    fn the_pieces_cover_the_range_once_and_in_order(s in settings(), (addr, len) in range()) {
        let rules = Rules::new(s).unwrap();
        check_cover(addr, len, rules.writes(addr, len))?;
        for t in check_cover(addr, len, rules.reads(addr, len))? {
            if matches!(s.protocol, Protocol::X { .. }) {
                check_cover(t.addr, t.bytes, rules.completions(t.addr, t.bytes))?;
            }
        }
    }

    /// Transfers of data end there. A PCI-X request may ask for more.
    #[test]
    fn no_piece_crosses_the_prefetch_boundary(s in settings(), (addr, len) in range()) {
        let rules = Rules::new(s).unwrap();
        for t in rules.writes(addr, len) {
            prop_assert!(!crosses(&t, s.boundary));
        }
        for t in rules.reads(addr, len) {
            match s.protocol {
                Protocol::Conventional { .. } => prop_assert!(!crosses(&t, s.boundary)),
                Protocol::X { mmrbc, .. } => {
                    prop_assert!(t.bytes <= mmrbc);
                    for c in rules.completions(t.addr, t.bytes) {
                        prop_assert!(!crosses(&c, s.boundary));
                    }
                }
            }
        }
    }

    #[test]
    fn only_mrm_crosses_lines_and_mwi_is_whole_lines(s in settings(), (addr, len) in range()) {
        let rules = Rules::new(s).unwrap();
        let x = matches!(s.protocol, Protocol::X { .. });
        for t in rules.reads(addr, len) {
            prop_assert!(x || t.command == Mrm || !crosses(&t, s.line));
        }
        for t in rules.writes(addr, len) {
            prop_assert_eq!(t.command == Command::MwBlock, x);
            if t.command == Mwi {
                prop_assert!(s.mwi);
                prop_assert_eq!((t.addr % u64::from(s.line), t.bytes % s.line), (0, 0));
            }
        }
    }

    #[test]
    fn a_1514_byte_read_on_a_512_byte_boundary_takes_3_commands_and_on_the_other_lines_4_5_4(
        base in 0u64..(1 << 40), line in 0usize..4,
    ) {
        let count = power4().reads(base * 512 + line as u64 * 128, FRAME).count();
        prop_assert_eq!(count, [3, 4, 5, 4][line]);
    }

    #[test]
    fn the_count_of_read_commands_has_a_closed_form(
        line in 4u32..=8, ahead in 0u32..=4, addr in 0u64..20_000, len in 0u32..9_000,
    ) {
        let s = Settings { line: 1 << line, boundary: 1 << (line + ahead), ..Settings::POWER4 };
        let rules = Rules::new(s).unwrap();
        prop_assert_eq!(rules.reads(addr, len).count() as u64, read_commands(&s, addr, len));
    }

    /// Without a latency timer every cut lies between lines, so no line is counted twice.
    #[test]
    fn partial_lines_are_those_not_filled(
        addr in 0u64..20_000,
        len in 1u32..9_000,
        mwi in any::<bool>(),
    ) {
        let s = Settings { mwi, ..Settings::POWER4 };
        let writes = Rules::new(s).unwrap().writes(addr, len);
        let counted: u32 = writes.map(|t| t.partial_lines(s.line)).sum();
        let end = addr + u64::from(len);
        let lines = addr / 128..=(end - 1) / 128;
        let naive = lines.filter(|l| l * 128 < addr || (l + 1) * 128 > end).count();
        prop_assert_eq!(counted as usize, naive);
    }

    /// For people, requests are listed with their answers; without those they are what the bus
    /// books.
    #[test]
    fn the_listing_is_what_the_bus_books(s in settings(), (addr, len) in range()) {
        let rules = Rules::new(s).unwrap();
        let all: Vec<Transaction> = transactions(&rules, Operation::Read, addr, len).collect();
        let requests: Vec<Transaction> =
            all.iter().copied().filter(|t| t.command != Command::SplitCompletion).collect();
        prop_assert_eq!(&requests, &rules.reads(addr, len).collect::<Vec<_>>());
        if matches!(s.protocol, Protocol::X { .. }) {
            let answers = all.into_iter().filter(|t| t.command == Command::SplitCompletion);
            let expected: Vec<Transaction> =
                requests.iter().flat_map(|t| rules.completions(t.addr, t.bytes)).collect();
            prop_assert_eq!(answers.collect::<Vec<_>>(), expected);
        } else {
            prop_assert_eq!(all, requests);
        }
        prop_assert!(transactions(&rules, Operation::Write, addr, len).eq(rules.writes(addr, len)));
    }

    /// One bus makes many reads, of which some are alike, below and above 4 GiB and across it.
    #[test]
    fn reads_in_any_order_count_as_the_meter(
        s in settings(),
        reads in vec((0u64..4, 0u64..3, prop_oneof![Just(FRAME), 0u32..6000]), 1..20),
    ) {
        let rules = Rules::new(s).unwrap();
        let (base, size) = ((1 << 32) - (64 << 20), 65 << 20);
        let mut platform = Platform::new(base, size, ProtectionGranularity::Page);
        let low = (1 << 32) - 0x2000;
        platform.memory.map(Iova(low), 0x6000, Direction::ToDevice);
        let free = Latencies { cpu: Span::ZERO, memory: Span::ZERO, register: Span::ZERO };
        let mut bus = Pci::new(platform, rules, free, 0);
        let (mut metered, meter) = (Ledger::default(), Meter::Pci(rules));
        for (page, offset, len) in reads {
            let from = low + page * 0x1000 + offset * 200;
            bus.read(Time::ZERO, Iova(from), &mut vec![0; len as usize]).unwrap();
            meter.count(&mut metered, Access::Read(from, len));
            prop_assert_eq!(&bus.ledger(), &metered, "{:#x}, {} B", from, len);
        }
    }
}
