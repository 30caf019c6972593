//! Offloads that a sender requested, done for each receiver as far as it has not agreed to do
//! without: checksums and segmentation of large packets.
//!
//! The old large send, with the mss in TCP's checksum field, is no large send to the hypervisor: a
//! receiver without NO_CSUM gets it with a checksum made over it.
//!
//! Source: PAPR, "ILLAN Checksum Offload Support Option" and "ILLAN Large Send/Receive option".

use doorbell_layout::ibmveth::{Descriptor, Entry, attribute};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Ip, Layers, Transport};

/// A sender's marks on a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) no_checksum: bool,
    pub(super) good: bool,
    /// LRG_SND.
    pub(super) large: bool,
    /// 0: none.
    pub(super) mss: u16,
    /// The headers, where there are marks: TCP over either IP, if for a checksum or an mss.
    pub(super) layers: Option<Layers>,
}

/// Work on a frame for one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// It is cut by the mss.
    pub(super) cut: bool,
    /// Checksums are made.
    pub(super) sum: bool,
    /// The entry's flags.
    pub(super) flags: u32,
    /// LRG_PKT, and the mss.
    pub(super) large: Option<u16>,
}

/// The attribute that lets checksums of this packet be left out.
pub(super) fn checksum_attribute(layers: &Layers) -> Option<u64> {
    match (layers.transport, layers.ip) {
        (Some(Transport::Tcp), Ip::V4) => Some(attribute::IPV4_TCP_CSUM),
        (Some(Transport::Tcp), Ip::V6) => Some(attribute::IPV6_TCP_CSUM),
        _ => None,
    }
}

impl Marks {
    pub(super) fn of(flags: u64, mss: u16) -> Marks {
        Marks {
            no_checksum: flags & Descriptor::NO_CSUM != 0,
            good: flags & Descriptor::CSUM_GOOD != 0,
            large: flags & Descriptor::LRG_SND != 0,
            mss,
            layers: None,
        }
    }

    /// Returns true if the headers must be known.
    pub(super) fn any(&self) -> bool {
        self.no_checksum || self.good || self.mss != 0
    }

    /// Plans a frame of `len` bytes for a receiver with these attributes.
    pub(super) fn plan(&self, attributes: u64, len: usize) -> Plan {
        let bit = self.layers.as_ref().and_then(checksum_attribute);
        let agreed = bit.is_some_and(|bit| attributes & bit != 0);
        let takes_large = attributes & attribute::LRG_SR_ENABLED != 0;
        let payload = len - self.layers.map_or(0, |l| usize::from(l.end)).min(len);
        let cut = self.mss != 0 && !takes_large && payload > usize::from(self.mss);
        let bit = |on: bool, b: u32| if on && agreed { b } else { 0 };
        let large = match (takes_large, self.mss) {
            _ if cut => None,
            (true, mss) if self.large || mss != 0 => Some(mss),
            (false, 0) if self.large => Some(0),
            _ => None,
        };
        Plan {
            cut,
            // Each segment needs its own, whatever the sender made of the whole.
            sum: if self.no_checksum { !agreed } else { cut },
            flags: bit(self.no_checksum, Entry::NO_CSUM) | bit(self.good, Entry::CSUM_GOOD),
            large,
        }
    }
}

/// Makes the TCP checksum of a frame, padding left out; what was there before, and how many bytes
/// were summed.
pub(super) fn complete(frame: &mut [u8], layers: &Layers) -> Option<([u8; 2], usize)> {
    let field = layers.partial()?.field();
    let end = layers.datagram(frame).map_or(frame.len(), |d| d.end);
    let old: [u8; 2] = frame.get(field..field + 2)?.try_into().ok()?;
    frame[field..field + 2].fill(0);
    let l4 = usize::from(layers.l4);
    let sum = Sum::of(&frame[l4..end]).plus(layers.pseudo_header(frame, (end - l4) as u32));
    frame[field..field + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    Some((old, end - l4))
}

/// Puts back what [`complete`] found.
pub(super) fn restore(frame: &mut [u8], layers: &Layers, old: [u8; 2]) {
    if let Some(p) = layers.partial()
        && let Some(f) = frame.get_mut(p.field()..p.field() + 2)
    {
        f.copy_from_slice(&old);
    }
}
