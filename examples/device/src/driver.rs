//! The driver of the device, with one ring each way.

use super::device::{self as nic, DESCRIPTOR, RING};
use doorbell::drivers::Alarm;
use doorbell::hal::{Alignment, counters};
use doorbell::packet::{Fragment, NoBuffer, OffloadRequest};
use doorbell::prelude::*;

const BUFFER: u32 = 2048;
const CAUSES: u32 = nic::SENT | nic::RECEIVED;

counters! {
    /// Counts of the driver.
    struct Stats;
    /// Packets with a request that it cannot meet, or without a mapping.
    tx_dropped,
    /// Frames of a length that is none.
    rx_errors,
    /// Refills that found no memory.
    rx_no_memory,
    /// Restarts of a device that stopped.
    restarts,
}

pub(crate) struct MyDriver {
    tx: TxRing,
    rx: RxRing,
    /// The heads, as the device writes them.
    words: Coherent,
    /// The device has to be started again, at the next poll.
    stopped: bool,
    pub(crate) stats: Stats,
}

pub(crate) fn open<H: Host>(h: &mut H) -> Result<MyDriver, OpenError> {
    let words = h.coherent(2 * nic::RX_WORD, 64)?;
    let rings = TxRing::new(h, RING, DESCRIPTOR).and_then(|tx| {
        match RxRing::new(h, RING, DESCRIPTOR, BUFFER) {
            Ok(rx) => Ok((tx, rx)),
            Err(e) => {
                tx.release(h);
                Err(e)
            }
        }
    });
    let (tx, rx) = match rings {
        Ok(rings) => rings,
        Err(e) => {
            h.release_coherent(words);
            return Err(e.into());
        }
    };
    let mut driver = MyDriver { tx, rx, words, stopped: false, stats: Stats::default() };
    driver.start(h);
    h.write32(nic::ENABLED, CAUSES);
    Ok(driver)
}

impl MyDriver {
    /// Resets the device, and tells it where all is.
    fn start<H: Host>(&mut self, h: &mut H) {
        h.write32(nic::RESET, 1);
        h.store(&self.words, 0, self.tx.tail());
        h.store(&self.words, nic::RX_WORD, self.rx.head());
        h.write64(nic::TX_BASE, self.tx.iova().0);
        h.write64(nic::RX_BASE, self.rx.iova().0);
        h.write64(nic::WORDS, self.words.iova().0);
        h.write32(nic::TX_HEAD, self.tx.tail());
        h.write32(nic::RX_HEAD, self.rx.head());
        h.fence(Fence::Write);
        h.write32(nic::RX_TAIL, self.rx.tail());
        self.refill(h);
    }

    /// Stops the device, and gives back all memory.
    pub(crate) fn close<H: Host>(self, h: &mut H) -> Stats {
        h.write32(nic::RESET, 1);
        // The write has arrived when a read is answered.
        h.read32(nic::CAUSE);
        self.tx.release(h);
        self.rx.release(h);
        h.release_coherent(self.words);
        self.stats
    }

    fn refill<H: Host>(&mut self, h: &mut H) {
        let posted = self.rx.refill(h, |to| [to.iova().0, to.len().into()]);
        self.stats.rx_no_memory += u64::from(!self.rx.is_full());
        if posted > 0 {
            h.fence(Fence::Write);
            h.write32(nic::RX_TAIL, self.rx.tail());
        }
    }

    /// Puts a packet into the ring, or says why not.
    fn queue<H: Host>(&mut self, h: &mut H, mut p: Packet) -> Tx {
        if self.tx.is_full() {
            return Tx::Busy(p);
        }
        // The device sums nothing, and takes a packet in one piece.
        if p.complete_checksum(h).is_err() || p.todo != OffloadRequest::NONE {
            return Tx::Dropped(p);
        }
        match p.linearise(h, Alignment::ANY) {
            Ok(p) => self.tx.push(h, p, |to| [to.iova().0, u64::from(to.len())]),
            Err(NoBuffer(p)) => Tx::Dropped(p),
        }
    }

    /// Hands up the next frame before the device's head. Returns false if there is none.
    fn receive<H: Host, S: Sink>(&mut self, h: &mut H, head: u32, up: &mut S) -> bool {
        let done = self.rx.take(h, |h, ring, at| {
            (at != head * DESCRIPTOR).then(|| h.load::<u32>(ring, at + nic::RECEIVED_LEN))
        });
        let Some((buf, len)) = done else { return false };
        if !(1..=BUFFER).contains(&len) {
            self.stats.rx_errors += 1;
            h.release(buf);
            return true;
        }
        h.charge(CpuWork::RxPacket);
        up.received(Packet::linear(Fragment { buf, start: 0, len }), false);
        true
    }
}

impl<H: Host> Driver<H> for MyDriver {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        h.charge(CpuWork::TxDescriptor(1));
        let queued = self.queue(h, p);
        self.stats.tx_dropped += u64::from(matches!(queued, Tx::Dropped(_)));
        if !more || self.tx.is_full() {
            h.fence(Fence::Write);
            h.write32(nic::TX_TAIL, self.tx.tail());
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let sent = h.load::<u32>(&self.words, 0) % RING;
        let done = self.tx.reclaim(h, up, |_, _, at| at != sent * DESCRIPTOR);
        h.charge(CpuWork::TxDone(done));
        let head = h.load::<u32>(&self.words, nic::RX_WORD) % RING;
        h.fence(Fence::DmaRead);
        let received = (0..budget).take_while(|_| self.receive(h, head, up)).count();
        if self.stopped && received < budget as usize {
            self.stopped = false;
            self.stats.restarts += 1;
            h.write32(nic::RESET, 1);
            h.read32(nic::CAUSE);
            self.tx.reclaim(h, up, |_, _, _| true);
            self.start(h);
        } else if received > 0 {
            self.refill(h);
        }
        if received == budget as usize {
            return Poll::Again;
        }
        h.write32(nic::ENABLED, CAUSES);
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if h.read32(nic::CAUSE) == 0 {
            return Irq::None;
        }
        h.write32(nic::ENABLED, 0);
        Irq::Poll
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            // There was no memory for buffers.
            Alarm::Tick if !self.rx.is_full() => self.refill(h),
            Alarm::Tick => {}
            Alarm::TxTimeout | Alarm::IoError => self.stopped = true,
        }
        if self.stopped { Irq::Poll } else { Irq::None }
    }

    fn stopped(&self) -> bool {
        self.tx.is_full()
    }
}
