//! The packets that a workload's `end` claims, held against the frames that crossed the wire.
//!
//! `end` alone: each frame is a packet. `end PACKETS`: as many frames crossed. `end PACKETS FRAMES`
//! and `end PACKETS LEAST-MOST`: so many frames crossed.

use crate::Error;
use std::fmt;
use std::ops::RangeInclusive;

/// The numbers behind `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// Packets; without a number, the frames.
    packets: Option<u64>,
    /// The frames that are allowed.
    frames: RangeInclusive<u64>,
}

impl Claim {
    /// Reads the words behind `end` of a workload.
    pub(crate) fn of(workload: &str, words: &[&str]) -> Result<Claim, Error> {
        Claim::parse(words).ok_or_else(|| {
            let said = words.join(" ");
            Error::Input(format!(
                "{workload}: `end {said}`: allowed are `end`, `end PACKETS`, `end PACKETS FRAMES` \
                 and `end PACKETS LEAST-MOST`"
            ))
        })
    }

    fn parse(words: &[&str]) -> Option<Claim> {
        let number = |word: &str| word.parse().ok();
        let (packets, frames) = match *words {
            [] => (None, 1..=u64::MAX),
            [packets] => (Some(number(packets)?), number(packets)?..=number(packets)?),
            [packets, frames] => {
                let (least, most) = frames.split_once('-').unwrap_or((frames, frames));
                (Some(number(packets)?), number(least)?..=number(most)?)
            }
            _ => return None,
        };
        Some(Claim { packets, frames })
    }

    /// Returns the packets, if so many frames are allowed. Where nobody sees frames, they are what
    /// the workload claims. The error shows the workload's output.
    pub(crate) fn held(
        &self,
        workload: &str,
        frames: Option<u64>,
        output: &str,
    ) -> Result<u64, Error> {
        let packets = self.packets.or(frames).unwrap_or(0);
        let seen = |frames: u64| frames > 0 && self.frames.contains(&frames);
        if packets > 0 && frames.is_none_or(seen) {
            return Ok(packets);
        }
        let frames = frames.unwrap_or(0);
        Err(Error::Claim {
            workload: workload.to_owned(),
            claim: self.to_string(),
            frames,
            said: match output.trim() {
                "" => "it said nothing".to_owned(),
                said => format!("it said:\n{said}"),
            },
        })
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(packets) = self.packets else { return f.write_str("frames") };
        let (least, most) = (self.frames.start(), self.frames.end());
        if least == most {
            write!(f, "{packets} packets in {least} frames")
        } else {
            write!(f, "{packets} packets in {least} to {most} frames")
        }
    }
}

#[cfg(test)]
mod tests;
