//! The driver: an Intel 8254x with legacy descriptors, one ring each way.
//!
//! Source: Intel, "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual"
//! (317453), chapters 3 and 13. Both rings belong to the driver but for the descriptors between
//! their heads and tails; a fence stands before each write of a tail.

use doorbell::drivers::Alarm;
use doorbell::hal::{Alignment, counters};
use doorbell::layout::e1000::{self as nic, DD, LegacyTx, Rx, reg};
use doorbell::packet::{Fragment, NoBuffer, OffloadRequest};
use doorbell::prelude::*;

pub(crate) const RING: u32 = 256;
const BUFFER: u32 = 2048;
const CAUSES: u32 = nic::INT_TXDW | nic::INT_RXT0 | nic::INT_RXO;

counters! {
    /// Counts of the driver.
    struct Stats;
    /// Packets with a request that it cannot meet, or without a mapping.
    tx_dropped,
    /// Frames that came damaged, or longer than a buffer.
    rx_errors,
    /// Refills that found no memory.
    rx_no_memory,
    /// Restarts of a card that hung.
    restarts,
}

pub(crate) struct MyNic {
    tx: TxRing,
    rx: RxRing,
    /// The card has to be started again, at the next poll.
    hung: bool,
    pub(crate) stats: Stats,
}

pub(crate) fn open<H: Host>(h: &mut H) -> Result<MyNic, OpenError> {
    reset(h);
    let mut turns = 0;
    while h.read32(Reg::at(reg::STATUS)) & nic::STATUS_LU == 0 {
        turns += 1;
        if turns == 5000 {
            return Err(OpenError::Timeout("the link"));
        }
        h.delay(Span::from_ms(1));
    }
    let tx = TxRing::new(h, RING, nic::DESCRIPTOR)?;
    let rx = match RxRing::new(h, RING, nic::DESCRIPTOR, BUFFER) {
        Ok(rx) => rx,
        Err(e) => {
            tx.release(h);
            return Err(e.into());
        }
    };
    let mut driver = MyNic { tx, rx, hung: false, stats: Stats::default() };
    driver.start(h);
    h.write32(Reg::at(reg::IMS), CAUSES);
    Ok(driver)
}

/// Resets the card, which then reads the station address from its EEPROM, and sets the link up.
fn reset<H: Host>(h: &mut H) {
    h.write32(Reg::at(reg::IMC), u32::MAX);
    h.write32(Reg::at(reg::CTRL), nic::CTRL_RST);
    h.delay(Span::from_ms(10));
    h.write32(Reg::at(reg::CTRL), nic::CTRL_SLU | nic::CTRL_FD);
}

impl MyNic {
    /// Tells a card after its reset where the rings are, and enables both ways.
    fn start<H: Host>(&mut self, h: &mut H) {
        let (tx, rx) = (&self.tx, &self.rx);
        h.write32(Reg::at(reg::TDBAL), tx.iova().0 as u32);
        h.write32(Reg::at(reg::TDBAH), (tx.iova().0 >> 32) as u32);
        h.write32(Reg::at(reg::TDLEN), tx.bytes());
        h.write32(Reg::at(reg::TDH), tx.tail());
        h.write32(Reg::at(reg::TDT), tx.tail());
        h.write32(Reg::at(reg::TCTL), nic::TCTL_EN | nic::TCTL_PSP);
        h.write32(Reg::at(reg::RDBAL), rx.iova().0 as u32);
        h.write32(Reg::at(reg::RDBAH), (rx.iova().0 >> 32) as u32);
        h.write32(Reg::at(reg::RDLEN), rx.bytes());
        h.write32(Reg::at(reg::RDH), rx.head());
        h.write32(Reg::at(reg::RDT), rx.tail());
        h.write32(Reg::at(reg::RXCSUM), nic::RXCSUM_IPOFL | nic::RXCSUM_TUOFL);
        h.write32(Reg::at(reg::RCTL), nic::RCTL_EN | nic::RCTL_BAM | nic::RCTL_SECRC);
        self.refill(h);
    }

    /// Stops the card, and gives back all memory.
    pub(crate) fn close<H: Host>(self, h: &mut H) -> Stats {
        reset(h);
        self.tx.release(h);
        self.rx.release(h);
        self.stats
    }

