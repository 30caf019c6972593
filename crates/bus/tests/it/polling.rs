//! Polling with a limit in virtual time: a driver waits for a slow device, or for a dead one.
//!
//! The same driver runs on a PCI Express machine, where a read is a round trip, with reordered
//! stores, and on the direct host, where only `relax` and `delay` move time.

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_hal::{
    Coherent, Device, DropReason, EventSource, Fence, Host, Iova, Port, Reg, RxVerdict, Span, Time,
};
use doorbell_testkit::direct::{DirectHost, NoDevice};
use doorbell_testkit::reorder::{Order, Reorder};

// ---- the device ----

/// Address of the word that the device writes when it is ready. 0 means none.
const WORD: Reg = Reg::at(0x00);
/// A write starts the device.
const START: Reg = Reg::at(0x08);
/// Bit 0: ready.
const STATUS: Reg = Reg::at(0x0c);
const READY: u32 = 1;

/// Ready some time after its start, or never.
#[derive(Clone, Copy, Debug, Default)]
struct Slow {
    takes: Option<Span>,
    word: Iova,
    ready_at: Option<Time>,
    /// The word is still to be written.
    owes: bool,
}

impl Slow {
    fn new(takes: Option<Span>) -> Slow {
        Slow { takes, ..Slow::default() }
    }
}

impl EventSource for Slow {
    fn next_due(&self) -> Option<Time> {
        self.ready_at.filter(|_| self.owes)
    }
}

impl<P: Port> Device<P> for Slow {
    fn mmio_read(&mut self, _: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        match r {
            STATUS => self.ready_at.is_some_and(|t| t <= at).into(),
            _ => u64::MAX,
        }
    }
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        self.advance(p, at);
        match r {
            WORD => self.word = Iova(v),
            START => {
                self.ready_at = self.takes.map(|takes| at + takes);
                self.owes = self.ready_at.is_some() && self.word != Iova(0);
            }
            _ => {}
        }
    }
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    fn advance(&mut self, p: &mut P, until: Time) {
        if let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.owes = false;
            p.write(at, self.word, &1u32.to_le_bytes()).unwrap();
        }
    }
    fn reset(&mut self, _: &mut P, _: Time) {
        *self = Slow::new(self.takes);
    }
}

// ---- the driver ----

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Timeout,
    /// Registers read as all ones: the device is no longer there.
    Gone,
}

/// The pause between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Relax,
    Delay(Span),
}

/// Looks until `look` finds what it looks for, or until `limit` is over; once
/// more after that, for the time may have been somebody else's
/// (iopoll.h `read_poll_timeout`).
fn poll<H: Host>(
    h: &mut H,
    limit: Span,
    pause: Pause,
    mut look: impl FnMut(&mut H) -> Result<bool, Failed>,
) -> Result<Span, Failed> {
    let start = h.now();
    loop {
        let over = h.now().since(start) >= limit;
        if look(h)? {
            return Ok(h.now().since(start));
        }
        if over {
            return Err(Failed::Timeout);
        }
        match pause {
            Pause::Relax => h.relax(),
            Pause::Delay(d) => h.delay(d),
        }
    }
}

fn wait_by_register<H: Host>(h: &mut H, limit: Span, pause: Pause) -> Result<Span, Failed> {
    h.write32(START, 1);
    poll(h, limit, pause, |h| match h.read32(STATUS) {
        u32::MAX => Err(Failed::Gone),
        v => Ok(v & READY != 0),
    })
}

fn wait_by_memory<H: Host>(h: &mut H, limit: Span, pause: Pause) -> Result<Span, Failed> {
    let word: Coherent = h.coherent(4, 4).unwrap();
    h.store(&word, 0, 0u32);
    h.fence(Fence::Write);
    h.write64(WORD, word.iova().0);
    h.write32(START, 1);
    let r = poll(h, limit, pause, |h| Ok(h.load::<u32>(&word, 0) != 0));
    h.release_coherent(word);
    r
}

// ---- the hosts ----

/// Each way; a TLP takes some 25 ns more, and DLLPs that wait go before it.
const LINK: Span = Span::from_ns(200);
/// A turn of a polling loop, on all hosts here.
const TURN: Span = Span::from_ns(100);

fn machine(takes: Option<Span>) -> Machine<Pcie, Slow> {
    let latencies = Latencies { link: LINK, memory: Span::from_ns(250) };
    let platform = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte);
    let pcie =
        Pcie::new(platform, Rules::new(Settings::link(1, 4)).unwrap(), latencies, 0xf000_0000);
    Machine::new(pcie, Slow::new(takes), Costs { relax: TURN, ..Costs::FREE }, 1)
}

fn bare(takes: Option<Span>) -> DirectHost<Slow> {
    DirectHost::new(64 << 10, Slow::new(takes))
}

/// A round trip, at the most.
const READ: Span = Span::from_ns(600);

#[test]
fn a_read_costs_a_round_trip_and_a_write_does_not() {
    let mut m = machine(None);
    m.write32(START, 1);
    assert_eq!(m.now(), Time::ZERO, "posted");
    for _ in 0..5 {
        let before = m.now();
        m.read32(STATUS);
        let took = m.now().since(before);
        assert!(took > LINK * 2 && took < READ, "{took}");
        assert_eq!(m.stalled(), m.now().since(Time::ZERO), "the core waits for it");
    }
    assert_eq!(
        (m.ledger().mmio_reads, m.ledger().pcie_mrd_down, m.ledger().pcie_cpld_up),
        (5, 5, 5)
    );
}

