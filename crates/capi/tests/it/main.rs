//! The C interface, by programs that `cc` builds. Without a C compiler they fail.

mod command;
mod header;
mod misuse;

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

/// Builds a program in `dir` of a C file of the crate, with the shared library.
fn built(dir: &Path, source: &str) -> PathBuf {
    let program = dir.join("program");
    let libraries = libraries();
    ran(compiler()
        .arg(of_crate(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&libraries)
        .arg("-ldoorbell_capi")
        .arg(format!("-Wl,-rpath,{}", libraries.display())));
    program
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
