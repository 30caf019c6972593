//! The systems that a program knows, and the profiles and scenarios that it carries.

use crate::system::System;
use crate::{InputError, SettingError, hint};
use doorbell_host_io::files;
use std::path::Path;

/// A file in the binary: its name without extension, and its text.
pub(crate) type Builtin = (&'static str, &'static str);

/// The systems of a program, and its profiles and scenarios by name.
#[derive(Debug)]
pub struct Registry {
    /// The systems, in the order of lists.
    pub systems: &'static [&'static System],
    /// Profiles in the binary.
    pub profiles: &'static [Builtin],
    /// Scenarios in the binary.
    pub scenarios: &'static [Builtin],
}

/// Includes the list of the files in a directory of the repository, by name.
macro_rules! builtin {
    ($dir:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $dir))
    };
}

/// The systems of this repository, with its profiles and scenarios.
pub static DOORBELL: Registry = Registry {
    systems: &[
        &crate::mlx5::SYSTEM,
        &crate::e1000::SYSTEM,
        &crate::axienet::SYSTEM,
        &crate::ibmveth::SYSTEM,
        &crate::ibmvnic::SYSTEM,
    ],
    profiles: builtin!("profiles"),
    scenarios: builtin!("scenarios"),
};

impl Registry {
    /// Returns the system called `name`.
    ///
    /// # Errors
    /// There is none. The error has the nearest name, and all of them.
    pub fn system(&self, name: &str) -> Result<&'static System, SettingError> {
        self.systems.iter().find(|r| r.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.systems.iter().map(|r| r.name).collect();
            SettingError(format!(
                "no system is called `{name}`{}; there are: {}",
                hint(name, names.iter().copied()),
                names.join(", ")
            ))
        })
    }
}

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
