//! Thresholds, indices and runs of write-backs that stand exactly on a limit.

use super::*;
use alloc::vec::Vec;

/// Keeps the writes. Each completion is poisoned.
struct Poisoned(Vec<(u64, Vec<u8>)>);

impl Port for Poisoned {
    fn read(&mut self, _: Time, at: Iova, _: &mut [u8]) -> Result<Time, DmaFault> {
        panic!("a write-back reads nothing at {at:?}")
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        self.0.push((to.0, from.to_vec()));
        Ok(at)
    }
    fn begin_completion(&mut self, _: Time) -> bool {
        true
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}
    fn raise_msi(&mut self, _: Time, _: u16) {}
    fn emit(&mut self, _: Time, _: &[u8]) {}
}

#[test]
fn a_place_behind_the_ring_announces_nothing() {
    for (head, tail, left) in [(7, 3, 4), (8, 3, 0), (7, 7, 0), (7, 8, 0)] {
        let mut r = ring(8, GRAN | 63);
        r.head = head;
        r.restart();
        r.announce(Time::ZERO, tail);
        assert_eq!((r.left(), r.wants()), (left, left.min(1)), "from {head} to {tail}");
    }
}

#[test]
fn it_prefetches_exactly_hthresh() {
    for (announced, fetched) in [(2 + 3, 0), (2 + 4, 4)] {
        let mut r = ring(256, GRAN | 4 << 8 | 3);
        r.announce(Time::ZERO, 2);
        r.fetch(&mut Ones, Time::ZERO).unwrap();
        r.announce(Time::ZERO, announced);
        assert_eq!(r.wants(), fetched);
    }
}

#[test]
fn neighbours_are_written_in_one_piece_with_their_addresses() {
    let mut r = ring(256, GRAN);
    let desc = |n: u64| Desc { low: n, high: n << 8 };
    // Two neighbours, one alone, and three.
    for n in [4, 5, 9, 20, 21, 22] {
        r.wait(Iova(0x1000 + n * 16), desc(n));
    }
    assert_eq!(r.unreported(0x1000), 3, "of 20, 21 and 22");
    let mut p = Poisoned(Vec::new());
    assert_eq!(r.flush(&mut p, Time::ZERO, 1 << 63, false), Ok((3, 6)));
    let bytes = |n: u64, poisoned: bool| {
        let high = n << 8 | if poisoned { 1 << 63 } else { 0 };
        [n.to_le_bytes(), high.to_le_bytes()].concat()
    };
    let expected = [
        (0x1040, [bytes(4, true), bytes(5, false)].concat()),
        (0x1098, bytes(9, true)[8..].to_vec()),
        (0x1140, [bytes(20, true), bytes(21, false), bytes(22, false)].concat()),
    ];
    assert_eq!(p.0, expected);
    assert!(!r.any_waiting());
}
