//! QEMU's accelerator: two of its functions are this module's.
//!
//! QEMU asks a class (`AccelOpsClass`) for the guest's time, and whether a CPU is idle. The time is
//! [`price`]'s where its own has not the cost of an instruction.
//!
//! A halted CPU is idle only when its thread waits. Before that, QEMU has not added the
//! instructions that it executed last to the clock, and QEMU's other thread may look: it would move
//! the clock to the next timer from a time that is over, and the rest comes on top. How often that
//! happens depends on the threads of the machine, so that two boots would differ.
//!
//! Source: QEMU 11.1, include/accel/accel-cpu-ops.h, accel/tcg/tcg-accel-ops-rr.c,
//! accel/tcg/icount-common.c (`icount_start_warp_timer`), system/cpus.c.

use super::class::peek;
use super::{HOST, Host, price};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Bytes of the class in which its functions are searched.
const CLASS: usize = 256;
/// Words from `cpu_thread_is_idle`, which TCG leaves null, to `get_virtual_clock`.
const IDLE: usize = 7;

/// The CPU's thread waits, and all that it has executed is in QEMU's clock.
static WAITS: AtomicBool = AtomicBool::new(false);

/// Takes the functions over, before a CPU runs.
pub(super) fn take_over(host: &Host) -> Result<(), String> {
    let wrong = || "this QEMU's accelerator is not as QEMU 11.1 has it".to_owned();
    let class = (host.exports.object_class_by_name)(c"tcg-accel-ops".as_ptr());
    let mut bytes = [0; CLASS];
    if class.is_null() || peek(class.addr(), &mut bytes).is_none() {
        return Err(wrong());
    }
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<usize> = words.iter().map(|word| usize::from_le_bytes(*word)).collect();
    // Both the clock and the ticks are QEMU's number of instructions.
    let own = (host.exports.icount_get as *const ()).addr();
    let found: Vec<usize> = (0..words.len()).filter(|n| words[*n] == own).collect();
    let [clock, ticks] = found[..] else { return Err(wrong()) };
    let idle = clock.checked_sub(IDLE).filter(|idle| words[*idle] == 0).ok_or_else(wrong)?;
    // SAFETY: these words of QEMU's class hold functions of these types: two were found by their
    // value, and the third lies before them in the version that was checked. No CPU runs yet, and
    // QEMU's lock is held.
    unsafe {
        let words = class.cast::<*const ()>();
        words.add(clock).write(time as *const ());
        words.add(ticks).write(time as *const ());
        words.add(idle).write(is_idle as *const ());
    }
    Ok(())
}

/// Returns the guest's time in nanoseconds. The CPU's thread asks before it executes anything.
extern "C" fn time() -> i64 {
    let Some(host) = HOST.get() else { return 0 };
    if (host.exports.qemu_in_vcpu_thread)() {
        WAITS.store(false, SeqCst);
    }
    match price::picoseconds(host) {
        Some(ps) => ps / 1000,
        None => (host.exports.icount_get)(),
    }
}

/// Returns whether a halted CPU is idle. Its own thread asks when it is about to wait.
extern "C" fn is_idle(_: *mut c_void) -> bool {
    if HOST.get().is_some_and(|host| (host.exports.qemu_in_vcpu_thread)()) {
        WAITS.store(true, SeqCst);
    }
    WAITS.load(SeqCst)
}
