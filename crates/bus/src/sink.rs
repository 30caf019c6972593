//! Receivers of the frames that leave on the wire.
//!
//! A bus is built with a [`FrameSink`]; [`Port::emit`](doorbell_hal::Port::emit) of its device
//! ends there. [`Capture`] keeps the frames; a link takes them to a peer. Ports that share one
//! wire share one sink.

use doorbell_hal::Time;
use std::{cell::RefCell, rc::Rc};

/// A receiver of the frames that a device sends.
pub trait FrameSink {
    /// Takes a frame without FCS, whose first bit leaves at `at`.
    fn emit(&mut self, at: Time, frame: &[u8]);
    /// Takes a frame as [`FrameSink::emit`]. May keep the buffer and leave another with any bytes.
    fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
        self.emit(at, frame);
    }
    /// Returns false while it looks at no byte of a frame.
    fn looks(&self) -> bool {
        true
    }
}

impl<S: FrameSink> FrameSink for Rc<RefCell<S>> {
    #[inline]
    fn looks(&self) -> bool {
        self.borrow().looks()
    }

    #[inline]
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.borrow_mut().emit(at, frame);
    }

    #[inline]
    fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
        self.borrow_mut().emit_buffer(at, frame);
    }
}

/// Keeps frames from [`Capture::start`] on until they are drained. Until then it drops them.
#[derive(Debug, Default)]
pub struct Capture {
    on: bool,
    bytes: Vec<u8>,
    /// The time of each frame, and the end of its bytes.
    frames: Vec<(Time, usize)>,
}

impl Capture {
    /// Keeps the frames from now on.
    pub fn start(&mut self) {
        self.on = true;
    }

    /// Passes the frames kept so far to `to`, in the order in which they left.
    ///
    /// # Errors
    /// The first error of `to`; the frames behind it are lost.
    pub fn drain<E>(&mut self, mut to: impl FnMut(Time, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let (mut start, mut result) = (0, Ok(()));
        for (at, end) in self.frames.drain(..) {
            if result.is_ok() {
                result = to(at, &self.bytes[start..end]);
            }
            start = end;
        }
        self.bytes.clear();
        result
    }
}

impl FrameSink for Capture {
    #[inline(always)]
    fn looks(&self) -> bool {
        self.on
    }

    #[inline]
    fn emit(&mut self, at: Time, frame: &[u8]) {
        if self.on {
            self.bytes.extend_from_slice(frame);
            self.frames.push((at, self.bytes.len()));
        }
    }
}

#[cfg(test)]
mod tests;
