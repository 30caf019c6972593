//! Builds QEMU's plug-in and tells its place, so that the program contains it: an installed program
//! has nothing beside it.
//!
//! The plug-in is a shared library and cargo builds no such thing for a dependency, so this starts
//! cargo. It has a target directory of its own, because that of the build around is locked, and one
//! for all profiles of it, so that it is built once.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The crate's library.
const LIBRARY: &str = "libdoorbell_plugin.so";

fn variable(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")).into()
}

/// Builds the plug-in. Returns its place.
fn built(target: &Path) -> PathBuf {
    let manifest = variable("CARGO_MANIFEST_DIR").join("../plugin/Cargo.toml");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--release", "--manifest-path"]).arg(&manifest);
    // Named always, since a configuration may name another.
    let wanted = variable("TARGET");
    cargo.arg("--target-dir").arg(target).arg("--target").arg(&wanted);
    // What is meant for the build around: its linter, sanitizer or coverage, and its profile.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let about = |prefix: &str| name.starts_with(prefix);
        if about("CARGO_PROFILE_") || name.contains("RUSTFLAGS") || name.contains("_WRAPPER") {
            cargo.env_remove(&*name);
        }
    }
    let done = cargo.status().expect("cargo starts");
    assert!(done.success(), "the plug-in of QEMU is not built: {done}");
    target.join(wanted).join("release").join(LIBRARY)
}

/// Has cargo run this again once a source of the library changes, as the compiler listed them.
fn watch(library: &Path) -> io::Result<()> {
    let listed = fs::read_to_string(library.with_extension("d"))?;
    let (_, sources) = listed.split_once(": ").unwrap_or_default();
    // A blank in a name is escaped.
    let sources = sources.trim().replace("\\ ", "\0");
    for source in sources.split(' ') {
        println!("cargo::rerun-if-changed={}", source.replace('\0', " "));
    }
    for file in ["../../Cargo.lock", "../../Cargo.toml", "../plugin/Cargo.toml", "build.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let out = variable("OUT_DIR");
    let plugin = out.join(LIBRARY);
    if env::var_os("CARGO_CFG_FUZZING").is_some() {
        // Fuzz targets boot no guest.
        fs::write(&plugin, "")?;
    } else {
        // TARGET/PROFILE/build/CRATE/out
        let target = out.ancestors().nth(4).expect("cargo's directories").join("plugin");
        let library = built(&target);
        watch(&library)?;
        fs::copy(&library, &plugin)?;
    }
    let hash = format!("{:x}", Sha256::digest(fs::read(&plugin)?));
    println!("cargo::rustc-env=DOORBELL_PLUGIN={}", plugin.display());
    println!("cargo::rustc-env=DOORBELL_PLUGIN_HASH={}", &hash[..12]);
    Ok(())
}
