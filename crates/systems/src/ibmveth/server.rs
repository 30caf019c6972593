//! The partitions' drivers: the client's adapter, the I/O server's, and its physical port's.
//!
//! The server polls both of its ports together, like one NAPI instance. A received packet is marked
//! with its port and leaves by the other ([`super::bridge`]). The CPU cuts or sums a packet that
//! the physical port cannot take, as a stack does above any device (`validate_xmit_skb`).

use super::lan::{Lan, PORT_VECTOR, transmit};
use crate::papr::Hosted;
use doorbell_drivers::ibmveth::Ibmveth;
use doorbell_drivers::{Alarm, Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{Alignment, Buf, CpuWork, Host, counters};
use doorbell_packet::{Fragment, Packet};
use doorbell_sim::traffic::tcp::Hosts;

/// The machine of both partitions.
pub(super) type Lpars = Hosted<Lan, Hosts>;

/// Entries that one poll of a logical LAN adapter handles: the driver's NAPI weight.
const WEIGHT: u32 = 16;
/// Bytes of a receive buffer of the physical port.
const BUFFER: u32 = 2048;

/// Mark of a packet that came from the logical LAN.
pub(super) const FROM_LAN: u32 = 1;
/// Mark of a packet that came from the physical port.
pub(super) const FROM_PORT: u32 = 2;

counters! {
    /// Counters of the physical port's driver.
    struct Stats, names "port_";
    /// Packets sent; a large send counts as one.
    tx_packets,
    /// Packets cut by the CPU because the port cannot.
    tx_segmented,
    /// Segments cut by the CPU.
    tx_segments,
    /// Checksums made by the CPU because the port cannot, without those of segments.
    tx_csum_software,
    /// Packets that could not be converted for the port.
    tx_dropped,
    /// Frames passed up.
    rx_packets,
    /// Frames lost for lack of memory.
    rx_no_memory,
}

/// A partition's driver.
#[derive(Debug)]
pub(super) struct PartitionDriver {
    /// That of the logical LAN adapter.
    pub(super) veth: Ibmveth,
    /// In the I/O server, that of its physical port.
    pub(super) port: Option<PortDriver>,
}

/// The driver of the physical port.
#[derive(Debug, Default)]
pub(super) struct PortDriver {
    pub(super) stats: Stats,
    done: Vec<(Buf, bool)>,
    scratch: Vec<u8>,
}

/// Marks received packets with their port.
struct Marked<'a, S> {
    up: &'a mut S,
    mark: u32,
}

impl<S: Sink> Sink for Marked<'_, S> {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.up.sent(b, cookie, last);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.up.received(Packet { cookie: self.mark, ..p }, verified);
    }
}

impl PortDriver {
    /// Frees sent buffers. Returns the counters.
    pub(super) fn close(self, m: &mut Lpars) -> Stats {
        self.done.into_iter().for_each(|(b, _)| m.release(b));
        self.stats
    }

    /// Sends a packet by the physical port.
    fn out(&mut self, m: &mut Lpars, mut p: Packet) -> Tx {
        let port = m.device.device.port.cfg;
        if p.todo.gso.is_some() && !port.tso {
            let mut segments = 0;
            let cut = p.segment(m, Alignment::ANY, |m, segment| {
                segments += 1;
                self.put(m, segment);
            });
            self.stats.tx_segments += segments;
            return match cut {
                Ok(_) => {
                    self.stats.tx_segmented += 1;
                    Tx::Ok
                }
                Err(e) => {
                    self.stats.tx_dropped += 1;
                    Tx::Dropped(e.packet)
                }
            };
        }
        if p.todo.checksum.is_some() && !port.checksum && p.todo.gso.is_none() {
            if p.complete_checksum(m).is_err() {
                self.stats.tx_dropped += 1;
                return Tx::Dropped(p);
            }
            self.stats.tx_csum_software += 1;
        }
        self.put(m, p);
        Tx::Ok
    }

