//! Replay of captured frames.
//!
//! Frames are prepared as a stack would pass them on. With checksum offload the TCP or UDP
//! checksum, in a tunnel the inner one, is reset to the pseudo-header's sum for the device to
//! complete. Without, the frame is unchanged. A frame over the MTU is sent as a large send only. Of
//! a capture that several cores send, each has frames of its own; [`Frames::spread`] gives it those
//! of whole flows.

use super::{Next, Pace, Traffic};
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, Span, Time};
use doorbell_packet::captured::{prepare_checksum, prepare_large, remove_jumbo_header};
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_packet::{Fragment, OffloadRequest, Packet, ethernet, vlan};
use std::collections::BTreeMap;
use std::sync::Arc;

mod segment_sizes;

pub use segment_sizes::SegmentSizes;

/// Frames in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    /// The packets of the file that they are from.
    pub file: CaptureFile,
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    after_first: Span,
    start: usize,
    len: u32,
    /// Its number in the file, from 1.
    number: u32,
}

/// The content of a capture file, as its reader counted it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureFile {
    /// Packets, those that were left out included; 0 if the frames are from no file.
    pub packets: u64,
    /// Frames that were captured in part, and filled with zeros.
    pub padded: u64,
    /// Frames whose Ethernet header is made up.
    pub headed: u64,
    /// Packets that were left out, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// The offset in bytes of the record in which the file ends, if it is cut short.
    pub cut_short: Option<u64>,
}

impl Frames {
    /// Adds a frame. A jumbogram's hop-by-hop header, which never leaves a host, is taken off.
    pub fn push(&mut self, after_first: Span, frame: &[u8]) {
        self.push_numbered(after_first, frame, self.frames.len() as u32 + 1);
    }
    /// Adds a frame with its number in the file, from 1.
    pub fn push_numbered(&mut self, after_first: Span, frame: &[u8], number: u32) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        let len = remove_jumbo_header(&mut self.bytes[start..]);
        self.bytes.truncate(start + len);
        self.frames.push(Frame { after_first, start, len: len as u32, number });
    }
    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    /// Returns whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// Returns the time after the first frame, and the bytes, of frame `i`.
    pub fn get(&self, i: usize) -> Option<(Span, &[u8])> {
        let &Frame { after_first, start, len, .. } = self.frames.get(i)?;
        Some((after_first, &self.bytes[start..start + len as usize]))
    }
    /// Returns the number in the file, from 1, of frame `i`; 0 if there is none.
    pub fn number(&self, i: usize) -> u32 {
        self.frames.get(i).map_or(0, |f| f.number)
    }
    /// Iterates over all frames.
    pub fn iter(&self) -> impl Iterator<Item = (Span, &[u8])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
    /// Returns the time from the first to the last frame.
    pub fn span(&self) -> Span {
        self.frames.iter().map(|f| f.after_first).max().unwrap_or(Span::ZERO)
    }
    /// Spreads the frames over `queues` by the hash of their flow. Returns the indices of each
    /// queue's frames, in order. Frames without a flow go to the first.
    pub fn spread(&self, queues: usize) -> Vec<Arc<[u32]>> {
        let mut all = vec![Vec::new(); queues.max(1)];
        let key = Toeplitz::new(&MICROSOFT);
        for (i, (_, frame)) in self.iter().enumerate() {
            let queue = if queues > 1 { key.flow(frame) as usize % queues } else { 0 };
            all[queue].push(i as u32);
        }
        all.into_iter().map(Arc::from).collect()
    }
    /// Returns the length of the longest frame in bytes.
    pub fn longest(&self) -> u32 {
        self.frames.iter().map(|f| f.len).max().unwrap_or(0)
    }
}

/// The payload bytes of a large send's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// These.
    Bytes(u16),
    /// Those of its flow, from what the capture shows.
    OfFlow,
}

/// Options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Sends at the capture's times, else as fast as the queue takes packets.
    pub own_times: bool,
    /// Number of repetitions. At the capture's times, each round starts at the end of the last.
    pub rounds: u32,
    /// Packets announced together at full speed.
    pub burst: u32,
    /// Leaves TCP and UDP checksums to the device.
    pub checksum_offload: bool,
    /// Sends frames over the MTU as large sends with segments of this size.
    pub gso: Option<SegmentSize>,
    /// Largest IP packet. A frame may be 14 bytes longer, and 4 more with each 802.1Q tag.
    pub mtu: u32,
}

impl ReplayOptions {
    /// One round at full speed with checksum offload and Ethernet's MTU.
    pub const DEFAULT: ReplayOptions = ReplayOptions {
        own_times: false,
        rounds: 1,
        burst: 32,
        checksum_offload: true,
        gso: None,
        mtu: ethernet::MTU as u32,
    };

    /// Returns whether a frame is over the MTU.
    pub fn is_over(&self, frame: &[u8]) -> bool {
        frame.len() > vlan::header(frame) + self.mtu as usize
    }

    /// Changes the bytes of a frame to those that a stack with offload passes on. Returns the
    /// offloads to request, or `None` for a frame over the MTU that cannot be cut into segments of
    /// `size` bytes of payload.
    pub fn prepare(&self, frame: &mut [u8], size: Option<u16>) -> Option<OffloadRequest> {
        if self.is_over(frame) {
            return prepare_large(frame, size?);
        }
        Some(if self.checksum_offload { prepare_checksum(frame) } else { OffloadRequest::NONE })
    }

    /// Returns whether a frame can be prepared.
    fn sends(&self, frame: &[u8], size: Option<u16>) -> bool {
        !self.is_over(frame) || self.prepare(&mut frame.to_vec(), size).is_some()
    }
}

