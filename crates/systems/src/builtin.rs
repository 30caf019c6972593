//! Files of the repository that are in the binary, and files of the user's in their place.

use crate::{InputError, hint};
use doorbell_host_io::files;
use std::path::Path;

/// A file in the binary: its name without extension, and its text.
pub(crate) type Builtin = (&'static str, &'static str);

/// Reads the file `given` if it ends in `.toml`, else the built-in file of that name. Returns its
/// name for messages, and its text.
pub(crate) fn open(
    given: &str,
    kind: &str,
    builtin: &[Builtin],
) -> Result<(String, String), InputError> {
    if given.ends_with(".toml") {
        let text = files::text(Path::new(given));
        let text = text.map_err(|e| InputError::new(given, e.to_string()))?;
        return Ok((given.to_owned(), text));
    }
    match builtin.iter().find(|(name, _)| *name == given) {
        Some((name, text)) => Ok((format!("{kind}s/{name}.toml"), (*text).to_owned())),
        None => {
            let near = hint(given, builtin.iter().map(|b| b.0));
            let what = format!(
                "no {kind} is called `{given}`{near}; `doorbell list` has all; \
                a path that ends in .toml is read as a file"
            );
            Err(InputError::new("", what))
        }
    }
}

/// Includes the list of the files in a directory of the repository, by name.
macro_rules! builtin {
    ($dir:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $dir))
    };
}
pub(crate) use builtin;
