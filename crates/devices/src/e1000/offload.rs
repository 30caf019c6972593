//! Checksum insertion and segmentation on the chip, by offsets of a context descriptor.
//!
//! A checksum field is summed as it is found, so a driver leaves the pseudo-header's sum there. A
//! segment is the header and up to MSS bytes; lengths, IPv4 identification and TCP sequence number
//! advance, FIN and PSH are cleared but on the last. CWR is not cleared on later segments: a driver
//! must not offer packets with it. An offset outside the packet writes nothing.
//!
//! Source: SDM 3.5 and 3.6.

use doorbell_layout::e1000::{ContextTx, tx_word};
use doorbell_packet::checksum::Sum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) ip_start: u8,
    pub(super) ip_offset: u8,
    /// Last byte summed; 0: the packet's.
    pub(super) ip_end: u16,
    pub(super) start: u8,
    pub(super) offset: u8,
    /// As `ip_end`.
    pub(super) end: u16,
    pub(super) tcp: bool,
    pub(super) ipv4: bool,
    pub(super) payload: u32,
    pub(super) header: u8,
    pub(super) mss: u16,
}

fn put16(b: &mut [u8], at: usize, v: u16) {
    if let Some(f) = b.get_mut(at..at + 2) {
        f.copy_from_slice(&v.to_be_bytes());
    }
}

fn be16(b: &[u8], at: usize) -> u16 {
    b.get(at..at + 2).map_or(0, |f| u16::from_be_bytes([f[0], f[1]]))
}

/// The sum of bytes `start..=end`; `None` where there are none.
fn sum(b: &[u8], start: u8, end: u16) -> Option<Sum> {
    let stop = if end == 0 { b.len() } else { b.len().min(usize::from(end) + 1) };
    b.get(usize::from(start)..stop).filter(|s| !s.is_empty()).map(Sum::of)
}

impl Context {
    pub(super) fn of(d: ContextTx) -> Context {
        let word = d.word.get();
        Context {
            ip_start: d.ipcss,
            ip_offset: d.ipcso,
            ip_end: d.ipcse.get(),
            start: d.tucss,
            offset: d.tucso,
            end: d.tucse.get(),
            tcp: word & tx_word::TCP != 0,
            ipv4: word & tx_word::IP != 0,
            payload: word & tx_word::LENGTH,
            header: d.hdrlen,
            mss: d.mss.get(),
        }
    }

    /// Inserts the IP header checksum.
    pub(super) fn insert_ip(&self, packet: &mut [u8]) {
        if let Some(s) = sum(packet, self.ip_start, self.ip_end) {
            put16(packet, self.ip_offset.into(), s.checksum());
        }
    }

    /// Inserts the transport checksum; `extra` is added to the sum.
    pub(super) fn insert_transport(&self, packet: &mut [u8], extra: u32) {
        if let Some(s) = sum(packet, self.start, self.end) {
            let s = s.plus_be32(extra);
            // A UDP checksum of 0 says that there is none.
            let check = if self.tcp { s.checksum() } else { s.udp_checksum() };
            put16(packet, self.offset.into(), check);
        }
    }

    /// Makes a segment of header and payload: the `number`th, after `before` bytes.
    pub(super) fn patch(&self, packet: &mut [u8], number: u32, before: u32, last: bool) {
        let (l3, l4) = (usize::from(self.ip_start), usize::from(self.start));
        let from_l3 = packet.len().saturating_sub(l3);
        if self.ipv4 {
            put16(packet, l3 + 2, from_l3 as u16);
            let id = be16(packet, l3 + 4).wrapping_add(number as u16);
            put16(packet, l3 + 4, id);
        } else {
            put16(packet, l3 + 4, from_l3.saturating_sub(40) as u16);
        }
        if self.tcp {
            if let Some(f) = packet.get_mut(l4 + 4..l4 + 8) {
                let seq = u32::from_be_bytes([f[0], f[1], f[2], f[3]]).wrapping_add(before);
                f.copy_from_slice(&seq.to_be_bytes());
            }
            if let Some(flags) = packet.get_mut(l4 + 13)
                && !last
            {
                *flags &= !0x09;
            }
        } else {
            let len = packet.len().saturating_sub(l4) as u16;
            put16(packet, l4 + 4, len);
        }
    }
}

/// Legacy: sums from `start` to the end, and writes at `offset`.
pub(super) fn legacy(packet: &mut [u8], start: u8, offset: u8) {
    if let Some(s) = sum(packet, start, 0) {
        put16(packet, offset.into(), s.checksum());
    }
}

#[cfg(test)]
mod tests;
