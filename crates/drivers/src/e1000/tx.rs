//! The transmit ring.
//!
//! Source: e1000_main.c `e1000_xmit_frame`, `e1000_tso`, `e1000_tx_csum`,
//! `e1000_tx_map`, `e1000_tx_queue`, `e1000_clean_tx_irq`.
//!
//! head == tail is empty. TDT is one past the last descriptor; writing it is the
//! doorbell, once a batch. A packet is done when its last descriptor has DD: the
//! only one that asks for status.

use super::config::{COPY_MAX, Config, OpenError};
use super::hw::{on_bus, put, reachable};
use super::split::{Cut, MAX_PIECE};
use super::stats::Stats;
use crate::{Sink, Tx};
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, Mapped, Time};
use doorbell_layout::e1000::{ContextTx, DD, DESCRIPTOR, DataTx, STATUS_AT, reg, tx_word as w};
use doorbell_packet::headers::{Ip, Layers};
use doorbell_packet::{Fragment, Gso, GsoKind, MAX_FRAGS, Packet, ethernet};
use zerocopy::little_endian::{U16, U32, U64};

/// A queue that stopped wakes when so many descriptors are free.
const WAKE: u32 = 32;
/// Shortest frame, without FCS: the controller's own padding may corrupt.
const MIN_FRAME: u32 = ethernet::MIN_FRAME as u32;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
enum Held {
    Mapped(Mapped),
    /// It was copied to a slot; its pieces go back when it is sent, as an skb's.
    Copied(Packet),
}

/// What the driver knows of a descriptor.
#[derive(Debug)]
struct Slot {
    /// A buffer that ends in this descriptor.
    held: Option<Held>,
    cookie: u32,
    /// The packet's last buffer.
    last: bool,
    /// At a packet's first descriptor: its last.
    watch: u32,
    /// At a packet's first descriptor.
    since: Time,
}

#[derive(Debug)]
pub(super) struct TxRing {
    ring: Coherent,
    slots: Option<Coherent>,
    info: Box<[Slot]>,
    count: u32,
    next: u32,
    clean: u32,
    /// TDT as written.
    announced: u32,
    pub(super) stopped: bool,
    /// The last packet was a large send (and the erratum is on).
    after_tso: bool,
    /// Commands of a packet's last descriptor.
    last_cmd: u32,
    keep: u32,
    /// Packets and bytes reaped since the last look.
    pub(super) reaped: (u32, u32),
    /// Dropped by a restart, and to be given back.
    dropped: Vec<(Buf, u32, bool)>,
}

/// What is the same in all data descriptors of a packet.
#[derive(Clone, Copy)]
struct Common {
    cmd: u32,
    popts: u8,
    tag: u16,
}

