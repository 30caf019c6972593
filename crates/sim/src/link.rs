//! A full-duplex link between the machine's NIC and a [`Peer`].
//!
//! Each direction is a [`Wire`] with a rate and a propagation delay. A frame takes 24 bytes more
//! than the driver sees (FCS, preamble, gap) and at least 84 (IEEE 802.3, 4.4.2). It arrives with
//! its FCS, before the gap. Remainders of picoseconds are carried.
//!
//! [`Wired`] joins device, link and peer into one [`Device`]. Events of one instant come in this
//! order: device, peer, arrivals at the peer, arrivals at the device. All ports of the device's
//! bus share the outgoing wire ([`FrameSink`]). Not modelled: bit errors, pause frames, queues of
//! a switch. A frame that the device holds back ([`RxVerdict::Hold`]) blocks the ones behind it.

use crate::fault::{Flaps, Plan};
use doorbell_bus::{Bus, FrameSink, Hypercalls, Partitions};
use doorbell_hal::{Device, EventSource, Fact, Hcall, Port, Reg, Reply, RxVerdict, Span, Time};
use doorbell_packet::ethernet::{self, FCS, GAP, MIN_FRAME, PREAMBLE};
use std::{cell::RefCell, collections::VecDeque, mem, rc::Rc};

/// Returns the bytes that `frames` frames of `bytes` bytes in all take on the wire, with preamble,
/// FCS and gap. The padding of short frames is not counted.
pub const fn on_wire((frames, bytes): (u64, u64)) -> u64 {
    ethernet::wire_bytes(frames, bytes)
}

/// Returns the time that a frame of fewer than 2^21 bytes takes on a wire of `bits_per_second`,
/// rounded down.
pub fn takes(bits_per_second: u64, frame: usize) -> Span {
    let bytes = (PREAMBLE + frame.max(MIN_FRAME) + FCS) as u64;
    Span::from_ps(bytes * 8_000_000_000_000 / bits_per_second.max(1))
}

/// Time after which a frame that was held back is offered again.
const HOLD: Span = Span::from_us(1);

/// A frame that was on a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// Time at which its preamble left.
    pub left: Time,
    /// Time at which its FCS arrived.
    pub arrived: Time,
    /// Serialization time.
    pub took: Span,
    /// Bytes without FCS.
    pub frame: Vec<u8>,
}

/// The first `most` frames sent, for a trace.
#[derive(Clone, Debug)]
struct Record {
    most: usize,
    frames: Vec<FrameRecord>,
}

/// One direction: a wire and the frames on it.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    bits_per_second: u64,
    delay: Span,
    free: Time,
    /// Remainder of a picosecond, in units of 1/`bits_per_second` of it.
    rest: u64,
    flying: VecDeque<(Time, Vec<u8>)>,
    /// Arrival of the first of them; `NEVER` if there is none.
    next: Time,
    /// Buffers of frames that arrived.
    spare: Vec<Vec<u8>>,
    /// Frames sent.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames that arrived, and their bytes.
    pub landed: (u64, u64),
    /// Frames lost while the wire was down.
    pub cut: u64,
    down: bool,
    record: Option<Record>,
}

impl Wire {
    /// Creates an idle wire.
    ///
    /// # Panics
    /// Panics if the rate is zero.
    pub fn new(bits_per_second: u64, delay: Span) -> Wire {
        assert!(bits_per_second > 0, "a wire without a rate");
        Wire { bits_per_second, delay, next: Time::NEVER, ..Wire::default() }
    }

    /// Starts to record the next `most` frames.
    pub fn record(&mut self, most: u32) {
        self.record = Some(Record { most: most as usize, frames: Vec::new() });
    }

    /// Ends the recording. Returns its frames.
    pub fn take_record(&mut self) -> Vec<FrameRecord> {
        self.record.take().map_or_else(Vec::new, |r| r.frames)
    }

    /// Returns the time that `bytes` bytes take, fewer than 2^21, and carries the remainder.
    fn takes(&mut self, bytes: u64) -> Span {
        let ps = bytes * 8_000_000_000_000 + self.rest;
        self.rest = ps % self.bits_per_second;
        Span::from_ps(ps / self.bits_per_second)
    }

    /// Queues a frame at `at`. Returns the time at which its last bit arrives.
    pub fn send(&mut self, at: Time, frame: &[u8]) -> Time {
        let mut copy = self.buffer();
        copy.extend_from_slice(frame);
        self.send_owned(at, copy)
    }

    /// Returns an empty buffer for a frame.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Queues a frame as [`Wire::send`]. Keeps the buffer and leaves another with any bytes.
    pub fn send_buffer(&mut self, at: Time, frame: &mut Vec<u8>) -> Time {
        let other = self.spare.pop().unwrap_or_default();
        self.send_owned(at, mem::replace(frame, other))
    }

