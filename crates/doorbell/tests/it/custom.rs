//! The examples run, and their own assertions hold.

use crate::{one_page::own_driver, own_device};
use doorbell::bus::{Costs, Machine, Platform, ProtectionGranularity};
use doorbell::custom;
use doorbell::hal::{Alignment, Buf};
use doorbell::packet::{Fragment, NonLinear};
use doorbell::prelude::*;
use doorbell_testkit::ConstantLatencyBus;

/// A sink that keeps all packets and buffers.
#[derive(Default)]
struct Kept(Vec<(Buf, u32)>);

impl Sink for Kept {
    fn sent(&mut self, b: Buf, cookie: u32, _last: bool) {
        self.0.push((b, cookie));
    }
    fn received(&mut self, _: Packet, _: bool) {}
}

#[test]
fn the_readme_shows_the_bill() {
    let bill = own_driver::bill().unwrap();
    let readme = include_str!("../../../../README.md");
    let (_, shown) = readme.split_once("own_driver | head -7\n```\n\n```text\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert_eq!(shown.lines().count(), 7);
    assert!(bill.starts_with(shown), "{bill}");
}

#[test]
fn the_device_example_runs() {
    own_device::main().unwrap();
}

/// The example fits on one page.
#[test]
fn a_driver_fits_on_a_page() {
    assert!(include_str!("../../../../examples/own_driver.rs").lines().count() <= 75);
}

/// A leak of the driver is reported, and there is no bill.
#[test]
fn a_leak_is_told() {
    let bus = ConstantLatencyBus::new(
        Platform::new(1 << 32, 16 << 20, ProtectionGranularity::Byte),
        Span::from_ns(100),
    );
    let mut m = Machine::new(bus, own_device::Nic::default(), Costs::FREE, 1);
    let load = Load::pktgen(60, 8, 100);
    let careless = |_, m: &mut Machine<_, _>| drop(m.buffer(64, Alignment::ANY));
    let m = custom::meter(
        &mut m,
        own_device::Mine::open,
        careless,
        (Interrupt::Message(0), 255),
        &load,
    )
    .unwrap();
    assert_eq!(m.packets, 100);
    assert!(
        m.verdict.audit.iter().any(|w| w.starts_with("buffers taken and released")),
        "{:?}",
        m.verdict.audit
    );
    let error = custom::bill(&m).unwrap_err();
    let why = error.to_string();
    // What `main` shows that returns it.
    assert_eq!(format!("{error:?}"), why);
    assert!(why.contains("buffers taken and released"), "{why}");
}

/// The link takes five seconds to come up. The rate counts from then.
#[test]
fn an_own_drivers_pace_counts_from_open() {
    let bus = ConstantLatencyBus::new(
        Platform::new(1 << 32, 16 << 20, ProtectionGranularity::Byte),
        Span::from_ns(100),
    );
    let mut m = Machine::new(bus, own_device::Nic::default(), Costs::FREE, 1);
    let load = Load::pktgen(60, 8, 1000).at(Some(10_000.0));
    let open = |m: &mut Machine<_, _>| {
        m.delay(Span::from_ms(5000));
        own_device::Mine::open(m)
    };
    let m = custom::meter(&mut m, open, |_, _| (), (Interrupt::Message(0), 255), &load).unwrap();
    assert!((0.0991..0.0995).contains(&m.elapsed.as_secs_f64()), "{}", m.elapsed);
    assert!(
        (m.rates[0].value / 10_000.0 - 1.0).abs() < 1e-3 && m.window.is_steady(),
        "{:?}",
        m.window
    );
}

/// A packet that a ring does not accept comes back whole. Accepted ones come back in order once
/// they are done.
#[test]
fn a_ring_loses_no_packet() {
    let bus = ConstantLatencyBus::new(
        Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Byte),
        Span::from_ns(100),
    );
    let mut m = Machine::new(bus, own_device::Nic::default(), Costs::FREE, 1);
    let mut ring = TxRing::new(&mut m, 4, 16).unwrap();
    let made = |m: &mut Machine<_, _>, start, cookie| {
        let piece = Fragment { buf: m.buffer(64, Alignment::ANY).unwrap(), start, len: 60 };
        Packet { cookie, ..Packet::linear(piece) }
    };
    // Past the end of its buffer, and not linear.
    let beyond = made(&mut m, 8, 9);
    let back = ring.push(&mut m, beyond, |_| 0u64);
    let Tx::Dropped(Packet { head: Fragment { buf, start: 8, len: 60 }, cookie: 9, .. }) = back
    else {
        panic!("{back:?}")
    };
    m.release(buf);
    let mut pieces = made(&mut m, 0, 10);
    pieces.more = Some(Box::new(NonLinear {
        frags: vec![Fragment::whole(m.buffer(64, Alignment::ANY).unwrap())],
        list: vec![],
    }));
    let Tx::Dropped(back) = ring.push(&mut m, pieces, |_| 0u64) else { panic!() };
    assert_eq!(back.len(), 124);
    back.release(&mut m);
    assert_eq!((ring.tail(), ring.is_full()), (0, false));
    let send = |m: &mut Machine<_, _>, ring: &mut TxRing, cookie| {
        let p = made(m, 2, cookie);
        ring.push(m, p, |to| [to.iova().0, u64::from(to.len())])
    };
    for cookie in 0..3 {
        assert_eq!(send(&mut m, &mut ring, cookie), Tx::Ok);
    }
    assert_eq!((ring.tail(), ring.is_full()), (3, true));
    let Tx::Busy(back) = send(&mut m, &mut ring, 3) else { panic!() };
    back.release(&mut m);
    let mut up = Kept::default();
    let n = ring.reclaim(&mut m, &mut up, |h, area, at| {
        assert_eq!(h.load::<u64>(area, at + 8), 60, "a descriptor stands there");
        at < 32
    });
    assert_eq!((n, up.0.iter().map(|s| s.1).collect::<Vec<_>>()), (2, vec![0, 1]));
    assert_eq!(send(&mut m, &mut ring, 4), Tx::Ok);
    assert_eq!(ring.tail(), 0, "around");
    up.0.into_iter().for_each(|(buf, _)| m.release(buf));
    ring.release(&mut m);
    let l = m.ledger();
    assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released));
}
