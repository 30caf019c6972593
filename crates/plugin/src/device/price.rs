//! The cost of an instruction, where QEMU's own clock does not have it: a fraction of a nanosecond,
//! or another cost for the instructions of some functions.
//!
//! QEMU asks the class of its accelerator for the guest's time (`get_virtual_clock` and
//! `get_elapsed_ticks` of `AccelOpsClass`), of which two hold `icount_get`. They are found by its
//! address and become [`time`]: the number of executed instructions times their cost, what those
//! of dearer functions cost beside it, and QEMU's bias. All of the guest's clocks and timers
//! follow.
//!
//! QEMU lets the CPU execute instructions up to the next timer by its own shift, which is chosen so
//! that no instruction costs more: it looks at the clock too early, finds that the timer is not
//! due, and goes on. The timer fires behind the first instruction that reaches it, wherever QEMU
//! looked before, so that boots stay equal. Source: QEMU 11.1, accel/tcg/icount-common.c,
//! include/accel/accel-cpu-ops.h.

use super::class::peek;
use super::{HOST, Host};
use crate::count;
use doorbell_hal::Time;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Picoseconds that an instruction may cost. QEMU's shift ends at 1,024 ns; the cheaper an
/// instruction is, the more often QEMU looks at the clock before a timer.
pub(crate) const PRICES: RangeInclusive<u64> = 50..=1_024_000;

/// Bytes of the accelerator's class in which its functions are searched.
const CLASS: usize = 256;

/// QEMU's clock is [`time`].
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Makes an instruction cost `each` picoseconds.
pub(super) fn begin(host: &Host, each: u64) -> Result<(), String> {
    if !PRICES.contains(&each) {
        return Err(format!("an instruction cannot cost {each} ps"));
    }
    let wrong = || "this QEMU's accelerator is not as QEMU 11.1 has it".to_owned();
    let class = (host.exports.object_class_by_name)(c"tcg-accel-ops".as_ptr());
    let mut bytes = [0; CLASS];
    if class.is_null() || peek(class.addr(), &mut bytes).is_none() {
        return Err(wrong());
    }
    let (words, _) = bytes.as_chunks::<8>();
    let own = (host.exports.icount_get as *const ()).addr();
    let is_own = |(n, word): (usize, &[u8; 8])| (usize::from_le_bytes(*word) == own).then_some(n);
    let found: Vec<usize> = words.iter().enumerate().filter_map(is_own).collect();
    let [clock, ticks] = found[..] else { return Err(wrong()) };
    let functions = class.cast::<extern "C" fn() -> i64>();
    // SAFETY: these words of QEMU's class hold a function of this type, which was found by its
    // address. No CPU runs yet, and QEMU's lock is held.
    unsafe {
        functions.add(clock).write(time);
        functions.add(ticks).write(time);
    }
    BEGUN.store(true, Relaxed);
    Ok(())
}

/// Returns the guest's time, unless it is QEMU's own.
pub(super) fn now() -> Option<Time> {
    let host = HOST.get().filter(|_| BEGUN.load(Relaxed))?;
    Some(Time::from_ps(picoseconds(host).unsigned_abs()))
}

/// Returns the guest's time in nanoseconds.
extern "C" fn time() -> i64 {
    HOST.get().map_or(0, |host| picoseconds(host) / 1000)
}

fn picoseconds(host: &Host) -> i64 {
    let exports = &host.exports;
    let each = host.instruction.unwrap_or(0).cast_signed();
    loop {
        let executed = (exports.icount_get_raw)();
        let bias = (exports.icount_get)() - (exports.icount_to_ns)(executed);
        // The CPU may go on meanwhile, where another thread asks.
        if (exports.icount_get_raw)() == executed {
            let more = count::active().map_or(0, count::Count::more);
            return bias * 1000 + executed * each + more;
        }
    }
}

/// Makes the instructions of a range of addresses cost what a word says: the first, the first
/// behind them, and picoseconds. `None` if it is wrong, or instructions are not counted.
pub(super) fn set(host: &Host, numbers: &[&str]) -> Option<()> {
    let [start, end, price] = numbers else { return None };
    let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).ok());
    let price: u64 = price.parse().ok().filter(|price| PRICES.contains(price))?;
    let more = price.cast_signed() - host.instruction?.cast_signed();
    count::active()?.price(start?..end?, more);
    // Blocks that were translated before are translated again.
    (host.exports.queue_tb_flush)((host.exports.qemu_get_cpu)(0));
    Some(())
}
