//! The watcher of a run: a progress bar, a capture, or a trace of its first packets.
//!
//! A trace is [`doorbell_bus::trace`]'s. Nothing is recorded unless [`Watch::wants_trace`].

use super::link::{FrameRecord, Wired};
use doorbell_bus::{Bus, Machine, Trace};
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
    fn trace(&mut self, traced: Recording) {
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

/// What was recorded in a run.
#[derive(Debug)]
pub struct Recording {
    /// How many packets it was asked for.
    pub packets: u32,
    /// One for each platform: each partition has its own.
    pub platforms: Vec<Trace>,
    /// Frames on the link, out and in. `None` where the wire has no other end: then a platform's
    /// [`Frame`](doorbell_bus::trace::What::Frame)s are those that left.
    pub wires: Option<[Vec<FrameRecord>; 2]>,
}

/// Records from now on, if that is wanted.
pub(crate) fn begin<B: Bus, D>(m: &mut Machine<B, D>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.bus.platforms().for_each(|p| p.record(packets));
    }
}

/// Hands over what was recorded.
pub(crate) fn end<B: Bus, D>(m: &mut Machine<B, D>, watch: &mut dyn Watch) {
    hand_over(m, watch, None);
}

/// [`begin`], with the link.
pub(crate) fn begin_linked<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.device.out.borrow_mut().record(packets);
        m.device.back.record(packets);
    }
    begin(m, watch);
}

/// [`end`], with the link.
pub(crate) fn end_linked<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &mut dyn Watch) {
    let wires = [m.device.out.borrow_mut().take_record(), m.device.back.take_record()];
    hand_over(m, watch, Some(wires));
}

fn hand_over<B: Bus, D>(
    m: &mut Machine<B, D>,
    watch: &mut dyn Watch,
    wires: Option<[Vec<FrameRecord>; 2]>,
) {
    if let Some(packets) = watch.wants_trace() {
        let platforms = m.bus.platforms().filter_map(|p| p.take_trace()).collect();
        watch.trace(Recording { packets, platforms, wires });
    }
}
