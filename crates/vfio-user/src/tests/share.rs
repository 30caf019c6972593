//! The share of a turn: what is done for a client at once, and what goes on later.

use super::client::Client;
use super::*;
use crate::Share;
use crate::message::{Access, ShortWrite, command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

#[test]
fn a_debt_is_paid_by_later_turns() {
    let mut s = Share::new(Arc::default());
    s.begin_turn(100);
    s.charge(99);
    assert!(!s.is_spent());
    s.charge(251);
    assert!(s.is_spent(), "what was begun ends");
    let turns = (0..10).find(|_| {
        s.begin_turn(100);
        !s.is_spent()
    });
    assert_eq!((turns, s.work()), (Some(2), 350), "250 units are two turns and a half");
    s.charge(50);
    assert!(s.is_spent(), "half of the third is left");
    (0..3).for_each(|_| s.begin_turn(100));
    s.charge(100);
    assert!(s.is_spent(), "what a turn leaves is not saved");
}

/// Sends a write of many parts, each of which makes the toy read 64 KiB.
fn send_dear_writes(c: &mut Client, f: &mut Served, parts: u64) {
    c.set(f, toy::LEN, 0xffff);
    let one = ShortWrite {
        offset: toy::GO.into(),
        region: 0.into(),
        count: 8.into(),
        data: 1u64.to_le_bytes(),
    };
    let all = one.as_bytes().repeat(parts as usize);
    c.send(command::REGION_WRITE_MULTI, 0, &[&parts.to_ne_bytes(), &all], &[]);
}

#[test]
fn a_long_write_goes_on_in_the_next_turn() {
    const PARTS: u64 = 200;
    let (mut f, mut c) = connected();
    send_dear_writes(&mut c, &mut f, PARTS);
    let (mut turns, mut done) = (0, 0);
    while done < PARTS {
        assert!(c.serve(&mut f).unwrap() > 0, "the server goes on at once");
        let more = f.device().failed - done;
        let most = Share::ALONE / (1 << 12) + 1;
        assert!((1..=most).contains(&more), "{more} in a turn");
        (turns, done) = (turns + 1, done + more);
        assert_eq!(c.reply().is_some(), done == PARTS, "{done}");
    }
    assert!(turns > 3);
    assert_eq!(c.get(&mut f, toy::FAILED), PARTS, "each was made once");
}

#[test]
fn messages_wait_behind_a_long_write() {
    let (mut f, mut c) = connected();
    send_dear_writes(&mut c, &mut f, 100);
    let ask = Access { offset: toy::FAILED.into(), region: 0.into(), count: 8.into() };
    c.send(command::REGION_READ, 0, &[ask.as_bytes()], &[]);
    let answers: Vec<_> = (0..10)
        .flat_map(|_| {
            c.serve(&mut f).unwrap();
            std::iter::from_fn(|| c.reply()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(answers.len(), 2);
    assert!(answers[1].1.as_ref().unwrap().ends_with(&100u64.to_le_bytes()), "in their order");
}

#[test]
fn a_wide_write_goes_on_in_its_middle() {
    let (mut f, mut c) = connected();
    c.set(&mut f, toy::LEN, 0xffff);
    // Registers from the copy on: each of its words is written, the first with a copy.
    let data = [1u64, 0, 0, 0, 7].map(u64::to_le_bytes).concat();
    let place = |offset: u64| Access { offset: offset.into(), region: 0.into(), count: 40.into() };
    for _ in 0..100 {
        c.send(command::REGION_WRITE, 0, &[place(toy::GO).as_bytes(), &data], &[]);
    }
    let mut replies = 0;
    while replies < 100 {
        c.serve(&mut f).unwrap();
        while let Some((_, answer)) = c.reply() {
            assert!(answer.is_ok());
            replies += 1;
        }
    }
    assert_eq!(f.device().failed, 100, "each word was written once");
}

#[test]
fn a_client_that_goes_in_a_long_write_leaves_nothing() {
    let (mut f, mut c) = connected();
    send_dear_writes(&mut c, &mut f, 200);
    c.serve(&mut f).unwrap();
    let mut c = connect(&mut f);
    assert_eq!(c.get(&mut f, toy::SCRATCH), 0);
    let before = f.device().failed;
    for _ in 0..10 {
        c.serve(&mut f).unwrap();
    }
    assert_eq!(f.device().failed, before);
}

#[test]
fn a_stop_ends_a_turn_at_once() {
    let stop = Arc::new(AtomicBool::new(false));
    let f = Function::new(identity(), Toy::default(), Seen::default()).unwrap();
    let mut f = f.with_stop(Arc::clone(&stop));
    let mut c = connect(&mut f);
    send_dear_writes(&mut c, &mut f, 10);
    stop.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        assert!(c.serve(&mut f).unwrap() > 0);
    }
    assert_eq!((f.device().failed, c.reply().is_some()), (0, false));
}
