//! H_SEND_LOGICAL_LAN: gather, check, switch, copy to each receiver.
//!
//! The descriptors up to the first that is not valid are one frame; marks are
//! those of the first. It is gathered once, by the sender's translations, so
//! that what is checked is what is sent, whatever the sender writes meanwhile.
//!
//! **Busy.** Gathering and each copy count against the slice, and each copy against the sender's
//! share of a turn. When one of them is used up and receivers or segments are left, the frame waits
//! here, and the call answers H_BUSY with a token. The same call with that token goes on with the
//! next; with another token, or other arguments, it is H_PARAMETER and the frame waits on. A new
//! call throws it away.

use super::adapter::{Adapter, Counters};
use super::device::{Parts, Veth};
use super::offload::{self, Marks, checksum_attribute};
use super::receive::Frame;
use super::switch::{self, To};
use crate::common::FRAME;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use doorbell_hal::{HcallReturn, Iova, Port, Reply, Span, Time, fail_if, transfer_units};
use doorbell_layout::ibmveth::{Descriptor, attribute, send, status};
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::{ADDRESSES, HEADER};
use doorbell_packet::segment::SegmentPlan;
use doorbell_packet::vlan::{self, TAG};
use doorbell_packet::{Gso, headers};

/// PAPR: all of TCP's header lies in the first bytes.
pub(super) const HEADERS: usize = 4096;
/// PAPR: the least mss.
const MSS_MIN: u64 = 16;

/// A frame in memory that is used again. It keeps its bytes behind a short frame, so that a long
/// one after it zeroes nothing that its reads overwrite.
#[derive(Debug, Default)]
pub(super) struct FrameMemory {
    bytes: Vec<u8>,
    len: usize,
}

impl FrameMemory {
    /// Makes it a frame of `len` bytes, whatever they are.
    pub(super) fn fit(&mut self, len: usize) {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        self.len = len;
    }

    /// Takes the tag out.
    fn untag(&mut self) {
        self.copy_within(ADDRESSES + TAG.., ADDRESSES);
        self.len -= TAG;
    }
}

impl Deref for FrameMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for FrameMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

/// A frame on its way to its receivers.
#[derive(Debug, Default)]
pub(super) struct SendRequest {
    /// The sender; `None`: the uplink.
    from: Option<usize>,
    args: [u64; 9],
    token: u64,
    /// Without its tag.
    frame: FrameMemory,
    vlan: u16,
    /// Priority of the sender's tag, in its place.
    priority: u16,
    marks: Marks,
    to: To,
    next: usize,
    segment: u32,
    /// A receiver did not get it.
    dropped: bool,
}

/// Somebody who gets it.
#[derive(Clone, Copy, Debug)]
enum Receiver {
    Adapter(usize),
    Uplink,
}

enum Progress {
    Done(Time),
    Busy(Time),
}

/// The VLAN of a frame, and the priority in its tag, which is taken out. `None`: not a VLAN of the
/// port.
fn untag(frame: &mut FrameMemory, pvid: u16, allowed: impl Fn(u16) -> bool) -> Option<(u16, u16)> {
    let Some(tci) = vlan::tag(frame) else { return Some((pvid, 0)) };
    let vid = tci & 0xfff;
    if vid != 0 && !allowed(vid) {
        return None;
    }
    frame.untag();
    Some((if vid == 0 { pvid } else { vid }, tci & 0xf000))
}

fn address(frame: &[u8], at: usize) -> [u8; 6] {
    core::array::from_fn(|i| frame[at + i])
}

