//! The machine's end: many connections above one driver, priced.
//!
//! What a driver hands up is handled after its poll, in order: headers are read from
//! the bytes that the device really wrote, a checksum that the device has not verified is
//! summed, payload is held against the stream's pattern. With GRO, segments of one
//! connection that follow each other in one poll count as one for TCP above. Buffers stay with
//! the socket until the application has read them.
//!
//! A system call owns its socket while it lasts. What softirq on another core brings meanwhile
//! waits in the socket's backlog, and TCP's work on it is the application's core's
//! (`sock_owned_by_user`, `tcp_add_backlog`, `release_sock`). Segments that follow each other there
//! become one, as since Linux 5.0, unless [`Stack::merges_backlog`] is off.
//!
//! What goes down are real packets: linear, or headers and fragments of up to 32 KiB,
//! checksum and segmentation left undone as far as [`Offloads`] says. Buffers that come back
//! are used again.
//!
//! Prices are the lab's own, [`Prices`]: they are not a driver's work and not in the ledger.

use super::app::App;
use super::frame::{self, LONGEST, SocketAddress, TCP};
use super::socket::{Segment, Socket};
use super::timers::Timers;
use crate::sim::napi::Endpoint;
use doorbell_bus::Price;
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory, Span, Time};
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, OffloadRequest, Packet};
use std::collections::VecDeque;

/// What is left to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// The TCP checksum.
    pub checksum: bool,
    /// Packets may have fragments; else all is in the head. Large sends do in any case.
    pub scatter: bool,
    /// Where a linear packet starts.
    pub place: Alignment,
}

impl Offloads {
    /// Checksum and scatter.
    pub const ALL: Offloads = Offloads { checksum: true, scatter: true, place: Alignment::ANY };
}

/// What the CPU charges above the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prices {
    /// A frame through GRO.
    pub gro: Span,
    /// A segment, merged or not, through IP and TCP on receive.
    pub receive: Span,
    /// An acknowledgment without data that came.
    pub acknowledgment: Span,
    /// A segment or large send made.
    pub send: Span,
    /// A byte summed where the device has not.
    pub sum: Span,
    /// An application woken, in softirq.
    pub wake: Span,
    /// An application that waited, on its core: out of idle and to it, and as long again back.
    pub sleep: Span,
    /// A system call, and each byte it copies.
    pub call: Price,
    /// A change from one application of this stack to another.
    pub switch: Span,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub socket: Socket,
    /// What uses it.
    pub app: App,
    /// The machine's address.
    pub here: SocketAddress,
    /// The peer's.
    pub there: SocketAddress,
    /// Whether the application waits in a call.
    asleep: bool,
    /// Whether it was woken and its core has not yet turned to it.
    woken: bool,
    /// The last system call owned the socket from then until then.
    owned: (Time, Time),
    /// Bytes that this system call has copied.
    copied: u32,
    /// Segments that came while the socket was owned: header, payload, frames.
    backlog: VecDeque<(frame::Header, u32, u32)>,
    queued: bool,
    dirty: bool,
    id: u16,
    /// Payload bytes with qdisc, driver and device.
    below: u64,
    /// Packets not yet read, and where in the stream each ends.
    held: VecDeque<(Packet, u64)>,
}

impl Connection {
    /// Keeps a segment for the socket's owner; part of the last one if it `merges` with that
    /// (`tcp_add_backlog`).
    fn postpone(&mut self, header: &frame::Header, len: u32, count: u32, merges: bool) {
        let plain = |f: u8| f & !frame::PSH == frame::ACK;
        if merges
            && let Some((last, so_far, n)) = self.backlog.back_mut()
            && len > 0
            && *so_far > 0
            && plain(last.flags)
            && plain(header.flags)
            && header.seq == last.seq.wrapping_add(*so_far)
            && header.timestamps == last.timestamps
            && *n + count <= MERGED
        {
            (last.flags, last.ack, last.window) =
                (last.flags | header.flags, header.ack, header.window);
            (*so_far, *n) = (*so_far + len, *n + count);
            return;
        }
        self.backlog.push_back((*header, len, count));
    }

