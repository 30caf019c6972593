//! AXI in time.

use doorbell_bus::axi::{Axi, Latencies, Rules, Settings};
use doorbell_bus::{Bus, Ledger, Platform, ProtectionGranularity};
use doorbell_hal::{Alignment, Direction, DmaFaultKind, Iova, Port, Span, Time};
use proptest::prelude::*;

const BASE: u64 = 1 << 30;
const LENT: u32 = 1 << 20;

/// A bus whose device may use the first megabyte of memory. A clock is 8 ns.
fn bus(settings: Settings, latencies: Latencies) -> Axi {
    let mut platform = Platform::new(BASE, 4 << 20, ProtectionGranularity::Page);
    let b = platform.memory.buffer(LENT, Alignment { align: LENT, offset: 0 }).unwrap();
    assert_eq!(b.addr(), BASE);
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        platform.map(BASE, LENT, dir).unwrap();
    }
    Axi::new(platform, Rules::new(settings).unwrap(), latencies)
}

fn read(p: &mut Axi, at: Time, offset: u64, len: usize) -> Time {
    p.read(at, Iova(BASE + offset), &mut vec![0; len]).unwrap()
}

fn write(p: &mut Axi, at: Time, offset: u64, len: usize) -> Time {
    p.write(at, Iova(BASE + offset), &vec![0; len]).unwrap()
}

fn clocks(n: u64) -> Time {
    Time::from_ps(8000 * n)
}

const SLOW: Latencies =
    Latencies { read: Span::from_ns(800), write: Span::from_ns(400), cpu: Span::from_ns(40) };

#[test]
fn reads_and_writes_do_not_share_wires() {
    let mut p = bus(Settings::ZYNQMP, Latencies::NONE);
    assert_eq!(read(&mut p, Time::ZERO, 0, 1024), clocks(128));
    assert_eq!(write(&mut p, Time::ZERO, 0, 1024), clocks(128));
    assert_eq!(read(&mut p, Time::ZERO, 0, 64), clocks(136), "but two reads do");
}

#[test]
fn bursts_overlap_up_to_the_issuing_capability() {
    let time = |reads| {
        let mut p = bus(Settings { reads, ..Settings::ZYNQMP }, SLOW);
        read(&mut p, Time::ZERO, 0, 512)
    };
    // Four bursts of 16 beats; memory answers after 100 clocks.
    assert_eq!(time(1), clocks(4 * 116));
    // The third asks when the first has its data, which is while the second has its own.
    assert_eq!(time(2), clocks(116 + 100 + 16 + 16));
    assert_eq!(time(4), clocks(100 + 4 * 16));
    assert_eq!(time(8), time(4));
}

#[test]
fn a_write_is_over_with_its_response() {
    let mut p = bus(Settings { writes: 1, ..Settings::ZYNQMP }, SLOW);
    assert_eq!(write(&mut p, Time::ZERO, 0, 128), clocks(16 + 50));
    assert_eq!(
        write(&mut p, Time::ZERO, 0, 256),
        clocks(3 * (16 + 50)),
        "each waits for the one before"
    );
    let mut p = bus(Settings { writes: 2, ..Settings::ZYNQMP }, SLOW);
    assert_eq!(write(&mut p, Time::ZERO, 0, 256), clocks(32 + 50));
}

#[test]
fn longer_bursts_and_wider_beats_save_time() {
    let time = |bits, beats| {
        let mut p = bus(Settings { bits, beats, reads: 1, ..Settings::ZYNQMP }, SLOW);
        let done = read(&mut p, Time::ZERO, 0x40, 1514);
        (done.ps() / 8000, p.platform().ledger.axi_reads)
    };
    assert_eq!(time(32, 16), (24 * 100 + 379, 24));
    assert_eq!(time(64, 16), (13 * 100 + 190, 13));
    assert_eq!(time(64, 64), (4 * 100 + 190, 4));
    assert_eq!(time(128, 256), (100 + 95, 1));
}

#[test]
fn a_register_read_does_not_push_the_devices_writes() {
    let mut p = bus(Settings::ZYNQMP, Latencies { write: Span::from_us(5), ..SLOW });
    let arrival = write(&mut p, Time::ZERO, 0, 64);
    let asked = p.register_read(Time::ZERO, 4);
    let answered = p.register_answer(asked, 4);
    assert_eq!((asked, answered), (clocks(5 + 4), clocks(5 + 4 + 5)));
    assert!(answered < arrival);
    p.deliver(answered);
    assert_eq!(p.next_arrival(), arrival, "it is still on its way");
}

#[test]
fn registers_are_32_bits_wide_and_taken_one_at_a_time() {
    let mut p = bus(Settings::ZYNQMP, SLOW);
    assert_eq!(p.register_write(Time::ZERO, 4), clocks(5 + 4));
    assert_eq!(p.register_write(Time::ZERO, 8), clocks(5 + 4 + 8));
    assert_eq!(p.register_read(Time::ZERO, 4), clocks(5 + 4 + 8 + 4));
    assert_eq!((p.platform().ledger.axi_lite_writes, p.platform().ledger.axi_lite_reads), (3, 1));
}