#[test]
fn relax_and_delay_move_time_by_what_they_say() {
    fn on<H: Host>(h: &mut H) {
        let start = h.now();
        h.relax();
        assert_eq!(h.now().since(start), TURN);
        h.delay(Span::from_us(7));
        assert_eq!(h.now().since(start), TURN + Span::from_us(7));
    }
    on(&mut machine(None));
    on(&mut bare(None));
    on(&mut Reorder::new(machine(None), Order::Late));
}

#[test]
fn a_device_that_becomes_ready_is_found_within_one_turn() {
    fn on<H: Host>(mut h: H, takes: Span, read: Span) {
        for pause in [Pause::Relax, Pause::Delay(Span::from_us(2))] {
            let found = wait_by_register(&mut h, Span::from_ms(1), pause).unwrap();
            let turn = if let Pause::Delay(d) = pause { d } else { TURN };
            // From the start's arrival, which is after it was written.
            let most = takes + read * 2 + turn;
            assert!(found >= takes && found <= most, "{pause:?}: {found}, {takes} to {most}");
        }
    }
    for us in [1, 10, 300] {
        let takes = Span::from_us(us);
        on(machine(Some(takes)), takes, READ);
        on(Reorder::new(machine(Some(takes)), Order::Random(us)), takes, READ);
        on(bare(Some(takes)), takes, Span::ZERO);
    }
}

#[test]
fn a_device_that_is_never_ready_times_out_within_one_turn_of_the_limit() {
    fn on<H: Host>(mut h: H, read: Span) {
        for pause in [Pause::Relax, Pause::Delay(Span::from_us(2))] {
            let limit = Span::from_us(50);
            let start = h.now();
            assert_eq!(wait_by_register(&mut h, limit, pause), Err(Failed::Timeout));
            let took = h.now().since(start);
            let turn = if let Pause::Delay(d) = pause { d } else { TURN };
            assert!(took >= limit && took <= limit + read * 2 + turn, "{pause:?}: {took}");
        }
    }
    on(machine(None), READ);
    on(Reorder::new(machine(None), Order::Late), READ);
    on(bare(None), Span::ZERO);
}

#[test]
fn on_the_bare_host_a_timeout_is_exact() {
    let mut h = bare(None);
    assert_eq!(wait_by_register(&mut h, Span::from_us(50), Pause::Relax), Err(Failed::Timeout));
    assert_eq!(h.now(), Time::ZERO + Span::from_us(50));
    let mut h = bare(Some(Span::from_us(50)));
    let found = wait_by_register(&mut h, Span::from_us(50), Pause::Relax);
    assert_eq!(found, Ok(Span::from_us(50)), "ready at the very limit is ready");
}

#[test]
fn a_longer_pause_costs_fewer_round_trips() {
    let reads = |pause| {
        let mut m = machine(Some(Span::from_us(100)));
        wait_by_register(&mut m, Span::from_ms(1), pause).unwrap();
        m.ledger().mmio_reads
    };
    let (spinning, pausing) = (reads(Pause::Relax), reads(Pause::Delay(Span::from_us(10))));
    assert!(spinning > 150, "{spinning}");
    assert!((9..=11).contains(&pausing), "{pausing}");
}

#[test]
fn polling_memory_costs_no_round_trip_and_sees_the_word_when_it_arrives() {
    let takes = Span::from_us(10);
    let mut m = machine(Some(takes));
    let found = wait_by_memory(&mut m, Span::from_ms(1), Pause::Relax).unwrap();
    // START travels to the device, the word travels back.
    assert!(found >= takes + LINK * 2 && found < takes + READ + TURN, "{found}");
    assert_eq!((m.ledger().mmio_reads, m.ledger().mmio_writes), (0, 2));
    let found = wait_by_memory(&mut bare(Some(takes)), Span::from_ms(1), Pause::Relax);
    assert_eq!(found, Ok(takes));
    let never = wait_by_memory(&mut machine(None), Span::from_us(20), Pause::Relax);
    assert_eq!(never, Err(Failed::Timeout));
}

#[test]
fn a_device_that_is_gone_is_told_from_one_that_is_slow() {
    let mut h = DirectHost::new(64 << 10, NoDevice);
    assert_eq!(wait_by_register(&mut h, Span::from_ms(1), Pause::Relax), Err(Failed::Gone));
    assert_eq!(wait_by_memory(&mut h, Span::from_ms(1), Pause::Relax), Err(Failed::Timeout));
    assert_eq!(h.now(), Time::ZERO + Span::from_ms(1));
}

#[test]
fn an_hour_of_virtual_time_is_as_many_turns_as_it_has_pauses() {
    let mut m = machine(None);
    let second = Span::from_ms(1000);
    assert_eq!(wait_by_register(&mut m, second * 3600, Pause::Delay(second)), Err(Failed::Timeout));
    // One look before the first pause, and one after each.
    assert_eq!(m.ledger().mmio_reads, 3601);
    assert!(m.now() < Time::ZERO + second * 3601);
}

#[test]
fn two_runs_take_the_same_time_to_the_picosecond() {
    let run = || {
        let mut m = machine(Some(Span::from_us(333)));
        wait_by_register(&mut m, Span::from_ms(1), Pause::Relax).unwrap();
        (m.now(), *m.ledger())
    };
    assert_eq!(run(), run());
}
