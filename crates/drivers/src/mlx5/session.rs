//! A multi-packet session: one Enhanced MPWQE while packets are being added.

use doorbell_hal::Host;
use doorbell_layout::mlx5::{
    DS, ESEG_SHARED, EthSeg, FRAGMENT, MAX_MPW_WQEBBS, WQEBB, cs_flags, swp_flags,
};
use doorbell_packet::Packet;
use doorbell_packet::headers::{Ip, Layers, Transport};

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

    /// Returns the key of `p`. Most packets have none, so the rest is out of line.
    #[inline(always)]
    pub(super) fn of<H: Host>(h: &mut H, p: &Packet) -> EsegKey {
        if p.todo.checksum.is_none() && !p.todo.encapsulated {
            EsegKey::NONE
        } else {
            EsegKey::of_offloads(h, p)
        }
    }

    #[inline(never)]
    fn of_offloads<H: Host>(h: &mut H, p: &Packet) -> EsegKey {
        let encapsulated = p.todo.encapsulated;
        let checks = match p.todo.checksum {
            None => 0,
            Some(_) if encapsulated => cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER,
            Some(_) => cs_flags::L3 | cs_flags::L4,
        };
        let mut key = [0; 8];
        key[4] = checks;
        if encapsulated {
            let inner = usize::from(p.todo.inner_network);
            let swp =
                h.bytes(&p.head.buf, p.head.start..p.head.start + p.head.len, |b| geneve(b, inner));
            if let Some(swp) = swp {
                key[..4].copy_from_slice(&swp.offsets);
                key[5] = swp.flags;
            }
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

/// Returns the parser fields for a GENEVE packet with its inner IP header at `inner`, or `None` for
/// other packets. The device does not know this tunnel (en_accel.h `mlx5e_tx_tunnel_accel`, txrx.h
/// `mlx5e_set_eseg_swp`).
#[cold]
fn geneve(b: &[u8], inner: usize) -> Option<Swp> {
    let outer = Layers::of(b).ok()?;
    let (l3, l4) = (usize::from(outer.l3), usize::from(outer.l4));
    let port = b.get(l4 + 2..l4 + 4)?;
    if outer.transport != Some(Transport::Udp) || port != GENEVE_PORT || inner < l4 + GENEVE_HEADERS
    {
        return None;
    }
    let mut flags = swp_flags::OUTER_L4_UDP;
    if outer.ip == Ip::V6 {
        flags |= swp_flags::OUTER_L3_IPV6;
    }
    let first = *b.get(inner)?;
    let (protocol, header) = if first >> 4 == 6 {
        flags |= swp_flags::INNER_L3_IPV6;
        (*b.get(inner + 6)?, 40)
    } else {
        (*b.get(inner + 9)?, usize::from(first & 0xf) * 4)
    };
    if protocol == Transport::Udp.protocol() {
        flags |= swp_flags::INNER_L4_UDP;
    }
    let known = protocol == Transport::Udp.protocol() || protocol == Transport::Tcp.protocol();
    let words = |bytes: usize| (bytes / 2) as u8;
    let inner_l4 = if known { words(inner + header) } else { 0 };
    Some(Swp { offsets: [words(l4), words(l3), inner_l4, words(inner)], flags })
}

/// GENEVE's UDP port, 6081.
const GENEVE_PORT: [u8; 2] = [0x17, 0xc1];
/// UDP's header and GENEVE's without options.
const GENEVE_HEADERS: usize = 8 + 8;

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
