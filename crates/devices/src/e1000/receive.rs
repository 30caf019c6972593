//! Receive: from the wire to memory.
//!
//! A frame is checked whole on arrival (length, pause, filters, checksums), padded to 60 bytes, and
//! stored in the FIFO without tag (CTRL.VME) and with FCS (unless RCTL.SECRC). Each buffer is one
//! write. Write-back follows the data: at WTHRESH descriptors, or with the interrupt that RDTR and
//! RADV delay. Every frame counts in TPR and TORL, one in the FIFO in GPRC, one without room in
//! MPC.
//!
//! Source: SDM 3.2, 13.4.22, 13.4.25 to 13.4.32, 13.7.

use super::config::{Config, Variant};
use super::device::E1000;
use super::filter::{self, Pass};
use super::interrupt::{Delay, TIMER};
use super::ring::{Desc, Ring};
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{DropReason, Iova, Port, RxVerdict, Time};
use doorbell_layout::e1000::{
    CTRL_RFCE, CTRL_VME, DCTL_WTHRESH_SHIFT, INT_RXDMT0, INT_RXO, INT_RXQ0, INT_RXT0, INT_SRPD,
    RCTL_BSEX, RCTL_DPF, RCTL_EN, RCTL_LPE, RCTL_RDMTS_SHIFT, RCTL_SECRC, RCTL_SZ_SHIFT,
    RXCSUM_PCSD, Rx, RxExtended, reg::stat,
};
use doorbell_packet::ethernet::{self, Cast, FCS, HEADER, MIN_FRAME};
use doorbell_packet::vlan::TAG;

/// Longest frame with tag and FCS, unless RCTL.LPE; and with it.
const MAX_FRAME: usize = ethernet::MAX_FRAME + TAG + FCS;
const MAX_LONG: usize = 16384;
/// Bits of status and errors in a descriptor's upper half begin here: in the legacy form, and in
/// the extended one, which has the length behind them (82574 7.1.5.2).
const LEGACY: [u32; 3] = [32, 40, 0];
const EXTENDED: [u32; 3] = [0, RxExtended::ERRORS_SHIFT, 32];
/// Causes of an interrupt for frames.
const CAUSES: u32 = INT_RXT0 | INT_RXQ0;
/// Writes of data under way at the most.
const IN_FLIGHT: usize = 2;

/// A frame in the FIFO, as it goes to memory.
#[derive(Debug)]
struct RxFrame {
    ready: Time,
    bytes: Vec<u8>,
    /// Bytes of it that have been written.
    done: usize,
    status: u8,
    errors: u8,
    checksum: u16,
    special: u16,
    /// IP identification, for the extended form.
    identification: Option<u16>,
}

/// A buffer that is being written.
#[derive(Debug)]
struct PendingWrite {
    at: Time,
    /// Its descriptor; `None` when the driver has moved the ring meanwhile.
    place: Option<Iova>,
    d: Desc,
    bytes: usize,
    /// The frame's length, when it ends here.
    frame: Option<usize>,
}

/// The receive side.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) ring: Ring,
    pub(super) delay: Delay,
    fifo: VecDeque<RxFrame>,
    used: usize,
    pending: VecDeque<PendingWrite>,
    /// XOFF has been sent, and no XON.
    pub(super) held_off: bool,
}

impl Receiver {
    pub(super) fn new(cfg: &Config) -> Receiver {
        Receiver {
            // "Descriptors are normally written back as soon as one cache line is available."
            ring: Ring::new(cfg.cache_line, 1 << DCTL_WTHRESH_SHIFT),
            delay: Delay::default(),
            fifo: VecDeque::new(),
            used: 0,
            pending: VecDeque::with_capacity(IN_FLIGHT),
            held_off: false,
        }
    }

    /// Frames that are not in memory, and those that are and are not reported.
    pub(super) fn unfinished(&self, extended: bool) -> (u64, u64) {
        let eop = u64::from(Rx::EOP) << form(extended)[0];
        let pending = self.pending.iter().filter(|l| l.frame.is_some()).count();
        (self.fifo.len() as u64 + pending as u64, self.ring.unreported(eop))
    }

    /// Bytes in the FIFO.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The driver has moved the ring.
    pub(super) fn restart(&mut self) {
        self.ring.restart();
        self.pending.iter_mut().for_each(|l| l.place = None);
    }
}

/// Returns where a written descriptor has status, errors and length.
const fn form(extended: bool) -> [u32; 3] {
    if extended { EXTENDED } else { LEGACY }
}

/// Bytes of a buffer.
const fn buffer_size(rctl: u32) -> usize {
    let size = 2048 >> (rctl >> RCTL_SZ_SHIFT & 3);
    // Size 0 with BSEX is reserved; it counts as without.
    if rctl & RCTL_BSEX != 0 && size != 2048 { size * 16 } else { size }
}

impl E1000 {
    // ---- arrival ----

