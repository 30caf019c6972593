use super::*;
use doorbell_bus::axi::{self, Latencies, Settings};
use doorbell_bus::{Axi, Costs, Platform, ProtectionGranularity};
use doorbell_hal::{EventSource, Port, Reg, RxVerdict};
use std::{cell::RefCell, rc::Rc};

/// A device that does nothing.
struct Still;

impl EventSource for Still {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> Device<P> for Still {
    fn mmio_read(&mut self, _: &mut P, _: Time, _: Reg, _: u8) -> u64 {
        0
    }
    fn mmio_write(&mut self, _: &mut P, _: Time, _: Reg, _: u8, _: u64) {}
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Yes
    }
    fn advance(&mut self, _: &mut P, _: Time) {}
    fn reset(&mut self, _: &mut P, _: Time) {}
}

/// A driver that has polls to make, each of its whole weight, and logs them.
struct Loaded {
    polls: u32,
    each: Span,
    number: usize,
    log: Rc<RefCell<Vec<usize>>>,
}

impl<H: Host> Driver<H> for Loaded {
    fn transmit(&mut self, _: &mut H, _: Packet, _: bool) -> Tx {
        Tx::Ok
    }
    fn poll<S: Sink>(&mut self, h: &mut H, _: u32, _: &mut S) -> Poll {
        h.delay(self.each);
        self.log.borrow_mut().push(self.number);
        self.polls -= 1;
        if self.polls == 0 { Poll::Idle } else { Poll::Again }
    }
    fn interrupt(&mut self, _: &mut H, _: u16) -> Irq {
        Irq::Poll
    }
    fn stopped(&self) -> bool {
        false
    }
}

/// A stack that does nothing.
struct Idle;

impl Sink for Idle {
    fn sent(&mut self, _: Buf, _: u32, _: bool) {}
    fn received(&mut self, _: Packet, _: bool) {}
}

impl<H: Host> Endpoint<H> for Idle {
    fn softirq(&mut self, _: &mut H) {}
    fn dropped(&mut self, _: &mut H, _: Packet) {}
    fn is_done(&self) -> bool {
        true
    }
}

/// Runs queues with these numbers of polls on one core, all scheduled at time zero. Returns the
/// core's times and the order of the polls.
fn polled(polls: &[u32], each: Span) -> (Busy, Vec<usize>) {
    let platform = Platform::new(1 << 32, 1 << 16, ProtectionGranularity::Byte);
    let bus = Axi::new(platform, axi::Rules::new(Settings::ZYNQMP).unwrap(), Latencies::NONE);
    let mut m = Machine::new(bus, Still, Costs::FREE, 1);
    let log = Rc::new(RefCell::new(Vec::new()));
    let mut queues: Vec<_> = (0..polls.len())
        .map(|n| {
            let driver = Loaded { polls: polls[n], each, number: n, log: Rc::clone(&log) };
            NapiContext::new(driver, Idle, Interrupt::Message(n as u16), 0, 0)
        })
        .collect();
    for n in 0..polls.len() {
        m.bus.platform_mut().post_message(Time::ZERO, Time::ZERO, n as u16);
    }
    m.bus.deliver(Time::ZERO);
    let mut cpus = [Cpu::default()];
    let rules = Rules { lingers: true, ..Rules::LINUX };
    let until = Time::ZERO + Span::from_ms(1_000);
    assert_eq!(run(&mut m, &mut cpus, &mut queues, &rules, until), Ok(End::Done));
    let log = log.take();
    (cpus[0].busy, log)
}

#[test]
fn a_busy_queue_gets_one_poll_an_action() {
    let us = Span::from_us;
    let (busy, log) = polled(&[50], us(1));
    assert_eq!(log.len(), 50);
    // Ten actions, none of which uses up its budget.
    assert_eq!((busy.softirq, busy.ksoftirqd), (us(10), us(40)));
    assert_eq!((busy.handovers, busy.squeezed), (1, 0));
    // The time of all actions ends them sooner.
    let (busy, _) = polled(&[50], us(700));
    assert_eq!((busy.softirq, busy.handovers), (us(2_100), 1));
}

#[test]
fn a_queue_that_is_done_needs_no_ksoftirqd() {
    let (busy, _) = polled(&[10], Span::from_us(1));
    assert_eq!((busy.softirq, busy.ksoftirqd, busy.handovers), (Span::from_us(10), Span::ZERO, 0));
}

#[test]
fn queues_left_by_the_budget_come_first() {
    let (busy, log) = polled(&[3; 6], Span::from_us(1));
    // Five polls of 64 use up 300.
    assert_eq!(log[..15], [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]);
    assert_eq!((busy.squeezed, busy.handovers), (2, 0));
}
