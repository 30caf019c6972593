//! The receive queue: a cyclic queue of WQEs with one buffer each.
//!
//! Source: en_rx.c `mlx5e_post_rx_wqes`, `mlx5e_handle_rx_cqe`, `mlx5e_poll_rx_cq`; en_dim.c;
//! reporter_rx.c `mlx5e_rx_reporter_err_rq_cqe_recover`.
//!
//! Buffers are posted in bulks, and the doorbell record tells of them; there is no register write.
//! With strides ([`Striding`]), frames share WQEs of pages.
//! With a program, each frame has a page that stays mapped; pages that the program drops or sends
//! are received into again.
//!
//! A frame that does not fit its buffer, or an entry that names a WQE without one, is an error of
//! the device, and counted.

use super::cq::{Cq, ring_and_record};
use super::redirect::Redirect;
use super::settings::{Config, MBUF, Recycling, RqConfig, Stats};
use super::sq::Sq;
use super::strides::{self, Striding};
use crate::common::{both, discard, map_rx};
use crate::{Sink, Verdict};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, Mapped, OutOfMemory,
};
use doorbell_layout::mlx5::receive::{
    CQE_RECEIVED, DBR_RECEIVE, FILLER, L3_OK, L4_OK, RqContext, RxCqe, STRIDE_BYTES, VLAN_STRIPPED,
};
use doorbell_layout::mlx5::{Caps, DataSeg, cqe_opcode};
use doorbell_moderation::profiles::{self, Profiles};
use doorbell_moderation::{self as moderation, Controller, Flow, NetDim, Period, Sample, Setting};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::{Fragment, OffloadRequest, Packet};
use zerocopy::byteorder::big_endian::{U32, U64};

/// Bytes of a WQE: one data segment.
pub(super) const STRIDE: u32 = size_of::<DataSeg>() as u32;

/// Settings that net_dim chooses from: the device's period begins with an event's first entry.
const PROFILES: Profiles = profiles::linux(moderation::Direction::Rx, Period::Event);

/// Returns a setting in the units of a CQ: microseconds and completions.
fn units(s: Setting) -> (u16, u16) {
    (s.usec() as u16, s.packets)
}

/// Pages that a queue keeps, and receives into again: in the order in which they came back (en_rx.c
/// `mlx5e_rx_cache_put`, `mlx5e_rx_cache_get`), or the latest first (page_pool.c
/// `__page_pool_get_cached`, `page_pool_put_unrefed_netmem`; rte_mempool.h
/// `rte_mempool_do_generic_get`).
#[derive(Debug)]
pub(super) struct PageCache {
    /// Of a pool those behind the latest, in the order in which they came.
    ring: VecDeque<Mapped>,
    latest: Vec<Mapped>,
    /// The most of each.
    most: [usize; 2],
}

/// The most pages of a cache: four times a poll of NAPI (en.h `MLX5E_CACHE_SIZE`).
const KEPT: usize = 256;
/// The most of a pool's latest, and those that the ring refills it with (page_pool.h
/// `PP_ALLOC_CACHE_SIZE`, `PP_ALLOC_CACHE_REFILL`).
const LATEST: usize = 128;
const REFILL: usize = 64;
/// The most buffers of a core's cache of a mempool (rte_config.h `RTE_MEMPOOL_CACHE_MAX_SIZE`).
const CACHED: usize = 512;

impl PageCache {
    fn new(c: &RqConfig) -> PageCache {
        let most = match c.recycling {
            Recycling::Cache => [KEPT, 0],
            Recycling::Pool => [1 << c.log_size, LATEST],
            Recycling::Mempool => [1 << c.log_size, CACHED],
        };
        PageCache { ring: VecDeque::new(), latest: Vec::with_capacity(most[1]), most }
    }

    /// Keeps a page, or releases it if there are enough.
    #[inline(always)]
    pub(super) fn put<H: Host>(&mut self, h: &mut H, page: Mapped, s: &mut Stats) {
        if self.latest.len() < self.most[1] {
            self.latest.push(page);
        } else if self.ring.len() < self.most[0] {
            self.ring.push_back(page);
        } else {
            s.rx_cache_full += 1;
            discard(h, page);
        }
    }

