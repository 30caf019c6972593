//! Files below a directory.

use crate::Error;
use std::path::{Path, PathBuf};

/// Returns all files below a directory, sorted. Links to directories are not followed.
pub(crate) fn below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        let entries = std::fs::read_dir(&next).map_err(Error::io(next.display()))?;
        for entry in entries {
            let entry = entry.map_err(Error::io(next.display()))?;
            let kind = entry.file_type().map_err(Error::io(entry.path().display()))?;
            if kind.is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
