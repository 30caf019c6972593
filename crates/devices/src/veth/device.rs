//! The hypervisor's side as a whole: which call is for which adapter, and what is due when.

use super::adapter::{Adapter, Counters};
use super::config::Config;
use super::send::{FrameMemory, HEADERS};
use super::switch::Learned;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{
    DropReason, EventSource, Fact, Hcall, HcallDevice, HcallReturn, Port, Reply, RxVerdict, Time,
};
use doorbell_layout::ibmveth::*;
use doorbell_packet::ethernet::HEADER;

/// Done in part: what else was asked for cannot be changed, or has no room.
pub const H_CONSTRAINED: i64 = 4;

/// Frames from the uplink that wait for their time.
const ARRIVALS: usize = 1024;

/// State that frames on their way share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) cfg: Config,
    pub(super) adapters: Vec<Adapter>,
    pub(super) learned: Learned,
    /// The uplink's, as of an adapter: sent is what came from the network.
    pub(super) uplink: Counters,
    /// The adapter behind the uplink is frozen.
    pub(super) frozen: bool,
    /// A segment's header.
    pub(super) head: Vec<u8>,
    /// A frame for the uplink.
    pub(super) out: Vec<u8>,
}

/// The logical LAN: all adapters of all partitions, and the switch.
#[derive(Debug)]
pub struct Veth {
    pub(super) parts: Parts,
    /// Memory of a frame, to be used again.
    pub(super) spare: FrameMemory,
    pub(super) tokens: u64,
    /// From the uplink, in order.
    arrivals: VecDeque<(Time, FrameMemory)>,
    /// Time of the next event.
    due: Time,
    /// Calls with a unit address that is not the caller's.
    strangers: u64,
}

impl Veth {
    /// A LAN as when the hypervisor started. Of the trunks of a VLAN the first by priority is
    /// active.
    pub fn new(cfg: Config) -> Veth {
        let cfg = cfg.clamped();
        let mut order: Vec<usize> =
            (0..cfg.adapters.len()).filter(|i| cfg.adapters[*i].trunk != 0).collect();
        order.sort_by_key(|i| cfg.adapters[*i].trunk);
        let mut adapters: Vec<Adapter> =
            cfg.adapters.iter().map(|a| Adapter::new(a.clone(), false)).collect();
        for i in order {
            let taken = adapters.iter().any(|a| a.is_active_trunk() && a.meets(&adapters[i]));
            if !taken {
                adapters[i].attributes |= attribute::ACTIVE_TRUNK;
            }
        }
        let parts = Parts {
            cfg,
            adapters,
            learned: Learned::new(),
            uplink: Counters::default(),
            frozen: false,
            head: vec![0; HEADERS],
            out: Vec::new(),
        };
        let (spare, arrivals) = (FrameMemory::default(), VecDeque::new());
        Veth { parts, spare, tokens: 0, arrivals, due: Time::NEVER, strangers: 0 }
    }

    /// Returns the counters of adapter `i` of the configuration.
    pub fn counters(&self, i: usize) -> &Counters {
        &self.parts.adapters[i].counters
    }

    /// Returns the counters of the uplink, as of an adapter: what it sent came from the network.
    pub fn uplink(&self) -> &Counters {
        &self.parts.uplink
    }

    /// Calls with a unit address that is not the caller's.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The attributes of adapter `i`, as H_ILLAN_ATTRIBUTES tells them.
    pub fn attributes(&self, i: usize) -> u64 {
        self.parts.adapters[i].attributes
    }

    /// The caller's adapter with that unit address.
    fn find(&self, partition: usize, unit: u64) -> Option<usize> {
        self.parts.adapters.iter().position(|a| a.cfg.unit == unit && a.cfg.partition == partition)
    }
}

impl EventSource for Veth {
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        for a in &self.parts.adapters {
            tell("adapter, unit address", Fact::Bits(a.cfg.unit));
            tell("registered", Fact::State(matches!(a.state, super::adapter::State::Open)));
            tell("interrupts on", Fact::State(a.signal));
            tell("receive buffers added", Fact::Number(a.counters.buffers_added));
            tell("frames taken to send", Fact::Number(a.counters.tx_packets));
            tell("frames received", Fact::Number(a.counters.rx_packets));
            tell("frames without a buffer", Fact::Number(a.counters.rx_no_buffer));
            tell("calls refused", Fact::Number(a.counters.refused + a.counters.tx_refused));
        }
    }

    /// Those of all adapters, as sums.
    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        let all =
            self.parts.adapters.iter().fold(Counters::default(), |sum, a| sum.plus(&a.counters));
        all.entries().for_each(|(name, n)| tell(name, n));
        tell("strangers", self.strangers);
    }
}

impl Veth {
    /// Gives back the addresses of a partition, whose guest has gone.
    pub fn release_addresses(&mut self, partition: usize) {
        let all = &mut self.parts.adapters;
        let all = all.iter_mut().filter(|a| a.cfg.partition == partition);
        all.for_each(|a| a.own = a.cfg.given);
    }

    /// Finds the time of the next event: an interrupt, the arrival of an entry, a frame.
    fn update_due(&mut self) {
        let at = |front: Option<Time>| front.unwrap_or(Time::NEVER);
        let earlier =
            |due: Time, a: &Adapter| due.min(at(a.notify)).min(at(a.late.front().copied()));
        let arrival = at(self.arrivals.front().map(|a| a.0));
        self.due = self.parts.adapters.iter().fold(arrival, earlier);
    }

