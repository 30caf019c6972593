//! The counters of the device: which ones an event raises, and by how much.

use super::super::Config;
use super::{Bench, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{Device, Reg, Span};
use doorbell_layout::e1000::*;

/// Returns the counters that `act` raises, each with its difference.
fn raised(b: &mut Bench, act: impl FnOnce(&mut Bench)) -> Vec<(&'static str, u64)> {
    let before: Vec<_> = b.d.counters.entries().collect();
    act(b);
    let pairs = before.into_iter().zip(b.d.counters.entries());
    pairs.filter(|(was, is)| was != is).map(|((name, was), (_, is))| (name, is - was)).collect()
}

fn received(b: &mut Bench, frame: &[u8]) -> Vec<(&'static str, u64)> {
    raised(b, |b| {
        b.receive(frame);
    })
}

#[test]
fn two_frames_sent_count_their_descriptors_and_bytes() {
    let mut b = Bench::up(Config::I82540EM);
    let seen = raised(&mut b, |b| {
        b.send(0x8000, &frame(60), tx_word::RS);
        b.send(0x9000, &frame(1000), tx_word::RS);
        b.kick();
        b.settle();
    });
    assert_eq!(
        seen,
        [
            ("tx_packets", 2),
            ("tx_bytes", 1060),
            ("tx_descriptors", 2),
            ("tx_doorbells", 1),
            ("fetches", 1),
            ("fetched_descriptors", 2),
            ("write_backs", 2),
            ("written_descriptors", 2),
            ("data_reads", 2),
            ("data_read_bytes", 1060),
        ]
    );
}

#[test]
fn frames_received_count_their_buffers_and_bytes() {
    let mut b = Bench::up(Config::I82540EM);
    b.receive(&frame(100));
    let seen = raised(&mut b, |b| {
        b.receive(&frame(60));
        b.receive(&frame(1000));
        b.post(4);
        b.settle();
    });
    // The first waited before.
    assert_eq!(
        seen,
        [
            ("rx_doorbells", 1),
            ("rx_packets", 3),
            ("rx_bytes", 1160),
            ("rx_descriptors", 3),
            ("rx_waited", 2),
            ("fetches", 1),
            ("fetched_descriptors", 3),
            ("write_backs", 3),
            ("written_descriptors", 3),
            ("data_writes", 3),
            ("data_write_bytes", 1160),
        ]
    );
}

#[test]
fn each_refused_frame_counts_once() {
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(received(&mut b, &frame(60)), [("rx_dropped", 1)]);
    let mut b = Bench::up(Config::I82540EM);
    assert_eq!(received(&mut b, &frame(13)), [("rx_dropped", 1)]);
    assert_eq!(received(&mut b, &frame(1519)), [("rx_dropped", 1)]);
    b.write(reg::RCTL, RCTL_EN);
    assert_eq!(received(&mut b, &frame(60)), [("rx_filtered", 1)]);
    b.write(reg::RCTL, 0);
    assert_eq!(received(&mut b, &frame(60)), [("rx_dropped", 1)]);
    b.write(reg::RCTL, RCTL_EN | RCTL_BAM);
    b.write(reg::PBA, 1);
    b.receive(&frame(1000));
    assert_eq!(received(&mut b, &frame(60)), [("rx_missed", 1)]);
}

#[test]
fn a_reset_counts_what_it_loses() {
    let mut b = Bench::up(Config::I82540EM);
    b.p.write_time = Span::from_ns(900);
    b.write(reg::RDTR, 1000);
    b.write(reg::RXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT);
    b.post(3);
    for _ in 0..4 {
        b.receive(&frame(200));
    }
    b.at(ns(5000));
    for i in 0..3 {
        b.send(0x8000 + 0x800 * i, &frame(1500), 0);
    }
    b.kick();
    b.at(ns(8000));
    let seen = raised(&mut b, |b| b.write(reg::CTRL, CTRL_RST));
    // One is on the wire and leaves. Of four received, two had descriptors.
    assert_eq!(
        seen,
        [
            ("tx_packets", 1),
            ("tx_bytes", 1500),
            ("tx_lost", 2),
            ("rx_lost", 2),
            ("rx_unreported", 2),
            ("resets", 1),
        ]
    );
}

#[test]
fn pause_frames_count_in_both_directions() {
    let mut b = Bench::up(Config::I82540EM);
    for (r, v) in [
        (reg::FCAL, 0x00c2_8001),
        (reg::FCAH, 0x0100),
        (reg::FCT, 0x8808),
        (reg::FCTTV, 100),
        (reg::FCRTH, 1024),
        (reg::FCRTL, 1 << 31 | 512),
        (reg::CTRL, CTRL_SLU | CTRL_RFCE | CTRL_TFCE),
    ] {
        b.write(r, v);
    }
    let mut pause = frame(60);
    pause[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
    pause[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0, 0]);
    assert_eq!(received(&mut b, &pause), [("pauses_received", 1)]);
    let seen = raised(&mut b, |b| {
        b.receive(&frame(1100));
        b.settle();
        b.post(4);
        b.settle();
    });
    assert_eq!(
        seen,
        [
            ("rx_doorbells", 1),
            ("rx_packets", 1),
            ("rx_bytes", 1100),
            ("rx_descriptors", 1),
            ("rx_waited", 1),
            ("pauses_sent", 2),
            ("fetches", 1),
            ("fetched_descriptors", 3),
            ("write_backs", 1),
            ("written_descriptors", 1),
            ("data_writes", 1),
            ("data_write_bytes", 1100),
        ]
    );
}

#[test]
fn a_tail_outside_its_ring_counts_as_bad() {
    for (tail, doorbells) in [(reg::RDT, "rx_doorbells"), (reg::TDT, "tx_doorbells")] {
        let mut b = Bench::up(Config::I82540EM);
        assert_eq!(raised(&mut b, |b| b.write(tail, 63)), [(doorbells, 1)]);
        let mut b = Bench::up(Config::I82540EM);
        let seen = raised(&mut b, |b| b.write(tail, 64));
        assert!(seen.contains(&(doorbells, 1)) && seen.contains(&("bad_doorbells", 1)), "{seen:?}");
    }
}

#[test]
fn a_write_to_nothing_counts_as_ignored() {
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(raised(&mut b, |b| b.write(0x1_0000, 1)), [("ignored_writes", 1)]);
    let beyond = Reg { region: 1, offset: 8 };
    let seen = raised(&mut b, |b| b.d.mmio_write(&mut b.p, ns(0), beyond, 4, 1));
    assert_eq!(seen, [("ignored_writes", 1)]);
}

#[test]
fn a_ring_that_cannot_be_read_counts_one_fault() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TDBAH, 1);
    let seen = raised(&mut b, |b| {
        b.write(reg::TDT, 1);
        b.settle();
    });
    assert_eq!(seen, [("tx_doorbells", 1), ("dma_faults", 1)]);
}