    /// Queues a frame as [`Wire::send`], in a buffer of [`Wire::buffer`].
    pub fn send_owned(&mut self, at: Time, frame: Vec<u8>) -> Time {
        let start = self.free.max(at);
        let last = start + self.takes((PREAMBLE + frame.len().max(MIN_FRAME) + FCS) as u64);
        self.free = last + self.takes(GAP as u64);
        let arrival = last + self.delay;
        if let Some(r) = self.record.as_mut().filter(|r| r.frames.len() < r.most) {
            let (took, frame) = (last.since(start), frame.clone());
            r.frames.push(FrameRecord { left: start, arrived: arrival, took, frame });
        }
        self.frames += 1;
        self.bytes += frame.len() as u64;
        if self.down {
            self.cut += 1;
            self.spare.push(frame);
            return arrival;
        }
        self.next = self.next.min(arrival);
        self.flying.push_back((arrival, frame));
        arrival
    }

    /// Takes the wire down, which loses the frames in flight, or up.
    fn set_down(&mut self, down: bool) {
        self.down = down;
        if down {
            self.cut += self.flying.len() as u64;
            self.spare.extend(self.flying.drain(..).map(|f| f.1));
            self.next = Time::NEVER;
        }
    }

    /// Returns the time at which the next frame arrives, or [`Time::NEVER`].
    pub fn next_arrival(&self) -> Time {
        self.next
    }

    /// Returns the bytes that had arrived by `at`, with preamble, FCS and the gap in front: of a
    /// frame that is arriving, those that have. `at` is not before an arrival that was taken.
    pub fn carried(&self, at: Time) -> u64 {
        let Some((last, frame)) = self.flying.front() else { return on_wire(self.landed) };
        let bits = u128::from(last.since(at).ps()) * u128::from(self.bits_per_second);
        let missing = bits.div_ceil(8_000_000_000_000).min(u64::MAX.into()) as u64;
        let all = on_wire((1, frame.len() as u64));
        on_wire(self.landed) + all.saturating_sub(missing)
    }

    /// Returns the time from which the wire is idle.
    pub fn free(&self) -> Time {
        self.free
    }

    /// Takes the next frame off the wire if it has arrived by `at`.
    pub fn land_by(&mut self, at: Time) -> Option<Vec<u8>> {
        if self.next > at {
            return None;
        }
        let (_, frame) = self.flying.pop_front()?;
        self.next = self.flying.front().map_or(Time::NEVER, |f| f.0);
        self.landed.0 += 1;
        self.landed.1 += frame.len() as u64;
        Some(frame)
    }

    /// Puts a frame that was held back in front again, to arrive at `at`.
    fn hover(&mut self, at: Time, frame: Vec<u8>) {
        self.landed.0 -= 1;
        self.landed.1 -= frame.len() as u64;
        self.flying.push_front((at, frame));
        self.next = at;
    }
}

/// A wire shared by the bus that sends on it and the link.
pub type SharedWire = Rc<RefCell<Wire>>;

impl FrameSink for Wire {
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.send(at, frame);
    }

    fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
        self.send_buffer(at, frame);
    }
}

/// The other end of a link. Its CPU costs nothing.
pub trait Peer: EventSource {
    /// Handles a frame that arrived, and sends answers on `wire`.
    fn receive(&mut self, at: Time, frame: &[u8], wire: &mut Wire);
    /// Handles all events due by `until`.
    fn advance(&mut self, until: Time, wire: &mut Wire);
}

/// A device on a link, with a peer.
#[derive(Debug)]
pub struct Wired<D, Pr> {
    /// The device.
    pub device: D,
    /// The other end.
    pub peer: Pr,
    /// Wire from the device to the peer.
    pub out: SharedWire,
    /// Wire from the peer to the device.
    pub back: Wire,
    /// Frames dropped by the device.
    pub dropped: u64,
    /// Times that the device held a frame back.
    pub held: u64,
    /// All frames of both directions with the time of their arrival, if a capture was asked for.
    pub capture: Option<Vec<(Time, Vec<u8>)>>,
    /// Schedule of the link's flaps, and the function that reports them to the device.
    flaps: Option<(Flaps, Tell<D>)>,
    /// Latest time of an event.
    now: Time,
}

/// Reports the link's state (`true` for up) to a device.
pub type Tell<D> = fn(&mut D, Time, bool);

impl<D, Pr> Wired<D, Pr> {
    /// Connects `device` and the ports of its `bus` to an idle link with the same rate and one-way
    /// delay in both directions.
    pub fn new<B: Bus>(
        bus: B,
        device: D,
        peer: Pr,
        (bits_per_second, delay): (u64, Span),
    ) -> (B::With<SharedWire>, Wired<D, Pr>) {
        let back = Wire::new(bits_per_second, delay);
        let out = Rc::new(RefCell::new(back.clone()));
        let bus = bus.with_sink(Rc::clone(&out));
        let (dropped, held, capture, flaps) = (0, 0, None, None);
        (bus, Wired { device, peer, out, back, dropped, held, capture, flaps, now: Time::ZERO })
    }

