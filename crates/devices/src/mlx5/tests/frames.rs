//! Frames for tests, with right checksums.

use alloc::vec::Vec;
use doorbell_packet::checksum::Sum;

/// An address pair and what is between them.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) dmac: [u8; 6],
    pub(crate) smac: [u8; 6],
    /// (TPID, TCI), outermost first.
    pub(crate) tags: Vec<(u16, u16)>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// An Ethernet type and bytes.
    Raw(u16, Vec<u8>),
    /// IP: addresses of 4 or 16 bytes.
    Ip { src: Vec<u8>, dst: Vec<u8>, transport: Transport },
}

#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Tcp { sport: u16, dport: u16, flags: u8, payload: Vec<u8> },
    Udp { sport: u16, dport: u16, payload: Vec<u8> },
    Other(u8, Vec<u8>),
}

pub(crate) const ME: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
pub(crate) const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
pub(crate) const ALL: [u8; 6] = [0xff; 6];

pub(crate) fn tcp(payload: usize) -> Transport {
    Transport::Tcp {
        sport: 2794,
        dport: 1766,
        flags: 0x10,
        payload: (0..payload).map(|i| i as u8).collect(),
    }
}

pub(crate) fn udp(payload: usize) -> Transport {
    Transport::Udp { sport: 2794, dport: 1766, payload: (0..payload).map(|i| i as u8).collect() }
}

impl Frame {
    pub(crate) fn v4(transport: Transport) -> Frame {
        Frame::ip(&[66, 9, 149, 187], &[161, 142, 100, 80], transport)
    }
    pub(crate) fn v6(transport: Transport) -> Frame {
        let src = [0x3f, 0xfe, 0x25, 1, 2, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7];
        let dst = [0x3f, 0xfe, 0x25, 1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1];
        Frame::ip(&src, &dst, transport)
    }
    pub(crate) fn ip(src: &[u8], dst: &[u8], transport: Transport) -> Frame {
        let body = Body::Ip { src: src.to_vec(), dst: dst.to_vec(), transport };
        Frame { dmac: ME, smac: PEER, tags: Vec::new(), body }
    }
    pub(crate) fn raw(ethertype: u16, bytes: usize) -> Frame {
        Frame {
            dmac: ME,
            smac: PEER,
            tags: Vec::new(),
            body: Body::Raw(ethertype, alloc::vec![0xa5; bytes]),
        }
    }
    pub(crate) fn to(mut self, dmac: [u8; 6]) -> Frame {
        self.dmac = dmac;
        self
    }
    pub(crate) fn tagged(mut self, tpid: u16, tci: u16) -> Frame {
        self.tags.push((tpid, tci));
        self
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut f = Vec::new();
        f.extend(self.dmac);
        f.extend(self.smac);
        for (tpid, tci) in &self.tags {
            f.extend(tpid.to_be_bytes());
            f.extend(tci.to_be_bytes());
        }
        match &self.body {
            Body::Raw(ethertype, bytes) => {
                f.extend(ethertype.to_be_bytes());
                f.extend(bytes);
            }
            Body::Ip { src, dst, transport } => {
                let (protocol, l4) = transport.build(src, dst);
                let v4 = src.len() == 4;
                f.extend(if v4 { [0x08, 0x00] } else { [0x86, 0xdd] });
                let start = f.len();
                let len = l4.len() as u16;
                if v4 {
                    f.extend([0x45, 0]);
                    f.extend((len + 20).to_be_bytes());
                    f.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
                } else {
                    f.extend([0x60, 0, 0, 0]);
                    f.extend(len.to_be_bytes());
                    f.extend([protocol, 64]);
                }
                f.extend(src);
                f.extend(dst);
                if v4 {
                    let check = Sum::of(&f[start..]).checksum();
                    f[start + 10..start + 12].copy_from_slice(&check.to_be_bytes());
                }
                f.extend(l4);
            }
        }
        f
    }
}

impl Transport {
    fn build(&self, src: &[u8], dst: &[u8]) -> (u8, Vec<u8>) {
        let mut b = Vec::new();
        let (protocol, field) = match self {
            Transport::Tcp { sport, dport, flags, payload } => {
                b.extend(sport.to_be_bytes());
                b.extend(dport.to_be_bytes());
                b.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, *flags, 0xff, 0xff, 0, 0, 0, 0]);
                b.extend(payload);
                (6, 16)
            }
            Transport::Udp { sport, dport, payload } => {
                b.extend(sport.to_be_bytes());
                b.extend(dport.to_be_bytes());
                b.extend((payload.len() as u16 + 8).to_be_bytes());
                b.extend([0, 0]);
                b.extend(payload);
                (17, 6)
            }
            Transport::Other(protocol, bytes) => return (*protocol, bytes.clone()),
        };
        let mut all = src.to_vec();
        all.extend(dst);
        all.extend([0, protocol]);
        all.extend((b.len() as u16).to_be_bytes());
        all.extend(&b);
        let check = Sum::of(&all).checksum();
        b[field..field + 2].copy_from_slice(&check.to_be_bytes());
        (protocol, b)
    }
}