#[test]
fn a_register_is_not_held_up_by_data() {
    let mut p = bus(Settings::ZYNQMP, Latencies::NONE);
    write(&mut p, Time::ZERO, 0, 65536);
    assert_eq!(p.register_write(Time::ZERO, 4), clocks(4));
}

#[test]
fn lines_take_no_beats_and_messages_follow_data() {
    let mut p = bus(Settings::ZYNQMP, SLOW);
    p.set_irq_line(clocks(1), 1, true);
    assert_eq!((p.platform().line(1), p.platform().ledger.axi_write_beats), (Some(clocks(1)), 0));
    let arrival = write(&mut p, clocks(2), 0, 2048);
    p.raise_msi(clocks(2), 3);
    p.deliver(Time::from_ps(arrival.ps() - 1));
    assert_eq!(p.platform().message_pending(3), None);
    p.deliver(Time::NEVER);
    assert!(p.platform().message_pending(3) > Some(arrival));
}

#[test]
fn a_fault_transfers_nothing() {
    let mut p = bus(Settings::ZYNQMP, Latencies::NONE);
    let outside = Iova(BASE + u64::from(LENT) - 8);
    assert_eq!(p.read(Time::ZERO, outside, &mut [0; 16]).unwrap_err().kind, DmaFaultKind::Unmapped);
    assert_eq!(p.write(Time::ZERO, outside, &[0; 16]).unwrap_err().kind, DmaFaultKind::Unmapped);
    assert_eq!(p.platform().ledger, Ledger { dma_faults: 2, maps: 2, ..Ledger::default() });
}

#[test]
fn bursts_beats_and_bytes_are_counted() {
    let mut p = bus(Settings::ZYNQMP, Latencies::NONE);
    read(&mut p, Time::ZERO, 0x42, 1514);
    write(&mut p, Time::ZERO, 0x1000, 60);
    write(&mut p, Time::ZERO, 0xffe, 4);
    let expected = Ledger {
        axi_reads: 13,
        axi_read_beats: 190,
        axi_read_bytes: 1514,
        axi_writes: 1 + 2,
        axi_write_beats: 8 + 2,
        axi_write_bytes: 64,
        maps: 2,
        ..Ledger::default()
    };
    assert_eq!(p.platform().ledger, expected);
}

proptest! {
    /// A trace books burst by burst.
    #[test]
    fn bursts_at_once_are_bursts_in_turn(
        beats in 1u32..9, slots in 1u32..9, mhz in 50u32..400, slow in any::<bool>(),
        steps in prop::collection::vec(
            (any::<bool>(), 0u64..30_000, 0u64..60_000, 0usize..9_000), 1..60,
        ),
    ) {
        let s = Settings { beats: 1 << beats, reads: slots, writes: slots, mhz,
            ..Settings::ZYNQMP };
        let latencies = if slow { SLOW } else { Latencies::ZYNQMP };
        let (mut whole, mut traced) = (bus(s, latencies), bus(s, latencies));
        traced.platform_mut().record(u32::MAX);
        for (reads, ns, offset, len) in steps {
            // Also back in time.
            let at = Time::ZERO + Span::from_ns(ns);
            let access = if reads { read } else { write };
            prop_assert_eq!(
                access(&mut whole, at, offset, len), access(&mut traced, at, offset, len)
            );
        }
        prop_assert_eq!(&whole.platform().ledger, &traced.platform().ledger);
        prop_assert_eq!(whole.booked_until(), traced.booked_until());
    }

    /// Beats fit into the time there is, and what is asked for later is not done before it is asked
    /// for.
    #[test]
    fn the_ledgers_beats_fit_into_the_time(
        beats in 1u32..9, reads in 1u32..9, mhz in 50u32..400,
        steps in prop::collection::vec((0u8..4, 0u64..400, 0u64..60_000, 0usize..5_000), 1..60),
    ) {
        let s = Settings { beats: 1 << beats, reads, writes: reads, mhz, ..Settings::ZYNQMP };
        let mut p = bus(s, SLOW);
        let mut at = Time::ZERO;
        for (what, wait, offset, len) in steps {
            at += Span::from_ns(wait);
            let done = match what {
                0 => read(&mut p, at, offset, len),
                1 => write(&mut p, at, offset, len),
                2 => p.register_write(at, 4),
                _ => { let asked = p.register_read(at, 4); p.register_answer(asked, 4) }
            };
            prop_assert!(done >= at);
        }
        let l = p.platform().ledger;
        let room = p.capacity(p.booked_until().since(Time::ZERO));
        for (beats, bytes) in
            [(l.axi_read_beats, l.axi_read_bytes), (l.axi_write_beats, l.axi_write_bytes)]
        {
            prop_assert!(beats <= room, "{beats} in {room}");
            prop_assert!(bytes <= beats * 8);
        }
        prop_assert!(l.axi_read_beats <= l.axi_reads * u64::from(s.beats));
    }
}
