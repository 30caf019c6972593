//! The transmit ring.
//!
//! Source: xilinx_axienet_main.c `axienet_start_xmit`, `axienet_check_tx_bd_space`,
//! `axienet_free_tx_chain`.
//!
//! A packet takes a descriptor for each piece. SOF and the application words are in its
//! first, EOF is in its last. TAILDESC names the last one, the device takes it too, and then
//! idles with CURDESC one further. Nothing but Cmplt in a descriptor says that it is done;
//! they are looked at in order, and the first without ends the look.

use super::config::{Checksum, Config, HEADER, OpenError, PIECES};
use super::hw;
use super::stats::Stats;
use crate::{Sink, Tx};
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, Mapped};
use doorbell_layout::axienet::{DESCRIPTOR, Descriptor, MM2S, tx_app};
use doorbell_packet::{Fragment, MAX_FRAGS, OffloadRequest, Packet, ethernet};
use zerocopy::little_endian::U32;

/// What the driver knows of a descriptor.
#[derive(Debug)]
struct Slot {
    held: Option<Mapped>,
    cookie: u32,
    /// The packet's last.
    last: bool,
}

#[derive(Debug)]
pub(super) struct TxRing {
    ring: Coherent,
    info: Box<[Slot]>,
    count: u32,
    /// Next descriptor to fill.
    next: u32,
    /// Next descriptor to look at.
    clean: u32,
    /// Descriptors from `clean` to `next`.
    used: u32,
    /// Packets since TAILDESC was written.
    unannounced: bool,
    pub(super) stopped: bool,
    /// Dropped by a reset, and to be given back.
    dropped: Vec<(Buf, u32, bool)>,
}

/// A ring of `count` descriptors, each linked to the one behind it and the last to the
/// first.
pub(super) fn ring<H: Host>(h: &mut H, c: &Config, count: u32) -> Result<Coherent, OpenError> {
    let ring = h.coherent(count * DESCRIPTOR, DESCRIPTOR)?;
    let at = ring.iova().0;
    if !c.reachable(at, ring.len()) {
        h.release_coherent(ring);
        return Err(OpenError::Address);
    }
    for i in 0..count {
        let next = at + u64::from((i + 1) % count * DESCRIPTOR);
        h.store(&ring, i * DESCRIPTOR + Descriptor::NEXT_AT, halves(next));
    }
    Ok(ring)
}

/// An address as a descriptor has it.
#[inline(always)]
pub(super) fn halves(at: u64) -> [U32; 2] {
    [U32::new(at as u32), U32::new((at >> 32) as u32)]
}

