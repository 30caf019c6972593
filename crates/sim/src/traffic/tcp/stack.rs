//! The machine's TCP stack: many connections above one driver, with CPU prices ([`Prices`], not in
//! the ledger).
//!
//! Frames are handled in order after a poll: headers are read from the bytes that the device wrote,
//! unverified checksums are summed, payload is compared with the stream's pattern, GRO merges
//! consecutive segments of a poll. Buffers stay with the socket until they are read.
//!
//! A system call owns its socket. Segments that softirq on another core brings meanwhile go to the
//! socket's backlog, for the application's core (`sock_owned_by_user`, `tcp_add_backlog`,
//! `release_sock`).

use super::app::App;
use super::frame::{self, LONGEST, SocketAddress, TCP};
use super::socket::{Segment, Socket};
use super::timers::Timers;
use crate::napi::Endpoint;
use doorbell_bus::Price;
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory, Span, Time};
use doorbell_packet::checksum::Running;
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, OffloadRequest, Packet};
use std::{collections::VecDeque, ops::Range};

/// The offloads that the stack uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// TCP checksum.
    pub checksum: bool,
    /// Packets in fragments of up to 32 KiB. Large sends have them in any case.
    pub scatter: bool,
    /// Alignment of a linear packet's start.
    pub place: Alignment,
}

impl Offloads {
    /// Checksum and scatter.
    pub const ALL: Offloads = Offloads { checksum: true, scatter: true, place: Alignment::ANY };
}

/// CPU time of work above the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prices {
    /// A frame through GRO.
    pub gro: Span,
    /// A segment, merged or not, through IP and TCP on receive.
    pub receive: Span,
    /// An acknowledgment without data received.
    pub acknowledgment: Span,
    /// A segment or large send.
    pub send: Span,
    /// A byte summed because the device did not.
    pub sum: Span,
    /// The wake-up of an application, in softirq.
    pub wake: Span,
    /// The switch of a core from idle to an application, and the switch back.
    pub sleep: Span,
    /// A system call, and each byte that it copies.
    pub call: Price,
    /// A switch between applications of this stack.
    pub switch: Span,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub socket: Socket,
    /// The application.
    pub app: App,
    /// The machine's address.
    pub here: SocketAddress,
    /// The peer's address.
    pub there: SocketAddress,
    /// Set while the application waits in a call.
    asleep: bool,
    /// Set after a wake-up until the core runs the application.
    woken: bool,
    /// Start and end of the last system call, which owned the socket.
    owned: (Time, Time),
    /// Bytes copied by the current system call.
    copied: u32,
    /// Segments received while the socket was owned: header, payload bytes, frames.
    backlog: VecDeque<(frame::Header, u32, u32)>,
    queued: bool,
    dirty: bool,
    id: u16,
    /// Payload bytes in qdisc, driver and device.
    below: u64,
    /// Packets not yet read, and the stream offset of each one's end.
    held: VecDeque<(Packet, u64)>,
}

