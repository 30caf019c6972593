//! Limits of the send pipe's offloads.

use super::Caps;
use crate::offload::{Offload, Request, checksum_and};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::tunnel::{GENEVE_PORT, Headers, Tunnel, UDP_TUNNEL, VXLAN_PORT};

/// Returns what the send pipe can do for a packet.
///
/// It parses TCP and UDP over IP; what it does with extension headers and a second tag is not
/// public, so it gets neither. It sees through IP in IP, GRE, VXLAN on the port that it knows, and
/// GENEVE where a WQE says where the headers are (en_main.c `mlx5e_tunnel_features_check`,
/// `vxlan_features_check`). It segments no tunnel: `tunnel_stateless_*` and `swp_lso` are not among
/// the capabilities that this driver asks for.
pub fn can(request: &Request<'_>, caps: &Caps) -> Offload {
    let Some(h) = request.plain_or_double_tagged() else { return Offload::None };
    let known = match &h.inner {
        None => true,
        Some((Tunnel::Udp(GENEVE_PORT), _)) => caps.swp && is_told(h),
        Some((Tunnel::Udp(port), inner)) => {
            let ethernet = h.outer.l4 + UDP_TUNNEL;
            *port == VXLAN_PORT && inner.l3 == ethernet + HEADER as u16
        }
        Some((Tunnel::Ip | Tunnel::Gre { .. }, _)) => h.inner_untagged,
    };
    let all = checksum_and(request, |gso, payload| {
        let bits = u32::from(caps.log_max_lso).min(31);
        // Of one segment the MSS may be longer than any frame, which the pipe refuses.
        let segments = gso.size > 0 && payload > gso.size.into();
        h.inner.is_none() && segments && payload <= 1 << bits
    });
    if caps.csum && known { all } else { Offload::None }
}

/// Returns whether the software parser's fields, in units of two bytes, reach the headers.
fn is_told(h: &Headers) -> bool {
    let inner = h.layers();
    // With a tag that is inserted.
    inner.l3.is_multiple_of(2) && inner.l4 / 2 + 2 <= u8::MAX.into()
}
