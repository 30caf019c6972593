//! Rings of descriptors, and the packets and buffers that they describe.

use doorbell_drivers::{Sink, Tx};
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Direction, Host, Iova, Mapped, OutOfMemory};
use doorbell_packet::{Fragment, Packet};
use std::collections::VecDeque;
use zerocopy::{Immutable, IntoBytes};

/// A ring of transmit descriptors in memory that the device reads, one for each packet, used and
/// reclaimed in order.
///
/// It only tracks the packets in flight. The driver defines the descriptor's contents, rings the
/// doorbell and detects completion. One slot stays empty, so that head and tail of a full ring
/// differ.
#[derive(Debug)]
pub struct TxRing {
    area: Coherent,
    descriptor: u32,
    slots: u32,
    tail: u32,
    /// By slot: the mapping, and the packet's cookie.
    under_way: VecDeque<(u32, Mapped, u32)>,
}

impl TxRing {
    /// Allocates a zeroed ring of `slots` descriptors of `descriptor` bytes, aligned to 4 KiB.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new<H: Host>(h: &mut H, slots: u32, descriptor: u32) -> Result<TxRing, OutOfMemory> {
        let area = h.coherent(slots * descriptor, 4096)?;
        let under_way = VecDeque::with_capacity(slots as usize);
        Ok(TxRing { area, descriptor, slots, tail: 0, under_way })
    }

    /// Returns the bus address of the first descriptor.
    pub fn iova(&self) -> Iova {
        self.area.iova()
    }

    /// Returns the size of all descriptors in bytes.
    pub fn bytes(&self) -> u32 {
        self.area.len()
    }

    /// Returns the slot of the next descriptor.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns whether there is no room for another packet.
    pub fn is_full(&self) -> bool {
        self.under_way.len() as u32 + 1 >= self.slots
    }

    /// Maps a linear packet for the device, and writes the descriptor made for its address.
    ///
    /// A packet without a free slot comes back as busy. One that is not linear or that cannot be
    /// mapped comes back as dropped. The driver handles the work that the sender left undone
    /// ([`Packet::todo`]).
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

    /// Hands back the oldest packets as long as they are done. Returns how many. `is_done` gets the
    /// ring's memory and the offset of the descriptor in it.
    pub fn reclaim<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        up: &mut S,
        is_done: impl Fn(&mut H, &Coherent, u32) -> bool,
    ) -> u32 {
        let before = self.under_way.len();
        let done = |slot: u32, h: &mut H| is_done(h, &self.area, slot * self.descriptor);
        while let Some((_, mapped, cookie)) = self.under_way.pop_front_if(|s| done(s.0, h)) {
            up.sent(h.unmap(mapped), cookie, true);
        }
        (before - self.under_way.len()) as u32
    }

    /// Frees the ring, and the packets still in flight.
    pub fn release<H: Host>(self, h: &mut H) {
        for (_, mapped, _) in self.under_way {
            let buf = h.unmap(mapped);
            h.release(buf);
        }
        h.release_coherent(self.area);
    }
}

/// A ring of receive descriptors in memory that the device reads and writes, each with a mapped
/// buffer of one length, filled and taken in order.
///
/// It only tracks the buffers. The driver defines the descriptor's contents, tells the device the
/// tail and detects completion. One slot stays empty, so that head and tail of a full ring differ.
#[derive(Debug)]
pub struct RxRing {
    area: Coherent,
    descriptor: u32,
    slots: u32,
    buffer: u32,
    tail: u32,
    posted: VecDeque<Mapped>,
}

impl RxRing {
    /// Allocates a zeroed ring of `slots` descriptors of `descriptor` bytes, aligned to 4 KiB, for
    /// buffers of `buffer` bytes. It has none yet.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new<H: Host>(
        h: &mut H,
        slots: u32,
        descriptor: u32,
        buffer: u32,
    ) -> Result<RxRing, OutOfMemory> {
        let area = h.coherent(slots * descriptor, 4096)?;
        let posted = VecDeque::with_capacity(slots as usize);
        Ok(RxRing { area, descriptor, slots, buffer, tail: 0, posted })
    }

    /// Returns the bus address of the first descriptor.
    pub fn iova(&self) -> Iova {
        self.area.iova()
    }

    /// Returns the size of all descriptors in bytes.
    pub fn bytes(&self) -> u32 {
        self.area.len()
    }

    /// Returns the slot of the oldest descriptor with a buffer, which the device fills next.
    pub fn head(&self) -> u32 {
        (self.tail + self.slots - self.posted.len() as u32) % self.slots
    }

    /// Returns the slot of the next descriptor to be given a buffer.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns whether every slot but one has a buffer.
    pub fn is_full(&self) -> bool {
        self.posted.len() as u32 + 1 >= self.slots
    }

    /// Maps new buffers for the device, and writes the descriptor made for each address, until the
    /// ring is full or there is no memory. Returns how many.
    pub fn refill<H: Host, T: IntoBytes + Immutable>(
        &mut self,
        h: &mut H,
        of: impl Fn(&Mapped) -> T,
    ) -> u32 {
        let before = self.posted.len();
        while !self.is_full() {
            let Ok(buf) = h.buffer(self.buffer, Alignment::ANY) else { break };
            match h.map(buf, 0..self.buffer, Direction::FromDevice) {
                Ok(mapped) => {
                    h.charge(CpuWork::RxPost);
                    h.store(&self.area, self.tail * self.descriptor, of(&mapped));
                    self.posted.push_back(mapped);
                    self.tail = (self.tail + 1) % self.slots;
                }
                Err(e) => {
                    h.release(e.buf);
                    break;
                }
            }
        }
        (self.posted.len() - before) as u32
    }

    /// Takes the oldest buffer back, with what `done` made of its descriptor, if that is done.
    /// `done` gets the ring's memory and the offset of the descriptor in it.
    pub fn take<H: Host, T>(
        &mut self,
        h: &mut H,
        done: impl FnOnce(&mut H, &Coherent, u32) -> Option<T>,
    ) -> Option<(Buf, T)> {
        self.posted.front()?;
        let told = done(h, &self.area, self.head() * self.descriptor)?;
        let mapped = self.posted.pop_front()?;
        Some((h.unmap(mapped), told))
    }

    /// Frees the ring and its buffers.
    pub fn release<H: Host>(self, h: &mut H) {
        for mapped in self.posted {
            let buf = h.unmap(mapped);
            h.release(buf);
        }
        h.release_coherent(self.area);
    }
}
