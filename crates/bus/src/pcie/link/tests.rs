use super::*;
use crate::ProtectionGranularity;
use crate::fault::{Faults, Kind, Rule, When};
use crate::pcie::Settings;
use doorbell_hal::Alignment;

const LATENCIES: Latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };

/// A Gen3 x8 link whose device may use 64 KiB of memory, and their address.
fn link() -> (Pcie, Iova) {
    let mut platform = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Page);
    let b = platform.memory.buffer(1 << 16, Alignment::ANY).unwrap();
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        platform.map(b.addr(), 1 << 16, dir).unwrap();
    }
    let rules = Rules::new(Settings::link(3, 8)).unwrap();
    (Pcie::new(platform, rules, LATENCIES, 0x3c_0000_0000), Iova(b.addr()))
}

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

#[test]
fn an_answer_does_not_pass_earlier_writes() {
    let (mut p, at) = link();
    p.write(t(200), at, &[1; 64]).unwrap();
    // Too long for the gap before the other.
    let arrival = p.write(t(100), at, &[2; 2048]).unwrap();
    assert!(p.register_answer(t(110), 4) >= arrival);
}

#[test]
fn an_answer_does_not_wait_for_later_writes() {
    let (mut p, at) = link();
    p.write(t(5000), at, &[1; 64]).unwrap();
    assert!(p.register_answer(t(100), 4) < t(300));
}

#[test]
fn a_message_holds_an_answer_back() {
    let (mut p, at) = link();
    p.write(t(200), at, &[1; 4096]).unwrap();
    p.raise_msi(t(100), 3);
    let answered = p.register_answer(t(110), 4);
    p.platform_mut().deliver(answered);
    assert!(p.platform().message_pending(3).is_some());
}

#[test]
fn a_read_waits_for_a_late_write() {
    let (mut p, at) = link();
    let rule = Rule { kind: Kind::LateCompletion(Span::from_us(5)), when: When::Nth(1) };
    p.platform_mut().inject(Faults::new(vec![rule], 0));
    let before = p.read(t(0), at + 4096, &mut [0; 64]).unwrap();
    assert!(before < t(1000));
    p.begin_completion(t(1000));
    let arrival = p.write(t(1000), at, &[7; 64]).unwrap();
    assert!(arrival > t(6000));
    for place in [at, at + 4096] {
        let read = p.read(t(1000), place, &mut [0; 64]).unwrap();
        assert!(read > arrival + LATENCIES.memory);
    }
    p.platform_mut().deliver(Time::from_ps(arrival.ps() - 1));
    assert_eq!(p.platform().memory.peek(at.0, 64), [0; 64]);
}
