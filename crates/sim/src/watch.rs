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
    /// Returns the error of the packet rate, a share of it, below which the run may end. `None` for
    /// a run that ends with its traffic.
    fn until(&self) -> Option<f64> {
        None
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

/// An observer that has a run made in another way, and leaves the rest to another observer.
pub struct Asking<'a> {
    /// The other.
    pub watch: &'a mut dyn Watch,
    /// Register accesses are logged ([`Watch::wants_log`]).
    pub log: bool,
    /// The error with which the run may end ([`Watch::until`]).
    pub until: Option<f64>,
}

impl<'a> Asking<'a> {
    /// Has register accesses logged.
    pub fn log(watch: &'a mut dyn Watch) -> Asking<'a> {
        let until = watch.until();
        Asking { watch, log: true, until }
    }

    /// Has the run end with this error.
    pub fn until(watch: &'a mut dyn Watch, until: Option<f64>) -> Asking<'a> {
        let log = watch.wants_log();
        Asking { watch, log, until }
    }
}

impl Watch for Asking<'_> {
    fn wants_frames(&self) -> bool {
        self.watch.wants_frames()
    }
    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        self.watch.frame(at, frame)
    }
    fn wants_trace(&self) -> Option<u32> {
        self.watch.wants_trace()
    }
    fn wants_log(&self) -> bool {
        self.log
    }
    fn until(&self) -> Option<f64> {
        self.until
    }
    fn trace(&mut self, traced: Recording) {
        self.watch.trace(traced);
    }
    fn progress(&mut self, done: u64, of: u64) -> bool {
        self.watch.progress(done, of)
    }
}

impl std::fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Asking { log, until, .. } = self;
        f.debug_struct("Asking").field("log", log).field("until", until).finish_non_exhaustive()
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
