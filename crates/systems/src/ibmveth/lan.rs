//! The devices that the partitions share: the logical LAN, and the physical port of the I/O server.
//!
//! The port models no particular NIC; the published one is unknown. It takes large sends and
//! checksums if its settings say so, and puts frames on the wire. Received frames wait in its ring
//! until the driver fetches them, announced by a limited rate of interrupts. Its memory accesses
//! cost nothing: a direct-mapped DMA window needs no call for each packet.

use doorbell_bus::{Bus, Hypercalls, HypervisorDevice, Partitions};
use doorbell_devices::veth::Veth;
use doorbell_hal::{
    Device, DropReason, EventSource, Fact, Hcall, Reg, Reply, RxVerdict, Span, Time, counters,
};
use doorbell_packet::{OffloadRequest, segment::Segments};
use std::{collections::VecDeque, mem};

/// The client's partition, and its core.
pub(super) const CLIENT: usize = 0;
/// The I/O server's partition, and its core.
pub(super) const SERVER: usize = 1;
/// The interrupt of the physical port, in the server's partition.
pub(super) const PORT_VECTOR: u16 = 200;

/// Settings of the physical port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// The port cuts large sends; otherwise the bridge has to.
    pub tso: bool,
    /// The port makes TCP checksums.
    pub checksum: bool,
    /// Receive ring in frames.
    pub ring: usize,
    /// The least time between two interrupts.
    pub interrupt_gap: Span,
    /// Longest frame without FCS, either way.
    pub longest: usize,
}

counters! {
    /// Counters of the physical port.
    struct PortCounters, names "port_";
    /// Frames put on the wire.
    tx_frames,
    /// Large sends that it cut.
    tx_large,
    /// Checksums that it made, without those of segments.
    tx_checksums,
    /// Frames refused as longer than the wire takes.
    tx_too_long,
    /// Frames received.
    rx_frames,
    /// Frames lost because the ring was full.
    rx_missed,
    /// Interrupts.
    interrupts,
}

#[derive(Debug, Default)]
pub(super) struct Port {
    pub(super) cfg: PortConfig,
    waiting: VecDeque<(Time, Vec<u8>)>,
    /// Buffers of frames that were fetched.
    spare: Vec<Vec<u8>>,
    /// Interrupts are enabled.
    armed: bool,
    notify: Option<Time>,
    last: Time,
    out: Vec<u8>,
    pub(super) counters: PortCounters,
}

impl Port {
    fn new(cfg: PortConfig) -> Port {
        Port { cfg, armed: true, ..Port::default() }
    }

    fn announce(&mut self, at: Time) {
        if self.armed && self.notify.is_none() {
            let gap =
                if self.counters.interrupts == 0 { Span::ZERO } else { self.cfg.interrupt_gap };
            self.notify = Some(at.max(self.last + gap));
        }
    }

    fn take(&mut self, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        if self.waiting.len() >= self.cfg.ring {
            self.counters.rx_missed += 1;
            return RxVerdict::Dropped(DropReason::NoBuffer);
        }
        self.counters.rx_frames += 1;
        let other = self.spare.pop().unwrap_or_default();
        self.waiting.push_back((at, mem::replace(frame, other)));
        self.announce(at);
        RxVerdict::Yes
    }

    /// Takes the next frame received by `now`.
    pub(super) fn fetch(&mut self, now: Time) -> Option<Vec<u8>> {
        self.waiting.pop_front_if(|f| f.0 <= now).map(|f| f.1)
    }

    /// Takes back the buffer of a frame.
    pub(super) fn recycle(&mut self, frame: Vec<u8>) {
        self.spare.push(frame);
    }

    /// Enables interrupts, and raises one if frames wait.
    pub(super) fn arm(&mut self, now: Time) {
        self.armed = true;
        if let Some(first) = self.waiting.front() {
            let at = first.0.max(now);
            self.announce(at);
        }
    }

