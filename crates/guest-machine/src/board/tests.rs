use crate::{Captured, Card, Frames, Pattern, Plan, Sizes, Slot};
use doorbell_bus::{memory::anonymous, pci, pcie};
use doorbell_devices::e1000;
use doorbell_hal::{Reg, Span, Time};
use std::net::Ipv4Addr;

/// An e1000 on PCI at 33 MHz (a clock of 30,303 ps), 400 ns from the CPU, on a link of 5 us.
pub(crate) fn plan() -> Plan {
    let [cpu, memory, register] = [400, 469, 50].map(Span::from_ns);
    let settings = pci::Settings { mhz: 33, ..pci::Settings::POWER4 };
    Plan {
        card: Card::E1000(e1000::Config::I82540EM),
        slot: Slot::Parallel(settings, pci::Latencies { cpu, memory, register }),
        rate: 1_000_000_000,
        delay: Span::from_us(5),
        addresses: [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from),
        captured: Default::default(),
    }
}

/// Frames of 60 bytes that nobody answers.
pub(crate) fn frames(pattern: Pattern) -> Frames {
    Frames { count: 1, sizes: Sizes::one(60), pattern, hold: None, flows: Vec::new() }
}

/// Returns the frames that have left by a time in microseconds.
fn left_by(plan: &Plan, frames: Frames, us: u64) -> u64 {
    let mut board = plan.board(anonymous(1 << 20).unwrap()).unwrap();
    board.send(Span::ZERO, frames);
    board.run(Time::ZERO + Span::from_us(us));
    board.counts().offered.frames
}

#[test]
fn load_and_silence_come_in_turn() {
    let frames = || Frames {
        count: 100,
        hold: Some(Span::from_us(100)),
        ..frames(Pattern::Even(Span::from_us(10)))
    };
    // One each 10 us from 0 to 100 us, and again from 200 us on.
    assert_eq!([99, 199, 299, 999].map(|us| left_by(&plan(), frames(), us)), [10, 10, 20, 50]);
    assert_eq!(left_by(&plan(), frames(), 10_000), 100, "no more than were asked for");
}

#[test]
fn frames_of_a_capture_come_at_their_own_times() {
    let mut captured = Captured::default();
    for us in [0, 30, 60] {
        captured.push(Span::from_us(us), &[0; 100]);
    }
    let plan = Plan { captured: captured.into(), ..plan() };
    let read = Plan::parse(&plan.text()).unwrap();
    let frames = || Frames { count: 4, ..frames(Pattern::Captured) };
    // The second round is as far from the first as frames are in the mean.
    assert_eq!([29, 31, 61, 89, 91].map(|us| left_by(&read, frames(), us)), [1, 2, 3, 3, 4]);
}

#[test]
fn frames_arrive_as_the_link_takes_them() {
    let mut board = plan().board(anonymous(1 << 20).unwrap()).unwrap();
    let pattern = Pattern::Bursts(2, Span::from_us(100));
    board.send(Span::from_us(1), Frames { count: 3, ..frames(pattern) });
    board.run(Time::from_ps(1_000_000_000));
    let seen = board.counts().offered;
    // Sent at 1 us; preamble, frame, FCS and gap of 84 bytes of 8 ns; the last 100 us after the
    // first.
    let first = 1_000_000 + 84 * 8_000;
    let last = first + 100_000_000;
    assert_eq!((seen.frames, seen.span), (3, Some((Time::from_ps(first), Time::from_ps(last)))));
    // The driver has given it no memory.
    assert_eq!(board.next_event(), Time::NEVER);
}

#[test]
fn cpu_waits_for_a_register_read() {
    let mut board = plan().board(anonymous(1 << 20).unwrap()).unwrap();
    let began = Time::from_ps(1_000_000);
    board.run(began);
    board.read(Reg { region: 0, offset: 8 }, 4);
    let waited = board.now().since(began);
    // To the bus and back 400 ns each, 50 ns of the device, and some clocks of the bus.
    let clocks = waited.ps() - 850_000;
    assert!((4 * 30_303..12 * 30_303).contains(&clocks), "{clocks} ps");
    // A write is posted: the CPU does not wait.
    board.run(board.now());
    let began = board.now();
    board.write(Reg { region: 0, offset: 0x38 }, 4, 0);
    assert_eq!(board.now(), began);
}

#[test]
fn memory_is_refused_without_the_bus_master_bit() {
    let mut board = plan().board(anonymous(1 << 20).unwrap()).unwrap();
    let enable = |board: &mut dyn crate::Board| {
        // A ring of 8 descriptors at 64 KiB, and a frame that the driver gives to the device.
        for (offset, value) in
            [(0x3800, 0x1_0000), (0x3808, 128), (0x3810, 0), (0x400, 2), (0x3818, 1)]
        {
            board.write(Reg { region: 0, offset }, 4, value);
        }
        board.run(board.now() + Span::from_ms(1));
        board.counts().ledger.dma_faults
    };
    board.allow_dma(false);
    assert!(enable(board.as_mut()) > 0);
    board.reset();
    board.allow_dma(true);
    let before = board.counts().ledger.dma_faults;
    assert_eq!(enable(board.as_mut()), before);
}

#[test]
fn bus_that_breaks_a_rule_is_refused() {
    let settings = pcie::Settings { lanes: 3, ..pcie::Settings::link(3, 16) };
    let [link, memory] = [Span::from_ns(150); 2];
    let plan = Plan { slot: Slot::Express(settings, pcie::Latencies { link, memory }), ..plan() };
    assert!(plan.board(anonymous(4096).unwrap()).err().unwrap().to_string().contains("lanes"));
}