    /// Maps and keeps a page that is not mapped, or releases it if there are enough.
    pub(super) fn put_unmapped<H: Host>(&mut self, h: &mut H, page: Buf, s: &mut Stats) {
        if self.latest.len() >= self.most[1] && self.ring.len() >= self.most[0] {
            s.rx_cache_full += 1;
            return h.release(page);
        }
        if let Some(page) = map_rx(h, page, Direction::Both, |_, _| true) {
            self.put(h, page, s);
        }
    }

    pub(super) fn take<H: Host>(
        &mut self,
        h: &mut H,
        c: &RqConfig,
        s: &mut Stats,
    ) -> Option<Mapped> {
        if self.most[1] > 0 && self.latest.is_empty() {
            self.latest.extend(self.ring.drain(..self.ring.len().min(REFILL)));
        }
        if let Some(page) = self.latest.pop().or_else(|| self.ring.pop_front()) {
            s.rx_cache_reuse += 1;
            return Some(page);
        }
        s.rx_cache_empty += 1;
        let (len, place) = c.buffer();
        let buf = h.buffer(len, place).ok()?;
        if c.is_mempool() {
            // All of the pool is mapped once, when it is made.
            let mapped = h.map(buf, MBUF + c.headroom..len, Direction::Both);
            return mapped.map_err(|e| h.release(e.buf)).ok();
        }
        map_rx(h, buf, Direction::Both, |_, _| true)
    }

    fn release<H: Host>(self, h: &mut H) {
        self.ring.into_iter().chain(self.latest).for_each(|page| discard(h, page));
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
    pub(super) pages: PageCache,
    /// The bytes of a frame on their way from a page that frames share.
    copied: Box<[u8]>,
    /// WQEs that frames share, if they do.
    pub(super) striding: Option<Striding>,
    /// The send queue of what the program sends.
    pub(super) back: Option<Sq>,
    /// Frames that the program hands to the second port, if there is one.
    pub(super) redirect: Option<Box<Redirect>>,
    /// Controller of the moderation, and its decision that the device does not have yet.
    dim: Option<NetDim>,
    pub(super) decided: Option<Setting>,
    /// WQEs posted, and those that came back: counters that wrap.
    posted: u16,
    taken: u16,
    /// An entry told of an error: the queue is in ERR, and has to be started again.
    pub(super) failed: bool,
    /// A UMR failed, and nothing else.
    pub(super) unmapped: bool,
}

impl Rq {
    /// Allocates the queue of a channel, if it has one. What a program sends has sessions of up to
    /// `mpw_wqebbs` blocks, or none.
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        channel: &Config,
        caps: &Caps,
        mpw_wqebbs: u32,
    ) -> Result<Option<Rq>, OutOfMemory> {
        let Some(c) = &channel.rq else { return Ok(None) };
        let back =
            c.xdp.then(|| Sq::allocate_for_pages(h, channel, caps, mpw_wqebbs)).transpose()?;
        let redirect = channel.second.map(|_| Redirect::allocate(h, channel, caps, mpw_wqebbs));
        let (back, redirect) = both(back, redirect.transpose(), |back| {
            let _ = back.map(|sq| sq.release(h));
        })?;
        let sends = (back, redirect.map(Box::new));
        let striding = c.log_stride.map(|log| Striding::allocate(h, c.log_size, log)).transpose();
        let (sends, striding) = both(sends, striding, |sends| release_sends(h, sends))?;
        let bytes = match &striding {
            Some(s) => s.wqes() << strides::LOG_STRIDE,
            None => STRIDE << c.log_size,
        };
        let parts = (sends, striding);
        let (((back, redirect), striding), (ring, dbr)) =
            both(parts, ring_and_record(h, bytes), |(sends, striding)| {
                release_sends(h, sends);
                striding.into_iter().for_each(|s| s.release(h));
            })?;
        let cyclic = if striding.is_some() { 0 } else { 1 << c.log_size };
        let mut rq = Rq {
            ring,
            dbr,
            rqn: 0,
            lkey: U32::ZERO,
            config: *c,
            buffers: (0..cyclic).map(|_| None).collect(),
            pages: PageCache::new(c),
            copied: alloc::vec![0; if cyclic > 0 { 0 } else { 4096 }].into_boxed_slice(),
            striding,
            back,
            redirect,
            dim: c.adaptive.then(|| NetDim::new(PROFILES, moderation::Direction::Rx)),
            decided: None,
            posted: 0,
            taken: 0,
            failed: false,
            unmapped: false,
        };
        rq.restart(h);
        Ok(Some(rq))
    }

