//! A send queue for the pages of a receive queue, which stay mapped (en/xdp.c
//! `mlx5e_xmit_xdp_frame`, `mlx5e_xmit_xdp_frame_mpwqe`, `mlx5e_xmit_xdp_doorbell`,
//! `mlx5e_poll_xdpsq_cq`).

use super::{DmaEntry, Head, Plain, Sq, WqeInfo};
use crate::mlx5::session::{EsegKey, Session};
use crate::mlx5::settings::Config;
use core::{mem, ops::Range};
use doorbell_hal::{CpuWork, Host, Mapped, OutOfMemory};
use doorbell_layout::mlx5::{
    CQ_UPDATE, Caps, CtrlSeg, DS, DS_PER_WQEBB, DataSeg, INLINE_SEG, WQEBB, opcode,
};
use zerocopy::byteorder::big_endian::{U32, U64};

/// The sessions of a queue for pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSessions {
    /// Short frames are copied into the session: much waits to be sent.
    inlines: bool,
    /// The FIFO's head when the session was opened.
    opened: u32,
    /// The last WQE, which the next doorbell is for.
    last: CtrlSeg,
}

/// Frames in flight at which a session begins to have frames inside, and no longer does (en/xdp.h
/// `MLX5E_XDP_INLINE_WATERMARK_HIGH`).
const INLINE_FROM: u32 = 128;
const INLINE_TO: u32 = 10;
/// Data segments of the longest frame inside, with its length in front.
const INLINE_DS: u32 = 16;
/// Bytes of the shortest frame of a WQE: the header with a tag.
const MIN_FRAME: u32 = 18;

impl PageSessions {
    pub(super) fn new() -> PageSessions {
        PageSessions { inlines: false, opened: 0, last: CtrlSeg::new(0, opcode::NOP, 0, 1) }
    }
}

impl Sq {
    /// Allocates a queue for pages. Without sessions each takes a block, and all blocks may be in
    /// use.
    pub(in crate::mlx5) fn allocate_for_pages<H: Host>(
        h: &mut H,
        c: &Config,
        caps: &Caps,
        mpw_wqebbs: u32,
    ) -> Result<Sq, OutOfMemory> {
        let mut sq = Sq::allocate(h, &Config { bql: false, ..*c }, caps, mpw_wqebbs)?;
        // A session may need nearly as many blocks of padding.
        sq.room = (1 << c.log_sq) - (2 * mpw_wqebbs).saturating_sub(1) as u16;
        Ok(sq)
    }

    /// Has the bytes `range` of a page's buffer sent. Returns the page if the queue has no room, or
    /// is recovering.
    #[inline(always)]
    pub(in crate::mlx5) fn send_page<H: Host>(
        &mut self,
        h: &mut H,
        page: Mapped,
        range: Range<u32>,
    ) -> Result<(), Mapped> {
        if self.recovering {
            return Err(page);
        }
        if self.mpw_wqebbs > 0 {
            return self.add_page(h, page, range);
        }
        if !self.has_room_after(1) {
            self.announce_pages(h);
            return Err(page);
        }
        h.charge(CpuWork::TxDescriptor(1));
        let (pc, index, len) = (self.pc, self.pc & self.mask, range.end - range.start);
        let ctrl = CtrlSeg::new(pc, opcode::SEND, self.sqn, 3);
        let head = Head { ctrl, eth: EsegKey::NONE.eseg() };
        let wqe = Plain { head, data: self.page_seg(&page, &range) };
        h.store(&self.ring, u32::from(index) * WQEBB, wqe);
        self.push(DmaEntry::Page(page));
        self.pages.last = ctrl;
        self.info[usize::from(index)] = WqeInfo::new(1, 1, 0);
        self.pc = pc.wrapping_add(1);
        self.stats.packets += 1;
        self.stats.wqes += 1;
        self.stats.bytes += u64::from(len);
        Ok(())
    }

    /// Returns whether a frame is so long that it can have a WQE of its own
    /// (`MLX5E_XDP_MIN_INLINE`), or sessions take it.
    pub(in crate::mlx5) fn takes_frame(&self, len: u32) -> bool {
        len >= MIN_FRAME || self.mpw_wqebbs > 0
    }

    fn page_seg(&self, page: &Mapped, range: &Range<u32>) -> DataSeg {
        let addr = page.iova().0 + u64::from(range.start - page.range().start);
        let (byte_count, addr) = (U32::new(range.end - range.start), U64::new(addr));
        DataSeg { byte_count, lkey: self.lkey, addr }
    }

