//! A DMA engine of one's own for a virtual machine, to test its Linux driver without hardware. It
//! copies from one place in memory to another.
//!
//! | register | |
//! |---|---|
//! | 0x00, 0x08 | SOURCE and DESTINATION, 64 bits each, the lower half first |
//! | 0x10 | LENGTH in bytes, up to 1 MiB |
//! | 0x14 | DOORBELL: a write of any value starts a copy |
//! | 0x18 | STATUS: bit 0 busy, bit 1 done, bit 2 error; writing 1 clears the last two |
//! | 0x1c | INTERRUPT: bit 0 sends a message when a copy has ended |
//!
//! `own_dma guest dmatoy --driver dmatoy --module dmatoy.ko --workload copy.sh` boots Linux with it
//! and the driver `dmatoy.c`, which is beside this file.

use doorbell::hal::{Device, DropReason, EventSource, Iova, Port, Reg, RxVerdict, Time, counters};
use doorbell::serve::{Bar, Capability, Identity, Model, PciDevice};
use doorbell::{DOORBELL, Devices, main_serving};

pub(crate) const SOURCE: u32 = 0x00;
pub(crate) const DESTINATION: u32 = 0x08;
pub(crate) const LENGTH: u32 = 0x10;
pub(crate) const DOORBELL_REGISTER: u32 = 0x14;
pub(crate) const STATUS: u32 = 0x18;
pub(crate) const INTERRUPT: u32 = 0x1c;

const BUSY: u32 = 1;
const DONE: u32 = 2;
const ERROR: u32 = 4;

/// The longest copy, and the bytes that the engine moves at a time.
const LONGEST: u32 = 1 << 20;
const PIECE: u32 = 256;

counters! {
    /// Counts of the engine.
    struct Counters;
    /// Copies that were done.
    copies,
    /// Copies that ended with an error: of no byte, of too many, or at an address that is nowhere.
    errors,
    /// Doorbells while a copy was under way.
    early_doorbells,
}

#[derive(Debug, Default)]
pub(crate) struct Engine {
    source: u64,
    destination: u64,
    length: u32,
    status: u32,
    interrupts: bool,
    /// Bytes of the copy that were moved.
    moved: u32,
    /// The time of the next piece.
    due: Option<Time>,
    counters: Counters,
}

/// Returns a 64-bit register with one half replaced.
fn half(old: u64, upper: bool, v: u32) -> u64 {
    if upper { old & 0xffff_ffff | u64::from(v) << 32 } else { old & !0xffff_ffff | u64::from(v) }
}

impl Engine {
    fn start<P: Port>(&mut self, p: &mut P, at: Time) {
        if self.status & BUSY != 0 {
            self.counters.early_doorbells += 1;
            return;
        }
        (self.status, self.moved) = (BUSY, 0);
        if (1..=LONGEST).contains(&self.length) {
            self.due = Some(at);
        } else {
            self.end(p, at, ERROR);
        }
    }

    fn end<P: Port>(&mut self, p: &mut P, at: Time, how: u32) {
        (self.status, self.due) = (how, None);
        *(if how == DONE { &mut self.counters.copies } else { &mut self.counters.errors }) += 1;
        if self.interrupts {
            p.raise_msi(at, 0);
        }
    }

    /// Moves the next piece. It is read whole before it is written.
    fn piece<P: Port>(&mut self, p: &mut P, at: Time) {
        let n = (self.length - self.moved).min(PIECE);
        let mut bytes = [0; PIECE as usize];
        let bytes = &mut bytes[..n as usize];
        let moved = u64::from(self.moved);
        let read = p.read(at, Iova(self.source.wrapping_add(moved)), bytes);
        let to = Iova(self.destination.wrapping_add(moved));
        match read.and_then(|there| p.write(there, to, bytes)) {
            Ok(there) => {
                self.moved += n;
                if self.moved == self.length {
                    self.end(p, there, DONE);
                } else {
                    self.due = Some(there);
                }
            }
            Err(_) => self.end(p, at, ERROR),
        }
    }
}

impl EventSource for Engine {
    fn next_due(&self) -> Option<Time> {
        self.due
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        doorbell::hal::CounterSet::each(&self.counters, tell);
    }
}

impl<P: Port> Device<P> for Engine {
    fn mmio_read(&mut self, _: &mut P, _: Time, r: Reg, _: u8) -> u64 {
        let value = match r.offset {
            SOURCE => self.source as u32,
            offset if offset == SOURCE + 4 => (self.source >> 32) as u32,
            DESTINATION => self.destination as u32,
            offset if offset == DESTINATION + 4 => (self.destination >> 32) as u32,
            LENGTH => self.length,
            STATUS => self.status,
            INTERRUPT => self.interrupts.into(),
            _ => 0,
        };
        value.into()
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        let v = v as u32;
        match r.offset {
            0..DESTINATION => self.source = half(self.source, r.offset >= SOURCE + 4, v),
            DESTINATION..LENGTH => {
                self.destination = half(self.destination, r.offset >= DESTINATION + 4, v);
            }
            LENGTH => self.length = v,
            DOORBELL_REGISTER => self.start(p, at),
            STATUS => self.status &= !(v & (DONE | ERROR)),
            INTERRUPT => self.interrupts = v & 1 != 0,
            _ => {}
        }
    }

    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.due.filter(|due| *due <= until && !p.is_spent()) {
            self.piece(p, at);
        }
    }

    fn reset(&mut self, _: &mut P, _: Time) {
        *self = Engine { counters: self.counters, ..Engine::default() };
    }
}

struct Toy;

impl Model for Toy {
    const NAME: &'static str = "dmatoy";
    const BUS: &'static str = "pcie2x16";
    const BITS_PER_SECOND: u64 = 1_000_000_000;
    type Device<P: Port> = Engine;

    fn identity() -> Identity {
        Identity {
            vendor: 0x1234,
            device: 0xd0a0,
            subsystem: (0x1234, 0xd0a0),
            revision: 1,
            class: 0x08_8000,
            bars: [Bar::Memory(4 << 10), Bar::None, Bar::None, Bar::None, Bar::None, Bar::None],
            line: false,
            capabilities: vec![
                Capability::Power { resets: true },
                Capability::Express { speed: 2, width: 16 },
                Capability::Msi(1),
            ],
            polled: None,
        }
    }

    fn device<P: Port>(_: Option<[u8; 6]>) -> Engine {
        Engine::default()
    }
}

static DEVICES: [PciDevice; 1] = [PciDevice::of::<Toy>()];

fn main() -> std::process::ExitCode {
    main_serving(&DOORBELL, Devices(&DEVICES))
}
