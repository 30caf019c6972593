//! QEMU's virtual clock: the guest's time, the timer of the next event, and the time that the CPU
//! waits for the bus.
//!
//! With `-icount` QEMU's clock is the number of executed instructions times their cost, plus a
//! bias. Costs that QEMU does not have are in [`price`]. The bias is a private variable. It is
//! found as the only word of `timers_state` that has the right value and by which the clock goes
//! when it is changed.

use super::exports::opaque;
use super::{Host, price, refuse};
use doorbell_hal::{Span, Time};
use std::ffi::{c_int, c_void};

/// `QEMU_CLOCK_VIRTUAL`.
const VIRTUAL: c_int = 1;
/// Nanoseconds of the timer's unit.
const UNIT: c_int = 1;
/// Words of `timers_state` in which the bias is searched.
const WORDS: usize = 12;

/// Refuses a machine whose time is not that of one CPU's instructions.
pub(super) fn check(host: &Host) -> Result<(), String> {
    // SAFETY: a variable of QEMU's, an `int` or an enumeration, set before devices are made.
    if unsafe { *host.exports.use_icount } != 1 {
        return Err("it needs QEMU's virtual clock: -icount shift=N,sleep=off".to_owned());
    }
    if !(host.exports.qemu_get_cpu)(1).is_null() {
        let why = "two boots of a guest with more CPUs differ";
        return Err(format!("it needs a guest with one CPU: {why}"));
    }
    Ok(())
}

/// The clock with the device's timer.
pub(super) struct Clock {
    timer: *mut c_void,
    /// The nanosecond for which the timer is set.
    set_for: Option<i64>,
    /// Found at the first wait, when the CPU runs.
    bias: Option<*mut i64>,
}

impl Clock {
    pub(super) fn new(host: &Host, fired: extern "C" fn(*mut c_void)) -> Clock {
        let (timer, none) = (opaque(), std::ptr::null_mut());
        (host.exports.timer_init_full)(timer, none, VIRTUAL, UNIT, 0, fired, none);
        Clock { timer, set_for: None, bias: None }
    }

    /// Returns the guest's time.
    pub(super) fn now(&self, host: &Host) -> Time {
        if let Some(now) = price::now() {
            return now;
        }
        let ns = (host.exports.qemu_clock_get_ns)(VIRTUAL);
        Time::from_ps(u64::try_from(ns).unwrap_or(0).saturating_mul(1000))
    }

    /// Notes that the timer has fired, so that it is not set any more.
    pub(super) fn fired(&mut self) {
        self.set_for = None;
    }

    /// Sets the timer to the first nanosecond that is not before `next`.
    pub(super) fn set(&mut self, host: &Host, next: Time) {
        let wanted = i64::try_from(next.ps().div_ceil(1000)).ok().filter(|_| next < Time::NEVER);
        if wanted == self.set_for {
            return;
        }
        self.set_for = wanted;
        match wanted {
            Some(ns) => (host.exports.timer_mod_ns)(self.timer, ns),
            None => (host.exports.timer_del)(self.timer),
        }
    }

    /// Moves the guest's clock on while its CPU waits.
    pub(super) fn wait(&mut self, host: &Host, time: Span) {
        if time == Span::ZERO {
            return;
        }
        let bias = match self.bias {
            Some(bias) => bias,
            None => *self.bias.insert(
                find_bias(host)
                    .unwrap_or_else(|| refuse("this QEMU's clock is not as QEMU 11.1 has it")),
            ),
        };
        let ns = time.ps().div_ceil(1000) as i64;
        // SAFETY: a word of QEMU's that was found and tested. The CPU's own thread is in the call
        // of its access, under QEMU's lock, and nobody else moves the clock of a running CPU.
        unsafe { *bias += ns };
        // The CPU leaves its block, so that timers that are now due fire.
        (host.exports.qemu_cpu_kick)((host.exports.qemu_get_cpu)(0));
    }
}

/// Returns the place of the bias, if exactly one word behaves like it.
fn find_bias(host: &Host) -> Option<*mut i64> {
    let exports = &host.exports;
    let now = (exports.icount_get)();
    let expected = now - (exports.icount_to_ns)((exports.icount_get_raw)());
    let moves = |word: &*mut i64| {
        // SAFETY: within QEMU's variable, which has more words; under its lock. The word is put
        // back at once.
        unsafe {
            if **word != expected {
                return false;
            }
            **word += 1;
            let moved = (exports.icount_get)() == now + 1;
            **word -= 1;
            moved
        }
    };
    let mut found = (0..WORDS).map(|n| exports.timers_state.wrapping_add(n)).filter(moves);
    let first = found.next();
    first.filter(|_| found.next().is_none())
}
