//! The traffic of a vNIC: transactions with many peers, or frames in bulk.
//!
//! Frames stand for TCP: request and response are one segment each that also acknowledges, and none
//! is lost. The peers' own time costs nothing; each asks again when it has been answered.
//!
//! An application hands each response to the driver alone. A share `host.together` finds the
//! queue's lock taken by another CPU and leaves with the responses behind it, `traffic.burst` at a
//! time.

use super::settings::TrafficKeys;
use doorbell_hal::{Alignment, Buf, CpuWork, EventSource, Host, Span, Time};
use doorbell_packet::headers::{Check, Layers, prepare_partial, verify};
use doorbell_packet::{Fragment, OffloadRequest, Packet, checksum::Sum};
use doorbell_sim::link::{Peer, Wire};
use doorbell_sim::{histogram::Histogram, napi::Endpoint, traffic::arrivals::Rng};
use std::collections::VecDeque;

/// Bytes of the Ethernet, IPv4 and TCP headers.
pub(super) const HEADERS: usize = 54;
const SIZES: u64 = 16;
/// Frames that an application in bulk writes at a time.
const WRITE: usize = 16;
/// Offset of the ports in a frame.
const PORTS: u32 = 34;
const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
/// First port of the peers.
const FIRST: u16 = 1024;

/// The traffic of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The frames, as the scenario describes them.
    pub traffic: TrafficKeys,
    /// Share of responses that leave together, 0 to 1. With their headers four fill an array.
    pub together: f64,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Load {
    /// Returns the bytes of peer `i`'s responses, or of frame `i`.
    fn size(&self, i: u64) -> u32 {
        let TrafficKeys { response, other, other_share, spread, .. } = self.traffic;
        if spread {
            let (low, high) = (response.min(other), response.max(other));
            return low + (high - low) * (i % SIZES) as u32 / (SIZES as u32 - 1);
        }
        // The share is spread evenly over all peers.
        let share = |i: u64| (i as f64 * (other_share / 100.0)) as u64;
        if share(i + 1) > share(i) { other } else { response }
    }

    /// Returns whether frames are sent in bulk; otherwise requests are received and answered.
    fn is_bulk(&self) -> bool {
        self.traffic.kind == "bulk"
    }
}

/// Makes a frame of `bytes` bytes with correct checksums.
fn frame(to: [u8; 6], from: [u8; 6], ports: [u16; 2], bytes: u32) -> Vec<u8> {
    let mut f = [&to[..], &from, &[8, 0, 0x45, 0]].concat();
    f.extend(((bytes - 14) as u16).to_be_bytes());
    f.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let check = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend(ports[0].to_be_bytes());
    f.extend(ports[1].to_be_bytes());
    f.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    f.extend((f.len()..bytes as usize).map(|i| i as u8));
    if let Some(p) = prepare_partial(&mut f) {
        // Both fields are inside the frame.
        let _ = p.complete(&mut f);
    }
    f
}

/// The peers, which make the requests.
#[derive(Debug, Default)]
pub(crate) struct RequestClients {
    requests: Vec<Vec<u8>>,
    asked: Vec<Time>,
    start: VecDeque<(Time, usize)>,
    /// Sends no further requests.
    pub stopping: bool,
    /// Answers, or frames in bulk.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Requests in flight.
    pub waiting: u64,
    /// Invalid frames.
    pub bad: u64,
    /// Answers to requests that were answered already, or given up.
    pub again: u64,
    /// Requests given up and repeated: the request or its answer was lost.
    pub lost: u64,
    /// Times at which requests are given up, in order; only in runs that may lose frames.
    deadlines: VecDeque<(Time, usize)>,
    /// Time without an answer after which a request is given up.
    patience: Option<Span>,
    /// Latency from a request's first bit to its answer's last.
    pub latency: Histogram,
    sizes: Vec<u32>,
}

impl RequestClients {
    pub(super) fn new(load: &Load, mac: [u8; 6]) -> RequestClients {
        let n = if load.is_bulk() { 0 } else { load.traffic.peers };
        let request = |i: u16| frame(mac, PEER, [FIRST + i, 7], load.traffic.request);
        RequestClients {
            requests: (0..n).map(request).collect(),
            asked: vec![Time::ZERO; n.into()],
            sizes: (0..n).map(|i| load.size(i.into())).collect(),
            ..RequestClients::default()
        }
    }

