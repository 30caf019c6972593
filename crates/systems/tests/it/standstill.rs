//! Drivers with one mistake: the run ends with a message that names the mistake.

use doorbell_devices::e1000::{Config, E1000};
use doorbell_layout::e1000::{self as nic, DD, LegacyTx, reg};
use doorbell_systems::custom;
use doorbell_systems::custom::prelude::*;

/// The mistake of the driver.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    None,
    /// Interrupts stay masked after a poll.
    Masked,
    /// The tail register is not written.
    NoDoorbell,
    /// Descriptors point 4096 bytes past the packet.
    Address,
    /// Each 1000th packet is kept and not sent.
    Kept,
    /// A status is loaded past the end of the ring.
    Load,
    /// A status is cleared past the end of the ring.
    Store,
    /// The ring is not released.
    Ring,
}

struct Mine {
    ring: TxRing,
    bug: Bug,
    sent: u32,
    kept: Vec<Packet>,
}

fn open<H: Host>(h: &mut H, bug: Bug) -> Mine {
    let ring = TxRing::new(h, 256, nic::DESCRIPTOR).unwrap();
    h.write32(Reg::at(reg::TDBAL), ring.iova().0 as u32);
    h.write32(Reg::at(reg::TDBAH), (ring.iova().0 >> 32) as u32);
    h.write32(Reg::at(reg::TDLEN), ring.bytes());
    h.write32(Reg::at(reg::TCTL), nic::TCTL_EN | nic::TCTL_PSP);
    h.write32(Reg::at(reg::CTRL), nic::CTRL_SLU | nic::CTRL_FD);
    h.delay(Span::from_ms(5000));
    h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
    Mine { ring, bug, sent: 0, kept: Vec::new() }
}

impl<H: Host> Driver<H> for Mine {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.sent += 1;
        if self.bug == Bug::Kept && self.sent.is_multiple_of(1000) {
            self.kept.push(p);
            return Tx::Ok;
        }
        let cmd = LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS;
        let off = if self.bug == Bug::Address { 4096 } else { 0 };
        let queued =
            self.ring.push(h, p, |to| LegacyTx::new(to.iova().0 + off, to.len() as u16, cmd));
        if (!more || self.ring.is_full()) && self.bug != Bug::NoDoorbell {
            h.fence(Fence::Write);
            h.write32(Reg::at(reg::TDT), self.ring.tail());
        }
        queued
    }

    fn poll<S: Sink>(&mut self, h: &mut H, _budget: u32, up: &mut S) -> Poll {
        let bug = self.bug;
        self.ring.reclaim(h, up, |h, ring, at| {
            let beyond = if bug == Bug::Load { ring.len() } else { 0 };
            let done = h.load::<u8>(ring, at + LegacyTx::STATUS + beyond) & DD != 0;
            if bug == Bug::Store {
                h.store(ring, at + ring.len(), 0u64);
            }
            done
        });
        if bug != Bug::Masked {
            h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
        }
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.write32(Reg::at(reg::IMC), u32::MAX);
        if h.read32(Reg::at(reg::ICR)) == 0 { Irq::None } else { Irq::Poll }
    }

    fn stopped(&self) -> bool {
        self.ring.is_full()
    }
}

/// Returns the error of a run of 2,000 packets of `size` bytes, or `sound`.
fn told(bug: Bug, size: u32) -> String {
    let mut machine = custom::on_pcie(1, 4, E1000::new(Config::I82545EM)).unwrap();
    let load = Load::pktgen(size, 8, 2_000);
    let close = |mine: Mine, m: &mut _| {
        mine.kept.into_iter().for_each(|p| p.release(m));
        if mine.bug != Bug::Ring {
            mine.ring.release(m);
        }
    };
    match custom::meter(&mut machine, |m| open(m, bug), close, (Interrupt::Line(0), 255), &load) {
        Ok(metered) => {
            custom::bill(&metered).map_or_else(|e| e.to_string(), |_| "sound".to_owned())
        }
        Err(why) => why.to_string(),
    }
}

#[test]
fn without_a_mistake_the_run_is_sound() {
    assert_eq!(told(Bug::None, 60), "sound");
}

#[test]
fn interrupts_that_stay_masked_are_told() {
    insta::assert_snapshot!(told(Bug::Masked, 60));
}

#[test]
fn a_doorbell_that_is_missing_is_told() {
    insta::assert_snapshot!(told(Bug::NoDoorbell, 60));
}

#[test]
fn a_wrong_address_is_told_with_its_length() {
    insta::assert_snapshot!(told(Bug::Address, 60));
}

#[test]
fn frames_that_are_too_long_are_told() {
    insta::assert_snapshot!(told(Bug::None, 4_000));
}

#[test]
fn packets_that_are_kept_are_told() {
    insta::assert_snapshot!(told(Bug::Kept, 60));
}

#[test]
fn a_load_behind_the_ring_is_told() {
    insta::assert_snapshot!(told(Bug::Load, 60));
}

#[test]
fn a_store_behind_the_ring_is_told() {
    insta::assert_snapshot!(told(Bug::Store, 60));
}

#[test]
fn a_ring_that_is_not_released_is_told() {
    insta::assert_snapshot!(told(Bug::Ring, 60));
}
