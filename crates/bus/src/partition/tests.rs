use super::*;
use crate::tce::{Prices, Table, Window};
use crate::{Mapping, ProtectionGranularity};
use doorbell_hal::Alignment;

/// A partition with a translation table, and a buffer of two pages lent to be written.
fn lent(dir: Direction) -> (HypervisorPort, Iova, u64) {
    let window = Window { base: 0x1_0000, pages: 64, multi: true, prices: Prices::default() };
    let mapping = Mapping::Tce(Box::new(Table::new(window)));
    let mut p = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte).with_mapping(mapping);
    let b = p.memory.buffer(5000, Alignment::ANY).unwrap();
    let (at, _) = p.map(b.addr(), 5000, dir).unwrap();
    (HypervisorPort::new(p, Span::ZERO), at, b.addr())
}

#[test]
fn the_hypervisor_reads_the_correlator_of_a_buffer_that_is_lent_to_be_written() {
    let (mut v, at, addr) = lent(Direction::FromDevice);
    v.platform.memory.cpu(addr + 4090, 8).copy_from_slice(b"the_mark");
    let mut into = [0; 8];
    assert_eq!(v.read(Time::ZERO, at + 4090, &mut into), Ok(Time::ZERO));
    assert_eq!(&into, b"the_mark", "across a page");
    v.write(Time::from_ps(5), at + 4092, b"NEW").unwrap();
    v.read(Time::ZERO, at + 4090, &mut into).unwrap();
    assert_eq!(&into, b"thNEWark", "what it wrote is there");
    let mut beyond = [7; 8];
    assert!(v.read(Time::ZERO, at + 4993, &mut beyond).is_err());
    assert_eq!((beyond, v.platform.ledger.dma_faults), ([7; 8], 1), "nothing was transferred");
}

#[test]
fn a_port_says_what_can_be_reached() {
    let (mut v, at, _) = lent(Direction::FromDevice);
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        assert_eq!(v.check_access(at, 5000, dir), Ok(()));
        assert!(v.check_access(at, 5001, dir).is_err());
        assert!(v.check_access(at + 0x4000, 1, dir).is_err());
    }
    let (mut v, at, _) = lent(Direction::ToDevice);
    assert_eq!(v.check_access(at, 5000, Direction::ToDevice), Ok(()));
    assert!(v.check_access(at, 5000, Direction::FromDevice).is_err());
    assert_eq!(v.platform.ledger.dma_faults, 0, "asking is no fault");
}

#[test]
fn a_price_by_an_argument_ends_at_the_most() {
    let each = Each { argument: 3, most: 16, price: Span::from_ns(10) };
    let cost = |n: u64| each.of(&[0, 0, 0, n, 0, 0, 0, 0, 0]);
    assert_eq!([0, 1, 16, 17, u64::MAX].map(cost), [0, 10, 160, 160, 160].map(Span::from_ns));
    assert_eq!(Each::default().of(&[u64::MAX; 9]), Span::ZERO);
}

#[test]
fn joined_parts_take_the_time_of_each() {
    let run = |at: u64, joined: bool| {
        let (mut v, to, addr) = lent(Direction::FromDevice);
        v.per_kib = Span::from_ps(1_000_001);
        v.write(Time::ZERO, to + 4900, &[9; 100]).unwrap();
        let parts: [(u64, &[u8]); 4] = [(1, &[1; 15]), (0, &[2]), (16, &[]), (16, &[3; 4500])];
        let (at, before) = (Time::from_ps(at), v.platform.next_arrival());
        let done = if joined {
            v.write_parts(at, to + 80, &parts)
        } else {
            write_each(&mut v, at, to + 80, &parts)
        };
        v.platform.deliver(before);
        let next = v.platform.next_arrival();
        v.platform.deliver(Time::NEVER);
        (done, v.platform.memory.cpu(addr, 5000).to_vec(), next)
    };
    // Before a write in flight arrives, and after.
    for at in [7, 1_000_000] {
        let (one, each) = (run(at, true), run(at, false));
        assert_eq!((one.0, &one.1), (each.0, &each.1));
        assert_eq!(Ok(one.2), one.0, "all of it arrives at once");
        assert!(each.2 < one.2);
    }
}

#[test]
fn parts_that_do_not_fit_are_written_as_far_as_they_do() {
    let (mut v, to, addr) = lent(Direction::FromDevice);
    let parts: [(u64, &[u8]); 2] = [(0, &[1; 10]), (10, &[2; 11])];
    assert!(v.write_parts(Time::ZERO, to + 4980, &parts).is_err());
    v.platform.deliver(Time::NEVER);
    assert_eq!(v.platform.memory.cpu(addr + 4979, 12), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(v.platform.ledger.dma_faults, 1);
}
