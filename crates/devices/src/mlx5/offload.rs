//! Checksum insertion and VLAN insertion, as the send pipe does them: it parses
//! the frame for itself and trusts nothing that is in the checksum fields.
//!
//! Tunnels that it sees through: IP in IP, GRE (Ethernet or IP inside), VXLAN on
//! its assigned port. Of others the WQE says where the headers are (`swp_*`), on a
//! queue that allows it.

use doorbell_layout::mlx5::{EthSeg, cs_flags, swp_flags};
use doorbell_packet::{checksum::Sum, ethernet::HEADER, vlan::TAG};

/// Offsets of a frame's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layers {
    l3: usize,
    ipv6: bool,
    l4: usize,
    /// Transport protocol; of a fragment beyond the first there is none to speak of.
    protocol: u8,
    /// End of the IP datagram: Ethernet padding is not summed.
    end: usize,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const NO_TRANSPORT: u8 = 59;

fn be16(b: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?])))
}

#[inline]
fn ethernet(b: &[u8], l2: usize) -> Option<Layers> {
    let mut at = l2 + 12;
    let mut ethertype = be16(b, at)?;
    for _ in 0..2 {
        if ethertype != 0x8100 && ethertype != 0x88a8 {
            break;
        }
        at += 4;
        ethertype = be16(b, at)?;
    }
    network(b, at + 2, ethertype)
}

#[inline]
fn network(b: &[u8], l3: usize, ethertype: usize) -> Option<Layers> {
    match ethertype {
        0x0800 => {
            let header = usize::from(b.get(l3)? & 0xf) * 4;
            let end = l3 + be16(b, l3 + 2)?;
            let fragment = be16(b, l3 + 6)? & 0x3fff != 0;
            let protocol = if fragment { NO_TRANSPORT } else { *b.get(l3 + 9)? };
            (header >= 20 && l3 + header <= end && end <= b.len()).then_some(Layers {
                l3,
                ipv6: false,
                l4: l3 + header,
                protocol,
                end,
            })
        }
        0x86dd => {
            let end = l3 + 40 + be16(b, l3 + 4)?;
            let mut protocol = *b.get(l3 + 6)?;
            let mut l4 = l3 + 40;
            // Hop-by-hop, routing, destination options.
            while matches!(protocol, 0 | 43 | 60) && l4 + 8 <= end {
                protocol = *b.get(l4)?;
                l4 += 8 + usize::from(*b.get(l4 + 1)?) * 8;
            }
            (l4 <= end && end <= b.len()).then_some(Layers { l3, ipv6: true, l4, protocol, end })
        }
        _ => None,
    }
}

/// The layers of the packet inside a tunnel.
fn inner(b: &[u8], outer: Layers) -> Option<Layers> {
    match outer.protocol {
        4 => network(b, outer.l4, 0x0800),
        41 => network(b, outer.l4, 0x86dd),
        47 => {
            let flags = be16(b, outer.l4)?;
            let options = [0x8000, 0x2000, 0x1000].iter().filter(|f| flags & **f != 0).count() * 4;
            let payload = outer.l4 + 4 + options;
            match be16(b, outer.l4 + 2)? {
                0x6558 => ethernet(b, payload),
                ethertype => network(b, payload, ethertype),
            }
        }
        UDP if be16(b, outer.l4 + 2)? == 4789 => ethernet(b, outer.l4 + 16),
        _ => None,
    }
}

fn ip_checksum(b: &mut [u8], l: Layers) {
    if !l.ipv6 {
        b[l.l3 + 10..l.l3 + 12].fill(0);
        let check = Sum::of(&b[l.l3..l.l4]).checksum();
        b[l.l3 + 10..l.l3 + 12].copy_from_slice(&check.to_be_bytes());
    }
}

