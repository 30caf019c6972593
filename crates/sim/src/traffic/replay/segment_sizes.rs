//! The segment size of each large send of a capture.
//!
//! A capture of a host has large sends without the size that its stack gave them. The MSS that the
//! connection's SYNs announce, the smaller of both directions less TCP's options (RFC 6691), is
//! that size. Where no SYN was captured, it is taken to be the largest payload that several frames
//! of the flow have within the MTU. In any case a segment's frame stays within the MTU.

use super::{Frames, ReplayOptions, SegmentSize};
use doorbell_packet::captured::{Flow, Seen, largest_payload};
use doorbell_packet::vlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The smallest payload of a full segment: the MSS where none is announced (RFC 9293, 3.7.1).
const LEAST_FULL: u32 = 536;

/// The segment sizes of the frames of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentSizes {
    /// No frame is a large send.
    None,
    /// All large sends have this one.
    All(u16),
    /// That of each frame; 0 for a frame that is no large send.
    Each(Arc<[u16]>),
}

impl SegmentSizes {
    /// Returns the segment sizes of a capture.
    pub fn of(frames: &Frames, options: &ReplayOptions) -> SegmentSizes {
        match options.gso {
            None => SegmentSizes::None,
            Some(SegmentSize::Bytes(size)) => SegmentSizes::All(size),
            Some(SegmentSize::OfFlow) => SegmentSizes::Each(of_flows(frames, options)),
        }
    }

    /// Returns the segment size of frame `i`, if it is to be a large send.
    pub fn size(&self, i: usize) -> Option<u16> {
        match self {
            SegmentSizes::None => None,
            SegmentSizes::All(size) => Some(*size),
            SegmentSizes::Each(sizes) => sizes.get(i).copied().filter(|size| *size > 0),
        }
    }
}

/// The frames of a flow, as far as they tell its segment size.
#[derive(Clone, Copy, Default)]
struct Told {
    announced: Option<u16>,
    /// The largest payload within the MTU, and the number of frames that have it.
    largest: (u32, u32),
}

impl Told {
    fn add(&mut self, seen: &Seen, over: bool) {
        self.announced = smaller(self.announced, seen.announced);
        let (largest, times) = &mut self.largest;
        match seen.payload {
            _ if over => {}
            n if n > *largest => self.largest = (n, 1),
            n => *times += u32::from(n == *largest),
        }
    }

    /// Returns the payload of its full segments, if there are some.
    fn full(&self) -> Option<u16> {
        let (largest, times) = self.largest;
        (times > 1 && largest >= LEAST_FULL).then_some(largest as u16)
    }
}

/// Returns the smaller of two sizes, or the one that there is.
fn smaller(a: Option<u16>, b: Option<u16>) -> Option<u16> {
    a.into_iter().chain(b).min()
}

fn of_flows(frames: &Frames, options: &ReplayOptions) -> Arc<[u16]> {
    let mut sizes = vec![0; frames.len()];
    if frames.iter().any(|(_, frame)| options.is_over(frame)) {
        let mut flows: BTreeMap<Flow, Told> = BTreeMap::new();
        for (_, frame) in frames.iter() {
            if let Some(seen) = Seen::of(frame) {
                flows.entry(seen.flow).or_default().add(&seen, options.is_over(frame));
            }
        }
        for (size, (_, frame)) in sizes.iter_mut().zip(frames.iter()) {
            if options.is_over(frame) {
                *size = of_flow(frame, &flows, options).unwrap_or(0);
            }
        }
    }
    sizes.into()
}

/// Returns the segment size of a frame over the MTU.
fn of_flow(frame: &[u8], flows: &BTreeMap<Flow, Told>, options: &ReplayOptions) -> Option<u16> {
    let most = largest_payload(frame, vlan::header(frame) + options.mtu as usize)?;
    let seen = Seen::of(frame)?;
    let told = flows.get(&seen.flow).copied().unwrap_or_default();
    let back = flows.get(&seen.flow.reversed()).and_then(|told| told.announced);
    let announced = smaller(told.announced, back).map(|mss| mss.saturating_sub(seen.options));
    Some(announced.filter(|mss| *mss > 0).or(told.full()).unwrap_or(most).min(most))
}
