//! The C interface, by programs that `cc` builds. Without a C compiler they fail.

mod command;
mod eth_intel;
mod header;
mod loaded;
mod misuse;
mod served;
mod window;
mod zoo;

/// The driver in Rust that makes the same crossings as the one in C.
#[path = "../../../../examples/driver/src/main.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
mod rust;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the directory with the libraries.
fn libraries() -> PathBuf {
    // Cargo builds them beside the tests.
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn ran(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let shown = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}: {shown}", out.status);
    out
}

/// Builds a program in `dir` of C files of the crate, with the shared library.
fn built(dir: &Path, sources: &[&str]) -> PathBuf {
    let program = dir.join("program");
    let libraries = libraries();
    ran(compiler()
        .args(sources.iter().map(|source| of_crate(source)))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .arg("-ldoorbell_capi")
        // Before LD_LIBRARY_PATH, in which cargo has a directory with an older build.
        .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", libraries.display())));
    program
}

/// Builds a shared object in `dir` of a C file of the crate.
fn shared(dir: &Path, source: &str, options: &[&str]) -> PathBuf {
    let object = dir.join("driver.so");
    ran(compiler()
        .args(["-shared", "-fPIC"])
        .args(options)
        .arg(of_crate(source))
        .arg("-o")
        .arg(&object));
    object
}

fn compiler() -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    cc.arg(of_crate("include"));
    cc
}

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