    /// A connection.
    pub fn new(socket: Socket, app: App, here: SocketAddress, there: SocketAddress) -> Connection {
        Connection {
            socket,
            app,
            here,
            there,
            asleep: false,
            woken: false,
            owned: (Time::ZERO, Time::ZERO),
            copied: 0,
            backlog: VecDeque::new(),
            queued: false,
            dirty: false,
            id: 0,
            below: 0,
            held: VecDeque::new(),
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that were for no connection.
    pub unknown: u64,
    /// Frames with a bad checksum.
    pub bad_checksums: u64,
    /// Frames whose payload was not the stream's.
    pub bad_payloads: u64,
    /// Frames that were summed by the CPU.
    pub summed: u64,
    /// Packets that the driver dropped.
    pub dropped: u64,
    /// Packets that could not be made for want of memory.
    pub exhausted: u64,
    /// Wake-ups of applications.
    pub wakes: u64,
    /// System calls.
    pub calls: u64,
    /// Segments, merged or not, that a socket's owner handled.
    pub owned: u64,
}

/// Frames that one entry of a backlog holds: MAX_SKB_FRAGS behind the first.
const MERGED: u32 = 18;

/// Size of a fragment: what `skb_page_frag_refill` takes at a time.
const FRAGMENT: u32 = 32 << 10;

/// The machine's TCP above one driver.
#[derive(Debug)]
pub struct Stack {
    /// Its connections.
    pub connections: Vec<Connection>,
    offloads: Offloads,
    prices: Prices,
    gro: bool,
    slice: Span,
    timers: Timers,
    backlog: Vec<(Packet, bool)>,
    dirty: VecDeque<usize>,
    /// Connections whose application is to run, in the order of their turns.
    turns: VecDeque<usize>,
    turn: Option<(usize, Time)>,
    /// By cookie: connection and payload of packets below.
    below: Vec<(usize, u32)>,
    cookies: Vec<u32>,
    /// Buffers to be used again: heads, fragments, others.
    heads: Vec<Buf>,
    fragments: Vec<Buf>,
    back: Vec<Buf>,
    /// Segments in a socket's backlog are merged.
    pub merges_backlog: bool,
    /// What was counted.
    pub counters: Counters,
}

impl Stack {
    /// A stack with these connections. `slice` is an application's turn when
    /// another of this stack is ready.
    pub fn new(
        connections: Vec<Connection>,
        offloads: Offloads,
        prices: Prices,
        gro: bool,
        slice: Span,
    ) -> Stack {
        let mut s = Stack {
            connections,
            offloads,
            prices,
            gro,
            slice,
            timers: Timers::default(),
            backlog: Vec::new(),
            dirty: VecDeque::new(),
            turns: VecDeque::new(),
            turn: None,
            below: Vec::new(),
            cookies: Vec::new(),
            heads: Vec::new(),
            fragments: Vec::new(),
            back: Vec::new(),
            merges_backlog: true,
            counters: Counters::default(),
        };
        for i in 0..s.connections.len() {
            s.timers.set(i, Some(Time::ZERO));
        }
        s
    }

    /// Gives all buffers back, when the driver has been closed.
    pub fn release<H: Host>(self, h: &mut H) {
        for (p, _) in self.backlog {
            p.release(h);
        }
        for c in self.connections {
            for (p, _) in c.held {
                p.release(h);
            }
        }
        for b in self.heads.into_iter().chain(self.fragments).chain(self.back) {
            h.release(b);
        }
    }

    /// After anything has changed in connection `i`.
    fn touched(&mut self, i: usize, now: Time) {
        let c = &mut self.connections[i];
        if !c.dirty {
            c.dirty = true;
            self.dirty.push_back(i);
        }
        if !c.queued && (!c.backlog.is_empty() || c.app.is_ready(&c.socket, now, c.asleep)) {
            c.queued = true;
            // A call that has not returned yet looks once more before it waits.
            c.woken = c.asleep && now >= c.owned.1;
            self.counters.wakes += u64::from(c.woken);
            c.asleep = false;
            self.turns.push_back(i);
        }
        self.set_timer(i, now);
    }

    fn set_timer(&mut self, i: usize, now: Time) {
        let c = &self.connections[i];
        let app = if c.queued { None } else { c.app.deadline(&c.socket).filter(|t| *t > now) };
        self.timers.set(i, c.socket.deadline().into_iter().chain(app).min());
    }

    /// Sorts out buffers that came back.
    fn collect<H: Host>(&mut self, h: &mut H) {
        for b in self.back.drain(..) {
            match b.len() {
                n if n == LONGEST as u32 => self.heads.push(b),
                FRAGMENT => self.fragments.push(b),
                _ => h.release(b),
            }
        }
    }

    fn one<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        verified: bool,
    ) -> Option<(usize, frame::Read, Packet)> {
        let Fragment { buf, start, len } = &p.head;
        let whole = p.is_linear();
        let mut sum = Check::Good;
        let read = h.bytes(buf, *start..start + len, |b| {
            let r = frame::read(b)?;
            if !verified && whole {
                let v = verify(b);
                sum = if v.ip == Check::Good { v.transport } else { Check::Bad };
            }
            Some(r)
        });
        let len = p.len();
        let Some(read) = read.filter(|r| r.payload.end <= len as usize) else {
            self.counters.unknown += 1;
            p.release(h);
            return None;
        };
        if !verified {
            self.counters.summed += 1;
            h.delay(self.prices.sum * u64::from(len));
        }
        if sum != Check::Good {
            self.counters.bad_checksums += 1;
            p.release(h);
            return None;
        }
        let wanted = |c: &Connection| {
            (c.here.port, c.there.port) == (read.destination_port, read.source_port)
        };
        let guess =
            read.source_port.wrapping_sub(self.connections.first().map_or(0, |c| c.there.port));
        let i = match self.connections.get(usize::from(guess)) {
            Some(c) if wanted(c) => Some(usize::from(guess)),
            _ => self.connections.iter().position(wanted),
        };
        let Some(i) = i else {
            self.counters.unknown += 1;
            p.release(h);
            return None;
        };
        if !self.is_stream(h, i, &read, &p) {
            self.counters.bad_payloads += 1;
            p.release(h);
            return None;
        }
        Some((i, read, p))
    }

    /// Whether the payload is what belongs there.
    fn is_stream<H: Host>(&self, h: &mut H, i: usize, read: &frame::Read, p: &Packet) -> bool {
        let mut place = self.connections[i].socket.place(&read.header);
        let (mut skip, mut left) = (read.payload.start as u32, read.payload.len() as u32);
        let mut same = true;
        for piece in p.pieces() {
            let from = skip.min(piece.len);
            skip -= from;
            let n = (piece.len - from).min(left);
            left -= n;
            let want = frame::payload(place, n as usize);
            place += u64::from(n);
            let at = piece.start + from;
            same &= h.bytes(&piece.buf, at..at + n, |b| b == want);
        }
        same
    }

    /// Hands a run of `count` frames with `len` bytes to connection `i`.
    fn up<H: Host>(&mut self, h: &mut H, i: usize, header: &frame::Header, len: u32, count: u32) {
        let c = &mut self.connections[i];
        if (c.owned.0..c.owned.1).contains(&h.now()) {
            c.postpone(header, len, count, self.merges_backlog);
            self.touched(i, h.now());
            return;
        }
        self.segment(h, i, header, len, count);
        let woken = self.connections[i].woken;
        self.touched(i, h.now());
        if !woken && self.connections[i].woken {
            h.delay(self.prices.wake);
        }
    }

    /// Hands a segment to connection `i`'s socket.
    fn segment<H: Host>(
        &mut self,
        h: &mut H,
        i: usize,
        header: &frame::Header,
        len: u32,
        count: u32,
    ) {
        h.delay(if len > 0 { self.prices.receive } else { self.prices.acknowledgment });
        self.connections[i].socket.segment(h.now(), header, len, count);
    }

    /// The owner of connection `i`'s socket handles what came meanwhile. Returns whether there was
    /// any.
    fn release_backlog<H: Host>(&mut self, h: &mut H, i: usize) -> bool {
        let mut any = false;
        while let Some((header, len, count)) = self.connections[i].backlog.pop_front() {
            any = true;
            self.counters.owned += 1;
            self.segment(h, i, &header, len, count);
        }
        any
    }

    /// A packet for `s`.
    fn packet<H: Host>(&mut self, h: &mut H, i: usize, s: &Segment) -> Result<Packet, OutOfMemory> {
        let c = &self.connections[i];
        let (headers, mss) = (s.header.length() as u32, c.socket.segment_size());
        let large = s.len > mss;
        let linear = s.len == 0 || !(large || self.offloads.scatter);
        let size = headers + if linear { s.len } else { 0 };
        let head = if size <= LONGEST as u32 && self.offloads.place == Alignment::ANY {
            match self.heads.pop() {
                Some(b) => b,
                None => h.buffer(LONGEST as u32, Alignment::ANY)?,
            }
        } else {
            h.buffer(size, self.offloads.place)?
        };
        let mut frags = Vec::new();
        let mut done = 0;
        while !linear && done < s.len {
            let n = (s.len - done).min(FRAGMENT);
            let got = self.fragments.pop().map_or_else(|| h.buffer(FRAGMENT, Alignment::ANY), Ok);
            let Ok(buf) = got else {
                self.fragments.extend(frags.into_iter().map(|p: Fragment| p.buf));
                self.back.push(head);
                return Err(OutOfMemory);
            };
            h.bytes_mut(&buf, 0..n, |b| {
                b.copy_from_slice(frame::payload(s.offset + u64::from(done), n as usize));
            });
            frags.push(Fragment { buf, start: 0, len: n });
            done += n;
        }
        h.bytes_mut(&head, 0..size, |b| {
            s.header.write(&c.here, &c.there, c.id, s.len, b);
            if linear {
                b[headers as usize..].copy_from_slice(frame::payload(s.offset, s.len as usize));
            }
        });
        let mut todo = OffloadRequest {
            checksum: Some(CsumPartial { start: TCP as u16, offset: 16 }),
            ..OffloadRequest::NONE
        };
        if large {
            todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: mss as u16, header: headers as u16 });
        }
        let cookie = self.cookies.pop().unwrap_or_else(|| {
            self.below.push((0, 0));
            (self.below.len() - 1) as u32
        });
        self.below[cookie as usize] = (i, s.len);
        let c = &mut self.connections[i];
        c.id = c.id.wrapping_add(s.len.div_ceil(mss).max(1) as u16);
        c.below += u64::from(s.len);
        let more = (!frags.is_empty()).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
        let mut p =
            Packet { head: Fragment { buf: head, start: 0, len: size }, todo, more, cookie };
        if !self.offloads.checksum && !large {
            // The fields are inside: it was written a few lines above.
            let _ = p.complete_checksum(h);
        }
        Ok(p)
    }

    /// A packet is no longer below.
    fn back_from_below(&mut self, cookie: u32) {
        let Some(slot) = self.below.get_mut(cookie as usize) else { return };
        let (i, len) = core::mem::take(slot);
        self.cookies.push(cookie);
        let c = &mut self.connections[i];
        c.below -= u64::from(len);
        if !c.dirty {
            c.dirty = true;
            self.dirty.push_back(i);
        }
    }
}

