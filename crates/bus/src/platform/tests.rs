use super::*;
use doorbell_hal::{Alignment, Direction};

fn platform() -> (Platform, Iova) {
    let mut p = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Page);
    let b = p.memory.buffer(256, Alignment::ANY).unwrap();
    let at = Iova(b.addr());
    p.memory.map(at, 256, Direction::FromDevice);
    p.memory.map(at, 256, Direction::ToDevice);
    (p, at)
}

fn post(p: &mut Platform, arrival: Time, to: Iova, from: &[u8]) -> Time {
    let place = p.check_dma_write(to, from.len()).unwrap();
    p.post_write(Time::ZERO, arrival, place, from)
}

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

#[test]
fn a_write_is_not_seen_before_it_arrives() {
    let (mut p, at) = platform();
    post(&mut p, t(100), at, &[7; 4]);
    p.deliver(t(99));
    assert_eq!(p.memory.cpu(at.0, 4), [0; 4]);
    p.deliver(t(100));
    assert_eq!(p.memory.cpu(at.0, 4), [7; 4]);
}

#[test]
fn a_message_does_not_overtake_the_write_before_it() {
    let (mut p, at) = platform();
    post(&mut p, t(100), at, &[7; 4]);
    p.post_message(Time::ZERO, t(50), 3);
    p.deliver(t(99));
    assert_eq!(p.take_message(3), None);
    p.deliver(t(100));
    assert_eq!(p.take_message(3), Some(t(100)));
    assert_eq!(p.take_message(3), None);
}

#[test]
fn a_line_is_high_since_its_first_rise() {
    let (mut p, _) = platform();
    p.set_irq_line(t(10), 2, true);
    p.set_irq_line(t(20), 2, true);
    assert_eq!((p.line(2), p.ledger.line_interrupts), (Some(t(10)), 1));
    p.set_irq_line(t(30), 2, false);
    assert_eq!((p.line(2), p.line(u16::MAX)), (None, None));
}

#[test]
fn a_device_reads_what_it_wrote() {
    let (mut p, at) = platform();
    post(&mut p, t(100), at, &[7; 4]);
    let mut into = [0; 2];
    p.fetch(at + 2, &mut into).unwrap();
    assert_eq!(into, [7; 2]);
}

#[test]
fn a_read_brings_no_write_forward() {
    let (mut p, at) = platform();
    post(&mut p, t(100), at, &[7; 4]);
    post(&mut p, t(100), at + 64, &[8; 4]);
    p.post_message(Time::ZERO, t(100), 3);
    p.fetch(at, &mut [0; 4]).unwrap();
    p.deliver(t(99));
    assert_eq!((p.memory.peek(at.0, 68), p.message_pending(3)), (&[0; 68][..], None));
    p.deliver(t(100));
    assert_eq!(p.memory.peek(at.0, 4), [7; 4]);
}

#[test]
fn a_device_reads_its_newest_bytes() {
    let (mut p, at) = platform();
    post(&mut p, t(10), at, &[1; 8]);
    p.deliver(t(10));
    for (offset, bytes) in [(2, [2; 4]), (0, [3; 4]), (6, [4; 4])] {
        post(&mut p, t(100), at + offset, &bytes);
    }
    let mut into = [0; 8];
    p.fetch(at + 1, &mut into).unwrap();
    assert_eq!(into, [3, 3, 3, 2, 2, 4, 4, 4]);
}

#[test]
fn only_earlier_writes_hold_a_request_back() {
    let (mut p, at) = platform();
    for (issued, arrival) in [(10, 100), (50, 200)] {
        let place = p.check_dma_write(at, 4).unwrap();
        p.post_write(t(issued), t(arrival), place, &[7; 4]);
    }
    let behind = |issued, arrival| p.behind_posted(t(issued), t(arrival));
    assert_eq!([behind(9, 30), behind(10, 30), behind(49, 150)], [t(30), t(100), t(150)]);
    assert_eq!(behind(50, 150), t(200));
}