    /// Schedules the flaps of `plan` for traffic that begins at `at`.
    pub fn flap(&mut self, plan: &Plan, at: Time, tell: Tell<D>) {
        let flaps = plan.flaps(at);
        self.flaps = (flaps.next() < Time::NEVER).then_some((flaps, tell));
    }

    /// Returns the time until which everything has happened.
    pub fn now(&self) -> Time {
        self.now
    }

    fn set_up(&mut self, at: Time, up: bool) {
        self.out.borrow_mut().set_down(!up);
        self.back.set_down(!up);
        if let Some((_, tell)) = &self.flaps {
            tell(&mut self.device, at, up);
        }
    }

    /// Cancels all further flaps and brings the link up. Returns the number of flaps and of lost
    /// frames.
    pub fn mend(&mut self, at: Time) -> (u64, u64) {
        if self.flaps.as_mut().is_some_and(|f| f.0.end()) {
            self.set_up(at, true);
        }
        (self.flaps.take().map_or(0, |f| f.0.times), self.out.borrow().cut + self.back.cut)
    }

    /// Returns the time of the next event that is not the device's own.
    #[inline(always)]
    fn link_due(&self) -> Time
    where
        Pr: Peer,
    {
        let wires = self.out.borrow().next_arrival().min(self.back.next_arrival());
        let flap = self.flaps.as_ref().map_or(Time::NEVER, |f| f.0.next());
        wires.min(flap).min(self.peer.next_due().unwrap_or(Time::NEVER))
    }

    /// Passes the frames captured since the last call to `to`.
    ///
    /// # Errors
    /// Returns the first error of `to`.
    pub fn drain_capture<E>(
        &mut self,
        mut to: impl FnMut(Time, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.capture.iter_mut().flat_map(|c| c.drain(..)).try_for_each(|(at, f)| to(at, &f))
    }
}

impl<D: EventSource, Pr: Peer> EventSource for Wired<D, Pr> {
    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        self.device.diagnose(tell);
    }
    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.device.counters(tell);
    }

    fn register_name(&self, r: Reg) -> Option<&'static str> {
        self.device.register_name(r)
    }
    #[inline]
    fn next_due(&self) -> Option<Time> {
        let device = self.device.next_due().unwrap_or(Time::NEVER);
        Some(device.min(self.link_due())).filter(|t| *t < Time::NEVER)
    }
}

impl<P: Port, D: Device<P>, Pr: Peer> Device<P> for Wired<D, Pr> {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        self.advance(p, at);
        self.device.mmio_read(p, at, r, size)
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        self.advance(p, at);
        self.device.mmio_write(p, at, r, size, v);
    }

    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        self.device.receive(p, at, frame)
    }

    fn receive_buffer(&mut self, p: &mut P, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        self.device.receive_buffer(p, at, frame)
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while self.advance_to_effect(p, until).is_some() {}
        self.now = self.now.max(until);
        self.device.advance(p, until);
    }

    fn advance_to_effect(&mut self, p: &mut P, until: Time) -> Option<Time> {
        let link_due = self.link_due();
        // What is late happens now.
        let at = link_due.max(self.now);
        let effect = if self.device.next_due().is_some_and(|due| due <= until && due < self.now) {
            self.device.advance(p, self.now);
            Some(self.now)
        } else {
            self.device.advance_to_effect(p, at.min(until))
        };
        let idle = link_due > until || link_due == Time::NEVER;
        if idle || effect.is_some_and(|effect| effect < at) {
            self.now = effect.unwrap_or(self.now);
            return effect;
        }
        self.now = at;
        self.device.advance(p, at);
        if let Some(up) = self.flaps.as_mut().and_then(|f| f.0.step(at)) {
            self.set_up(at, up);
        }
        if self.peer.next_due().is_some_and(|t| t <= at) {
            self.peer.advance(at, &mut self.back);
        }
        let landed = self.out.borrow_mut().land_by(at);
        if let Some(frame) = landed {
            self.peer.receive(at, &frame, &mut self.back);
            self.capture.iter_mut().for_each(|c| c.push((at, frame.clone())));
            self.out.borrow_mut().spare.push(frame);
        }
        if let Some(mut frame) = self.back.land_by(at) {
            let captured = self.capture.is_some().then(|| frame.clone());
            let taken = self.device.receive_buffer(p, at, &mut frame);
            if taken == RxVerdict::Hold {
                self.held += 1;
                self.back.hover(at + HOLD, frame);
                return Some(at);
            }
            self.dropped += u64::from(taken != RxVerdict::Yes);
            self.capture.iter_mut().zip(captured).for_each(|(c, f)| c.push((at, f)));
            self.back.spare.push(frame);
        }
        Some(at)
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        self.device.reset(p, at);
    }
}

impl<B: Bus, D: Hypercalls<B>, Pr> Hypercalls<B> for Wired<D, Pr> {
    fn hcall(&mut self, p: &mut Partitions<B>, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        self.device.hcall(p, at, c, a)
    }
}

#[cfg(test)]
mod tests;
