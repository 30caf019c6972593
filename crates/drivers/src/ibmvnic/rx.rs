//! Reception.
//!
//! Source: ibmvnic.c `replenish_rx_pool`, `ibmvnic_poll`; "ibmvnic: Only replenish rx pool when
//! resources are getting low", N. Child, 2024-08-01.
//!
//! Buffers are slots of long-term buffers. They are posted in arrays of up to sixteen, when
//! [`Replenish`] says. A frame is copied out of its slot, which is then free.

use super::ltb::{LtbSet, MapIds};
use super::{call, config::Replenish, ring::coherent, stats::QueueStats, subcrq::SubCrq};
use crate::{Opened, common::both};
use alloc::vec::Vec;
use alloc::{collections::VecDeque, vec};
use doorbell_hal::{Alignment, Coherent, CpuWork, Host, Hypervisor};
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, RxAdd, RxComp, rc, rx, status};
use doorbell_packet::{Fragment, OffloadRequest, Packet, ethernet::HEADER};

const ARRAY: u32 = MAX_INDIRECT as u32;

#[derive(Debug)]
pub(super) struct RxQueue {
    pub(super) stats: QueueStats,
    pub(super) crq: SubCrq<RxComp>,
    pub(super) handle: u64,
    /// Bytes of a buffer, from the login response.
    pub(super) size: u32,
    set: Option<LtbSet>,
    /// Buffers that the server has.
    posted: Vec<bool>,
    free: VecDeque<u32>,
    array: Coherent,
}

impl RxQueue {
    pub(super) fn allocate<H: Host>(h: &mut H) -> Opened<RxQueue> {
        let crq = SubCrq::allocate(h)?;
        let array = coherent(h, ARRAY * DESCRIPTOR as u32, 4096);
        let (crq, array) = both(crq, array, |crq| crq.release(h))?;
        Ok(RxQueue {
            stats: QueueStats::default(),
            crq,
            handle: 0,
            size: 0,
            set: None,
            posted: vec![],
            free: VecDeque::new(),
            array,
        })
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H, ids: &mut MapIds) {
        if let Some(set) = self.set.take() {
            set.release(h, ids);
        }
        h.release_coherent(self.array);
        self.crq.release(h);
    }

    /// Allocates the buffers that were granted, or keeps a set that fits.
    pub(super) fn prepare<H: Host>(&mut self, h: &mut H, ids: &mut MapIds, count: u32) -> Opened {
        if !self.set.as_ref().is_some_and(|s| s.fits(count, self.size)) {
            if let Some(set) = self.set.take() {
                set.release(h, ids);
            }
            self.set = Some(LtbSet::allocate(h, ids, count, self.size)?);
        }
        self.posted = vec![false; count as usize];
        self.free = (0..count).collect();
        Ok(())
    }

    pub(super) fn sets(&mut self) -> impl Iterator<Item = &mut LtbSet> {
        self.set.iter_mut()
    }

    /// Returns the number of buffers that the server has.
    pub(super) fn lent(&self) -> u32 {
        (self.posted.len() - self.free.len()) as u32
    }

    /// Returns whether the server has no buffer: no completion, and so no poll, would come.
    pub(super) fn is_starved(&self) -> bool {
        self.crq.number.is_some() && self.lent() == 0
    }

    /// Ends a session: takes all buffers back, and counts frames not yet polled as lost.
    pub(super) fn end_session<H: Hypervisor>(&mut self, h: &mut H) {
        let unread = if self.crq.number.is_some() { self.crq.ring.lap() } else { 0 };
        for _ in 0..unread {
            let Some(m) = self.crq.ring.next(h) else { break };
            // Only a completion without an error has a frame.
            let code = m.rc.get();
            self.stats.rx_unread += u64::from(code == 0);
            self.stats.rx_errors += u64::from(code != 0 && code != rc::ABORTED.into());
        }
        for (i, p) in self.posted.iter_mut().enumerate() {
            if core::mem::take(p) {
                self.stats.rx_lost += 1;
                self.free.push_back(i as u32);
            }
        }
    }

