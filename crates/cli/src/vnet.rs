//! Between a packet's own note of what is left to do and the kernel's: a virtio-net header.
//!
//! Source: VIRTIO 1.2, 5.1.6; linux/virtio_net.h. The header's length of headers is a hint that
//! senders fill in differently, so it is read from the frame itself.

use doorbell_host_io::tap::VnetHeader;
use doorbell_packet::headers::Layers;
use doorbell_packet::{CsumPartial, Gso, GsoKind, OffloadRequest};

/// TCP's flags, from its header's first byte, and one of them.
const FLAGS: usize = 13;
const CWR: u8 = 0x80;

/// What is left to do to `frame`, as the kernel wants it told.
pub(crate) fn header(todo: &OffloadRequest, frame: &[u8]) -> VnetHeader {
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

/// What the kernel left undone in `frame`. `None` for what is not TCP and yet large, and for a
/// header that the frame contradicts.
pub(crate) fn todo(h: &VnetHeader, frame: &[u8]) -> Option<OffloadRequest> {
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
    let gso = (frame.len() > usize::from(header) + usize::from(size)).then_some(Gso {
        kind,
        size,
        header,
    });
    (size > 0).then_some(OffloadRequest { checksum, gso, ..OffloadRequest::NONE })
}

#[cfg(test)]
mod tests;
