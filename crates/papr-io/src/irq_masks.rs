//! Masks of an adapter's interrupts, between its device and its guest.
//!
//! Drivers mask interrupts very often, so the plug-in only changes a shared word. The device's own
//! masks stay open ([`step`](super::step)); the server checks each of its interrupts against the
//! word, and the plug-in checks again when the interrupt arrives. A vNIC latches an interrupt that
//! comes while masked; latch and unmask are one atomic step each, so no wake-up is lost. A logical
//! LAN does not latch (PAPR): its driver polls after unmasking. Server and driver each have a full
//! fence between their write and their read. Masked interrupts are not counted. While one is in
//! flight no other is sent.

use super::call_area::{
    CallArea, ENTRIES_PENDING, HELD, MASKS, RAISED, SIGNAL_CALLS, VIOCTL_CALLS,
};
use super::{SUB_CRQS, VNIC, sub_crq_interrupts, unit_interrupt};
use crate::words::{AtomicU64, fence};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{hcall, vioctl};
use std::sync::atomic::Ordering;

/// The queue or adapter is registered. Written by the server.
const REGISTERED: u64 = 1;
/// The guest has unmasked the interrupt. Written by the plug-in.
const ENABLED: u64 = 2;
/// An interrupt is latched while masked. Written by the server.
const LATCHES: u64 = 4;
/// An interrupt is latched. Set by both; the plug-in clears it and raises the interrupt.
const PENDING: u64 = 8;
/// An interrupt is on its way to the plug-in. Set by the server, cleared by the plug-in.
const IN_FLIGHT: u64 = 16;

/// Returns a word after an interrupt that came while it was masked.
const fn latched(m: u64) -> u64 {
    if m & LATCHES != 0 { m | PENDING } else { m }
}

/// Interrupts of an adapter: its own (of a vNIC's CRQ or a logical LAN), then those of its
/// sub-CRQs.
pub(super) const INTERRUPTS: usize = 1 + SUB_CRQS as usize;

/// A change of masks that a call requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskChange {
    /// Enables (true) or masks one interrupt.
    One(usize, bool),
    AllOff,
}

/// Returns the change that a call with these arguments requests, if it is such a call and names a
/// possible interrupt.
pub(super) fn mask_change(kind: u32, unit: u32, call: u64, a: &[u64; 9]) -> Option<MaskChange> {
    let sub = |vector: u64| {
        let n = vector.checked_sub(sub_crq_interrupts(unit).into())?;
        (n < u64::from(SUB_CRQS)).then_some(1 + n as usize)
    };
    match (call, a[1]) {
        (ibmveth::H_VIO_SIGNAL, ibmveth::SIGNAL_OFF) => Some(MaskChange::One(0, false)),
        (ibmveth::H_VIO_SIGNAL, ibmveth::SIGNAL_ON) => Some(MaskChange::One(0, true)),
        (hcall::VIOCTL, what) if kind == VNIC => match what {
            vioctl::DISABLE_ALL_VIO_INTERRUPTS => Some(MaskChange::AllOff),
            vioctl::DISABLE_VIO_INTERRUPT => Some(MaskChange::One(sub(a[2])?, false)),
            vioctl::ENABLE_VIO_INTERRUPT => Some(MaskChange::One(sub(a[2])?, true)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the index of the interrupt with this number in the guest.
pub(super) fn index(unit: u32, vector: u16) -> usize {
    let n = vector.wrapping_sub(sub_crq_interrupts(unit));
    if n < SUB_CRQS { 1 + usize::from(n) } else { 0 }
}

/// Returns the number in the guest of interrupt `n`.
pub(super) fn vector(unit: u32, n: usize) -> u16 {
    let nth = (n % INTERRUPTS) as u16;
    if n == 0 { unit_interrupt(unit) } else { sub_crq_interrupts(unit) + nth - 1 }
}

impl CallArea {
    fn mask(&self, n: usize) -> &AtomicU64 {
        self.word(MASKS + n % INTERRUPTS * 8)
    }

    /// Changes a mask in one step. Returns the old one, as the error too.
    fn update(&self, n: usize, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.mask(n).fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
    }

    // ---- the guest's side ----

    /// Applies a change and calls `raise` for each latched interrupt. Returns `None` if none of the
    /// interrupts is registered.
    pub(super) fn change_masks(&self, c: MaskChange, mut raise: impl FnMut(usize)) -> Option<()> {
        let (range, on) = match c {
            MaskChange::One(n, on) => (n..n + 1, on),
            MaskChange::AllOff => (0..INTERRUPTS, false),
        };
        let mut any = c == MaskChange::AllOff;
        for n in range {
            let change = |m: u64| {
                let new = if on { (m | ENABLED) & !PENDING } else { m & !ENABLED };
                (m & REGISTERED != 0).then_some(new)
            };
            let Ok(old) = self.update(n, change) else { continue };
            any = true;
            if on && old & PENDING != 0 {
                self.word(RAISED).fetch_add(1, Ordering::Relaxed);
                raise(n);
            }
        }
        any.then_some(())
    }

    /// Checks an interrupt that has arrived from the server. Returns true if the guest gets it.
    pub(super) fn admit_arrived(&self, n: usize) -> bool {
        let arrive = |m: u64| Some(if m & ENABLED != 0 { m } else { latched(m) } & !IN_FLIGHT);
        let old = self.update(n, arrive).unwrap_or_default();
        // The server has sent none for the entries that it wrote meanwhile: they must be seen.
        fence(Ordering::SeqCst);
        self.word(HELD).fetch_add(u64::from(old & ENABLED == 0), Ordering::Relaxed);
        old & ENABLED != 0
    }

    /// Counts a mask change without the server.
    pub(super) fn count_change(&self, call: u64) {
        let at = if call == ibmveth::H_VIO_SIGNAL { SIGNAL_CALLS } else { VIOCTL_CALLS };
        self.word(at).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the device has entries for which a queue had no room.
    pub(super) fn entries_pending(&self) -> bool {
        fence(Ordering::SeqCst);
        self.load(ENTRIES_PENDING) != 0
    }

    // ---- the server's side ----

    /// Registers an interrupt, masked. With `latches` it is latched while masked.
    pub(super) fn register(&self, n: usize, latches: bool) {
        self.mask(n).store(REGISTERED | if latches { LATCHES } else { 0 }, Ordering::SeqCst);
    }

    pub(super) fn unregister(&self, n: usize) {
        self.mask(n).store(0, Ordering::SeqCst);
    }

    /// Checks an interrupt of the device, whose entries are in guest memory. Returns true if it
    /// must be sent.
    pub(super) fn admit(&self, n: usize) -> bool {
        fence(Ordering::SeqCst);
        let send = |m: u64| match m & ENABLED {
            0 => Some(latched(m)),
            _ => (m & IN_FLIGHT == 0).then_some(m | IN_FLIGHT),
        };
        self.update(n, send).is_ok_and(|old| old & ENABLED != 0)
    }

    /// Announces whether the device has entries for which a queue had no room. Mask changes then go
    /// to the server, since any call makes the device retry. After announcing that it has, it must
    /// retry once: the guest may have made room before.
    pub(super) fn set_entries_pending(&self, pending: bool) {
        self.store(ENTRIES_PENDING, pending.into());
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
