//! UMRs: a send queue changes what a memory key translates to.
//!
//! Source: en_rx.c `mlx5e_alloc_rx_mpwqe`, en/params.c `mlx5e_build_umr_wqe`. Only what Linux's
//! Ethernet driver asks for exists: translations of pages in the WQE, at a place in the key's list,
//! and the key's freedom. The time of a change on the chip is not public: it takes none.

use super::super::queues::Pages;
use super::{Execution, Failed, segment};
use doorbell_hal::{Port, fail_if, transfer_units};
use doorbell_layout::mlx5::{
    CtrlSeg, DS, MKEY_FREE, MKEY_MASK_FREE, OCTOWORD, UMR_TRANSLATIONS, UmrCtrlSeg, syndrome, umr,
};

/// Data segments of the control segments, and of the key's.
const KEY_AT: u32 = 4;
const HEAD: u32 = UMR_TRANSLATIONS / DS;

impl<P: Port> Execution<'_, P> {
    /// Executes a UMR. One that fails changes nothing.
    pub(super) fn change_key(&mut self, ctrl: &CtrlSeg, at: usize) -> Result<(), Failed> {
        let wqe = &self.sq.wqes[at..];
        fail_if(ctrl.ds() < HEAD, syndrome::LOCAL_QP_OP)?;
        let c: UmrCtrlSeg = segment(wqe, 1).ok_or(syndrome::LOCAL_QP_OP)?;
        let octowords = u32::from(c.octowords.get());
        let known = umr::TRANSLATION_OFFSET | umr::CHECK_NOT_FREE | umr::CHECK_FREE | umr::INLINE;
        let sane = c.flags & !known == 0
            && c.flags & umr::INLINE != 0
            && c.mkey_mask.get() & !MKEY_MASK_FREE == 0
            && ctrl.ds() - HEAD >= octowords * OCTOWORD / DS;
        fail_if(!sane, syndrome::LOCAL_QP_OP)?;
        let to_free = wqe.get((KEY_AT * DS) as usize).is_some_and(|status| status & MKEY_FREE != 0);
        let lkey = ctrl.imm.get();
        let of_this = |k: &&mut _| Self::is_changeable(k, self.sq.pd, lkey);
        let key = self.mkeys.get_mut(lkey >> 8).filter(of_this).ok_or(syndrome::MEMORY_KEY)?;
        let free = if key.free { umr::CHECK_FREE } else { umr::CHECK_NOT_FREE };
        fail_if(c.flags & free != 0, syndrome::MEMORY_KEY)?;
        let Pages::Table(table) = &mut key.pages else { return Err(syndrome::MEMORY_KEY) };
        let mut offset = 0;
        if c.flags & umr::TRANSLATION_OFFSET != 0 {
            offset = u64::from(c.offset_high.get()) << 16 | u64::from(c.offset.get());
        }
        let from = usize::try_from(2 * offset).map_err(|_| syndrome::MEMORY_KEY)?;
        let places =
            from.checked_add(2 * octowords as usize).and_then(|end| table.get_mut(from..end));
        let places = places.ok_or(syndrome::MEMORY_KEY)?;
        let list = wqe.get(UMR_TRANSLATIONS as usize..).unwrap_or_default();
        for (place, bytes) in places.iter_mut().zip(list.as_chunks().0) {
            *place = u64::from_be_bytes(*bytes);
        }
        if c.mkey_mask.get() & MKEY_MASK_FREE != 0 {
            key.free = to_free;
        }
        self.counters.umrs += 1;
        self.p.charge(transfer_units((octowords * OCTOWORD) as usize));
        Ok(())
    }

    /// Returns true if a UMR of a queue of domain `pd` may change a key under this number.
    fn is_changeable(key: &super::Mkey, pd: u32, lkey: u32) -> bool {
        key.key == lkey as u8 && key.pd == pd
    }
}
