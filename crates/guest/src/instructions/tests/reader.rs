//! Tests of the protocol's reader, with a plug-in of their own.

use crate::instructions::counter::NOT_COUNTED;
use crate::instructions::{Counter, Event, Executed, Snapshot, Symbols, Work};
use proptest::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const VERSION: u64 = u64::from_be_bytes(*b"dbcount\x02");
const SOON: Duration = Duration::from_millis(200);

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Returns the words with their length in front.
fn message(words: &[u64]) -> Vec<u8> {
    [bytes(&[words.len() as u64 * 8]), bytes(words)].concat()
}

/// Reads once from a plug-in that sends these bytes.
fn answered(sent: &[u8]) -> std::io::Result<Snapshot> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("count");
    let mut counter = Counter::bind(&path).unwrap().with_patience(SOON);
    let mut plugin = UnixStream::connect(&path).unwrap();
    plugin.write_all(sent).unwrap();
    counter.read()
}

#[test]
fn differences_of_two_answers_are_work() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("count");
    let mut counter = Counter::bind(&path).unwrap();
    let mut plugin = UnixStream::connect(&path).unwrap();
    plugin.write_all(&message(&[VERSION, 1, 2, 0x10, 5, 0x14, 5, NOT_COUNTED, 0])).unwrap();
    let before = counter.read().unwrap();
    let later = [VERSION, 3, 3, 0x10, 9, 0x14, 5, 0x18, 2, NOT_COUNTED, 0];
    plugin.write_all(&message(&later)).unwrap();
    let executed = counter.read().unwrap().since(&before);
    let mut asked = [0; 10];
    plugin.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"read\nread\n");
    let work = |instructions| Work { instructions, ..Work::default() };
    let all: Vec<_> = executed.by_address().collect();
    assert_eq!(all, [(0x10, work(4)), (0x18, work(2))]);
    assert_eq!(executed.unlisted(), work(2));
    assert_eq!(executed.total(), work(8));
    assert_eq!(executed.within(0x11..0x19), work(2));
    assert!(!executed.has_mmio());
}

#[test]
fn device_accesses_are_beside_instructions() {
    let words = [VERSION, 4, 1, 0x10, 5, 2, 0x10, 1, 2, NOT_COUNTED, 3, 0, 0];
    let executed = answered(&message(&words)).unwrap().since(&Snapshot::default());
    assert!(executed.has_mmio());
    assert_eq!(executed.within(0..0x20), Work { instructions: 5, loads: 1, stores: 2 });
    assert_eq!(executed.unlisted(), Work { instructions: 4, loads: 3, stores: 0 });
}

#[test]
fn instructions_inside_calls_are_apart() {
    let of = |words: &[u64]| answered(&message(words)).unwrap();
    let symbols = Symbols::parse(
        "ffffffffc0000000 t xmit\t[nic]\nffffffff81000000 T map\nffffffff81000040 T send\n",
    );
    let (nic, map) = (0xffff_ffff_c000_0000, 0xffff_ffff_8100_0000);
    let before = of(&[VERSION, 0, 1, nic, 5, NOT_COUNTED, 2, 1, 0, 1, nic, 5, 0, 0, 0]);
    let counts = [VERSION, 0, 3, map, 8, map + 0x40, 9, nic, 15, NOT_COUNTED, 2];
    let inside = [3, 1, 2, map, 6, nic, 15, 0, 0, 0];
    let executed = of(&[&counts[..], &inside].concat()).since(&before);
    let profile = executed.profile(&symbols.unwrap());
    let sent = profile.inside(Event::Transmit).unwrap();
    assert_eq!((sent.calls, sent.lost, sent.instructions()), (2, 1, 16));
    let all: Vec<_> = sent.functions().into_iter().map(|(f, n)| (f.to_string(), n)).collect();
    assert_eq!(all, [("nic:xmit".to_owned(), 10), ("vmlinux:map".to_owned(), 6)]);
    assert_eq!(profile.inside(Event::Poll).unwrap().instructions(), 0);
    assert!(profile.inside(Event::Interrupt).is_none());
}

#[test]
fn options_name_path_and_accesses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a,b");
    let counter = Counter::bind(&path).unwrap();
    let shown = path.display().to_string().replace("a,b", "a,,b");
    assert_eq!(counter.argument(), format!("count={shown}"));
    let counter = counter.with_mmio();
    assert_eq!(counter.argument(), format!("count={shown},mmio=on"));
    assert_eq!(counter.with_inside().argument(), format!("count={shown},mmio=on,inside=on"));
    assert!(!path.exists());
}

#[test]
fn malformed_answers_are_errors() {
    let kind = |sent: &[u8]| answered(sent).unwrap_err().kind();
    let good = message(&[VERSION, 0, 1, 0x10, 5, NOT_COUNTED, 0]);
    assert!(answered(&good).is_ok());
    assert_eq!(kind(&message(&[VERSION + 1, 0, 0, NOT_COUNTED])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, 2, 0x10, 5, NOT_COUNTED])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, 0, NOT_COUNTED, 0, 0])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, u64::MAX, 1, 2])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, 0, NOT_COUNTED])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, 0, NOT_COUNTED, 4])), ErrorKind::InvalidData);
    assert_eq!(kind(&message(&[VERSION, 0, 0, NOT_COUNTED, 1, 0, 0, 1])), ErrorKind::InvalidData);
    assert_eq!(kind(&bytes(&[u64::MAX])), ErrorKind::InvalidData);
    assert_eq!(kind(&bytes(&[7])), ErrorKind::InvalidData);
}

#[test]
fn silence_and_absence_end_in_time() {
    let half = &message(&[VERSION, 0, 0, NOT_COUNTED])[..20];
    assert_eq!(answered(half).unwrap_err().kind(), ErrorKind::TimedOut);
    let directory = tempfile::tempdir().unwrap();
    let mut counter = Counter::bind(directory.path().join("count")).unwrap().with_patience(SOON);
    assert_eq!(counter.read().unwrap_err().kind(), ErrorKind::TimedOut);
    // QEMU may still connect, and end.
    drop(UnixStream::connect(directory.path().join("count")).unwrap());
    let kind = counter.read().unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe), "{kind:?}");
    assert_eq!(counter.read().unwrap_err().kind(), ErrorKind::NotConnected);
}

proptest! {
    #[test]
    fn any_answer_is_read(words in prop::collection::vec(
        prop_oneof![Just(VERSION), Just(NOT_COUNTED), 0..4_u64, any::<u64>()], 0..20),
        cut in 0..8_usize,
    ) {
        let answer = bytes(&words);
        _ = Snapshot::decode(&answer[..answer.len().saturating_sub(cut)]);
        _ = Snapshot::decode(&[bytes(&[VERSION]), answer].concat());
    }

    #[test]
    fn counts_survive_the_protocol(counts in prop::collection::btree_map(
        0..u64::MAX, 1..u64::MAX / 64, 0..20)) {
        let pairs = counts.iter().flat_map(|(a, n)| [*a, *n]);
        let head = [VERSION, 0, counts.len() as u64];
        let words: Vec<u64> = head.into_iter().chain(pairs).chain([NOT_COUNTED, 0]).collect();
        let snapshot = Snapshot::decode(&bytes(&words)).unwrap();
        prop_assert_eq!(snapshot.instructions(), counts.values().sum::<u64>());
        prop_assert_eq!(snapshot.since(&Snapshot::default()), Executed::from_counts(counts));
        prop_assert_eq!(snapshot.since(&snapshot), Executed::default());
    }
}
