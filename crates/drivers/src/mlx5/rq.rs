//! The receive queue: a cyclic queue of WQEs with one buffer each.
//!
//! Source: en_rx.c `mlx5e_post_rx_wqes`, `mlx5e_handle_rx_cqe`, `mlx5e_poll_rx_cq`; reporter_rx.c
//! `mlx5e_rx_reporter_err_rq_cqe_recover`.
//!
//! Buffers are posted in bulks, and the doorbell record tells of them; there is no register write.
//! With a program, each frame has a page that stays mapped; pages that the program drops or sends
//! are received into again.
//!
//! A frame that does not fit its buffer, or an entry that names a WQE without one, is an error of
//! the device, and counted.

use super::cq::{Cq, ring_and_record};
use super::settings::{Config, RqConfig, Stats};
use super::sq::Sq;
use crate::common::{both, discard, map_rx};
use crate::{Sink, Verdict};
use alloc::{boxed::Box, collections::VecDeque};
use core::ops::Range;
use doorbell_hal::{Coherent, CpuWork, Direction, Fence, Host, Mapped, OutOfMemory};

use doorbell_layout::mlx5::receive::{
    CQE_RECEIVED, DBR_RECEIVE, L3_OK, L4_OK, RqContext, RxCqe, VLAN_STRIPPED,
};
use doorbell_layout::mlx5::{Caps, DataSeg, cqe_opcode};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::{Fragment, OffloadRequest, Packet};
use zerocopy::byteorder::big_endian::{U32, U64};

/// Bytes of a WQE: one data segment.
pub(super) const STRIDE: u32 = size_of::<DataSeg>() as u32;

/// Pages that a queue keeps, and receives into again in the order in which they came back (en_rx.c
/// `mlx5e_rx_cache_put`, `mlx5e_rx_cache_get`).
#[derive(Debug, Default)]
pub(super) struct PageCache(VecDeque<Mapped>);

/// The most of them: four times a poll of NAPI (en.h `MLX5E_CACHE_SIZE`).
const KEPT: usize = 256;

impl PageCache {
    /// Keeps a page, or releases it if there are enough.
    #[inline(always)]
    pub(super) fn put<H: Host>(&mut self, h: &mut H, page: Mapped, s: &mut Stats) {
        if self.0.len() < KEPT {
            self.0.push_back(page);
        } else {
            s.rx_cache_full += 1;
            discard(h, page);
        }
    }

    fn take<H: Host>(&mut self, h: &mut H, c: &RqConfig, s: &mut Stats) -> Option<Mapped> {
        if let Some(page) = self.0.pop_front() {
            s.rx_cache_reuse += 1;
            return Some(page);
        }
        s.rx_cache_empty += 1;
        let buf = h.buffer(c.buffer, c.place()).ok()?;
        map_rx(h, buf, Direction::Both, |_, _| true)
    }

    fn release<H: Host>(self, h: &mut H) {
        self.0.into_iter().for_each(|page| discard(h, page));
    }
}

#[derive(Debug)]
pub(super) struct Rq {
    pub(super) ring: Coherent,
    pub(super) dbr: Coherent,
    pub(super) rqn: u32,
    pub(super) lkey: U32,
    config: RqConfig,
    /// The buffer of each WQE that has one.
    buffers: Box<[Option<Mapped>]>,
    /// Pages between a program and a WQE.
    pages: PageCache,
    /// The send queue of what the program sends.
    pub(super) back: Option<Sq>,
    /// WQEs posted, and those that came back: counters that wrap.
    posted: u16,
    taken: u16,
    /// An entry told of an error: the queue is in ERR, and has to be started again.
    pub(super) failed: bool,
}

