//! A driver with its machine and server.

use super::recording_server::RecordingServer;
use crate::packets::{self, Frame, TestSink};
use doorbell_bus::{Bus, Costs, HypervisorDevice, HypervisorPort, Machine, Partitions};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_drivers::ibmvnic::{Config, Ibmvnic};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::{Fence, Hcall, Hypervisor, RxVerdict, Span, Time, WorkKind};
use doorbell_layout::ibmvnic::hcall;
use doorbell_packet::{OffloadRequest, Packet};
use doorbell_testkit::reorder::{Order, Reorder};
use std::collections::VecDeque;

/// One partition and its hypervisor.
pub type System = Machine<Partitions<HypervisorPort>, HypervisorDevice<RecordingServer>>;

/// A host that has such a machine beneath.
pub trait Model: Hypervisor {
    /// It.
    fn system(&mut self) -> &mut System;
}

impl Model for System {
    fn system(&mut self) -> &mut System {
        self
    }
}

impl Model for Reorder<System> {
    fn system(&mut self) -> &mut System {
        &mut self.inner
    }
}

/// A machine with this adapter.
pub fn system(cfg: vnic::Config) -> System {
    sized(cfg, 96 << 20)
}

/// The same with so many bytes of memory.
pub fn sized(cfg: vnic::Config, memory: usize) -> System {
    let mut costs = Costs::FREE;
    costs.relax = Span::from_us(1);
    // While a packet is handed up, others land.
    costs.work[WorkKind::RxPacket as usize].each = Span::from_us(1);
    let partitions = Partitions::new(vec![crate::partition(memory)], vec![0], Span::from_ns(600));
    let mut h = Machine::new(
        partitions,
        HypervisorDevice(RecordingServer::new(VnicServer::new(cfg, 1))),
        costs,
        1,
    );
    h.bus.sink_mut().start();
    h
}

/// The same with a CPU that reorders, on which a fence that is `ignored` does nothing.
pub fn reordered(order: Order, ignored: Option<Fence>) -> impl Fn(vnic::Config) -> Reorder<System> {
    move |cfg| {
        let mut h = Reorder::new(system(cfg), order);
        h.ignored = ignored;
        // The server is a partition of its own, on another processor.
        h.distant = &[
            Hcall(hcall::SEND_CRQ),
            Hcall(hcall::SEND_SUB_CRQ),
            Hcall(hcall::SEND_SUB_CRQ_INDIRECT),
        ];
        h
    }
}

pub(super) struct Harness<M: Model> {
    pub(super) h: M,
    pub(super) nic: Ibmvnic,
    pub(super) up: TestSink,
    pub(super) wire: VecDeque<Vec<u8>>,
}

/// Returns a driver configuration with short queues.
pub(super) fn small() -> Config {
    let d = vnic::Config::POWERVM;
    Config {
        tx_entries: 64,
        rx_entries: 64,
        tso_buffers: 4,
        crq_vector: d.crq_vector,
        ..Config::new(d.unit_address, d.mac)
    }
}

impl<M: Model> Harness<M> {
    pub(super) fn new(mut h: M, c: &Config) -> Harness<M> {
        let nic = Ibmvnic::open(&mut h, c).unwrap();
        let mut b = Harness { h, nic, up: TestSink::default(), wire: VecDeque::new() };
        b.settle();
        b
    }

    /// Open, with carrier.
    pub(super) fn up(
        make: impl Fn(vnic::Config) -> M,
        cfg: vnic::Config,
        c: &Config,
    ) -> Harness<M> {
        let b = Harness::new(make(cfg), c);
        assert!(b.nic.is_running(), "{:?}", b.nic.stats());
        b
    }

    pub(super) fn spy(&mut self) -> &mut RecordingServer {
        &mut self.h.system().device.0
    }

    /// Something happens to the server, from outside, now.
    pub(super) fn event(&mut self, f: impl FnOnce(&mut VnicServer, Time)) {
        self.h.system().outside(|d, _, at| f(&mut d.0.server, at));
    }

    pub(super) fn counters(&mut self) -> vnic::Counters {
        self.spy().server.counters
    }

    /// The next interrupt that is there.
    fn vector(&mut self) -> Option<u16> {
        let now = self.h.now();
        let m = self.h.system();
        m.catch_up();
        let p = m.bus.platform_mut();
        let v = (0..64).find(|v| p.message_pending(*v).is_some_and(|t| t <= now))?;
        p.take_message(v);
        Some(v)
    }

