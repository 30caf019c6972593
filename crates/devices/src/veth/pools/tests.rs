use super::*;

impl Pools {
    /// Returns the number of buffers.
    pub(in super::super) fn len(&self) -> u32 {
        self.count
    }
}

fn b(size: u32, ioba: u32) -> Buffer {
    Buffer { ioba, size }
}

#[test]
fn the_smallest_that_fits_is_taken_and_the_oldest_of_those() {
    let mut p = Pools::default();
    for x in [b(2048, 1), b(512, 2), b(65536, 3), b(512, 4)] {
        assert!(p.add(x, 10));
    }
    assert_eq!(p.take(513), Some(b(2048, 1)));
    assert_eq!(
        [p.take(512), p.take(8), p.take(8)],
        [Some(b(512, 2)), Some(b(512, 4)), Some(b(65536, 3))]
    );
    assert_eq!((p.take(0), p.len()), (None, 0));
}

#[test]
fn buffers_and_sizes_are_limited_and_an_empty_pool_makes_room() {
    let mut p = Pools::default();
    assert!(p.add(b(16, 0), 1) && !p.add(b(16, 0), 1));
    for i in 1..254 {
        assert!(p.add(b(16 + 4 * i, 0), 1000));
    }
    assert!(!p.add(b(8192, 0), 1000), "254 sizes");
    assert_eq!(p.take_of(20), Some(b(20, 0)));
    assert!(p.add(b(8192, 0), 1000));
}

#[test]
fn release_takes_its_turns() {
    let mut p = Pools::default();
    for i in 0..5 {
        assert!(p.add(b(16 + 4 * (i % 2), i), 10));
    }
    assert_eq!([p.release(2), p.release(2), p.release(2)], [false, false, true]);
    assert_eq!((p.len(), p.take(0)), (0, None));
}
