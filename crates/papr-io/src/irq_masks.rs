//! The masks of an adapter's interrupts, between its device and its guest.
//!
//! A driver switches its interrupts off and on more often than it does anything else, so nobody is
//! asked: the plug-in changes a word, and the server looks at it when the device has an interrupt.
//! The device's own masks stay open ([`step`](super::step)); what it sends is held against the
//! word.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `THERE` | the queue, or the adapter, is registered | the server |
//! | `ON` | interrupts are sent | the plug-in |
//! | `KEEPS` | one that comes while they are off is kept | the server |
//! | `PENDING` | one is kept | both; taken by the plug-in, which then raises it |
//! | `SENT` | one is on its way to the plug-in | the server; taken by the plug-in when it has come |
//!
//! **No wake-up is lost.** A vNIC's interrupt is kept: keeping it, and switching on with a look for
//! it, are each one atomic step on one word, so one of the two sides sends it. A logical LAN's is
//! not kept (PAPR: it tells of an entry at the time; the driver looks at its queue after it has
//! switched on). There the server writes the entry and then looks whether interrupts are on, the
//! driver switches them on and then looks for an entry, each with a full fence between, so one of
//! them sees the other.
//!
//! An interrupt passes twice: at the server, and at the plug-in when it has come there. One that
//! the guest has switched off meanwhile is kept, or not, as if the device had sent it then, and is
//! in no count. While one is on its way no other is sent: it will be judged after what the other
//! would tell of is there.
//!
//! **Queues that are full.** A device that has entries for which a queue had no room writes them
//! when the guest next makes a call, and a call that switches an interrupt is often the only one.
//! So the server says that entries wait (`WAITS`), and then such calls go to it as well. It says so
//! before it looks at the queue once more; the guest makes room before it calls: again one sees the
//! other.

use super::board::{Board, HELD, MASKS, RAISED, SIGNAL_CALLS, VIOCTL_CALLS, WAITS};
use super::{SUB_CRQS, VNIC, sub_crq_interrupts, unit_interrupt};
use doorbell_layout::ibmvnic::vioctl;
use doorbell_layout::{ibmveth, ibmvnic};
use std::sync::atomic::{AtomicU64, Ordering, fence};

const THERE: u64 = 1;
const ON: u64 = 2;
const KEEPS: u64 = 4;
const PENDING: u64 = 8;
const SENT: u64 = 16;

/// A word after an interrupt that came while it was off.
const fn kept(m: u64) -> u64 {
    if m & KEEPS != 0 { m | PENDING } else { m }
}

/// Interrupts of an adapter: its own (a vNIC's CRQ, a logical LAN's), then those of its sub-CRQs.
pub(super) const INTERRUPTS: usize = 1 + SUB_CRQS as usize;

/// Which interrupts a call switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// This one, off or on.
    One(usize, bool),
    /// All of them, off.
    AllOff,
}

/// What a call with these arguments switches, if it is one of those that do, and there can be such
/// an interrupt.
pub(super) fn switch(kind: u32, unit: u32, call: u64, a: &[u64; 9]) -> Option<Switch> {
    let sub = |vector: u64| {
        let n = vector.checked_sub(sub_crq_interrupts(unit).into())?;
        (n < u64::from(SUB_CRQS)).then_some(1 + n as usize)
    };
    match (call, a[1]) {
        (ibmveth::H_VIO_SIGNAL, ibmveth::SIGNAL_OFF) => Some(Switch::One(0, false)),
        (ibmveth::H_VIO_SIGNAL, ibmveth::SIGNAL_ON) => Some(Switch::One(0, true)),
        (ibmvnic::hcall::VIOCTL, vioctl::DISABLE_ALL_VIO_INTERRUPTS) if kind == VNIC => {
            Some(Switch::AllOff)
        }
        (ibmvnic::hcall::VIOCTL, vioctl::DISABLE_VIO_INTERRUPT) if kind == VNIC => {
            Some(Switch::One(sub(a[2])?, false))
        }
        (ibmvnic::hcall::VIOCTL, vioctl::ENABLE_VIO_INTERRUPT) if kind == VNIC => {
            Some(Switch::One(sub(a[2])?, true))
        }
        _ => None,
    }
}

