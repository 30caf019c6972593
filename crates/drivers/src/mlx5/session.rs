//! A multi-packet session: one Enhanced MPWQE while packets are being added.

use doorbell_layout::mlx5::{DS_PER_WQEBB, ESEG_SHARED, EthSeg, FRAGMENT, MAX_MPW_WQEBBS, WQEBB};

/// How much ring a session is given when it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// Always room for the longest session; where the queue fragment has less
    /// left, NOPs fill it up and the session starts in the next one (linux 5.10
    /// up to at least 6.12).
    Padded,
    /// What is left of the fragment, if that is less than the longest session;
    /// no NOPs (commits 76c31e5f7585 and 677e78c8d44f).
    Fit,
}

/// The first bytes of an Ethernet segment, which packets of a session share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EsegKey([u8; ESEG_SHARED]);

impl EsegKey {
    #[inline(always)]
    pub(super) fn new(cs_flags: u8) -> EsegKey {
        EsegKey([0, 0, 0, 0, cs_flags, 0])
    }

    #[inline(always)]
    pub(super) fn eseg(self) -> EthSeg {
        let k = self.0;
        EthSeg { swp_offsets: [k[0], k[1], k[2], k[3]], cs_flags: k[4], swp_flags: k[5], ..EthSeg::default() }
    }
}

/// An open session, or, with `ds` zero, none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Data segments so far, control and Ethernet segment included; 0: closed.
    pub(super) ds: u32,
    /// It is full at this many.
    pub(super) max_ds: u32,
    /// What its packets share.
    pub(super) key: EsegKey,
}

impl Session {
    pub(super) const CLOSED: Session = Session { ds: 0, max_ds: 0, key: EsegKey([0; ESEG_SHARED]) };
    /// Control and Ethernet segment.
    pub(super) const HEAD_DS: u32 = 2;

    #[inline(always)]
    pub(super) fn open(key: EsegKey, wqebbs: u32) -> Session {
        Session { ds: Session::HEAD_DS, max_ds: wqebbs * DS_PER_WQEBB, key }
    }
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.ds != 0
    }
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.ds == self.max_ds
    }
    #[inline(always)]
    pub(super) fn packets(&self) -> u32 {
        self.ds - Session::HEAD_DS
    }
}

/// Basic blocks from `pc` to the end of its queue fragment.
#[inline(always)]
pub(super) fn contiguous(pc: u16, ring_mask: u16) -> u32 {
    let per_fragment = (FRAGMENT / WQEBB).min(u32::from(ring_mask) + 1);
    per_fragment - (u32::from(pc) & (per_fragment - 1))
}

/// The longest session on a device whose longest send WQE is `max_wqe_sz_sq` bytes.
pub(super) fn max_wqebbs(max_wqe_sz_sq: u16) -> u32 {
    (u32::from(max_wqe_sz_sq) / WQEBB).min(MAX_MPW_WQEBBS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_session_is_15_blocks_and_58_packets() {
        assert_eq!(max_wqebbs(1024), 15);
        let mut s = Session::open(EsegKey::new(0), max_wqebbs(1024));
        while !s.is_full() {
            s.ds += 1;
        }
        assert_eq!((s.ds, s.packets()), (60, 58));
    }

    #[test]
    fn a_fragment_is_64_blocks() {
        assert_eq!(contiguous(0, 1023), 64);
        assert_eq!(contiguous(63, 1023), 1);
        assert_eq!(contiguous(64, 1023), 64);
        assert_eq!(contiguous(17, 15), 15, "a ring shorter than a page is one fragment");
    }
}
