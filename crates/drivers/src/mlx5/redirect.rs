//! Frames that a program hands to the second port (`XDP_REDIRECT`), and the channel of that port on
//! the same core.
//!
//! Source: net/core/filter.c `xdp_do_redirect`, `xdp_do_flush`; kernel/bpf/devmap.c `bq_enqueue`,
//! `bq_xmit_all`; en/xdp.c `mlx5e_xdp_handle`, `mlx5e_xdp_xmit`, `mlx5e_poll_xdpsq_cq`.
//!
//! A frame is unmapped from the receive queue, and waits in a bulk queue. When that is full, and at
//! the end of the poll, its frames are mapped and get WQEs of the XDP send queue that the second
//! port's channel has. The doorbell is rung at the end of the poll. What has no room is dropped,
//! and the rest of its bulk with it. Completions come to the second port's channel, which has an
//! interrupt and polls of its own; they give the pages back to the receive queue.

use super::channel::{CQ_POLL_BUDGET, allocate_cqs, create_sq};
use super::cq::{Cq, Eq};
use super::firmware::{Firmware, Objects};
use super::rq::{PageCache, take_completions};
use super::settings::{Config, Cqs, Stats};
use super::{Answer, sq::Sq};
use crate::common::{both, map};
use alloc::{boxed::Box, vec::Vec};
use core::{iter, ops::Range};
use doorbell_hal::{Buf, CpuWork, Host, Mapped, OutOfMemory};
use doorbell_layout::mlx5::{Caps, CqContext, EqContext, SqContext};
use doorbell_packet::Fragment;

/// Frames of a bulk queue (devmap.c `DEV_MAP_BULK_SIZE`).
const BULK: usize = 16;

/// The bulk queue of a core, and the send queue of what it holds.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) sq: Sq,
    bulk: Vec<(Buf, Range<u32>)>,
}

impl Redirect {
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        channel: &Config,
        caps: &Caps,
        mpw_wqebbs: u32,
    ) -> Result<Redirect, OutOfMemory> {
        let sq = Sq::allocate_for_pages(h, channel, caps, mpw_wqebbs)?;
        Ok(Redirect { sq, bulk: Vec::with_capacity(BULK) })
    }

    /// Takes the frame at `frame` of a page. Frames that have no room go back to `pages`.
    pub(super) fn enqueue<H: Host>(
        &mut self,
        h: &mut H,
        (page, frame): (Mapped, Range<u32>),
        pages: &mut PageCache,
        s: &mut Stats,
    ) {
        h.charge(CpuWork::Redirect);
        s.rx_xdp_redirect += 1;
        if self.bulk.len() == BULK {
            self.send(h, pages, s);
        }
        self.bulk.push((h.unmap(page), frame));
    }

    /// Sends what is left at the end of a poll, and rings the doorbell.
    pub(super) fn flush<H: Host>(&mut self, h: &mut H, pages: &mut PageCache, s: &mut Stats) {
        self.send(h, pages, s);
        self.sq.announce_pages(h);
    }

    /// Has the bulk queue sent (`ndo_xdp_xmit`), and drops what is left of it.
    fn send<H: Host>(&mut self, h: &mut H, pages: &mut PageCache, s: &mut Stats) {
        let mut fits = true;
        for (page, frame) in self.bulk.drain(..) {
            let sent = if fits { send_frame(h, &mut self.sq, page, frame, s) } else { Err(page) };
            if let Err(page) = sent {
                fits = false;
                s.xdp_devmap_drops += 1;
                pages.put_unmapped(h, page, s);
            }
        }
    }

    /// Takes up to `budget` completions from the `cq` of its send queue.
    fn complete<H: Host>(
        &mut self,
        h: &mut H,
        cq: &mut Cq,
        budget: u32,
        pages: &mut PageCache,
        s: &mut Stats,
    ) {
        let back = |h: &mut H, frame, s: &mut Stats| give_back(h, frame, pages, s);
        let cqes = take_completions(h, (&mut self.sq, cq), budget, s, back);
        s.tx_xdp_cqes += u64::from(cqes);
    }

    /// Takes back the frames that the device will not send any more.
    #[cold]
    pub(super) fn abandon<H: Host>(&mut self, h: &mut H, pages: &mut PageCache, s: &mut Stats) {
        self.sq.abandon_pages(|frame| give_back(h, frame, pages, s));
    }

    /// Returns the counters of its send queue, with those that the second port has of it.
    pub(super) fn stats(&self) -> Stats {
        let s = self.sq.stats();
        Stats {
            tx_xdp_xmit: s.packets,
            tx_xdp_mpwqe: s.mpwqe_blks,
            tx_xdp_nops: s.nop,
            tx_xdp_inlnw: s.rx_xdp_tx_inlnw,
            rx_xdp_tx_inlnw: 0,
            ..s
        }
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.bulk.into_iter().for_each(|(page, _)| h.release(page));
        let _ = self.sq.release(h);
    }
}

/// Has the page of a frame received into again.
fn give_back<H: Host>(h: &mut H, frame: Mapped, pages: &mut PageCache, s: &mut Stats) {
    let page = h.unmap(frame);
    pages.put_unmapped(h, page, s);
}

