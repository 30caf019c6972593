//! A minimal NIC to test scheduler and traffic: a ring each way, checksum and segmentation offload,
//! one interrupt, on a bus with 100 ns latency each way.

use doorbell_bus::{Costs, Machine, Platform, ProtectionGranularity};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Device, Direction, DropReason, EventSource, Fence, Host,
    Iova, Mapped, Port, Reg, RxVerdict, Span, Time,
};
use doorbell_packet::segment::Segments;
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, Packet};
use doorbell_sim::link::{SharedWire, Wired};
use doorbell_sim::napi::Interrupt;
use doorbell_sim::traffic::tcp::Hosts;
use doorbell_testkit::ConstantLatencyBus;
use std::collections::VecDeque;

const LINK: Span = Span::from_ns(100);

const TX_TAIL: Reg = Reg::at(0x00);
const RX_TAIL: Reg = Reg::at(0x04);
/// Cause bit. A read clears it and lowers the line.
const CAUSE: Reg = Reg::at(0x08);
const UNMASK: Reg = Reg::at(0x0c);
const MASK: Reg = Reg::at(0x10);
const TX_RING: Reg = Reg::at(0x18);
const RX_RING: Reg = Reg::at(0x20);

const SLOTS: u32 = 256;
/// Bytes of a slot: address 8, length 4, flags 4, segment size 4, header 4. A receive slot has the
/// first two and a status.
const SLOT: u32 = 32;
const LAST: u32 = 1;
const DONE: u32 = 2;
const CHECKSUM: u32 = 4;
const RX_SIZE: u32 = 2048;

#[derive(Debug)]
pub struct Toy {
    message: bool,
    tx: Iova,
    rx: Iova,
    tx_head: u32,
    tx_tail: u32,
    rx_head: u32,
    rx_tail: u32,
    ps_per_byte: u64,
    free: Time,
    large: Vec<u8>,
    /// Frames to send, and slots to mark done after them.
    due: VecDeque<(Time, Result<Vec<u8>, u32>)>,
    cause: bool,
    unmasked: bool,
    /// Drops each n-th received frame.
    pub lose_every: Option<u64>,
    seen: u64,
}

impl Toy {
    fn tell<P: Port>(&mut self, p: &mut P, at: Time) {
        if !self.message {
            p.set_irq_line(at, 0, self.cause && self.unmasked);
        } else if core::mem::take(&mut self.cause) {
            if self.unmasked {
                p.raise_msi(at, 0);
            } else {
                self.cause = true;
            }
        }
    }

    fn fetch<P: Port>(&mut self, p: &mut P, at: Time) {
        while self.tx_head != self.tx_tail {
            let slot = self.tx_head;
            self.tx_head = (slot + 1) % SLOTS;
            let mut d = [0; 24];
            let mut ready = p.read(at, self.tx + u64::from(slot * SLOT), &mut d).unwrap();
            let word = |i: usize| u32::from_le_bytes(d[i..i + 4].try_into().unwrap());
            let from = Iova(u64::from_le_bytes(d[..8].try_into().unwrap()));
            let start = self.large.len();
            self.large.resize(start + word(8) as usize, 0);
            ready = p.read(ready, from, &mut self.large[start..]).unwrap();
            if word(12) & LAST == 0 {
                continue;
            }
            let mut frames = vec![];
            if word(16) > 0 {
                let gso =
                    Gso { kind: GsoKind::Tcp4, size: word(16) as u16, header: word(20) as u16 };
                let mut cut = Segments::new(&self.large, gso).unwrap();
                let mut out = vec![0; cut.plan().longest()];
                while let Some(n) = cut.next_into(&mut out) {
                    frames.push(out[..n].to_vec());
                }
            } else {
                if word(12) & CHECKSUM != 0 {
                    CsumPartial { start: 34, offset: 16 }.complete(&mut self.large).unwrap();
                }
                frames.push(self.large.clone());
            }
            self.large.clear();
            self.free = self.free.max(ready);
            for f in frames {
                let bytes = f.len().max(60) as u64 + 24;
                self.due.push_back((self.free, Ok(f)));
                self.free += Span::from_ps(bytes * self.ps_per_byte);
            }
            self.due.push_back((self.free, Err(slot)));
        }
    }
}

