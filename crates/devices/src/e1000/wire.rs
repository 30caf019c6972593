//! The wire: from the transmit FIFO to the link partner, and pause frames.
//!
//! Frames leave in order with preamble, FCS and gap; one that has begun is finished, also after a
//! reset. In loopback a frame arrives at the own receiver when its last bit would have left. With
//! CTRL.RFCE a pause frame stops frames that have not begun; with CTRL.TFCE XOFF is sent when the
//! receive FIFO rises above FCRTH, XON (FCRTL.XONE) when it falls to FCRTL. XOFF is not repeated.
//!
//! Source: SDM 3.4.3, 8.5 (flow control), 13.7.

use super::{device::E1000, ring::Desc};
use crate::common::FRAME;
use alloc::vec::Vec;
use doorbell_hal::{Iova, Port, Span, Time, transfer_units};
use doorbell_layout::e1000::{TCTL_EN, reg::stat};
use doorbell_packet::ethernet::{Cast, FCS, OVERHEAD};

/// FCRTL: send XON when the FIFO has fallen.
const FCRTL_XONE: u32 = 1 << 31;

/// A frame on its way to the wire.
#[derive(Debug)]
pub(super) struct TxFrame {
    /// Time at which all of it was on the chip.
    pub(super) ready: Time,
    pub(super) bytes: Vec<u8>,
    /// To be reported when it has been sent.
    pub(super) report: Option<(Iova, Desc)>,
}

impl E1000 {
    pub(super) fn wire_due(&self) -> Time {
        if let Some(until) = self.tx.sending {
            return until;
        }
        if !self.link {
            return Time::NEVER;
        }
        // A pause frame is sent even while paused, before what waits.
        let pause = self.tx.pause.map_or(Time::NEVER, |(at, _)| at);
        let frame = match self.tx.fifo.front() {
            Some(f) if self.regs.tctl & TCTL_EN != 0 => f.ready.max(self.tx.paused),
            _ => Time::NEVER,
        };
        match pause.min(frame) {
            Time::NEVER => Time::NEVER,
            t => t.max(self.tx.quiet),
        }
    }

    /// Returns the time that a frame of so many bytes occupies the wire.
    fn wire_time(&self, bytes: usize) -> Span {
        self.mode().speed.byte() * (bytes + OVERHEAD) as u64
    }

    /// The frame in front has been sent, and the next begins.
    pub(super) fn wire<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.tx.sending.take().is_some() {
            if let Some(f) = self.tx.fifo.pop_front() {
                self.sent(p, t, f);
            }
            if self.wire_due() > t {
                return;
            }
        }
        if let Some((at, quanta)) = self.tx.pause
            && at <= t
        {
            self.tx.pause = None;
            let frame = self.regs.pause_frame(self.filter.station(), quanta);
            self.counters.pauses_sent += 1;
            self.stats.count(if quanta == 0 { stat::XONTXC } else { stat::XOFFTXC });
            self.tx.quiet = t + self.wire_time(frame.len());
            p.charge(transfer_units(frame.len()));
            p.emit(t, &frame);
        } else if let Some(f) = self.tx.fifo.front() {
            self.tx.sending = Some(t + self.wire_time(f.bytes.len()));
            p.charge(FRAME * transfer_units(f.bytes.len()));
            if !self.loops() {
                p.emit(t, &f.bytes);
            }
        }
    }

    /// A frame has left.
    fn sent<P: Port>(&mut self, p: &mut P, t: Time, f: TxFrame) {
        let len = f.bytes.len();
        self.tx.used -= len;
        if core::mem::take(&mut self.tx.blocked) {
            self.reads_moved();
        }
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len as u64;
        for r in [stat::GPTC, stat::TPT] {
            self.stats.count(r);
        }
        for r in [stat::GOTCL, stat::TOTL] {
            self.stats.bytes(r, len + FCS);
        }
        self.stats.size_class(stat::PTC64, len + FCS);
        match Cast::of(&f.bytes) {
            Cast::Unicast => {}
            Cast::Multicast => self.stats.count(stat::MPTC),
            Cast::Broadcast => self.stats.count(stat::BPTC),
        }
        if self.loops() {
            self.arrive(t, &f.bytes, true);
            self.rare_due = t;
        }
        if let Some((place, d)) = f.report
            && !self.halted
        {
            self.tx_report_now(p, t, 0, (place, d));
        }
        self.spare.push(f.bytes);
    }

    /// The receive FIFO has risen or fallen: send pause frames, if that is our part.
    pub(super) fn flow_control(&mut self, at: Time) {
        let used = self.rx.used() as u32;
        let (high, low) = (self.regs.fcrth & 0xfff8, self.regs.fcrtl & 0xfff8);
        if !self.regs.sends_pauses() || high == 0 {
            return;
        }
        if !self.rx.held_off && used > high {
            self.rx.held_off = true;
            self.tx.pause = Some((at, self.regs.fcttv as u16));
        } else if self.rx.held_off && used <= low {
            self.rx.held_off = false;
            if self.regs.fcrtl & FCRTL_XONE != 0 {
                self.tx.pause = Some((at, 0));
            }
        }
    }
}