/// Maps a frame and has it sent. Returns its page if that fails.
fn send_frame<H: Host>(
    h: &mut H,
    sq: &mut Sq,
    page: Buf,
    frame: Range<u32>,
    s: &mut Stats,
) -> Result<(), Buf> {
    let (start, len) = (frame.start, frame.end - frame.start);
    let mapped = map(h, Fragment { buf: page, start, len }).map_err(|f| f.buf)?;
    h.charge(CpuWork::Map);
    if !sq.takes_frame(len) {
        s.tx_xdp_err += 1;
        return Err(h.unmap(mapped));
    }
    sq.send_page(h, mapped, frame).map_err(|mapped| {
        s.tx_xdp_full += 1;
        h.unmap(mapped)
    })
}

/// The channel of the second port. Of its queues only the XDP send queue is used, which
/// [`Redirect`] has; all of its CQs are armed by each of its polls, as those of any channel.
#[derive(Debug)]
pub(super) struct Second {
    pub(super) eq: Eq,
    /// In the order of arming: the XDP send queue's is the last.
    cqs: Box<[Cq]>,
    pub(super) vector: u16,
    /// It is on the poll list.
    pub(super) scheduled: bool,
    /// The first port's channel is.
    pub(super) first_scheduled: bool,
}

impl Second {
    /// Allocates the channel beside `c`, if it has one.
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        c: &Config,
        caps: &Caps,
        log_eq: u8,
    ) -> Result<Option<Second>, OutOfMemory> {
        let Some(vector) = c.second else { return Ok(None) };
        let c = Config { rq: None, cqs: Cqs::Five, ..*c };
        let cqs = allocate_cqs(h, &c, caps)?;
        let eq = Eq::allocate(h, log_eq);
        let ((sent, others), eq) = both(cqs, eq, |(sent, others)| {
            iter::once(sent).chain(others).for_each(|cq| cq.release(h));
        })?;
        let cqs = iter::once(sent).chain(others).collect();
        Ok(Some(Second { eq, cqs, vector, scheduled: false, first_scheduled: false }))
    }

    /// Creates its objects, with `sq` as its XDP send queue. All but rings, records and numbers is
    /// as in the contexts of the first port's channel.
    pub(super) fn create<H: Host, F: Firmware<H>>(
        &mut self,
        h: &mut H,
        fw: &mut F,
        objects: &mut Objects,
        sq: &mut Sq,
        (eqc, cqc, sqc): (&EqContext, &CqContext, &SqContext),
    ) -> Answer {
        let eqc = EqContext { ring: self.eq.ring.iova().0, vector: self.vector, events: 0, ..*eqc };
        self.eq.eqn = fw.create_eq(h, &eqc)?;
        objects.second_eqn = Some(self.eq.eqn);
        for cq in &mut self.cqs {
            let (ring, dbr, log_size) = (cq.ring.iova().0, cq.dbr.iova().0, cq.log_size);
            let cqc = CqContext { log_size, ring, dbr, eqn: self.eq.eqn, ..*cqc };
            cq.cqn = fw.create_cq(h, &cqc)?;
            objects.cqns.push(cq.cqn);
        }
        let cqn = self.cqs.last().map_or(0, |cq| cq.cqn);
        create_sq(h, fw, objects, sq, &SqContext { cqn, second_port: true, ..*sqc })
    }

    /// Arms the EQ and every CQ.
    pub(super) fn arm<H: Host>(&mut self, h: &mut H, page: u32) {
        self.eq.arm(h, page);
        self.cqs.iter_mut().for_each(|cq| cq.arm(h, page));
    }

    /// Takes all events. Returns their number, and whether one was a completion.
    pub(super) fn take_events<H: Host>(&mut self, h: &mut H) -> (u32, bool) {
        let (cqs, mut completion) = (&mut self.cqs, false);
        let events = self.eq.drain(h, |cqn| {
            completion = true;
            cqs.iter_mut().filter(|cq| cq.cqn == cqn).for_each(Cq::event);
        });
        (events, completion)
    }

    /// Does a poll of this channel, without arming it.
    pub(super) fn poll<H: Host>(
        &mut self,
        h: &mut H,
        redirect: &mut Redirect,
        pages: &mut PageCache,
        s: &mut Stats,
    ) {
        h.charge(CpuWork::Poll);
        let Some((sent, empty)) = self.cqs.split_last_mut() else { return };
        // Entries beyond those are told of at once when the CQ is armed.
        redirect.complete(h, sent, CQ_POLL_BUDGET, pages, s);
        for cq in empty {
            if cq.next(h).is_some() {
                (s.cqes, s.cqe_stray) = (s.cqes + 1, s.cqe_stray + 1);
                cq.publish_ci(h);
            }
        }
    }

    /// Empties all rings before they are created again.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H) {
        self.cqs.iter_mut().for_each(|cq| cq.restart(h));
        self.eq.restart(h);
        (self.scheduled, self.first_scheduled) = (false, false);
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.cqs.into_iter().for_each(|cq| cq.release(h));
        self.eq.release(h);
    }
}
