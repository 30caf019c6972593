//! mlx5's commands and transmit path on a CPU that reorders stores: each fence that
//! the driver needs, it has.

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::mlx5::{Channel, Config, Hca};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::{CpuWork, Host, Span, Time, WorkKind};
use doorbell_sim::traffic::{Generated, Next, Pace, Pktgen, Rate, Sizes, Traffic};
use doorbell_systems::mlx5::Board;
use doorbell_testkit::reorder::{Order, Reorder};
use std::cell::RefCell;
use std::rc::Rc;

const PACKETS: u64 = 3000;

/// Sends packets through a small queue, with interrupts; frames and what was counted.
fn run(
    order: Order,
    mpwqe: bool,
    nic: Nic,
    reached: Option<fn(&mut Board)>,
) -> (u64, u64, u64, u64) {
    let platform = Platform::new(1 << 32, 64 << 20, ProtectionGranularity::Byte);
    let latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
    let pcie =
        Pcie::new(platform, Rules::new(Settings::link(3, 16)).unwrap(), latencies, 0x3c_0000_0000);
    let mut costs = Costs::FREE;
    costs.work[WorkKind::Stack as usize].each = Span::from_ns(60);
    costs.work[WorkKind::TxDescriptor as usize].each = Span::from_ns(30);
    let mut h = Reorder::new(Machine::new(pcie, Mlx5::new(nic), costs, 1), order);
    h.reached = reached;
    let config = Config { mpwqe, log_sq: 6, log_cq: 6, ..Config::DEFAULT };
    let hca = Rc::new(RefCell::new(Hca::open(&mut h).unwrap()));
    let mut channel = Channel::open(&mut h, Rc::clone(&hca), &config).unwrap();
    let packets = Generated {
        sizes: Sizes::one(60),
        burst: 8,
        packets: PACKETS,
        flows: vec![0],
        partial: false,
        place: Pktgen::PLACE,
        seed: 0,
    };
    let mut source =
        Pktgen::new(&mut h, packets, Pace::new(Rate::Full, Span::ZERO, 0), 600).unwrap();
    let mut held = None;
    let limit = Time::ZERO + Span::from_ms(20);
    loop {
        assert!(
            h.now() < limit,
            "{order:?}, mpwqe {mpwqe}: stuck after {} frames",
            h.inner.ledger().wire_frames
        );
        if h.inner.bus.platform_mut().take_message(0).is_some()
            && channel.interrupt(&mut h, 0) == Irq::Poll
        {
            while channel.poll(&mut h, 64, &mut source) == Poll::Again {}
        }
        if Driver::<Reorder<Board>>::stopped(&channel) {
            h.relax();
            continue;
        }
        let (packet, more) = match held
            .take()
            .map_or_else(|| source.next(&mut h), |(p, m)| Next::Packet(p, m, Time::ZERO))
        {
            Next::Packet(p, more, _) => (p, more),
            Next::Done => break,
            Next::At(_) | Next::Reclaim => {
                h.relax();
                continue;
            }
        };
        h.charge(CpuWork::Stack);
        match channel.transmit(&mut h, packet, more) {
            Tx::Ok => {}
            Tx::Busy(p) => {
                held = Some((p, more));
                h.relax();
            }
            Tx::Dropped(p) => source.dropped(&mut h, p),
        }
    }
    assert!(channel.is_drained());
    let passed = h.passed();
    channel.close(&mut h);
    Rc::into_inner(hca).unwrap().into_inner().close(&mut h);
    let m = h.into_inner();
    let c = m.device.counters;
    // A doorbell that comes behind a look at its record announces nothing new.
    let bad_doorbells = if reached.is_some() { 0 } else { c.bad_doorbells };
    assert_eq!(
        (c.errors, bad_doorbells, c.lost_entries, m.ledger().dma_faults),
        (0, 0, 0, 0),
        "{order:?}"
    );
    (m.ledger().wire_frames, m.ledger().wire_bytes, c.mpwqes, passed)
}

#[test]
fn every_packet_leaves_in_every_order_of_stores() {
    for mpwqe in [false, true] {
        for order in [Order::Late, Order::Overtaken].into_iter().chain((0..20).map(Order::Random)) {
            let (frames, bytes, sessions, passed) = run(order, mpwqe, Nic::CONNECTX, None);
            assert_eq!((frames, bytes), (PACKETS, PACKETS * 60), "{order:?}, mpwqe {mpwqe}");
            assert_eq!(sessions > 0, mpwqe);
            assert_eq!(passed > 0, order != Order::Late, "{order:?}: stores were reordered");
        }
    }
}

/// A device that looks at doorbell records, whenever a store has changed memory.
fn look(m: &mut Board) {
    m.outside(|device, bus, at| {
        let memory = &bus.platform().memory;
        device.look_again(at, |record| memory.peek(record.0, 4).first_chunk().copied());
    });
}

/// A doorbell record says that its WQEs are in memory.
#[test]
fn a_doorbell_record_is_behind_its_wqes() {
    let nic = Nic { polled_doorbells: true, ..Nic::CONNECTX };
    for mpwqe in [false, true] {
        for order in [Order::Late, Order::Overtaken].into_iter().chain((0..5).map(Order::Random)) {
            let (frames, bytes, ..) = run(order, mpwqe, nic, Some(look));
            assert_eq!((frames, bytes), (PACKETS, PACKETS * 60), "{order:?}, mpwqe {mpwqe}");
        }
    }
}
