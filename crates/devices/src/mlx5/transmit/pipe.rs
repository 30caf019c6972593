//! The send pipe: when the next packet may start, and the wire.

use super::super::{Config, command::CastCounters, loopback::Loopback, receive};
use super::Arrival;
use crate::common::FRAME;
use alloc::vec::Vec;
use core::mem::swap;
use doorbell_hal::{Iova, Port, Span, Time, transfer_units};
use doorbell_layout::mlx5::{EthSeg, syndrome};
use doorbell_packet::ethernet::{self, MIN_FRAME};

/// The send pipe: reads in flight, pacing, wire.
#[derive(Debug)]
pub(in super::super) struct Pipe {
    pub(super) packet_time: Span,
    pub(super) delay: Span,
    pub(super) byte_1024th: u32,
    pub(in super::super) max_frame: usize,
    /// Time at which the next packet may start.
    pub(super) start_free: Time,
    /// Time from which the port can take one more read, after the last one.
    pub(super) read_ready: Time,
    /// Time at which the wire is free, and the rest of a picosecond beyond it, in 1024ths.
    pub(in super::super) wire_free: Time,
    pub(super) wire_rest: u32,
    /// Frames leave; else they go nowhere.
    pub(in super::super) link_up: bool,
    /// Multicast and broadcast frames that left.
    pub(in super::super) casts: CastCounters,
    /// Bytes that left, padding included.
    pub(in super::super) octets: u64,
    pub(super) frame: Vec<u8>,
    /// Frames that come back instead of leaving.
    pub(in super::super) loopback: Loopback,
    pub(in super::super) looped_limit: usize,
    /// The port that is not in the fields above: the second one.
    other: OtherPort,
}

/// The state of a port beside that of the fields of [`Pipe`]. Nobody takes its link down, and no
/// frame that leaves there comes back.
#[derive(Debug)]
struct OtherPort {
    wire_free: Time,
    wire_rest: u32,
    link_up: bool,
    loopback: Loopback,
}

impl Pipe {
    pub(in super::super) fn new(c: &Config) -> Pipe {
        Pipe {
            packet_time: c.packet_time,
            delay: c.pipeline_delay,
            byte_1024th: c.wire_byte_1024th_ps,
            max_frame: c.max_frame as usize,
            start_free: Time::ZERO,
            read_ready: Time::ZERO,
            wire_free: Time::ZERO,
            wire_rest: 0,
            link_up: true,
            casts: CastCounters::default(),
            octets: 0,
            frame: alloc::vec![0; c.max_frame as usize + 64],
            loopback: Loopback::default(),
            looped_limit: c.rx_fifo as usize,
            other: OtherPort {
                wire_free: Time::ZERO,
                wire_rest: 0,
                link_up: true,
                loopback: Loopback::default(),
            },
        }
    }

    /// Takes over the wire, which a reset does not change.
    pub(in super::super) fn inherit(&mut self, before: &Pipe) {
        (self.wire_free, self.wire_rest) = (before.wire_free, before.wire_rest);
        (self.link_up, self.casts, self.octets) = (before.link_up, before.casts, before.octets);
        let before = &before.other;
        (self.other.wire_free, self.other.wire_rest) = (before.wire_free, before.wire_rest);
    }

    /// Exchanges the ports: frames leave at the other one until the next call.
    pub(super) fn change_port(&mut self) {
        let other = &mut self.other;
        swap(&mut self.wire_free, &mut other.wire_free);
        swap(&mut self.wire_rest, &mut other.wire_rest);
        swap(&mut self.link_up, &mut other.link_up);
        swap(&mut self.loopback, &mut other.loopback);
    }

    /// Returns the time at which the last bit of the last frame leaves, of all ports.
    pub(in super::super) fn last_bit(&self) -> Time {
        self.wire_free.max(self.other.wire_free)
    }

    /// Returns the time at which the next packet can start.
    #[inline(always)]
    pub(super) fn ready(&self) -> Time {
        self.start_free.max(self.read_ready)
    }

    #[inline(always)]
    pub(super) fn start(&mut self, t: Time) {
        self.start_free = t + self.packet_time;
    }

    /// Returns how many bytes of a packet are looked at here: all for checksums, and for a frame
    /// that may come back.
    #[inline(always)]
    pub(super) fn seen(&self, eth: &EthSeg) -> usize {
        if eth.cs_flags == 0 && !self.loopback.is_on() { ethernet::HEADER } else { usize::MAX }
    }

    /// Reads into the frame at `t`, of which the bytes before `seen` are looked at here.
    #[inline(always)]
    pub(super) fn read<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        from: Iova,
        (at, seen): (usize, usize),
        len: usize,
    ) -> Arrival {
        let seen = seen.saturating_sub(at).min(len);
        let arrived = p.read_passing(t, from, &mut self.frame[at..at + len], seen);
        self.read_ready = p.read_ready();
        arrived.map_err(|_| syndrome::LOCAL_PROT)
    }

    /// Puts the first `len` bytes of the frame on the wire; when its last bit leaves. One that
    /// comes back and finds no room is lost as in the receive FIFO.
    #[inline(always)]
    pub(super) fn send<P: Port>(
        &mut self,
        p: &mut P,
        received: &mut receive::Counters,
        whole_at: Time,
        len: usize,
    ) -> Time {
        let mut padded = len;
        if len < MIN_FRAME {
            self.frame[len..MIN_FRAME].fill(0);
            padded = MIN_FRAME;
        }
        let start = self.wire_free.max(whole_at + self.delay);
        if start > self.wire_free {
            self.wire_rest = 0;
        }
        p.charge(FRAME * transfer_units(padded));
        self.octets += padded as u64;
        let ticks = ethernet::wire_bytes(1, padded as u64) * u64::from(self.byte_1024th)
            + u64::from(self.wire_rest);
        self.wire_rest = (ticks & 1023) as u32;
        self.wire_free = start + Span::from_ps(ticks >> 10);
        if self.loopback.takes(&self.frame[..padded]) {
            if !self.loopback.push(self.wire_free, &self.frame[..padded], self.looped_limit) {
                received.arrived += 1;
                received.fifo_full += 1;
            }
        } else {
            p.emit(start, &self.frame[..padded]);
        }
        self.wire_free
    }
}

#[cfg(test)]
mod tests;
