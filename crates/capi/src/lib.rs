#![doc = include_str!("../README.md")]
//!
//! The functions are those of `doorbell-c-driver`; `db_main` is the whole command on top.

use doorbell_c_driver::{DbDriver, take};
use std::ffi::{CStr, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use doorbell_c_driver::PROTOTYPES;

/// The prototype of [`db_main`].
pub const MAIN: &[&str] = &["int", "db_main", "int", "char **", "const struct db_driver *"];

/// Runs the command that the arguments name on this driver. Returns its exit code.
///
/// # Safety
/// Pointers are what `doorbell.h` says, and valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn db_main(
    argc: c_int,
    argv: *mut *mut c_char,
    driver: *const DbDriver,
) -> c_int {
    let argc = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    let args = (0..argc).map_while(|i| {
        // SAFETY: The caller's: there are `argc` strings, and a null pointer ends them.
        let arg = unsafe { *argv.add(i) };
        // SAFETY: As above.
        (!arg.is_null())
            .then(|| OsString::from_vec(unsafe { CStr::from_ptr(arg) }.to_bytes().into()))
    });
    let args: Vec<OsString> = args.collect();
    let run = || {
        // SAFETY: The caller's.
        let registry = unsafe { take(driver, None) }?;
        Ok::<u8, doorbell_c_driver::Wrong>(doorbell::main_of(
            registry,
            doorbell::Devices::default(),
            &[],
            args,
        ))
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(code)) => code.into(),
        Ok(Err(why)) => {
            // A closed stderr is no error.
            let _ = writeln!(std::io::stderr(), "db_main: {why}");
            2
        }
        // The panic has been shown.
        Err(_) => 1,
    }
}
