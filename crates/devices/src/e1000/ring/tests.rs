mod limits;

use super::*;

const GRAN: u32 = DCTL_GRAN;

fn ring(descriptors: u32, control: u32) -> Ring {
    let mut r = Ring::new(64, control);
    r.base = 0x1000;
    r.len = descriptors * 16;
    r
}

struct Ones;
impl Port for Ones {
    fn read(&mut self, at: Time, _: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        into.fill(0xff);
        Ok(at)
    }
    fn write(&mut self, at: Time, _: Iova, _: &[u8]) -> Result<Time, DmaFault> {
        Ok(at)
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}
    fn raise_msi(&mut self, _: Time, _: u16) {}
    fn emit(&mut self, _: Time, _: &[u8]) {}
}

#[test]
fn thresholds_count_lines_or_descriptors() {
    let t = |control| ring(256, control).thresholds();
    assert_eq!(
        t(GRAN | 1 << 16 | 40 << 8 | 63),
        Thresholds { prefetch: 63, host: 40, write_back: 1 }
    );
    assert_eq!(t(1 << 16 | 2 << 8 | 63), Thresholds { prefetch: 31, host: 8, write_back: 4 });
}

#[test]
fn an_empty_chip_takes_what_the_tail_shows_and_never_more() {
    let mut r = ring(256, 0);
    assert_eq!(r.fetch_due(), Time::NEVER, "head = tail is nothing");
    r.announce(Time::from_ps(7), 3);
    assert_eq!((r.wants(), r.fetch_due()), (3, Time::from_ps(7)));
    r.fetch(&mut Ones, Time::from_ps(7)).unwrap();
    assert_eq!(r.wants(), 0);
}

#[test]
fn it_prefetches_below_pthresh_if_hthresh_are_there() {
    let mut r = ring(256, GRAN | 4 << 8 | 2);
    r.announce(Time::ZERO, 3);
    r.fetch(&mut Ones, Time::ZERO).unwrap();
    r.announce(Time::ZERO, 8);
    assert_eq!(r.wants(), 0, "3 on chip are not below 2");
    r.take();
    assert_eq!(r.wants(), 0);
    r.take();
    assert_eq!(r.wants(), 5);
    r.announce(Time::ZERO, 6);
    assert_eq!(r.wants(), 0, "3 in memory are fewer than 4");
}

#[test]
fn its_room_ends_at_a_line_so_that_the_next_fetch_starts_on_one() {
    let mut r = ring(256, 0);
    r.announce(Time::ZERO, 200);
    assert_eq!(r.wants(), 64);
    r.base += 16;
    assert_eq!(r.wants(), 63);
}

#[test]
fn a_fetch_ends_where_the_ring_does() {
    let mut r = ring(16, 0);
    r.head = 12;
    r.restart();
    r.announce(Time::ZERO, 5);
    assert_eq!((r.left(), r.wants()), (9, 4));
    r.fetch(&mut Ones, Time::ZERO).unwrap();
    for _ in 0..4 {
        r.take();
    }
    assert_eq!((r.head, r.wants()), (0, 5));
}

#[test]
fn nonsense_announces_nothing() {
    for (len, head, tail) in [(0, 0, 5), (8, 0, 8), (8, 9, 3), (8, 0xffff, 0xffff)] {
        let mut r = ring(len, GRAN | 63);
        r.head = head;
        r.restart();
        r.announce(Time::ZERO, tail);
        assert_eq!((r.wants(), r.left()), (0, 0));
    }
}
