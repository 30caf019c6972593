//! The fields of a frame, laid out as a match parameter has them.
//!
//! A frame has TCP ports or UDP ports, and zeros in the others' place. What cannot be
//! parsed is zero: a frame that claims to be IP and is not has its type and no IP
//! version. The type is the one behind the tags.

use doorbell_layout::mlx5::steering::{
    CVLAN, FRAGMENT, IP_VERSION_SHIFT, Layers, Misc, SECOND_CVLAN, SECOND_SVLAN, SET, SVLAN,
    TCP_FLAGS,
};
use doorbell_packet::headers::{self, Ip, Transport};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::transmute_ref;

/// The bits of the outer set that are compared: all but three reserved bytes.
pub(super) const OUTER_FIELDS: [u8; SET] = {
    let mut bits = [0xff; SET];
    bits[24] = 0;
    bits[25] = 0;
    bits[26] = 0;
    bits
};

/// The bits of the miscellaneous set that are compared: source port, second tag, flow label.
pub(super) const MISC_FIELDS: [u8; SET] = {
    let mut bits = [0; SET];
    // A source SQ is of frames that are sent.
    let mut i = 4;
    while i < 10 {
        bits[i] = 0xff;
        i += 1;
    }
    bits[12] = ((SECOND_CVLAN | SECOND_SVLAN) >> 8) as u8;
    [bits[29], bits[30], bits[31]] = [0x0f, 0xff, 0xff];
    bits
};

/// A frame as steering sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) outer: Layers,
    pub(crate) misc: Misc,
    /// Offsets of its IP headers, if it has them.
    pub(crate) headers: Option<headers::Layers>,
}

impl Fields {
    /// Those of `frame`, without FCS. Whatever is not there is zero.
    pub(crate) fn of(frame: &[u8]) -> Fields {
        let mut f = Fields { outer: Layers::default(), misc: Misc::default(), headers: None };
        let Some((addresses, _)) = frame.split_first_chunk::<12>() else { return f };
        f.outer.dmac.copy_from_slice(&addresses[..6]);
        f.outer.smac.copy_from_slice(&addresses[6..]);
        let behind = f.tags(frame);
        f.headers = headers::Layers::of(frame).ok().filter(|h| usize::from(h.l3) == behind);
        if let Some(h) = f.headers {
            f.ip(&frame[behind..], &h);
            f.transport(&frame[usize::from(h.l4)..], &h);
        }
        f
    }

    /// The tags and the type; what is behind it begins at the offset returned.
    fn tags(&mut self, frame: &[u8]) -> usize {
        let word = |at: usize| match frame.get(at..at + 2) {
            Some(&[a, b]) => u16::from_be_bytes([a, b]),
            _ => 0,
        };
        let (mut at, mut tags) = (12, 0);
        loop {
            let (tag, second) = match word(at) {
                0x8100 => (CVLAN, SECOND_CVLAN),
                0x88a8 => (SVLAN, SECOND_SVLAN),
                ethertype => {
                    self.outer.ethertype = U16::new(ethertype);
                    return at + 2;
                }
            };
            match tags {
                0 => {
                    self.outer.first_tci = U16::new(word(at + 2));
                    self.outer.tags_version_flags = U16::new(tag);
                }
                1 => {
                    self.misc.outer_second_tci = U16::new(word(at + 2));
                    self.misc.second_tags = U16::new(second);
                }
                _ => {
                    self.outer.ethertype = U16::new(word(at));
                    return at + 2;
                }
            }
            tags += 1;
            at += 4;
        }
    }

    fn ip(&mut self, b: &[u8], h: &headers::Layers) {
        let o = &mut self.outer;
        let (version, traffic_class) = match h.ip {
            Ip::V4 => {
                o.src_ip[12..].copy_from_slice(&b[12..16]);
                o.dst_ip[12..].copy_from_slice(&b[16..20]);
                o.ttl = b[8];
                (4, b[1])
            }
            Ip::V6 => {
                o.src_ip.copy_from_slice(&b[8..24]);
                o.dst_ip.copy_from_slice(&b[24..40]);
                o.ttl = b[7];
                let label = u32::from_be_bytes([0, b[1] & 0xf, b[2], b[3]]);
                self.misc.outer_ipv6_flow_label = U32::new(label);
                (6, b[0] << 4 | b[1] >> 4)
            }
        };
        o.ip_protocol = h.protocol;
        o.dscp_ecn = traffic_class;
        let fragment = if h.fragment { FRAGMENT } else { 0 };
        o.tags_version_flags =
            U16::new(o.tags_version_flags.get() | version << IP_VERSION_SHIFT | fragment);
    }

    fn transport(&mut self, b: &[u8], h: &headers::Layers) {
        let o = &mut self.outer;
        let port = |at: usize| U16::from_bytes([b[at], b[at + 1]]);
        match h.transport {
            Some(Transport::Tcp) => {
                (o.tcp_sport, o.tcp_dport) = (port(0), port(2));
                let flags = port(12).get() & TCP_FLAGS;
                o.tags_version_flags = U16::new(o.tags_version_flags.get() | flags);
            }
            Some(Transport::Udp) => (o.udp_sport, o.udp_dport) = (port(0), port(2)),
            None => {}
        }
    }

    pub(super) fn outer_bytes(&self) -> &[u8; SET] {
        transmute_ref!(&self.outer)
    }
    pub(super) fn misc_bytes(&self) -> &[u8; SET] {
        transmute_ref!(&self.misc)
    }
}
