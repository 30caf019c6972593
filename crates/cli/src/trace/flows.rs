//! A packet's way through a recorded run.
//!
//! Nobody stamps a packet: what is known is what an onlooker at the machine would know. On the way
//! out, the driver's call that mapped a buffer (or copied into a slot) owns it; a device that reads
//! there fetches that packet; a frame that ends as those bytes end is that packet on the wire; and
//! the unmapping gives it back. On the way in, what the device writes to a buffer is the frame that
//! begins so, and whoever looks into that buffer, copies out of it or unmaps it has received it.
//! Between partitions there is no wire: what is written to one was read from the other.
//!
//! Equal packets are told apart by their order. A device may change bytes on the way (checksums,
//! the headers of segments, padding), so of several candidates the one with the fewest differences
//! wins, the first among equals.

use super::Flight;
use doorbell_bus::trace::{CpuStep, DmaStage, EventKind, MappedRange};
use doorbell_hal::{Direction, Time};
use doorbell_lab::trace::Traced;
use std::collections::BTreeMap;

/// A place that a packet passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A platform's event: their numbers.
    Event(usize, usize),
    /// A frame.
    Frame(usize),
}

/// A packet and where it was seen.
#[derive(Debug, Default)]
struct Packet {
    places: Vec<Place>,
    /// Whether it got across: the wire, or to another partition.
    crossed: bool,
}

/// What the device has read of a packet, in one piece of its addresses.
#[derive(Debug)]
struct Fetched {
    packet: usize,
    platform: usize,
    /// The device's address behind it.
    end: u64,
    from: Time,
    bytes: Vec<u8>,
    /// Up to where it has been found on the wire: a large send is many frames.
    found: usize,
}

/// How far ahead of what was not found yet is looked: more than one packet may be under way.
const AHEAD: usize = 256;

/// Finds the ways of the packets that crossed, in the order in which they began.
pub(super) fn find(traced: &Traced, frames: &[Flight<'_>]) -> Vec<Vec<Place>> {
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

/// Calls, fetches and unmappings of what a platform sends.
fn sent(traced: &Traced, platform: usize, packets: &mut Vec<Packet>, fetched: &mut Vec<Fetched>) {
    let trace = &traced.platforms[platform];
    // What the device may read: from where to where, and whose it is.
    let mut lent: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    // The packet that a core is handing over; its call is noted when it is over.
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
                        let bytes = bytes.to_vec();
                        fetched.push(Fetched {
                            packet,
                            platform,
                            end,
                            from: e.from,
                            bytes,
                            found: 0,
                        });
                    }
                }
            }
            _ => {}
        }
    }
}

/// Deliveries to a platform, and who took them.
fn received(
    traced: &Traced,
    platform: usize,
    frames: &[Flight<'_>],
    flying: &mut Vec<usize>,
    packets: &mut Vec<Packet>,
    fetched: &mut Vec<Fetched>,
) {
    let trace = &traced.platforms[platform];
    // What was delivered and not yet taken: where, whose, and whether it was looked at.
    let mut waiting: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
    // A frame of which a part is still to come: its packet, and how much was delivered.
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

/// Whether delivered bytes are the beginning of a frame, and how much of it. A device may write
/// something of its own before it.
fn begins(bytes: &[u8], frame: &[u8]) -> Option<usize> {
    (0..=16).find_map(|ahead| {
        let bytes = bytes.get(ahead..)?;
        let n = bytes.len().min(frame.len());
        (n >= 14.min(frame.len()) && bytes[..n] == frame[..n]).then_some(n)
    })
}

/// The packet of which `frame` is, or is the next part; on `not` this platform.
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
    // What was fetched of it before went into this frame, too.
    let mut n = 0;
    fetched.retain(|f| {
        n += 1;
        f.packet != packet || n > i + 1 || (n == i + 1 && f.found < f.bytes.len())
    });
    Some(packet)
}

/// How many bytes at the end must be equal, of a frame that has a payload.
const TAIL: usize = 12;
/// And of one that has none: those behind TCP's checksum.
const URGENT: usize = 2;

/// Where in what was fetched a frame ends, and in how many bytes they differ.
fn ends_as(f: &Fetched, frame: &[u8]) -> Option<(usize, usize)> {
    let left = f.bytes.len() - f.found;
    [frame, unpadded(frame)].into_iter().find_map(|frame| {
        // All that is left of it; or a segment with the headers before it; or one of the next ones.
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

/// A frame without what was appended to make it 60 bytes long.
fn unpadded(frame: &[u8]) -> &[u8] {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, _, _, high, low, ..] => {
            &frame[..frame.len().min(14 + usize::from(u16::from_be_bytes([*high, *low])))]
        }
        _ => frame,
    }
}

/// Bytes before a TCP or UDP payload; 0 for anything else.
fn headers(frame: &[u8]) -> usize {
    let word = |at: usize| frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let byte = |at: usize| frame.get(at).copied().unwrap_or(0);
    let ip = if word(12) == 0x8100 { 18 } else { 14 };
    let (transport, protocol) = match word(ip - 2) {
        0x0800 => (ip + 4 * usize::from(byte(ip) & 15), byte(ip + 9)),
        0x86dd => (ip + 40, byte(ip + 6)),
        _ => return 0,
    };
    match protocol {
        6 => transport + 4 * usize::from(byte(transport + 12) >> 4),
        17 => transport + 8,
        _ => 0,
    }
}