    /// A frame arrives from the wire, or from our own transmitter.
    pub(super) fn arrive(&mut self, at: Time, frame: &[u8], looped: bool) -> RxVerdict {
        if !self.link || looped != self.loops() {
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        let len = frame.len().max(MIN_FRAME) + FCS;
        self.stats.count(stat::TPR);
        self.stats.bytes(stat::TORL, len);
        let rctl = self.regs.rctl;
        let longest = if rctl & RCTL_LPE != 0 { MAX_LONG } else { MAX_FRAME };
        if frame.len() < HEADER || len > longest {
            self.stats.count(if frame.len() < HEADER { stat::RUC } else { stat::ROC });
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        let pause = self.regs.is_flow_control(frame);
        if pause {
            self.control_frame(at, frame);
            if rctl & RCTL_DPF != 0 {
                return RxVerdict::Yes;
            }
        }
        if rctl & RCTL_EN == 0 {
            self.counters.rx_dropped += 1;
            return RxVerdict::Dropped(DropReason::Off);
        }
        let tag = filter::tag(frame, self.regs.vet);
        let pass = self.filter.pass(rctl, frame, tag);
        if pass == Pass::No {
            if pause {
                return RxVerdict::Yes;
            }
            self.counters.rx_filtered += 1;
            return RxVerdict::Dropped(DropReason::Filter);
        }
        if self.rx.used + len > self.regs.rx_fifo() {
            self.stats.count(stat::MPC);
            self.counters.rx_missed += 1;
            self.irq.raise(at, INT_RXO);
            return RxVerdict::Dropped(DropReason::Fifo);
        }
        self.stats.count(stat::GPRC);
        self.stats.bytes(stat::GORCL, len);
        self.stats.size_class(stat::PRC64, len);
        match Cast::of(frame) {
            Cast::Unicast => {}
            Cast::Multicast => self.stats.count(stat::MPRC),
            Cast::Broadcast => self.stats.count(stat::BPRC),
        }
        if self.rx.ring.left() == 0 {
            self.stats.count(stat::RNBC);
            self.counters.rx_waited += 1;
        }
        self.store(at, frame, tag, pass);
        self.flow_control(at);
        RxVerdict::Yes
    }

    /// Puts an accepted frame into the FIFO, as it is to look in memory.
    fn store(&mut self, at: Time, frame: &[u8], tag: Option<u16>, pass: Pass) {
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(frame);
        if bytes.len() < MIN_FRAME {
            bytes.resize(MIN_FRAME, 0);
        }
        let (mut status, errors, checksum) = filter::checksums(&bytes, self.regs.rxcsum);
        if pass == Pass::Inexact {
            status |= Rx::PIF;
        }
        let fcs = if self.regs.rctl & RCTL_SECRC == 0 { Some(ethernet::fcs(&bytes)) } else { None };
        let mut special = 0;
        if let Some(tci) = tag
            && self.regs.ctrl & CTRL_VME != 0
        {
            special = tci;
            status |= Rx::VP;
            bytes.copy_within(16.., 12);
            bytes.truncate(bytes.len() - TAG);
        }
        if let Some(fcs) = fcs {
            bytes.extend_from_slice(&fcs);
        }
        self.rx.used += bytes.len();
        let v4 = self.regs.is_extended() && bytes[12..14] == [8, 0] && bytes[14] >> 4 == 4;
        let identification = v4.then(|| u16::from_be_bytes([bytes[18], bytes[19]]));
        let frame = RxFrame {
            ready: at,
            bytes,
            done: 0,
            status,
            errors,
            checksum,
            special,
            identification,
        };
        self.rx.fifo.push_back(frame);
    }

    /// A MAC control frame: a pause, or one that nobody knows.
    fn control_frame(&mut self, at: Time, frame: &[u8]) {
        if self.regs.ctrl & CTRL_RFCE == 0 {
            return;
        }
        match frame.get(14..18) {
            Some(&[0, 1, high, low]) => {
                let quanta = u16::from_be_bytes([high, low]);
                self.stats.count(if quanta == 0 { stat::XONRXC } else { stat::XOFFRXC });
                self.counters.pauses_received += 1;
                // A quantum is 512 bit times.
                self.tx.paused = at + self.mode().speed.byte() * (u64::from(quanta) * 64);
            }
            _ => self.stats.count(stat::FCRUC),
        }
    }

    // ---- to memory ----

    pub(super) fn rx_fetch_due(&self) -> Time {
        let runs = !self.halted && self.regs.rctl & RCTL_EN != 0;
        if runs { self.rx.ring.fetch_due() } else { Time::NEVER }
    }

    pub(super) fn rx_fetch<P: Port>(&mut self, p: &mut P, t: Time) {
        let read = self.rx.ring.fetch(p, t);
        self.fetched(read);
    }

    pub(super) fn rx_data_due(&self) -> Time {
        if self.halted || self.rx.pending.len() >= IN_FLIGHT {
            return Time::NEVER;
        }
        match (self.rx.fifo.front(), self.rx.ring.front()) {
            (Some(f), Some((arrived, _))) => f.ready.max(arrived),
            _ => Time::NEVER,
        }
    }

    /// The next buffer of the frame in front.
    pub(super) fn rx_data<P: Port>(&mut self, p: &mut P, t: Time) {
        let (size, extended) = (buffer_size(self.regs.rctl), self.regs.is_extended());
        let [status, errors, length] = form(extended);
        let Some(f) = self.rx.fifo.front_mut() else { return };
        let Some((place, mut d)) = self.rx.ring.take() else { return };
        self.counters.rx_descriptors += 1;
        let mut pending = PendingWrite { at: t, place: Some(place), d, bytes: 0, frame: None };
        if d.low == 0 {
            d.high = u64::from(Rx::DD) << status;
        } else {
            let n = size.min(f.bytes.len() - f.done);
            let Ok(landed) = p.write(t, Iova(d.low), &f.bytes[f.done..f.done + n]) else {
                return self.fault();
            };
            self.counters.data_writes += 1;
            let crosses = d.low >> 16 != d.low.wrapping_add(n as u64 - 1) >> 16;
            self.counters.crossed_64k +=
                u64::from(crosses && self.cfg.variant == Variant::I82545Em);
            self.counters.data_write_bytes += n as u64;
            f.done += n;
            d.high = (n as u64) << length | u64::from(Rx::DD) << status;
            if f.done == f.bytes.len() {
                d.high |= u64::from(f.status | Rx::EOP) << status
                    | u64::from(f.errors) << errors
                    | u64::from(f.special) << 48;
                if extended {
                    let (low, status) = f.extended(self.regs.rxcsum);
                    (d.low, d.high) = (low, d.high | status);
                } else {
                    d.high |= u64::from(f.checksum) << 16;
                }
                pending.frame = Some(f.done);
            } else if extended {
                d.low = 0;
            }
            (pending.at, pending.bytes) = (landed.max(t), n);
        }
        pending.d = d;
        // They land in the order they were made.
        pending.at = self.rx.pending.back().map_or(pending.at, |l| l.at.max(pending.at));
        if pending.frame.is_some()
            && let Some(f) = self.rx.fifo.pop_front()
        {
            self.spare.push(f.bytes);
        }
        self.rx.pending.push_back(pending);
        let fraction = (self.regs.rctl >> RCTL_RDMTS_SHIFT & 3).min(2) + 1;
        if self.rx.ring.left() == self.rx.ring.size() >> fraction {
            self.irq.raise(t, INT_RXDMT0);
        }
    }

    // ---- write-back ----

    pub(super) fn rx_write_due(&self) -> Time {
        match self.rx.pending.front() {
            Some(l) if !self.halted => l.at,
            _ => Time::NEVER,
        }
    }

    /// A buffer's data are in memory.
    pub(super) fn rx_written<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(l) = self.rx.pending.pop_front() else { return };
        self.rx.used -= l.bytes;
        self.flow_control(t);
        let Some(place) = l.place else { return };
        let waiting = self.rx.ring.wait(place, l.d);
        let mut flush = waiting >= self.rx.ring.thresholds().write_back;
        if let Some(len) = l.frame {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            let (rdtr, moderates) = (self.regs.rdtr & TIMER, self.cfg.variant.moderates());
            if moderates && self.regs.rsrpd != 0 && len as u32 <= self.regs.rsrpd {
                flush = true;
                self.irq.raise(t, INT_SRPD);
            }
            if rdtr == 0 {
                flush = true;
                self.rx.delay.stop();
                self.irq.raise(t, CAUSES);
            } else {
                self.rx.delay.start(t, rdtr, if moderates { self.regs.radv & TIMER } else { 0 });
            }
        }
        if flush {
            self.rx_flush(p, t);
        }
    }

    fn rx_flush<P: Port>(&mut self, p: &mut P, t: Time) {
        let extended = self.regs.is_extended();
        let poisoned = u64::from(Rx::CE) << form(extended)[1];
        let written = self.rx.ring.flush(p, t, poisoned, extended);
        self.flushed(written);
    }

    /// RDTR or RADV has ended.
    pub(super) fn rx_delay_over<P: Port>(&mut self, p: &mut P, t: Time) {
        self.rx.delay.stop();
        if !self.halted {
            self.rx_flush(p, t);
        }
        self.irq.raise(t, CAUSES);
    }
}

impl RxFrame {
    /// Returns the lower half of an extended descriptor, and status for the upper: IP
    /// identification and packet checksum, unless those are off (82574 7.1.5.2).
    fn extended(&self, rxcsum: u32) -> (u64, u64) {
        if rxcsum & RXCSUM_PCSD != 0 {
            return (0, 0);
        }
        let checksum = u64::from(self.checksum) << 48;
        let identified = |n| (u64::from(n) << 32 | checksum, u64::from(RxExtended::IPIDV));
        self.identification.map_or((checksum, 0), identified)
    }
}

#[cfg(test)]
mod tests;