    /// Adds the bytes `range` of a page's buffer to the session, or to a new one.
    fn add_page<H: Host>(
        &mut self,
        h: &mut H,
        page: Mapped,
        range: Range<u32>,
    ) -> Result<(), Mapped> {
        if !self.session.is_open() {
            if !self.has_room_after(0) {
                self.announce_pages(h);
                return Err(page);
            }
            self.open_session(h, EsegKey::NONE);
            let in_flight = self.fifo_head.wrapping_sub(self.fifo_tail);
            let from = if self.pages.inlines { INLINE_TO + 1 } else { INLINE_FROM };
            self.pages.inlines = in_flight >= from;
            self.pages.opened = self.fifo_head;
        }
        h.charge(CpuWork::TxShared);
        let len = range.end - range.start;
        // A session at the end of a fragment, or of a device's short WQEs, has room for a pointer.
        let fits = 4 + len <= INLINE_DS * DS && self.session.has_room((4 + len).div_ceil(DS));
        self.session.next += if self.pages.inlines && fits {
            self.stats.rx_xdp_tx_inlnw += 1;
            self.copy_in(h, &page, range)
        } else {
            h.store(&self.ring, self.session.next, self.page_seg(&page, &range));
            DS
        };
        self.push(DmaEntry::Page(page));
        self.stats.packets += 1;
        self.stats.bytes += u64::from(len);
        let most = if self.pages.inlines { INLINE_DS } else { 1 };
        if !self.session.has_room(most) {
            self.close_page_session(h);
        }
        Ok(())
    }

    /// Copies the bytes `range` of a page's buffer into the session. Returns the room they take.
    fn copy_in<H: Host>(&mut self, h: &mut H, page: &Mapped, range: Range<u32>) -> u32 {
        let mut bytes = [0; (INLINE_DS * DS) as usize];
        let len = range.end - range.start;
        bytes[..4].copy_from_slice(&(INLINE_SEG | len).to_be_bytes());
        h.peek(page, range, |from| bytes[4..4 + from.len()].copy_from_slice(from));
        h.charge(CpuWork::Copy(len));
        let (chunks, _) = bytes.as_chunks::<{ DS as usize }>();
        let segments = (4 + len).div_ceil(DS);
        for (i, ds) in (0..segments).zip(chunks) {
            h.store(&self.ring, self.session.next + i * DS, *ds);
        }
        segments * DS
    }

    fn close_page_session<H: Host>(&mut self, h: &mut H) {
        let at = self.offset(self.pc);
        let (ds, pages) = (self.session.ds(at), self.fifo_head.wrapping_sub(self.pages.opened));
        self.session = Session::CLOSED;
        let ctrl = CtrlSeg::new(self.pc, opcode::ENHANCED_MPSW, self.sqn, ds);
        h.store(&self.ring, at, Head { ctrl, eth: EsegKey::NONE.eseg() });
        self.pages.last = ctrl;
        self.stats.mpwqe_pkts += u64::from(pages);
        self.post(ds.div_ceil(DS_PER_WQEBB), pages);
    }

    /// Rings the doorbell for the pages since the last one, of which the last WQE asks for a CQE.
    #[inline(always)]
    pub(in crate::mlx5) fn announce_pages<H: Host>(&mut self, h: &mut H) {
        if self.session.is_open() {
            self.close_page_session(h);
        }
        if self.pc == self.announced {
            return;
        }
        let ctrl = CtrlSeg { fm_ce_se: CQ_UPDATE, ..self.pages.last };
        h.store(&self.ring, self.offset(ctrl.pc()), ctrl);
        self.ring_doorbell(h, &ctrl);
    }

    /// Retires all WQEs up to and including the one at `wqe_counter`, and passes their pages to
    /// `back`. Returns their number.
    #[inline(always)]
    pub(in crate::mlx5) fn retire_pages(
        &mut self,
        wqe_counter: u16,
        back: impl FnMut(Mapped),
    ) -> u32 {
        let pieces = self.advance(wqe_counter);
        self.take_pages(pieces, back)
    }

    /// Passes all pages to `back`, which the device does not use any more.
    pub(in crate::mlx5) fn abandon_pages(&mut self, back: impl FnMut(Mapped)) {
        self.session = Session::CLOSED;
        self.give_up();
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        self.stats.dropped += u64::from(self.take_pages(left, back));
    }

    #[inline(always)]
    fn take_pages(&mut self, pages: u32, mut back: impl FnMut(Mapped)) -> u32 {
        for _ in 0..pages {
            let entry = &mut self.fifo[(self.fifo_tail & self.fifo_mask) as usize];
            self.fifo_tail = self.fifo_tail.wrapping_add(1);
            if let DmaEntry::Page(page) = mem::take(entry) {
                back(page);
            }
        }
        pages
    }
}
