//! The receive queue: a cyclic queue of WQEs with one buffer each.
//!
//! Source: en_rx.c `mlx5e_post_rx_wqes`, `mlx5e_handle_rx_cqe`, `mlx5e_poll_rx_cq`; reporter_rx.c
//! `mlx5e_rx_reporter_err_rq_cqe_recover`.
//!
//! Buffers are posted in bulks, and the doorbell record tells of them; there is no register write.
//! A frame that does not fit its buffer, or an entry that names a WQE without one, is an error of
//! the device, and counted.

use super::cq::{Cq, ring_and_record};
use super::settings::{RqConfig, Stats};
use crate::Sink;
use crate::common::{discard, map_rx};
use alloc::boxed::Box;
use doorbell_hal::{Alignment, Coherent, CpuWork, Fence, Host, Mapped, OutOfMemory};
use doorbell_layout::mlx5::DataSeg;
use doorbell_layout::mlx5::receive::{
    CQE_RECEIVED, DBR_RECEIVE, L3_OK, L4_OK, RqContext, RxCqe, VLAN_STRIPPED,
};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::{Fragment, OffloadRequest, Packet};
use zerocopy::byteorder::big_endian::{U32, U64};

/// Bytes of a WQE: one data segment.
pub(super) const STRIDE: u32 = size_of::<DataSeg>() as u32;

#[derive(Debug)]
pub(super) struct Rq {
    pub(super) ring: Coherent,
    pub(super) dbr: Coherent,
    pub(super) rqn: u32,
    pub(super) lkey: U32,
    config: RqConfig,
    /// The buffer of each WQE that has one.
    buffers: Box<[Option<Mapped>]>,
    /// WQEs posted, and those that came back: counters that wrap.
    posted: u16,
    taken: u16,
    /// An entry told of an error: the queue is in ERR, and has to be started again.
    pub(super) failed: bool,
}

impl Rq {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &RqConfig) -> Result<Rq, OutOfMemory> {
        let (ring, dbr) = ring_and_record(h, STRIDE << c.log_size)?;
        let mut rq = Rq {
            ring,
            dbr,
            rqn: 0,
            lkey: U32::ZERO,
            config: *c,
            buffers: (0..1 << c.log_size).map(|_| None).collect(),
            posted: 0,
            taken: 0,
            failed: false,
        };
        rq.restart(h);
        Ok(rq)
    }

    /// Returns its context, for the completion queue `cqn`.
    pub(super) fn context(&self, cqn: u32) -> RqContext {
        RqContext {
            log_size: self.config.log_size,
            log_stride: STRIDE.ilog2() as u8,
            ring: self.ring.iova().0,
            dbr: self.dbr.iova().0,
            cqn,
            counter_set: 0,
            keep_vlan: false,
            flush_in_error: true,
            end_padding: self.config.padding,
        }
    }

    /// Empties the queue, which the device does not use. Its buffers are released.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H) {
        self.buffers.iter_mut().filter_map(Option::take).for_each(|m| discard(h, m));
        (self.posted, self.taken, self.failed) = (0, 0, false);
        h.store(&self.dbr, DBR_RECEIVE, U32::ZERO);
    }

    fn slot(&self, counter: u16) -> usize {
        usize::from(counter) & (self.buffers.len() - 1)
    }

    /// Returns the WQEs that are not posted.
    fn free(&self) -> u32 {
        self.buffers.len() as u32 - u32::from(self.posted.wrapping_sub(self.taken))
    }

    /// Posts buffers while a bulk of WQEs has none, and tells the device. Returns false if there is
    /// no memory for one; the next poll tries again.
    pub(super) fn fill<H: Host>(&mut self, h: &mut H, s: &mut Stats) -> bool {
        let before = self.posted;
        let (free, bulk) = (self.free(), u32::from(self.config.bulk));
        let mut enough = true;
        for _ in 0..free - free % bulk {
            if !self.post(h) {
                s.rx_buff_alloc_err += 1;
                enough = false;
                break;
            }
        }
        if self.posted != before {
            h.fence(Fence::Write);
            h.store(&self.dbr, DBR_RECEIVE, U32::new(u32::from(self.posted)));
        }
        enough
    }

    fn post<H: Host>(&mut self, h: &mut H) -> bool {
        let slot = self.slot(self.posted);
        if self.buffers[slot].is_none() {
            let place = Alignment { align: self.config.align, offset: self.config.headroom };
            let Ok(buf) = h.buffer(self.config.buffer, place) else { return false };
            let Some(mapped) = map_rx(h, buf, |_, _| true) else { return false };
            self.buffers[slot] = Some(mapped);
        }
        let Some(mapped) = &self.buffers[slot] else { return false };
        let segment = DataSeg {
            byte_count: U32::new(self.config.buffer),
            lkey: self.lkey,
            addr: U64::new(mapped.iova().0),
        };
        h.store(&self.ring, slot as u32 * STRIDE, segment);
        h.charge(CpuWork::RxPost);
        self.posted = self.posted.wrapping_add(1);
        true
    }

    /// Takes up to `budget` entries of its completion queue, and passes the frames to `up`. Returns
    /// how many entries there were.
    pub(super) fn poll<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        cq: &mut Cq,
        budget: u32,
        s: &mut Stats,
        up: &mut S,
    ) -> u32 {
        let mut taken = 0;
        while taken < budget && cq.next(h).is_some() {
            taken += 1;
            h.charge(CpuWork::Completion);
            let cqe = cq.entry(h);
            self.receive(h, &cqe, s, up);
        }
        if taken > 0 {
            s.rx_cqes += u64::from(taken);
            cq.publish_ci(h);
        }
        taken
    }

    /// Drops what the device wrote before it gave the queue up.
    pub(super) fn drop_left<H: Host>(h: &mut H, cq: &mut Cq, s: &mut Stats) {
        while let Some(tail) = cq.next(h) {
            s.rx_left += u64::from(tail.op_own >> 4 == CQE_RECEIVED);
        }
        cq.publish_ci(h);
    }

    fn receive<H: Host, S: Sink>(&mut self, h: &mut H, cqe: &RxCqe, s: &mut Stats, up: &mut S) {
        let slot = self.slot(cqe.wqe_counter.get());
        if self.posted == self.taken || self.buffers[slot].is_none() {
            s.rx_cqe_stray += 1;
            return;
        }
        self.taken = self.taken.wrapping_add(1);
        if cqe.op_own >> 4 != CQE_RECEIVED {
            s.rx_wqe_err += 1;
            self.failed = true;
            return;
        }
        let len = cqe.byte_cnt.get();
        if len > self.config.buffer || len < HEADER as u32 {
            s.rx_malformed += 1;
            return;
        }
        let Some(mapped) = self.buffers[slot].take() else { return };
        let start = mapped.range().start;
        let head = Fragment { buf: h.unmap(mapped), start, len };
        let tagged = cqe.l4_l3_hdr_type & VLAN_STRIPPED != 0;
        let todo =
            OffloadRequest { vlan: tagged.then(|| cqe.vlan_info.get()), ..OffloadRequest::NONE };
        let good = L3_OK | L4_OK;
        let verified = cqe.hds_ip_ext & good == good;
        s.rx_packets += 1;
        s.rx_bytes += u64::from(len);
        s.rx_csum_unnecessary += u64::from(verified);
        h.charge(CpuWork::RxPacket);
        up.received(Packet { head, todo, more: None, cookie: 0 }, verified);
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        self.restart(h);
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}
