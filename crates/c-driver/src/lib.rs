#![doc = include_str!("../README.md")]
//!
//! Each function of `doorbell.h` but `db_main` is here under its name. It takes pointers of C, so
//! it is unsafe; what it can check it checks. A panic of the machine does not cross it: the call
//! returns zero, and the panic goes on once the driver's function has returned. Where panics
//! abort, as in release builds, they do.

mod db;
mod driver;
mod load;
mod machine;
mod region;
#[cfg(test)]
mod tests;
mod trap;

pub use db::Db;
pub use driver::{DbDriver, DbFrame};
pub use load::{Loaded, Wrong, load, take};

use db::{INVALID, NO_MEMORY, OK, Word};
use doorbell_hal::{CpuWork, Direction, Fence, Reg, Span};
use driver::CHECKSUM;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of the header that this library is for.
pub const VERSION: u32 = 2;

/// The header: `doorbell.h`.
pub const HEADER: &str = include_str!("../../capi/include/doorbell.h");

/// A type of the interface, as C writes it.
trait InC {
    const NAME: &'static str;
}

macro_rules! in_c {
    ($($rust:ty = $c:literal,)*) => {
        $(impl InC for $rust {
            const NAME: &'static str = $c;
        })*
    };
}

in_c! {
    () = "void", u8 = "uint8_t", u16 = "uint16_t", u32 = "uint32_t", u64 = "uint64_t",
    c_int = "int", *mut Db = "db *", *mut c_void = "void *", *const c_void = "const void *",
    *const DbFrame = "const struct db_frame *",
}

/// Makes `f` on the machine of `db`. Returns zero, and counts the call, if `f` has no result.
///
/// # Safety
/// `db` is null or what the driver was given.
unsafe fn on<R: Default>(
    db: *mut Db,
    name: &'static str,
    f: impl FnOnce(&mut Db) -> Option<R>,
) -> R {
    // SAFETY: It lives until the driver is closed, and no other reference to it does, because Rust
    // keeps none while C runs.
    let Some(db) = (unsafe { db.as_mut() }) else { return R::default() };
    match catch_unwind(AssertUnwindSafe(|| f(db))) {
        Ok(Some(r)) => return r,
        Ok(None) => db.refuse(name),
        Err(panic) => db.panicked = Some(panic),
    }
    R::default()
}

/// Makes `f` as [`on`] does, and returns what it returns to C.
///
/// # Safety
/// As of [`on`].
unsafe fn done(db: *mut Db, name: &'static str, f: impl FnOnce(&mut Db) -> Option<c_int>) -> c_int {
    // SAFETY: The caller's.
    match unsafe { on(db, name, |db| f(db).map(Done)) } {
        Done(code) => code,
    }
}

/// A pointer for C, null by default.
struct Pointer(*mut c_void);

impl Pointer {
    fn at(address: usize) -> Pointer {
        Pointer(std::ptr::with_exposed_provenance_mut(address))
    }
}

impl Default for Pointer {
    fn default() -> Pointer {
        Pointer(std::ptr::null_mut())
    }
}

/// A result of C whose absence is an error.
struct Done(c_int);

impl Default for Done {
    fn default() -> Done {
        Done(INVALID)
    }
}