impl Veth {
    /// H_SEND_LOGICAL_LAN of adapter `i`.
    pub(super) fn send<P: Port>(
        &mut self,
        ports: &mut [P],
        i: usize,
        at: Time,
        a: &[u64; 9],
    ) -> Reply {
        let sender = &mut self.parts.adapters[i];
        if !sender.is_open() {
            sender.counters.drop_closed += 1;
            sender.counters.tx_dropped += 1;
            return (HcallReturn::status(status::H_DROPPED), at);
        }
        let (mut job, at, spent) = match a[send::CORRELATOR] {
            0 => match self.gather(ports, i, at, a) {
                Ok((job, at)) => {
                    let spent = job.frame.len() as u64;
                    (job, at, spent)
                }
                Err((code, at)) => {
                    let c = &mut self.parts.adapters[i].counters;
                    match code {
                        status::H_SUCCESS => {}
                        status::H_DROPPED => c.tx_dropped += 1,
                        _ => c.tx_refused += 1,
                    }
                    return (HcallReturn::status(code), at);
                }
            },
            token => {
                let same = |j: &mut SendRequest| {
                    j.token == token && j.args[..send::CORRELATOR] == a[..send::CORRELATOR]
                };
                match sender.suspended.take_if(same) {
                    Some(job) => (job, at, 0),
                    None => {
                        sender.counters.tx_refused += 1;
                        return (HcallReturn::status(status::H_PARAMETER), at);
                    }
                }
            }
        };
        let progress = job.run(&mut self.parts, ports, at, spent);
        let sender = &mut self.parts.adapters[i];
        match progress {
            Progress::Busy(at) => {
                self.tokens += 1;
                job.token = self.tokens;
                let mut answer = HcallReturn::status(status::H_BUSY);
                answer.ret[0] = job.token;
                sender.counters.tx_busy += 1;
                sender.suspended = Some(job);
                (answer, at)
            }
            Progress::Done(at) => {
                sender.counters.tx_dropped += u64::from(job.dropped);
                let code = if job.dropped { status::H_DROPPED } else { status::H_SUCCESS };
                self.spare = job.frame;
                (HcallReturn::status(code), at)
            }
        }
    }

    /// Reads and checks a frame; what the call answers if it is none.
    fn gather<P: Port>(
        &mut self,
        ports: &mut [P],
        i: usize,
        at: Time,
        a: &[u64; 9],
    ) -> Result<(SendRequest, Time), (i64, Time)> {
        if let Some(old) = self.parts.adapters[i].suspended.take() {
            self.spare = old.frame;
        }
        let (job, at) = self.check(ports, i, at, a)?;
        Ok((SendRequest { frame: core::mem::take(&mut self.spare), ..job }, at))
    }

    /// Reads a frame into `spare`, and checks it.
    fn check<P: Port>(
        &mut self,
        ports: &mut [P],
        i: usize,
        at: Time,
        a: &[u64; 9],
    ) -> Result<(SendRequest, Time), (i64, Time)> {
        let Veth { parts: Parts { adapters, cfg, .. }, spare: frame, .. } = self;
        let sender = &adapters[i];
        let all =
            a[send::DESCRIPTORS..send::DESCRIPTORS + send::MAX].iter().map(|d| Descriptor(*d));
        let descriptors = || all.clone().take_while(|d| d.is_valid());
        let total: u64 = descriptors().map(|d| u64::from(d.len())).sum();
        fail_if(total == 0, (status::H_SUCCESS, at))?;
        fail_if(total > u64::from(cfg.max_frame), (status::H_RESOURCE, at))?;
        let mut at = at;
        let refused = |at: Time| (status::H_PARAMETER, at);
        frame.fit(total as usize);
        let port = ports.get_mut(sender.cfg.partition).ok_or(refused(at))?;
        let mut start = 0;
        for d in descriptors().filter(|d| !d.is_empty()) {
            let piece = &mut frame[start..start + d.len() as usize];
            fail_if(u64::from(d.ioba()) + u64::from(d.len()) > 1 << 32, refused(at))?;
            at = port.read(at, Iova(d.ioba().into()), piece).map_err(|_| refused(at))?;
            start += d.len() as usize;
        }
        fail_if(frame.len() < HEADER, refused(at))?;
        let (pvid, tagged) = (sender.cfg.pvid, !sender.cfg.tagged.is_empty());
        let (vlan, priority) =
            untag(frame, pvid, |v| tagged && sender.is_on(v)).ok_or(refused(at))?;

        let flags = a[send::DESCRIPTORS];
        let mss = if sender.has(attribute::LRG_SR_ENABLED) { a[send::MSS] } else { 0 };
        let marks = marks(sender, flags, mss, frame).ok_or(refused(at))?;
        let source = address(frame, 6);
        if marks.no_checksum && !sender.is_trunk() && source != sender.mac {
            adapters[i].counters.drop_source += 1;
            return Err((status::H_DROPPED, at));
        }

        let destination = address(frame, 0);
        self.parts.learn(Some(i), vlan, [destination, source]);
        let to = self.parts.find(Some(i), vlan, destination);
        let c = &mut self.parts.adapters[i].counters;
        c.tx_packets += 1;
        c.tx_bytes += total;
        c.tx_large += u64::from(marks.large || marks.mss != 0);
        c.tx_descriptors += descriptors().count() as u64;
        let (from, args) = (Some(i), *a);
        Ok((SendRequest { from, args, vlan, priority, marks, to, ..SendRequest::default() }, at))
    }

