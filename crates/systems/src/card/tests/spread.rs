//! A card of up to four queues that has no rings: a doorbell is the address of a frame.

use super::*;
use doorbell_drivers::{Irq, Poll, Sink, Tx};
use doorbell_hal::{
    Alignment, Buf, CpuWork, Direction, DropReason, EventSource, Iova, Mapped, Reg, RxVerdict,
    counters,
};
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_packet::{Fragment, Packet};
use std::collections::VecDeque;

/// Registers of a queue, each queue's behind those of the one before.
const SEND: u32 = 0x0;
const POST: u32 = 0x4;
/// Reads and clears the packets sent.
const SENT: u32 = 0x8;
/// Reads the length of the next frame that landed, or 0.
const LANDED: u32 = 0xc;
const EACH: u32 = 0x10;
const RING: usize = 64;
const BUFFER: u32 = 2048;
/// The time of a packet in its queue.
const PACKET: Span = Span::from_us(1);

counters! {
    /// Seen of the driver.
    struct Stats;
    /// Packets given back.
    sent,
    /// Frames handed up.
    received,
    /// Time of the last doorbell.
    wrote_ps,
}

/// Totals of the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) asked_ps: u64,
    pub(super) read_ps: u64,
    pub(super) landed: [u64; 4],
}

impl CounterSet for Seen {
    const DECLARED: &'static [Counter] = &[];
    fn each(&self, _: &mut dyn FnMut(&'static str, u64)) {}
    fn add(&mut self, _: &Seen) {}
}

#[derive(Debug, Default)]
struct Queue {
    free: Time,
    sent: u32,
    posted: VecDeque<Iova>,
    landed: VecDeque<u32>,
}

/// An effect at a time: of a frame that leaves, or of one that has landed.
type Due = (Time, usize, Option<Vec<u8>>, u32);

#[derive(Debug)]
pub(super) struct Nic {
    c: Config,
    queues: Vec<Queue>,
    wire: Time,
    due: VecDeque<Due>,
    counts: Seen,
}

impl Nic {
    fn put(&mut self, due: Due) {
        let behind = self.due.partition_point(|d| d.0 <= due.0);
        self.due.insert(behind, due);
    }
}

impl EventSource for Nic {
    fn next_due(&self) -> Option<Time> {
        self.due.front().map(|d| d.0)
    }
}

impl<P: Port> Device<P> for Nic {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        let (i, register) = ((r.offset / EACH) as usize, r.offset % EACH);
        let q = &mut self.queues[i];
        let value = match register {
            SENT => std::mem::take(&mut q.sent),
            _ => q.landed.pop_front().unwrap_or(0),
        };
        p.set_irq_line(at, i as u16, q.sent > 0 || !q.landed.is_empty());
        value.into()
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        self.advance(p, at);
        let i = (r.offset / EACH) as usize;
        if r.offset % EACH == POST {
            self.queues[i].posted.push_back(Iova(v));
            return;
        }
        let mut frame = vec![0; self.c.size];
        let read = p.read(at, Iova(v), &mut frame).unwrap();
        self.counts.asked_ps = at.ps();
        self.counts.read_ps = read.since(at).ps();
        let ready = read.max(self.queues[i].free + PACKET);
        self.queues[i].free = ready;
        let leaves = ready.max(self.wire);
        self.wire = leaves + self.c.byte * (self.c.size as u64 + 24);
        self.put((leaves, i, Some(frame), 0));
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some((at, i, frame, length)) = self.due.pop_front_if(|d| d.0 <= until) {
            match frame {
                Some(frame) => {
                    p.emit(at, &frame);
                    self.queues[i].sent += 1;
                }
                None => self.queues[i].landed.push_back(length),
            }
            p.set_irq_line(at, i as u16, true);
        }
    }

    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        self.advance(p, at);
        let hash = Toeplitz::new(&MICROSOFT).flow(frame);
        let i = hash as usize % usize::from(self.c.queues);
        let Some(to) = self.queues[i].posted.pop_front() else {
            return RxVerdict::Dropped(DropReason::NoBuffer);
        };
        let there = p.write(at, to, frame).unwrap();
        self.counts.landed[i] += 1;
        self.put((there, i, None, frame.len() as u32));
        RxVerdict::Yes
    }

    fn reset(&mut self, _: &mut P, _: Time) {}
}

#[derive(Debug)]
pub(super) struct Driver {
    queue: u32,
    tx: VecDeque<(Mapped, u32)>,
    rx: VecDeque<Mapped>,
    /// Packets sent, and buffers of frames, that the next poll hands up.
    done: u32,
    frames: Vec<(Buf, u32)>,
    stats: Stats,
}

