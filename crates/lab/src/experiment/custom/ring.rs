//! A ring of transmit descriptors, and the packets that they speak of.

use doorbell_drivers::{Sink, Tx};
use doorbell_hal::{Coherent, Direction, Host, Iova, Mapped, OutOfMemory};
use doorbell_packet::{Fragment, Packet};
use std::collections::VecDeque;
use zerocopy::{Immutable, IntoBytes};

/// A ring of transmit descriptors in memory that the device reads, one for each packet, used and
/// reclaimed in order.
///
/// It keeps the account of what is under way and no more: what a descriptor says, when the device
/// is told, and how it shows that it is done, are the driver's. One slot stays empty, so that head
/// and tail of a full ring differ.
#[derive(Debug)]
pub struct TxRing {
    area: Coherent,
    descriptor: u32,
    slots: u32,
    tail: u32,
    /// By slot: what is mapped, and the packet's cookie.
    under_way: VecDeque<(u32, Mapped, u32)>,
}

impl TxRing {
    /// A ring of `slots` descriptors of so many bytes, aligned to 4 KiB, zeroed.
    ///
    /// # Errors
    /// No memory.
    pub fn new<H: Host>(h: &mut H, slots: u32, descriptor: u32) -> Result<TxRing, OutOfMemory> {
        let area = h.coherent(slots * descriptor, 4096)?;
        Ok(TxRing {
            area,
            descriptor,
            slots,
            tail: 0,
            under_way: VecDeque::with_capacity(slots as usize),
        })
    }

    /// Where the device finds the first descriptor.
    pub fn iova(&self) -> Iova {
        self.area.iova()
    }

    /// Bytes of all descriptors.
    pub fn bytes(&self) -> u32 {
        self.area.len()
    }

    /// The slot of the next descriptor.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Whether no packet fits in.
    pub fn is_full(&self) -> bool {
        self.under_way.len() as u32 + 1 >= self.slots
    }

    /// Maps a linear packet for the device, and writes the descriptor that is made of where it is.
    ///
    /// A packet for which there is no slot comes back as busy; one that is not linear or that
    /// cannot be mapped, as dropped. What its sender left undone ([`Packet::todo`]) is the
    /// driver's to say.
    pub fn push<H: Host, T: IntoBytes + Immutable>(
        &mut self,
        h: &mut H,
        p: Packet,
        of: impl FnOnce(&Mapped) -> T,
    ) -> Tx {
        if self.is_full() {
            return Tx::Busy(p);
        }
        if !p.is_linear() {
            return Tx::Dropped(p);
        }
        let Packet { head: Fragment { buf, start, len }, cookie, .. } = p;
        match h.map(buf, start..start + len, Direction::ToDevice) {
            Ok(mapped) => {
                h.store(&self.area, self.tail * self.descriptor, of(&mapped));
                self.under_way.push_back((self.tail, mapped, cookie));
                self.tail = (self.tail + 1) % self.slots;
                Tx::Ok
            }
            Err(e) => Tx::Dropped(Packet { head: Fragment { buf: e.buf, start, len }, ..p }),
        }
    }

    /// Hands back the oldest packets for as long as they are done, and says how many were.
    /// `is_done` is told where the descriptor is: the ring's memory, and the offset in it.
    pub fn reclaim<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        up: &mut S,
        is_done: impl Fn(&mut H, &Coherent, u32) -> bool,
    ) -> u32 {
        let before = self.under_way.len();
        let done = |slot: u32, h: &mut H| is_done(h, &self.area, slot * self.descriptor);
        while let Some((_, mapped, cookie)) =
            self.under_way.pop_front_if(|(slot, ..)| done(*slot, h))
        {
            up.sent(h.unmap(mapped), cookie, true);
        }
        (before - self.under_way.len()) as u32
    }

    /// Gives the memory back, and what is still under way.
    pub fn release<H: Host>(self, h: &mut H) {
        for (_, mapped, _) in self.under_way {
            let buf = h.unmap(mapped);
            h.release(buf);
        }
        h.release_coherent(self.area);
    }
}
