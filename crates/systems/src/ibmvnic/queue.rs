//! One queue pair of an adapter, as a station has it.
//!
//! The queue pairs of an adapter share a session, so there is one driver. Each of its cores holds a
//! reference to it.

use doorbell_drivers::{Alarm, Driver, Irq, Poll, Sink, Tx, ibmvnic::Ibmvnic};
use doorbell_hal::{Hypervisor, Span};
use doorbell_packet::Packet;
use std::{cell::RefCell, rc::Rc};

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) nic: Rc<RefCell<Ibmvnic>>,
    pub(super) number: usize,
    /// Time in the driver's transmit.
    pub(super) spent: Span,
}

impl<H: Hypervisor> Driver<H> for Queue {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let began = h.now();
        let t = self.nic.borrow_mut().transmit_on(h, self.number, p, more);
        self.spent += h.now().since(began);
        t
    }
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.nic.borrow_mut().poll_on(h, self.number, budget, up)
    }
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        self.nic.borrow_mut().interrupt(h, vector)
    }
    fn work(&mut self, h: &mut H) {
        self.nic.borrow_mut().work(h);
    }
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        self.nic.borrow_mut().alarm_on(h, self.number, why)
    }
    fn stopped(&self) -> bool {
        self.nic.borrow().stopped_on(self.number)
    }
    fn byte_room(&self) -> i32 {
        self.nic.borrow().byte_room_on(self.number)
    }
}
