//! The surroundings of a served device: sockets, output, clock, and the bill that all parts share.

use super::{bill::Bill, control::Control, metrics::Metrics};
use crate::render::Format;
use doorbell_hal::{DmaFault, Iova, Reg, Span, Time};
use doorbell_vfio_user::{Listener, Observer};
use std::io::{Write, stderr};
use std::{cell::RefCell, fmt::Arguments, rc::Rc, time::Instant};

/// Everything around a served device except its wire.
pub(super) struct ServeContext {
    pub(super) socket: Listener,
    pub(super) metrics: Option<Metrics>,
    pub(super) control: Option<Control>,
    pub(super) format: Format,
    pub(super) quiet: bool,
}

impl ServeContext {
    pub(super) fn notice(&self, what: Arguments<'_>) {
        if !self.quiet {
            // A closed stderr is no error.
            let _ = writeln!(stderr(), "doorbell: {what}");
        }
    }
}

/// The time since the server began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(pub(super) Instant);

impl Clock {
    pub(super) fn now(&self) -> Time {
        Time::ZERO + Span::from_ns(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The bill, shared by the loop and the ports of all guests.
#[derive(Clone)]
pub(super) struct SharedBill(pub(super) Rc<RefCell<Bill>>);

impl SharedBill {
    pub(super) fn new(bill: Bill) -> SharedBill {
        SharedBill(Rc::new(RefCell::new(bill)))
    }
}

impl Observer for SharedBill {
    fn dma_read(&mut self, at: Time, from: Iova, len: u32) {
        self.0.borrow_mut().dma_read(at, from, len);
    }
    fn dma_write(&mut self, at: Time, to: Iova, len: u32) {
        self.0.borrow_mut().dma_write(at, to, len);
    }
    fn fault(&mut self, at: Time, fault: &DmaFault) {
        self.0.borrow_mut().fault(at, fault);
    }
    fn register_read(&mut self, at: Time, r: Reg, size: u8, v: u64) {
        self.0.borrow_mut().register_read(at, r, size, v);
    }
    fn register_write(&mut self, at: Time, r: Reg, size: u8, v: u64, trapped: bool) {
        self.0.borrow_mut().register_write(at, r, size, v, trapped);
    }
    fn line(&mut self, at: Time, high: bool) {
        self.0.borrow_mut().line(at, high);
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.0.borrow_mut().raise_msi(at, vector);
    }
    fn frame(&mut self, at: Time, frame: &[u8]) {
        self.0.borrow_mut().frame(at, frame);
    }
}
