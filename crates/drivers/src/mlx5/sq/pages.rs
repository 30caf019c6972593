//! A send queue for the pages of a receive queue, which stay mapped (en/xdp.c
//! `mlx5e_xmit_xdp_frame`, `mlx5e_xmit_xdp_doorbell`, `mlx5e_poll_xdpsq_cq`).

use super::{DmaEntry, Head, Plain, Sq, WqeInfo};
use crate::mlx5::session::EsegKey;
use crate::mlx5::settings::Config;
use core::{mem, ops::Range};
use doorbell_hal::{CpuWork, Host, Mapped, OutOfMemory};
use doorbell_layout::mlx5::{CQ_UPDATE, Caps, CtrlSeg, DataSeg, WQEBB, opcode};
use zerocopy::byteorder::big_endian::{U32, U64};

impl Sq {
    /// Allocates a queue for pages: each takes a block, and all blocks may be in use.
    pub(in crate::mlx5) fn allocate_for_pages<H: Host>(
        h: &mut H,
        c: &Config,
        caps: &Caps,
    ) -> Result<Sq, OutOfMemory> {
        let mut sq = Sq::allocate(h, &Config { bql: false, ..*c }, caps, 0)?;
        sq.room = 1 << c.log_sq;
        Ok(sq)
    }

    /// Writes a WQE for the bytes `range` of a page's buffer. Returns the page if the queue has no
    /// room, or is recovering.
    #[inline(always)]
    pub(in crate::mlx5) fn send_page<H: Host>(
        &mut self,
        h: &mut H,
        page: Mapped,
        range: Range<u32>,
    ) -> Result<(), Mapped> {
        if self.recovering || !self.has_room_after(1) {
            return Err(page);
        }
        h.charge(CpuWork::TxDescriptor(1));
        let (pc, index, len) = (self.pc, self.pc & self.mask, range.end - range.start);
        let addr = page.iova().0 + u64::from(range.start - page.range().start);
        let (byte_count, addr) = (U32::new(len), U64::new(addr));
        let ctrl = CtrlSeg::new(pc, opcode::SEND, self.sqn, 3);
        let head = Head { ctrl, eth: EsegKey::NONE.eseg() };
        let wqe = Plain { head, data: DataSeg { byte_count, lkey: self.lkey, addr } };
        h.store(&self.ring, u32::from(index) * WQEBB, wqe);
        self.push(DmaEntry::Page(page));
        self.info[usize::from(index)] = WqeInfo::new(1, 1, 0);
        self.pc = pc.wrapping_add(1);
        self.stats.packets += 1;
        self.stats.wqes += 1;
        self.stats.bytes += u64::from(len);
        Ok(())
    }

    /// Rings the doorbell for the pages since the last one, of which the last asks for a CQE.
    #[inline(always)]
    pub(in crate::mlx5) fn announce_pages<H: Host>(&mut self, h: &mut H) {
        if self.pc == self.announced {
            return;
        }
        let last = self.pc.wrapping_sub(1);
        let mut ctrl = CtrlSeg::new(last, opcode::SEND, self.sqn, 3);
        ctrl.fm_ce_se = CQ_UPDATE;
        h.store(&self.ring, self.offset(last), ctrl);
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
