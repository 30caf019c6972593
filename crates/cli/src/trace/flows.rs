//! The path of each packet through a recorded run, from addresses and bytes alone.
//!
//! Sending, the driver's call that maps a buffer owns it, a device read there fetches the packet, a
//! frame with the same end is the packet on the wire, and the unmapping returns it. Receiving, the
//! device writes the begin of a frame to a buffer; a later look, copy or unmapping receives it.
//! Between partitions, a write to one is a read from the other. Equal packets are distinguished by
//! their order. A device may change bytes (checksums, headers, padding), so the candidate with the
//! fewest differences wins.

use super::Flight;
use doorbell_bus::trace::{CpuStep, DmaStage, EventKind, MappedRange};
use doorbell_hal::{Direction, Time};
use doorbell_packet::headers::Layers;
use doorbell_sim::Recording;
use std::collections::BTreeMap;

/// A slice that a packet passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Numbers of a platform and of its event.
    Event(usize, usize),
    Frame(usize),
}

#[derive(Debug, Default)]
struct Packet {
    places: Vec<Place>,
    /// It reached the wire or another partition.
    crossed: bool,
}

/// Bytes of a packet that the device read at contiguous addresses.
struct Fetched {
    packet: usize,
    platform: usize,
    /// The address behind them.
    end: u64,
    from: Time,
    bytes: Vec<u8>,
    /// End of the part found on the wire so far; a large send is many frames.
    found: usize,
}

/// The most candidates for a match; several packets may be under way.
const AHEAD: usize = 256;