impl EventSource for Toy {
    fn next_due(&self) -> Option<Time> {
        self.due.front().map(|d| d.0)
    }
}

impl<P: Port> Device<P> for Toy {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        if r != CAUSE {
            return u64::MAX;
        }
        let cause = core::mem::take(&mut self.cause);
        self.tell(p, at);
        cause.into()
    }
    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        self.advance(p, at);
        match r {
            TX_TAIL => {
                self.tx_tail = v as u32 % SLOTS;
                self.fetch(p, at);
            }
            RX_TAIL => self.rx_tail = v as u32 % SLOTS,
            UNMASK => self.unmasked = true,
            MASK => self.unmasked = false,
            TX_RING => self.tx = Iova(v),
            RX_RING => self.rx = Iova(v),
            _ => {}
        }
        self.tell(p, at);
    }
    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        self.seen += 1;
        if self.lose_every.is_some_and(|n| self.seen.is_multiple_of(n)) {
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        if self.rx_head == self.rx_tail {
            return RxVerdict::Dropped(DropReason::NoBuffer);
        }
        let slot = self.rx + u64::from(self.rx_head * SLOT);
        self.rx_head = (self.rx_head + 1) % SLOTS;
        let mut to = [0; 8];
        p.read(at, slot, &mut to).unwrap();
        p.write(at, Iova(u64::from_le_bytes(to)), frame).unwrap();
        p.write(at, slot + 8, &(frame.len() as u32).to_le_bytes()).unwrap();
        p.write(at, slot + 12, &DONE.to_le_bytes()).unwrap();
        self.cause = true;
        self.tell(p, at);
        RxVerdict::Yes
    }
    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some((at, what)) = self.due.pop_front_if(|d| d.0 <= until) {
            match what {
                Ok(frame) => p.emit(at, &frame),
                Err(slot) => {
                    p.write(at, self.tx + u64::from(slot * SLOT + 12), &DONE.to_le_bytes())
                        .unwrap();
                    self.cause = true;
                    self.tell(p, at);
                }
            }
        }
    }
    fn reset(&mut self, _: &mut P, _: Time) {
        self.due.clear();
    }
}

/// The driver of the NIC.
#[derive(Debug)]
pub struct ToyDriver {
    line: bool,
    tx: Coherent,
    rx: Coherent,
    sending: VecDeque<(u32, Mapped, Option<u32>)>,
    next: u32,
    receiving: VecDeque<Mapped>,
    rx_next: u32,
    stopped: bool,
}

impl ToyDriver {
    pub fn open<H: Host>(h: &mut H, line: bool) -> ToyDriver {
        let (tx, rx) =
            (h.coherent(SLOTS * SLOT, 64).unwrap(), h.coherent(SLOTS * SLOT, 64).unwrap());
        h.write64(TX_RING, tx.iova().0);
        h.write64(RX_RING, rx.iova().0);
        let (sending, receiving) = (VecDeque::new(), VecDeque::new());
        let mut d =
            ToyDriver { line, tx, rx, sending, next: 0, receiving, rx_next: 0, stopped: false };
        for slot in 0..SLOTS - 1 {
            d.post(h, slot);
        }
        h.write32(RX_TAIL, SLOTS - 1);
        h.write32(UNMASK, 1);
        d
    }

    fn post<H: Host>(&mut self, h: &mut H, slot: u32) {
        let b = h.buffer(RX_SIZE, Alignment::ANY).unwrap();
        let m = h.map(b, 0..RX_SIZE, Direction::FromDevice).unwrap();
        h.store(&self.rx, slot * SLOT, m.iova().0);
        h.store(&self.rx, slot * SLOT + 12, 0u32);
        self.receiving.push_back(m);
        h.charge(CpuWork::RxPost);
    }

    /// Takes all packets back, done or not.
    pub fn close<H: Host>(self, h: &mut H) {
        for m in self.sending.into_iter().map(|s| s.1).chain(self.receiving) {
            let b: Buf = h.unmap(m);
            h.release(b);
        }
        h.release_coherent(self.tx);
        h.release_coherent(self.rx);
    }
}

