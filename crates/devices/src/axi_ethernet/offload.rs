//! Checksums by application words.
//!
//! Partial offload knows no protocol: transmit sums from a start to the frame's end on top of a
//! seed and stores the complement where APP1 says; receive puts the sum from byte 14 on into APP3.
//! Full offload knows IPv4 behind at most one tag, and TCP and UDP that are not fragments: transmit
//! makes both checksums, receive says in APP2 which were right.
//!
//! Source: PG138, "Normal Transmit AXI4-Stream Control Words", "Partial" and "Full TCP/UDP Checksum
//! Offload in Hardware".

use super::config::{Checksum, Config};
use doorbell_layout::axienet::{rx_app, tx_app};
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Check, Ip, Layers, Transport, Verdict, verify};
use doorbell_packet::tunnel::verify_at;

/// Offset of the checksum in an IPv4 header.
const IP_CHECKSUM: usize = 10;

/// Completes a frame as its APP0 to APP2 say, as far as the core was built for it.
pub(super) fn transmit(cfg: &Config, app: [u32; 3], frame: &mut [u8]) {
    match (cfg.tx_checksum, app[0] & tx_app::CHECKSUM) {
        (Checksum::CsumPartial, tx_app::PARTIAL) => {
            let start = (app[1] >> tx_app::START_SHIFT) as usize;
            let insert = (app[1] & tx_app::INSERT) as usize;
            let sum = frame.get(start..).map_or(Sum::ZERO, Sum::of);
            let sum = sum.plus_be16((app[2] & tx_app::SEED) as u16);
            let check = if cfg.zero_checksum { sum.checksum() } else { sum.udp_checksum() };
            store(frame, insert, check);
        }
        (Checksum::Full, tx_app::FULL) => complete(frame),
        _ => {}
    }
}

/// Checks what a frame's APP0 to APP2 asked for.
pub(super) fn audit(app: [u32; 3], frame: &[u8]) -> Verdict {
    match app[0] & tx_app::CHECKSUM {
        tx_app::PARTIAL => {
            let verdict = verify_at(frame, (app[1] >> tx_app::START_SHIFT) as u16);
            // The IP header is the sender's.
            Verdict { ip: Check::NotApplicable, ..verdict }
        }
        _ => verify(frame),
    }
}

/// Stores a checksum; outside the frame, nothing is there to be changed.
fn store(frame: &mut [u8], at: usize, v: u16) {
    if let Some(to) = frame.get_mut(at..at + 2) {
        to.copy_from_slice(&v.to_be_bytes());
    }
}

/// The layers of a frame that full offload knows.
fn known(frame: &[u8]) -> Option<Layers> {
    let l = Layers::of(frame).ok().filter(|l| l.ip == Ip::V4)?;
    let tags = &frame[HEADER - 2..usize::from(l.l3) - 2];
    (tags.is_empty() || tags.len() == 4 && tags[..2] == [0x81, 0]).then_some(l)
}

fn complete(frame: &mut [u8]) {
    let Some(l) = known(frame) else { return };
    let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
    store(frame, l3 + IP_CHECKSUM, 0);
    let header = Sum::of(&frame[l3..l4]).checksum();
    store(frame, l3 + IP_CHECKSUM, header);
    let (Some(transport), Some(datagram)) = (l.transport, l.datagram(frame)) else { return };
    let field = l4 + usize::from(transport.checksum_offset());
    store(frame, field, 0);
    let sum =
        l.pseudo_header(frame, (datagram.end - l4) as u32).plus(Sum::of(&frame[l4..datagram.end]));
    let check = match transport {
        Transport::Tcp => sum.checksum(),
        Transport::Udp => sum.udp_checksum(),
    };
    store(frame, field, check);
}

/// APP2 and APP3 of a received frame without FCS.
#[inline(always)]
pub(super) fn receive(built: Checksum, frame: &[u8]) -> (u32, u32) {
    match built {
        Checksum::None => (0, 0),
        Checksum::CsumPartial => {
            (0, frame.get(rx_app::SUM_FROM..).map_or(0, |b| Sum::of(b).value().into()))
        }
        Checksum::Full => (status(frame) << rx_app::STATUS_SHIFT, 0),
    }
}

fn status(frame: &[u8]) -> u32 {
    let Some(l) = known(frame) else { return rx_app::NONE };
    let v = verify(frame);
    match (v.ip, v.transport, l.transport) {
        (Check::Bad, ..) => rx_app::IP_BAD,
        (Check::Good, Check::Bad, _) => rx_app::TRANSPORT_BAD,
        (Check::Good, Check::Good, Some(Transport::Tcp)) => rx_app::TCP_GOOD,
        (Check::Good, Check::Good, Some(Transport::Udp)) => rx_app::UDP_GOOD,
        (Check::Good, ..) => rx_app::IP_GOOD,
        _ => rx_app::NONE,
    }
}
