//! A driver of your own and the cost of its packets: `cargo run --release --example own_driver`
//!
//! An Intel 82545 sends with its simplest descriptors. docs/writing-a-driver.md has changes to try.

use doorbell::custom;
use doorbell::devices::e1000::{Config, E1000};
use doorbell::layout::e1000::{self as nic, DD, LegacyTx, reg};
use doorbell::prelude::*;

pub(crate) struct Mine(pub(crate) TxRing);

pub(crate) fn open<H: Host>(h: &mut H) -> Mine {
    let ring = TxRing::new(h, 256, nic::DESCRIPTOR).expect("memory for the ring");
    h.write32(Reg::at(reg::TDBAL), ring.iova().0 as u32);
    h.write32(Reg::at(reg::TDBAH), (ring.iova().0 >> 32) as u32);
    h.write32(Reg::at(reg::TDLEN), ring.bytes());
    h.write32(Reg::at(reg::TCTL), nic::TCTL_EN | nic::TCTL_PSP);
    h.write32(Reg::at(reg::CTRL), nic::CTRL_SLU | nic::CTRL_FD);
    h.delay(Span::from_ms(5000)); // the link comes up
    h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
    Mine(ring)
}

impl<H: Host> Driver<H> for Mine {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        h.charge(CpuWork::TxDescriptor(1));
        let cmd = LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS;
        let queued = self.0.push(h, p, |to| LegacyTx::new(to.iova().0, to.len() as u16, cmd));
        if !more || self.0.is_full() {
            h.fence(Fence::Write);
            h.write32(Reg::at(reg::TDT), self.0.tail());
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, _budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let done = self
            .0
            .reclaim(h, up, |h, ring, at| h.load::<u8>(ring, at + LegacyTx::STATUS) & DD != 0);
        h.charge(CpuWork::TxDone(done));
        h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        h.write32(Reg::at(reg::IMC), u32::MAX);
        if h.read32(Reg::at(reg::ICR)) == 0 { Irq::None } else { Irq::Poll }
    }

    fn stopped(&self) -> bool {
        self.0.is_full()
    }
}

pub(crate) fn bill() -> Result<String, Box<dyn std::error::Error>> {
    let mut machine = custom::on_pcie(1, 4, E1000::new(Config::I82545EM))?;
    let load = Load::pktgen(60, 8, 10_000);
    let metered = custom::meter(
        &mut machine,
        open,
        |mine, m| mine.0.release(m),
        (Interrupt::Line(0), 255),
        &load,
    )?;
    Ok(custom::bill(&metered)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", bill()?);
    Ok(())
}