impl TxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Result<TxRing, OpenError> {
        let ring = h.coherent(c.tx_ring * DESCRIPTOR, 4096)?;
        let mut slots = None;
        if c.copy_align {
            match h.coherent(c.tx_ring * COPY_MAX, COPY_MAX) {
                Ok(s) => slots = Some(s),
                Err(e) => {
                    h.release_coherent(ring);
                    return Err(e.into());
                }
            }
        }
        let delayed = if c.tx_delay > 0 { w::IDE } else { 0 };
        let more = if c.errata.even_dword { MAX_FRAGS as u32 + 1 } else { 0 };
        let tx = TxRing {
            slots,
            info: (0..c.tx_ring)
                .map(|_| Slot {
                    held: None,
                    cookie: 0,
                    last: false,
                    watch: NONE,
                    since: Time::ZERO,
                })
                .collect(),
            count: c.tx_ring,
            next: 0,
            clean: 0,
            announced: 0,
            stopped: false,
            after_tso: false,
            last_cmd: w::EOP | w::IFCS | w::RS | delayed,
            keep: MAX_FRAGS as u32 + 7 + more,
            reaped: (0, 0),
            dropped: Vec::new(),
            ring,
        };
        let slots = tx.slots.as_ref();
        // Slots are 2048 bytes on a boundary of that, so that none crosses 64 KiB.
        if !reachable(c, tx.ring.iova().0, tx.ring.len())
            || slots.is_some_and(|s| !reachable_slots(c, s))
        {
            tx.release(h);
            return Err(OpenError::Address);
        }
        Ok(tx)
    }

    pub(super) fn start<H: Host>(&self, h: &mut H) {
        let iova = self.ring.iova().0;
        put(h, reg::TDLEN, self.count * DESCRIPTOR);
        put(h, reg::TDBAH, (iova >> 32) as u32);
        put(h, reg::TDBAL, iova as u32);
        put(h, reg::TDH, 0);
        put(h, reg::TDT, 0);
    }

    fn unused(&self) -> u32 {
        (if self.clean > self.next { 0 } else { self.count }) + self.clean - self.next - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.clean == self.next
    }

    // ---- a packet, in the order it meets it ----

    #[inline]
    pub(super) fn transmit<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        p: Packet,
        more: bool,
    ) -> Tx {
        if self.stopped {
            s.tx_busy += 1;
            return Tx::Busy(p);
        }
        let len = p.len();
        let max = match p.todo.gso {
            Some(g) => MAX_PIECE.min(u32::from(g.size) << 2),
            None => MAX_PIECE,
        };
        if !acceptable(&p, len, max, c) {
            return self.dropped(h, s, p, more);
        }
        let copied = self.slots.is_some() && p.todo.gso.is_none() && len <= COPY_MAX;
        let need = 1 + if copied {
            c.errata.most(len.max(MIN_FRAME), max)
        } else {
            p.pieces().map(|q| c.errata.most(q.len.max(1), max)).sum()
        };
        if need + 2 > self.count - 1 {
            return self.dropped(h, s, p, more);
        }
        if self.unused() < need + 2 {
            self.stopped = true;
            s.tx_stopped += 1;
            s.tx_busy += 1;
            self.notify(h, s);
            return Tx::Busy(p);
        }
        // A tag that the device does not insert, and short frames.
        let (mut p, tagged) = match p.todo.vlan {
            Some(_) if !c.vlan => match p.insert_tag(h, Alignment::ANY) {
                Ok(p) => (p, true),
                Err(e) => return self.dropped(h, s, e.0, more),
            },
            _ => (p, false),
        };
        let len = if tagged { p.len() } else { len };
        if len < MIN_FRAME && !copied {
            s.tx_padded += 1;
            p = match pad(h, p) {
                Ok(p) => p,
                Err(p) => return self.dropped(h, s, p, more),
            };
        }
        let first = self.next;
        let Some(common) = self.context(h, s, &mut p) else {
            return self.dropped(h, s, p, more);
        };
        let large = p.todo.gso.is_some();
        let cut = Cut {
            max,
            sentinel: false,
            first: true,
            after_tso: self.after_tso && !large && (copied || p.is_linear()),
        };
        let written = if copied {
            self.copy_in(h, c, s, p, len, common, cut);
            Ok(())
        } else {
            self.map_in(h, c, p, common, cut, large)
        };
        if let Err(p) = written {
            self.take_back(first);
            return self.dropped(h, s, p, more);
        }
        if cut.after_tso {
            self.after_tso = false;
        }
        self.after_tso |= large && c.errata.after_tso;
        let last = self.before(self.next);
        let word: u32 = h.load::<U32>(&self.ring, last * DESCRIPTOR + 8).get();
        h.store(&self.ring, last * DESCRIPTOR + 8, U32::new(word | self.last_cmd));
        self.info[first as usize].watch = last;
        self.info[first as usize].since = h.now();
        let used = (self.next + self.count - first) % self.count;
        h.charge(CpuWork::TxDescriptor(used));
        s.tx_descriptors += u64::from(used);
        s.tx_queued += 1;
        if self.unused() < self.keep {
            self.stopped = true;
            s.tx_stopped += 1;
        }
        if !more || self.stopped {
            self.notify(h, s);
        }
        Tx::Ok
    }

    #[cold]
    fn dropped<H: Host>(&mut self, h: &mut H, s: &mut Stats, p: Packet, more: bool) -> Tx {
        s.tx_dropped += 1;
        if !more {
            self.notify(h, s);
        }
        Tx::Dropped(p)
    }

    /// Writes a context descriptor if the packet needs one; `None` when its
    /// headers are not what it says.
    fn context<H: Host>(&mut self, h: &mut H, s: &mut Stats, p: &mut Packet) -> Option<Common> {
        let mut common = Common { cmd: w::IFCS, popts: 0, tag: 0 };
        if let Some(tag) = p.todo.vlan {
            common.cmd |= w::VLE;
            common.tag = tag;
        }
        if let Some(gso) = p.todo.gso {
            let (context, v4) = large_send(h, p, gso)?;
            self.put(h, context);
            s.tx_contexts += 1;
            s.tx_tso += 1;
            common.cmd |= w::DEXT | w::DTYP_DATA | w::TSE;
            common.popts = DataTx::TXSM | if v4 { DataTx::IXSM } else { 0 };
        } else if let Some(partial) = p.todo.checksum {
            let (start, at) = (partial.start, u32::from(partial.start) + u32::from(partial.offset));
            if at > 255 {
                // The context has a byte for it.
                return p.complete_checksum(h).ok().map(|()| common);
            }
            let tcp = if partial.offset == 16 { w::TCP } else { 0 };
            let context = ContextTx {
                tucss: start as u8,
                tucso: at as u8,
                word: U32::new(w::DEXT | tcp),
                ..ContextTx::default()
            };
            self.put(h, context);
            s.tx_contexts += 1;
            s.tx_csum += 1;
            common.cmd |= w::DEXT | w::DTYP_DATA;
            common.popts = DataTx::TXSM;
        }
        Some(common)
    }

    #[inline(always)]
    fn put<H: Host, T: zerocopy::IntoBytes + zerocopy::Immutable>(
        &mut self,
        h: &mut H,
        descriptor: T,
    ) {
        h.store(&self.ring, self.next * DESCRIPTOR, descriptor);
        self.next = if self.next + 1 == self.count { 0 } else { self.next + 1 };
    }

    /// Descriptors for `len` bytes at `at`.
    #[inline(always)]
    fn describe<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        mut at: u64,
        mut left: u32,
        common: Common,
        cut: &mut Cut,
    ) {
        while left > 0 {
            let n = c.errata.next(at, left, *cut);
            (cut.first, cut.after_tso) = (false, false);
            let d = DataTx {
                address: U64::new(at),
                word: U32::new(common.cmd | n),
                status: 0,
                popts: common.popts,
                special: U16::new(common.tag),
            };
            self.put(h, d);
            (at, left) = (at + u64::from(n), left - n);
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one stage of transmit, with what the others have found"
    )]
    fn copy_in<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        p: Packet,
        len: u32,
        common: Common,
        mut cut: Cut,
    ) {
        let Some(slots) = &self.slots else { return };
        let slot = self.next * COPY_MAX;
        if len < MIN_FRAME {
            s.tx_padded += 1;
            h.store(slots, slot, [0u8; MIN_FRAME as usize]);
        }
        let mut at = slot;
        for q in p.pieces() {
            h.copy(&q.buf, q.start..q.start + q.len, slots, at);
            at += q.len;
        }
        h.charge(CpuWork::Copy(len));
        s.tx_copied += 1;
        let from = slots.iova().0 + u64::from(slot);
        let first = self.next;
        self.describe(h, c, from, len.max(MIN_FRAME), common, &mut cut);
        self.hold(first, Held::Copied(p), 0, true);
    }

    /// All of the packet, mapped; if a mapping fails, all is undone.
    fn map_in<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        p: Packet,
        common: Common,
        mut cut: Cut,
        large: bool,
    ) -> Result<(), Packet> {
        let Packet { head, todo, mut more, cookie } = p;
        let frags = more.as_ref().map_or(0, |m| m.frags.len());
        let start = self.next;
        cut.sentinel = large && frags == 0;
        match self.map_piece(h, c, head, common, &mut cut) {
            Ok(m) => {
                let at = self.before(self.next);
                self.hold(at, Held::Mapped(m), cookie, frags == 0);
            }
            Err(head) => return Err(Packet { head, todo, more, cookie }),
        }
        for i in 0..frags {
            let Some(m) = more.as_mut() else { break };
            cut.sentinel = large && i + 1 == frags;
            let piece =
                core::mem::replace(&mut m.frags[i], Fragment::whole(Buf::from_parts(0, 0, 0)));
            match self.map_piece(h, c, piece, common, &mut cut) {
                Ok(mapped) => {
                    let at = self.before(self.next);
                    self.hold(at, Held::Mapped(mapped), cookie, i + 1 == frags);
                }
                Err(piece) => {
                    m.frags[i] = piece;
                    let head = self.undo(h, start, &mut m.frags[..i]);
                    return Err(Packet { head, todo, more, cookie });
                }
            }
        }
        Ok(())
    }

    fn map_piece<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        q: Fragment,
        common: Common,
        cut: &mut Cut,
    ) -> Result<Mapped, Fragment> {
        let (start, len) = (q.start, q.len);
        let m = h.map(q.buf, start..start + len, Direction::ToDevice).map_err(|e| Fragment {
            buf: e.buf,
            start,
            len,
        })?;
        h.charge(CpuWork::Map);
        if !on_bus(c, m.iova().0, len) {
            return Err(Fragment { buf: h.unmap(m), start, len });
        }
        self.describe(h, c, m.iova().0, len, common, cut);
        Ok(m)
    }

    /// Takes the pieces that were mapped since `start` back into `frags`; the
    /// first is the head, and the return.
    #[cold]
    fn undo<H: Host>(&mut self, h: &mut H, start: u32, frags: &mut [Fragment]) -> Fragment {
        let (mut head, mut n) = (None, 0);
        let mut at = start;
        while at != self.next {
            if let Some(Held::Mapped(m)) = self.info[at as usize].held.take() {
                let r = m.range();
                let piece = Fragment { buf: h.unmap(m), start: r.start, len: r.end - r.start };
                if head.is_none() {
                    head = Some(piece);
                } else if let Some(f) = frags.get_mut(n) {
                    *f = piece;
                    n += 1;
                }
            }
            at = (at + 1) % self.count;
        }
        head.unwrap_or(Fragment::whole(Buf::from_parts(0, 0, 0)))
    }

    fn take_back(&mut self, first: u32) {
        self.next = first;
    }

    fn hold(&mut self, at: u32, held: Held, cookie: u32, last: bool) {
        let slot = &mut self.info[at as usize];
        (slot.held, slot.cookie, slot.last) = (Some(held), cookie, last);
    }

    fn before(&self, i: u32) -> u32 {
        if i == 0 { self.count - 1 } else { i - 1 }
    }

    /// Tells the device of what it has not been told of.
    #[inline(always)]
    fn notify<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        if self.announced == self.next {
            return;
        }
        h.charge(CpuWork::TxNotify);
        h.fence(Fence::Write);
        put(h, reg::TDT, self.next);
        self.announced = self.next;
        s.tx_tail += 1;
    }

    // ---- completion ----

    /// Gives back what the device has done; whether it was all in one turn of the ring.
    pub(super) fn reap<H: Host, S: Sink>(&mut self, h: &mut H, s: &mut Stats, up: &mut S) -> bool {
        if !self.dropped.is_empty() {
            self.dropped.drain(..).for_each(|(b, cookie, last)| up.sent(b, cookie, last));
        }
        let (mut packets, mut done) = (0, 0);
        while self.clean != self.next && done < self.count {
            let last = self.info[self.clean as usize].watch;
            if last == NONE || h.load::<u8>(&self.ring, last * DESCRIPTOR + STATUS_AT) & DD == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            self.info[self.clean as usize].watch = NONE;
            loop {
                let at = self.clean;
                if let Some(held) = self.info[at as usize].held.take() {
                    let (cookie, is_last) =
                        (self.info[at as usize].cookie, self.info[at as usize].last);
                    match held {
                        Held::Mapped(m) => {
                            self.reaped.1 = self.reaped.1.saturating_add(m.len());
                            up.sent(h.unmap(m), cookie, is_last);
                        }
                        Held::Copied(p) => {
                            self.reaped.1 = self.reaped.1.saturating_add(p.len());
                            let Packet { head, more, cookie, .. } = p;
                            let mut frags =
                                more.map(|m| m.frags).unwrap_or_default().into_iter().peekable();
                            up.sent(head.buf, cookie, frags.peek().is_none());
                            while let Some(q) = frags.next() {
                                up.sent(q.buf, cookie, frags.peek().is_none());
                            }
                        }
                    }
                }
                h.store(&self.ring, at * DESCRIPTOR + STATUS_AT, 0u8);
                self.clean = if at + 1 == self.count { 0 } else { at + 1 };
                done += 1;
                if at == last {
                    break;
                }
            }
            packets += 1;
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
            self.reaped.0 += packets;
            if self.stopped && self.unused() >= WAKE {
                self.stopped = false;
                s.tx_restart_queue += 1;
                h.charge(CpuWork::Wake);
            }
        }
        done < self.count
    }

    /// When the oldest packet that is not done was queued.
    pub(super) fn oldest(&self) -> Option<Time> {
        (self.clean != self.next).then(|| self.info[self.clean as usize].since)
    }

    /// Takes all back that was queued; the device is off. What it has not done is dropped. The next
    /// look gives it back.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        let mut done = false;
        for i in (self.clean..self.count).chain(0..self.clean) {
            let slot = &mut self.info[i as usize];
            let last = core::mem::replace(&mut slot.watch, NONE);
            if last != NONE {
                done = h.load::<u8>(&self.ring, last * DESCRIPTOR + STATUS_AT) & DD != 0;
            }
            match slot.held.take() {
                Some(Held::Mapped(m)) => self.dropped.push((h.unmap(m), slot.cookie, slot.last)),
                Some(Held::Copied(Packet { head, more, cookie, .. })) => {
                    let frags = more.map(|m| m.frags).unwrap_or_default();
                    self.dropped.push((head.buf, cookie, frags.is_empty()));
                    let n = frags.len();
                    let rest = frags.into_iter().enumerate();
                    self.dropped.extend(rest.map(|(i, q)| (q.buf, cookie, i + 1 == n)));
                }
                None => continue,
            }
            s.tx_dropped += u64::from(slot.last && !done);
        }
        (self.next, self.clean, self.announced, self.stopped, self.after_tso) =
            (0, 0, 0, false, false);
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.dropped.into_iter().for_each(|(b, ..)| h.release(b));
        h.release_coherent(self.ring);
        if let Some(slots) = self.slots {
            h.release_coherent(slots);
        }
    }
}