impl Rq {
    /// Allocates the queue of a channel, if it has one.
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        channel: &Config,
        caps: &Caps,
    ) -> Result<Option<Rq>, OutOfMemory> {
        let Some(c) = &channel.rq else { return Ok(None) };
        let back = c.xdp.then(|| Sq::allocate_for_pages(h, channel, caps)).transpose()?;
        let (back, (ring, dbr)) = both(back, ring_and_record(h, STRIDE << c.log_size), |back| {
            let _ = back.map(|sq| sq.release(h));
        })?;
        let mut rq = Rq {
            ring,
            dbr,
            rqn: 0,
            lkey: U32::ZERO,
            config: *c,
            buffers: (0..1 << c.log_size).map(|_| None).collect(),
            pages: PageCache::default(),
            back,
            posted: 0,
            taken: 0,
            failed: false,
        };
        rq.restart(h);
        Ok(Some(rq))
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
            strides: None,
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
            if !self.post(h, s) {
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

    fn post<H: Host>(&mut self, h: &mut H, s: &mut Stats) -> bool {
        let slot = self.slot(self.posted);
        if self.buffers[slot].is_none() {
            self.buffers[slot] = if self.config.xdp {
                self.pages.take(h, &self.config, s)
            } else {
                let buf = h.buffer(self.config.buffer, self.config.place()).ok();
                buf.and_then(|buf| map_rx(h, buf, Direction::FromDevice, |_, _| true))
            };
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
        if let Some(back) = &mut self.back {
            back.announce_pages(h);
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
        let Some(mut mapped) = self.buffers[slot].take() else { return };
        let start = mapped.range().start;
        h.charge(CpuWork::RxPacket);
        if self.config.xdp {
            let Some(page) = self.run(h, mapped, start..start + len, s, up) else { return };
            mapped = page;
        }
        let head = Fragment { buf: h.unmap(mapped), start, len };
        let tagged = cqe.l4_l3_hdr_type & VLAN_STRIPPED != 0;
        let todo =
            OffloadRequest { vlan: tagged.then(|| cqe.vlan_info.get()), ..OffloadRequest::NONE };
        let good = L3_OK | L4_OK;
        let verified = cqe.hds_ip_ext & good == good;
        s.rx_packets += 1;
        s.rx_bytes += u64::from(len);
        s.rx_csum_unnecessary += u64::from(verified);
        up.received(Packet { head, todo, more: None, cookie: 0 }, verified);
    }

    /// Runs the program on a frame. Returns its page if the frame passes.
    #[inline(always)]
    fn run<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        page: Mapped,
        frame: Range<u32>,
        s: &mut Stats,
        up: &mut S,
    ) -> Option<Mapped> {
        let verdict = up.program(h, &page, frame.clone());
        let unsent = match (verdict, &mut self.back) {
            (Verdict::Pass, _) => return Some(page),
            (Verdict::Send, Some(back)) => back.send_page(h, page, frame),
            _ => Err(page),
        };
        match unsent {
            Ok(()) => s.rx_xdp_tx_xmit += 1,
            Err(page) => {
                let dropped = u64::from(verdict == Verdict::Drop);
                s.rx_xdp_drop += dropped;
                s.rx_xdp_tx_full += 1 - dropped;
                self.pages.put(h, page, s);
            }
        }
        None
    }

    /// Takes up to `budget` completions of the frames that the program sent, from the `cq` of their
    /// queue. Returns how many there were.
    pub(super) fn complete_sent<H: Host>(
        &mut self,
        h: &mut H,
        cq: &mut Cq,
        budget: u32,
        s: &mut Stats,
    ) -> u32 {
        let Some(back) = &mut self.back else { return 0 };
        let (mut cqes, mut pages) = (0, 0);
        while cqes < budget {
            let Some(tail) = cq.next(h) else { break };
            h.charge(CpuWork::Completion);
            cqes += 1;
            if tail.op_own >> 4 == cqe_opcode::REQ_ERR {
                s.cqe_err += 1;
                back.set_recovering(true);
            }
            let kept = &mut self.pages;
            pages += back.retire_pages(tail.wqe_counter.get(), |page| kept.put(h, page, s));
        }
        if cqes > 0 {
            s.rx_xdp_tx_cqe += u64::from(cqes);
            h.charge(CpuWork::TxDone(pages));
            cq.publish_ci(h);
        }
        cqes
    }

    /// Returns whether one of its queues is in error.
    pub(super) fn has_failed(&self) -> bool {
        self.failed || self.back.as_ref().is_some_and(Sq::recovering)
    }

    /// Takes back the pages that the device will not send any more.
    #[cold]
    pub(super) fn abandon_sent<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        let kept = &mut self.pages;
        if let Some(back) = &mut self.back {
            back.abandon_pages(|page| kept.put(h, page, s));
        }
    }

    /// Returns the counters of the queue of what the program sends.
    pub(super) fn sent(&self) -> Stats {
        self.back.as_ref().map_or(Stats::default(), Sq::stats)
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        self.restart(h);
        self.pages.release(h);
        let _ = self.back.map(|sq| sq.release(h));
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}
