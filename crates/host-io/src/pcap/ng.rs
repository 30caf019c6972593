//! pcapng: sections of blocks. Section, interface and the three kinds of packet blocks are read;
//! all others are skipped. Section numbers are those of draft-ietf-opsawg-pcapng.

use super::{Arena, FCS, Fault, MAX_FRAME, Packet, input::Input};
use doorbell_hal::fail_if;
use pcap_parser::pcapng::{Block, OptionCode, PcapNGOption, parse_block_be, parse_block_le};
use std::io::Read;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Obsolete since 2004, still written by some appliances (appendix A).
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The longest block in bytes that is read, as in Wireshark.
const MAX_BLOCK: u32 = 16 << 20;

/// The most interfaces of a section.
const MAX_INTERFACES: usize = 1 << 16;

const IF_FCSLEN: u16 = 13;
/// `epb_flags` and, in old packets, `pack_flags`.
const FLAGS: u16 = 2;

/// The fields of an interface block that its packets need (section 4.2).
struct Interface {
    link: u32,
    snap: u32,
    clock: Clock,
    fcs: u32,
}

/// The time base of an interface.
#[derive(Clone, Copy)]
struct Clock {
    ticks_per_second: u128,
    offset_s: i64,
}

impl Clock {
    fn ns(self, high: u32, low: u32) -> i128 {
        let ticks = u64::from(high) << 32 | u64::from(low);
        // 2^64 * 10^9 fits well.
        let ns = u128::from(ticks) * 1_000_000_000 / self.ticks_per_second;
        ns as i128 + i128::from(self.offset_s) * 1_000_000_000
    }
}

/// The current section: its byte order and its interfaces, counted from 0.
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

pub(super) fn read<R: Read>(input: &mut Input<R>, arena: &mut Arena) -> Result<(), Fault> {
    let mut section = Section { big_endian: false, interfaces: Vec::new() };
    loop {
        section.block(input, arena)?;
        if input.at_end()? {
            return Ok(());
        }
    }
}

impl Section {
    fn block<R: Read>(&mut self, input: &mut Input<R>, arena: &mut Arena) -> Result<(), Fault> {
        let kind = self.u32(input.upto(8)?);
        if kind == SECTION {
            // The byte order follows the length, which needs it.
            self.big_endian = match input.upto(12)?[8..] {
                [0x1a, 0x2b, 0x3c, 0x4d] => true,
                [0x4d, 0x3c, 0x2b, 0x1a] => false,
                _ => {
                    return Err(Fault::Malformed(
                        "the section header's byte-order magic is not 1a2b3c4d",
                    ));
                }
            };
        }
        let len = self.u32(&input.upto(8)?[4..]);
        if len < 12 || !len.is_multiple_of(4) {
            return Err(Fault::Malformed("a block length is below 12 or not a multiple of 4"));
        }
        if !matches!(kind, SECTION | INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
            return input.skip_to(u64::from(len));
        }
        fail_if(len > MAX_BLOCK, Fault::Malformed("a block is longer than 16 MiB"))?;
        let bytes = input.upto(len as usize)?;
        if self.u32(&bytes[bytes.len() - 4..]) != len {
            return Err(Fault::Malformed("a block's two lengths differ"));
        }
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        // The block is complete, so `Incomplete` is an error too.
        let Ok((_, block)) = parse(bytes) else {
            return Err(Fault::Malformed("a block's content does not fit its length"));
        };
        self.take(block, arena)
    }

