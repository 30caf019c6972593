//! The cost of an instruction, where QEMU's own clock does not have it: a fraction of a nanosecond,
//! or another cost for the instructions of some functions.
//!
//! The guest's time is the number of executed instructions times their cost, what those of dearer
//! functions cost beside it, and QEMU's bias. All of the guest's clocks and timers follow.
//!
//! QEMU lets the CPU execute instructions up to the next timer by its own shift, which is chosen so
//! that no instruction costs more: it looks at the clock too early, finds that the timer is not
//! due, and goes on. The timer fires behind the first instruction that reaches it, wherever QEMU
//! looked before, so that boots stay equal. Source: QEMU 11.1, accel/tcg/icount-common.c.

use super::{HOST, Host};
use crate::count::{self, Count};
use doorbell_hal::Time;
use std::ops::RangeInclusive;

/// Picoseconds that an instruction may cost. QEMU's shift ends at 1,024 ns; the cheaper an
/// instruction is, the more often QEMU looks at the clock before a timer.
pub(crate) const PRICES: RangeInclusive<u64> = 50..=1_024_000;

/// Returns the guest's time, unless QEMU's own clock has it.
pub(super) fn now() -> Option<Time> {
    let ps = picoseconds(HOST.get()?)?;
    Some(Time::from_ps(ps.unsigned_abs()))
}

/// Returns the guest's time in picoseconds, unless QEMU's own clock has it.
pub(super) fn picoseconds(host: &Host) -> Option<i64> {
    let exports = &host.exports;
    let each = host.instruction?.cast_signed();
    loop {
        let executed = (exports.icount_get_raw)();
        let bias = (exports.icount_get)() - (exports.icount_to_ns)(executed);
        // The CPU may go on meanwhile, where another thread asks.
        if (exports.icount_get_raw)() == executed {
            let more = count::active().map_or(0, Count::more);
            return Some(
                bias.saturating_mul(1000).saturating_add(executed.saturating_mul(each)) + more,
            );
        }
    }
}

/// Makes the instructions of a range of addresses cost what a word says: the first, the first
/// behind them, and picoseconds. `None` if it is wrong, or instructions are not counted.
pub(super) fn set(host: &Host, numbers: &[&str]) -> Option<()> {
    let [start, end, price] = numbers else { return None };
    let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).ok());
    // Of a dearer one QEMU would look at the clock too late.
    let most = (host.exports.icount_to_ns)(1).unsigned_abs().saturating_mul(1000);
    let price: u64 = price.parse().ok().filter(|price| PRICES.contains(price) && *price <= most)?;
    let more = price.cast_signed() - host.instruction?.cast_signed();
    count::active()?.price(start?..end?, more);
    // Blocks that were translated before are translated again.
    (host.exports.queue_tb_flush)((host.exports.qemu_get_cpu)(0));
    Some(())
}
