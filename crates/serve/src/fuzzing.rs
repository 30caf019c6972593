//! Bodies of the fuzz targets of this crate. Only they and tests are built with it.

use crate::attack;
use crate::control::lines_in_parts;
use crate::metrics::request_in_parts;
use crate::uplink::{frames_in_parts, there_and_back};

/// Runs clients of `doorbell serve` as `bytes` say.
pub fn serve_clients(bytes: &[u8]) {
    attack::attack(bytes);
}

/// Counts of what bytes from outside were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Frames of the kernel's, and sends that they were merged to.
    pub frames: (usize, usize),
    /// Frames of the stream.
    pub streamed: usize,
    /// Lines of `--control`.
    pub lines: usize,
    /// Requests of the page of counts that were answered.
    pub requests: usize,
}

/// Takes bytes as one of the inputs of a server: frames of a TAP device, a stream of frames, lines
/// of `--control`, a request of the page of counts.
///
/// # Panics
/// Panics if they are taken for what they are not.
pub fn inputs(bytes: &[u8]) -> Inputs {
    let mut of = Inputs::default();
    let Some((kind, bytes)) = bytes.split_first() else { return of };
    match kind % 4 {
        0 => of.frames = there_and_back(bytes),
        1 => of.streamed = frames_in_parts(bytes),
        2 => of.lines = lines_in_parts(bytes),
        _ => of.requests = usize::from(request_in_parts(bytes)),
    }
    of
}

#[cfg(test)]
mod tests;