    /// Makes the peers repeat requests without an answer after `patience`.
    pub(super) fn insist(&mut self, patience: Span) {
        self.patience = Some(patience);
    }

    /// Starts the first requests, at different times.
    pub(super) fn start(&mut self, at: Time) {
        self.start = (0..self.requests.len()).map(|i| (at + Span::from_us(i as u64), i)).collect();
    }

    fn ask(&mut self, i: usize, at: Time, wire: &mut Wire) {
        self.asked[i] = at;
        self.waiting += 1;
        if let Some(patience) = self.patience {
            self.deadlines.push_back((at + patience, i));
        }
        wire.send(at, &self.requests[i]);
    }
}

impl EventSource for RequestClients {
    fn next_due(&self) -> Option<Time> {
        let deadline = self.deadlines.front().map(|s| s.0);
        self.start.front().map(|s| s.0).into_iter().chain(deadline).min()
    }
}

impl Peer for RequestClients {
    fn receive(&mut self, at: Time, f: &[u8], wire: &mut Wire) {
        let v = verify(f);
        if v.ip != Check::Good || v.transport != Check::Good || Layers::of(f).is_err() {
            self.bad += 1;
            return;
        }
        if self.requests.is_empty() {
            self.frames += 1;
            self.bytes += f.len() as u64;
            return;
        }
        let i = usize::from(u16::from_be_bytes([f[36], f[37]]).wrapping_sub(FIRST));
        if self.sizes.get(i).is_none_or(|n| *n as usize != f.len()) {
            self.bad += 1;
            return;
        }
        if self.asked[i] == Time::NEVER {
            self.again += 1;
            return;
        }
        self.frames += 1;
        self.bytes += f.len() as u64;
        self.waiting -= 1;
        self.latency.record(at.since(self.asked[i]));
        self.asked[i] = Time::NEVER;
        if !self.stopping {
            self.ask(i, at, wire);
        }
    }

    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while let Some((at, i)) = self.start.front().copied().filter(|s| s.0 <= until) {
            self.start.pop_front();
            self.ask(i, at, wire);
        }
        while let Some((at, i)) = self.deadlines.front().copied().filter(|s| s.0 <= until) {
            self.deadlines.pop_front();
            // Answered or repeated in the meantime.
            if self.asked[i] == Time::NEVER
                || self.patience.is_none_or(|p| self.asked[i] + p != at)
                || self.stopping
            {
                continue;
            }
            self.lost += 1;
            self.waiting -= 1;
            self.ask(i, at, wire);
        }
    }
}

/// The layer above one queue pair.
#[derive(Debug, Default)]
pub(crate) struct Server {
    load: Load,
    /// The application's time for a transaction, besides copying.
    application: Span,
    requests: VecDeque<Packet>,
    ready: VecDeque<Packet>,
    held: Vec<Packet>,
    holding: bool,
    returned: Vec<Buf>,
    draw: Rng,
    templates: Vec<(u32, Vec<u8>)>,
    made: u64,
    /// Frames in the driver.
    under_way: u32,
    /// Begins nothing new.
    pub stopping: bool,
    /// Packets that the driver dropped.
    pub dropped: u64,
    /// Frames received without a verified checksum.
    pub unverified: u64,
    /// Failed allocations of buffers.
    pub exhausted: u64,
}

impl Server {
    pub(super) fn new(load: &Load, mac: [u8; 6], application: Span, queue: usize) -> Server {
        let template = |bytes: u32| {
            let mut f = frame(PEER, mac, [7, 0], bytes);
            let partial = prepare_partial(&mut f);
            debug_assert!(partial.is_some_and(|p| usize::from(p.start) == PORTS as usize));
            f.truncate(HEADERS);
            (bytes, f)
        };
        Server {
            load: *load,
            application,
            draw: Rng::new(load.seed.wrapping_mul(64).wrapping_add(queue as u64)),
            templates: if load.traffic.spread {
                (0..SIZES).map(|i| template(load.size(i))).collect()
            } else {
                [load.traffic.response, load.traffic.other].map(template).into()
            },
            ..Server::default()
        }
    }

