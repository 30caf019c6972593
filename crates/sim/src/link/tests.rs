use super::*;
use doorbell_bus::axi::{Latencies, Rules, Settings};
use doorbell_bus::{Axi, Platform, ProtectionGranularity};

#[test]
fn a_frame_arrives_with_its_fcs_and_frees_the_wire_after_the_gap() {
    let mut w = Wire::new(1_000_000_000, Span::from_us(5));
    // 8 + 1514 + 4 bytes of 8 ns, then 12 more.
    assert_eq!(
        w.send(Time::ZERO, &[0; 1514]),
        Time::ZERO + Span::from_ns(12_208) + Span::from_us(5)
    );
    assert_eq!(w.free(), Time::ZERO + Span::from_ns(12_304));
    assert_eq!(w.send(Time::ZERO, &[0; 14]), w.next_arrival() + Span::from_ns(96 + 72 * 8));
}

#[test]
fn remainders_are_carried() {
    let mut w = Wire::new(3_000_000_000, Span::ZERO);
    for _ in 0..3_000 {
        w.send(Time::ZERO, &[0; 1001]);
    }
    // 3000 frames of 1025 bytes at 3 Gbit/s.
    assert_eq!(w.free(), Time::ZERO + Span::from_us(8200));
}

/// A device with one event, and the times at which it was advanced and received frames.
struct Bell {
    due: Time,
    rang: Vec<Time>,
    frames: Vec<Time>,
}

impl EventSource for Bell {
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }
}

impl<P: Port> Device<P> for Bell {
    fn mmio_read(&mut self, _: &mut P, _: Time, _: Reg, _: u8) -> u64 {
        0
    }
    fn mmio_write(&mut self, _: &mut P, _: Time, _: Reg, _: u8, _: u64) {}
    fn receive(&mut self, _: &mut P, at: Time, _: &[u8]) -> RxVerdict {
        self.frames.push(at);
        RxVerdict::Yes
    }
    fn advance(&mut self, _: &mut P, until: Time) {
        if self.due <= until {
            self.due = Time::NEVER;
            self.rang.push(until);
        }
    }
    fn reset(&mut self, _: &mut P, _: Time) {}
}

/// A peer that does nothing.
struct Silent;

impl EventSource for Silent {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl Peer for Silent {
    fn receive(&mut self, _: Time, _: &[u8], _: &mut Wire) {}
    fn advance(&mut self, _: Time, _: &mut Wire) {}
}

#[test]
fn what_is_late_happens_now() {
    let platform = Platform::new(1 << 32, 1 << 16, ProtectionGranularity::Byte);
    let bus = Axi::new(platform, Rules::new(Settings::ZYNQMP).unwrap(), Latencies::NONE);
    let bell = Bell { due: Time::NEVER, rang: Vec::new(), frames: Vec::new() };
    let (mut bus, mut w) = Wired::new(bus, bell, Silent, (1_000_000_000, Span::ZERO));
    let us = |n| Time::ZERO + Span::from_us(n);
    w.advance(&mut bus, us(10));
    w.device.due = us(4);
    let frame = w.back.send(Time::ZERO, &[0; 60]);
    assert!(frame < us(4));
    w.advance(&mut bus, frame);
    assert_eq!((&w.device.rang[..], &w.device.frames[..]), (&[us(10)][..], &[us(10)][..]));
    w.device.due = us(6);
    assert_eq!(w.advance_to_effect(&mut bus, us(5)), None);
    assert_eq!(w.advance_to_effect(&mut bus, us(6)), Some(us(10)));
    w.device.due = us(20);
    w.back.send(us(15), &[0; 60]);
    assert_eq!(w.advance_to_effect(&mut bus, us(30)), w.device.frames.last().copied());
    assert_eq!(w.advance_to_effect(&mut bus, us(30)), Some(us(20)));
    assert_eq!(w.advance_to_effect(&mut bus, us(30)), None);
}