impl TxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Result<TxRing, OpenError> {
        Ok(TxRing {
            ring: ring(h, c, c.tx_ring)?,
            info: (0..c.tx_ring).map(|_| Slot { held: None, cookie: 0, last: false }).collect(),
            count: c.tx_ring,
            next: 0,
            clean: 0,
            used: 0,
            unannounced: false,
            stopped: false,
            dropped: Vec::new(),
        })
    }

    /// Where the first descriptor is.
    pub(super) fn start(&self) -> u64 {
        self.ring.iova().0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether `n` descriptors are free, and the one behind them; or all are.
    #[inline(always)]
    fn fits(&self, n: u32) -> bool {
        self.count - self.used > n || self.used == 0
    }

    fn before(&self, i: u32) -> u32 {
        if i == 0 { self.count - 1 } else { i - 1 }
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
        if !acceptable(&p, c) {
            return self.dropped(h, c, s, p, more);
        }
        let pieces = 1 + p.more.as_ref().map_or(0, |m| m.frags.len() as u32);
        if !self.fits(pieces) {
            // The queue stops early enough for this not to happen; but a packet may be refused.
            self.stopped = true;
            s.tx_stopped += 1;
            s.tx_busy += 1;
            self.notify(h, c, s);
            return Tx::Busy(p);
        }
        let mut p = match p.todo.vlan {
            Some(_) => match p.insert_tag(h, Alignment::ANY) {
                Ok(p) => p,
                Err(e) => return self.dropped(h, c, s, e.0, more),
            },
            None => p,
        };
        let Some(app) = application_words(h, c, s, &mut p) else {
            return self.dropped(h, c, s, p, more);
        };
        let first = self.next;
        if let Err(p) = self.map_in(h, c, p) {
            return self.dropped(h, c, s, p, more);
        }
        // Those of the other descriptors are not looked at.
        match app {
            [0, ..] => h.store(&self.ring, first * DESCRIPTOR + Descriptor::APP_AT, U32::ZERO),
            words => {
                h.store(&self.ring, first * DESCRIPTOR + Descriptor::APP_AT, words.map(U32::new));
            }
        }
        h.charge(CpuWork::TxDescriptor(pieces));
        s.tx_descriptors += u64::from(pieces);
        s.tx_queued += 1;
        self.unannounced = true;
        if !self.fits(PIECES) {
            self.stopped = true;
            s.tx_stopped += 1;
        }
        if !more || self.stopped || !c.batch {
            self.notify(h, c, s);
        }
        Tx::Ok
    }

    #[cold]
    fn dropped<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        p: Packet,
        more: bool,
    ) -> Tx {
        s.tx_dropped += 1;
        if !more {
            self.notify(h, c, s);
        }
        Tx::Dropped(p)
    }

    /// All of the packet, mapped; if a mapping fails, all is undone.
    fn map_in<H: Host>(&mut self, h: &mut H, c: &Config, p: Packet) -> Result<(), Packet> {
        let Packet { head, todo, mut more, cookie } = p;
        let frags = more.as_ref().map_or(0, |m| m.frags.len());
        let start = self.next;
        let flags = Descriptor::SOF | if frags == 0 { Descriptor::EOF } else { 0 };
        if let Err(head) = self.map_piece(h, c, head, flags, cookie) {
            return Err(Packet { head, todo, more, cookie });
        }
        for i in 0..frags {
            let Some(m) = more.as_mut() else { break };
            let piece = core::mem::replace(&mut m.frags[i], nothing());
            let flags = if i + 1 == frags { Descriptor::EOF } else { 0 };
            if let Err(piece) = self.map_piece(h, c, piece, flags, cookie) {
                m.frags[i] = piece;
                let head = self.undo(h, start, &mut m.frags[..i]);
                return Err(Packet { head, todo, more, cookie });
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn map_piece<H: Host>(
        &mut self,
        h: &mut H,
        c: &Config,
        q: Fragment,
        flags: u32,
        cookie: u32,
    ) -> Result<(), Fragment> {
        let (start, len) = (q.start, q.len);
        let m = h.map(q.buf, start..start + len, Direction::ToDevice).map_err(|e| Fragment {
            buf: e.buf,
            start,
            len,
        })?;
        h.charge(CpuWork::Map);
        let at = m.iova().0;
        if !c.reachable(at, len) {
            return Err(Fragment { buf: h.unmap(m), start, len });
        }
        let i = self.next;
        h.store(&self.ring, i * DESCRIPTOR + Descriptor::BUFFER_AT, halves(at));
        // With a status of zero: the device stops at one that says it is done.
        h.store(
            &self.ring,
            i * DESCRIPTOR + Descriptor::CONTROL_AT,
            [U32::new(len | flags), U32::ZERO],
        );
        self.info[i as usize] = Slot { held: Some(m), cookie, last: flags & Descriptor::EOF != 0 };
        self.next = if i + 1 == self.count { 0 } else { i + 1 };
        self.used += 1;
        Ok(())
    }

    /// Takes the pieces that were mapped since `start` back into `frags`; the first is
    /// the head, and the return.
    #[cold]
    fn undo<H: Host>(&mut self, h: &mut H, start: u32, frags: &mut [Fragment]) -> Fragment {
        let mut head = nothing();
        for n in (0..=frags.len()).rev() {
            let i = self.before(self.next);
            (self.next, self.used) = (i, self.used - 1);
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::CONTROL_AT, [U32::ZERO; 2]);
            let Some(m) = self.info[i as usize].held.take() else { continue };
            let r = m.range();
            let piece = Fragment { buf: h.unmap(m), start: r.start, len: r.end - r.start };
            match n {
                0 => head = piece,
                n => frags[n - 1] = piece,
            }
        }
        debug_assert_eq!(self.next, start);
        head
    }

    /// Tells the device of what it has not been told of.
    #[inline(always)]
    fn notify<H: Host>(&mut self, h: &mut H, c: &Config, s: &mut Stats) {
        if !self.unannounced {
            return;
        }
        h.charge(CpuWork::TxNotify);
        h.fence(Fence::Write);
        hw::tail(h, c, MM2S, self.start() + u64::from(self.before(self.next) * DESCRIPTOR));
        self.unannounced = false;
        s.tx_tail += 1;
    }

    // ---- completion ----

    /// Gives back what the device has done, `budget` packets at most; how many it were.
    pub(super) fn reap<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        s: &mut Stats,
        budget: u32,
        up: &mut S,
    ) -> u32 {
        let (mut packets, mut found) = (0, 0);
        while packets < budget && self.used > 0 {
            let i = self.clean;
            let status = h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get();
            if status & Descriptor::CMPLT == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            found += 1;
            s.tx_status_bytes += u64::from(status & Descriptor::LENGTH);
            s.tx_errors += u64::from(status & Descriptor::ERRORS != 0);
            let slot = &mut self.info[i as usize];
            let (cookie, last) = (slot.cookie, slot.last);
            if let Some(m) = slot.held.take() {
                s.tx_bytes += u64::from(m.len());
                up.sent(h.unmap(m), cookie, last);
            }
            packets += u32::from(last);
            // A control word of zero is a free descriptor.
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::CONTROL_AT, [U32::ZERO; 2]);
            self.clean = if i + 1 == self.count { 0 } else { i + 1 };
            self.used -= 1;
        }
        if packets > 0 {
            h.charge(CpuWork::TxDone(packets));
            s.tx_packets += u64::from(packets);
        }
        if found > 0 && self.stopped && self.fits(PIECES) {
            self.stopped = false;
            s.tx_restart_queue += 1;
            h.charge(CpuWork::Wake);
        }
        packets
    }

    /// Whether there is something for the next poll to give back.
    pub(super) fn holds_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Gives back what a reset has dropped.
    pub(super) fn hand_back<S: Sink>(&mut self, up: &mut S) {
        if !self.dropped.is_empty() {
            self.dropped.drain(..).for_each(|(b, cookie, last)| up.sent(b, cookie, last));
        }
    }

    /// Takes all back that was queued; the device is off. What it has not done is dropped.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        for i in (self.clean..self.count).chain(0..self.clean) {
            let slot = &mut self.info[i as usize];
            if let Some(m) = slot.held.take() {
                let status =
                    h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get();
                s.tx_errors += u64::from(status & Descriptor::ERRORS != 0);
                s.tx_dropped += u64::from(slot.last && status & Descriptor::CMPLT == 0);
                self.dropped.push((h.unmap(m), slot.cookie, slot.last));
            }
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::CONTROL_AT, [U32::ZERO; 2]);
        }
        (self.next, self.clean, self.used) = (0, 0, 0);
        (self.unannounced, self.stopped) = (false, false);
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.dropped.into_iter().for_each(|(b, ..)| h.release(b));
        h.release_coherent(self.ring);
    }
}