impl Sink for Stack {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.back.push(b);
        if last {
            self.back_from_below(cookie);
        }
    }

    fn received(&mut self, p: Packet, verified: bool) {
        self.backlog.push((p, verified));
    }
}

impl<H: Host> Endpoint<H> for Stack {
    fn softirq(&mut self, h: &mut H) {
        self.collect(h);
        let mut backlog = core::mem::take(&mut self.backlog);
        // Frames that were merged: connection, header, payload, frames.
        let mut run: Option<(usize, frame::Header, u32, u32)> = None;
        for (p, verified) in backlog.drain(..) {
            h.delay(self.prices.gro);
            // One that came whole is as many frames as it would have been.
            let size = p.todo.gso.map(|g| u32::from(g.size));
            let Some((i, read, p)) = self.one(h, p, verified) else { continue };
            let (header, len) = (read.header, read.payload.len() as u32);
            let frames = size.map_or(1, |size| len.div_ceil(size).max(1));
            let follows = run.is_some_and(|(j, first, so_far, _)| {
                let plain = |f: u8| f & !frame::PSH == frame::ACK;
                self.gro && i == j && len > 0 && so_far > 0 && plain(first.flags) && plain(header.flags)
                    && first.flags & frame::PSH == 0
                    && header.seq == first.seq.wrapping_add(so_far)
                    // A change in what is acknowledged ends a run, as in `tcp_gro_receive`.
                    && header.ack == first.ack
                    && so_far + len < 0x1_0000
            });
            if len == 0 {
                p.release(h);
            } else {
                let c = &mut self.connections[i];
                let end = c.socket.place(&header) + u64::from(len);
                c.held.push_back((p, end));
            }
            run = match run {
                Some((j, first, so_far, n)) if follows => {
                    let flags = first.flags | header.flags;
                    Some((
                        j,
                        frame::Header { flags, window: header.window, ..first },
                        so_far + len,
                        n + frames,
                    ))
                }
                other => {
                    if let Some((j, first, so_far, n)) = other {
                        self.up(h, j, &first, so_far, n);
                    }
                    Some((i, header, len, frames))
                }
            };
        }
        if let Some((j, first, so_far, n)) = run {
            self.up(h, j, &first, so_far, n);
        }
        self.backlog = backlog;
    }

