//! The CQE of a received frame: layers, checksums, tag, hash.
//!
//! **The 16-bit sum** is of the IP datagram, from its header to the end that its
//! length field gives: neither tags nor padding are in it, and Linux adds the tags by
//! itself (`mlx5e_skb_csum_fixup`). With the capability `cqe_checksum_full` it is of all
//! bytes behind the Ethernet header. It is not complemented, and the pseudo-header
//! is not in it.
//!
//! **L3 ok**: IPv4's header checksum is right, or it is IPv6. **L4 ok**: TCP's or UDP's
//! checksum is right, or the sender of UDP over IPv4 made none. A fragment has none.

use super::super::{rss::Hash, steering::Fields};
use alloc::vec::Vec;
use doorbell_hal::Time;
use doorbell_layout::mlx5::receive::{
    CQE_RECEIVED, IP_FRAGMENT, L2_OK, L3_OK, L4_OK, RxCqe, VLAN_STRIPPED, l3_type, l4_type,
};
use doorbell_layout::mlx5::steering::CVLAN;
use doorbell_packet::headers::{self, Check, Ip, Layers, Transport, tcp};
use doorbell_packet::{checksum::Sum, ethernet::HEADER, vlan};
use zerocopy::FromZeros;

/// Makes the part of a CQE that depends on the frame alone.
pub(super) fn cqe(frame: &[u8], f: &Fields, hash: Hash, checksum_full: bool) -> RxCqe {
    let mut cqe = RxCqe::new_zeroed();
    cqe.rss_hash_result.set(hash.value);
    cqe.rss_hash_type = hash.kind;
    cqe.hds_ip_ext = L2_OK;
    cqe.op_own = CQE_RECEIVED << 4;
    let mut sum = Sum::ZERO;
    if let Some(h) = &f.headers {
        let end = h.datagram(frame).map_or(frame.len(), |d| d.end);
        let (l3, l4) = (usize::from(h.l3), usize::from(h.l4));
        let l4_sum = Sum::of(&frame[l4..end.max(l4)]);
        sum = Sum::of(&frame[l3..l4]).plus(l4_sum);
        cqe.hds_ip_ext |= ok(frame, h, end, l4_sum);
        let l3 = if h.ip == Ip::V4 { l3_type::IPV4 } else { l3_type::IPV6 };
        let l4 = transport(f, h, end);
        cqe.l4_l3_hdr_type = l4 << 4 | l3 << 2 | if h.fragment { IP_FRAGMENT } else { 0 };
    }
    if checksum_full {
        sum = Sum::of(&frame[HEADER..]);
    }
    cqe.check_sum.set(sum.value());
    cqe
}

/// Returns the checks passed. The payload, summed already, is not summed again where IP and the
/// transport agree on its length.
fn ok(frame: &[u8], h: &Layers, end: usize, l4_sum: Sum) -> u8 {
    let (l3, l4) = (usize::from(h.l3), usize::from(h.l4));
    let udp_len = || usize::from(u16::from_be_bytes([frame[l4 + 4], frame[l4 + 5]]));
    let simple = match h.transport {
        Some(Transport::Tcp) => true,
        Some(Transport::Udp) => udp_len() == end - l4 && frame[l4 + 6..l4 + 8] != [0, 0],
        None => false,
    };
    if h.datagram(frame).is_none() {
        return 0;
    }
    let (ip, transport) = if simple && !h.source_routed {
        let header = h.ip == Ip::V6 || Sum::of(&frame[l3..l4]).is_intact();
        (header, h.pseudo_header(frame, (end - l4) as u32).plus(l4_sum).is_intact())
    } else {
        let v = headers::verify(frame);
        (v.ip != Check::Bad, matches!(v.transport, Check::Good | Check::Absent))
    };
    (if ip { L3_OK } else { 0 }) | (if transport { L4_OK } else { 0 })
}

/// The transport as CQEs number it.
fn transport(f: &Fields, h: &Layers, end: usize) -> u8 {
    match h.transport {
        Some(Transport::Tcp) if f.outer.tags_version_flags.get() & u16::from(tcp::ACK) == 0 => {
            l4_type::TCP_NO_ACK
        }
        Some(Transport::Tcp) if end <= usize::from(h.end) => l4_type::TCP_ACK,
        Some(Transport::Tcp) => l4_type::TCP_ACK_DATA,
        Some(Transport::Udp) => l4_type::UDP,
        None => l4_type::NONE,
    }
}

/// Appends the frame to `to`, without its C-tag unless that is kept. With a sum of all
/// bytes, the tag's are taken out of it.
pub(super) fn strip(
    cqe: &mut RxCqe,
    frame: &[u8],
    f: &Fields,
    keep: bool,
    checksum_full: bool,
    to: &mut Vec<u8>,
) {
    let tagged = f.outer.tags_version_flags.get() & CVLAN != 0 && frame.len() >= HEADER + vlan::TAG;
    if keep || !tagged {
        to.extend_from_slice(frame);
        return;
    }
    cqe.l4_l3_hdr_type |= VLAN_STRIPPED;
    cqe.vlan_info = f.outer.first_tci;
    to.extend_from_slice(&frame[..12]);
    to.extend_from_slice(&frame[12 + vlan::TAG..]);
    if checksum_full {
        cqe.check_sum.set(Sum::of(&frame[HEADER + vlan::TAG..]).value());
    }
}

/// Adds what depends on queue and time.
pub(super) fn place(cqe: &mut RxCqe, at: Time, rqn: u32, flow_tag: u32, len: usize) {
    cqe.timestamp.set(at.ps() / 1000);
    cqe.flags_rqpn.set(rqn);
    cqe.sop_drop_qpn.set(flow_tag & 0xff_ffff);
    cqe.byte_cnt.set(len as u32);
}
