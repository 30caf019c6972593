//! Receive filters and receive checksums.
//!
//! A frame must pass the address filter and, with RCTL.VFE, the VLAN filter, which promiscuous mode
//! does not open. The 16 receive addresses match exactly; the multicast table and promiscuous modes
//! are inexact and set PIF. IPv4 headers are checked with IPOFL, TCP and UDP but not fragments with
//! TUOFL. A frame of which nothing was checked has IXSM.
//!
//! Source: SDM 3.2.3, 3.2.9, 3.2.10, 13.5.

use doorbell_layout::e1000::{
    RAH_AV, RCTL_BAM, RCTL_CFI, RCTL_CFIEN, RCTL_MO_SHIFT, RCTL_MPE, RCTL_UPE, RCTL_VFE,
    RXCSUM_IPOFL, RXCSUM_PCSS, RXCSUM_TUOFL, Rx, reg,
};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, Transport, verify};

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) mta: [u32; reg::MTA_LEN as usize],
    pub(super) vfta: [u32; reg::VFTA_LEN as usize],
    /// RAL and RAH.
    pub(super) addresses: [[u32; 2]; reg::RAR_LEN as usize],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// The frame does not pass.
    No,
    /// It passes by the station's address or as broadcast.
    Exact,
    /// It passes by the multicast table or promiscuously.
    Inexact,
}

/// Bits of RAH that exist.
pub(super) const RAH_MASK: u32 = 0x8003_ffff;
/// RAH: compare with the source address.
const RAH_SOURCE: u32 = 1 << 16;

impl Filter {
    pub(super) const fn new() -> Filter {
        Filter { mta: [0; 128], vfta: [0; 128], addresses: [[0; 2]; 16] }
    }

    pub(super) fn set_address(&mut self, mac: [u8; 6]) {
        let high = u32::from(u16::from_le_bytes([mac[4], mac[5]]));
        self.addresses[0] = [u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]), high | RAH_AV];
    }

    /// The station address, as pause frames carry it.
    pub(super) fn station(&self) -> [u8; 6] {
        let [low, high] = self.addresses[0];
        let (l, h) = (low.to_le_bytes(), high.to_le_bytes());
        [l[0], l[1], l[2], l[3], h[0], h[1]]
    }

    fn has(&self, mac: &[u8], select: u32) -> bool {
        let low = u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]);
        let high = u32::from(u16::from_le_bytes([mac[4], mac[5]])) | RAH_AV | select;
        self.addresses.contains(&[low, high])
    }

    /// Returns true if the multicast table's bit for `mac` is set.
    fn hashes(&self, mac: &[u8], rctl: u32) -> bool {
        let shift = 4 - (rctl >> RCTL_MO_SHIFT & 3);
        let hash = usize::from(u16::from_le_bytes([mac[4], mac[5]]))
            >> if shift == 1 { 0 } else { shift }
            & 0xfff;
        self.mta[hash >> 5 & 0x7f] >> (hash & 31) & 1 == 1
    }

    /// Filters `frame`, of 14 bytes at least, with VLAN tag `tag`.
    pub(super) fn pass(&self, rctl: u32, frame: &[u8], tag: Option<u16>) -> Pass {
        if let Some(tci) = tag
            && rctl & RCTL_VFE != 0
        {
            let vid = usize::from(tci & 0xfff);
            let cfi = tci & 0x1000 != 0;
            let wrong_form = rctl & RCTL_CFIEN != 0 && cfi != (rctl & RCTL_CFI != 0);
            if wrong_form || self.vfta[vid >> 5] >> (vid & 31) & 1 == 0 {
                return Pass::No;
            }
        }
        let (to, from) = (&frame[..6], &frame[6..12]);
        if self.has(to, 0) || self.has(from, RAH_SOURCE) {
            return Pass::Exact;
        }
        let passes = match to[0] & 1 {
            0 => rctl & RCTL_UPE != 0,
            _ if to == [0xff; 6] && rctl & RCTL_BAM != 0 => return Pass::Exact,
            _ => rctl & RCTL_MPE != 0 || self.hashes(to, rctl),
        };
        if passes { Pass::Inexact } else { Pass::No }
    }
}

/// The frame's VLAN tag, if its Ethernet type is `vet`.
pub(super) fn tag(frame: &[u8], vet: u32) -> Option<u16> {
    let (kind, tci) = (frame.get(12..14)?, frame.get(14..16)?);
    (u32::from(u16::from_be_bytes([kind[0], kind[1]])) == vet & 0xffff)
        .then(|| u16::from_be_bytes([tci[0], tci[1]]))
}

/// Checks checksums. Returns status bits, error bits and the packet checksum: the sum, not
/// complemented, from byte PCSS to the end without FCS.
pub(super) fn checksums(frame: &[u8], rxcsum: u32) -> (u8, u8, u16) {
    let start = (rxcsum & RXCSUM_PCSS) as usize;
    let packet = frame.get(start..).map_or(0, |b| Sum::of(b).value());
    let (mut status, mut errors) = (0, 0);
    if rxcsum & (RXCSUM_IPOFL | RXCSUM_TUOFL) != 0 {
        let v = verify(frame);
        if rxcsum & RXCSUM_IPOFL != 0 && matches!(v.ip, Check::Good | Check::Bad) {
            status |= Rx::IPCS;
            if v.ip == Check::Bad {
                errors |= Rx::IPE;
            }
        }
        if rxcsum & RXCSUM_TUOFL != 0 && matches!(v.transport, Check::Good | Check::Bad) {
            let udp = Layers::of(frame).is_ok_and(|l| l.transport == Some(Transport::Udp));
            status |= Rx::TCPCS | if udp { Rx::UDPCS } else { 0 };
            if v.transport == Check::Bad {
                errors |= Rx::TCPE;
            }
        }
    }
    (if status == 0 { Rx::IXSM } else { status }, errors, packet)
}

#[cfg(test)]
mod tests;