    fn timers(&mut self, h: &mut H) {
        while let Some(i) = self.timers.due(h.now()) {
            self.connections[i].socket.tick(h.now());
            self.touched(i, h.now());
        }
    }

    fn next_timer(&self) -> Time {
        self.timers.next()
    }

    fn output(&mut self, h: &mut H) -> Option<Packet> {
        self.collect(h);
        while let Some(&i) = self.dirty.front() {
            let c = &mut self.connections[i];
            // Small queues: what is below is enough, until some of it has been sent.
            let segment =
                if c.below >= c.socket.queue_limit() { None } else { c.socket.output(h.now()) };
            let Some(segment) = segment else {
                c.dirty = false;
                self.dirty.pop_front();
                self.set_timer(i, h.now());
                continue;
            };
            h.delay(self.prices.send);
            match self.packet(h, i, &segment) {
                Ok(p) => return Some(p),
                Err(OutOfMemory) => self.counters.exhausted += 1,
            }
        }
        None
    }

    fn dropped(&mut self, _h: &mut H, p: Packet) {
        self.counters.dropped += 1;
        self.back_from_below(p.cookie);
        self.back.push(p.head.buf);
        if let Some(more) = p.more {
            self.back.extend(more.frags.into_iter().chain(more.list).map(|p| p.buf));
        }
    }

