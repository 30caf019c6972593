//! Between a packet's own note of what is left to do and the kernel's: a virtio-net header.
//!
//! Source: VIRTIO 1.2, 5.1.6; linux/virtio_net.h. The header's length of headers is a hint that
//! senders fill in differently, so it is read from the frame itself.

use doorbell_attach::tap::VnetHeader;
use doorbell_packet::headers::Layers;
use doorbell_packet::{Gso, GsoKind, Partial, Todo};

/// TCP's flags, from its header's first byte, and one of them.
const FLAGS: usize = 13;
const CWR: u8 = 0x80;

/// What is left to do to `frame`, as the kernel wants it told.
pub(crate) fn header(todo: &Todo, frame: &[u8]) -> VnetHeader {
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

/// What the kernel left undone in `frame`. `None` for what is not TCP and yet large, and for a header that
/// the frame contradicts.
pub(crate) fn todo(h: &VnetHeader, frame: &[u8]) -> Option<Todo> {
    if h.flags & VnetHeader::NEEDS_CSUM == 0 {
        return (h.gso_type == VnetHeader::GSO_NONE).then_some(Todo::NONE);
    }
    let checksum = Some(Partial { start: h.csum_start.get(), offset: h.csum_offset.get() });
    let kind = match h.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_NONE => return Some(Todo { checksum, ..Todo::NONE }),
        VnetHeader::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHeader::GSO_TCPV6 => GsoKind::Tcp6,
        _ => return None,
    };
    let header = Layers::of(frame).ok()?.end;
    let size = h.gso_size.get();
    // One segment is not large.
    let gso = (frame.len() > usize::from(header) + usize::from(size)).then_some(Gso { kind, size, header });
    (size > 0).then_some(Todo { checksum, gso, ..Todo::NONE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_packet::segment::prepare_gso;

    fn large(payload: usize) -> Vec<u8> {
        let mut f = vec![0; 54 + payload];
        f[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        f[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
        f[22..24].copy_from_slice(&[64, 6]);
        f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        (f[46], f[47]) = (0x50, 0x10);
        f
    }

    #[test]
    fn a_large_send_is_told_both_ways_alike() {
        let mut f = large(10_000);
        let todo = prepare_gso(&mut f, 1448).unwrap();
        let h = header(&todo, &f);
        assert_eq!(super::todo(&h, &f), Some(todo));
        // A sender's hint of the headers' length is not believed.
        assert_eq!(super::todo(&VnetHeader { hdr_len: 3.into(), ..h }, &f), Some(todo));
        f[47] |= CWR;
        assert_eq!(header(&todo, &f).gso_type, VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut f = large(10_000);
        let h = header(&prepare_gso(&mut f, 1448).unwrap(), &f);
        for wrong in [
            VnetHeader { flags: 0, ..h },
            VnetHeader { gso_size: 0.into(), ..h },
            VnetHeader { gso_type: VnetHeader::GSO_UDP_L4, ..h },
        ] {
            assert_eq!(todo(&wrong, &f), None, "{wrong:?}");
        }
        assert_eq!(todo(&h, &f[..20]), None);
        assert_eq!(todo(&h, &f[..1502]).unwrap().gso, None, "one segment");
        assert_eq!(todo(&VnetHeader::default(), &f), Some(Todo::NONE));
    }
}