    /// Returns its context, for the completion queue `cqn`.
    pub(super) fn context(&self, cqn: u32) -> RqContext {
        let (log_size, log_stride) = match &self.striding {
            Some(s) => (s.wqes().ilog2() as u8, strides::LOG_STRIDE),
            None => (self.config.log_size, STRIDE.ilog2() as u8),
        };
        RqContext {
            log_size,
            log_stride,
            ring: self.ring.iova().0,
            dbr: self.dbr.iova().0,
            cqn,
            counter_set: 0,
            keep_vlan: false,
            flush_in_error: true,
            end_padding: self.config.padding,
            strides: self.striding.as_ref().map(|s| s.shape),
        }
    }

    /// Returns the microseconds and completions until an event.
    pub(super) fn moderation(&self) -> (u16, u16) {
        match &self.dim {
            Some(dim) => units(dim.setting()),
            None => (self.config.cq_period_us, self.config.cq_max_count),
        }
    }

    /// Has net_dim look at the traffic, at the end of a poll that ran dry (`mlx5e_handle_rx_dim`).
    /// Frames that a program keeps are not among it, as in Linux.
    pub(super) fn sample<H: Host>(&mut self, h: &H, cq: &Cq, s: &Stats) {
        let Some(dim) = &mut self.dim else { return };
        let sample = Sample {
            time_ns: h.now().ps() / 1_000,
            events: cq.events().into(),
            rx: Flow { packets: s.rx_packets, bytes: s.rx_bytes },
            ..Sample::default()
        };
        self.decided = dim.sample(&sample).or(self.decided);
    }

    /// Takes net_dim's decision, in microseconds and completions, and tells it so.
    pub(super) fn take_decision(&mut self) -> Option<(u16, u16)> {
        let setting = self.decided.take()?;
        self.dim.as_mut()?.applied();
        Some(units(setting))
    }

    /// Empties the queue, which the device does not use. Its buffers are released.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H) {
        self.buffers.iter_mut().filter_map(Option::take).for_each(|m| discard(h, m));
        (self.posted, self.taken, self.failed, self.unmapped) = (0, 0, false, false);
        // A new CQ has the decision already, and counts its events from zero.
        let _ = self.take_decision();
        if let Some(dim) = &mut self.dim {
            dim.restart();
        }
        if let Some(s) = &mut self.striding {
            s.restart(h, &self.ring, &self.config);
        }
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
        if let Some(striding) = &mut self.striding {
            return striding.fill(h, &mut self.pages, &self.config, s);
        }
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
                let (len, place) = self.config.buffer();
                let buf = h.buffer(len, place).ok();
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
        while taken < budget
            && let Some(cqe) = cq.frame(h, s)
        {
            taken += 1;
            match self.striding.is_some() {
                false => self.receive(h, &cqe, s, up),
                true => self.receive_strides(h, &cqe, s, up),
            }
        }
        if let Some(back) = &mut self.back {
            back.announce_pages(h);
        }
        if let Some(redirect) = &mut self.redirect {
            redirect.flush(h, &mut self.pages, s);
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
        if self.config.is_mempool() {
            h.look(mapped.buf(), 0..MBUF);
        }
        if self.config.xdp {
            match self.run(h, mapped, start..start + len, s, up) {
                Ok(page) => mapped = page,
                Err(Some(page)) => return self.pages.put(h, page, s),
                Err(None) => return,
            }
        }
        let head = Fragment { buf: h.unmap(mapped), start, len };
        Rq::pass_up(cqe, head, s, up);
    }