impl Driver {
    fn open<H: Host>(h: &mut H, queue: u16) -> Result<Driver, OpenError> {
        let (tx, rx) = (VecDeque::new(), VecDeque::new());
        let queue = queue.into();
        let mut driver =
            Driver { queue, tx, rx, done: 0, frames: Vec::new(), stats: Stats::default() };
        driver.post(h)?;
        // Until the bus is free again.
        h.delay(Span::from_us(10));
        Ok(driver)
    }

    fn reg(&self, register: u32) -> Reg {
        Reg::at(self.queue * EACH + register)
    }

    fn post<H: Host>(&mut self, h: &mut H) -> Result<(), OutOfMemory> {
        while self.rx.len() < RING {
            let buf = h.buffer(BUFFER, Alignment::ANY)?;
            let m = h.map(buf, 0..BUFFER, Direction::FromDevice).map_err(|_| OutOfMemory)?;
            h.write32(self.reg(POST), m.iova().0 as u32);
            self.rx.push_back(m);
        }
        Ok(())
    }
}

impl<H: Host> doorbell_drivers::Driver<H> for Driver {
    fn transmit(&mut self, h: &mut H, p: Packet, _: bool) -> Tx {
        h.charge(CpuWork::TxDescriptor(1));
        let Packet { head: Fragment { buf, start, len }, cookie, .. } = p;
        let m = h.map(buf, start..start + len, Direction::ToDevice).unwrap();
        self.stats.wrote_ps = h.now().ps();
        h.write32(self.reg(SEND), m.iova().0 as u32);
        self.tx.push_back((m, cookie));
        Tx::Ok
    }

    fn poll<S: Sink>(&mut self, h: &mut H, _: u32, up: &mut S) -> Poll {
        self.stats.sent += u64::from(self.done);
        for (m, cookie) in self.tx.drain(..self.done as usize) {
            up.sent(h.unmap(m), cookie, true);
        }
        self.done = 0;
        self.stats.received += self.frames.len() as u64;
        for (buf, len) in self.frames.drain(..) {
            up.received(Packet::linear(Fragment { buf, start: 0, len }), false);
        }
        self.post(h).unwrap();
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        assert_eq!(u32::from(vector), self.queue);
        self.done += h.read32(self.reg(SENT));
        loop {
            let len = h.read32(self.reg(LANDED));
            let Some(m) = (len > 0).then(|| self.rx.pop_front()).flatten() else { break };
            self.frames.push((h.unmap(m), len));
        }
        Irq::Poll
    }

    fn stopped(&self) -> bool {
        self.tx.len() >= RING
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config {
    size: usize,
    byte: Span,
    queues: u16,
}

#[derive(Debug)]
pub(super) struct Spread;

impl Card for Spread {
    type Config = Config;
    type Device<P: Port> = Nic;
    type Driver<H: Host> = Driver;
    type Stats = Stats;
    type Counters = Seen;

    const QUEUES: u16 = 4;

    fn config(v: &Values) -> Result<Config, SettingError> {
        let byte = Span::from_ps((8000.0 / v.number("link.rate")).round() as u64);
        let queues = v.number_or_word("run.cores").map_or(Self::QUEUES, |n| n as u16);
        Ok(Config { size: v.number("traffic.size") as usize, byte, queues })
    }

    fn in_flight(_: &Config) -> u32 {
        RING as u32
    }

    fn device<P: Port>(c: &Config) -> Nic {
        let queues = (0..Self::QUEUES).map(|_| Queue::default()).collect();
        let (wire, due) = (Time::ZERO, VecDeque::new());
        Nic { c: c.clone(), queues, wire, due, counts: Seen::default() }
    }

    fn open<H: Host>(h: &mut H, _: &Config) -> Result<Driver, OpenError> {
        Driver::open(h, 0)
    }

    fn open_queue<H: Host>(
        h: &mut H,
        _: &Config,
        _: &mut Driver,
        queue: u16,
    ) -> Result<Driver, OpenError> {
        Driver::open(h, queue)
    }

    fn close<H: Host>(driver: Driver, h: &mut H) -> Stats {
        let Driver { tx, rx, stats, .. } = driver;
        for m in tx.into_iter().map(|t| t.0).chain(rx) {
            let buf = h.unmap(m);
            h.release(buf);
        }
        stats
    }

    fn stats<H: Host>(driver: &Driver) -> Stats {
        driver.stats
    }

    fn counters<P: Port>(device: &Nic) -> Seen {
        device.counts
    }
}
