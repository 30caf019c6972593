use super::*;
use crate::{Platform, ProtectionGranularity};
use doorbell_hal::{Alignment, Direction};

fn post(p: &mut Platform, arrival: Time, to: Iova, from: &[u8]) -> Time {
    let place = p.check_dma_write(to, from.len()).unwrap();
    p.post_write(Time::ZERO, arrival, place, from)
}

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

fn platform(rules: &[(Kind, When)], seed: u64) -> (Platform, Iova) {
    let mut p = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Page);
    let b = p.memory.buffer(256, Alignment::ANY).unwrap();
    let at = Iova(b.addr());
    p.memory.map(at, 256, Direction::FromDevice);
    p.memory.map(at, 256, Direction::ToDevice);
    let rules = rules.iter().map(|&(kind, when)| Rule { kind, when }).collect();
    p.inject(Faults::new(rules, seed));
    (p, at)
}

#[test]
fn the_second_message_is_lost_and_the_third_arrives() {
    let (mut p, _) = platform(&[(Kind::LostInterrupt, When::Nth(2))], 0);
    let seen: Vec<bool> = (1..4)
        .map(|i| {
            p.post_message(Time::ZERO, t(i), 3);
            p.deliver(t(i));
            p.take_message(3).is_some()
        })
        .collect();
    assert_eq!(seen, [true, false, true]);
    assert_eq!((p.struck().interrupts, p.ledger.messages), (1, 3));
}

#[test]
fn a_line_that_was_missed_is_seen_with_the_next_completion_or_when_it_is_driven_again() {
    for completion in [true, false] {
        let (mut p, _) = platform(&[(Kind::LostInterrupt, When::Nth(1))], 0);
        p.set_irq_line(t(1), 2, true);
        assert_eq!(p.line(2), None);
        if completion {
            assert!(!p.begin_completion(t(5)));
        } else {
            p.set_irq_line(t(5), 2, true);
        }
        assert_eq!(p.line(2), Some(t(5)));
    }
    let (mut p, _) = platform(&[(Kind::LostInterrupt, When::Nth(1))], 0);
    p.set_irq_line(t(1), 2, true);
    p.set_irq_line(t(2), 2, false);
    p.begin_completion(t(3));
    assert_eq!(p.line(2), None, "its cause is gone");
}

#[test]
fn a_late_completion_keeps_what_is_behind_it() {
    let (mut p, at) = platform(&[(Kind::LateCompletion(Span::from_us(1)), When::Nth(1))], 0);
    p.begin_completion(t(0));
    assert_eq!(post(&mut p, t(100), at, &[1]), t(1100));
    p.post_message(Time::ZERO, t(200), 0);
    p.begin_completion(t(300));
    assert_eq!(post(&mut p, t(300), at, &[2]), t(1100));
    p.deliver(t(1099));
    assert_eq!(p.take_message(0), None);
    assert_eq!((p.struck().late, p.behind_posted(Time::ZERO, t(400))), (1, t(1100)));
}

#[test]
fn each_fourth_access_fails_and_moves_nothing() {
    let (mut p, at) = platform(&[(Kind::DmaFault, When::Every(4))], 0);
    let failed: Vec<bool> = (0..8).map(|_| p.fetch(at, &mut [0]).is_err()).collect();
    assert_eq!(failed, [false, false, false, true, false, false, false, true]);
    assert_eq!((p.struck().dma, p.ledger.dma_faults), (2, 2));
}

#[test]
fn the_seed_decides_and_the_share_is_as_asked() {
    let run = |seed| {
        let (mut p, at) = platform(&[(Kind::DmaFault, When::OneIn(10))], seed);
        (0..10_000).map(|_| p.fetch(at, &mut [0]).is_err()).collect::<Vec<_>>()
    };
    let all = run(7);
    assert_eq!(all, run(7));
    assert_ne!(all, run(8));
    let n = all.iter().filter(|f| **f).count();
    assert!((900..1100).contains(&n), "{n}");
}

#[test]
fn a_refused_completion_makes_no_other_write_late() {
    let late = (Kind::LateCompletion(Span::from_us(1)), When::Every(1));
    let (mut p, at) = platform(&[late], 0);
    p.begin_completion(t(0));
    assert!(p.check_dma_write(Iova(0), 4).is_err());
    assert_eq!(post(&mut p, t(100), at, &[1]), t(100));
    assert_eq!(p.struck().late, 0);
}

#[test]
fn a_refused_read_leaves_a_completion_late() {
    let late = (Kind::LateCompletion(Span::from_us(1)), When::Nth(1));
    let (mut p, at) = platform(&[late, (Kind::DmaFault, When::Nth(1))], 0);
    p.begin_completion(t(0));
    assert!(p.fetch(at, &mut [0; 4]).is_err());
    assert_eq!(post(&mut p, t(100), at, &[1]), t(1100));
}

#[test]
fn a_read_does_not_hasten_a_late_completion() {
    let (mut p, at) = platform(&[(Kind::LateCompletion(Span::from_us(1)), When::Nth(1))], 0);
    p.begin_completion(t(0));
    post(&mut p, t(100), at, &[1]);
    let mut into = [0];
    p.fetch(at, &mut into).unwrap();
    p.deliver(t(1099));
    assert_eq!((into, p.memory.peek(at.0, 1)), ([1], &[0][..]));
}
