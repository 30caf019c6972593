//! The switch: who gets a frame.
//!
//! An address belongs to the adapter that has registered it, or else to the one
//! that has last sent from it; each VLAN by itself. A frame for nobody's address goes to the
//! VLAN's active trunk, else to the uplink, else it is dropped: there is no flooding of
//! unknown addresses. Broadcast and multicast go to all others on the VLAN.
//!
//! **Learning.** What comes from a trunk or the uplink is outside, and only unlearns. What an open
//! adapter has registered nobody learns. The table is of fixed size: sets of four, the one replaced
//! that was learned first.

use super::{adapter::Adapter, device::Parts};
use crate::{Addresses, common::spread};
use alloc::boxed::Box;
use doorbell_layout::ibmveth::status;

/// Receivers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum To {
    One(usize),
    /// All on the VLAN but the sender.
    All,
    Uplink,
    #[default]
    Nobody,
}

const SETS: usize = 256;
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Station {
    mac: [u8; 6],
    vlan: u16,
    adapter: u16,
}

#[derive(Debug)]
pub(super) struct Learned {
    sets: Box<[[Option<Station>; WAYS]]>,
    /// Way of each set that is replaced next.
    next: Box<[u8]>,
}

impl Learned {
    pub(super) fn new() -> Learned {
        Learned { sets: Box::new([[None; WAYS]; SETS]), next: Box::new([0; SETS]) }
    }

    fn set(vlan: u16, mac: [u8; 6]) -> usize {
        spread(mac.into_iter().chain(vlan.to_be_bytes()), SETS)
    }

    fn slot(&mut self, vlan: u16, mac: [u8; 6]) -> Option<&mut Option<Station>> {
        let set = &mut self.sets[Learned::set(vlan, mac)];
        set.iter_mut().find(|s| s.is_some_and(|s| s.vlan == vlan && s.mac == mac))
    }

    fn find(&self, vlan: u16, mac: [u8; 6]) -> Option<usize> {
        let set = &self.sets[Learned::set(vlan, mac)];
        set.iter().flatten().find(|s| s.vlan == vlan && s.mac == mac).map(|s| s.adapter.into())
    }

    fn learn(&mut self, vlan: u16, mac: [u8; 6], adapter: usize) {
        let station = Some(Station { mac, vlan, adapter: adapter as u16 });
        if let Some(slot) = self.slot(vlan, mac) {
            *slot = station;
            return;
        }
        let i = Learned::set(vlan, mac);
        let way = self.sets[i].iter().position(Option::is_none).unwrap_or_else(|| {
            let oldest = self.next[i];
            self.next[i] = (oldest + 1) % WAYS as u8;
            usize::from(oldest)
        });
        self.sets[i][way] = station;
    }

    fn unlearn(&mut self, vlan: u16, mac: [u8; 6]) {
        if let Some(slot) = self.slot(vlan, mac) {
            *slot = None;
        }
    }

    /// All that was learned of an adapter, which closes.
    pub(super) fn purge(&mut self, adapter: usize) {
        for slot in self.sets.iter_mut().flatten() {
            if slot.is_some_and(|s| usize::from(s.adapter) == adapter) {
                *slot = None;
            }
        }
    }
}

/// Returns the adapter that has registered the address.
fn owner(adapters: &[Adapter], vlan: u16, mac: [u8; 6]) -> Option<usize> {
    adapters.iter().position(|a| a.is_open() && a.mac == mac && a.is_on(vlan))
}

impl Parts {
    /// Returns the answer to an adapter that may not have an address.
    pub(super) fn refuses(&self, i: usize, mac: [u8; 6]) -> Option<i64> {
        let (rights, adapter) = (self.cfg.addresses, &self.adapters[i]);
        if rights == Addresses::Fixed && adapter.own.is_some_and(|own| own != mac) {
            return Some(status::H_PARAMETER);
        }
        let others = self.adapters.iter().enumerate().filter(|(n, _)| *n != i);
        let mut taken = others.filter(|(_, a)| a.has_right_to(mac) && a.meets(adapter));
        (rights != Addresses::Any && taken.next().is_some()).then_some(status::H_RESOURCE)
    }

    /// A frame to one address from another came by: `from` an adapter or the uplink. One to itself
    /// says nothing of where it is.
    pub(super) fn learn(&mut self, from: Option<usize>, vlan: u16, [to, source]: [[u8; 6]; 2]) {
        if source[0] & 1 != 0 || source == to || owner(&self.adapters, vlan, source).is_some() {
            return;
        }
        match from {
            Some(i) if self.cfg.learns && !self.adapters[i].is_trunk() => {
                self.learned.learn(vlan, source, i);
            }
            _ => self.learned.unlearn(vlan, source),
        }
    }

    /// Returns the receivers of a frame of `from` for `mac`.
    pub(super) fn find(&self, from: Option<usize>, vlan: u16, mac: [u8; 6]) -> To {
        if mac[0] & 1 != 0 {
            return To::All;
        }
        let here = |i: &usize| self.adapters.get(*i).is_some_and(|a| a.is_open() && a.is_on(vlan));
        let learned = || self.learned.find(vlan, mac).filter(here);
        if let Some(i) = owner(&self.adapters, vlan, mac).or_else(learned) {
            return if from == Some(i) { To::Nobody } else { To::One(i) };
        }
        match trunk(&self.adapters, vlan) {
            Some(i) if from != Some(i) => To::One(i),
            None if self.cfg.uplink.is_some() && from.is_some() => To::Uplink,
            _ => To::Nobody,
        }
    }
}

/// The VLAN's active trunk, if it is open.
pub(super) fn trunk(adapters: &[Adapter], vlan: u16) -> Option<usize> {
    adapters.iter().position(|a| a.is_active_trunk() && a.is_open() && a.is_on(vlan))
}

#[cfg(test)]
mod tests;