    fn u16(&self, b: &[u8]) -> u16 {
        let b = *b.first_chunk().expect("two bytes");
        if self.big_endian { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) }
    }

    fn u32(&self, b: &[u8]) -> u32 {
        let b = *b.first_chunk().expect("four bytes");
        if self.big_endian { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
    }

    fn take(&mut self, block: Block<'_>, arena: &mut Arena) -> Result<(), Fault> {
        match block {
            Block::SectionHeader(s) => {
                fail_if(s.major_version != 1, Fault::Version(s.major_version, s.minor_version))?;
                self.interfaces.clear();
                Ok(())
            }
            Block::InterfaceDescription(i) => {
                let interface = Interface {
                    link: i.linktype.0 as u32,
                    snap: i.snaplen,
                    clock: self.clock(&i.options)?,
                    fcs: interface_fcs(&i.options)?,
                };
                let full = self.interfaces.len() == MAX_INTERFACES;
                fail_if(full, Fault::Malformed("a section describes more than 65536 interfaces"))?;
                self.interfaces.push(interface);
                arena.known = arena.known.max(self.interfaces.len() as u32);
                Ok(())
            }
            Block::EnhancedPacket(p) => {
                let i = self.interface(p.if_id)?;
                let data = captured(p.data, p.caplen)?;
                let flags = option(&p.options, OptionCode(FLAGS))?;
                let fcs = flags.map_or(Ok(None), |v| self.flags_fcs(v))?.unwrap_or(i.fcs);
                let ns = Some(i.clock.ns(p.ts_high, p.ts_low));
                let packet = Packet { ns, data, original: p.origlen, link: i.link, fcs };
                arena.add(p.if_id, packet)
            }
            Block::SimplePacket(p) => {
                let i = self.interface(0)?;
                let snap = if i.snap == 0 { u32::MAX } else { i.snap };
                let data = captured(p.data, p.origlen.min(snap))?;
                let (original, link, fcs) = (p.origlen, i.link, i.fcs);
                arena.add(0, Packet { ns: None, data, original, link, fcs })
            }
            Block::Unknown(b) => self.old_packet(b.data, arena),
            _ => Err(Fault::Malformed("a block is not of the kind it says")),
        }
    }

    /// Adds an old packet (appendix A). Interface and drop count share the first word; the rest is
    /// as in an enhanced packet.
    fn old_packet(&self, content: &[u8], arena: &mut Arena) -> Result<(), Fault> {
        let Some((head, rest)) = content.split_first_chunk::<20>() else {
            return Err(Fault::Malformed("a packet block is shorter than its own header"));
        };
        let id = u32::from(self.u16(head));
        let i = self.interface(id)?;
        let word = |n: usize| self.u32(&head[4 * n..]);
        let data = captured(rest, word(3))?;
        let options = &rest[data.len().next_multiple_of(4).min(rest.len())..];
        let fcs = self.old_packet_fcs(options)?.unwrap_or(i.fcs);
        let ns = Some(i.clock.ns(word(1), word(2)));
        arena.add(id, Packet { ns, data, original: word(4), link: i.link, fcs })
    }

    fn interface(&self, id: u32) -> Result<&Interface, Fault> {
        let known = self.interfaces.len() as u32;
        self.interfaces.get(id as usize).ok_or(Fault::Interface { id, known })
    }

    /// Decodes `if_tsresol` (default 1 us) and `if_tsoffset`. pcap-parser 0.17 always reads the
    /// offset as little-endian and refuses powers of two.
    fn clock(&self, options: &[PcapNGOption<'_>]) -> Result<Clock, Fault> {
        let mut clock = Clock { ticks_per_second: 1_000_000, offset_s: 0 };
        if let Some(v) = option(options, OptionCode::IfTsresol)? {
            let &[n] = v else { return Err(Fault::Malformed("if_tsresol is not of 1 byte")) };
            clock.ticks_per_second = match n {
                0..=19 => 10_u128.pow(u32::from(n)),
                0x80..=0xbf => 1 << (n & 0x7f),
                _ => return Err(Fault::Resolution(n)),
            };
        }
        if let Some(v) = option(options, OptionCode::IfTsoffset)? {
            let v: [u8; 8] =
                v.try_into().map_err(|_| Fault::Malformed("if_tsoffset is not of 8 bytes"))?;
            clock.offset_s =
                if self.big_endian { i64::from_be_bytes(v) } else { i64::from_le_bytes(v) };
        }
        Ok(clock)
    }

    /// Decodes the FCS length in bytes from a packet's flags, bits 5 to 8 (section 4.3.1). It
    /// overrides the interface's; 0 means unknown.
    fn flags_fcs(&self, v: &[u8]) -> Result<Option<u32>, Fault> {
        fail_if(v.len() != 4, Fault::Malformed("a packet's flags are not of 4 bytes"))?;
        match self.u32(v) >> 5 & 0xf {
            0 => Ok(None),
            4 => Ok(Some(FCS)),
            n => Err(Fault::FcsLength(n as u8, "bytes (packet flags)")),
        }
    }

    /// Finds the flags of an old packet, whose options pcap-parser does not decode, and in them the
    /// FCS length.
    fn old_packet_fcs(&self, mut options: &[u8]) -> Result<Option<u32>, Fault> {
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let (code, len) = (self.u16(head), usize::from(self.u16(&head[2..])));
            if code == OptionCode::EndOfOpt.0 {
                break;
            }
            let Some(value) = rest.get(..len) else {
                return Err(Fault::Malformed("an option is longer than its block"));
            };
            if code == FLAGS {
                return self.flags_fcs(value);
            }
            options = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
        Ok(None)
    }
}

/// Decodes `if_fcslen`, which is in bits by the text of section 4.2.1 and in bytes by its example.
/// Files have both; for Ethernet they differ.
fn interface_fcs(options: &[PcapNGOption<'_>]) -> Result<u32, Fault> {
    match option(options, OptionCode(IF_FCSLEN))? {
        None | Some([0]) => Ok(0),
        Some([4 | 32]) => Ok(FCS),
        Some(&[n]) => Err(Fault::FcsLength(n, "bits (if_fcslen)")),
        Some(_) => Err(Fault::Malformed("if_fcslen is not of 1 byte")),
    }
}

/// Returns the first option of that code, without padding. Options end at `opt_endofopt`.
fn option<'a>(all: &'a [PcapNGOption<'_>], code: OptionCode) -> Result<Option<&'a [u8]>, Fault> {
    let found = all.iter().take_while(|o| o.code != OptionCode::EndOfOpt).find(|o| o.code == code);
    found
        .map(|o| o.as_bytes().map_err(|_| Fault::Malformed("an option is longer than its block")))
        .transpose()
}

/// Returns the captured bytes of a packet block, without padding and options.
fn captured(data: &[u8], caplen: u32) -> Result<&[u8], Fault> {
    fail_if(caplen > MAX_FRAME + FCS, Fault::Length(caplen))?;
    data.get(..caplen as usize).ok_or(Fault::Malformed("a packet is longer than its block"))
}