impl<H: Host> Driver<H> for ToyDriver {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let (todo, cookie) = (p.todo, p.cookie);
        let mut pieces: Vec<Fragment> = vec![p.head];
        pieces.extend(p.more.into_iter().flat_map(|m| m.frags.into_iter().chain(m.list)));
        let count = pieces.len();
        h.charge(CpuWork::TxDescriptor(count as u32));
        for (i, Fragment { buf, start, len }) in pieces.into_iter().enumerate() {
            let m = h.map(buf, start..start + len, Direction::ToDevice).unwrap();
            let last = i + 1 == count;
            let at = self.next * SLOT;
            let checksum = if todo.checksum.is_some() { CHECKSUM } else { 0 };
            h.store(&self.tx, at, m.iova().0);
            h.store(&self.tx, at + 8, len);
            h.store(&self.tx, at + 12, checksum | if last { LAST } else { 0 });
            h.store(&self.tx, at + 16, todo.gso.map_or(0, |g| u32::from(g.size)));
            h.store(&self.tx, at + 20, todo.gso.map_or(0, |g| u32::from(g.header)));
            self.sending.push_back((self.next, m, last.then_some(cookie)));
            self.next = (self.next + 1) % SLOTS;
        }
        self.stopped = self.sending.len() as u32 + 20 > SLOTS;
        if !more || self.stopped {
            h.fence(Fence::Write);
            h.write32(TX_TAIL, self.next);
        }
        Tx::Ok
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        while let Some(end) = self.sending.iter().position(|s| s.2.is_some()) {
            if h.load::<u32>(&self.tx, self.sending[end].0 * SLOT + 12) & DONE == 0 {
                break;
            }
            for (_, m, cookie) in self.sending.drain(..=end) {
                up.sent(h.unmap(m), cookie.unwrap_or(0), cookie.is_some());
            }
            h.charge(CpuWork::TxDone(1));
        }
        // `sent` without `last` ignores the cookie.
        self.stopped &= self.sending.len() as u32 + 40 > SLOTS;
        let mut n = 0;
        while n < budget && h.load::<u32>(&self.rx, self.rx_next * SLOT + 12) == DONE {
            h.fence(Fence::DmaRead);
            let len = h.load::<u32>(&self.rx, self.rx_next * SLOT + 8);
            let buf = h.unmap(self.receiving.pop_front().unwrap());
            h.charge(CpuWork::RxPacket);
            up.received(Packet::linear(Fragment { buf, start: 0, len }), false);
            self.post(h, (self.rx_next + SLOTS - 1) % SLOTS);
            // The slot's status is cleared when it is posted again, one round later.
            self.rx_next = (self.rx_next + 1) % SLOTS;
            n += 1;
        }
        if n > 0 {
            h.fence(Fence::Write);
            h.write32(RX_TAIL, (self.rx_next + SLOTS - 1) % SLOTS);
        }
        if n == budget {
            return Poll::Again;
        }
        h.write32(UNMASK, 1);
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if self.line && h.read32(CAUSE) == 0 {
            return Irq::None;
        }
        h.write32(MASK, 1);
        Irq::Poll
    }

    fn work(&mut self, _: &mut H) {}

    fn stopped(&self) -> bool {
        self.stopped
    }
}

pub type System = Machine<ConstantLatencyBus<SharedWire>, Wired<Toy, Hosts>>;

/// Creates a machine with the NIC on a link of this rate and one-way delay.
pub fn machine(
    hosts: Hosts,
    costs: Costs,
    cores: usize,
    rate: u64,
    delay: Span,
    line: bool,
) -> System {
    let toy = Toy {
        message: !line,
        tx: Iova(0),
        rx: Iova(0),
        tx_head: 0,
        tx_tail: 0,
        rx_head: 0,
        rx_tail: 0,
        ps_per_byte: 8_000_000_000_000 / rate,
        free: Time::ZERO,
        large: vec![],
        due: VecDeque::new(),
        cause: false,
        unmasked: false,
        lose_every: None,
        seen: 0,
    };
    let platform = Platform::new(1 << 32, 64 << 20, ProtectionGranularity::Page);
    let (bus, toy) = Wired::new(ConstantLatencyBus::new(platform, LINK), toy, hosts, (rate, delay));
    Machine::new(bus, toy, costs, cores)
}

pub fn interrupt(line: bool) -> Interrupt {
    if line { Interrupt::Line(0) } else { Interrupt::Message(0) }
}
