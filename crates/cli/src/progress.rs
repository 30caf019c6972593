//! Progress, on a terminal only: a line on stderr that goes away.

use crate::output::{Capture, plain};
use doorbell_lab::mlx5::Watch;
use doorbell_seam::Time;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// A line of progress; on anything but a terminal, nothing.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// A line that starts with `what`.
    pub(crate) fn new(what: &str, quiet: bool) -> Progress {
        if quiet || !stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(Some(bar))
    }

    /// So many of so many.
    pub(crate) fn at(&self, done: u64, of: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(of);
            bar.set_position(done.min(of));
        }
    }

    /// What is being done now.
    pub(crate) fn doing(&self, what: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Follows a run: shows how far it is, keeps its frames.
#[derive(Debug)]
pub(crate) struct Observer<'a> {
    pub(crate) progress: Progress,
    pub(crate) capture: Option<&'a mut Capture>,
}

impl Watch for Observer<'_> {
    fn wants_frames(&self) -> bool {
        self.capture.is_some()
    }

    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        match &mut self.capture {
            Some(c) => {
                c.writer.frame(c.wire, at, frame).map_err(|e| format!("the capture cannot be written: {}", plain(&e)))
            }
            None => Ok(()),
        }
    }

    fn progress(&mut self, sent: u64, of: u64) {
        self.progress.at(sent, of);
    }
}