    fn is_ready(&self) -> bool {
        !self.turns.is_empty()
    }

    fn run(&mut self, h: &mut H) {
        let Some(&i) = self.turns.front() else { return };
        if core::mem::take(&mut self.connections[i].woken) && self.prices.sleep > Span::ZERO {
            // Not in the call: the socket is nobody's meanwhile.
            h.delay(self.prices.sleep);
            return;
        }
        let now = h.now();
        match self.turn {
            Some((j, _)) if j == i => {}
            _ => {
                if self.turn.is_some() {
                    h.delay(self.prices.switch);
                }
                self.turn = Some((i, now));
            }
        }
        let began = h.now();
        let late = self.release_backlog(h, i);
        let c = &mut self.connections[i];
        // A read goes on with what came while it copied, up to what was asked for.
        let goes_on = late && c.app.reads_on(c.copied);
        let step = c.app.step(&mut c.socket, h.now());
        let Price { each, per_unit } = self.prices.call;
        if !goes_on {
            self.counters.calls += 1;
            c.copied = 0;
            h.delay(each);
        }
        c.copied += step.read;
        h.delay(per_unit * u64::from(step.read + step.written));
        c.owned = (began, h.now());
        let read = c.socket.consumed();
        while let Some((p, _)) = c.held.pop_front_if(|(_, end)| *end <= read) {
            p.release(h);
        }
        self.turns.pop_front();
        c.queued = false;
        if !c.backlog.is_empty() || c.app.is_ready(&c.socket, h.now(), false) {
            c.queued = true;
            if h.now().since(self.turn.map_or(now, |t| t.1)) >= self.slice {
                self.turns.push_back(i);
                self.turn = self.turn.filter(|_| self.turns.len() > 1);
            } else {
                self.turns.push_front(i);
            }
        } else {
            c.asleep = true;
            h.delay(self.prices.sleep);
        }
        self.touched(i, h.now());
    }

    fn is_done(&self) -> bool {
        self.connections.iter().all(|c| c.socket.is_closed())
    }
}