    /// A frame from the uplink.
    pub(super) fn inject<P: Port>(
        &mut self,
        ports: &mut [P],
        at: Time,
        mut frame: FrameMemory,
    ) -> FrameMemory {
        let Some(up) = self.parts.cfg.uplink else { return frame };
        let Some((vlan, priority)) = untag(&mut frame, up.pvid, |_| true) else { return frame };
        let destination = address(&frame, 0);
        self.parts.learn(None, vlan, [destination, address(&frame, 6)]);
        let to = self.parts.find(None, vlan, destination);
        self.parts.uplink.tx_packets += 1;
        self.parts.uplink.tx_bytes += frame.len() as u64;
        let mut job = SendRequest { vlan, priority, to, frame, ..SendRequest::default() };
        // It is nobody's call, so nobody is told to come back.
        let mut at = at;
        while let Progress::Busy(t) = job.run(&mut self.parts, ports, at, 0) {
            at = t;
        }
        self.parts.uplink.tx_dropped += u64::from(job.dropped);
        job.frame
    }
}

/// The marks of a frame, if the sender may set them. PAPR, "Summary of H_SEND_LOGICAL_LAN Semantics
/// with Checksum Offload".
fn marks(sender: &Adapter, flags: u64, mss: u64, frame: &[u8]) -> Option<Marks> {
    if mss != 0 && !(MSS_MIN..=0xffff).contains(&mss) {
        return None;
    }
    let mut m = Marks::of(flags, mss as u16);
    if m.large && !sender.has(attribute::LRG_SND_SUPPORT) || m.no_checksum && !m.good {
        return None;
    }
    if m.any() {
        let layers = headers::Layers::of(frame).ok()?;
        let bit = checksum_attribute(&layers)?;
        if m.good && !sender.has(bit) || usize::from(layers.end) > HEADERS {
            return None;
        }
        m.layers = Some(layers);
    }
    Some(m)
}

