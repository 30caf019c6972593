//! After its end nothing is touched: rings that were disabled, a device that was reset.

use super::super::Config;
use super::{Bench, frame, ns};
use doorbell_hal::{Device, EventSource, Span};
use doorbell_layout::e1000::*;

/// A device at `t`, in the middle of everything: descriptors and data being fetched, frames on
/// their way both ways, write-backs and interrupts that wait for timers.
fn busy(cfg: Config, t: u64) -> Bench {
    let mut b = Bench::up(cfg);
    (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(900));
    for (r, v) in
        [(reg::IMS, !0), (reg::TIDV, 20), (reg::RDTR, 20), (reg::TXDCTL, 4 << 16 | DCTL_GRAN)]
    {
        b.write(r, v);
    }
    b.post(16);
    for i in 0..6u64 {
        b.send(0x8000 + i * 2048, &frame(1500), tx_word::RS | tx_word::IDE);
    }
    b.kick();
    for _ in 0..4 {
        b.receive(&frame(1000));
    }
    b.at(ns(t));
    b
}

/// Moments of it, until all has come to its end.
const MOMENTS: u64 = 120;

fn moments() -> impl Iterator<Item = (Config, u64)> {
    [Config::I82540EM, Config::I82544GC, Config::I82545EM]
        .into_iter()
        .flat_map(|cfg| (0..MOMENTS).map(move |n| (cfg, n * 997)))
}

fn touched(b: &Bench) -> (usize, usize, usize) {
    (b.p.reads.len(), b.p.writes.len(), b.p.frames.len())
}

/// Doorbells, frames and time; nothing of it touches anything.
fn nothing_more(b: &mut Bench) {
    let before = touched(b);
    b.write(reg::TDT, 7);
    b.write(reg::RDT, 9);
    b.receive(&frame(200));
    b.at(b.now + Span::from_ms(100));
    assert_eq!(touched(b), before);
}

#[test]
fn a_busy_device_would_touch_memory() {
    let would = |(cfg, t): (Config, u64)| {
        let mut b = busy(cfg, t);
        let before = touched(&b);
        b.settle();
        touched(&b) != before
    };
    assert!(moments().filter(|m| m.1 < 20_000).all(would), "early moments are in the middle of it");
}

#[test]
fn no_dma_after_ctrl_rst() {
    for (cfg, t) in moments() {
        let mut b = busy(cfg, t);
        b.write(reg::CTRL, CTRL_RST);
        assert!(!b.d.line());
        nothing_more(&mut b);
    }
}

#[test]
fn no_dma_after_a_reset_from_outside() {
    for (cfg, t) in moments() {
        let mut b = busy(cfg, t);
        b.d.reset(&mut b.p, b.now);
        assert_eq!((b.d.next_due(), b.d.line()), (None, false));
        nothing_more(&mut b);
    }
}

/// Work in progress may end: the manual has the driver wait for it. Then the rings are the driver's
/// again.
#[test]
fn no_dma_through_rings_that_were_disabled() {
    for (cfg, t) in moments() {
        let mut b = busy(cfg, t);
        b.write(reg::RCTL, 0);
        b.write(reg::TCTL, 0);
        b.at(b.now + Span::from_ms(10));
        nothing_more(&mut b);
    }
}
