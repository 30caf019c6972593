//! Paths of files that another file names.

use std::path::Path;

/// Returns the path of a file that is named relative to another.
pub(crate) fn beside(file: &str, given: &str) -> String {
    match Path::new(file).parent() {
        Some(dir) => dir.join(given).to_string_lossy().into_owned(),
        None => given.to_owned(),
    }
}

/// Returns the same, or the name of a built-in one, which does not end in .toml.
pub(crate) fn named_beside(file: &str, given: &str) -> String {
    if given.ends_with(".toml") { beside(file, given) } else { given.to_owned() }
}
