//! A link between the machine's NIC and whatever is on its other end.
//!
//! Each direction is a wire of one rate that carries one frame at a time, in
//! order, and a propagation delay. A frame occupies the wire for its bytes, the
//! FCS, preamble and gap: 24 bytes more than a driver sees, and never less than
//! 84 (IEEE 802.3, 4.4.2: 1 Gbit/s and below 100 Gbit/s alike). It has arrived
//! when its FCS has; the gap comes after. Remainders of picoseconds are carried.
//!
//! [`Wired`] is a device with a link and a [`Peer`] on it, and is itself a
//! [`Device`]: frames in flight and the peer's timers are among the things it
//! has to do, so that a machine needs to know nothing of them. What happens at
//! one instant happens in this order: the device, then the peer, then arrivals
//! at the peer, then arrivals at the device. Nothing else decides.
//!
//! The bus of the device sends on the wire itself ([`FrameSink`]): all its ports on one, where
//! several partitions share the device. A [`Wired`] device of theirs answers their calls, too.
//!
//! A link may go down and up ([`Wired::flap`]): the device is told, what is on its way is cut off,
//! and what is sent meanwhile goes nowhere.
//!
//! Not modelled: bit errors, pause frames, a switch with a queue of its own. A
//! device that holds a frame back ([`RxVerdict::Hold`]) stops what is behind it.

use crate::sim::fault::{Flaps, Plan};
use doorbell_bus::{Bus, FrameSink, Hypercalls, Partitions};
use doorbell_hal::{
    Device, EventSource, Fact, Hcall, HcallReturn, Port, Reg, RxVerdict, Span, Time,
};
use doorbell_packet::ethernet::{self, FCS, GAP, MIN_FRAME, PREAMBLE};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Returns the bytes of wire that so many frames of `bytes` in all take, with preamble, FCS and gap.
/// Short frames count as they are, although the wire pads them.
pub const fn on_wire((frames, bytes): (u64, u64)) -> u64 {
    ethernet::wire_bytes(frames, bytes)
}

/// Returns how long a frame takes on a wire of so many bits a second, rounded down.
pub fn takes(bits_per_second: u64, frame: usize) -> Span {
    let bits = 8 * (PREAMBLE + frame.max(MIN_FRAME) + FCS) as u64;
    Span::from_ps(
        (u128::from(bits) * 1_000_000_000_000 / u128::from(bits_per_second.max(1))) as u64,
    )
}

/// A frame that was held back is offered again after this.
const HOLD: Span = Span::from_us(1);

/// A frame that was on a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// When its preamble left.
    pub left: Time,
    /// When its FCS arrived.
    pub arrived: Time,
    /// How long the wire carried it, at any one place.
    pub took: Span,
    /// Without FCS.
    pub frame: Vec<u8>,
}

/// The first frames that are sent, for a trace.
#[derive(Clone, Debug)]
struct Record {
    most: usize,
    frames: Vec<FrameRecord>,
}

/// One direction: a wire and the frames on it.
#[derive(Clone, Debug)]
pub struct Wire {
    bits_per_second: u64,
    delay: Span,
    free: Time,
    /// What is left over of a picosecond, in 1/`bits_per_second` of it.
    rest: u64,
    flying: VecDeque<(Time, Vec<u8>)>,
    /// Buffers of frames that have landed.
    spare: Vec<Vec<u8>>,
    /// Frames that were sent.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames that have arrived, and their bytes.
    pub landed: (u64, u64),
    /// Frames that were cut off, or sent while the wire was.
    pub cut: u64,
    down: bool,
    record: Option<Record>,
}

impl Wire {
    /// An idle wire.
    ///
    /// # Panics
    /// When the rate is zero.
    pub fn new(bits_per_second: u64, delay: Span) -> Wire {
        assert!(bits_per_second > 0, "a wire without a rate");
        let (flying, spare) = (VecDeque::new(), Vec::new());
        let (free, landed, record) = (Time::ZERO, (0, 0), None);
        Wire {
            bits_per_second,
            delay,
            free,
            rest: 0,
            flying,
            spare,
            frames: 0,
            bytes: 0,
            landed,
            cut: 0,
            down: false,
            record,
        }
    }

    /// Keeps the next `most` frames.
    pub fn record(&mut self, most: u32) {
        self.record = Some(Record { most: most as usize, frames: Vec::new() });
    }

    /// What was kept.
    pub fn take_record(&mut self) -> Vec<FrameRecord> {
        self.record.take().map_or_else(Vec::new, |r| r.frames)
    }

    /// How long so many bytes take, less what is left over.
    fn takes(&mut self, bytes: u64) -> Span {
        let ps = u128::from(bytes * 8) * 1_000_000_000_000 + u128::from(self.rest);
        let rate = u128::from(self.bits_per_second);
        self.rest = (ps % rate) as u64;
        Span::from_ps((ps / rate) as u64)
    }