/// The source that replays frames of a capture on one core.
#[derive(Debug)]
pub struct Replay {
    frames: Arc<Frames>,
    /// The indices of its own frames.
    own: Arc<[u32]>,
    segments: SegmentSizes,
    /// The pace of bursts that are not at the capture's times.
    pace: Pace,
    options: ReplayOptions,
    /// Start of the traffic: the first frame's time.
    began: Time,
    /// Length of a round.
    span: Span,
    next: usize,
    round: u32,
    /// The burst's time has come.
    begun: bool,
    in_burst: u32,
    cookie: u32,
    outstanding: u32,
    returned: Vec<Buf>,
    /// Frames skipped for lack of memory, or because they could not be prepared.
    pub skipped: u64,
}

impl Replay {
    /// Creates a source that starts with the first of its `own` frames. Frames that cannot be
    /// prepared are left out, so that a packet sent with "more" has a next one.
    pub fn new(
        frames: Arc<Frames>,
        own: Arc<[u32]>,
        segments: SegmentSizes,
        pace: Pace,
        options: ReplayOptions,
    ) -> Replay {
        let all = own.len();
        let sends = |i: &u32| {
            let i = *i as usize;
            frames.get(i).is_some_and(|(_, f)| options.sends(f, segments.size(i)))
        };
        let own =
            if own.iter().all(sends) { own } else { own.iter().copied().filter(sends).collect() };
        Replay {
            skipped: (all - own.len()) as u64 * u64::from(options.rounds),
            began: Time::ZERO,
            span: frames.span(),
            frames,
            own,
            segments,
            pace,
            options,
            next: 0,
            round: 0,
            begun: false,
            in_burst: 0,
            cookie: 0,
            outstanding: 0,
            returned: Vec::with_capacity(4096),
        }
    }

    /// Starts the traffic at `at`, when the first frame is due.
    pub fn start(&mut self, at: Time) {
        self.began = at;
        self.pace.start(at);
    }

    /// Returns whether all frames of all rounds have been handed over.
    pub fn is_dry(&self) -> bool {
        self.round >= self.options.rounds || self.own.is_empty()
    }

    /// Ends the traffic with the round under way.
    pub fn finish(&mut self) {
        self.options.rounds = self.options.rounds.min(self.round + 1);
    }

    /// Releases the buffers. Returns the number of skipped frames.
    pub fn release<H: Host>(self, h: &mut H) -> u64 {
        self.returned.into_iter().for_each(|b| h.release(b));
        self.skipped
    }

    /// Returns the time and the bytes of the `i`th of its own frames.
    fn frame(&self, i: usize) -> Option<(Span, &[u8])> {
        self.frames.get(*self.own.get(i)? as usize)
    }

    fn due(&self, i: usize, round: u32) -> Option<Time> {
        let (at, _) = self.frame(i)?;
        Some(self.began + at + self.span * u64::from(round))
    }

    /// Returns frame index and round after the current frame.
    fn following(&self) -> (usize, u32) {
        if self.next + 1 < self.own.len() {
            (self.next + 1, self.round)
        } else {
            (0, self.round + 1)
        }
    }
}

impl Sink for Replay {
    fn sent(&mut self, b: Buf, _cookie: u32, last: bool) {
        self.outstanding -= u32::from(last);
        self.returned.push(b);
    }
    fn received(&mut self, _p: Packet, _verified: bool) {}
}

impl<H: Host> Traffic<H> for Replay {
    fn next(&mut self, h: &mut H) -> Next {
        self.returned.drain(..).for_each(|b| h.release(b));
        loop {
            if self.round >= self.options.rounds || self.own.is_empty() {
                return if self.outstanding == 0 { Next::Done } else { Next::Reclaim };
            }
            let now = h.now();
            let due = if self.options.own_times {
                self.due(self.next, self.round).unwrap_or(now)
            } else {
                if !self.begun
                    && let Err(at) = self.pace.begin(now)
                {
                    return Next::At(at);
                }
                self.begun = true;
                self.pace.due(now)
            };
            if due > now {
                return Next::At(due);
            }
            let i = self.own[self.next] as usize;
            let Some((_, frame)) = self.frames.get(i) else {
                return Next::Done;
            };
            let Ok(buf) = h.buffer(frame.len() as u32, Alignment::ANY) else {
                if self.outstanding > 0 {
                    return Next::Reclaim;
                }
                self.skipped += 1;
                (self.next, self.round) = self.following();
                continue;
            };
            let (options, size) = (self.options, self.segments.size(i));
            let todo = h.bytes_mut(&buf, 0..frame.len() as u32, |b| {
                b.copy_from_slice(frame);
                options.prepare(b, size).expect("a frame that was checked")
            });
            let (next, round) = self.following();
            let last = round >= self.options.rounds;
            self.in_burst += 1;
            let more = !last
                && if self.options.own_times {
                    self.due(next, round).is_some_and(|due| due <= now)
                } else {
                    self.in_burst < self.options.burst
                };
            (self.next, self.round) = (next, round);
            if !more {
                (self.begun, self.in_burst) = (false, 0);
            }
            self.outstanding += 1;
            self.cookie = self.cookie.wrapping_add(1);
            let head = Fragment::whole(buf);
            return Next::Packet(Packet { head, todo, more: None, cookie: self.cookie }, more, due);
        }
    }

    fn dropped(&mut self, h: &mut H, p: Packet) {
        self.outstanding -= 1;
        p.release(h);
    }
}

#[cfg(test)]
mod tests;
