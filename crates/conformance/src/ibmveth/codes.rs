//! The hypervisor's answers to invalid calls.

use super::Backend;
use super::harness::{Harness, small};
use crate::frames::{PEER, plain};
use doorbell_drivers::ibmveth::Config;
use doorbell_hal::{Alignment, Coherent, Direction, Hcall, Host, Hypervisor};
use doorbell_layout::ibmveth::{self as l, Descriptor, PAGE, status};
use doorbell_packet::OffloadRequest;

fn call<H: Hypervisor>(h: &mut H, number: u64, a: &[u64]) -> i64 {
    h.hcall(Hcall(number), a).status
}

/// Memory for a registration by hand.
struct Pages([Coherent; 4]);

impl Pages {
    fn new<H: Host>(h: &mut H) -> Pages {
        Pages([0; 4].map(|_| h.coherent(PAGE, PAGE).unwrap()))
    }
    fn at(&self, i: usize) -> u64 {
        self.0[i].iova().0
    }
    fn queue(&self) -> u64 {
        Descriptor::new(0, 16 * l::ENTRY, self.at(1) as u32).0
    }
    fn register<H: Hypervisor>(&self, h: &mut H, c: &Config) -> i64 {
        call(
            h,
            l::H_REGISTER_LOGICAL_LAN,
            &[c.unit.into(), self.at(0), self.queue(), self.at(2), l::mac(c.mac)],
        )
    }
    fn release<H: Host>(self, h: &mut H) {
        for c in self.0 {
            h.release_coherent(c);
        }
    }
}

/// Alignments and lengths, before and after opening.
pub fn codes<H: Hypervisor, A: Backend<H>>(h: &mut H, _: &mut A, c: &Config) {
    let unit = u64::from(c.unit);
    let m = Pages::new(h);
    let queue = m.queue();
    let mac = l::mac(c.mac);
    let data = m.at(3) as u32;
    let valid = |len: u32, at: u32| Descriptor::new(0, len, at).0;
    let send = |h: &mut H, d: u64| call(h, l::H_SEND_LOGICAL_LAN, &[unit, d]);

    assert_eq!(send(h, valid(60, data)), status::H_DROPPED, "closed");
    for (why, a) in [
        ("buffer list", [unit, m.at(0) + 8, queue, m.at(2), mac]),
        ("filter list", [unit, m.at(0), queue, m.at(2) + 8, mac]),
        ("queue's address", [unit, m.at(0), queue + 8, m.at(2), mac]),
        ("queue's length", [unit, m.at(0), valid(16 * l::ENTRY + 8, m.at(1) as u32), m.at(2), mac]),
        ("unit address", [unit + 9, m.at(0), queue, m.at(2), mac]),
    ] {
        assert_eq!(call(h, l::H_REGISTER_LOGICAL_LAN, &a), status::H_PARAMETER, "{why}");
    }
    assert_eq!(m.register(h, c), status::H_SUCCESS);
    assert_eq!(m.register(h, c), status::H_RESOURCE, "open already");
    for (why, d) in [
        ("address", valid(2048, data + 2)),
        ("length's multiple", valid(2046, data)),
        ("length", valid(12, data)),
        ("no translation", valid(2048, 0x0f00_0000)),
    ] {
        assert_eq!(call(h, l::H_ADD_LOGICAL_LAN_BUFFER, &[unit, d]), status::H_PARAMETER, "{why}");
    }
    assert_eq!(call(h, l::H_ADD_LOGICAL_LAN_BUFFER, &[unit, valid(16, data)]), status::H_SUCCESS);
    assert_eq!(call(h, l::H_FREE_LOGICAL_LAN, &[unit]), status::H_SUCCESS);
    assert_eq!(send(h, valid(60, data)), status::H_DROPPED, "closed again");
    m.release(h);
}

/// An adapter that somebody left open is closed, and opened by its new driver.
pub fn left_open<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let m = Pages::new(h);
    assert_eq!(m.register(h, c), status::H_SUCCESS);
    let mut b = Harness::open(h, a, &small(c));
    let frame = plain(c.mac, 200);
    assert_eq!(b.receive(&frame), [frame]);
    b.close();
    m.release(h);
}

/// After a mapping has ended its address is nobody's.
pub fn translation<H: Hypervisor, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &small(c));
    let unit = u64::from(c.unit);
    let buf = b.h.buffer(PAGE, Alignment { align: PAGE, offset: 0 }).unwrap();
    let m = b.h.map(buf, 0..PAGE, Direction::ToDevice).unwrap();
    let d = Descriptor::new(0, 100, m.iova().0 as u32).0;
    assert_eq!(call(b.h, l::H_SEND_LOGICAL_LAN, &[unit, d]), status::H_SUCCESS);
    assert_eq!(b.wire().len(), 1);
    let buf = b.h.unmap(m);
    assert_ne!(call(b.h, l::H_SEND_LOGICAL_LAN, &[unit, d]), status::H_SUCCESS);
    assert_eq!(b.wire().len(), 0);
    b.h.release(buf);
    let frame = plain(PEER, 90);
    assert_eq!(b.send(&frame, &[], 0, OffloadRequest::NONE), [frame]);
    b.close();
}
