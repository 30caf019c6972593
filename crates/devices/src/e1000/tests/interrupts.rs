use super::super::Config;
use super::{Bench, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{EventSource, Time};
use doorbell_layout::e1000::*;

/// Receives a frame at `t`.
fn frame_at(b: &mut Bench, t: Time) {
    b.at(t);
    b.receive(&frame(60));
    b.at(t);
}

#[test]
fn reading_icr_clears_it_and_lowers_the_line() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::ICS, INT_LSC);
    assert!(b.p.lines.is_empty(), "masked");
    b.write(reg::IMS, INT_LSC);
    assert_eq!(b.p.lines, [(ns(0), 0, true)]);
    b.at(ns(50));
    assert_eq!(b.read(reg::ICR), INT_LSC);
    assert_eq!(b.p.lines[1..], [(ns(50), 0, false)]);
    assert_eq!(b.read(reg::ICR), 0, "a second reader on a shared line sees nothing: not mine");
}

#[test]
fn writing_icr_clears_only_what_is_written() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::ICS, INT_LSC | INT_RXT0);
    b.write(reg::ICR, INT_LSC);
    assert_eq!(b.read(reg::ICR), INT_RXT0);
}

#[test]
fn ims_adds_and_imc_takes_away() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::IMS, 0x9d);
    b.write(reg::IMS, INT_RXO);
    assert_eq!(b.read(reg::IMS), 0xdd);
    b.write(reg::ICS, INT_RXO);
    b.write(reg::IMC, INT_RXO);
    assert_eq!(b.read(reg::IMS), 0x9d);
    assert_eq!(b.p.lines.last().map(|l| l.2), Some(false), "masking lowers the line");
    b.write(reg::IMC, !0);
    assert_eq!(b.read(reg::IMS), 0);
    assert_eq!(b.read(reg::ICR), INT_RXO, "but the cause stays");
}

#[test]
fn int_asserted_is_there_only_when_configured() {
    for (int_asserted, bit) in [(false, 0), (true, INT_ASSERTED)] {
        let mut b = Bench::up(Config { int_asserted, ..Config::I82540EM });
        b.write(reg::IMS, INT_LSC);
        b.write(reg::ICS, INT_LSC);
        assert_eq!(b.read(reg::ICR), INT_LSC | bit);
    }
}

#[test]
fn itr_spaces_interrupts_by_exactly_256_ns_times_n() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(32);
    b.write(reg::ITR, 195);
    b.write(reg::IMS, INT_RXT0);
    let mut rises = alloc::vec![];
    for i in 0..2000u64 {
        if i % 7 == 0 && i < 200 {
            frame_at(&mut b, ns(i * 100));
        }
        b.at(ns(i * 100));
        if b.d.line() {
            rises.push(b.p.lines.last().unwrap().0);
            b.read(reg::ICR);
        }
    }
    assert_eq!(rises, [ns(0), ns(195 * 256)]);
}

#[test]
fn a_throttled_rise_is_announced_and_exact() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::ITR, 1000);
    b.write(reg::IMS, INT_LSC);
    b.at(ns(500)).write(reg::ICS, INT_LSC);
    b.read(reg::ICR);
    b.at(ns(600)).write(reg::ICS, INT_LSC);
    assert_eq!(b.d.next_due(), Some(ns(500 + 256_000)));
    b.settle();
    assert_eq!(b.p.lines.last(), Some(&(ns(256_500), 0, true)));
}

#[test]
fn the_82544_has_no_throttle() {
    let mut b = Bench::up(Config::I82544GC);
    for r in [reg::ITR, reg::RADV, reg::TADV, reg::RSRPD] {
        b.write(r, 1000);
        assert_eq!(b.read(r), 0);
    }
}

