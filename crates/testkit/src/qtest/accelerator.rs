//! Finds the qtest accelerator for a given QEMU.
//!
//! `tools/qtest-accel/build.sh` puts it in a directory named after the stamp of its QEMU build.
//! QEMU requires a symbol with its stamp of every module, so the binary contains the stamp.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const MARK: &[u8] = b"qemu_stamp_";
const DIGITS: usize = 40;

/// Returns the directory for `QEMU_MODULE_DIR`, if a module was built for this binary. A QEMU with
/// a built-in accelerator needs none.
pub(super) fn module_dir(qemu: &Path, target: &str) -> Option<PathBuf> {
    let stamp = stamp(&fs::read(qemu).ok()?)?;
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|d| !d.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(env::var_os("HOME")?).join(".cache"),
    };
    let dir = cache.join("doorbell/qtest-accel").join(stamp);
    dir.join(format!("accel-qtest-{target}.so")).is_file().then_some(dir)
}

fn stamp(binary: &[u8]) -> Option<String> {
    // 18 MB: splitting at a byte is the one search in std that is fast without optimisation, and
    // 'q' is rare in a binary.
    let after = |rest: &[u8]| {
        let digits = rest.strip_prefix(&MARK[1..])?.get(..DIGITS)?;
        digits
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then(|| String::from_utf8_lossy(digits).into_owned())
    };
    binary.split(|b| *b == MARK[0]).find_map(after)
}

#[cfg(test)]
mod tests;
