//! Observers of a run: a progress bar, a capture, or a trace ([`doorbell_bus::trace`]) of its
//! first packets.

use super::link::{FrameRecord, Wired};
use doorbell_bus::{Bus, Machine, Platform, Trace};
use doorbell_hal::Time;

/// An observer of a run.
pub trait Watch {
    /// Returns whether [`Watch::frame`] is to be called.
    fn wants_frames(&self) -> bool {
        false
    }
    /// Handles a frame that left on the wire.
    ///
    /// # Errors
    /// An error ends the run.
    fn frame(&mut self, _at: Time, _frame: &[u8]) -> Result<(), String> {
        Ok(())
    }
    /// Returns the number of packets to trace, or `None` for no trace.
    fn wants_trace(&self) -> Option<u32> {
        None
    }
    /// Returns whether register accesses are logged ([`doorbell_bus::log`]).
    fn wants_log(&self) -> bool {
        false
    }
    /// Handles the recording at the end of the traffic.
    fn trace(&mut self, _traced: Recording) {}
    /// Handles progress: `done` of `of` packets. Returns whether to go on.
    fn progress(&mut self, _done: u64, _of: u64) -> bool {
        true
    }
}

/// An observer that does nothing.
#[derive(Debug)]
pub struct Unwatched;
impl Watch for Unwatched {}

/// An observer that lets a run go on while its function says so.
#[derive(Clone, Copy)]
pub struct While<'a>(pub &'a dyn Fn() -> bool);

impl Watch for While<'_> {
    fn progress(&mut self, _done: u64, _of: u64) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for While<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("While")
    }
}

/// An observer that has register accesses logged, and leaves the rest to another.
pub struct Logged<'a>(pub &'a mut dyn Watch);

impl Watch for Logged<'_> {
    fn wants_frames(&self) -> bool {
        self.0.wants_frames()
    }
    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        self.0.frame(at, frame)
    }
    fn wants_trace(&self) -> Option<u32> {
        self.0.wants_trace()
    }
    fn wants_log(&self) -> bool {
        true
    }
    fn trace(&mut self, traced: Recording) {
        self.0.trace(traced);
    }
    fn progress(&mut self, done: u64, of: u64) -> bool {
        self.0.progress(done, of)
    }
}

impl std::fmt::Debug for Logged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Logged")
    }
}

/// The recording of a run.
#[derive(Debug)]
pub struct Recording {
    /// Number of packets asked for.
    pub packets: u32,
    /// Traces of the platforms, one for each partition.
    pub platforms: Vec<Trace>,
    /// Frames on the link, out and in. `None` for a wire without a peer: the frames that left are
    /// then a platform's [`Frame`](doorbell_bus::trace::EventKind::Frame)s.
    pub wires: Option<[Vec<FrameRecord>; 2]>,
}

/// Starts the trace and the log if the observer wants them.
pub fn begin<B: Bus, D>(m: &mut Machine<B, D>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.bus.platforms().for_each(|p| p.record(packets));
    }
    if watch.wants_log() {
        m.bus.platforms().for_each(Platform::keep_log);
    }
}

/// Passes the recording to the observer.
pub fn end<B: Bus, D>(m: &mut Machine<B, D>, watch: &mut dyn Watch) {
    hand_over(m, watch, None);
}

/// [`begin`], with the link.
pub fn begin_linked<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.device.out.borrow_mut().record(packets);
        m.device.back.record(packets);
    }
    begin(m, watch);
}

/// [`end`], with the link.
pub fn end_linked<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &mut dyn Watch) {
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
