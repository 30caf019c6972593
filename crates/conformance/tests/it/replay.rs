//! Captured frames through driver, link and device: each leaves once, in order,
//! and as it should be.

use doorbell_bus::pcie::Settings;
use doorbell_bus::{Costs, Latencies, ProtectionGranularity};
use doorbell_conformance::{full, tshark};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config, Sizing};
use doorbell_hal::{Span, Time};
use doorbell_host_io::pcap::{self, Writer};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, Transport, prepare_partial, verify};
use doorbell_sim::Watch;
use doorbell_sim::traffic::{Frames, ReplayOptions, SegmentSize, SegmentSizes};
use doorbell_systems::host::HostConfig;
use doorbell_systems::mlx5::{Load, RunStats, Setup, run};
use std::sync::Arc;

fn setup(mpwqe: bool, sizing: Sizing) -> Setup {
    Setup {
        cores: 1,
        host: HostConfig { guard: ProtectionGranularity::Byte, ..HostConfig::new(Costs::FREE) },
        pcie: Settings::link(3, 16),
        latencies: Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) },
        bar: 0x3c_0000_0000,
        memory_base: 1 << 32,
        nic: Nic::CONNECTX,
        driver: Config { mpwqe, sizing, ..Config::DEFAULT },
    }
}

/// Keeps what leaves.
#[derive(Default)]
struct Wire(Vec<(Time, Vec<u8>)>);

impl Watch for Wire {
    fn wants_frames(&self) -> bool {
        true
    }
    fn frame(&mut self, at: Time, frame: &[u8]) -> Result<(), String> {
        self.0.push((at, frame.to_vec()));
        Ok(())
    }
}

fn replay(
    frames: &Arc<Frames>,
    options: ReplayOptions,
    mpwqe: bool,
) -> (RunStats, Vec<(Time, Vec<u8>)>) {
    let sizing = if mpwqe { Sizing::Padded } else { Sizing::Fit };
    replay_on(&setup(mpwqe, sizing), frames, options)
}

fn replay_on(
    setup: &Setup,
    frames: &Arc<Frames>,
    options: ReplayOptions,
) -> (RunStats, Vec<(Time, Vec<u8>)>) {
    let mut wire = Wire::default();
    let load = Load::replay(Arc::clone(frames), options, setup.cores);
    let outcome = run(setup, &load, &mut wire).unwrap();
    assert_eq!(outcome.verdict.audit, Vec::<String>::new());
    (outcome, wire.0)
}

fn padded(frame: &[u8]) -> Vec<u8> {
    let mut f = frame.to_vec();
    f.resize(f.len().max(60), 0);
    f
}

/// A TCP checksum of 0 has two forms that both verify; Linux's software writes 0xffff, hardware 0.
fn one_form(mut frame: Vec<u8>) -> Vec<u8> {
    if let Ok(layers) = Layers::of(&frame)
        && let (Some(Transport::Tcp), Some(partial)) = (layers.transport, layers.partial())
        && frame[partial.field()..partial.field() + 2] == [0xff; 2]
        && verify(&frame).transport == Check::Good
    {
        frame[partial.field()..partial.field() + 2].fill(0);
    }
    frame
}

/// Every frame once, in order, identical but for padding.
fn assert_same(sent: &[(Time, Vec<u8>)], frames: &Frames, rounds: usize) {
    assert_eq!(sent.len(), frames.len() * rounds);
    for (i, ((_, out), (_, frame))) in
        sent.iter().zip((0..rounds).flat_map(|_| frames.iter())).enumerate()
    {
        assert_eq!(one_form(out.clone()), one_form(padded(frame)), "frame {i}");
    }
    assert!(sent.is_sorted_by_key(|(at, _)| *at));
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    let len = (20 + payload.len()) as u16;
    f.extend([
        0x45,
        0,
        (len >> 8) as u8,
        len as u8,
        0x12,
        0x34,
        0x40,
        0,
        64,
        protocol,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    let check = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend(payload);
    f
}

/// A complete TCP frame with this much payload.
fn tcp(payload: usize) -> Vec<u8> {
    let mut segment =
        vec![0x30, 0x39, 0, 80, 0, 0, 1, 0, 0, 0, 0, 7, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0];
    segment.extend((0..payload).map(|i| (i * 31 + 7) as u8));
    let mut f = ipv4(6, &segment);
    let partial = prepare_partial(&mut f).unwrap();
    partial.complete(&mut f).unwrap();
    f
}

#[test]
fn a_tcp_checksum_of_zero_is_the_same_in_both_forms() {
    // The payload's first two bytes make the checksum what one wants.
    let mut f = tcp(2);
    let partial = Layers::of(&f).unwrap().partial().unwrap();
    let check = u16::from_be_bytes([f[partial.field()], f[partial.field() + 1]]);
    let sum = Sum::of(&check.to_be_bytes()).plus_be16(u16::from_be_bytes([f[54], f[55]])).value();
    f[54..56].copy_from_slice(&sum.to_be_bytes());
    f[partial.field()..partial.field() + 2].fill(0xff);
    assert_eq!(verify(&f).transport, Check::Good);
    let mut frames = Frames::default();
    frames.push(Span::ZERO, &f);
    let frames = Arc::new(frames);
    let (_, sent) = replay(&frames, ReplayOptions::DEFAULT, true);
    assert_eq!(sent[0].1[partial.field()..partial.field() + 2], [0, 0], "as hardware writes it");
    assert_same(&sent, &frames, 1);
}

fn tagged(mut frame: Vec<u8>, tci: u16) -> Vec<u8> {
    let [hi, lo] = tci.to_be_bytes();
    frame.splice(12..12, [0x81, 0, hi, lo]);
    frame
}

fn mixed() -> Arc<Frames> {
    let mut frames = Frames::default();
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]]
        .concat();
    for i in 0..200usize {
        let frame = match i % 5 {
            0 => tcp(i * 7),
            1 => arp.clone(),
            2 => tagged(tcp(i), 0x2005),
            3 => ipv4(1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]),
            _ => tcp(0),
        };
        frames.push(Span::from_us(3 * i as u64), &frame);
    }
    Arc::new(frames)
}

