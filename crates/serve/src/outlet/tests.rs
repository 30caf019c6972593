use super::*;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// An outlet whose writer takes a piece for each word of a channel, and what it has taken.
fn held(room: usize) -> (Outlet, Sender<()>, Arc<Mutex<Vec<u8>>>) {
    let (go, goes) = channel();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&taken);
    let put = move |piece: &[u8]| {
        let _ = goes.recv();
        into.lock().unwrap().extend_from_slice(piece);
        Ok(())
    };
    (Outlet::new("test", room, Box::new(put)), go, taken)
}

fn text(taken: &Mutex<Vec<u8>>) -> String {
    String::from_utf8(taken.lock().unwrap().clone()).unwrap()
}

#[test]
fn a_full_queue_loses_and_does_not_wait() {
    let (mut out, go, taken) = held(2);
    assert_eq!([b"a", b"b", b"c"].map(|p| out.put(p.to_vec(), true).is_ok()), [true, true, false]);
    out.start().unwrap();
    drop(go);
    out.finish(None).unwrap();
    assert_eq!(text(&taken), "ab");
    assert_eq!(out.put(b"d".to_vec(), false), Err(Lost::Ended));
}

#[test]
fn a_writer_that_fails_ends_with_its_error() {
    let put = |_: &[u8]| Err(io::ErrorKind::BrokenPipe.into());
    let mut out = Outlet::new("test", 1, Box::new(put));
    out.start().unwrap();
    while out.put(b"a".to_vec(), true).is_ok() {}
    assert_eq!(out.finish(None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_reader_that_stops_does_not_hold_up_the_end() {
    let (mut out, _go, _taken) = held(1);
    out.start().unwrap();
    out.put(b"a".to_vec(), false).unwrap();
    assert_eq!(out.finish(Some(Duration::ZERO)).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn notices_of_a_kind_are_bounded_and_counted() {
    let (out, go, taken) = held(LINES);
    drop(go);
    let mut notices = Notices::new(out);
    for n in 0..4709 {
        notices.say(Kind::Refused, format_args!("rejected connection: {n}"));
    }
    notices.say(Kind::Server, format_args!("another kind"));
    notices.at(Time::ZERO + WITHIN);
    notices.say(Kind::Refused, format_args!("later"));
    notices.finish();
    let said = text(&taken);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[9], "doorbell: rejected connection: 9");
    assert_eq!(
        lines[10..],
        [
            "doorbell: another kind",
            "doorbell: and 4,699 more rejected connections",
            "doorbell: later",
        ]
    );
}

#[test]
fn lost_notices_are_counted() {
    let (out, go, taken) = held(1);
    drop(go);
    let mut notices = Notices::new(out);
    for n in 0..4 {
        notices.put(format_args!("{n}"));
    }
    notices.start().unwrap();
    // The queue has room again at some time.
    while notices.lost > 0 {
        notices.put(format_args!("at last"));
    }
    notices.finish();
    let said = text(&taken);
    let line = said.lines().find(|l| l.contains("are lost")).unwrap();
    let lost: u64 = line.split(' ').nth(1).unwrap().replace(',', "").parse().unwrap();
    assert!(lost >= 3, "{said}");
    assert!(said.ends_with("doorbell: at last\n"), "{said}");
}

#[test]
fn notices_of_a_server_that_does_not_start_are_said() {
    let (out, go, taken) = held(LINES);
    drop(go);
    let mut notices = Notices::new(out);
    notices.say(Kind::Server, format_args!("sandbox: none"));
    drop(notices);
    assert_eq!(text(&taken), "doorbell: sandbox: none\n");
}