    /// Sends a packet. The port can do all work left in it. Passes its frames to `wire` in order.
    pub(super) fn send(
        &mut self,
        frame: &mut Vec<u8>,
        todo: OffloadRequest,
        mut wire: impl FnMut(&mut Vec<u8>),
    ) {
        if let Some(gso) = todo.gso {
            let Ok(mut segments) = Segments::new(frame, gso) else {
                self.counters.tx_too_long += 1;
                return;
            };
            let longest = segments.plan().longest();
            self.counters.tx_large += 1;
            self.out.resize(longest, 0);
            while let Some(n) = segments.next_into(&mut self.out) {
                self.counters.tx_frames += 1;
                self.out.truncate(n);
                wire(&mut self.out);
                self.out.resize(longest, 0);
            }
            return;
        }
        if frame.len() > self.cfg.longest {
            self.counters.tx_too_long += 1;
            return;
        }
        if let Some(partial) = todo.checksum
            && partial.complete(frame).is_ok()
        {
            self.counters.tx_checksums += 1;
        }
        self.counters.tx_frames += 1;
        wire(frame);
    }
}

/// The LAN and the port.
#[derive(Debug)]
pub struct Lan {
    pub(super) veth: HypervisorDevice<Veth>,
    pub(super) port: Port,
}

impl Lan {
    pub(super) fn new(veth: Veth, port: PortConfig) -> Lan {
        Lan { veth: HypervisorDevice(veth), port: Port::new(port) }
    }
}

impl EventSource for Lan {
    fn next_due(&self) -> Option<Time> {
        self.veth.next_due().into_iter().chain(self.port.notify).min()
    }
    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        self.veth.diagnose(tell);
    }
}

impl<B: Bus> Device<Partitions<B>> for Lan {
    fn mmio_read(&mut self, p: &mut Partitions<B>, at: Time, r: Reg, size: u8) -> u64 {
        self.veth.mmio_read(p, at, r, size)
    }
    fn mmio_write(&mut self, p: &mut Partitions<B>, at: Time, r: Reg, size: u8, v: u64) {
        self.veth.mmio_write(p, at, r, size, v);
    }
    /// Passes a frame from the wire to the port.
    fn receive(&mut self, _: &mut Partitions<B>, at: Time, frame: &[u8]) -> RxVerdict {
        self.port.take(at, &mut frame.to_vec())
    }
    fn receive_buffer(
        &mut self,
        _: &mut Partitions<B>,
        at: Time,
        frame: &mut Vec<u8>,
    ) -> RxVerdict {
        self.port.take(at, frame)
    }
    fn advance(&mut self, p: &mut Partitions<B>, until: Time) {
        while let Some(due) = self.next_due().filter(|t| *t <= until) {
            self.veth.advance(p, due);
            if self.port.notify == Some(due) {
                self.port.notify = None;
                // NAPI disables interrupts in the handler; here this is automatic.
                self.port.armed = false;
                self.port.last = due;
                self.port.counters.interrupts += 1;
                p.ports[SERVER].raise_msi(due, PORT_VECTOR);
            }
        }
        self.veth.advance(p, until);
    }
    fn reset(&mut self, p: &mut Partitions<B>, at: Time) {
        self.veth.reset(p, at);
        let counters = self.port.counters;
        self.port = Port { counters, ..Port::new(self.port.cfg) };
    }
}

impl<B: Bus> Hypercalls<B> for Lan {
    fn hcall(&mut self, p: &mut Partitions<B>, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        self.veth.hcall(p, at, c, a)
    }
}

/// Sends a packet of the server's partition through the port.
pub(super) fn transmit<B: Bus>(
    lan: &mut Lan,
    p: &mut Partitions<B>,
    at: Time,
    frame: &mut Vec<u8>,
    todo: OffloadRequest,
) {
    let server = &mut p.ports[SERVER];
    lan.port.send(frame, todo, |f| server.emit_buffer(at, f));
}
