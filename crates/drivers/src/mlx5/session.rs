//! A multi-packet session: one Enhanced MPWQE while packets are being added.

use doorbell_layout::mlx5::{
    DS, ESEG_SHARED, EthSeg, FRAGMENT, MAX_MPW_WQEBBS, WQEBB, cs_flags, swp_flags,
};
use doorbell_packet::CsumPartial;
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Ip, Transport};
use doorbell_packet::tunnel::{GENEVE_PORT, Headers, Tunnel};

/// Ring space that a session gets when it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// Always room for the longest session; a queue fragment with less is filled up with NOPs
    /// (linux 5.10 up to at least 6.12).
    Padded,
    /// The rest of the fragment, if that is less than the longest session, without NOPs (commits
    /// 76c31e5f7585 and 677e78c8d44f).
    Fit,
}

/// The part of an Ethernet segment that packets of a session share (en_tx.c
/// `mlx5e_tx_mpwqe_same_eseg`): parser offsets, checksum flags and parser flags. It is one word, so
/// that a comparison is one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EsegKey(u64);

/// The key of a closed session, which no packet has: one comparison tells whether a session is open
/// and whether a packet may join.
const NO_KEY: u64 = u64::MAX;

impl EsegKey {
    /// The key of packets without offloads.
    pub(super) const NONE: EsegKey = EsegKey(0);

    /// No key: it takes a longer look.
    pub(super) const OTHER: EsegKey = EsegKey(NO_KEY - 1);

    /// The key of packets whose checksum is left to the device, without a tunnel.
    pub(super) const CHECKSUM: EsegKey = EsegKey(((cs_flags::L3 | cs_flags::L4) as u64) << 32);

    /// Returns the key of a packet in a tunnel; `checksum` if the inner checksum is left to the
    /// device.
    #[cold]
    pub(super) fn of_tunnel(h: &Headers, checksum: bool) -> EsegKey {
        let mut key = [0; 8];
        if checksum {
            key[4] = cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER;
        }
        if let Some(swp) = geneve(h) {
            key[..4].copy_from_slice(&swp.offsets);
            key[5] = swp.flags;
        }
        EsegKey(u64::from_le_bytes(key))
    }

    /// Returns whether a checksum is left to the device.
    #[inline(always)]
    pub(super) fn has_checksum(self) -> bool {
        self.0 >> 32 & 0xff != 0
    }

    /// Moves the parser offsets behind a tag in the inline header (en_accel.h
    /// `mlx5e_eseg_swp_offsets_add_vlan`, a fix of 5.11 that 5.10.y has).
    pub(super) fn shift_by_tag(self, eth: &mut EthSeg) {
        if eth.swp_flags != 0 {
            eth.swp_offsets = eth.swp_offsets.map(|o| o.wrapping_add(TAG_WORDS));
        }
    }

    #[inline(always)]
    pub(super) fn eseg(self) -> EthSeg {
        // As two words, which are stored in two instructions.
        const { assert!(ESEG_SHARED <= 8) };
        zerocopy::transmute!([self.0.to_le_bytes(), [0; 8]])
    }
}

/// A VLAN tag in the parser's units of two bytes.
const TAG_WORDS: u8 = 2;

/// The parser fields of a packet (`swp_*`).
struct Swp {
    /// Outer L4, outer L3, inner L4, inner L3, in units of two bytes.
    offsets: [u8; 4],
    flags: u8,
}

/// Returns the parser fields for a GENEVE packet, or `None` for other packets. The device does not
/// know this tunnel (en_accel.h `mlx5e_tx_tunnel_accel`, txrx.h `mlx5e_set_eseg_swp`).
fn geneve(h: &Headers) -> Option<Swp> {
    let Some((Tunnel::Udp(GENEVE_PORT), inner)) = h.inner else { return None };
    let mut flags = swp_flags::OUTER_L4_UDP;
    if h.outer.ip == Ip::V6 {
        flags |= swp_flags::OUTER_L3_IPV6;
    }
    if inner.ip == Ip::V6 {
        flags |= swp_flags::INNER_L3_IPV6;
    }
    if inner.transport == Some(Transport::Udp) {
        flags |= swp_flags::INNER_L4_UDP;
    }
    let words = |bytes: u16| (bytes / 2) as u8;
    let inner_l4 = if inner.transport.is_some() { words(inner.l4) } else { 0 };
    let offsets = [words(h.outer.l4), words(h.outer.l3), inner_l4, words(inner.l3)];
    Some(Swp { offsets, flags })
}

/// Returns whether `frame` is TCP or UDP over IP without tags, options, extension headers and
/// fragments, with `partial` at its transport's checksum. These are most packets, and the device
/// knows them all.
#[inline(always)]
pub(super) fn is_plain(frame: &[u8], partial: CsumPartial) -> bool {
    let (start, protocol) = match frame.get(12..HEADER + 10) {
        // IPv4 with IHL 5, no more fragments, and no offset.
        Some([0x08, 0x00, 0x45, _, _, _, _, _, a, b, _, protocol]) if a & 0x3f == 0 && *b == 0 => {
            (HEADER + 20, *protocol)
        }
        Some([0x86, 0xdd, _, _, _, _, _, _, protocol, ..]) => (HEADER + 40, *protocol),
        _ => return false,
    };
    let offset = match protocol {
        6 => Transport::Tcp.checksum_offset(),
        17 => Transport::Udp.checksum_offset(),
        _ => return false,
    };
    usize::from(partial.start) == start
        && partial.offset == offset
        && partial.field() + 2 <= frame.len()
}

/// The session; closed if `next` is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Ring offset of the next data segment, never 0 in an open session, behind its two heads.
    pub(super) next: u32,
    /// Value of `next` at which the session is full.
    end: u32,
    pub(super) key: EsegKey,
}

impl Session {
    pub(super) const CLOSED: Session = Session { next: 0, end: 0, key: EsegKey(NO_KEY) };
    /// Control and Ethernet segment, in data segments.
    pub(super) const HEAD_DS: u32 = 2;

    /// Opens a session of at most `wqebbs` blocks, whose WQE begins at ring offset `at`.
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
    /// Returns whether so many data segments more have room.
    pub(super) fn has_room(&self, ds: u32) -> bool {
        self.next + ds * DS <= self.end
    }
    /// Returns the data segments so far of the WQE that begins at `at`.
    #[inline(always)]
    pub(super) fn ds(&self, at: u32) -> u32 {
        (self.next - at) / DS
    }
}

/// Returns the basic blocks from `pc` to the end of its queue fragment.
#[inline(always)]
pub(super) fn contiguous(pc: u16, ring_mask: u16) -> u32 {
    let per_fragment = (FRAGMENT / WQEBB).min(u32::from(ring_mask) + 1);
    per_fragment - (u32::from(pc) & (per_fragment - 1))
}

/// Returns the blocks of the longest session on a device with WQEs of at most `max_wqe_sz_sq`
/// bytes.
pub(super) fn max_wqebbs(max_wqe_sz_sq: u16) -> u32 {
    (u32::from(max_wqe_sz_sq) / WQEBB).min(MAX_MPW_WQEBBS)
}

#[cfg(test)]
mod tests;