    /// A frame's first bit wants to leave at `at`. Says when its last arrives.
    pub fn send(&mut self, at: Time, frame: &[u8]) -> Time {
        let start = self.free.max(at);
        let last = start + self.takes((PREAMBLE + frame.len().max(MIN_FRAME) + FCS) as u64);
        self.free = last + self.takes(GAP as u64);
        let arrival = last + self.delay;
        if let Some(r) = self.record.as_mut().filter(|r| r.frames.len() < r.most) {
            let took = last.since(start);
            r.frames.push(FrameRecord {
                left: start,
                arrived: arrival,
                took,
                frame: frame.to_vec(),
            });
        }
        self.frames += 1;
        self.bytes += frame.len() as u64;
        if self.down {
            self.cut += 1;
            return arrival;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(frame);
        self.flying.push_back((arrival, copy));
        arrival
    }

    /// It is cut, or whole again.
    fn set_down(&mut self, down: bool) {
        self.down = down;
        if down {
            self.cut += self.flying.len() as u64;
            self.spare.extend(self.flying.drain(..).map(|f| f.1));
        }
    }

    /// When the next frame arrives; [`Time::NEVER`] if none is under way.
    pub fn next_arrival(&self) -> Time {
        self.flying.front().map_or(Time::NEVER, |f| f.0)
    }

    /// From when a frame could leave at once.
    pub fn free(&self) -> Time {
        self.free
    }

    /// Takes the next frame off the wire if it has arrived by `at`.
    fn land_by(&mut self, at: Time) -> Option<Vec<u8>> {
        let (_, frame) = self.flying.pop_front_if(|f| f.0 <= at)?;
        self.landed.0 += 1;
        self.landed.1 += frame.len() as u64;
        Some(frame)
    }

    /// The frame could not land: it stays the first, until `at`.
    fn hover(&mut self, at: Time, frame: Vec<u8>) {
        self.landed.0 -= 1;
        self.landed.1 -= frame.len() as u64;
        self.flying.push_front((at, frame));
    }
}

/// A wire that a bus sends on and a link carries.
pub type SharedWire = Rc<RefCell<Wire>>;

impl FrameSink for Wire {
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.send(at, frame);
    }
}

/// What is on the other end of a link. Its own CPU costs nothing.
pub trait Peer: EventSource {
    /// A frame has arrived; answers go to `wire`.
    fn receive(&mut self, at: Time, frame: &[u8], wire: &mut Wire);
    /// Does what is due by `until`.
    fn advance(&mut self, until: Time, wire: &mut Wire);
}

/// A device on a link, with a peer.
#[derive(Debug)]
pub struct Wired<D, Pr> {
    /// The device.
    pub device: D,
    /// What is on the other end.
    pub peer: Pr,
    /// From the device to the peer: the receiver of what the device sends.
    pub out: SharedWire,
    /// From the peer to the device.
    pub back: Wire,
    /// Frames that the device dropped.
    pub dropped: u64,
    /// Times that the device held a frame back.
    pub held: u64,
    /// All frames of both directions, with the time of their arrival, if they are kept.
    pub capture: Option<Vec<(Time, Vec<u8>)>>,
    /// When the link goes down and up, and how the device is told.
    flaps: Option<(Flaps, Tell<D>)>,
    /// The latest time that was seen.
    now: Time,
}

/// Tells a device that its link is up from a time on, or down.
pub type Tell<D> = fn(&mut D, Time, bool);

impl<D, Pr> Wired<D, Pr> {
    /// Puts `device` and the ports of its `bus` on an idle link of one rate both ways; `delay` is
    /// one way's.
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

    /// The link goes down and up as the plan says, of traffic that begins at `at`.
    pub fn flap(&mut self, plan: &Plan, at: Time, tell: Tell<D>) {
        let flaps = plan.flaps(at);
        self.flaps = (flaps.next() < Time::NEVER).then_some((flaps, tell));
    }

    fn set_up(&mut self, at: Time, up: bool) {
        self.out.borrow_mut().set_down(!up);
        self.back.set_down(!up);
        if let Some((_, tell)) = &self.flaps {
            tell(&mut self.device, at, up);
        }
    }

    /// It goes down no more, and is up. How often it went down, and the frames that were lost so.
    pub fn mend(&mut self, at: Time) -> (u64, u64) {
        if self.flaps.as_mut().is_some_and(|f| f.0.end()) {
            self.set_up(at, true);
        }
        (self.flaps.take().map_or(0, |f| f.0.times), self.out.borrow().cut + self.back.cut)
    }

    /// Hands over what was captured since the last time.
    ///
    /// # Errors
    /// The first of `to`'s.
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
    fn next_due(&self) -> Option<Time> {
        let wires = self.out.borrow().next_arrival().min(self.back.next_arrival());
        let wires = wires.min(self.flaps.as_ref().map_or(Time::NEVER, |f| f.0.next()));
        let ends = self.device.next_due().into_iter().chain(self.peer.next_due()).min();
        Some(ends.unwrap_or(Time::NEVER).min(wires)).filter(|t| *t < Time::NEVER)
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

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            let at = at.max(self.now);
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
                keep(&mut self.capture, at, &frame);
                self.out.borrow_mut().spare.push(frame);
            }
            if let Some(frame) = self.back.land_by(at) {
                let taken = self.device.receive(p, at, &frame);
                if taken == RxVerdict::Hold {
                    self.held += 1;
                    self.back.hover(at + HOLD, frame);
                    continue;
                }
                self.dropped += u64::from(taken != RxVerdict::Yes);
                keep(&mut self.capture, at, &frame);
                self.back.spare.push(frame);
            }
        }
        self.now = self.now.max(until);
        self.device.advance(p, until);
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        self.device.reset(p, at);
    }
}

impl<B: Bus, D: Hypercalls<B>, Pr> Hypercalls<B> for Wired<D, Pr> {
    fn hcall(
        &mut self,
        p: &mut Partitions<B>,
        at: Time,
        c: Hcall,
        a: &[u64; 9],
    ) -> (HcallReturn, Time) {
        self.device.hcall(p, at, c, a)
    }
}

fn keep(capture: &mut Option<Vec<(Time, Vec<u8>)>>, at: Time, frame: &[u8]) {
    if let Some(c) = capture {
        c.push((at, frame.to_vec()));
    }
}

#[cfg(test)]
mod tests;