const fn nothing() -> Fragment {
    Fragment::whole(Buf::from_parts(0, 0, 0))
}

/// What the core can send: neither large sends nor fragment lists (the stack cuts and
/// linearises), no more fragments than a stack makes, and none without bytes, which
/// halts the engine.
fn acceptable(p: &Packet, c: &Config) -> bool {
    let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty() || m.frags.len() > MAX_FRAGS);
    let empty = p.pieces().any(|q| q.len == 0);
    // Room for a tag is in HEADER.
    let tag = if p.todo.vlan.is_some() { 4 } else { 0 };
    !listed
        && !empty
        && p.todo.gso.is_none()
        && p.head.len >= ethernet::HEADER as u32
        && p.len() + tag <= c.mtu + HEADER
}

/// APP0 to APP2 of a packet, its checksum done by the CPU where the core cannot; `None`
/// when the field is not in the head.
fn application_words<H: Host>(
    h: &mut H,
    c: &Config,
    s: &mut Stats,
    p: &mut Packet,
) -> Option<[u32; 3]> {
    let Some(partial) = p.todo.checksum else { return Some([0; 3]) };
    let insert = u32::from(partial.start) + u32::from(partial.offset);
    if insert + 2 > p.head.len {
        return None;
    }
    // TCP and UDP, whose checksums the core finds by itself.
    let known = matches!(partial.offset, 6 | 16) && !p.todo.encapsulated;
    let words = match c.tx_checksum {
        Checksum::Full if known => [tx_app::FULL, 0, 0],
        // The pseudo-header's sum is in the field, and is summed with the rest: no seed.
        Checksum::CsumPartial if insert <= tx_app::INSERT => {
            [tx_app::PARTIAL, u32::from(partial.start) << tx_app::START_SHIFT | insert, 0]
        }
        Checksum::None | Checksum::CsumPartial | Checksum::Full => {
            p.complete_checksum(h).ok()?;
            s.tx_csum_software += 1;
            return Some([0; 3]);
        }
    };
    p.todo = OffloadRequest { checksum: None, ..p.todo };
    s.tx_csum += 1;
    Some(words)
}
