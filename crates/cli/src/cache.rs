//! A directory that keeps the numbers of points: a file for each, under the hash that is its key.
//!
//! Files appear whole, by a rename, so any number of processes on any number of machines may use
//! one directory, and a process may be killed at any time. A file begins with the hash of its rest:
//! a damaged one is reported, and its point runs again. Above its size the directory loses the
//! files that were used longest ago.

use doorbell_console::output::{begun_beside, keep, tell};
use doorbell_console::{Error, input};
use doorbell_host_io::files;
use doorbell_study::record::Outcome;
use sha2::{Digest, Sha256};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The share of the size by which a directory may grow before it is looked through again.
const SLACK: u64 = 8;
/// The age at which the unfinished file of a process that was killed is removed.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Cache {
    dir: PathBuf,
    /// The most bytes on disk.
    most: u64,
    /// Bytes written since the directory was looked through.
    grown: AtomicU64,
    /// Without a notice of what it had.
    quiet: bool,
}

impl Cache {
    /// Opens the cache in a directory, which is made if necessary.
    pub(crate) fn open(dir: &Path, most: u64, quiet: bool) -> Result<Cache, Error> {
        fs::create_dir_all(dir).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                input!("--cache {}: it exists and is not a directory", dir.display())
            }
            _ => Error::at(format!("--cache {}", dir.display()))(e),
        })?;
        Ok(Cache { dir: dir.to_owned(), most, grown: AtomicU64::new(0), quiet })
    }

    /// Returns the file of a key. Directories of 256 names each stay small.
    fn path(&self, key: &str) -> PathBuf {
        let (dir, file) = key.split_at(2);
        self.dir.join(dir).join(file)
    }

    /// Returns the numbers of a point, if they are there.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Outcome>, Error> {
        let path = self.path(key);
        let read = files::open(&path).and_then(|file| {
            let text = files::text_from(&file)?;
            // Somebody else's file keeps its time.
            let _ = file.set_modified(SystemTime::now());
            Ok(text)
        });
        let found = match read {
            Ok(text) => parse(&text),
            // No text, too long, or a pipe: the numbers will replace it.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput) => None,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::at(path.display())(e)),
        };
        if found.is_none() {
            let path = path.display();
            tell(format_args!("{path}: damaged, so its point runs again"));
        }
        Ok(found)
    }

    /// Keeps the numbers of a point.
    pub(crate) fn put(&self, key: &str, outcome: &Outcome) -> Result<(), Error> {
        let path = self.path(key);
        let text = text(outcome);
        let dir = path.parent().unwrap_or(&self.dir);
        let begun = fs::create_dir_all(dir).and_then(|()| begun_beside(&path, text.as_bytes()));
        keep(begun.map_err(Error::at(path.display()))?, &path)?;
        let grown = self.grown.fetch_add(text.len() as u64, Ordering::Relaxed);
        if grown + text.len() as u64 > self.most / SLACK {
            self.trim();
        }
        Ok(())
    }

    /// Tells how many points of how many were there.
    pub(crate) fn had(&self, points: usize, of: usize) {
        if !self.quiet {
            tell(format_args!("{} had {points} of {of} points", self.dir.display()));
        }
    }

    /// Removes what was used longest ago from a directory that has grown over its size, and
    /// unfinished files of long ago. Another process may do the same at the same time.
    pub(crate) fn trim(&self) {
        if self.grown.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        let mut all = Vec::new();
        let dirs = entries(&self.dir).filter(|e| is_hex(e, 2));
        for entry in dirs.flat_map(|e| entries(&e.path()).collect::<Vec<_>>()) {
            let Ok(found) = entry.metadata() else { continue };
            let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if is_hex(&entry, 62) {
                all.push((used, entry.path(), found.blocks() * 512));
            } else if entry.path().extension().is_some_and(|e| e == "partial")
                && used.elapsed().is_ok_and(|age| age > STALE)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut size: u64 = all.iter().map(|(_, _, size)| size).sum();
        if size <= self.most {
            return;
        }
        all.sort();
        for (_, path, its) in all {
            if size <= self.most - self.most / SLACK {
                break;
            }
            let _ = fs::remove_file(path);
            size -= its;
        }
    }
}

/// Returns the entries of a directory that can be read.
fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Returns true if the name is so many hexadecimal digits: nothing else is the cache's.
fn is_hex(entry: &DirEntry, digits: usize) -> bool {
    let name = entry.file_name();
    let name = name.as_encoded_bytes();
    name.len() == digits && name.iter().all(u8::is_ascii_hexdigit)
}

/// Returns the text of a file: the hash of the rest in the first line.
fn text(outcome: &Outcome) -> String {
    let json = serde_json::to_string(outcome);
    let json = json.unwrap_or_else(|e| unreachable!("plain values serialise: {e}"));
    format!("{:x}\n{json}\n", Sha256::digest(json.as_bytes()))
}

/// Returns the numbers in a file, unless it is damaged.
fn parse(text: &str) -> Option<Outcome> {
    let (hash, json) = text.strip_suffix('\n')?.split_once('\n')?;
    if hash != format!("{:x}", Sha256::digest(json.as_bytes())) {
        return None;
    }
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests;
