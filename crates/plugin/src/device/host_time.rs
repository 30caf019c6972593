//! The host's time, by which QEMU sizes the TLBs of the guest's CPU.
//!
//! QEMU makes a TLB larger or smaller by its use in the last 100 ms of the host's time. An arm64
//! kernel meets that: a page whose entry was dropped may have another fault than one whose entry
//! was not, so that two boots beside other work differed by some thousand instructions. The
//! plug-in is preloaded into QEMU, which then gets a time that stands still: TLBs grow, by what the
//! guest does alone.
//!
//! Source: QEMU 11.1, accel/tcg/cputlb.c (`tlb_mmu_resize_locked`), include/qemu/timer.h
//! (`get_clock_realtime`).

use std::ffi::{c_int, c_void};

/// 2020-01-01, the guest's own begin.
const SECONDS: libc::time_t = 1_577_836_800;

/// Returns the time that stands still, in the place of the C library's function.
///
/// # Safety
/// `time` must be null or point to a `timeval`.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: as the caller has it.
    if let Some(time) = unsafe { time.as_mut() } {
        *time = libc::timeval { tv_sec: SECONDS, tv_usec: 0 };
    }
    0
}

/// Refuses a QEMU that asks the C library.
pub(super) fn check() -> Result<(), String> {
    // SAFETY: a C string; nothing is called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gettimeofday".as_ptr()) };
    if found.addr() == (gettimeofday as *const ()).addr() {
        return Ok(());
    }
    Err("it is to be preloaded, too: LD_PRELOAD=PATH, which takes neither spaces nor colons".into())
}