    /// Posts buffers at the end of a poll that had budget left (`spare`) or not.
    pub(super) fn replenish<H: Hypervisor>(
        &mut self,
        h: &mut H,
        unit: u64,
        rule: Replenish,
        spare: bool,
    ) {
        // Linux never refills a pool of one.
        let half = (self.posted.len() / 2).max(1);
        let low = (self.lent() as usize) < half;
        let count = match rule {
            Replenish::BelowHalf if low => self.free.len(),
            Replenish::EachPoll if low || spare => self.free.len(),
            Replenish::BelowHalf | Replenish::EachPoll => 0,
            Replenish::WholeArrays => {
                let rest = self.free.len() % ARRAY as usize;
                self.free.len() - if rest > self.posted.len() / 2 { 0 } else { rest }
            }
        };
        self.post(h, unit, count);
    }

    /// Posts all free buffers.
    pub(super) fn fill<H: Hypervisor>(&mut self, h: &mut H, unit: u64) {
        self.post(h, unit, self.free.len());
    }

    /// Posts `missing` of the free buffers, in arrays.
    fn post<H: Hypervisor>(&mut self, h: &mut H, unit: u64, mut missing: usize) {
        let Some(set) = &self.set else { return };
        while missing > 0 {
            let n = missing.min(ARRAY as usize);
            for (i, index) in self.free.iter().take(n).enumerate() {
                let (ltb, offset) = set.at(*index);
                // 32 bits, as in the message that maps it.
                let ioba = ltb.area.iova().0 as u32 + offset;
                let d = RxAdd::new(u64::from(*index), ltb.id, ioba, set.slot.min(self.size));
                h.store(&self.array, (i * DESCRIPTOR) as u32, d.bytes());
                h.charge(CpuWork::RxPost);
            }
            if call::send_indirect(h, unit, self.handle, self.array.iova().0, n as u32)
                != status::SUCCESS
            {
                // The next poll retries, or an alarm if none comes.
                self.stats.rx_add_failed += 1;
                return;
            }
            self.stats.rx_add_arrays += 1;
            self.stats.rx_added += n as u64;
            missing -= n;
            for index in self.free.drain(..n) {
                self.posted[index as usize] = true;
            }
        }
    }

    /// Takes the next completion. Returns its packet, if it has one, and whether the server vouches
    /// for its checksum.
    pub(super) fn next<H: Hypervisor>(&mut self, h: &mut H) -> Option<Option<(Packet, bool)>> {
        let m = self.crq.ring.next(h)?;
        h.charge(CpuWork::Completion);
        Some(self.receive(h, &m))
    }

    fn receive<H: Hypervisor>(&mut self, h: &mut H, m: &RxComp) -> Option<(Packet, bool)> {
        let correlator = m.correlator.get();
        let index =
            usize::try_from(correlator).ok().filter(|i| self.posted.get(*i).copied() == Some(true));
        let (Some(index), Some(set)) = (index, &self.set) else {
            self.stats.rx_bad_correlator += 1;
            return None;
        };
        self.posted[index] = false;
        self.free.push_back(index as u32);
        // Returned unused when the link was taken down.
        if m.rc.get() == rc::ABORTED.into() {
            return None;
        }
        if m.rc.get() != 0 {
            self.stats.rx_errors += 1;
            return None;
        }
        let (offset, len) = (u32::from(m.off_frame_data.get()), m.len.get());
        if len < HEADER as u32 || len > self.size || offset > self.size - len {
            self.stats.rx_malformed += 1;
            return None;
        }
        let Ok(buf) = h.buffer(len, Alignment::ANY) else {
            self.stats.rx_no_memory += 1;
            return None;
        };
        let (ltb, slot) = set.at(index as u32);
        h.copy_out(&ltb.area, slot + offset, &buf, 0..len);
        h.charge(CpuWork::Copy(len));
        h.charge(CpuWork::RxPacket);
        let good = rx::IP_CHKSUM_GOOD | rx::TCP_UDP_CHKSUM_GOOD;
        let verified = m.flags & good == good;
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += u64::from(len);
        self.stats.rx_csum_good += u64::from(verified);
        let vlan = (m.flags & rx::VLAN_STRIPPED != 0).then(|| m.vlan_tci.get());
        let todo = OffloadRequest { vlan, ..OffloadRequest::NONE };
        Some((Packet { todo, ..Packet::linear(Fragment::whole(buf)) }, verified))
    }
}
