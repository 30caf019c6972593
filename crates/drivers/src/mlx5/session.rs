//! A multi-packet session: one Enhanced MPWQE while packets are being added.

use doorbell_layout::mlx5::{DS, ESEG_SHARED, EthSeg, FRAGMENT, MAX_MPW_WQEBBS, WQEBB, cs_flags};
use doorbell_packet::Todo;

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

/// The first bytes of an Ethernet segment, which packets of a session share; in
/// the low bytes of a word, so that a comparison is one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EsegKey(u64);

/// No packet's key: what a closed session has, so that one comparison finds out
/// both whether one is open and whether a packet may join.
const NO_KEY: u64 = u64::MAX;

impl EsegKey {
    /// Nothing asked of the device.
    pub(super) const NONE: EsegKey = EsegKey(0);

    /// What a packet with `todo` asks for. Most ask for the same, so the test is
    /// a branch, and the rest is out of the way.
    #[inline(always)]
    pub(super) fn of(todo: &Todo) -> EsegKey {
        if todo.checksum.is_none() { EsegKey::NONE } else { EsegKey::checksum(todo.encapsulated) }
    }

    #[inline(never)]
    fn checksum(encapsulated: bool) -> EsegKey {
        let outer = cs_flags::L3 | cs_flags::L4;
        let inner = cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER;
        EsegKey(u64::from(if encapsulated { inner } else { outer }) << 32)
    }

    #[inline(always)]
    pub(super) fn eseg(self) -> EthSeg {
        // In two words: a field at a time would be stored so.
        const { assert!(ESEG_SHARED <= 8) };
        zerocopy::transmute!([self.0.to_le_bytes(), [0; 8]])
    }
}

/// An open session, or, with `next` zero, none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Ring offset of the next data segment; 0: closed. (A session's own segments
    /// begin behind two others, so never at 0.)
    pub(super) next: u32,
    /// It is full when `next` is here.
    end: u32,
    /// What its packets share.
    pub(super) key: EsegKey,
}

impl Session {
    pub(super) const CLOSED: Session = Session { next: 0, end: 0, key: EsegKey(NO_KEY) };
    /// Control and Ethernet segment.
    pub(super) const HEAD_DS: u32 = 2;

    /// A session of `wqebbs` blocks at most, whose WQE begins at ring offset `at`.
    #[inline(always)]
    pub(super) fn open(key: EsegKey, at: u32, wqebbs: u32) -> Session {
        Session { next: at + Session::HEAD_DS * DS, end: at + wqebbs * WQEBB, key }
    }
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.next != 0
    }
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.next == self.end
    }
    /// Data segments so far, of the WQE that begins at `at`.
    #[inline(always)]
    pub(super) fn ds(&self, at: u32) -> u32 {
        (self.next - at) / DS
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
        let mut s = Session::open(EsegKey::NONE, 640, max_wqebbs(1024));
        while !s.is_full() {
            s.next += DS;
        }
        assert_eq!(s.ds(640), 60);
        assert_eq!(s.ds(640) - Session::HEAD_DS, 58);
    }

    #[test]
    fn a_fragment_is_64_blocks() {
        assert_eq!(contiguous(0, 1023), 64);
        assert_eq!(contiguous(63, 1023), 1);
        assert_eq!(contiguous(64, 1023), 64);
        assert_eq!(contiguous(17, 15), 15, "a ring shorter than a page is one fragment");
    }
}
