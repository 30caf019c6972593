//! Conversion between a packet's offload request and the kernel's, a virtio-net header (VIRTIO
//! 1.2, 5.1.6; linux/virtio_net.h). `hdr_len` is only a hint there, so the length of headers is
//! taken from the frame itself.

use crate::tap::VnetHeader;
use doorbell_packet::{CsumPartial, Gso, GsoKind, OffloadRequest, headers::Layers};

/// Offset of the flags in the TCP header, and the CWR flag.
const FLAGS: usize = 13;
const CWR: u8 = 0x80;

/// Returns the offload request of `frame` for the kernel.
pub fn header(todo: &OffloadRequest, frame: &[u8]) -> VnetHeader {
    let mut h = VnetHeader::default();
    let Some(p) = todo.checksum else { return h };
    h.flags = VnetHeader::NEEDS_CSUM;
    h.csum_start = p.start.into();
    h.csum_offset = p.offset.into();
    if let Some(g) = todo.gso {
        let cwr = frame.get(usize::from(p.start) + FLAGS).is_some_and(|f| f & CWR != 0);
        h.gso_type = match g.kind {
            GsoKind::Tcp4 => VnetHeader::GSO_TCPV4,
            GsoKind::Tcp6 => VnetHeader::GSO_TCPV6,
            GsoKind::Udp4 | GsoKind::Udp6 => VnetHeader::GSO_UDP_L4,
        } | if cwr { VnetHeader::GSO_ECN } else { 0 };
        h.gso_size = g.size.into();
        h.hdr_len = g.header.into();
    }
    h
}

/// Returns the kernel's offload request for `frame`. `None` for a large send other than TCP, and
/// for a header that contradicts the frame.
pub fn todo(h: &VnetHeader, frame: &[u8]) -> Option<OffloadRequest> {
    if h.flags & VnetHeader::NEEDS_CSUM == 0 {
        return (h.gso_type == VnetHeader::GSO_NONE).then_some(OffloadRequest::NONE);
    }
    let checksum = Some(CsumPartial { start: h.csum_start.get(), offset: h.csum_offset.get() });
    let kind = match h.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_NONE => return Some(OffloadRequest { checksum, ..OffloadRequest::NONE }),
        VnetHeader::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHeader::GSO_TCPV6 => GsoKind::Tcp6,
        _ => return None,
    };
    let header = Layers::of(frame).ok()?.end;
    let size = h.gso_size.get();
    // One segment is not large.
    let large = frame.len() > usize::from(header) + usize::from(size);
    let gso = large.then_some(Gso { kind, size, header });
    (size > 0).then_some(OffloadRequest { checksum, gso, ..OffloadRequest::NONE })
}

#[cfg(test)]
mod tests;
