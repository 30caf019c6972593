//! The striding part of a receive queue: a linked list of WQEs of 64 pages, which UMRs map.
//!
//! Source: en_rx.c `mlx5e_post_rx_mpwqes`, `mlx5e_alloc_rx_mpwqe`, `mlx5e_handle_rx_cqe_mpwrq`,
//! `mlx5e_poll_ico_cq`; wq.h `mlx5_wq_ll_push`, `mlx5_wq_ll_pop`; en/params.c.
//!
//! A WQE is free, being mapped, or posted. It is free again when its strides are used up, and goes
//! to the end of the list. One WQE is always free: the list's last link is that of the next to be.

use super::cq::{Cq, ring_and_record};
use super::rq::PageCache;
use super::settings::{RqConfig, Stats};
use super::sq::ring_doorbell;
use crate::common::discard;
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use doorbell_hal::{Coherent, CpuWork, Fence, Host, Mapped, OutOfMemory};
use doorbell_layout::mlx5::receive::{DBR_RECEIVE, NextSeg, Strides};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DataSeg, FRAGMENT, MKEY_MASK_FREE, MTT_WRITE, UMR_TRANSLATIONS, UmrCtrlSeg,
    WQEBB, cqe_opcode, dbr, opcode, umr,
};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// log2 of the bytes of a page, and of a WQE (`MLX5_MPWRQ_MAX_LOG_WQE_SZ`).
const LOG_PAGE: u8 = 12;
pub(super) const LOG_WQE: u8 = 18;
const IN_PAGE: u32 = (1 << LOG_PAGE) - 1;
/// Pages of a WQE.
const PAGES: usize = 1 << (LOG_WQE - LOG_PAGE);
/// Translations of a WQE, with at least one beyond that stays unmapped
/// (`mlx5e_mpwrq_mtts_per_wqe`).
const TRANSLATIONS: u32 = (PAGES as u32 + 1).next_multiple_of(8);
/// Bytes of a WQE in the queue: a link and a data segment.
pub(super) const LOG_STRIDE: u8 = 5;
const ENTRY: u32 = 1 << LOG_STRIDE;
/// Basic blocks of a UMR.
const UMR_BLOCKS: u16 = ((UMR_TRANSLATIONS + 8 * PAGES as u32) / WQEBB) as u16;
const UMR_DS: u32 = UMR_BLOCKS as u32 * WQEBB / 16;
/// log2 of the fewest WQEs (`MLX5E_PARAMS_MINIMUM_LOG_RQ_SIZE_MPW`).
const LOG_LEAST: u8 = 2;
/// WQEs that are mapped at a time (`UMR_WQE_BULK`).
const BULK: u32 = 2;

/// The head of a UMR.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Umr {
    ctrl: CtrlSeg,
    control: UmrCtrlSeg,
    key: [u8; 64],
}

#[derive(Debug)]
struct Wqe {
    pages: Box<[Option<Mapped>]>,
    /// Strides that completions told of.
    used: u32,
    posted: bool,
}

/// The list of WQEs and the queue of UMRs.
#[derive(Debug)]
pub(super) struct Striding {
    pub(super) shape: Strides,
    wqes: Box<[Wqe]>,
    /// The link of each.
    links: Box<[u16]>,
    /// The next to be mapped, the next to be posted, and the last of the list.
    mapped: u16,
    head: u16,
    tail: u16,
    /// Those being mapped, and those that are posted.
    mapping: u32,
    outstanding: u32,
    posted: u16,
    /// The key that the WQEs' addresses belong to.
    pub(super) key: U32,
    pub(super) umrs: Umrs,
}

/// The queue of UMRs (ICOSQ).
#[derive(Debug)]
pub(super) struct Umrs {
    pub(super) ring: Coherent,
    pub(super) dbr: Coherent,
    pub(super) sqn: u32,
    /// Offset of its doorbell page.
    pub(super) page: u32,
    pub(super) log_size: u8,
    pc: u16,
    /// UMRs since the last doorbell, and the counter of the last.
    fresh: (u16, u16),
    /// Those of each doorbell: the counter of the last, and their number.
    under_way: VecDeque<(u16, u16)>,
}