    /// Passes a frame up with what the device found out about it.
    fn pass_up<S: Sink>(cqe: &RxCqe, head: Fragment, s: &mut Stats, up: &mut S) {
        let tagged = cqe.l4_l3_hdr_type & VLAN_STRIPPED != 0;
        let todo =
            OffloadRequest { vlan: tagged.then(|| cqe.vlan_info.get()), ..OffloadRequest::NONE };
        let good = L3_OK | L4_OK;
        let verified = cqe.hds_ip_ext & good == good;
        s.rx_packets += 1;
        s.rx_bytes += u64::from(head.len);
        s.rx_csum_unnecessary += u64::from(verified);
        up.received(Packet { head, todo, more: None, cookie: 0 }, verified);
    }

    /// Takes the entry of a frame in a shared WQE.
    fn receive_strides<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        cqe: &RxCqe,
        s: &mut Stats,
        up: &mut S,
    ) {
        let Some(striding) = self.striding.as_mut() else { return };
        let n = cqe.wqe_id.get();
        if cqe.op_own >> 4 != CQE_RECEIVED {
            s.rx_wqe_err += 1;
            (self.failed, self.unmapped) = (true, false);
            return;
        }
        if !striding.is_posted(n) {
            s.rx_cqe_stray += 1;
            return;
        }
        if cqe.byte_cnt.get() & FILLER != 0 {
            s.rx_mpwqe_filler_cqes += 1;
        } else {
            self.frame_of_strides(h, cqe, s, up);
        }
        if let Some(striding) = &mut self.striding {
            striding.use_up(h, (&self.ring, n), cqe.strides().into(), &mut self.pages, s);
        }
    }

    /// Takes a frame out of its strides. The program has the page; what goes up is copied, because
    /// other frames may lie in it.
    fn frame_of_strides<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        cqe: &RxCqe,
        s: &mut Stats,
        up: &mut S,
    ) {
        let len = cqe.byte_cnt.get() & STRIDE_BYTES;
        let place = (cqe.wqe_id.get(), cqe.wqe_counter.get());
        let headroom = self.config.headroom;
        let found = self.striding.as_mut().and_then(|s| s.place(place, headroom, len));
        let Some((slot, start)) = found.filter(|_| len >= HEADER as u32) else {
            s.rx_malformed += 1;
            return;
        };
        let Some(page) = slot.take() else { return };
        h.charge(CpuWork::RxPacket);
        let start = page.range().start + start;
        let kept = match self.config.xdp {
            true => self.run(h, page, start..start + len, s, up),
            false => Ok(page),
        };
        let kept = match kept {
            Ok(page) => Some(self.copy_up(h, page, start..start + len, (cqe, s, up))),
            Err(kept) => kept,
        };
        // The WQE's pages are kept together, until all of it is used up.
        if let Some((slot, _)) = self.striding.as_mut().and_then(|s| s.slot(place, headroom)) {
            *slot = kept;
        }
    }

    /// Passes up a copy of a frame. Returns its page.
    fn copy_up<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        page: Mapped,
        range: Range<u32>,
        (cqe, s, up): (&RxCqe, &mut Stats, &mut S),
    ) -> Mapped {
        let (c, len) = (&self.config, range.end - range.start);
        let place = Alignment { align: c.align, offset: c.headroom };
        let Ok(buf) = h.buffer(c.buffer.max(len), place) else {
            s.rx_buff_alloc_err += 1;
            return page;
        };
        let copied = &mut self.copied[..len as usize];
        h.peek(&page, range, |from| copied.copy_from_slice(from));
        h.bytes_mut(&buf, 0..len, |to| to.copy_from_slice(copied));
        h.charge(CpuWork::Copy(len));
        Rq::pass_up(cqe, Fragment { buf, start: 0, len }, s, up);
        page
    }

    /// Runs the program on a frame. Returns its page if the frame passes, else the page if nobody
    /// has it.
    #[inline(always)]
    fn run<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        page: Mapped,
        frame: Range<u32>,
        s: &mut Stats,
        up: &mut S,
    ) -> Result<Mapped, Option<Mapped>> {
        let verdict = up.program(h, &page, frame.clone());
        if verdict == Verdict::Redirect
            && let Some(redirect) = &mut self.redirect
        {
            redirect.enqueue(h, (page, frame), &mut self.pages, s);
            return Err(None);
        }
        let unsent = match (verdict, &mut self.back) {
            (Verdict::Pass, _) => return Ok(page),
            (Verdict::Send, Some(back)) => back.send_page(h, page, frame),
            _ => Err(page),
        };
        match unsent {
            Ok(()) => {
                s.rx_xdp_tx_xmit += 1;
                Err(None)
            }
            Err(page) => {
                let dropped = u64::from(verdict != Verdict::Send);
                s.rx_xdp_drop += dropped;
                s.rx_xdp_tx_full += 1 - dropped;
                Err(Some(page))
            }
        }
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
        let kept = &mut self.pages;
        let cqes = take_completions(h, (back, cq), budget, s, |h, page, s| kept.put(h, page, s));
        s.rx_xdp_tx_cqe += u64::from(cqes);
        cqes
    }

    /// Takes completions of UMRs from the `cq` of their queue.
    pub(super) fn complete_umrs<H: Host>(&mut self, h: &mut H, cq: &mut Cq, s: &mut Stats) {
        if let Some(striding) = &mut self.striding {
            let mapped = striding.complete(h, cq, &self.dbr, s);
            self.unmapped |= !mapped && !self.failed;
            self.failed |= !mapped;
        }
    }

    /// Returns the queues of what the program sends.
    pub(super) fn sends(&mut self) -> impl Iterator<Item = &mut Sq> {
        self.back.iter_mut().chain(self.redirect.iter_mut().map(|r| &mut r.sq))
    }

    /// Returns what the second port has to send, and where its pages go back to.
    pub(super) fn redirected(&mut self) -> Option<(&mut Redirect, &mut PageCache)> {
        Some((self.redirect.as_mut()?, &mut self.pages))
    }

    /// Returns whether one of its queues is in error.
    pub(super) fn has_failed(&self) -> bool {
        let second = self.redirect.as_ref().is_some_and(|r| r.sq.recovering());
        self.failed || second || self.back.as_ref().is_some_and(Sq::recovering)
    }

    /// Takes back the pages that the device will not send any more.
    #[cold]
    pub(super) fn abandon_sent<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        let kept = &mut self.pages;
        if let Some(back) = &mut self.back {
            back.abandon_pages(|page| kept.put(h, page, s));
        }
        if let Some(redirect) = &mut self.redirect {
            redirect.abandon(h, kept, s);
        }
    }

    /// Returns the counters of the queues of what the program sends.
    pub(super) fn sent(&self) -> Stats {
        let sent = self.back.as_ref().map_or(Stats::default(), Sq::stats);
        self.redirect.as_ref().map_or(sent, |redirect| sent.plus(&redirect.stats()))
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        self.restart(h);
        self.pages.release(h);
        self.striding.into_iter().for_each(|s| s.release(h));
        release_sends(h, (self.back, self.redirect));
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}

fn release_sends<H: Host>(h: &mut H, (back, redirect): (Option<Sq>, Option<Box<Redirect>>)) {
    let _ = back.map(|sq| sq.release(h));
    redirect.into_iter().for_each(|redirect| redirect.release(h));
}

/// Takes up to `budget` completions of a send queue for pages from its CQ, and passes the pages to
/// `put`. Returns how many completions there were.
#[inline(always)]
pub(super) fn take_completions<H: Host>(
    h: &mut H,
    (sq, cq): (&mut Sq, &mut Cq),
    budget: u32,
    s: &mut Stats,
    mut put: impl FnMut(&mut H, Mapped, &mut Stats),
) -> u32 {
    let (mut cqes, mut pages) = (0, 0);
    while cqes < budget {
        let Some(tail) = cq.next(h) else { break };
        h.charge(CpuWork::Completion);
        cqes += 1;
        if tail.op_own >> 4 == cqe_opcode::REQ_ERR {
            s.cqe_err += 1;
            sq.set_recovering(true);
        }
        pages += sq.retire_pages(tail.wqe_counter.get(), |page| put(h, page, s));
    }
    if cqes > 0 {
        h.charge(CpuWork::TxDone(pages));
        cq.publish_ci(h);
    }
    cqes
}
