//! The device: a NIC that nobody has built.
//!
//! It writes no status into descriptors. It writes the index of each ring's next descriptor into a
//! word of memory: behind the last packet of a doorbell, or behind each. Descriptors have 16 bytes:
//! address, length, and for received frames the length that the device writes behind it.
//!
//! States: a failed access to memory stops it until a reset. Effects are ordered by their times in
//! `wire` and `landing`, whose front is what it does next.

use doorbell::hal::counters;
use doorbell::prelude::*;
use std::collections::VecDeque;

/// Registers of 64 bits: addresses of rings, and of the words for their heads.
pub(crate) const TX_BASE: Reg = Reg::at(0x00);
pub(crate) const RX_BASE: Reg = Reg::at(0x08);
pub(crate) const WORDS: Reg = Reg::at(0x10);
/// The doorbells: one past the last descriptor that is the device's.
pub(crate) const TX_TAIL: Reg = Reg::at(0x18);
pub(crate) const RX_TAIL: Reg = Reg::at(0x1c);
/// Interrupt causes, which a read clears, and those that are enabled.
pub(crate) const CAUSE: Reg = Reg::at(0x20);
pub(crate) const ENABLED: Reg = Reg::at(0x24);
/// A write resets the device.
pub(crate) const RESET: Reg = Reg::at(0x28);
/// The device's next descriptors.
pub(crate) const TX_HEAD: Reg = Reg::at(0x2c);
pub(crate) const RX_HEAD: Reg = Reg::at(0x30);

/// The names that runs show.
const NAMES: [(Reg, &str); 10] = [
    (TX_BASE, "TX_BASE"),
    (RX_BASE, "RX_BASE"),
    (WORDS, "WORDS"),
    (TX_TAIL, "TX_TAIL"),
    (RX_TAIL, "RX_TAIL"),
    (CAUSE, "CAUSE"),
    (ENABLED, "ENABLED"),
    (RESET, "RESET"),
    (TX_HEAD, "TX_HEAD"),
    (RX_HEAD, "RX_HEAD"),
];

/// A packet was sent; a frame was received.
pub(crate) const SENT: u32 = 1;
pub(crate) const RECEIVED: u32 = 2;

/// Descriptors of each ring, and bytes of one.
pub(crate) const RING: u32 = 256;
pub(crate) const DESCRIPTOR: u32 = 16;
/// The received length in a descriptor.
pub(crate) const RECEIVED_LEN: u32 = 12;
/// The received ring's word.
pub(crate) const RX_WORD: u32 = 64;

/// Preamble, delimiter, FCS and gap between frames.
const AROUND: u64 = 24;
/// Frames that wait for memory.
const FIFO: usize = 64;

counters! {
    /// Counts of the device.
    struct Counters;
    /// Frames sent.
    tx_frames,
    /// Frames written to memory.
    rx_frames,
    /// Frames lost because there was no buffer, or none that fits.
    rx_no_buffer,
    /// Frames lost because too many waited for memory.
    rx_overrun,
    /// Descriptors with a length that is none.
    bad_lengths,
    /// Accesses to memory that failed, each of which stopped the device.
    faults,
}

/// The choices of a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    /// The time of a byte on the wire.
    pub(crate) byte: Span,
    /// Reports each packet, and not the last of a doorbell alone.
    pub(crate) each: bool,
}

/// A packet on its way out.
#[derive(Debug)]
struct Leaving {
    at: Time,
    frame: Vec<u8>,
    /// The ring's head behind it, if that is reported.
    head: Option<u32>,
}

/// A frame on its way to memory.
#[derive(Debug)]
struct Landing {
    at: Time,
    frame: Vec<u8>,
    to: Iova,
    descriptor: Iova,
    head: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Nic {
    c: Config,
    tx_base: Iova,
    rx_base: Iova,
    words: Iova,
    tx_head: u32,
    rx_head: u32,
    rx_tail: u32,
    cause: u32,
    enabled: u32,
    line: bool,
    stopped: bool,
    wire_free: Time,
    wire: VecDeque<Leaving>,
    landing: VecDeque<Landing>,
    pub(crate) counters: Counters,
}

impl Nic {
    pub(crate) fn new(c: Config) -> Nic {
        Nic { c, ..Nic::default() }
    }

    /// Reads a descriptor. Returns its address and length, and when they are there.
    fn fetch<P: Port>(&mut self, p: &mut P, at: Time, from: Iova) -> Option<(Time, Iova, u32)> {
        let mut d = [0; DESCRIPTOR as usize];
        let ready = p.read(at, from, &mut d).ok();
        let Some(ready) = ready else {
            self.fault();
            return None;
        };
        let word = u64::from_le_bytes(std::array::from_fn(|i| d[i]));
        let len = u32::from_le_bytes(std::array::from_fn(|i| d[8 + i]));
        Some((ready, Iova(word), len))
    }

    fn fault(&mut self) {
        self.counters.faults += 1;
        self.stopped = true;
    }

