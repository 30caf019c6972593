//! A NIC of your own with its driver, and the cost of their packets.
//!
//! `cargo run --release --example own_device`
//!
//! The device writes no status into descriptors. It writes the index of its last descriptor into
//! one word of memory, once for all packets of a doorbell, and then sends its interrupt. The bill
//! compares this with a write and an interrupt for each packet.

use doorbell::custom;
use doorbell::prelude::*;
use doorbell::result::Measured;
use std::collections::VecDeque;

/// Registers: addresses of ring and word, and the doorbell.
const BASE: Reg = Reg::at(0x00);
const WORD: Reg = Reg::at(0x08);
const TAIL: Reg = Reg::at(0x10);

/// Descriptors of the ring, each of 16 bytes: address, length.
const RING: u32 = 256;

/// The device. `wire` holds unfinished packets by the time they end.
#[derive(Default)]
pub(crate) struct Nic {
    base: Iova,
    word: Iova,
    head: u32,
    per_doorbell: bool,
    wire: VecDeque<(Time, u32, Vec<u8>, bool)>,
    bad_reads: u64,
}

impl EventSource for Nic {
    fn next_due(&self) -> Option<Time> {
        self.wire.front().map(|(at, ..)| *at)
    }
}

impl<P: Port> Device<P> for Nic {
    fn mmio_read(&mut self, _: &mut P, _: Time, _: Reg, _: u8) -> u64 {
        0
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        match r {
            BASE => self.base = Iova(v),
            WORD => self.word = Iova(v),
            TAIL => {
                let tail = v as u32 % RING;
                while self.head != tail {
                    let mut d = [0; 16];
                    let from = self.base + u64::from(self.head * 16);
                    self.head = (self.head + 1) % RING;
                    let Ok(ready) = p.read(at, from, &mut d) else {
                        self.bad_reads += 1;
                        return;
                    };
                    let [address, length] = [&d[..8], &d[8..]]
                        .map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
                    let mut frame = vec![0; (length & 0xffff) as usize];
                    let Ok(ready) = p.read(ready, Iova(address), &mut frame) else {
                        self.bad_reads += 1;
                        return;
                    };
                    // In order: a packet waits for the one before it.
                    let ready = self.wire.back().map_or(ready, |(before, ..)| ready.max(*before));
                    self.wire.push_back((
                        ready,
                        self.head,
                        frame,
                        !self.per_doorbell || self.head == tail,
                    ));
                }
            }
            _ => {}
        }
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some((at, head, frame, tell)) = self.wire.pop_front_if(|(at, ..)| *at <= until) {
            p.emit(at, &frame);
            if tell && p.write(at, self.word, &head.to_le_bytes()).is_ok() {
                p.raise_msi(at, 0);
            }
        }
    }

    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::NoBuffer)
    }

    fn reset(&mut self, _: &mut P, _: Time) {
        *self = Nic { per_doorbell: self.per_doorbell, ..Nic::default() };
    }
}

/// The driver of the device.
pub(crate) struct Mine {
    ring: TxRing,
    word: Coherent,
}

impl Mine {
    pub(crate) fn open<H: Host>(h: &mut H) -> Mine {
        let ring = TxRing::new(h, RING, 16).expect("memory for the ring");
        let word = h.coherent(64, 64).expect("memory for the word");
        h.write64(BASE, ring.iova().0);
        h.write64(WORD, word.iova().0);
        Mine { ring, word }
    }

    fn close<H: Host>(self, h: &mut H) {
        self.ring.release(h);
        h.release_coherent(self.word);
    }
}

impl<H: Host> Driver<H> for Mine {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        h.charge(CpuWork::TxDescriptor(1));
        let queued = self.ring.push(h, p, |to| [to.iova().0, u64::from(to.len())]);
        if !more || self.ring.is_full() {
            h.fence(Fence::Write);
            h.write32(TAIL, self.ring.tail());
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, _budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let head = h.load::<u32>(&self.word, 0);
        let done = self.ring.reclaim(h, up, |_, _, at| at != head * 16);
        h.charge(CpuWork::TxDone(done));
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        Irq::Poll
    }

    fn stopped(&self) -> bool {
        self.ring.is_full()
    }
}

fn metered(per_doorbell: bool) -> Result<Measured, Box<dyn std::error::Error>> {
    let mut machine = custom::on_pcie(3, 4, Nic { per_doorbell, ..Nic::default() })?;
    let load = Load::pktgen(60, 8, 10_000);
    Ok(custom::meter(
        &mut machine,
        Mine::open,
        Mine::close,
        (Interrupt::Message(0), RING - 1),
        &load,
    )?)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (each, shared) = (metered(false)?, metered(true)?);
    println!("{:24}{:>12}{:>12}", "a packet", "each", "shared");
    for ((name, a), (_, b)) in
        each.per_packet().into_iter().zip(shared.per_packet()).filter(|((_, a), _)| *a > 0.0)
    {
        println!("{name:24}{a:12.3}{b:12.3}");
    }
    assert!(
        each.is_sound() && shared.is_sound(),
        "{:#?}{:#?}",
        each.verdict.audit,
        shared.verdict.audit
    );
    Ok(())
}
