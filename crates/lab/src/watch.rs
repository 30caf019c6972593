//! Whoever follows a run from outside: a progress bar, a capture, a trace.

use crate::trace::Traced;
use doorbell_hal::Time;

/// Follows a run from outside.
pub trait Watch {
    /// Whether frames are to be handed over.
    fn wants_frames(&self) -> bool {
        false
    }
    /// A frame left on the wire.
    ///
    /// # Errors
    /// Whatever keeps it from being stored ends the run.
    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        let _ = (at, frame);
        Ok(())
    }
    /// Of how many packets everything that happens is to be recorded, if it is.
    fn wants_trace(&self) -> Option<u32> {
        None
    }
    /// What was recorded, when the traffic is over.
    fn trace(&mut self, traced: Traced) {
        let _ = traced;
    }
    /// So much of all has been done. Whether to go on.
    fn progress(&mut self, done: u64, of: u64) -> bool {
        let _ = (done, of);
        true
    }
}

/// Nobody watches.
#[derive(Debug)]
pub struct Unwatched;
impl Watch for Unwatched {}