fn transport_checksum(b: &mut [u8], l: Layers) {
    let field = match l.protocol {
        TCP => l.l4 + 16,
        UDP => l.l4 + 6,
        _ => return,
    };
    if field + 2 > l.end {
        return;
    }
    b[field..field + 2].fill(0);
    // The addresses of the pseudo-header stand side by side in the IP header.
    let addresses = if l.ipv6 { l.l3 + 8..l.l3 + 40 } else { l.l3 + 12..l.l3 + 20 };
    let len = (l.end - l.l4) as u32;
    let sum = Sum::of(&b[addresses])
        .plus_be32(len)
        .plus_be16(u16::from(l.protocol))
        .plus(Sum::of(&b[l.l4..l.end]));
    let check = if l.protocol == UDP { sum.udp_checksum() } else { sum.checksum() };
    b[field..field + 2].copy_from_slice(&check.to_be_bytes());
}

/// Layers that a WQE speaks of: an IP header at `l3`, a transport header at `l4`, in bytes; `l4` 0:
/// none.
fn told(b: &[u8], l3: u8, l4: u8, ipv6: bool, udp: bool) -> Option<Layers> {
    let l3 = usize::from(l3) * 2;
    let (header, end) =
        if ipv6 { (40, l3 + 40 + be16(b, l3 + 4)?) } else { (20, l3 + be16(b, l3 + 2)?) };
    let (l4, protocol) = match usize::from(l4) * 2 {
        0 => (l3 + header, NO_TRANSPORT),
        l4 => (l4, if udp { UDP } else { TCP }),
    };
    let fits = l3 + header <= l4 && l4 <= end && end <= b.len();
    fits.then_some(Layers { l3, ipv6, l4, protocol, end })
}

/// The outer and inner layers by the software parser's fields; `None` where the WQE has none.
fn told_by(b: &[u8], eth: &EthSeg) -> Option<(Layers, Option<Layers>)> {
    let [outer_l4, outer_l3, inner_l4, inner_l3] = eth.swp_offsets;
    if outer_l3 == 0 {
        return None;
    }
    let has = |flag| eth.swp_flags & flag != 0;
    let outer =
        told(b, outer_l3, outer_l4, has(swp_flags::OUTER_L3_IPV6), has(swp_flags::OUTER_L4_UDP))?;
    let inner =
        told(b, inner_l3, inner_l4, has(swp_flags::INNER_L3_IPV6), has(swp_flags::INNER_L4_UDP));
    Some((outer, inner.filter(|_| inner_l3 > 0)))
}

/// Inserts the checksums that `eth` asks for, where the frame has such a header. With `swp` the WQE
/// may say where the headers are, and then the pipe does not look for them.
#[inline]
pub(super) fn insert_checksums(frame: &mut [u8], eth: &EthSeg, swp: bool) {
    let flags = eth.cs_flags;
    let layers = match told_by(frame, eth).filter(|_| swp) {
        Some(told) => Some(told),
        None => {
            let wants_inner = flags & (cs_flags::L3_INNER | cs_flags::L4_INNER) != 0;
            ethernet(frame, 0)
                .map(|outer| (outer, if wants_inner { inner(frame, outer) } else { None }))
        }
    };
    let Some((outer, inner)) = layers else { return };
    if flags & (cs_flags::L3_INNER | cs_flags::L4_INNER) != 0
        && let Some(inner) = inner
    {
        if flags & cs_flags::L3_INNER != 0 {
            ip_checksum(frame, inner);
        }
        if flags & cs_flags::L4_INNER != 0 {
            transport_checksum(frame, inner);
        }
    }
    if flags & cs_flags::L3 != 0 {
        ip_checksum(frame, outer);
    }
    if flags & cs_flags::L4 != 0 {
        transport_checksum(frame, outer);
    }
}

/// Types of a customer's tag (802.1Q) and of a service provider's (802.1ad).
pub(super) const C_TAG: [u8; 2] = [0x81, 0x00];
pub(super) const S_TAG: [u8; 2] = [0x88, 0xa8];

/// Inserts a tag into a frame of `len` bytes; its new length. Frames too short for
/// an Ethernet header are left alone.
pub(super) fn insert_vlan(frame: &mut [u8], len: usize, tpid: [u8; 2], tci: [u8; 2]) -> usize {
    if len < HEADER || frame.len() < len + TAG {
        return len;
    }
    frame.copy_within(12..len, 16);
    frame[12..14].copy_from_slice(&tpid);
    frame[14..16].copy_from_slice(&tci);
    len + TAG
}

#[cfg(test)]
mod tests;
