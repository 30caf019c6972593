//! Drivers in C, in shared objects that the command loads.

use crate::common::program;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The example, on one page with what a case changes.
const EXAMPLE: &str = include_str!("../../../../examples/c/mynic.c");

/// Builds a shared object `NAME.so` in `dir` from the text of a driver, with the header that the
/// command writes.
fn built(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (header, source) = (dir.join("doorbell.h"), dir.join(format!("{name}.c")));
    if !header.exists() {
        let written =
            Command::new(program()).args(["new", "header"]).arg(&header).output().unwrap();
        assert!(written.status.success(), "{written:?}");
    }
    std::fs::write(&source, text).unwrap();
    let object = dir.join(format!("{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    let out = cc.arg(dir).arg(source).arg("-o").arg(&object).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    object
}

fn run(dir: &Path, line: &str) -> Output {
    Command::new(program()).args(line.split(' ')).current_dir(dir).output().unwrap()
}

#[test]
fn every_command_that_runs_a_system_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "mine", EXAMPLE);
    for line in [
        "run --driver mine.so --card 82540em --set traffic.packets=300 --out run",
        "run mynic-receive --driver mine.so --set traffic.duration=2ms --no-limits",
        "compare mynic-send --driver mine.so --set traffic.packets=300 --with pcie.mps=256",
        "sweep --driver mine.so --set traffic.packets=300 --over traffic.burst=1,8 --jobs 2",
        "rank mynic-send --driver mine.so --set traffic.packets=300 --side traffic.burst=1 \
         --side traffic.burst=8 --by mmio_writes",
        "new budget --of mynic-send --driver mine.so b.toml",
        "check b.toml --driver mine.so",
        "repeat run --driver mine.so",
        "list --keys mynic --driver mine.so",
    ] {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let out = run(dir.path(), &line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn a_wrong_object_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    built(path, "old", &EXAMPLE.replace(".version = DB_VERSION", ".version = 1"));
    built(
        path,
        "static",
        &EXAMPLE.replace("const struct db_driver db", "const struct db_driver my"),
    );
    std::fs::write(path.join("text.so"), "no object").unwrap();
    let missing = EXAMPLE
        .replace("\treset(m);", "\textern void db_nothing(db *);\n\tdb_nothing(m);\n\treset(m);");
    built(path, "missing", &missing);
    for (line, told) in [
        ("run --driver absent.so", "--driver absent.so: No such file"),
        ("run --driver text.so", "text.so: "),
        ("run --driver old.so", "`version` of the driver is 1, and this is version 2"),
        ("run --driver static.so", "it exports no symbol `db_driver`"),
        ("run --driver missing.so", "undefined symbol: db_nothing; it takes a shared object"),
        ("run --driver old.so --card 82599", "82540em, 82544gc, 82545em"),
        ("run --card 82540em mlx5-pktgen-64", "--driver"),
        ("run", "SCENARIO"),
    ] {
        let out = run(path, line);
        let text = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(told), "{line}: {text}");
    }
}
