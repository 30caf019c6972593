//! Reception: buffers for the server, frames from it.
//!
//! Source: ibmvnic.c `replenish_rx_pool`, `ibmvnic_poll`; "ibmvnic: Only replenish rx pool when
//! resources are getting low", N. Child, 2024-08-01.
//!
//! Buffers are slots of long-term buffers, given in arrays of up to sixteen. [`Replenish`] says
//! when. A pool of 4096 that is filled up at 2047 takes 2049 buffers in 129 arrays: 15.88 frames a
//! call. A frame is copied out, and its slot is free at once.

use super::call;
use super::config::{OpenError, Replenish};
use super::ltb::{Ids, Set};
use super::ring::coherent;
use super::stats::QueueStats;
use super::subcrq::SubCrq;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Coherent, CpuWork, Host, Hypervisor};
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, RxAdd, RxComp, rc, rx, status};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::{Fragment, OffloadRequest, Packet};

const ARRAY: u32 = MAX_INDIRECT as u32;

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) crq: SubCrq<RxComp>,
    pub(super) handle: u64,
    /// Bytes of a buffer, as the server said.
    pub(super) size: u32,
    set: Option<Set>,
    /// The server has it.
    posted: Vec<bool>,
    free: VecDeque<u32>,
    array: Coherent,
}

impl Receiver {
    pub(super) fn allocate<H: Host>(h: &mut H) -> Result<Receiver, OpenError> {
        let crq = SubCrq::allocate(h)?;
        match coherent(h, ARRAY * DESCRIPTOR as u32, 4096) {
            Ok(array) => Ok(Receiver {
                crq,
                handle: 0,
                size: 0,
                set: None,
                posted: vec![],
                free: VecDeque::new(),
                array,
            }),
            Err(e) => {
                crq.release(h);
                Err(e)
            }
        }
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H, ids: &mut Ids) {
        if let Some(set) = self.set.take() {
            set.release(h, ids);
        }
        h.release_coherent(self.array);
        self.crq.release(h);
    }

    /// Buffers for what was granted; a set that fits is kept.
    pub(super) fn prepare<H: Host>(
        &mut self,
        h: &mut H,
        ids: &mut Ids,
        count: u32,
    ) -> Result<(), OpenError> {
        if !self.set.as_ref().is_some_and(|s| s.fits(count, self.size)) {
            if let Some(set) = self.set.take() {
                set.release(h, ids);
            }
            self.set = Some(Set::allocate(h, ids, count, self.size)?);
        }
        self.posted = vec![false; count as usize];
        self.free = (0..count).collect();
        Ok(())
    }

    pub(super) fn sets(&mut self) -> impl Iterator<Item = &mut Set> {
        self.set.iter_mut()
    }

    /// Buffers that the server has.
    pub(super) fn lent(&self) -> u32 {
        (self.posted.len() - self.free.len()) as u32
    }

    /// The session is over, and the server has none of them any more. Frames that came and were not
    /// looked at are lost.
    pub(super) fn forget<H: Hypervisor>(&mut self, h: &mut H, s: &mut QueueStats) {
        while self.crq.number.is_some()
            && let Some(m) = self.crq.ring.next(h)
        {
            s.rx_unread += u64::from(m.rc.get() != rc::ABORTED.into());
        }
        for (i, p) in self.posted.iter_mut().enumerate() {
            if core::mem::take(p) {
                s.rx_lost += 1;
                self.free.push_back(i as u32);
            }
        }
    }

    /// Gives the server buffers at the end of a poll that had budget left (`spare`), or had not.
    pub(super) fn replenish<H: Hypervisor>(
        &mut self,
        h: &mut H,
        unit: u64,
        rule: Replenish,
        spare: bool,
        s: &mut QueueStats,
    ) {
        // Linux never refills a pool of one.
        let half = (self.posted.len() / 2).max(1);
        let low = (self.lent() as usize) < half;
        let give = match rule {
            Replenish::BelowHalf if low => self.free.len(),
            Replenish::EachPoll if low || spare => self.free.len(),
            Replenish::BelowHalf | Replenish::EachPoll => 0,
            Replenish::WholeArrays => {
                let rest = self.free.len() % ARRAY as usize;
                self.free.len() - if rest > self.posted.len() / 2 { 0 } else { rest }
            }
        };
        self.give(h, unit, give, s);
    }

    /// Gives the server all buffers that it has not.
    pub(super) fn fill<H: Hypervisor>(&mut self, h: &mut H, unit: u64, s: &mut QueueStats) {
        self.give(h, unit, self.free.len(), s);
    }

    /// Gives the server `missing` of the free buffers, in arrays.
    fn give<H: Hypervisor>(
        &mut self,
        h: &mut H,
        unit: u64,
        mut missing: usize,
        s: &mut QueueStats,
    ) {
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
                // They stay here for the next time.
                s.rx_add_failed += 1;
                return;
            }
            s.rx_add_arrays += 1;
            s.rx_added += n as u64;
            missing -= n;
            for index in self.free.drain(..n) {
                self.posted[index as usize] = true;
            }
        }
    }

    /// The next completion's packet, and whether the server vouches for it; `Some(None)` for a
    /// completion without one.
    pub(super) fn next<H: Hypervisor>(
        &mut self,
        h: &mut H,
        s: &mut QueueStats,
    ) -> Option<Option<(Packet, bool)>> {
        let m = self.crq.ring.next(h)?;
        h.charge(CpuWork::Completion);
        let correlator = m.correlator.get();
        let index =
            usize::try_from(correlator).ok().filter(|i| self.posted.get(*i).copied() == Some(true));
        let (Some(index), Some(set)) = (index, &self.set) else {
            s.rx_bad_correlator += 1;
            return Some(None);
        };
        self.posted[index] = false;
        self.free.push_back(index as u32);
        // Given back when the link was taken down: no frame, and nothing wrong.
        if m.rc.get() == rc::ABORTED.into() {
            return Some(None);
        }
        if m.rc.get() != 0 {
            s.rx_errors += 1;
            return Some(None);
        }
        let (offset, len) = (u32::from(m.off_frame_data.get()), m.len.get());
        if len < HEADER as u32 || len > self.size || offset > self.size - len {
            s.rx_malformed += 1;
            return Some(None);
        }
        let Ok(buf) = h.buffer(len, Alignment::ANY) else {
            s.rx_no_memory += 1;
            return Some(None);
        };
        let (ltb, slot) = set.at(index as u32);
        h.copy_out(&ltb.area, slot + offset, &buf, 0..len);
        h.charge(CpuWork::Copy(len));
        h.charge(CpuWork::RxPacket);
        let good = rx::IP_CHKSUM_GOOD | rx::TCP_UDP_CHKSUM_GOOD;
        let verified = m.flags & good == good;
        s.rx_packets += 1;
        s.rx_bytes += u64::from(len);
        s.rx_csum_good += u64::from(verified);
        let vlan = (m.flags & rx::VLAN_STRIPPED != 0).then(|| m.vlan_tci.get());
        Some(Some((
            Packet {
                todo: OffloadRequest { vlan, ..OffloadRequest::NONE },
                ..Packet::linear(Fragment::whole(buf))
            },
            verified,
        )))
    }
}
