use super::*;

fn area(at: u64) -> Coherent {
    Coherent::from_parts(at, Iova(at + 0x1000), 64, 0)
}

fn t(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// Stores a word to each offset at time 0.
fn stored(order: Order, offsets: &[u32]) -> StoreBuffer {
    let mut b = StoreBuffer::new(order);
    for offset in offsets {
        assert_eq!(b.push(&area(0x8000), *offset, &[*offset as u8; 4], t(0)), 4);
    }
    b
}

#[test]
fn a_fence_orders_stores_before_the_register_write() {
    for (fence, gone) in [(None, 0), (Some(Fence::DmaWrite), 0), (Some(Fence::Write), 2)] {
        let mut b = stored(Order::Late, &[0, 8]);
        fence.into_iter().for_each(|f| assert!(!b.fence(f)));
        b.push(&area(0x8000), 16, &[1; 4], t(0));
        let out = std::iter::from_fn(|| b.before_register()).count();
        assert_eq!((out, b.held().count()), (gone, 3 - gone), "{fence:?}");
    }
}

#[test]
fn a_store_is_late_by_ten_microseconds() {
    let mut b = stored(Order::Late, &[0]);
    assert!(b.due(t(9)).is_none() && b.drawn().is_none());
    assert_eq!(b.due(t(10)).unwrap().bytes(), [0; 4]);
}

#[test]
fn stores_to_the_same_bytes_stay_in_order() {
    let mut b = stored(Order::Overtaken, &[0]);
    b.push(&area(0x8000), 8, &[1; 4], t(0));
    assert_eq!(b.overtaking().map(|h| h.offset), Some(8));
    b.push(&area(0x8000), 2, &[1; 4], t(0));
    assert!(b.overtaking().is_none());
    let mut seen = [0xff; 8];
    b.forward(0x8000, &mut seen);
    assert_eq!(seen, [0, 0, 1, 1, 1, 1, 0xff, 0xff]);
}

#[test]
fn the_device_misses_what_a_register_write_has_passed() {
    let mut b = stored(Order::Late, &[8]);
    let missed = |b: &StoreBuffer, at| b.missed(Iova(at), 16).map(|h| h.offset);
    assert_eq!(missed(&b, 0x9000), None, "no register was written");
    b.register_written();
    assert_eq!((missed(&b, 0x9000), missed(&b, 0x9010)), (Some(8), None));
}

#[test]
fn no_more_wait_than_a_buffer_holds() {
    let mut b = StoreBuffer::new(Order::Late);
    let all: Vec<u32> = (0..2 * MOST as u32)
        .filter_map(|i| {
            b.push(&area(0x8000), i % 8 * 8, &[0; 8], t(0));
            b.overflowing().map(|held| held.offset)
        })
        .collect();
    assert_eq!((all.len(), b.held().count(), all[..3].to_vec()), (MOST, MOST, vec![0, 8, 16]));
}

/// A fence and a register write of one core say nothing about the stores of another.
#[test]
fn each_core_has_a_store_buffer() {
    let platform = Platform::new(1 << 26, 1 << 20, crate::ProtectionGranularity::Page);
    let rules = crate::pcie::Rules::new(crate::pcie::Settings::link(1, 4)).unwrap();
    let latencies = crate::Latencies { link: Span::ZERO, memory: Span::ZERO };
    let mut bus = Ordered::new(crate::Pcie::new(platform, rules, latencies, 0), Order::Late);
    let area = Coherent::from_parts(1 << 26, Iova(1 << 26), 64, 0);
    bus.hold(&area, 0, &[1], t(0));
    bus.enter(1);
    bus.hold(&area, 8, &[1], t(0));
    let write = |at| Written { reg: Reg::at(0), name: None, value: 0, at };
    bus.fence(Fence::Write);
    bus.before_register_write(write(t(1)));
    let seen = |bus: &mut Ordered<crate::Pcie>| {
        [0, 8].map(|at| bus.platform_mut().memory.cpu((1 << 26) + at, 1)[0])
    };
    assert_eq!(seen(&mut bus), [0, 1]);
    bus.enter(0);
    bus.before_register_write(write(t(1)));
    assert_eq!(seen(&mut bus), [0, 1], "core 0 has made no fence");
    bus.fence(Fence::Write);
    bus.before_register_write(write(t(2)));
    assert_eq!(seen(&mut bus), [1, 1]);
}