impl Connection {
    /// Appends a segment to the backlog (`tcp_add_backlog`). With `merges`, joins it to the last
    /// one if it follows it.
    fn postpone(&mut self, header: &frame::Header, len: u32, count: u32, merges: bool) {
        if merges
            && let Some((last, so_far, n)) = self.backlog.back_mut()
            && len > 0
            && *so_far > 0
            && last.is_plain()
            && header.is_plain()
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

    /// Creates a connection.
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

/// Counters of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames for no connection.
    pub unknown: u64,
    /// Frames with a bad checksum.
    pub bad_checksums: u64,
    /// Frames with wrong payload.
    pub bad_payloads: u64,
    /// Frames summed by the CPU.
    pub summed: u64,
    /// Packets dropped by the driver.
    pub dropped: u64,
    /// Packets not built for lack of memory.
    pub exhausted: u64,
    /// Wake-ups of applications.
    pub wakes: u64,
    /// System calls.
    pub calls: u64,
    /// Segments, merged or not, handled by a socket's owner.
    pub owned: u64,
}

/// Merged frames of one connection.
struct Merged {
    connection: usize,
    /// The first frame's header, with the flags of all.
    header: frame::Header,
    /// Payload bytes of the first frame.
    size: u32,
    /// Payload bytes.
    len: u32,
    frames: u32,
}

impl Merged {
    /// Returns whether `next`, of the next frames, joins. As in `tcp_gro_receive`, it follows in
    /// sequence, no frame before it is short or has PSH, it is not longer than the first, and
    /// acknowledgment, window and timestamps are the same.
    fn takes(&self, next: &Merged) -> bool {
        let (first, header) = (&self.header, &next.header);
        let fits = if next.frames > 1 { next.size == self.size } else { next.len <= self.size };
        self.connection == next.connection
            && next.len > 0
            && fits
            && self.len == self.frames * self.size
            && self.len + next.len < 0x1_0000
            && first.flags == frame::ACK
            && header.is_plain()
            && header.seq == first.seq.wrapping_add(self.len)
            && (header.ack, header.window, header.timestamps)
                == (first.ack, first.window, first.timestamps)
    }
}

/// Largest number of frames in an entry of a backlog: MAX_SKB_FRAGS after the first.
const MERGED: u32 = 18;

/// Size of a fragment, that of `skb_page_frag_refill`.
pub const FRAGMENT: u32 = 32 << 10;

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
    /// Connections whose application can run, in order.
    turns: VecDeque<usize>,
    turn: Option<(usize, Time)>,
    /// Connection and payload bytes of packets in qdisc, driver and device, by cookie.
    below: Vec<(usize, u32)>,
    cookies: Vec<u32>,
    /// Buffers to reuse: heads, fragments, others.
    heads: Vec<Buf>,
    fragments: Vec<Buf>,
    back: Vec<Buf>,
    /// Merges segments in a backlog, as since Linux 5.0.
    pub merges_backlog: bool,
    /// Counters.
    pub counters: Counters,
}

