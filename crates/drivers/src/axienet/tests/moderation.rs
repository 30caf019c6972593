//! Adaptive reception, and settings by hand.

use super::*;
use crate::OpenError;
use core::cell::Cell;
use doorbell_hal::Span;
use doorbell_moderation::{Controller, NetDim, Period, Sample, Setting};

/// Says what it is told to say, and keeps what it is asked.
#[derive(Default)]
struct Told {
    next: Cell<Option<Setting>>,
    samples: Vec<Sample>,
    applied: u32,
}

impl Controller for Told {
    fn sample(&mut self, s: &Sample) -> Option<Setting> {
        self.samples.push(*s);
        self.next.take()
    }
    fn applied(&mut self) {
        self.applied += 1;
    }
    fn setting(&self) -> Setting {
        Setting::usecs(0, 1, Period::Completion)
    }
}

fn open_told(change: impl FnOnce(&mut Coalesce)) -> (Host, Axienet<Told>) {
    let mut h = DirectHost::new(16 << 20, Board::new());
    let mut c = config();
    change(&mut c.coalesce);
    let nic = Axienet::open(&mut h, &c, Told::default()).unwrap();
    (h, nic)
}
fn receive<C: Controller>(h: &mut Host, nic: &mut Axienet<C>) -> Poll {
    *h.device.dma(S2MM, dma::SR) |= sr::IOC_IRQ;
    assert_eq!(nic.interrupt(h, line::RX), Irq::Poll);
    nic.poll(h, 64, &mut Up::default())
}
fn rx_cr(h: &mut Host) -> u32 {
    *h.device.dma(S2MM, dma::CR)
}

#[test]
fn the_controller_sees_interrupts_and_packets_at_the_end_of_each_poll() {
    let (mut h, mut nic) = open_told(|_| {});
    h.delay(Span::from_us(7));
    arrive(&mut h, 0, &[1; 100], 0, 0);
    arrive(&mut h, 1, &[1; 60], 0, 0);
    assert_eq!(receive(&mut h, &mut nic), Poll::Idle);
    let s = nic.controller().samples[0];
    assert_eq!((s.time_ns / 1_000 % 1_000, s.events, s.rx.packets, s.rx.bytes), (7, 1, 2, 160));
    // Not in a poll that no interrupt began, nor when the budget ended it, nor on transmit.
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    arrive(&mut h, 2, &[1; 60], 0, 0);
    *h.device.dma(S2MM, dma::SR) |= sr::IOC_IRQ;
    nic.interrupt(&mut h, line::RX);
    assert_eq!(nic.poll(&mut h, 1, &mut Up::default()), Poll::Again);
    assert_eq!(nic.controller().samples.len(), 1);
    assert_eq!(nic.poll(&mut h, 1, &mut Up::default()), Poll::Idle);
    let s = nic.controller().samples[1];
    assert_eq!(
        (nic.controller().samples.len(), s.events, s.rx.packets),
        (2, 2, 3),
        "interrupts, of four polls"
    );
    *h.device.dma(MM2S, dma::SR) |= sr::IOC_IRQ;
    nic.interrupt(&mut h, line::TX);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(nic.controller().samples.len(), 2);
}

#[test]
fn work_changes_the_count_and_leaves_the_delay_alone() {
    let (mut h, mut nic) = open();
    assert_eq!(rx_cr(&mut h), 0x1004_7001);
    // Enough interrupts and packets for an epoch of net_dim, which leaves its first profile.
    let mut polls = 0;
    loop {
        h.delay(Span::from_us(50));
        arrive(&mut h, polls % 8, &[1; 100], 0, 0);
        polls += 1;
        match receive(&mut h, &mut nic) {
            Poll::Idle => assert!(polls < 100),
            found => break assert_eq!(found, Poll::Work),
        }
    }
    assert_eq!((polls, rx_cr(&mut h)), (65, 0x1004_7001), "not before the work");
    nic.work(&mut h);
    // From index 1 to index 0: one packet, with the 16 us left in place.
    assert_eq!((rx_cr(&mut h), nic.coalesce().rx_frames), (0x1001_7001, 1));
    assert_eq!(nic.stats().moderations, 1);
    nic.work(&mut h);
    assert_eq!(nic.stats().moderations, 1);
}

#[test]
fn the_profiles_are_powers_of_four_and_the_last_is_255() {
    let (mut h, mut nic) = open_told(|_| {});
    for (asked, count) in [(1, 1), (4, 4), (16, 16), (64, 64), (255, 255), (256, 255), (0, 255)] {
        nic.controller().next.set(Some(Setting::usecs(99, asked, Period::Completion)));
        assert_eq!(receive(&mut h, &mut nic), Poll::Work);
        nic.work(&mut h);
        assert_eq!(rx_cr(&mut h) >> 16 & 0xff, count);
    }
    assert_eq!(rx_cr(&mut h) >> 24, 16, "whatever the controller says of time");
    assert_eq!(nic.controller().applied, 7);
}

#[test]
fn a_count_that_rises_from_one_brings_the_delay_along() {
    let (mut h, mut nic) = open_told(|_| {});
    // A controller that begins with one packet: no delay, and no interrupt of it.
    assert_eq!(rx_cr(&mut h), 0x0001_5001);
    nic.controller().next.set(Some(Setting::usecs(0, 4, Period::Completion)));
    assert_eq!(receive(&mut h, &mut nic), Poll::Work);
    nic.work(&mut h);
    assert_eq!(rx_cr(&mut h), 0x1004_7001);
}