fn reachable_slots(c: &Config, s: &Coherent) -> bool {
    let plain = Config { errata: super::Errata::NONE, ..*c };
    reachable(&plain, s.iova().0, s.len())
}

/// What the part can send: no fragment lists (the stack linearises), no more
/// fragments than a stack makes, and of large sends TCP with headers in the head.
fn acceptable(p: &Packet, len: u32, max: u32, c: &Config) -> bool {
    let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() > MAX_FRAGS);
    let empty = p.pieces().any(|q| q.len == 0);
    match p.todo.gso {
        Some(g) => {
            let header = u32::from(g.header);
            let kind = matches!(g.kind, GsoKind::Tcp4 | GsoKind::Tcp6) && !p.todo.encapsulated;
            !listed
                && !empty
                && kind
                && max > 0
                && header <= p.head.len
                && header < len
                && header <= 255
        }
        None => !listed && !empty && len <= c.max_frame + 4,
    }
}

/// The context of a large send. The headers are prepared as the part wants them:
/// IP length and checksum zero, and in TCP's checksum the pseudo-header's sum
/// *without* length, which the part adds.
fn large_send<H: Host>(h: &mut H, p: &Packet, g: Gso) -> Option<(ContextTx, bool)> {
    let start = p.head.start;
    let l = h.bytes_mut(&p.head.buf, start..start + u32::from(g.header), |b| {
        let l = Layers::of(b).ok().filter(|l| l.gso_kind() == Some(g.kind) && l.end == g.header)?;
        let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
        match l.ip {
            Ip::V4 => {
                b[l3 + 2..l3 + 4].fill(0);
                b[l3 + 10..l3 + 12].fill(0);
            }
            Ip::V6 => b[l3 + 4..l3 + 6].fill(0),
        }
        let sum = l.pseudo_header(b, 0).value();
        b[l4 + 16..l4 + 18].copy_from_slice(&sum.to_be_bytes());
        Some(l)
    })?;
    let v4 = l.ip == Ip::V4;
    let payload = p.len() - u32::from(g.header);
    let ip = if v4 { w::IP } else { 0 };
    Some((
        ContextTx {
            ipcss: l.l3 as u8,
            ipcso: (l.l3 + 10) as u8,
            ipcse: U16::new(if v4 { l.l4 - 1 } else { 0 }),
            tucss: l.l4 as u8,
            tucso: (l.l4 + 16) as u8,
            tucse: U16::ZERO,
            word: U32::new(w::DEXT | w::TSE | w::TCP | ip | payload & w::LENGTH),
            status: 0,
            hdrlen: g.header as u8,
            mss: U16::new(g.size),
        },
        v4,
    ))
}