/// Returns log2 of the WQEs for a queue of so many frames.
pub(super) const fn log_wqes(log_frames: u8, log_stride: u8) -> u8 {
    let wqes = log_frames.saturating_sub(LOG_WQE - log_stride);
    if wqes > LOG_LEAST { wqes } else { LOG_LEAST }
}

impl Striding {
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        log_frames: u8,
        log_stride: u8,
    ) -> Result<Striding, OutOfMemory> {
        let wqes = 1usize << log_wqes(log_frames, log_stride);
        let log_size = (wqes as u32 * u32::from(UMR_BLOCKS)).next_power_of_two().ilog2() as u8;
        let (ring, dbr) = ring_and_record(h, WQEBB << log_size)?;
        let umrs = Umrs {
            ring,
            dbr,
            sqn: 0,
            page: 0,
            log_size,
            pc: 0,
            fresh: (0, 0),
            under_way: VecDeque::with_capacity(wqes),
        };
        let wqe = |_| Wqe { pages: (0..PAGES).map(|_| None).collect(), used: 0, posted: false };
        Ok(Striding {
            shape: Strides { log_count: LOG_WQE - log_stride, log_size: log_stride },
            wqes: (0..wqes).map(wqe).collect(),
            links: (0..wqes as u16).collect(),
            mapped: 0,
            head: 0,
            tail: 0,
            mapping: 0,
            outstanding: 0,
            posted: 0,
            key: U32::ZERO,
            umrs,
        })
    }

    /// Returns the WQEs.
    pub(super) const fn wqes(&self) -> u32 {
        self.wqes.len() as u32
    }

    /// Returns the translations that the key of its memory needs.
    pub(super) const fn translations(&self) -> u32 {
        self.wqes() * TRANSLATIONS
    }

    /// Writes the list, for a queue that the device does not use. Its pages are released.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H, ring: &Coherent, c: &RqConfig) {
        let all = self.wqes.len() as u16;
        for n in 0..all {
            let wqe = &mut self.wqes[usize::from(n)];
            wqe.pages.iter_mut().filter_map(Option::take).for_each(|page| discard(h, page));
            (wqe.used, wqe.posted) = (0, false);
            self.link(h, ring, n, (n + 1) % all);
            let at = u64::from(u32::from(n) * TRANSLATIONS) << LOG_PAGE;
            let data = DataSeg {
                byte_count: U32::new(1 << LOG_WQE),
                lkey: self.key,
                addr: U64::new(at + u64::from(c.headroom)),
            };
            h.store(ring, u32::from(n) * ENTRY + size_of::<NextSeg>() as u32, data);
        }
        (self.mapped, self.head, self.tail) = (0, 0, all - 1);
        (self.mapping, self.outstanding, self.posted) = (0, 0, 0);
        self.umrs.restart(h);
    }

    fn link<H: Host>(&mut self, h: &mut H, ring: &Coherent, n: u16, next: u16) {
        self.links[usize::from(n)] = next;
        let seg = NextSeg { next: U16::new(next), ..NextSeg::default() };
        h.store(ring, u32::from(n) * ENTRY, seg);
    }

    /// Maps pages for free WQEs, if there are as many as are worth it, and tells the device.
    /// Returns false if there is no memory.
    pub(super) fn fill<H: Host>(
        &mut self,
        h: &mut H,
        pages: &mut PageCache,
        c: &RqConfig,
        s: &mut Stats,
    ) -> bool {
        let missing = self.wqes() - 1 - self.outstanding - self.mapping;
        if missing < BULK.min(self.wqes() / 2 - 1) {
            return true;
        }
        let mut enough = true;
        for _ in 0..missing {
            enough = self.map(h, pages, c, s);
            if !enough {
                s.rx_buff_alloc_err += 1;
                break;
            }
        }
        self.umrs.announce(h, s);
        enough
    }

    fn map<H: Host>(
        &mut self,
        h: &mut H,
        pages: &mut PageCache,
        c: &RqConfig,
        s: &mut Stats,
    ) -> bool {
        let n = self.mapped;
        let wqe = &mut self.wqes[usize::from(n)];
        for page in wqe.pages.iter_mut().filter(|page| page.is_none()) {
            *page = pages.take(h, c, s);
            if page.is_none() {
                return false;
            }
        }
        let octowords = u32::from(n) * TRANSLATIONS / 2;
        let at = self.umrs.begin(h, self.key, octowords, s);
        for (i, eight) in wqe.pages.chunks(8).enumerate() {
            let entry = |page: &Option<Mapped>| {
                page.as_ref().map_or(0, |p| p.iova().0 & !u64::from(IN_PAGE))
            };
            let list: [U64; 8] =
                core::array::from_fn(|i| U64::new(eight.get(i).map_or(0, entry) | MTT_WRITE));
            h.store(&self.umrs.ring, at + UMR_TRANSLATIONS + i as u32 * WQEBB, list);
            (0..eight.len()).for_each(|_| h.charge(CpuWork::RxPost));
        }
        (s.rx_umrs, s.wqes) = (s.rx_umrs + 1, s.wqes + 1);
        (wqe.used, self.mapped) = (0, self.links[usize::from(n)]);
        self.mapping += 1;
        true
    }

    /// Takes completions of UMRs, and posts the WQEs that they mapped. Returns false if one failed.
    pub(super) fn complete<H: Host>(
        &mut self,
        h: &mut H,
        cq: &mut Cq,
        record: &Coherent,
        s: &mut Stats,
    ) -> bool {
        let (mut taken, mut sound, before) = (false, true, self.posted);
        while let Some(tail) = cq.next(h) {
            taken = true;
            h.charge(CpuWork::Completion);
            let counter = tail.wqe_counter.get();
            if tail.op_own >> 4 != cqe_opcode::REQ {
                (sound, s.rx_umr_err) = (false, s.rx_umr_err + 1);
            } else if let Some((_, wqes)) = self.umrs.under_way.pop_front_if(|u| u.0 == counter) {
                (0..wqes).for_each(|_| self.post());
            } else {
                s.rx_cqe_stray += 1;
            }
        }
        if taken {
            cq.publish_ci(h);
        }
        if self.posted != before {
            h.fence(Fence::Write);
            h.store(record, DBR_RECEIVE, U32::new(u32::from(self.posted)));
        }
        sound
    }

    fn post(&mut self) {
        self.wqes[usize::from(self.head)].posted = true;
        self.head = self.links[usize::from(self.head)];
        self.posted = self.posted.wrapping_add(1);
        self.mapping -= 1;
        self.outstanding += 1;
    }

    /// Returns true if a WQE of this number is posted.
    pub(super) fn is_posted(&self, n: u16) -> bool {
        self.wqes.get(usize::from(n)).is_some_and(|wqe| wqe.posted)
    }

    /// Returns the place of a stride's page, and the offset in it.
    pub(super) fn slot(
        &mut self,
        (n, stride): (u16, u16),
        headroom: u32,
    ) -> Option<(&mut Option<Mapped>, u32)> {
        let at = (u32::from(stride) << self.shape.log_size) + headroom;
        let pages = &mut self.wqes.get_mut(usize::from(n))?.pages;
        Some((pages.get_mut((at >> LOG_PAGE) as usize)?, at & IN_PAGE))
    }

    /// Returns the page of a stride of a posted WQE, and where in its buffer a frame of `len` bytes
    /// lies; `None` if it does not.
    pub(super) fn place(
        &mut self,
        stride: (u16, u16),
        headroom: u32,
        len: u32,
    ) -> Option<(&mut Option<Mapped>, u32)> {
        let (page, at) = self.slot(stride, headroom)?;
        let offset = at.checked_sub(page.as_ref()?.iova().0 as u32 & IN_PAGE)?;
        (offset.checked_add(len)? <= page.as_ref()?.len()).then_some((page, offset))
    }

    /// So many strides of a posted WQE are used up. With the last, it is free.
    pub(super) fn use_up<H: Host>(
        &mut self,
        h: &mut H,
        (ring, n): (&Coherent, u16),
        strides: u32,
        pages: &mut PageCache,
        s: &mut Stats,
    ) {
        let wqe = &mut self.wqes[usize::from(n)];
        wqe.used += strides;
        if wqe.used < 1 << self.shape.log_count {
            return;
        }
        wqe.posted = false;
        wqe.pages.iter_mut().filter_map(Option::take).for_each(|page| pages.put(h, page, s));
        self.outstanding -= 1;
        let tail = core::mem::replace(&mut self.tail, n);
        self.link(h, ring, tail, n);
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        let pages = self.wqes.iter_mut().flat_map(|wqe| wqe.pages.iter_mut());
        let pages: Vec<Mapped> = pages.filter_map(Option::take).collect();
        pages.into_iter().for_each(|page| discard(h, page));
        h.release_coherent(self.umrs.ring);
        h.release_coherent(self.umrs.dbr);
    }
}