    fn call<P: Port>(
        &mut self,
        ports: &mut [P],
        from: usize,
        at: Time,
        c: Hcall,
        a: &[u64; 9],
    ) -> Reply {
        if !is_call(c.0) {
            return (HcallReturn::status(status::H_FUNCTION), at);
        }
        let Some((i, port)) = self.find(from, a[0]).zip(ports.get_mut(from)) else {
            self.strangers += 1;
            return (HcallReturn::status(status::H_PARAMETER), at);
        };
        if c.0 == H_SEND_LOGICAL_LAN {
            return self.send(ports, i, at, a);
        }
        let wanted = match c.0 {
            H_REGISTER_LOGICAL_LAN => Some(mac_bytes(a[4])),
            H_CHANGE_LOGICAL_LAN_MAC => Some(mac_bytes(a[1])),
            _ => None,
        };
        if let Some(code) = wanted.and_then(|mac| self.parts.refuses(i, mac)) {
            self.parts.adapters[i].counters.refused += 1;
            return (HcallReturn::status(code), at);
        }
        let Config { release, interrupt, max_buffers: max, .. } = self.parts.cfg;
        let ad = &mut self.parts.adapters[i];
        let plain = |(code, at)| (HcallReturn::status(code), at);
        let (answer, done) = match c.0 {
            H_REGISTER_LOGICAL_LAN => plain(ad.register(port, at, a)),
            H_FREE_LOGICAL_LAN => {
                self.parts.learned.purge(i);
                plain(ad.free(at, release))
            }
            H_ADD_LOGICAL_LAN_BUFFER => plain((ad.add(port, &a[1..2], max), at)),
            H_ADD_LOGICAL_LAN_BUFFERS if ad.has(attribute::RX_MULTI_BUFF) => {
                plain((ad.add(port, &a[1..1 + ADD_BUFFERS], max), at))
            }
            H_FREE_LOGICAL_LAN_BUFFER => plain(ad.give_back(port, at, a[1], interrupt)),
            H_MULTICAST_CTRL => ad.control(port, at, a[1], a[2]),
            H_CHANGE_LOGICAL_LAN_MAC => {
                ad.mac = mac_bytes(a[1]);
                plain((status::H_SUCCESS, at))
            }
            H_ILLAN_ATTRIBUTES => (self.change_attributes(i, a[1], a[2]), at),
            H_VIO_SIGNAL => plain((ad.set_signal(at, a[1], interrupt), at)),
            _ => plain((status::H_FUNCTION, at)),
        };
        let ad = &mut self.parts.adapters[i];
        if answer.status < 0 {
            ad.counters.refused += 1;
        } else {
            ad.own = wanted.or(ad.own);
        }
        (answer, done)
    }
}

impl<P: Port> HcallDevice<P> for Veth {
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        let answer = self.call(ports, from, at, c, a);
        self.update_due();
        answer
    }

    /// From the uplink.
    fn receive(&mut self, _: &mut [P], at: Time, frame: &[u8]) -> RxVerdict {
        if self.parts.cfg.uplink.is_none() {
            return RxVerdict::Dropped(DropReason::Off);
        }
        if !(HEADER..=self.parts.cfg.max_frame as usize).contains(&frame.len()) {
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        if self.arrivals.len() == ARRIVALS {
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        let at = self.arrivals.back().map_or(at, |last| last.0.max(at));
        let mut copy = core::mem::take(&mut self.spare);
        copy.fit(frame.len());
        copy.copy_from_slice(frame);
        self.arrivals.push_back((at, copy));
        self.update_due();
        RxVerdict::Yes
    }

    fn advance(&mut self, ports: &mut [P], until: Time) {
        while self.due <= until && self.due < Time::NEVER {
            let due = self.due;
            if self.arrivals.front().is_some_and(|a| a.0 == due)
                && let Some((at, frame)) = self.arrivals.pop_front()
            {
                self.spare = self.inject(ports, at, frame);
            }
            let after = self.parts.cfg.interrupt;
            for a in &mut self.parts.adapters {
                if a.late.pop_front_if(|t| *t <= due).is_some()
                    && let Some(port) = ports.get_mut(a.cfg.partition)
                {
                    a.arrived(port, due, after);
                }
            }
            for a in self.parts.adapters.iter_mut().filter(|a| a.notify == Some(due)) {
                a.notify = None;
                if let Some(port) = ports.get_mut(a.cfg.partition) {
                    a.counters.interrupts += 1;
                    port.raise_msi(due, a.cfg.vector);
                }
            }
            self.update_due();
        }
    }

    fn reset(&mut self, _: &mut [P], _: Time) {
        let counters: Vec<Counters> = self.parts.adapters.iter().map(|a| a.counters).collect();
        let (uplink, strangers) = (self.parts.uplink, self.strangers);
        *self = Veth::new(self.parts.cfg.clone());
        self.parts.adapters.iter_mut().zip(counters).for_each(|(a, c)| a.counters = c);
        (self.parts.uplink, self.strangers) = (uplink, strangers);
    }
}