/// Makes a short frame 60 bytes long: in place where its buffer has room
/// (`skb_padto`), else in a new one.
#[cold]
fn pad<H: Host>(h: &mut H, mut p: Packet) -> Result<Packet, Packet> {
    let len = p.len();
    let end = p.head.start + MIN_FRAME;
    if p.is_linear() && end <= p.head.buf.len() {
        h.bytes_mut(&p.head.buf, p.head.start + len..end, |b| b.fill(0));
        p.head.len = MIN_FRAME;
        return Ok(p);
    }
    let Ok(buf) = h.buffer(MIN_FRAME, Alignment::ANY) else { return Err(p) };
    let (mut bytes, mut at) = ([0u8; MIN_FRAME as usize], 0);
    for q in p.pieces() {
        let to = &mut bytes[at..at + q.len as usize];
        h.bytes(&q.buf, q.start..q.start + q.len, |b| to.copy_from_slice(b));
        at += q.len as usize;
    }
    h.bytes_mut(&buf, 0..MIN_FRAME, |b| b.copy_from_slice(&bytes));
    h.charge(CpuWork::Copy(len));
    let (todo, cookie) = (p.todo, p.cookie);
    p.release(h);
    Ok(Packet { head: Fragment::whole(buf), todo, more: None, cookie })
}
