//! Memory that a driver gave as a list of pages: where a byte of a ring is.
//!
//! A list is kept as it came, unless its pages follow each other: then the ring is
//! one piece, and a read of it need not be cut where a page happens to end.

use super::Answer;
use alloc::boxed::Box;
use doorbell_hal::{Iova, fail_if};
use doorbell_layout::mlx5::CmdStatus;

/// Pages of a ring or of a memory region.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    first: u64,
    /// All pages, the first included; empty when it is one piece.
    pages: Box<[u64]>,
    /// log2 of a page's bytes.
    log_page: u32,
}

/// Pages are 4 KiB at least.
pub(super) const LOG_PAGE: u32 = 12;

impl Ring {
    /// `bytes` in pages of `1 << log_page` from a list of big-endian addresses, of which the low 12
    /// bits are not part. Refused are too few pages, and one that is not aligned to its size.
    pub(super) fn new(list: &[u8], log_page: u32, bytes: u64) -> Answer<Ring> {
        let needed = bytes.div_ceil(1 << log_page) as usize;
        let list = list.get(..needed * 8).ok_or(CmdStatus::BadInputLength)?;
        let page = |b: &[u8]| u64::from_be_bytes(core::array::from_fn(|i| b[i])) & !0xfff;
        let mut pages = list.chunks_exact(8).map(page);
        fail_if(pages.clone().any(|a| a & ((1 << log_page) - 1) != 0), CmdStatus::BadParam)?;
        let first = pages.clone().next().ok_or(CmdStatus::BadParam)?;
        let one_piece =
            pages.clone().enumerate().all(|(i, a)| a == first.wrapping_add((i as u64) << log_page));
        let pages: Box<[u64]> = if one_piece { Box::default() } else { pages.by_ref().collect() };
        Ok(Ring { first, pages, log_page })
    }

    /// Returns the address of byte `offset`.
    #[inline(always)]
    pub(super) fn at(&self, offset: u64) -> Iova {
        if self.pages.is_empty() {
            return Iova(self.first.wrapping_add(offset));
        }
        let page =
            self.pages.get((offset >> self.log_page) as usize).copied().unwrap_or(self.first);
        Iova(page + (offset & ((1 << self.log_page) - 1)))
    }

    /// Bytes from `offset` on that are in one piece.
    #[inline(always)]
    pub(super) fn piece(&self, offset: u64) -> u64 {
        if self.pages.is_empty() {
            u64::MAX
        } else {
            (1 << self.log_page) - (offset & ((1 << self.log_page) - 1))
        }
    }
}

#[cfg(test)]
mod tests;
