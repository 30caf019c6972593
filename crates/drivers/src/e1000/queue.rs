//! A queue of an open controller, which it shares with the other.
//!
//! Each is a [`Driver`] of its own, on the core that takes its messages: with MSI-X those of
//! [`Queue::vectors`]. The interrupt line is of all queues, so that each is to be polled. A restart
//! is of both: the device raises an interrupt for each.

use super::{Config, E1000, Stats};
use crate::{Alarm, Driver, Irq, Opened, Poll, Sink, Tx};
use alloc::rc::Rc;
use core::cell::RefCell;
use doorbell_hal::Host;
use doorbell_packet::Packet;

/// A queue. The controller is closed with the last of them.
#[derive(Debug)]
pub struct Queue {
    nic: Rc<RefCell<E1000>>,
    queue: u16,
}

impl Queue {
    /// Opens a controller, as [`E1000::open`]. Returns its first queue.
    ///
    /// # Errors
    /// As [`E1000::open`].
    pub fn open<H: Host>(h: &mut H, c: &Config) -> Opened<Queue> {
        Ok(Queue { nic: Rc::new(RefCell::new(E1000::open(h, c)?)), queue: 0 })
    }

    /// Returns another queue, with a number below [`Config::queues`].
    pub fn another(&self, queue: u16) -> Queue {
        Queue { nic: Rc::clone(&self.nic), queue }
    }

    /// Returns the vectors of MSI-X of a queue: of received frames, of those sent, and with the
    /// first queue that of the link.
    pub fn vectors(queues: u16, queue: u16) -> impl Iterator<Item = u16> {
        [queue, queues + queue].into_iter().chain((queue == 0).then_some(2 * queues))
    }

    /// Returns the counters of the queue. What is of none is the first's.
    pub fn stats(&self) -> Stats {
        self.nic.borrow().stats_of(self.queue)
    }

    /// Closes the controller if no other queue is left, as [`E1000::close`]. Returns the final
    /// counts of all queues then, and zeros before.
    pub fn close<H: Host>(self, h: &mut H) -> Stats {
        Rc::into_inner(self.nic).map_or_else(Stats::default, |nic| nic.into_inner().close(h))
    }
}

impl<H: Host> Driver<H> for Queue {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.nic.borrow_mut().transmit_on(h, self.queue, p, more)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.nic.borrow_mut().poll_on(h, self.queue, budget, up)
    }

    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        self.nic.borrow_mut().interrupt(h, vector)
    }

    fn work(&mut self, h: &mut H) {
        self.nic.borrow_mut().work(h);
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        self.nic.borrow_mut().alarm_on(h, self.queue, why)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.nic.borrow().stopped_on(self.queue)
    }

    #[inline]
    fn byte_room(&self) -> i32 {
        self.nic.borrow().byte_room_on(self.queue)
    }
}