impl Umrs {
    fn restart<H: Host>(&mut self, h: &mut H) {
        (self.pc, self.fresh) = (0, (0, 0));
        self.under_way.clear();
        h.store(&self.dbr, dbr::SEND, U32::ZERO);
    }

    fn offset(&self, pc: u16) -> u32 {
        (u32::from(pc) & ((1 << self.log_size) - 1)) * WQEBB
    }

    /// Writes the head of a UMR of `key` from a place on. Returns its offset.
    fn begin<H: Host>(&mut self, h: &mut H, key: U32, octowords: u32, s: &mut Stats) -> u32 {
        // A WQE does not cross the end of a fragment.
        while self.offset(self.pc) % FRAGMENT + u32::from(UMR_BLOCKS) * WQEBB > FRAGMENT {
            h.store(
                &self.ring,
                self.offset(self.pc),
                CtrlSeg::new(self.pc, opcode::NOP, self.sqn, 1),
            );
            self.pc = self.pc.wrapping_add(1);
            (s.nop, s.wqes) = (s.nop + 1, s.wqes + 1);
        }
        let at = self.offset(self.pc);
        let mut ctrl = CtrlSeg::new(self.pc, opcode::UMR, self.sqn, UMR_DS);
        ctrl.imm = key;
        let control = UmrCtrlSeg {
            flags: umr::TRANSLATION_OFFSET | umr::INLINE,
            octowords: U16::new(PAGES as u16 / 2),
            offset: U16::new(octowords as u16),
            mkey_mask: U64::new(MKEY_MASK_FREE),
            offset_high: U32::new(octowords >> 16),
            ..UmrCtrlSeg::default()
        };
        h.store(&self.ring, at, Umr { ctrl, control, key: [0; 64] });
        self.fresh = (self.fresh.0 + 1, self.pc);
        self.pc = self.pc.wrapping_add(UMR_BLOCKS);
        at
    }

    /// Rings the doorbell for the UMRs since the last one, of which the last asks for a CQE.
    fn announce<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        let (fresh, last) = core::mem::take(&mut self.fresh);
        if fresh == 0 {
            return;
        }
        h.charge(CpuWork::TxNotify);
        (s.rx_umr_doorbells, s.doorbells) = (s.rx_umr_doorbells + 1, s.doorbells + 1);
        self.under_way.push_back((last, fresh));
        let ctrl = CtrlSeg::new(last, opcode::UMR, self.sqn, UMR_DS);
        h.store(
            &self.ring,
            self.offset(last) + core::mem::offset_of!(CtrlSeg, fm_ce_se) as u32,
            CQ_UPDATE,
        );
        ring_doorbell(h, (&self.dbr, self.page), self.pc, &ctrl);
    }
}