impl SendRequest {
    /// Counts for whoever sent it.
    fn sender<'a>(&self, parts: &'a mut Parts) -> &'a mut Counters {
        match self.from {
            Some(i) => &mut parts.adapters[i].counters,
            None => &mut parts.uplink,
        }
    }

    /// The next to get it, if anybody is left.
    fn receiver(&mut self, parts: &mut Parts) -> Option<Receiver> {
        let first = self.next == 0;
        match self.to {
            To::One(i) => first.then_some(Receiver::Adapter(i)),
            To::Uplink => first.then_some(Receiver::Uplink),
            To::Nobody => {
                if first {
                    self.sender(parts).drop_unowned += 1;
                    self.dropped = true;
                    self.next = 1;
                }
                None
            }
            To::All => {
                let mac = address(&self.frame, 0);
                while let Some(a) = parts.adapters.get_mut(self.next) {
                    if Some(self.next) != self.from && a.is_open() && a.is_on(self.vlan) {
                        if mac == [0xff; 6] || a.multicast.admits(mac) {
                            return Some(Receiver::Adapter(self.next));
                        }
                        a.counters.rx_filtered += 1;
                    }
                    self.next += 1;
                }
                let outside = parts.cfg.uplink.is_some()
                    && self.from.is_some()
                    && switch::trunk(&parts.adapters, self.vlan).is_none();
                (self.next == parts.adapters.len() && outside).then_some(Receiver::Uplink)
            }
        }
    }

    /// Returns whether the adapter behind the uplink still sends, after this frame.
    fn leaves(&self, parts: &mut Parts) -> bool {
        if self.marks.mss != 0 && self.marks.mss < parts.cfg.min_lso_mss {
            parts.frozen = true;
            self.sender(parts).lso_freezes += 1;
        }
        !parts.frozen
    }

    /// Copies to one receiver after another, until all have it or the slice is used up.
    fn run<P: Port>(
        &mut self,
        parts: &mut Parts,
        ports: &mut [P],
        at: Time,
        mut spent: u64,
    ) -> Progress {
        let mut at = at;
        let mut begun = false;
        while let Some(r) = self.receiver(parts) {
            if spent >= parts.cfg.slice.into() || begun && self.is_spent(parts, ports) {
                return Progress::Busy(at);
            }
            begun = true;
            let attributes = match r {
                Receiver::Adapter(i) => parts.adapters[i].attributes,
                Receiver::Uplink => 0,
            };
            if matches!(r, Receiver::Uplink) && !self.leaves(parts) {
                self.dropped = true;
                self.next += 1;
                continue;
            }
            let plan = self.marks.plan(attributes, self.frame.len());
            if plan.cut {
                match self.segments(parts, ports, r, at, plan, &mut spent) {
                    Progress::Done(t) => at = t,
                    busy => return busy,
                }
            } else {
                let mut frame = core::mem::take(&mut self.frame);
                let made =
                    self.marks.layers.filter(|_| plan.sum).and_then(|l| {
                        offload::complete(&mut frame, &l).map(|(old, n)| (l, old, n))
                    });
                if let Some((_, _, n)) = made {
                    at += summing(parts.cfg.sum_per_kib, n);
                }
                let (flags, large) = (plan.flags, plan.large);
                let f = Frame { head: &frame, payload: &[], tag: None, flags, large };
                at = self.deliver(parts, ports, r, at, f, made.is_some());
                spent += frame.len() as u64;
                // The next receiver may want it as the sender left it.
                if let Some((l, old, _)) = made {
                    offload::restore(&mut frame, &l, old);
                }
                self.frame = frame;
            }
            self.next += 1;
        }
        Progress::Done(at)
    }

    /// Cuts a large send for a receiver that does not take it whole.
    fn segments<P: Port>(
        &mut self,
        parts: &mut Parts,
        ports: &mut [P],
        r: Receiver,
        at: Time,
        plan: offload::Plan,
        spent: &mut u64,
    ) -> Progress {
        let mut at = at;
        let frame = core::mem::take(&mut self.frame);
        let end = self.marks.layers.map_or(0, |l| l.end);
        let (header, payload) = frame.split_at(usize::from(end).min(frame.len()));
        let kind = self.marks.layers.and_then(|l| l.gso_kind());
        let gso = kind.map(|kind| Gso { kind, size: self.marks.mss, header: end });
        let cut = gso.and_then(|gso| SegmentPlan::new(header, payload.len() as u32, gso).ok());
        let Some(mut cut) = cut else {
            self.sender(parts).drop_uncut += 1;
            self.dropped = true;
            self.frame = frame;
            return Progress::Done(at);
        };
        let mut head = core::mem::take(&mut parts.head);
        let mut busy = false;
        for _ in 0..self.segment {
            cut.next_header(&mut head);
        }
        let first = self.segment;
        while !cut.next_payload().is_empty() {
            let begun = self.segment > first;
            if *spent >= parts.cfg.slice.into() || begun && self.is_spent(parts, ports) {
                busy = true;
                break;
            }
            let Some(segment) = cut.next_header(&mut head) else { break };
            let piece = &payload[segment.payload.start as usize..segment.payload.end as usize];
            if plan.sum {
                segment.finish(&mut head, Sum::of(piece));
                at += summing(parts.cfg.sum_per_kib, piece.len());
            } else {
                let field = segment.partial.field();
                head[field..field + 2].fill(0);
            }
            let whole = &head[..header.len()];
            let f =
                Frame { head: whole, payload: piece, tag: None, flags: plan.flags, large: None };
            at = self.deliver(parts, ports, r, at, f, plan.sum);
            let counters = match r {
                Receiver::Adapter(i) => &mut parts.adapters[i].counters,
                Receiver::Uplink => &mut parts.uplink,
            };
            counters.rx_segments += 1;
            *spent += (header.len() + piece.len()) as u64;
            self.segment += 1;
        }
        parts.head = head;
        self.frame = frame;
        if busy {
            return Progress::Busy(at);
        }
        self.segment = 0;
        Progress::Done(at)
    }

    /// Returns the port of the sender, who pays for all copies.
    fn payer<'a, P: Port>(&self, parts: &Parts, ports: &'a mut [P]) -> Option<&'a mut P> {
        ports.get_mut(parts.adapters[self.from?].cfg.partition)
    }

    /// Returns true if the sender's share of a turn is spent.
    fn is_spent<P: Port>(&self, parts: &Parts, ports: &mut [P]) -> bool {
        self.payer(parts, ports).is_some_and(|p| p.is_spent())
    }

    /// Gives a frame to one receiver, with the tag that its port wants; when that is done.
    fn deliver<P: Port>(
        &mut self,
        parts: &mut Parts,
        ports: &mut [P],
        r: Receiver,
        at: Time,
        mut f: Frame<'_>,
        summed: bool,
    ) -> Time {
        let tag = |pvid: u16| (self.vlan != pvid).then_some(self.priority | self.vlan);
        let wrong = if summed { f.bad() } else { 0 };
        if let Some(p) = self.payer(parts, ports) {
            p.charge(FRAME * transfer_units(f.len()));
        }
        match r {
            Receiver::Adapter(i) => {
                let a = &mut parts.adapters[i];
                f.tag = tag(a.cfg.pvid);
                let Some(port) = ports.get_mut(a.cfg.partition).filter(|_| a.is_open()) else {
                    self.dropped = true;
                    self.sender(parts).drop_gone += 1;
                    return at;
                };
                a.counters.rx_checksums += u64::from(summed);
                a.counters.wire_bad_checksums += wrong;
                let before = (a.queue.at, a.queue.toggle);
                let (taken, done) = a.take(port, at, &f);
                if before != (a.queue.at, a.queue.toggle) {
                    a.signal(port, done, parts.cfg.interrupt);
                }
                self.dropped |= !taken;
                done
            }
            Receiver::Uplink => {
                let up = parts.cfg.uplink.and_then(|up| Some((up, ports.get_mut(up.port)?)));
                let Some((up, port)) = up else {
                    self.dropped = true;
                    return at;
                };
                f.tag = tag(up.pvid);
                let out = &mut parts.out;
                out.clear();
                f.pieces(&mut [0; TAG]).into_iter().for_each(|p| out.extend_from_slice(p));
                parts.uplink.rx_checksums += u64::from(summed);
                parts.uplink.wire_bad_checksums += wrong;
                parts.uplink.rx_packets += 1;
                parts.uplink.rx_bytes += out.len() as u64;
                port.emit(at, out);
                at
            }
        }
    }
}

fn summing(per_kib: Span, bytes: usize) -> Span {
    Span::from_ps(per_kib.ps().saturating_mul(bytes as u64) / 1024)
}
