//! A client in Rust against a served toy device: the protocol without a virtual machine.

mod client;
mod dma;
mod protocol;
mod share;

use super::{
    Bar, BarOffset, Capability, Crossing, Function, GuestPort, Identity, Observer, PolledPages,
};
use client::Client;
use doorbell_hal::{Device, EventSource, Iova, Port, Reg, RxVerdict, Time};
use std::os::unix::net::UnixStream;

/// Registers of the toy, which copies memory to memory, once or periodically.
pub(super) mod toy {
    pub(crate) const SCRATCH: u64 = 0x00;
    pub(crate) const FROM: u64 = 0x08;
    pub(crate) const TO: u64 = 0x10;
    pub(crate) const LEN: u64 = 0x18;
    /// Writing n copies at once, and again every n picoseconds if n > 1; 0 stops.
    pub(crate) const GO: u64 = 0x20;
    /// Number of copies.
    pub(crate) const DONE: u64 = 0x28;
    pub(crate) const FAILED: u64 = 0x30;
    /// Writing 0 or 1 sets the line; n > 1 sends an MSI to vector n - 2.
    pub(crate) const RAISE: u64 = 0x38;
    /// The last doorbell's value.
    pub(crate) const BELL: u64 = 0x40;
}

#[derive(Debug, Default)]
pub(super) struct Toy {
    scratch: u64,
    from: u64,
    to: u64,
    len: u64,
    every: u64,
    due: Option<Time>,
    done: u64,
    failed: u64,
    bell: u64,
    resets: u64,
}

impl Toy {
    fn copy<P: Port>(&mut self, p: &mut P, at: Time) {
        let mut bytes = vec![0; self.len as usize & 0xffff];
        let copied = p
            .read(at, Iova(self.from), &mut bytes)
            .and_then(|_| p.write(at, Iova(self.to), &bytes));
        match copied {
            Ok(_) => self.done += 1,
            Err(_) => self.failed += 1,
        }
    }
}

impl EventSource for Toy {
    fn next_due(&self) -> Option<Time> {
        self.due
    }
}

impl<P: Port> Device<P> for Toy {
    fn mmio_read(&mut self, _: &mut P, _: Time, r: Reg, size: u8) -> u64 {
        let at = u64::from(r.offset);
        let v = match at & !7 {
            toy::SCRATCH => self.scratch,
            toy::DONE => self.done,
            toy::FAILED => self.failed,
            toy::BELL => self.bell,
            _ => 0,
        };
        let v = v >> (8 * (at & 7));
        if size >= 8 { v } else { v & ((1 << (8 * u32::from(size))) - 1) }
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        if r.offset >= PAGES {
            self.bell = v;
            return;
        }
        match u64::from(r.offset) {
            toy::SCRATCH if size == 8 => self.scratch = v,
            toy::SCRATCH => self.scratch = v & 0xff,
            toy::FROM => self.from = v,
            toy::TO => self.to = v,
            toy::LEN => self.len = v,
            toy::GO => {
                self.every = v;
                self.due = None;
                if v > 0 {
                    self.copy(p, at);
                }
                if v > 1 {
                    self.due = Some(Time::from_ps(at.ps() + v));
                }
            }
            toy::RAISE if v < 2 => p.set_irq_line(at, 0, v == 1),
            toy::RAISE => p.raise_msi(at, v as u16 - 2),
            _ => {}
        }
    }

    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Yes
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(due) = self.due.filter(|t| *t <= until) {
            self.copy(p, due);
            self.due = Some(Time::from_ps(due.ps() + self.every));
        }
    }

    fn reset(&mut self, _: &mut P, _: Time) {
        *self =
            Toy { resets: self.resets + 1, done: self.done, failed: self.failed, ..Toy::default() };
    }
}

/// Counts its observations.
#[derive(Debug, Default)]
pub(super) struct Seen {
    reads: u64,
    writes: u64,
    faults: u64,
    registers: u64,
    untrapped: u64,
}

impl Observer for Seen {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        match what {
            Crossing::DmaRead(..) => self.reads += 1,
            Crossing::DmaWrite(..) => self.writes += 1,
            Crossing::Fault(_) => self.faults += 1,
            Crossing::RegisterRead(..) => self.registers += 1,
            Crossing::RegisterWrite(_, _, _, trapped) => {
                self.registers += 1;
                self.untrapped += u64::from(!trapped);
            }
            Crossing::Line(_) | Crossing::Message(_) | Crossing::Frame(_) => {}
        }
    }
}

/// Offset of the polled pages.
const PAGES: u32 = 0x8000;

fn identity() -> Identity {
    let at = |offset| BarOffset { bar: 0, offset };
    Identity {
        vendor: 0x1234,
        device: 0x5678,
        subsystem: (0x1234, 1),
        revision: 1,
        class: 0xff_0000,
        bars: [Bar::Memory64(1 << 16), Bar::None, Bar::Io(64), Bar::None, Bar::None, Bar::None],
        line: true,
        capabilities: vec![
            Capability::Power { resets: true },
            Capability::Express { speed: 1, width: 1 },
            Capability::MsiX { vectors: 20, table: at(0x2000), pending: at(0x3000) },
        ],
        polled: Some(PolledPages { first: at(PAGES), pages: 2, words: &[0x20, 0x800] }),
    }
}

type Served = Function<Toy, Seen>;

/// Returns a served toy with a client that has sent its version.
fn connected() -> (Served, Client) {
    let mut f = Function::new(identity(), Toy::default(), Seen::default()).unwrap();
    let c = connect(&mut f);
    (f, c)
}

fn connect(f: &mut Served) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    f.connect(Time::ZERO, theirs).unwrap();
    let mut c = Client::new(ours);
    assert_eq!(c.version(f), (0, 1));
    c
}

/// Names the type of the toy's port.
#[expect(dead_code, reason = "it only has to be a port for any device")]
fn the_toy_is_a_device(t: Toy) -> impl Device<GuestPort<Seen>> {
    t
}
