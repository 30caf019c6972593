use super::*;
use std::os::unix::process::ExitStatusExt;

#[test]
fn a_child_that_is_dropped_is_gone() {
    let child = ChildGuard::spawn("sleep", Command::new("sleep").arg("60")).unwrap();
    let proc = format!("/proc/{}", child.id());
    assert!(std::path::Path::new(&proc).exists());
    drop(child);
    assert!(!std::path::Path::new(&proc).exists());
}

#[test]
fn a_child_that_ended_is_told_with_how() {
    let mut child = ChildGuard::spawn("false", &mut Command::new("false")).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let error = loop {
        match child.alive() {
            Err(e) => break e.to_string(),
            Ok(()) => assert!(Instant::now() < until),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(error, "false has ended: exit status: 1");
}

#[test]
fn a_signal_ends_a_child_and_only_then() {
    let mut child = ChildGuard::spawn("sleep", Command::new("sleep").arg("60")).unwrap();
    assert_eq!(child.wait(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::TimedOut);
    child.signal(Signal::TERM).unwrap();
    let status = child.wait(Duration::from_secs(20)).unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    // One that has been reaped gets none.
    child.signal(Signal::TERM).unwrap();
}

#[test]
fn a_child_ends_with_the_thread_that_started_it() {
    let child =
        std::thread::spawn(|| ChildGuard::spawn("sleep", Command::new("sleep").arg("60")).unwrap());
    while !child.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let until = Instant::now() + Duration::from_secs(20);
    let mut kept = child.join().unwrap();
    while kept.ended().unwrap().is_none() {
        assert!(Instant::now() < until, "nobody killed it");
        std::thread::sleep(Duration::from_millis(5));
    }
}
