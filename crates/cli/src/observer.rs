//! Follows a run: shows its progress, captures and records it.

use doorbell_console::output::Capture;
use doorbell_console::plain;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_hal::Time;
use doorbell_sim::{Recording, Watch};

/// A recording of the first packets.
pub(crate) struct Recorder {
    pub(crate) packets: u32,
    pub(crate) traced: Option<Recording>,
}

/// The captures and records of a run, beside its result.
#[derive(Default)]
pub(crate) struct Observed<'a> {
    pub(crate) capture: Option<&'a mut Capture>,
    pub(crate) recording: Option<&'a mut Recorder>,
    /// Register accesses are logged.
    pub(crate) registers: bool,
}

/// Follows a run: shows its progress, captures and records it.
pub(crate) struct Observer<'a> {
    pub(crate) progress: Progress,
    pub(crate) of: Observed<'a>,
    pub(crate) interrupt: &'a Interrupt,
}

impl Watch for Observer<'_> {
    fn wants_frames(&self) -> bool {
        self.of.capture.is_some()
    }

    fn wants_log(&self) -> bool {
        self.of.registers
    }

    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        match &mut self.of.capture {
            Some(c) => c
                .frame(at, frame)
                .map_err(|e| format!("the capture cannot be written: {}", plain(&e))),
            None => Ok(()),
        }
    }

    fn wants_trace(&self) -> Option<u32> {
        self.of.recording.as_ref().map(|r| r.packets)
    }

    fn trace(&mut self, traced: Recording) {
        if let Some(r) = &mut self.of.recording {
            r.traced = Some(traced);
        }
    }

    fn progress(&mut self, sent: u64, of: u64) -> bool {
        self.progress.at(sent, of);
        !self.interrupt.came()
    }
}