/// Declares functions of the header, and lists them as C declares them.
macro_rules! interface {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $of:ty),*) $(-> $to:ty)? $body:block)*) => {
        $($(#[$meta])*
        ///
        /// # Safety
        /// Pointers are what `doorbell.h` says, and valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) $(-> $to)? $body)*

        /// The prototypes of all functions.
        pub const PROTOTYPES: &[&[&str]] = &[$(&[
            interface!(@to $($to)?), stringify!($name), $(<$of as InC>::NAME),*
        ]),*];
    };
    (@to) => { <() as InC>::NAME };
    (@to $to:ty) => { <$to as InC>::NAME };
}

interface! {
    /// Returns the version of the library.
    fn db_version() -> u32 {
        VERSION
    }

    /// Reads a register.
    fn db_read32(db: *mut Db, reg: u32) -> u32 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_read32", |db| Some(db.machine()?.read32(Reg::at(reg)))) }
    }

    /// Writes a register.
    fn db_write32(db: *mut Db, reg: u32, value: u32) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_write32", |db| db.write(reg, Word::Half(value))) }
    }

    /// Writes a register of 64 bits.
    fn db_write64(db: *mut Db, reg: u32, value: u64) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_write64", |db| db.write(reg, Word::Whole(value))) }
    }

    /// Allocates memory that CPU and device share.
    fn db_coherent(db: *mut Db, len: u32, align: u32) -> u32 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_coherent", |db| db.allocate(true, len, align)) }
    }

    /// Allocates a buffer.
    fn db_buffer(db: *mut Db, len: u32, align: u32) -> u32 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_buffer", |db| db.allocate(false, len, align)) }
    }

    /// Releases memory that is not mapped.
    fn db_release(db: *mut Db, mem: u32) -> c_int {
        // SAFETY: The caller's.
        unsafe { done(db, "db_release", |db| db.release(mem).map(|()| OK)) }
    }

    /// Lends a part of a buffer to the device.
    fn db_map(db: *mut Db, mem: u32, start: u32, len: u32, direction: c_int) -> c_int {
        let map = |db: &mut Db| {
            let dir = match direction {
                0 => Direction::ToDevice,
                1 => Direction::FromDevice,
                _ => return None,
            };
            let done = db.map(mem, start..start.checked_add(len)?, dir)?;
            Some(if done { OK } else { NO_MEMORY })
        };
        // SAFETY: The caller's.
        unsafe { done(db, "db_map", map) }
    }

    /// Takes a buffer back from the device.
    fn db_unmap(db: *mut Db, mem: u32) -> c_int {
        // SAFETY: The caller's.
        unsafe { done(db, "db_unmap", |db| db.unmap(mem).map(|()| OK)) }
    }

    /// Returns the device's address of memory that it can reach.
    fn db_iova(db: *mut Db, mem: u32) -> u64 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_iova", |db| db.iova(mem)) }
    }

    /// Returns the registers as memory.
    fn db_window(db: *mut Db) -> *mut c_void {
        let window = |db: &mut Db| db.window().map(Pointer::at);
        // SAFETY: The caller's.
        unsafe { on(db, "db_window", window) }.0
    }

    /// Returns the memory of a handle.
    fn db_pointer(db: *mut Db, mem: u32) -> *mut c_void {
        let pointer = |db: &mut Db| db.pointer(mem).map(|at| Pointer::at(at as usize));
        // SAFETY: The caller's.
        unsafe { on(db, "db_pointer", pointer) }.0
    }

    /// Returns the machine of the call that this thread is in.
    fn db_current() -> *mut Db {
        trap::active()
    }

    /// Loads from coherent memory.
    fn db_load8(db: *mut Db, mem: u32, at: u32) -> u8 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_load8", |db| db.load(mem, at).map(u8::from_le_bytes)) }
    }

    /// Loads from coherent memory.
    fn db_load16(db: *mut Db, mem: u32, at: u32) -> u16 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_load16", |db| db.load(mem, at).map(u16::from_le_bytes)) }
    }

    /// Loads from coherent memory.
    fn db_load32(db: *mut Db, mem: u32, at: u32) -> u32 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_load32", |db| db.load(mem, at).map(u32::from_le_bytes)) }
    }

    /// Loads from coherent memory.
    fn db_load64(db: *mut Db, mem: u32, at: u32) -> u64 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_load64", |db| db.load(mem, at).map(u64::from_le_bytes)) }
    }

    /// Stores to coherent memory.
    fn db_store8(db: *mut Db, mem: u32, at: u32, value: u8) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_store8", |db| db.store(mem, at, value.to_le_bytes())) }
    }

    /// Stores to coherent memory.
    fn db_store16(db: *mut Db, mem: u32, at: u32, value: u16) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_store16", |db| db.store(mem, at, value.to_le_bytes())) }
    }

    /// Stores to coherent memory.
    fn db_store32(db: *mut Db, mem: u32, at: u32, value: u32) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_store32", |db| db.store(mem, at, value.to_le_bytes())) }
    }

    /// Stores to coherent memory.
    fn db_store64(db: *mut Db, mem: u32, at: u32, value: u64) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_store64", |db| db.store(mem, at, value.to_le_bytes())) }
    }

    /// Copies bytes out of memory.
    fn db_get(db: *mut Db, from: u32, at: u32, to: *mut c_void, len: u32) -> c_int {
        let get = |db: &mut Db| {
            if to.is_null() {
                return None;
            }
            // SAFETY: The caller's, and the memory of the machine is elsewhere.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len as usize) };
            db.get(from, at, to).map(|()| OK)
        };
        // SAFETY: The caller's.
        unsafe { done(db, "db_get", get) }
    }

    /// Copies bytes into memory.
    fn db_put(db: *mut Db, to: u32, at: u32, from: *const c_void, len: u32) -> c_int {
        let put = |db: &mut Db| {
            if from.is_null() {
                return None;
            }
            // SAFETY: The caller's, and the memory of the machine is elsewhere.
            let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) };
            db.put(to, at, from).map(|()| OK)
        };
        // SAFETY: The caller's.
        unsafe { done(db, "db_put", put) }
    }

    /// Orders stores before register writes.
    fn db_wmb(db: *mut Db) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_wmb", |db| db.fence(Fence::Write)) }
    }

    /// Orders stores to coherent memory.
    fn db_dma_wmb(db: *mut Db) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_dma_wmb", |db| db.fence(Fence::DmaWrite)) }
    }

    /// Orders loads of coherent memory.
    fn db_dma_rmb(db: *mut Db) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_dma_rmb", |db| db.fence(Fence::DmaRead)) }
    }

    /// Declares CPU work.
    fn db_charge(db: *mut Db, work: c_int, amount: u32) {
        let charge = |db: &mut Db| {
            let work = self::work(work, amount)?;
            db.machine().map(|m| m.charge(work))
        };
        // SAFETY: The caller's.
        unsafe { on(db, "db_charge", charge) }
    }

    /// Returns this CPU's time.
    fn db_now_ns(db: *mut Db) -> u64 {
        // SAFETY: The caller's.
        unsafe { on(db, "db_now_ns", |db| Some(db.machine()?.now().ps() / 1000)) }
    }

    /// Waits.
    fn db_delay_ns(db: *mut Db, ns: u64) {
        // As long as a driver may wait: an hour, so that no sum of times is too great.
        let ns = ns.min(3_600_000_000_000);
        // SAFETY: The caller's.
        unsafe { on(db, "db_delay_ns", |db| db.machine().map(|m| m.delay(Span::from_ns(ns)))) }
    }

    /// Takes the time of one turn of a polling loop.
    fn db_relax(db: *mut Db) {
        // SAFETY: The caller's.
        unsafe { on(db, "db_relax", |db| db.machine().map(|m| m.relax())) }
    }

    /// Completes the checksum of a frame.
    fn db_checksum(db: *mut Db, frame: *const DbFrame) -> c_int {
        let sum = |db: &mut Db| {
            // SAFETY: The caller's.
            let f = unsafe { frame.as_ref() }?;
            if f.flags & CHECKSUM == 0 {
                return Some(OK);
            }
            let range = f.start..f.start.checked_add(f.len)?;
            db.checksum(f.mem, range, (f.checksum_start, f.checksum_offset)).map(|()| OK)
        };
        // SAFETY: The caller's.
        unsafe { done(db, "db_checksum", sum) }
    }

    /// Gives the buffer of a sent frame back.
    fn db_sent(db: *mut Db, mem: u32) -> c_int {
        // SAFETY: The caller's.
        unsafe { done(db, "db_sent", |db| db.sent(mem).map(|()| OK)) }
    }

    /// Passes a received frame up.
    fn db_received(db: *mut Db, mem: u32, start: u32, len: u32, verified: c_int) -> c_int {
        let up = |db: &mut Db| db.received(mem, start, len, verified != 0).map(|()| OK);
        // SAFETY: The caller's.
        unsafe { done(db, "db_received", up) }
    }
}

/// Returns the work of this number.
fn work(work: c_int, n: u32) -> Option<CpuWork> {
    use CpuWork::*;
    let all = [
        Stack,
        Copy(n),
        Sum(n),
        TxDescriptor(n),
        TxShared,
        TxSession,
        TxPad(n),
        TxNotify,
        TxDone(n),
        Completion,
        RxPost,
        RxPacket,
        Interrupt,
        Poll,
        Wake,
        Map,
        Unwritten,
        Redirect,
    ];
    all.get(usize::try_from(work).ok()?).copied()
}
