//! Calls that are wrong are refused, and a driver that is wrong is an error with its reason.

use crate::built;
use std::process::{Command, Output};

fn run(dir: &tempfile::TempDir, case: &str) -> Output {
    let program = dir.path().join("program");
    let program =
        if program.exists() { program } else { built(dir.path(), &["tests/it/misuse.c"]) };
    let args = ["run", "mynic-send", "--set", "traffic.packets=50", "--no-limits"];
    Command::new(program).env("CASE", case).args(args).output().unwrap()
}

#[test]
fn wrong_calls_are_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(&dir, "calls");
    let text = String::from_utf8(out.stdout).unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    assert_eq!((out.status.code(), told.contains("expected")), (Some(1), false), "{text}{told}");
    assert!(text.contains("calls that were refused: 36, the first of db_release"), "{text}");
}

#[test]
fn wrong_results_are_refused_and_named() {
    let dir = tempfile::tempdir().unwrap();
    for (case, first) in [("sent twice", "db_sent"), ("mapped and dropped", "send")] {
        let out = run(&dir, case);
        // A run that is stuck has no audit, and says it on stderr.
        let text = [out.stdout, out.stderr].map(|b| String::from_utf8(b).unwrap()).concat();
        assert_eq!(out.status.code(), Some(1), "{case}: {text}");
        assert!(text.contains(&format!("the first of {first}")), "{case}: {text}");
    }
}

#[test]
fn a_leak_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(&dir, "leak");
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1), "{text}");
    assert!(text.contains("buffers: taken"), "{text}");
}

#[test]
fn a_wrong_driver_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for (case, why) in [
        ("none", "there is no driver"),
        ("size", "the header is of another version"),
        ("version", "`version` of the driver is 1, and this is version 2 of the interface"),
        ("name", "`name` is `My NIC`; allowed are small letters, digits and dashes"),
        ("card", "`card` is `82599`; allowed are 82540em, 82544gc, 82545em"),
        ("send", "`send` of the driver is NULL"),
        ("in_flight", "`in_flight` is 0; allowed are 1 to 65536"),
        ("again", "a process has one driver"),
        ("open", "the driver's open returned NULL"),
    ] {
        let out = run(&dir, case);
        let told = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{case}: {told}");
        assert!(told.contains(why), "{case}: {told}");
    }
}