#[test]
fn frames_leave_once_in_order_and_unchanged() {
    let frames = mixed();
    for mpwqe in [false, true] {
        for checksum_offload in [false, true] {
            for (own_times, rounds) in [(false, 1), (true, 1), (false, 3), (true, 2)] {
                let o =
                    ReplayOptions { own_times, rounds, checksum_offload, ..ReplayOptions::DEFAULT };
                let (outcome, sent) = replay(&frames, o, mpwqe);
                assert_same(&sent, &frames, rounds as usize);
                let expected = if checksum_offload { 120 * u64::from(rounds) } else { 0 };
                assert_eq!(outcome.totals.driver.csum_partial, expected);
                assert_eq!(outcome.totals.driver.mpwqe_blks > 0, mpwqe);
            }
        }
    }
}

#[test]
fn at_its_own_times_a_frame_leaves_when_it_did() {
    let frames = mixed();
    let mut setup = setup(true, Sizing::Padded);
    // A byte limit begins at nothing: the second frame would wait for the first one's completion.
    setup.driver.bql = false;
    let (_, sent) =
        replay_on(&setup, &frames, ReplayOptions { own_times: true, ..ReplayOptions::DEFAULT });
    for ((at, _), (due, _)) in sent.iter().zip(frames.iter()) {
        let late = at.since(Time::ZERO + due);
        assert!(*at >= Time::ZERO + due && late < Span::from_us(2), "due {due}, {late} late");
    }
}

/// Returns the index of the first frame over the MTU that cannot be segmented.
fn first_unsendable(options: ReplayOptions, frames: &Frames) -> Option<usize> {
    let segments = SegmentSizes::of(frames, &options);
    (0..frames.len()).find(|i| {
        let (_, f) = frames.get(*i).unwrap();
        options.is_over(f) && options.prepare(&mut f.to_vec(), segments.size(*i)).is_none()
    })
}

#[test]
fn a_frame_over_the_mtu_is_cut_when_asked_for_and_found_when_not() {
    let mut frames = Frames::default();
    frames.push(Span::ZERO, &tcp(100));
    frames.push(Span::ZERO, &tcp(5000));
    let frames = Arc::new(frames);
    assert_eq!(first_unsendable(ReplayOptions::DEFAULT, &frames), Some(1));
    let options = ReplayOptions { gso: Some(SegmentSize::Bytes(1448)), ..ReplayOptions::DEFAULT };
    assert_eq!(first_unsendable(options, &frames), None);
    let (outcome, sent) = replay(&frames, options, true);
    assert_eq!(outcome.totals.driver.tso_packets, 1);
    assert_eq!(sent.len(), 1 + 4);
    let payload: Vec<u8> = sent[1..].iter().flat_map(|(_, f)| f[54..].to_vec()).collect();
    assert_eq!(payload, frames.get(1).unwrap().1[54..]);
    for (_, f) in &sent {
        assert_eq!(verify(f).transport, Check::Good);
        assert!(f.len() <= 1514);
    }
}

#[test]
fn a_real_capture_survives_the_way_through() {
    if !full("root, for network namespaces, and tshark") {
        return;
    }
    let path = tshark::make_capture().unwrap();
    let capture = pcap::read(&path).unwrap();
    let mut frames = Frames::default();
    let mut with_transport = 0;
    for (at_ns, f) in capture.iter() {
        frames.push(Span::from_ns(at_ns), f);
        with_transport += u64::from(prepare_partial(&mut f.to_vec()).is_some());
    }
    let frames = Arc::new(frames);
    assert!(with_transport > 500, "{with_transport} frames with TCP or UDP checksums");
    assert_eq!(tshark::bad_checksums(&path).unwrap(), Vec::<u64>::new(), "before the way through");
    let dir = tempfile::tempdir().unwrap();
    for mpwqe in [false, true] {
        for checksum_offload in [false, true] {
            for own_times in [false, true] {
                let o = ReplayOptions { own_times, checksum_offload, ..ReplayOptions::DEFAULT };
                let (outcome, sent) = replay(&frames, o, mpwqe);
                assert_same(&sent, &frames, 1);
                assert_eq!(
                    outcome.totals.driver.csum_partial,
                    if checksum_offload { with_transport } else { 0 }
                );
                let out = dir.path().join("out.pcapng");
                let mut w = Writer::create(&out).unwrap();
                let wire = w.interface("wire", 100_000_000_000).unwrap();
                for (at, f) in &sent {
                    w.frame(wire, *at, f).unwrap();
                }
                w.finish().unwrap();
                let bad = tshark::bad_checksums(&out).unwrap();
                let hex: Vec<_> =
                    bad.iter().map(|&n| format!("{n}: {:02x?}", sent[n as usize - 1].1)).collect();
                assert_eq!(hex, Vec::<String>::new(), "mpwqe {mpwqe}, offload {checksum_offload}");
            }
        }
    }
}
