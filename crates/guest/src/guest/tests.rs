use super::*;
use std::cell::Cell;
use std::process::Command;

/// Waits for a connection that never comes, from a program that runs on.
fn waited(patience: Duration, stop: &dyn Fn() -> bool) -> Error {
    let directory = tempfile::tempdir().unwrap();
    let listening = UnixListener::bind(directory.path().join("talk")).unwrap();
    let mut qemu = ChildGuard::spawn("sleep", Command::new("sleep").arg("600")).unwrap();
    accepted(&listening, &mut qemu, patience, stop).unwrap_err()
}

#[test]
fn a_signal_ends_the_wait_for_the_plug_in() {
    let looks = Cell::new(0);
    let stop = || looks.replace(looks.get() + 1) == 3;
    assert!(matches!(waited(Duration::from_secs(600), &stop), Error::Interrupted));
}

#[test]
fn the_wait_for_the_plug_in_has_an_end() {
    let said = waited(Duration::from_millis(20), &|| false).to_string();
    assert!(said.starts_with("the plug-in did not connect for 0 s"), "{said}");
}

#[test]
fn a_program_that_ends_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let listening = UnixListener::bind(directory.path().join("talk")).unwrap();
    let mut qemu = ChildGuard::spawn("true", &mut Command::new("true")).unwrap();
    let patience = Duration::from_secs(600);
    assert!(accepted(&listening, &mut qemu, patience, &|| false).unwrap().is_none());
}
