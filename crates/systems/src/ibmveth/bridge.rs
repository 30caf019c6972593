//! The bridge of the I/O server, and the layer above either driver.
//!
//! It forwards packets from one port to the other and has the price of Open vSwitch for each.
//! Frames from the physical port that are in one poll are merged first (GRO): the first frame is
//! the head, the payload of the others the fragment list, as from a driver with a buffer for each
//! frame.
//!
//! Simplified: merging ends with the poll, where Linux goes on while polls follow each other.

use super::server::{FROM_PORT, Lpars};
use crate::closed_loop::HasStack;
use doorbell_drivers::Sink;
use doorbell_hal::{Buf, Host, Span, Time, counters};
use doorbell_packet::{Fragment, NonLinear, Packet, ethernet::HEADER, merge::Merge};
use doorbell_sim::{napi::Endpoint, traffic::tcp::Stack};
use std::collections::VecDeque;

/// The longest merged packet: 64 KiB of IP and an Ethernet header.
const MERGED: usize = HEADER + 0xffff;

counters! {
    /// Counters of the bridge.
    struct Counters, names "bridge_";
    /// Packets toward the network.
    to_port,
    /// Frames on the wire for these.
    to_port_segments,
    /// Packets toward the logical LAN.
    to_lan,
    /// Frames from the wire for these.
    to_lan_segments,
    /// Packets toward the LAN that were merged from several frames.
    merged,
    /// Packets dropped by a driver.
    dropped,
}

/// Prices of the bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgePrices {
    /// A packet from one port to the other.
    pub forward: Span,
    /// A frame through GRO.
    pub gro: Span,
}

#[derive(Debug, Default)]
pub(super) struct Bridge {
    prices: BridgePrices,
    gro: bool,
    backlog: Vec<Packet>,
    out: VecDeque<Packet>,
    back: Vec<Buf>,
    /// Memory of a merged packet, and of the frame being examined.
    merged: Vec<u8>,
    frame: Vec<u8>,
    pub(super) counters: Counters,
}

/// Returns the frames on the wire for a packet.
fn segments(p: &Packet) -> u64 {
    let large =
        p.todo.gso.map_or(1, |g| (p.len() - u32::from(g.header)).div_ceil(u32::from(g.size)));
    u64::from(large)
}

impl Bridge {
    pub(super) fn new(prices: BridgePrices, gro: bool) -> Bridge {
        Bridge { prices, gro, merged: vec![0; MERGED], ..Bridge::default() }
    }

    /// Frees all buffers.
    pub(super) fn release(self, m: &mut Lpars) {
        self.backlog.into_iter().chain(self.out).for_each(|p| p.release(m));
        self.back.into_iter().for_each(|b| m.release(b));
    }

    fn look(&mut self, m: &mut Lpars, p: &Packet) {
        let Fragment { buf, start, len } = &p.head;
        self.frame.clear();
        m.bytes(buf, *start..start + len, |b| self.frame.extend_from_slice(b));
    }

    /// Takes the first of these frames and those that can follow it, and merges them.
    fn merge(&mut self, m: &mut Lpars, waiting: &mut VecDeque<Packet>) -> Option<Packet> {
        let first = waiting.pop_front()?;
        self.look(m, &first);
        let mut memory = core::mem::take(&mut self.merged);
        let mut list: Vec<Fragment> = Vec::new();
        let mut todo = None;
        if let Some(mut merge) = Merge::start(&mut memory, &self.frame) {
            while let Some(next) = waiting.front() {
                m.delay(self.prices.gro);
                self.look(m, next);
                if !merge.add(&self.frame) {
                    break;
                }
                list.extend(waiting.pop_front().map(|p| p.head));
            }
            let merged = merge.segments();
            let (_, left) = merge.finish();
            todo = Some(left).filter(|_| merged > 1);
        }
        let mut p = first;
        if let Some(gso) = todo.and_then(|t| t.gso) {
            let header = u32::from(gso.header);
            let at = p.head.start;
            m.bytes_mut(&p.head.buf, at..at + header, |b| {
                b.copy_from_slice(&memory[..header as usize]);
            });
            for q in &mut list {
                (q.start, q.len) = (q.start + header, q.len - header);
            }
            p.more = Some(Box::new(NonLinear { frags: Vec::new(), list }));
            p.todo = todo.unwrap_or_default();
            self.counters.merged += 1;
        }
        self.merged = memory;
        Some(p)
    }

