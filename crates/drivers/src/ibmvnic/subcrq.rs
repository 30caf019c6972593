//! A completion queue that is registered with the hypervisor.

use super::{call, ring::Ring};
use crate::{OpenError, Opened};
use doorbell_hal::{Host, Hypervisor};
use doorbell_layout::ibmvnic::SUB_CRQ_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Debug)]
pub(super) struct SubCrq<T> {
    pub(super) ring: Ring<T>,
    /// Its number in the login; `None` when it is not registered.
    pub(super) number: Option<u64>,
    pub(super) irq: u64,
    /// Its interrupt is off, and a poll follows.
    pub(super) masked: bool,
}

impl<T: FromBytes + IntoBytes + Immutable> SubCrq<T> {
    pub(super) fn allocate<H: Host>(h: &mut H) -> Opened<SubCrq<T>> {
        let ring = Ring::allocate(h, SUB_CRQ_BYTES as u32)?;
        Ok(SubCrq { ring, number: None, irq: 0, masked: false })
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.ring.release(h);
    }

    pub(super) fn register<H: Hypervisor>(&mut self, h: &mut H, unit: u64) -> Opened {
        self.ring.clear(h);
        match call::register_sub_crq(h, unit, self.ring.ioba(), self.ring.bytes().into()) {
            Ok((number, irq)) => {
                (self.number, self.irq, self.masked) = (Some(number), irq, false);
                Ok(())
            }
            Err(e) => Err(OpenError::Call("H_REG_SUB_CRQ", e)),
        }
    }

    /// Frees the queue. After a migration the hypervisor may not know it any more.
    pub(super) fn free<H: Hypervisor>(&mut self, h: &mut H, unit: u64) {
        if let Some(number) = self.number.take() {
            call::free_sub_crq(h, unit, number);
        }
    }

    /// Takes the interrupt if it is this queue's, and masks it. Returns whether it was.
    pub(super) fn take_irq<H: Hypervisor>(&mut self, h: &mut H, unit: u64, vector: u16) -> bool {
        if self.number.is_none() || self.irq != u64::from(vector) {
            return false;
        }
        self.mask(h, unit);
        true
    }

    pub(super) fn mask<H: Hypervisor>(&mut self, h: &mut H, unit: u64) {
        if !core::mem::replace(&mut self.masked, true) {
            call::interrupt(h, unit, self.irq, false);
        }
    }

    /// Enables the interrupt. Returns true, with it masked again, if entries came before that,
    /// which do not interrupt.
    pub(super) fn rearm<H: Hypervisor>(&mut self, h: &mut H, unit: u64) -> bool {
        if core::mem::take(&mut self.masked) {
            call::interrupt(h, unit, self.irq, true);
        }
        if self.ring.pending(h) {
            self.mask(h, unit);
            return true;
        }
        false
    }
}
