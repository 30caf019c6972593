//! QEMU's plug-in (crate `doorbell-plugin`), which this program contains.

use crate::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The plug-in, a shared library.
pub const PLUGIN: &[u8] = include_bytes!(env!("DOORBELL_PLUGIN"));
/// The first twelve digits of its SHA-256.
pub const PLUGIN_HASH: &str = env!("DOORBELL_PLUGIN_HASH");
/// Its name in the cache: another version has another.
const NAME: &str = concat!("plugin-", env!("DOORBELL_PLUGIN_HASH"), ".so");

/// Returns the place of the plug-in, in the cache. Writes it there unless it is there.
pub fn plugin() -> Result<PathBuf, Error> {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let caches = caches.ok_or_else(|| Error::Input("HOME is not set".to_owned()))?;
    let directory = std::path::absolute(caches.join("doorbell")).map_err(Error::io("the cache"))?;
    kept(&directory).map_err(Error::io(directory.display()))
}

/// Returns its place in this directory.
fn kept(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join(NAME);
    if fs::read(&path).is_ok_and(|there| there == PLUGIN) {
        return Ok(path);
    }
    fs::create_dir_all(directory)?;
    // Another process may write it, and a QEMU may have it mapped: it comes to its place whole.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut file, PLUGIN)?;
    file.persist(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests;
