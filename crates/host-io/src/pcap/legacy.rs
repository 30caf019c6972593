//! pcap, the older format: one header, then packets, all of one link type.

use super::{Arena, FCS, Fault, MAX_FRAME, Packet, input::Input};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};
use std::io::Read;

const HEADER: usize = 24;
const RECORD: usize = 16;
/// Four bytes, counted in 16-bit words.
const ETHERNET_FCS_WORDS: u8 = 2;

pub(super) fn read<R: Read>(input: &mut Input<R>, arena: &mut Arena) -> Result<(), Fault> {
    let Ok((_, header)) = parse_pcap_header(input.upto(HEADER)?) else {
        return Err(Fault::Malformed("the pcap header cannot be decoded"));
    };
    if (header.version_major, header.version_minor) != (2, 4) {
        return Err(Fault::Version(header.version_major, header.version_minor));
    }
    let (link, fcs) = link_and_fcs(header.network.0 as u32)?;
    let unit_ns = if header.is_nanosecond_precision() { 1 } else { 1_000 };
    let big_endian = header.is_bigendian();
    while !input.at_end()? {
        let caplen: [u8; 4] =
            *input.upto(RECORD)?[8..].first_chunk().expect("a record header has 16 bytes");
        let caplen =
            if big_endian { u32::from_be_bytes(caplen) } else { u32::from_le_bytes(caplen) };
        if caplen > MAX_FRAME + fcs {
            return Err(Fault::Length(caplen - fcs));
        }
        let parse = if big_endian { parse_pcap_frame_be } else { parse_pcap_frame };
        let Ok((_, p)) = parse(input.upto(RECORD + caplen as usize)?) else {
            return Err(Fault::Malformed("a packet record cannot be decoded"));
        };
        let ns = i128::from(p.ts_sec) * 1_000_000_000 + i128::from(p.ts_usec) * unit_ns;
        arena.add(0, Packet { ns: Some(ns), data: p.data, original: p.origlen, link, fcs })?;
    }
    Ok(())
}

/// Decodes the header's last word: link type in the low half; if bit 26 is set, bits 28 to 31 are
/// the FCS length in 16-bit words. Returns the link type and the FCS length in bytes.
fn link_and_fcs(word: u32) -> Result<(u32, u32), Fault> {
    let link = word & 0xffff;
    if word & 1 << 26 == 0 {
        return Ok((link, 0));
    }
    match (word >> 28) as u8 {
        0 => Ok((link, 0)),
        ETHERNET_FCS_WORDS => Ok((link, FCS)),
        n => Err(Fault::FcsLength(n, "16-bit words (pcap header)")),
    }
}