/// The interrupt with this number in the guest.
pub(super) fn index(unit: u32, vector: u16) -> usize {
    let n = vector.wrapping_sub(sub_crq_interrupts(unit));
    if n < SUB_CRQS { 1 + usize::from(n) } else { 0 }
}

/// The number in the guest of this interrupt.
pub(super) fn vector(unit: u32, n: usize) -> u16 {
    if n == 0 {
        unit_interrupt(unit)
    } else {
        sub_crq_interrupts(unit) + (n % INTERRUPTS) as u16 - 1
    }
}

impl Board {
    fn mask(&self, n: usize) -> &AtomicU64 {
        self.word(MASKS + n % INTERRUPTS * 8)
    }

    // ---- the guest's side ----

    /// Switches. `raise` is called for one that was kept; `None` when there is no such interrupt.
    pub(super) fn switch(&self, what: Switch, mut raise: impl FnMut(usize)) -> Option<()> {
        let (range, on) = match what {
            Switch::One(n, on) => (n..n + 1, on),
            Switch::AllOff => (0..INTERRUPTS, false),
        };
        let mut any = what == Switch::AllOff;
        for n in range {
            let change =
                |m: u64| (m & THERE != 0).then_some(if on { (m | ON) & !PENDING } else { m & !ON });
            let Ok(old) = self.mask(n).fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
            else {
                continue;
            };
            any = true;
            if on && old & PENDING != 0 {
                self.word(RAISED).fetch_add(1, Ordering::Relaxed);
                raise(n);
            }
        }
        any.then_some(())
    }

    /// An interrupt that the server has sent has come: whether the guest gets it.
    pub(super) fn comes(&self, n: usize) -> bool {
        let come = |m: u64| Some(if m & ON != 0 { m } else { kept(m) } & !SENT);
        let old =
            self.mask(n).fetch_update(Ordering::SeqCst, Ordering::SeqCst, come).unwrap_or_default();
        self.word(HELD).fetch_add(u64::from(old & ON == 0), Ordering::Relaxed);
        old & ON != 0
    }

    /// Such a call was answered here.
    pub(super) fn count_switch(&self, call: u64) {
        let at = if call == ibmveth::H_VIO_SIGNAL { SIGNAL_CALLS } else { VIOCTL_CALLS };
        self.word(at).fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the device has entries that wait for room.
    pub(super) fn waits(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word(WAITS).load(Ordering::Relaxed) != 0
    }

    // ---- the server's side ----

    /// An interrupt is there now, and off. `keeps`: one that comes meanwhile is kept.
    pub(super) fn arm(&self, n: usize, keeps: bool) {
        self.mask(n).store(THERE | if keeps { KEEPS } else { 0 }, Ordering::SeqCst);
    }

    /// None any more.
    pub(super) fn disarm(&self, n: usize) {
        self.mask(n).store(0, Ordering::SeqCst);
    }

    /// The device has an interrupt, for what is in the guest's memory already: whether it is to be
    /// sent.
    pub(super) fn admits(&self, n: usize) -> bool {
        fence(Ordering::SeqCst);
        let send =
            |m: u64| if m & ON == 0 { Some(kept(m)) } else { (m & SENT == 0).then_some(m | SENT) };
        self.mask(n)
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, send)
            .is_ok_and(|old| old & ON != 0)
    }

    /// Says whether the device has entries that wait for room. After saying that it has it is to
    /// try once more.
    pub(super) fn say_waits(&self, waits: bool) {
        self.word(WAITS).store(waits.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// H_VIO_SIGNAL and H_VIOCTL answered in the plug-in, and interrupts that it raised and held
    /// back.
    pub(super) fn switch_counts(&self) -> [u64; 4] {
        [SIGNAL_CALLS, VIOCTL_CALLS, RAISED, HELD].map(|at| self.word(at).load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