/// Returns the paths of all packets that crossed, in the order of their begin.
pub(super) fn find(traced: &Recording, frames: &[Flight<'_>]) -> Vec<Vec<Place>> {
    let mut packets = Vec::new();
    let mut fetched = Vec::new();
    for platform in 0..traced.platforms.len() {
        sent(traced, platform, &mut packets, &mut fetched);
    }
    for (i, frame) in frames.iter().enumerate().filter(|(_, f)| f.out) {
        if let Some(packet) = take(&mut fetched, frame.bytes, frame.from, None) {
            cross(&mut packets[packet], Place::Frame(i));
        }
    }
    let mut flying: Vec<usize> = (0..frames.len()).filter(|i| !frames[*i].out).collect();
    for platform in 0..traced.platforms.len() {
        received(traced, platform, frames, &mut flying, &mut packets, &mut fetched);
    }
    packets.retain(|p| p.crossed);
    packets.into_iter().map(|p| p.places).collect()
}

fn cross(p: &mut Packet, place: Place) {
    p.crossed = true;
    p.places.push(place);
}

/// Finds calls, fetches and unmappings of sent packets.
fn sent(all: &Recording, platform: usize, packets: &mut Vec<Packet>, fetched: &mut Vec<Fetched>) {
    let trace = &all.platforms[platform];
    // Areas that the device may read: begin, end, and packet.
    let mut lent: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    // The packet that each core is sending; its call is recorded at the end.
    let mut current: BTreeMap<u16, usize> = BTreeMap::new();
    for (i, e) in trace.events().iter().enumerate() {
        let place = Place::Event(platform, i);
        let area = match &e.what {
            EventKind::Core(core, CpuStep::Map(l)) if l.dir == Direction::ToDevice => {
                Some((core, l.at, l.len))
            }
            EventKind::Core(core, CpuStep::Copy(at, len)) => Some((core, *at, *len)),
            _ => None,
        };
        if let Some((core, at, len)) = area {
            let packet = *current.entry(*core).or_insert_with(|| {
                packets.push(Packet::default());
                packets.len() - 1
            });
            lent.insert(at.0, (at.0 + u64::from(len), packet));
        }
        match &e.what {
            EventKind::Core(core, CpuStep::Call(_)) => {
                if let Some(packet) = current.remove(core) {
                    packets[packet].places.push(place);
                }
            }
            EventKind::Core(_, CpuStep::Unmap(l)) if l.dir == Direction::ToDevice => {
                if let Some((_, packet)) = lent.remove(&l.at.0) {
                    packets[packet].places.push(place);
                }
            }
            EventKind::Device(DmaStage::FetchData, at, bytes) => {
                let owner =
                    lent.range(..=at.0).next_back().map(|(_, o)| *o).filter(|(end, _)| at.0 < *end);
                let (Some((_, packet)), Some(bytes)) = (owner, trace.bytes(*bytes)) else {
                    continue;
                };
                packets[packet].places.push(place);
                let end = at.0 + bytes.len() as u64;
                let goes_on = |f: &&mut Fetched| f.packet == packet && f.end == at.0;
                match fetched.iter_mut().rev().take(AHEAD).find(goes_on) {
                    Some(f) => {
                        f.end = end;
                        f.bytes.extend_from_slice(bytes);
                    }
                    None => {
                        let (bytes, from) = (bytes.to_vec(), e.from);
                        fetched.push(Fetched { packet, platform, end, from, bytes, found: 0 });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Finds deliveries to a platform and their receivers.
fn received(
    traced: &Recording,
    platform: usize,
    frames: &[Flight<'_>],
    flying: &mut Vec<usize>,
    packets: &mut Vec<Packet>,
    fetched: &mut Vec<Fetched>,
) {
    let trace = &traced.platforms[platform];
    // Delivered data that was not yet taken: address, packet, and whether it was looked at.
    let mut waiting: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
    // A frame with a missing part: its packet, and the delivered length.
    let mut rest: Option<(usize, usize, usize)> = None;
    for (i, e) in trace.events().iter().enumerate() {
        let place = Place::Event(platform, i);
        match &e.what {
            EventKind::Device(DmaStage::DeliverData, at, bytes) => {
                let Some(bytes) = trace.bytes(*bytes) else { continue };
                let goes_on = rest.take().and_then(|(frame, packet, done)| {
                    let whole = frames[frame].bytes;
                    let n = bytes.len().min(whole.len() - done);
                    let same = bytes[..n] == whole[done..done + n];
                    same.then(|| {
                        (packet, (done + n < whole.len()).then_some((frame, packet, done + n)))
                    })
                });
                let found = goes_on.or_else(|| {
                    let ahead = flying.iter().take(AHEAD).copied();
                    let begins = ahead
                        .filter_map(|f| Some((f, begins(bytes, frames[f].bytes)?)))
                        .find(|(f, _)| frames[*f].until <= e.until);
                    let (frame, n) = begins?;
                    flying.retain(|f| *f != frame);
                    packets.push(Packet::default());
                    let packet = packets.len() - 1;
                    cross(&mut packets[packet], Place::Frame(frame));
                    Some((packet, (n < frames[frame].bytes.len()).then_some((frame, packet, n))))
                });
                let found =
                    found.or_else(|| Some((take(fetched, bytes, e.until, Some(platform))?, None)));
                let Some((packet, more)) = found else { continue };
                rest = more;
                cross(&mut packets[packet], place);
                waiting.insert(at.0, (packet, false));
            }
            EventKind::Core(_, CpuStep::Look(l)) => {
                for (packet, looked) in
                    waiting.range_mut(l.at.0..l.at.0 + u64::from(l.len)).map(|(_, w)| w)
                {
                    if !std::mem::replace(looked, true) {
                        packets[*packet].places.push(place);
                    }
                }
            }
            EventKind::Core(
                _,
                CpuStep::Unmap(MappedRange { at, len, dir: Direction::FromDevice })
                | CpuStep::CopyOut(at, len),
            ) => {
                for (_, (packet, _)) in
                    waiting.extract_if(at.0..at.0 + u64::from(*len), |_, _| true)
                {
                    packets[packet].places.push(place);
                }
            }
            _ => {}
        }
    }
}

/// Returns the length of a frame's begin that delivered bytes have, if they do. A device may write
/// a header of its own before it.
fn begins(bytes: &[u8], frame: &[u8]) -> Option<usize> {
    (0..=16).find_map(|ahead| {
        let bytes = bytes.get(ahead..)?;
        let n = bytes.len().min(frame.len());
        (n >= 14.min(frame.len()) && bytes[..n] == frame[..n]).then_some(n)
    })
}

/// Returns the packet that `frame` is, or is the next part of; not of platform `not`.
fn take(fetched: &mut Vec<Fetched>, frame: &[u8], by: Time, not: Option<usize>) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    let fits = |f: &Fetched| f.from <= by && Some(f.platform) != not;
    for (i, f) in fetched.iter().enumerate().filter(|(_, f)| fits(f)).take(AHEAD) {
        let Some((end, unlike)) = ends_as(f, frame) else { continue };
        if best.is_none_or(|(_, _, least)| unlike < least) {
            best = Some((i, end, unlike));
        }
        if unlike == 0 {
            break;
        }
    }
    let (i, end, _) = best?;
    let packet = fetched[i].packet;
    fetched[i].found = end;
    // Earlier fetches of the packet are in this frame, too.
    let mut n = 0;
    fetched.retain(|f| {
        n += 1;
        f.packet != packet || n > i + 1 || (n == i + 1 && f.found < f.bytes.len())
    });
    Some(packet)
}

/// Bytes at the end that must be equal in a frame with a payload.
const TAIL: usize = 12;
/// Bytes at the end that must be equal otherwise: those behind the TCP checksum.
const URGENT: usize = 2;

/// Returns the end of a frame in the fetched bytes, and the number of different bytes.
fn ends_as(f: &Fetched, frame: &[u8]) -> Option<(usize, usize)> {
    let left = f.bytes.len() - f.found;
    [frame, unpadded(frame)].into_iter().find_map(|frame| {
        // All remaining bytes; or the first segment, with its headers; or a later one.
        let payload = frame.len() - headers(frame).min(frame.len());
        let ends = [
            Some(f.bytes.len()).filter(|_| left <= frame.len()),
            Some(frame.len()).filter(|_| f.found == 0),
        ];
        ends.into_iter().flatten().chain([f.found + payload]).find_map(|end| {
            let got = f.bytes.get(..end)?;
            let n = got.len().min(frame.len());
            let tail = n.min(TAIL).min(if payload > 0 { payload } else { URGENT });
            let same = tail > 0 && got[got.len() - tail..] == frame[frame.len() - tail..];
            let pairs = || got[got.len() - n..].iter().zip(&frame[frame.len() - n..]);
            same.then(|| (end, pairs().filter(|(a, b)| a != b).count()))
        })
    })
}

/// Returns a frame without its padding to 60 bytes.
fn unpadded(frame: &[u8]) -> &[u8] {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, _, _, high, low, ..] => {
            &frame[..frame.len().min(14 + usize::from(u16::from_be_bytes([*high, *low])))]
        }
        _ => frame,
    }
}

/// Returns the length of the headers before a TCP or UDP payload; 0 for other frames.
fn headers(frame: &[u8]) -> usize {
    Layers::of(frame).ok().filter(|l| l.transport.is_some()).map_or(0, |l| l.end.into())
}
