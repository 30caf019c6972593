//! The writer, and that the reader gets back what it wrote.

use super::super::{Writer, read};
use super::*;
use doorbell_hal::Time;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn names(dir: &Path) -> Vec<String> {
    let mut v: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    v.sort();
    v
}

fn example(path: &Path) -> Writer {
    let mut w = Writer::create(path).unwrap();
    let a = w.interface("wire", 100_000_000_000).unwrap();
    w.frame(a, Time::from_ps(1_234_567_891_234), &frame(61)).unwrap();
    w
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read(
        packets in prop::collection::vec(
            (any::<u64>(), any::<bool>(), prop::collection::vec(any::<u8>(), 14..2_000)),
            1..20,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let mut w = Writer::create(&path).unwrap();
        let on = [w.interface("tx", 10_000_000_000).unwrap(), w.interface("receive", 1).unwrap()];
        for (ps, i, bytes) in &packets {
            w.frame(on[usize::from(*i)], Time::from_ps(*ps), bytes).unwrap();
        }
        w.finish().unwrap();
        let earliest = packets.iter().map(|p| p.0 / 1_000).min().unwrap();
        let expect: Vec<_> =
            packets.iter().map(|p| (p.0 / 1_000 - earliest, p.2.clone())).collect();
        prop_assert_eq!(content(&read(&path).unwrap()), expect);
    }
}

#[test]
fn the_file_is_these_bytes_on_every_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = example(&dir.path().join("x.pcapng")).finish().unwrap();
    let ns = 1_234_567_891_u64;
    let options = [
        LITTLE.option(2, b"wire"),
        LITTLE.option(8, &LITTLE.i64(100_000_000_000)),
        LITTLE.option(9, &[9]),
        LITTLE.option(0, &[]),
    ];
    let expect = [
        LITTLE.section(),
        LITTLE.interface(1, 0, &options),
        LITTLE.enhanced(0, ns, &frame(61), &[]),
    ];
    assert_eq!(fs::read(path).unwrap(), expect.concat());
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let w = example(&dir.path().join("x.pcapng"));
    assert_eq!(names(dir.path()).len(), 1, "the temporary file is beside the target");
    drop(w);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn an_older_file_stays_until_the_new_one_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcapng");
    fs::write(&path, "older").unwrap();
    drop(example(&path));
    assert_eq!(fs::read(&path).unwrap(), b"older");
    example(&path).finish().unwrap();
    assert_eq!(read(&path).unwrap().frames.len(), 1);
    assert_eq!(names(dir.path()), ["x.pcapng"]);
}

#[test]
fn a_symbolic_link_is_followed_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::write(&real, "").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    example(&link).finish().unwrap();
    assert!(link.is_symlink());
    assert_eq!(read(&real).unwrap().frames.len(), 1);
}

#[test]
fn a_device_is_not_replaced_by_a_file() {
    let e = Writer::create("/dev/null").unwrap_err();
    assert_eq!(
        e.to_string(),
        "/dev/null: a capture can only replace a regular file, which this is not"
    );
    let e = Writer::create("/nonexistent/x.pcapng").unwrap_err();
    assert!(e.to_string().starts_with("/nonexistent/x.pcapng: No such file or directory"), "{e}");
}

#[test]
fn frames_that_ethernet_cannot_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut w = Writer::create(dir.path().join("x")).unwrap();
    let on = w.interface("wire", 1).unwrap();
    assert!(w.frame(on, Time::ZERO, &frame(13)).is_err());
    assert!(w.frame(on, Time::ZERO, &vec![0; 262_145]).is_err());
    w.frame(on, Time::ZERO, &vec![0; 262_144]).unwrap();
    let path = w.finish().unwrap();
    assert_eq!(read(path).unwrap().frames.len(), 1);
}