/// Returns the times at which RXT0 was raised, for frames at these times.
fn rxt0(rdtr: u32, radv: u32, frames: &[u64]) -> Vec<u64> {
    let mut b = Bench::up(Config::I82540EM);
    b.post(32);
    b.write(reg::RDTR, rdtr);
    b.write(reg::RADV, radv);
    b.write(reg::IMS, INT_RXT0);
    let mut seen = alloc::vec![];
    let mut frames = frames.iter().peekable();
    loop {
        let due = b.d.next_due().map(|t| t.ps() / 1000);
        match (frames.peek(), due) {
            (Some(&&f), due) if due.is_none_or(|d| f < d) => {
                frames.next();
                b.at(ns(f));
                b.receive(&frame(60));
            }
            (_, Some(d)) => {
                b.at(ns(d));
            }
            (_, None) => return seen,
        }
        if b.d.line() {
            b.read(reg::ICR);
            seen.push(b.now.ps() / 1000);
        }
    }
}
#[test]
fn rdtr_zero_interrupts_at_once_even_with_radv() {
    assert_eq!(rxt0(0, 8, &[100, 200]), [100, 200]);
}

#[test]
fn rdtr_is_restarted_by_each_packet() {
    assert_eq!(rxt0(4, 0, &[0, 3000, 6000, 20_000]), [6000 + 4096, 20_000 + 4096]);
}

#[test]
fn radv_is_started_by_the_first_and_caps_the_wait() {
    assert_eq!(rxt0(4, 6, &[0, 3000, 6000, 9000]), [6144, 9000 + 4096]);
}

#[test]
fn the_end_of_rdtr_writes_back_what_waits() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.write(reg::RDTR, 4);
    b.write(reg::RXDCTL, DCTL_GRAN | 4 << DCTL_WTHRESH_SHIFT);
    b.receive(&frame(60));
    b.at(ns(4095));
    assert_eq!(b.rx(0).status, 0);
    b.at(ns(4096));
    assert_eq!(b.rx(0).status & (Rx::DD | Rx::EOP), Rx::DD | Rx::EOP);
    b.receive(&frame(60));
    b.write(reg::RDTR, TIMER_FPD | 4);
    b.at(ns(4096));
    assert_eq!(b.rx(1).status & Rx::DD, Rx::DD, "FPD is now");
    assert_eq!(b.d.next_due(), None);
}

/// Returns the times at which TXDW was raised, for descriptors with RS and IDE at these times;
/// `now` one without IDE.
fn txdw(tidv: u32, tadv: u32, at: &[(u64, bool)]) -> Vec<u64> {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TIDV, tidv);
    b.write(reg::TADV, tadv);
    b.write(reg::IMS, INT_TXDW);
    let mut seen = alloc::vec![];
    let mut step = |b: &mut Bench, t| {
        b.at(t);
        if b.d.line() {
            b.read(reg::ICR);
            seen.push(t.ps() / 1000);
        }
    };
    for &(t, ide) in at {
        while let Some(due) = b.d.next_due().filter(|d| *d <= ns(t)) {
            step(&mut b, due);
        }
        b.at(ns(t));
        b.send(0x8000, &frame(60), tx_word::RS | if ide { tx_word::IDE } else { 0 });
        b.kick();
    }
    while let Some(due) = b.d.next_due() {
        step(&mut b, due);
    }
    seen
}

#[test]
fn tidv_is_restarted_and_tadv_caps_it() {
    assert_eq!(txdw(4, 0, &[(0, true), (3000, true)]), [7096]);
    assert_eq!(txdw(4, 6, &[(0, true), (3000, true), (6000, true)]), [6144]);
}

#[test]
fn tidv_zero_is_off_and_without_ide_there_is_no_delay() {
    assert_eq!(txdw(0, 6, &[(100, true)]), [100]);
    assert_eq!(txdw(4, 6, &[(100, false)]), [100]);
}

#[test]
fn an_immediate_interrupt_stops_the_delayed_one() {
    assert_eq!(txdw(4, 6, &[(0, true), (1000, false)]), [1000]);
}

#[test]
fn a_small_packet_interrupts_without_delay() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.write(reg::RDTR, 100);
    b.write(reg::RSRPD, 64);
    b.receive(&frame(65));
    b.at(ns(0));
    assert_eq!(b.read(reg::ICR) & INT_SRPD, 0);
    b.receive(&frame(60));
    b.at(ns(0));
    assert_eq!(b.read(reg::ICR) & (INT_SRPD | INT_RXT0), INT_SRPD);
    assert_eq!(b.rx(1).status & Rx::DD, Rx::DD);
}