impl Stack {
    /// Creates a stack with these connections. `slice` is the time slice of an application while
    /// another one of this stack is ready.
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
        (0..s.connections.len()).for_each(|i| s.timers.set(i, Some(Time::ZERO)));
        s
    }

    /// Releases all buffers after the driver was closed.
    pub fn release<H: Host>(self, h: &mut H) {
        self.backlog.into_iter().for_each(|(p, _)| p.release(h));
        self.connections.into_iter().flat_map(|c| c.held).for_each(|(p, _)| p.release(h));
        let buffers = self.heads.into_iter().chain(self.fragments).chain(self.back);
        buffers.for_each(|b| h.release(b));
    }

    /// Schedules output, application and timer of connection `i` after a change.
    fn touched(&mut self, i: usize, now: Time) {
        let c = &mut self.connections[i];
        if !c.dirty {
            c.dirty = true;
            self.dirty.push_back(i);
        }
        if !c.queued && (!c.backlog.is_empty() || c.app.is_ready(&c.socket, now, c.asleep)) {
            c.queued = true;
            // A call that has not returned yet checks again before it sleeps.
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

    /// Sorts returned buffers by size for reuse.
    fn collect<H: Host>(&mut self, h: &mut H) {
        for b in self.back.drain(..) {
            match b.len() {
                n if n == LONGEST as u32 => self.heads.push(b),
                FRAGMENT => self.fragments.push(b),
                _ => h.release(b),
            }
        }
    }

    /// Returns the connection and the headers of a frame. Counts one that is refused.
    fn examine<H: Host>(
        &mut self,
        h: &mut H,
        p: &Packet,
        verified: bool,
    ) -> Option<(usize, frame::Read)> {
        let Fragment { buf, start, len } = &p.head;
        let read = h.bytes(buf, *start..start + len, frame::read);
        let len = p.len();
        let Some(read) = read.filter(|r| r.payload.end <= len as usize) else {
            self.counters.unknown += 1;
            return None;
        };
        if !verified {
            self.counters.summed += 1;
            h.delay(self.prices.sum * u64::from(len));
            if !is_intact(h, p, &read) {
                self.counters.bad_checksums += 1;
                return None;
            }
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
            return None;
        };
        let good = self.is_stream(h, i, &read, p);
        self.counters.bad_payloads += u64::from(!good);
        good.then_some((i, read))
    }

    /// Returns whether the payload matches the stream's pattern.
    fn is_stream<H: Host>(&self, h: &mut H, i: usize, read: &frame::Read, p: &Packet) -> bool {
        let mut place = self.connections[i].socket.place(&read.header);
        let mut same = true;
        for (buf, range) in payload(p, read) {
            let len = u64::from(range.end - range.start);
            same &= h.bytes(buf, range, |b| frame::is_payload(place, b));
            place += len;
        }
        same
    }

    /// Passes merged frames to their connection.
    fn up<H: Host>(&mut self, h: &mut H, merged: &Merged) {
        let Merged { connection: i, header, len, frames: count, .. } = merged;
        let (i, len, count) = (*i, *len, *count);
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

    /// Handles the backlog of connection `i` for the socket's owner. Returns whether there was any.
    fn release_backlog<H: Host>(&mut self, h: &mut H, i: usize) -> bool {
        let mut any = false;
        while let Some((header, len, count)) = self.connections[i].backlog.pop_front() {
            any = true;
            self.counters.owned += 1;
            self.segment(h, i, &header, len, count);
        }
        any
    }

    /// Builds the packet of `s`.
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
            h.bytes_mut(&buf, 0..n, |b| frame::fill(s.offset + u64::from(done), b));
            frags.push(Fragment { buf, start: 0, len: n });
            done += n;
        }
        h.bytes_mut(&head, 0..size, |b| {
            s.header.write(&c.here, &c.there, c.id, s.len, b);
            if linear {
                frame::fill(s.offset, &mut b[headers as usize..]);
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
            // Cannot fail: the fields are inside the packet written above.
            let _ = p.complete_checksum(h);
        }
        Ok(p)
    }

    /// Accounts for a packet that left qdisc, driver and device.
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

/// Returns the payload's bytes of each piece of a frame.
fn payload<'a>(p: &'a Packet, read: &frame::Read) -> impl Iterator<Item = (&'a Buf, Range<u32>)> {
    let (mut skip, mut left) = (read.payload.start as u32, read.payload.len() as u32);
    p.pieces().map(move |piece| {
        let from = skip.min(piece.len);
        skip -= from;
        let n = (piece.len - from).min(left);
        left -= n;
        let at = piece.start + from;
        (&piece.buf, at..at + n)
    })
}

/// Returns whether the checksums of a frame are right.
fn is_intact<H: Host>(h: &mut H, p: &Packet, read: &frame::Read) -> bool {
    let mut sum = Running::default();
    for (buf, range) in payload(p, read) {
        h.bytes(buf, range, |b| sum.add(b));
    }
    let Fragment { buf, start, len } = &p.head;
    h.bytes(buf, *start..start + len, |b| read.is_intact(b, sum.sum()))
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
        let mut run: Option<Merged> = None;
        for (p, verified) in backlog.drain(..) {
            h.delay(self.prices.gro);
            // A packet merged by the device counts as its frames.
            let size = p.todo.gso.map(|g| u32::from(g.size));
            let Some((i, read)) = self.examine(h, &p, verified) else {
                p.release(h);
                continue;
            };
            let (header, len) = (read.header, read.payload.len() as u32);
            let size = size.unwrap_or(len);
            let frames = if size > 0 { len.div_ceil(size).max(1) } else { 1 };
            let next = Merged { connection: i, header, size, len, frames };
            if len == 0 {
                p.release(h);
            } else {
                let c = &mut self.connections[i];
                let end = c.socket.place(&header) + u64::from(len);
                c.held.push_back((p, end));
            }
            match &mut run {
                Some(run) if self.gro && run.takes(&next) => {
                    run.header.flags |= header.flags;
                    run.len += len;
                    run.frames += frames;
                }
                before => {
                    if let Some(run) = before.replace(next) {
                        self.up(h, &run);
                    }
                }
            }
        }
        if let Some(run) = run {
            self.up(h, &run);
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
            // TCP small queues: no more until some of it has been sent.
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
            // Before the call: nobody owns the socket.
            h.delay(self.prices.sleep);
            return;
        }
        let now = h.now();
        if self.turn.is_none_or(|(j, _)| j != i) {
            if self.turn.is_some() {
                h.delay(self.prices.switch);
            }
            self.turn = Some((i, now));
        }
        let began = h.now();
        let late = self.release_backlog(h, i);
        let c = &mut self.connections[i];
        // A read goes on with bytes that arrived meanwhile, up to its size.
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

#[cfg(test)]
mod tests;
