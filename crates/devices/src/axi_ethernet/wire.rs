//! The wire: from the transmit memory to the link partner.
//!
//! Frames leave in order, one after another, with preamble, FCS and the least gap (or IFGP's). A
//! frame that has begun is finished, whatever a driver does then; even a reset does not
//! call it back. Without a link they wait. What the MAC does not send is dropped there: too long,
//! or with a wrong FCS of the driver's own.
//!
//! Source: PG138, TC; IEEE 802.3, 4.2.

use super::{config::Speed, device::AxiEthernet, mac::is_tagged};
use crate::common::FRAME;
use alloc::vec::Vec;
use doorbell_hal::{Port, Span, Time, transfer_units};
use doorbell_layout::axienet::{int, stat, tc};
use doorbell_packet::ethernet::{self, Cast, FCS, GAP, MAX_FRAME, MIN_FRAME, PREAMBLE};
use doorbell_packet::vlan::TAG;

#[derive(Debug)]
pub(super) struct TxFrame {
    /// Time at which all of it was on the chip.
    pub(super) ready: Time,
    pub(super) bytes: Vec<u8>,
}

impl AxiEthernet {
    pub(super) fn wire_due(&self) -> Time {
        if let Some(until) = self.tx.sending {
            return until;
        }
        match self.tx.fifo.front() {
            Some(f) if self.link && self.mac.tc & tc::TX != 0 => f.ready.max(self.tx.quiet),
            _ => Time::NEVER,
        }
    }

    /// Returns the time that a frame of so many bytes occupies the wire.
    fn wire_time(&self, bytes: usize) -> Span {
        let ifg = if self.mac.tc & tc::IFG != 0 { self.mac.ifgp as usize } else { 0 };
        let speed = self.mac.speed().unwrap_or(Speed::M1000);
        speed.byte() * (PREAMBLE + bytes + FCS + ifg.max(GAP)) as u64
    }

    /// The frame in front has been sent, and the next begins.
    pub(super) fn wire<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.tx.sending.take().is_some() {
            self.sent();
        }
        while self.wire_due() <= t && self.tx.sending.is_none() {
            if self.make_ready() {
                self.send(p, t);
            }
        }
    }

    /// Makes the frame in front one as it leaves; or drops it.
    fn make_ready(&mut self) -> bool {
        let Some(f) = self.tx.fifo.front_mut() else { return false };
        let before = f.bytes.len();
        let mut good = true;
        if self.mac.tc & tc::FCS != 0 {
            let body = before.saturating_sub(FCS);
            good = before > FCS && f.bytes[body..] == ethernet::fcs(&f.bytes[..body]);
            f.bytes.truncate(body);
        } else if before < MIN_FRAME {
            f.bytes.resize(MIN_FRAME, 0);
        }
        let tag = if self.mac.tc & tc::VLAN != 0 && is_tagged(&f.bytes) { TAG } else { 0 };
        let too_long = self.mac.tc & tc::JUMBO == 0 && f.bytes.len() > MAX_FRAME + tag;
        self.tx.used = self.tx.used - before + f.bytes.len();
        if good && !too_long {
            return true;
        }
        if too_long {
            self.stats.add(stat::TX_OVERSIZE, 1);
        }
        self.counters.tx_discarded += 1;
        self.drop_front();
        false
    }

    fn drop_front(&mut self) {
        if let Some(f) = self.tx.fifo.pop_front() {
            self.tx.used -= f.bytes.len();
            self.spare.push(f.bytes);
        }
    }

    fn send<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(f) = self.tx.fifo.front() else { return };
        self.tx.sending = Some(t + self.wire_time(f.bytes.len()));
        p.charge(FRAME * transfer_units(f.bytes.len()));
        // At a speed that is not the link's, nobody understands it.
        if self.carries() {
            p.emit(t, &f.bytes);
        } else {
            self.counters.tx_garbled += 1;
        }
    }

    /// The frame in front has left.
    fn sent(&mut self) {
        let Some(f) = self.tx.fifo.front() else { return };
        let (len, s) = (f.bytes.len(), &mut self.stats);
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len as u64;
        s.add(stat::TX_BYTES, len + FCS);
        s.add(stat::TX_GOOD, 1);
        s.size_class(stat::TX_64, len + FCS);
        if is_tagged(&f.bytes) {
            s.add(stat::TX_VLAN, 1);
        }
        match Cast::of(&f.bytes) {
            Cast::Unicast => {}
            Cast::Multicast => s.add(stat::TX_MULTICAST, 1),
            Cast::Broadcast => s.add(stat::TX_BROADCAST, 1),
        }
        self.mac.is |= int::TX_COMPLETE;
        self.drop_front();
    }
}
