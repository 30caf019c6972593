//! The examples run, and what they print of themselves is sound: they say so by an assertion of their own.
#![allow(dead_code, reason = "an example has more than its test")]

#[path = "../../../examples/own_device.rs"]
mod own_device;
#[path = "../../../examples/own_driver.rs"]
mod own_driver;

use doorbell_bus::{Costs, Fixed, Guard, Machine, Platform};
use doorbell_lab::clock::Interrupt;
use doorbell_lab::{Unwatched, open, own};
use doorbell_seam::Span;

#[test]
fn the_examples_run() {
    own_driver::main().unwrap();
    own_device::main().unwrap();
}

/// What a careless driver leaves behind is told.
#[test]
fn a_leak_is_told() {
    let bus = Fixed::new(Platform::new(1 << 32, 16 << 20, Guard::Byte), Span::from_ns(100));
    let mut m = Machine::new(bus, own_device::Nic::default(), Costs::FREE, 1);
    let driver = own_device::Mine::open(&mut m);
    let load = open::Load::Pktgen { size: 60, burst: 8, rate: None, packets: 100, checksum: false };
    let m = own::meter(
        &mut m,
        driver,
        |_, m| drop(doorbell_seam::Host::buffer(m, 64, doorbell_seam::Place::ANY)),
        (Interrupt::Message(0), 256),
        &load,
        1.0,
        &mut Unwatched,
    );
    let m = m.unwrap();
    assert_eq!(m.packets, 100);
    assert!(m.audit.iter().any(|w| w.starts_with("buffers taken and released")), "{:?}", m.audit);
}