#[test]
fn a_controller_may_be_given_the_delay_as_well() {
    let (mut h, mut nic) = open_told(|c| c.adaptive_rx = Adaptive::CountAndDelay);
    for (setting, word) in [
        (Setting::usecs(40, 32, Period::Completion), 0x2820_7001),
        (Setting { delay_ns: 1, packets: 2, period: Period::Completion }, 0x0102_7001),
        (Setting::usecs(300, 0, Period::Completion), 0xffff_7001),
        // No time at all is no waiting; the delay stays, for what is done and below the old count.
        (Setting::usecs(0, 64, Period::Completion), 0xff01_7001),
    ] {
        nic.controller().next.set(Some(setting));
        assert_eq!(receive(&mut h, &mut nic), Poll::Work);
        nic.work(&mut h);
        assert_eq!(rx_cr(&mut h), word, "{setting:?}");
    }
    // Until the next poll has seen to them.
    receive(&mut h, &mut nic);
    assert_eq!(rx_cr(&mut h), 0x0001_5001);
}

#[test]
fn a_setting_that_comes_during_a_poll_does_not_enable_interrupts() {
    let (mut h, mut nic) = open_told(|_| {});
    nic.controller().next.set(Some(Setting::usecs(16, 64, Period::Completion)));
    assert_eq!(receive(&mut h, &mut nic), Poll::Work);
    *h.device.dma(S2MM, dma::SR) |= sr::IOC_IRQ;
    nic.interrupt(&mut h, line::RX);
    nic.work(&mut h);
    assert_eq!(rx_cr(&mut h), 0x1040_0001);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(rx_cr(&mut h), 0x1040_7001);
}

#[test]
fn without_adaptation_the_users_count_is_set_and_the_controller_not_asked() {
    let off = |c: &mut Coalesce| (c.adaptive_rx, c.rx_frames, c.rx_usecs) = (Adaptive::Off, 64, 50);
    let (mut h, mut nic) = open_told(off);
    assert_eq!(rx_cr(&mut h), 0x3240_7001);
    assert_eq!(receive(&mut h, &mut nic), Poll::Idle);
    assert!(nic.controller().samples.is_empty());
}

#[test]
fn a_count_set_by_hand_is_ignored_while_adaptation_is_on_and_the_delay_is_not() {
    let (mut h, mut nic) = open();
    let by_hand =
        Coalesce { rx_frames: 200, rx_usecs: 100, tx_frames: 8, tx_usecs: 20, ..Coalesce::LINUX };
    nic.set_coalesce(&mut h, &by_hand).unwrap();
    assert_eq!(rx_cr(&mut h), 0x6404_7001);
    assert_eq!(*h.device.dma(MM2S, dma::CR), 0x1408_7001);
    assert_eq!(nic.coalesce(), Coalesce { rx_frames: 4, ..by_hand });
    // Off: the user's; on again: the controller's.
    nic.set_coalesce(&mut h, &Coalesce { adaptive_rx: Adaptive::Off, ..by_hand }).unwrap();
    assert_eq!(rx_cr(&mut h), 0x64c8_7001);
    nic.set_coalesce(&mut h, &by_hand).unwrap();
    assert_eq!(rx_cr(&mut h), 0x6404_7001);
}

#[test]
fn settings_are_read_back_as_the_registers_hold_them() {
    let (mut h, mut nic) = open();
    let asked = Coalesce {
        rx_frames: 1,
        rx_usecs: 40,
        tx_frames: 8,
        tx_usecs: 300,
        adaptive_rx: Adaptive::Off,
    };
    nic.set_coalesce(&mut h, &asked).unwrap();
    assert_eq!(nic.coalesce(), Coalesce { rx_usecs: 0, tx_usecs: 255, ..asked });
}

#[test]
fn settings_that_are_refused_change_nothing() {
    let (mut h, mut nic) = open();
    let before = h.device.writes.len();
    let bad = Coalesce { rx_usecs: 0, ..Coalesce::LINUX };
    assert!(matches!(nic.set_coalesce(&mut h, &bad), Err(OpenError::Setting(_))));
    assert_eq!(h.device.writes.len(), before);
    assert_eq!(nic.coalesce(), Coalesce { rx_frames: 4, ..Coalesce::LINUX });
}

#[test]
fn the_controller_hears_of_every_setting_also_of_one_that_is_given_up() {
    let (mut h, mut nic) = open_told(|_| {});
    nic.controller().next.set(Some(Setting::usecs(16, 64, Period::Completion)));
    assert_eq!(receive(&mut h, &mut nic), Poll::Work);
    nic.set_coalesce(&mut h, &Coalesce { adaptive_rx: Adaptive::Off, ..Coalesce::LINUX }).unwrap();
    assert_eq!((nic.controller().applied, rx_cr(&mut h)), (1, 0x0001_5001));
    nic.work(&mut h);
    assert_eq!((nic.controller().applied, nic.stats().moderations), (1, 0));
    // And when a reset comes between.
    nic.set_coalesce(&mut h, &Coalesce::LINUX).unwrap();
    nic.controller().next.set(Some(Setting::usecs(16, 64, Period::Completion)));
    assert_eq!(receive(&mut h, &mut nic), Poll::Work);
    *h.device.dma(S2MM, dma::SR) |= sr::ERR_IRQ;
    nic.interrupt(&mut h, line::RX);
    nic.work(&mut h);
    assert_eq!((nic.controller().applied, rx_cr(&mut h)), (2, 0x1040_7001));
}

#[test]
fn linux_starts_with_net_dim_at_four_packets() {
    let c = config();
    let dim: NetDim = c.net_dim();
    assert_eq!((dim.index(), dim.setting().packets, dim.setting().usec()), (1, 4, 16));
}
