//! Captured frames, sent again.
//!
//! A frame goes in as a stack would hand it down: with checksum offload a TCP or
//! UDP frame's checksum is taken back to the pseudo-header's sum and left to the
//! device; without, the frame passes untouched. A frame longer than the MTU
//! allows can only go as a large send.

use super::{Next, Traffic};
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, Span, Time};
use doorbell_packet::headers::prepare_partial;
use doorbell_packet::segment::prepare_gso;
use doorbell_packet::{Fragment, OffloadRequest, Packet, ethernet, vlan};
use std::sync::Arc;

/// Frames in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Time after the first, start, length.
    frames: Vec<(Span, usize, u32)>,
}

impl Frames {
    /// Adds a frame.
    pub fn push(&mut self, after_first: Span, frame: &[u8]) {
        self.frames.push((after_first, self.bytes.len(), frame.len() as u32));
        self.bytes.extend_from_slice(frame);
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
    /// Frame `i`: when, and its bytes.
    pub fn get(&self, i: usize) -> Option<(Span, &[u8])> {
        let &(at, start, len) = self.frames.get(i)?;
        Some((at, &self.bytes[start..start + len as usize]))
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Span, &[u8])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
    /// From the first to the last.
    pub fn span(&self) -> Span {
        self.frames.iter().map(|f| f.0).max().unwrap_or(Span::ZERO)
    }
    /// The bytes of the longest.
    pub fn longest(&self) -> u32 {
        self.frames.iter().map(|f| f.2).max().unwrap_or(0)
    }
}

/// How frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// At the capture's own times, or as fast as the queue takes them.
    pub own_times: bool,
    /// How often the capture is sent; at its own times each round starts where the last ended.
    pub rounds: u32,
    /// Packets announced together at full speed.
    pub burst: u32,
    /// TCP and UDP checksums are left to the device.
    pub checksum_offload: bool,
    /// Frames over the MTU are large sends with segments of this many payload bytes.
    pub gso: Option<u16>,
    /// Largest IP packet; a frame may be 14 bytes longer, and 4 more with each 802.1Q tag.
    pub mtu: u32,
}

impl ReplayOptions {
    /// Full speed, once, checksums to the device, Ethernet's MTU.
    pub const DEFAULT: ReplayOptions = ReplayOptions {
        own_times: false,
        rounds: 1,
        burst: 32,
        checksum_offload: true,
        gso: None,
        mtu: ethernet::MTU as u32,
    };

    /// Whether a frame is longer than the MTU allows.
    pub fn is_over(&self, frame: &[u8]) -> bool {
        let mut header = ethernet::HEADER;
        while header <= ethernet::HEADER + vlan::TAG
            && matches!(frame.get(header - 2..header), Some([0x81, 0x00] | [0x88, 0xa8]))
        {
            header += vlan::TAG;
        }
        frame.len() > header + self.mtu as usize
    }

    /// What a frame becomes: its bytes changed as a sender with offload hands
    /// them down, and what is left to do. `None`: it is over the MTU and is not
    /// something that can be cut.
    pub fn prepare(&self, frame: &mut [u8]) -> Option<OffloadRequest> {
        if self.is_over(frame) {
            let todo = prepare_gso(frame, self.gso?)?;
            return todo.gso.is_some().then_some(todo);
        }
        let checksum = if self.checksum_offload { prepare_partial(frame) } else { None };
        Some(OffloadRequest { checksum, ..OffloadRequest::NONE })
    }

    /// The first frame that is over the MTU and cannot be cut; its index from 0.
    pub fn first_unsendable(&self, frames: &Frames) -> Option<usize> {
        let mut scratch = Vec::new();
        frames.iter().position(|(_, f)| {
            scratch.clear();
            scratch.extend_from_slice(f);
            self.is_over(f) && self.prepare(&mut scratch).is_none()
        })
    }
}

/// The frames of a capture on their way through one core.
#[derive(Debug)]
pub struct Replay {
    frames: Arc<Frames>,
    options: ReplayOptions,
    /// When the traffic began: the first frame's time.
    began: Time,
    /// Length of a round.
    span: Span,
    next: usize,
    round: u32,
    in_burst: u32,
    cookie: u32,
    outstanding: u32,
    returned: Vec<Buf>,
    /// Frames that found no memory, or could not be prepared.
    pub skipped: u64,
}

impl Replay {
    /// From the first frame.
    pub fn new(frames: Arc<Frames>, options: ReplayOptions) -> Replay {
        Replay {
            began: Time::ZERO,
            span: frames.span(),
            frames,
            options,
            next: 0,
            round: 0,
            in_burst: 0,
            cookie: 0,
            outstanding: 0,
            returned: Vec::with_capacity(4096),
            skipped: 0,
        }
    }

    /// The traffic begins at `at`: at its own times, the first frame is due then.
    pub fn start(&mut self, at: Time) {
        self.began = at;
    }

    /// Returns whether every frame of every round has been handed over.
    pub fn is_dry(&self) -> bool {
        self.round >= self.options.rounds
    }

    /// Gives the buffers back; how many frames were skipped.
    pub fn release<H: Host>(self, h: &mut H) -> u64 {
        for b in self.returned {
            h.release(b);
        }
        self.skipped
    }

    fn due(&self, i: usize, round: u32) -> Option<Time> {
        let (at, _) = self.frames.get(i)?;
        Some(self.began + at + self.span * u64::from(round))
    }

    /// What is sent after the frame at `next` in `round`.
    fn following(&self) -> (usize, u32) {
        if self.next + 1 < self.frames.len() {
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
        for b in self.returned.drain(..) {
            h.release(b);
        }
        loop {
            if self.round >= self.options.rounds || self.frames.is_empty() {
                return if self.outstanding == 0 { Next::Done } else { Next::Reclaim };
            }
            if self.options.own_times
                && let Some(due) = self.due(self.next, self.round)
                && due > h.now()
            {
                return Next::At(due);
            }
            let Some((_, frame)) = self.frames.get(self.next) else { return Next::Done };
            let Ok(buf) = h.buffer(frame.len() as u32, Alignment::ANY) else {
                if self.outstanding > 0 {
                    return Next::Reclaim;
                }
                self.skipped += 1;
                (self.next, self.round) = self.following();
                continue;
            };
            let options = self.options;
            let todo = h.bytes_mut(&buf, 0..frame.len() as u32, |b| {
                b.copy_from_slice(frame);
                options.prepare(b)
            });
            let (next, round) = self.following();
            let last = round >= self.options.rounds;
            self.in_burst += 1;
            let more = !last
                && if self.options.own_times {
                    self.due(next, round).is_some_and(|due| due <= h.now())
                } else {
                    self.in_burst < self.options.burst
                };
            (self.next, self.round) = (next, round);
            let Some(todo) = todo else {
                self.skipped += 1;
                h.release(buf);
                continue;
            };
            if !more {
                self.in_burst = 0;
            }
            self.outstanding += 1;
            self.cookie = self.cookie.wrapping_add(1);
            return Next::Packet(
                Packet { head: Fragment::whole(buf), todo, more: None, cookie: self.cookie },
                more,
            );
        }
    }

    fn dropped(&mut self, h: &mut H, p: Packet) {
        self.outstanding -= 1;
        p.release(h);
    }
}