    /// Takes the packets up to `tail`.
    fn send<P: Port>(&mut self, p: &mut P, mut at: Time, tail: u32) {
        while self.tx_head != tail && !self.stopped {
            let from = self.tx_base + u64::from(self.tx_head * DESCRIPTOR);
            self.tx_head = (self.tx_head + 1) % RING;
            let Some((ready, address, len)) = self.fetch(p, at, from) else { return };
            let mut frame = vec![0; (len & 0xffff) as usize];
            if !(14..=9018).contains(&frame.len()) {
                self.counters.bad_lengths += 1;
                frame.clear();
            } else {
                match p.read(ready, address, &mut frame) {
                    Ok(there) => at = at.max(there),
                    Err(_) => return self.fault(),
                }
            }
            // In order, and as fast as the wire takes them.
            let at = self.wire_free.max(at).max(ready);
            self.wire_free = at + self.c.byte * (frame.len() as u64 + AROUND);
            let last = self.tx_head == tail;
            let head = (self.c.each || last).then_some(self.tx_head);
            self.wire.push_back(Leaving { at, frame, head });
        }
    }

    /// Writes a head into its word, and reports it.
    fn tell<P: Port>(&mut self, p: &mut P, at: Time, to: Iova, head: u32, cause: u32) {
        match p.write(at, to, &head.to_le_bytes()) {
            Ok(there) => {
                self.cause |= cause;
                self.drive(p, there);
            }
            Err(_) => self.fault(),
        }
    }

    /// Gives the interrupt line its level.
    fn drive<P: Port>(&mut self, p: &mut P, at: Time) {
        let high = self.cause & self.enabled != 0;
        if high != self.line {
            self.line = high;
            p.set_irq_line(at, 0, high);
        }
    }

    fn leave<P: Port>(&mut self, p: &mut P, l: Leaving) {
        if !l.frame.is_empty() {
            p.emit(l.at, &l.frame);
            self.counters.tx_frames += 1;
        }
        if let Some(head) = l.head {
            self.tell(p, l.at, self.words, head, SENT);
        }
    }

    fn land<P: Port>(&mut self, p: &mut P, l: Landing) {
        let length = (l.frame.len() as u32).to_le_bytes();
        if p.write(l.at, l.to, &l.frame).is_err()
            || p.write(l.at, l.descriptor + u64::from(RECEIVED_LEN), &length).is_err()
        {
            return self.fault();
        }
        self.counters.rx_frames += 1;
        self.tell(p, l.at, self.words + u64::from(RX_WORD), l.head, RECEIVED);
    }
}

impl EventSource for Nic {
    fn next_due(&self) -> Option<Time> {
        if self.stopped {
            return None;
        }
        let due = [self.wire.front().map(|l| l.at), self.landing.front().map(|l| l.at)];
        due.into_iter().flatten().min()
    }

    fn register_name(&self, r: Reg) -> Option<&'static str> {
        NAMES.iter().find(|(of, _)| *of == r).map(|(_, name)| *name)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        tell("next to send", Fact::Number(self.tx_head.into()));
        tell("next to fill", Fact::Number(self.rx_head.into()));
        tell("receive tail", Fact::Number(self.rx_tail.into()));
        tell("causes", Fact::Bits(self.cause.into()));
        tell("enabled", Fact::Bits(self.enabled.into()));
        tell("stopped by a failed access", Fact::State(self.stopped));
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.counters.entries().for_each(|(name, n)| tell(name, n));
    }
}

impl<P: Port> Device<P> for Nic {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        match r {
            CAUSE => {
                let cause = std::mem::take(&mut self.cause);
                self.drive(p, at);
                cause.into()
            }
            ENABLED => self.enabled.into(),
            _ => 0,
        }
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        self.advance(p, at);
        match r {
            TX_BASE => self.tx_base = Iova(v),
            RX_BASE => self.rx_base = Iova(v),
            WORDS => self.words = Iova(v),
            TX_TAIL => self.send(p, at, v as u32 % RING),
            RX_TAIL => self.rx_tail = v as u32 % RING,
            TX_HEAD => self.tx_head = v as u32 % RING,
            RX_HEAD => (self.rx_head, self.rx_tail) = (v as u32 % RING, v as u32 % RING),
            ENABLED => {
                self.enabled = v as u32;
                self.drive(p, at);
            }
            RESET => self.reset(p, at),
            _ => {}
        }
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            if let Some(l) = self.wire.pop_front_if(|l| l.at == due) {
                self.leave(p, l);
            } else if let Some(l) = self.landing.pop_front() {
                self.land(p, l);
            }
        }
    }

    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        self.advance(p, at);
        if self.stopped || self.rx_head == self.rx_tail {
            self.counters.rx_no_buffer += 1;
            return RxVerdict::Dropped(DropReason::NoBuffer);
        }
        if self.landing.len() >= FIFO {
            self.counters.rx_overrun += 1;
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        let descriptor = self.rx_base + u64::from(self.rx_head * DESCRIPTOR);
        let Some((ready, to, room)) = self.fetch(p, at, descriptor) else {
            return RxVerdict::Dropped(DropReason::Dma);
        };
        if frame.len() > room as usize {
            self.counters.rx_no_buffer += 1;
            return RxVerdict::Dropped(DropReason::NoBuffer);
        }
        self.rx_head = (self.rx_head + 1) % RING;
        let at = self.landing.back().map_or(ready, |before| before.at.max(ready));
        let (frame, head) = (frame.to_vec(), self.rx_head);
        self.landing.push_back(Landing { at, frame, to, descriptor, head });
        RxVerdict::Yes
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        let counters = self.counters;
        (self.cause, self.enabled) = (0, 0);
        self.drive(p, at);
        *self = Nic { counters, ..Nic::new(self.c) };
    }
}
