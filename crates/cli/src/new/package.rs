//! `doorbell new driver` and `doorbell new device`: a crate to start from.
//!
//! The crates are `examples/driver` and `examples/device`, which the tests of the crate `doorbell`
//! compile and run. Their name is `mynic`; in a new one each `mynic` is its own.

use crate::args::Chip;
use doorbell_console::output::parent;
use doorbell_console::{Error, input};
use std::path::{Path, PathBuf};

/// A file, by its path in the crate, and its text.
type Text = (&'static str, &'static str);

/// Includes the files of an example: those that all have, and these of its sources.
macro_rules! files {
    ($of:literal: $($source:literal)*) => {
        files! { @ $of:
            "README.md" = "README.md",
            "budget.toml" = "budget.toml",
            "profile.toml" = "profile.toml",
            "receive.toml" = "receive.toml",
            "send.toml" = "send.toml",
            "tcp.toml" = "tcp.toml",
            ".github/workflows/ci.yml" = "ci.yml",
            $($source = $source,)*
        }
    };
    (@ $of:literal: $($path:literal = $file:literal,)*) => {
        &[$(($path, include_str!(concat!("../../../../examples/", $of, "/", $file)))),*]
    };
}

const DRIVER: &[Text] = files! { "driver": "src/driver.rs" "src/main.rs" "src/tests.rs" };

const DEVICE: &[Text] =
    files! { "device": "src/device.rs" "src/driver.rs" "src/main.rs" "src/tests.rs" };

/// The model in the example of a driver.
const CHIP: &str = "Config::I82545EM";

/// The program's crate, of which a checkout has all that a new one needs.
const FACADE: &str = "crates/doorbell/Cargo.toml";

/// Writes the crate of a driver for a card.
pub(super) fn driver(dir: &Path, chip: Chip, doorbell: Option<&Path>) -> Result<(), Error> {
    let own = match chip {
        Chip::I82540em => "Config::I82540EM",
        Chip::I82544gc => "Config::I82544GC",
        Chip::I82545em => CHIP,
    };
    write(dir, DRIVER, (CHIP, own), doorbell)
}

/// Writes the crate of a device and its driver.
pub(super) fn device(dir: &Path, doorbell: Option<&Path>) -> Result<(), Error> {
    write(dir, DEVICE, ("", ""), doorbell)
}

fn write(
    dir: &Path,
    files: &[Text],
    (from, to): (&str, &str),
    doorbell: Option<&Path>,
) -> Result<(), Error> {
    let name = name(dir)?;
    let root = checkout(doorbell)?;
    if dir.symlink_metadata().is_ok() {
        return Err(input!("{}: it exists already, and is left as it is", dir.display()));
    }
    let copied = |file: &str| {
        let path = root.join(file);
        std::fs::read_to_string(&path).map_err(Error::at(path.display()))
    };
    let mut all = vec![
        ("Cargo.toml", manifest(name, &root.join("crates/doorbell"))?),
        // The versions that it was tested with.
        ("Cargo.lock", copied("Cargo.lock")?),
        ("rust-toolchain.toml", copied("rust-toolchain.toml")?),
        (".gitignore", "/target\n".to_owned()),
    ];
    for (path, text) in files {
        let text = if from.is_empty() { (*text).to_owned() } else { text.replace(from, to) };
        all.push((path, text.replace("mynic", name)));
    }
    // As a whole or not at all.
    let at = |e| Error::at(dir.display())(e);
    let mut room = tempfile::Builder::new();
    let room = room.prefix(".crate-").suffix(".partial").tempdir_in(parent(dir)).map_err(at)?;
    let made = room.path().join(name);
    for (path, text) in &all {
        let path = made.join(path);
        std::fs::create_dir_all(parent(&path))
            .and_then(|()| std::fs::write(path, text))
            .map_err(at)?;
    }
    std::fs::rename(made, dir).map_err(at)
}

/// Returns the name of the crate in `dir`.
fn name(dir: &Path) -> Result<&str, Error> {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(allowed)
        && !["doorbell", "test"].contains(&name)
    {
        return Ok(name);
    }
    Err(input!(
        "{}: the crate has the name of its directory; allowed are small letters, digits and \
         dashes, a letter first, and neither `doorbell` nor `test`",
        dir.display()
    ))
}

/// Returns the checkout of Doorbell: the given one, or that which has this program.
fn checkout(given: Option<&Path>) -> Result<PathBuf, Error> {
    let is = |dir: &Path| dir.join(FACADE).is_file();
    if let Some(dir) = given {
        if is(dir) {
            return dir.canonicalize().map_err(Error::at(dir.display()));
        }
        return Err(input!("--doorbell {}: there is no {FACADE}", dir.display()));
    }
    let program = std::env::current_exe().and_then(|p| p.canonicalize()).unwrap_or_default();
    let found = program.ancestors().find(|dir| is(dir)).map(Path::to_owned);
    found.ok_or_else(|| {
        input!("this program is in no checkout of Doorbell; name one with --doorbell DIR")
    })
}

/// Returns the manifest of a crate.
fn manifest(name: &str, facade: &Path) -> Result<String, Error> {
    let facade = facade
        .to_str()
        .ok_or_else(|| input!("{}: a manifest can name no such path", facade.display()))?;
    let facade = toml_edit::Value::from(facade);
    Ok(format!(
        "[package]\n\
         name = \"{name}\"\n\
         version = \"0.1.0\"\n\
         edition = \"2024\"\n\
         publish = false\n\
         \n\
         [dependencies]\n\
         doorbell = {{ path = {} }}\n\
         \n\
         # The tests simulate many packets, by code that is compiled for this card.\n\
         [profile.dev]\n\
         opt-level = 1\n\
         lto = \"off\"\n\
         \n\
         [profile.dev.package.\"*\"]\n\
         opt-level = 0\n\
         debug = false\n\
         \n\
         # It is no part of a workspace around it.\n\
         [workspace]\n",
        facade.to_string().trim()
    ))
}