    /// Takes interrupts, polls and works until there is nothing for now.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            let Some(v) = self.vector() else { return };
            if self.nic.interrupt(&mut self.h, v) == Irq::Poll {
                self.poll();
            }
        }
        panic!("it interrupts for ever");
    }

    pub(super) fn poll(&mut self) {
        for q in 0..self.nic.queue_stats().len() {
            loop {
                match self.nic.poll_on(&mut self.h, q, 16, &mut self.up) {
                    Poll::Again => {}
                    Poll::Idle => break,
                    Poll::Work => self.nic.work(&mut self.h),
                }
            }
        }
    }

    /// Some time passes, with all that happens in it.
    pub(super) fn wait(&mut self, span: Span) {
        let until = self.h.now() + span;
        while self.h.now() < until {
            self.h.delay(Span::from_us(5));
            self.run();
        }
    }

    pub(super) fn settle(&mut self) {
        self.wait(Span::from_us(300));
    }

    pub(super) fn packet(
        &mut self,
        bytes: &[u8],
        cuts: &[usize],
        todo: OffloadRequest,
        cookie: u32,
    ) -> Packet {
        Packet { cookie, ..packets::packet(&mut self.h, 41, bytes, cuts, 0, todo) }
    }

    pub(super) fn transmit(&mut self, bytes: &[u8], todo: OffloadRequest, more: bool) -> Tx {
        let p = self.packet(bytes, &[], todo, 7);
        self.nic.transmit(&mut self.h, p, more)
    }

    /// Sends one packet; what came out on the wire.
    pub(super) fn send(&mut self, bytes: &[u8], todo: OffloadRequest) -> Vec<Vec<u8>> {
        assert_eq!(self.transmit(bytes, todo, false), Tx::Ok);
        self.settle();
        self.wire()
    }

    /// Sends a packet that is dropped, and releases it.
    pub(super) fn refused(&mut self, bytes: &[u8], todo: OffloadRequest) {
        match self.transmit(bytes, todo, false) {
            Tx::Dropped(p) => p.release(&mut self.h),
            t => panic!("{t:?}"),
        }
    }

    pub(super) fn wire(&mut self) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = self.wire.drain(..).collect();
        let drained = self.h.system().bus.sink_mut().drain(|_, f| {
            all.push(f.to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!(drained, Ok(()));
        all
    }

    pub(super) fn inject(&mut self, frame: &[u8]) -> RxVerdict {
        self.h.system().outside(|d, bus, at| {
            use doorbell_hal::HcallDevice;
            d.0.receive(&mut bus.ports, at, frame)
        })
    }

    pub(super) fn came(&mut self) -> Vec<Frame> {
        self.up.take_received(&mut self.h)
    }

    pub(super) fn receive(&mut self, frame: &[u8]) -> Vec<Frame> {
        assert_eq!(self.inject(frame), RxVerdict::Yes);
        self.settle();
        self.came()
    }

    /// Releases what came back; how many packets.
    pub(super) fn reclaim(&mut self) -> usize {
        self.up.release_sent(&mut self.h).1
    }

    /// Closes the adapter, and sees that nothing is left and every packet accounted for.
    pub(super) fn close(mut self) {
        self.settle();
        self.poll();
        self.reclaim();
        assert!(self.nic.is_drained());
        self.came();
        let (s, q, d) = (self.nic.stats(), self.nic.totals(), self.counters());
        assert_eq!(q.tx_packets, d.tx_taken, "what the driver gave is what the server took");
        assert_eq!(q.tx_packets, q.tx_completed + q.tx_errors + q.tx_lost);
        assert_eq!(d.tx_taken, d.tx_sent + d.tx_errors + d.tx_discarded + d.tx_lost);
        assert_eq!(q.tx_completed + q.tx_errors, d.completions, "every report was taken");
        assert_eq!(d.rx_packets, q.rx_packets + q.rx_unread + q.rx_no_memory);
        assert_eq!((q.tx_bad_correlator, q.rx_bad_correlator, q.rx_malformed), (0, 0, 0));
        assert_eq!(q.rx_added, d.rx_buffers);
        self.nic.close(&mut self.h);
        let d = self.h.system().device.0.server.counters;
        assert_eq!((d.maps, self.h.system().device.0.server.live_maps(0)), (d.unmaps, 0), "maps");
        assert_eq!(d.maps, s.maps);
        assert_eq!((d.queue_faults, d.dma_faults), (0, 0));
        let m = self.h.system();
        m.flush_posted();
        let p = m.bus.platform_mut();
        let l = &p.ledger;
        assert_eq!((l.buffers_taken, l.dma_faults), (l.buffers_released, 0));
        assert_eq!(
            (p.memory.mapped(), p.live_entries()),
            ((0, 0), 0),
            "all that was taken comes back"
        );
    }
}