    /// Makes a response: the application writes it, and TCP makes one segment of it.
    fn make<H: Host>(&mut self, h: &mut H, bytes: u32, port: u16) -> Option<Packet> {
        let Ok(buf) = h.buffer(bytes, Alignment::ANY) else {
            self.exhausted += 1;
            return None;
        };
        let template = &self.templates.iter().find(|t| t.0 == bytes)?.1;
        h.bytes_mut(&buf, 0..HEADERS as u32, |b| b.copy_from_slice(template));
        h.bytes_mut(&buf, PORTS + 2..PORTS + 4, |b| b.copy_from_slice(&port.to_be_bytes()));
        h.charge(CpuWork::Copy(bytes - HEADERS as u32));
        let checksum = Some(doorbell_packet::CsumPartial { start: PORTS as u16, offset: 16 });
        self.under_way += 1;
        Some(Packet {
            todo: OffloadRequest { checksum, ..OffloadRequest::NONE },
            ..Packet::linear(Fragment::whole(buf))
        })
    }

    fn answer<H: Host>(&mut self, h: &mut H) {
        let Some(request) = self.requests.pop_front() else { return };
        let from = request.head.start + PORTS;
        let port = h.bytes(&request.head.buf, from..from + 2, |b| u16::from_be_bytes([b[0], b[1]]));
        h.charge(CpuWork::Copy(request.len().saturating_sub(HEADERS as u32)));
        request.release(h);
        h.delay(self.application);
        let bytes = self.load.size(port.wrapping_sub(FIRST).into());
        let Some(p) = self.make(h, bytes, port) else { return };
        // A response drawn as first of a group begins it; the group's others are not drawn.
        let burst = self.load.traffic.burst as f64;
        let starts = self.load.together / (burst - (burst - 1.0) * self.load.together);
        if !self.holding && !self.stopping && self.draw.unit() < starts {
            self.holding = true;
        }
        if !self.holding {
            self.ready.push_back(p);
            return;
        }
        self.held.push(p);
        if self.held.len() >= self.load.traffic.burst || self.stopping {
            self.holding = false;
            self.ready.extend(self.held.drain(..));
        }
    }

    /// Stops, and sends the responses held back.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.holding = false;
        self.ready.extend(self.held.drain(..));
    }

    /// Frees everything. Returns the number of requests and answers held.
    pub(super) fn release<H: Host>(self, h: &mut H) -> u64 {
        let mut had = 0;
        for p in self.requests.into_iter().chain(self.ready).chain(self.held) {
            had += 1;
            p.release(h);
        }
        self.returned.into_iter().for_each(|b| h.release(b));
        had
    }
}

impl doorbell_drivers::Sink for Server {
    fn sent(&mut self, b: Buf, _: u32, last: bool) {
        self.under_way -= u32::from(last);
        self.returned.push(b);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.unverified += u64::from(!verified);
        self.requests.push_back(p);
    }
}

impl<H: Host> Endpoint<H> for Server {
    fn softirq(&mut self, h: &mut H) {
        self.returned.drain(..).for_each(|b| h.release(b));
    }
    fn output(&mut self, _: &mut H) -> Option<Packet> {
        self.ready.pop_front()
    }
    fn more(&self) -> bool {
        !self.ready.is_empty()
    }
    fn dropped(&mut self, h: &mut H, p: Packet) {
        self.under_way -= 1;
        self.dropped += 1;
        p.release(h);
    }
    fn is_ready(&self) -> bool {
        if self.load.is_bulk() {
            return !self.stopping && self.under_way + WRITE as u32 <= self.load.traffic.window;
        }
        !self.requests.is_empty()
    }
    fn run(&mut self, h: &mut H) {
        match self.load.is_bulk() {
            false => self.answer(h),
            true if self.stopping => {}
            true => {
                h.delay(self.application);
                for _ in 0..WRITE {
                    let bytes = self.load.size(self.made);
                    self.made += 1;
                    let p = self.make(h, bytes, FIRST);
                    self.ready.extend(p);
                }
            }
        }
    }
}