    fn forward(&mut self, m: &mut Lpars, p: Packet) {
        m.delay(self.prices.forward);
        let n = segments(&p);
        let c = &mut self.counters;
        let (packets, frames) = match p.cookie {
            FROM_PORT => (&mut c.to_lan, &mut c.to_lan_segments),
            _ => (&mut c.to_port, &mut c.to_port_segments),
        };
        *packets += 1;
        *frames += n;
        self.out.push_back(p);
    }
}

impl Sink for Bridge {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.back.push(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.backlog.push(p);
    }
}

impl Endpoint<Lpars> for Bridge {
    fn softirq(&mut self, m: &mut Lpars) {
        self.back.drain(..).for_each(|b| m.release(b));
        let mut from_port = VecDeque::new();
        for p in core::mem::take(&mut self.backlog) {
            if p.cookie == FROM_PORT && self.gro {
                from_port.push_back(p);
            } else {
                self.forward(m, p);
            }
        }
        if !from_port.is_empty() {
            m.delay(self.prices.gro);
        }
        while let Some(p) = self.merge(m, &mut from_port) {
            self.forward(m, p);
        }
    }
    fn output(&mut self, _: &mut Lpars) -> Option<Packet> {
        self.out.pop_front()
    }
    fn dropped(&mut self, m: &mut Lpars, p: Packet) {
        self.counters.dropped += 1;
        p.release(m);
    }
    fn is_done(&self) -> bool {
        self.backlog.is_empty() && self.out.is_empty()
    }
}

/// The layer above a partition's driver.
#[derive(Debug)]
pub(super) enum UpperLayer {
    Stack(Box<Stack>),
    Bridge(Box<Bridge>),
}

impl HasStack for UpperLayer {
    fn stack(&self) -> &Stack {
        match self {
            UpperLayer::Stack(s) => s,
            UpperLayer::Bridge(_) => unreachable!("the client's station is the first"),
        }
    }
    fn stack_mut(&mut self) -> &mut Stack {
        match self {
            UpperLayer::Stack(s) => s,
            UpperLayer::Bridge(_) => unreachable!("the client's station is the first"),
        }
    }
}

macro_rules! either {
    ($self:ident, $it:ident => $what:expr) => {
        match $self {
            UpperLayer::Stack($it) => $what,
            UpperLayer::Bridge($it) => $what,
        }
    };
}

impl Sink for UpperLayer {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        either!(self, it => it.sent(b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        either!(self, it => it.received(p, verified));
    }
}

impl Endpoint<Lpars> for UpperLayer {
    fn softirq(&mut self, m: &mut Lpars) {
        either!(self, it => it.softirq(m));
    }
    fn timers(&mut self, m: &mut Lpars) {
        either!(self, it => it.timers(m));
    }
    fn next_timer(&self) -> Time {
        either!(self, it => <_ as Endpoint<Lpars>>::next_timer(&**it))
    }
    fn output(&mut self, m: &mut Lpars) -> Option<Packet> {
        either!(self, it => it.output(m))
    }
    fn dropped(&mut self, m: &mut Lpars, p: Packet) {
        either!(self, it => it.dropped(m, p));
    }
    fn is_ready(&self) -> bool {
        either!(self, it => <_ as Endpoint<Lpars>>::is_ready(&**it))
    }
    fn run(&mut self, m: &mut Lpars) {
        either!(self, it => it.run(m));
    }
    fn is_done(&self) -> bool {
        either!(self, it => <_ as Endpoint<Lpars>>::is_done(&**it))
    }
}