    fn refill<H: Host>(&mut self, h: &mut H) {
        let posted = self.rx.refill(h, |to| Rx { address: to.iova().0.into(), ..Rx::default() });
        self.stats.rx_no_memory += u64::from(!self.rx.is_full());
        if posted > 0 {
            h.fence(Fence::Write);
            h.write32(Reg::at(reg::RDT), self.rx.tail());
        }
    }

    /// Puts a packet into the ring, or says why not.
    fn queue<H: Host>(&mut self, h: &mut H, p: Packet) -> Tx {
        if self.tx.is_full() {
            return Tx::Busy(p);
        }
        let checksum = p.todo.checksum;
        let field = checksum.map_or(0, |c| c.field());
        if field > 255
            || p.len() > LegacyTx::MAX
            || p.todo != (OffloadRequest { checksum, ..OffloadRequest::NONE })
        {
            return Tx::Dropped(p);
        }
        let mut d = LegacyTx::new(0, 0, LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS);
        if let Some(sum) = checksum {
            d.cmd |= LegacyTx::IC;
            (d.css, d.cso) = (sum.start as u8, field as u8);
        }
        // Headers and payload may be in pieces; this driver has a descriptor for one.
        let p = match p.linearise(h, Alignment::ANY) {
            Ok(p) => p,
            Err(NoBuffer(p)) => return Tx::Dropped(p),
        };
        self.tx.push(h, p, |to| LegacyTx {
            address: to.iova().0.into(),
            length: (to.len() as u16).into(),
            ..d
        })
    }

    /// Hands up the next frame. Returns false if there is none.
    fn receive<H: Host, S: Sink>(&mut self, h: &mut H, up: &mut S) -> bool {
        let done = self.rx.take(h, |h, ring, at| {
            (h.load::<u8>(ring, at + Rx::STATUS) & DD != 0).then(|| {
                h.fence(Fence::DmaRead);
                h.load::<Rx>(ring, at)
            })
        });
        let Some((buf, d)) = done else { return false };
        let len = u32::from(d.length.get());
        if d.status & Rx::EOP == 0
            || d.errors & Rx::FRAME_ERRORS != 0
            || !(1..=BUFFER).contains(&len)
        {
            self.stats.rx_errors += 1;
            h.release(buf);
            return true;
        }
        h.charge(CpuWork::RxPacket);
        let summed = d.status & (Rx::IXSM | Rx::TCPCS) == Rx::TCPCS;
        up.received(
            Packet::linear(Fragment { buf, start: 0, len }),
            summed && d.errors & Rx::TCPE == 0,
        );
        true
    }
}

impl<H: Host> Driver<H> for MyNic {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        h.charge(CpuWork::TxDescriptor(1));
        let queued = self.queue(h, p);
        self.stats.tx_dropped += u64::from(matches!(queued, Tx::Dropped(_)));
        if !more || self.tx.is_full() {
            h.fence(Fence::Write);
            h.write32(Reg::at(reg::TDT), self.tx.tail());
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let sent = self
            .tx
            .reclaim(h, up, |h, ring, at| h.load::<u8>(ring, at + LegacyTx::STATUS) & DD != 0);
        h.charge(CpuWork::TxDone(sent));
        let received = (0..budget).take_while(|_| self.receive(h, up)).count();
        if self.hung && received < budget as usize {
            self.hung = false;
            self.stats.restarts += 1;
            reset(h);
            self.tx.reclaim(h, up, |_, _, _| true);
            self.start(h);
        } else if received > 0 {
            self.refill(h);
        }
        if received == budget as usize {
            return Poll::Again;
        }
        h.write32(Reg::at(reg::IMS), CAUSES);
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if h.read32(Reg::at(reg::ICR)) == 0 {
            return Irq::None;
        }
        h.write32(Reg::at(reg::IMC), u32::MAX);
        Irq::Poll
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            // There was no memory for buffers.
            Alarm::Tick if !self.rx.is_full() => self.refill(h),
            Alarm::Tick => {}
            Alarm::TxTimeout | Alarm::IoError => self.hung = true,
        }
        if self.hung { Irq::Poll } else { Irq::None }
    }

    fn stopped(&self) -> bool {
        self.tx.is_full()
    }
}