    /// Passes a packet to the port, which can do all work left in it.
    fn put(&mut self, m: &mut Lpars, p: Packet) {
        m.charge(CpuWork::TxDescriptor(p.pieces().count() as u32));
        m.charge(CpuWork::TxNotify);
        self.scratch.clear();
        p.pieces().for_each(|q| {
            m.bytes(&q.buf, q.start..q.start + q.len, |b| self.scratch.extend_from_slice(b));
        });
        let (frame, todo) = (&mut self.scratch, p.todo);
        m.outside(|wired, bus, at| {
            transmit(&mut wired.device, bus, at, frame, todo);
        });
        self.stats.tx_packets += 1;
        self.done.push((p.head.buf, false));
        if let Some(more) = p.more {
            self.done.extend(more.frags.into_iter().chain(more.list).map(|q| (q.buf, false)));
        }
        if let Some((_, last)) = self.done.last_mut() {
            *last = true;
        }
    }

    /// Passes up to `budget` frames of the physical port to `up`. Returns whether more may wait.
    fn fetch<S: Sink>(&mut self, m: &mut Lpars, budget: u32, up: &mut Marked<'_, S>) -> bool {
        m.charge(CpuWork::Poll);
        let packets = self.done.iter().filter(|(_, last)| *last).count() as u32;
        if packets > 0 {
            m.charge(CpuWork::TxDone(packets));
        }
        for (b, last) in self.done.drain(..) {
            up.sent(b, 0, last);
        }
        for _ in 0..budget {
            let frame = m.outside(|wired, _, at| wired.device.port.fetch(at));
            let Some(frame) = frame else {
                m.outside(|wired, _, at| wired.device.port.arm(at));
                return false;
            };
            m.charge(CpuWork::Completion);
            m.charge(CpuWork::RxPost);
            let Ok(buf) = m.buffer(BUFFER.max(frame.len() as u32), Alignment::ANY) else {
                self.stats.rx_no_memory += 1;
                continue;
            };
            m.bytes_mut(&buf, 0..frame.len() as u32, |b| b.copy_from_slice(&frame));
            m.charge(CpuWork::RxPacket);
            self.stats.rx_packets += 1;
            up.received(Packet::linear(Fragment { buf, start: 0, len: frame.len() as u32 }), true);
            m.device.device.port.recycle(frame);
        }
        true
    }
}

impl Driver<Lpars> for PartitionDriver {
    fn transmit(&mut self, m: &mut Lpars, p: Packet, more: bool) -> Tx {
        match &mut self.port {
            Some(port) if p.cookie == FROM_LAN => port.out(m, p),
            _ => self.veth.transmit(m, p, more),
        }
    }

    fn poll<S: Sink>(&mut self, m: &mut Lpars, budget: u32, up: &mut S) -> Poll {
        let weight = budget.min(WEIGHT);
        let Some(port) = &mut self.port else { return self.veth.poll(m, weight, up) };
        let lan = self.veth.poll(m, weight, &mut Marked { up: &mut *up, mark: FROM_LAN });
        let more = port.fetch(m, budget, &mut Marked { up, mark: FROM_PORT });
        match lan {
            Poll::Again => Poll::Again,
            _ if more => Poll::Again,
            other => other,
        }
    }

    fn interrupt(&mut self, m: &mut Lpars, vector: u16) -> Irq {
        if vector == PORT_VECTOR {
            m.charge(CpuWork::Interrupt);
            return Irq::Poll;
        }
        self.veth.interrupt(m, vector)
    }

    fn work(&mut self, m: &mut Lpars) {
        self.veth.work(m);
    }

    fn alarm(&mut self, m: &mut Lpars, why: Alarm) -> Irq {
        // Failed accesses are the client's.
        let others = why == Alarm::IoError && self.port.is_some();
        if others { Irq::None } else { self.veth.alarm(m, why) }
    }

    fn stopped(&self) -> bool {
        <Ibmveth as Driver<Lpars>>::stopped(&self.veth)
    }
}
