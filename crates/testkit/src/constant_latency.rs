//! A bus of constant latency: every transfer takes the same time each way, and any number cross at
//! once. Tests whose subject is not the bus (clock, traffic) run on it, since their times can be
//! computed by hand.

use doorbell_bus::{Bus, Capture, FrameSink, Platform};
use doorbell_hal::{DmaFault, Iova, Port, Span, Time};

/// A bus with one latency; the device's [`Port`].
#[derive(Debug)]
pub struct ConstantLatencyBus<S = Capture> {
    platform: Platform,
    sink: S,
    link: Span,
}

impl ConstantLatencyBus {
    /// Creates a bus with latency `link` each way.
    pub fn new(platform: Platform, link: Span) -> ConstantLatencyBus {
        ConstantLatencyBus { platform, sink: Capture::default(), link }
    }
}

impl<S: FrameSink> Port for ConstantLatencyBus<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into).map(|()| at + self.link * 2)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let place = self.platform.check_dma_write(to, from.len())?;
        Ok(self.platform.post_write(at, at + self.link, place, from))
    }
    fn begin_completion(&mut self, at: Time) -> bool {
        self.platform.begin_completion(at)
    }
    /// Sets the line at once: it has its own wire and overtakes data.
    fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        self.platform.set_irq_line(at, n, high);
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.platform.post_message(at, at + self.link, vector);
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.platform.count_frame(at, frame);
        self.sink.emit(at, frame);
    }
}

impl<S: FrameSink> Bus for ConstantLatencyBus<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = ConstantLatencyBus<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> ConstantLatencyBus<T> {
        ConstantLatencyBus { platform: self.platform, sink, link: self.link }
    }
    fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn platform_mut(&mut self) -> &mut Platform {
        &mut self.platform
    }
    fn register_write(&mut self, at: Time, _: u8) -> Time {
        at + self.link
    }
    fn register_read(&mut self, at: Time, _: u8) -> Time {
        at + self.link
    }
    fn register_answer(&mut self, at: Time, _: u8) -> Time {
        at + self.link
    }
    fn retire_before(&mut self, _: Time) {}
}
