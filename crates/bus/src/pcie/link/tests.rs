use super::*;
use crate::ProtectionGranularity;
use crate::fault::{Faults, Kind, Rule, When};
use crate::pcie::{Completions, Gap, Settings};
use doorbell_hal::Alignment;

const LATENCIES: Latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };

/// A Gen3 x8 link whose device may use 64 KiB of memory, and their address.
fn link() -> (Pcie, Iova) {
    link_of(Settings::link(3, 8))
}

fn link_of(settings: Settings) -> (Pcie, Iova) {
    let mut platform = Platform::new(1 << 32, 1 << 20, ProtectionGranularity::Page);
    let b = platform.memory.buffer(1 << 16, Alignment::ANY).unwrap();
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        platform.map(b.addr(), 1 << 16, dir).unwrap();
    }
    let rules = Rules::new(settings).unwrap();
    (Pcie::new(platform, rules, LATENCIES, 0x3c_0000_0000), Iova(b.addr()))
}

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

#[test]
fn an_answer_does_not_pass_earlier_writes() {
    let (mut p, at) = link();
    p.write(t(200), at, &[1; 64]).unwrap();
    // Too long for the gap before the other.
    let arrival = p.write(t(100), at, &[2; 2048]).unwrap();
    assert!(p.register_answer(t(110), 4) >= arrival);
}

#[test]
fn an_answer_does_not_wait_for_later_writes() {
    let (mut p, at) = link();
    p.write(t(5000), at, &[1; 64]).unwrap();
    assert!(p.register_answer(t(100), 4) < t(300));
}

#[test]
fn a_message_holds_an_answer_back() {
    let (mut p, at) = link();
    p.write(t(200), at, &[1; 4096]).unwrap();
    p.raise_msi(t(100), 3);
    let answered = p.register_answer(t(110), 4);
    p.platform_mut().deliver(answered);
    assert!(p.platform().message_pending(3).is_some());
}

#[test]
fn an_access_waits_for_its_translation() {
    let walk = Span::from_ns(330);
    let geometry = crate::iotlb::Geometry { entries: 4, page: 12, walk, walkers: 1 };
    let (mut plain, at) = link();
    let (p, _) = link();
    let (rules, bar, platform) = (p.rules, p.bar, p.into_platform().with_iotlb(Some(geometry)));
    let mut p = Pcie::new(platform, rules, LATENCIES, bar);
    let read = |p: &mut Pcie, now, at| p.read(t(now), at, &mut [0; 64]).unwrap();
    assert_eq!(read(&mut p, 0, at), read(&mut plain, 0, at) + walk);
    assert_eq!(read(&mut p, 10_000, at + 64), read(&mut plain, 10_000, at + 64));
    // What comes behind a write that waits does not pass it.
    let written = p.write(t(20_000), at + 4096, &[1; 64]).unwrap();
    assert!(written > t(20_000) + walk);
    p.raise_msi(t(20_001), 3);
    p.platform_mut().deliver(written);
    assert_eq!(p.platform().message_pending(3), Some(written));
}

#[test]
fn a_read_waits_for_a_late_write() {
    let (mut p, at) = link();
    let rule = Rule { kind: Kind::LateCompletion(Span::from_us(5)), when: When::Nth(1) };
    p.platform_mut().inject(Faults::new(vec![rule], 0));
    let before = p.read(t(0), at + 4096, &mut [0; 64]).unwrap();
    assert!(before < t(1000));
    p.begin_completion(t(1000));
    let arrival = p.write(t(1000), at, &[7; 64]).unwrap();
    assert!(arrival > t(6000));
    for place in [at, at + 4096] {
        let read = p.read(t(1000), place, &mut [0; 64]).unwrap();
        assert!(read > arrival + LATENCIES.memory);
    }
    p.platform_mut().deliver(Time::from_ps(arrival.ps() - 1));
    assert_eq!(p.platform().memory.peek(at.0, 64), [0; 64]);
}

/// Gen2 x16: a symbol time of 16 bytes takes 2 ns.
const SYMBOL: Span = Span::from_ns(2);

#[test]
fn a_lone_read_takes_the_sum_of_its_parts() {
    for gap in [Gap::None, Gap::Dllp, Gap::Completion] {
        let (mut p, at) = link_of(Settings { gap, ..Settings::link(2, 16) });
        for i in 0..20 {
            let start = t(1000 * i);
            let arrived = p.read(start, at, &mut [0; 64]).unwrap();
            // A request of 24 bytes, and a completion of 84.
            let link = SYMBOL * 2 + SYMBOL * 6 + LATENCIES.link * 2;
            assert_eq!(arrived.since(start), link + LATENCIES.memory, "{gap:?}");
        }
    }
}

#[test]
fn one_tag_gives_one_read_a_latency() {
    let (mut p, at) = link_of(Settings { tags: 1, ..Settings::link(2, 16) });
    let latency = p.read(t(0), at, &mut [0; 64]).unwrap().since(t(0));
    let mut last = p.read_ready();
    for _ in 0..50 {
        let arrived = p.read(t(0), at, &mut [0; 64]).unwrap();
        assert_eq!((arrived.since(last), p.read_ready()), (latency, arrived));
        last = arrived;
    }
    // A frame of three requests takes three turns.
    let arrived = p.read(t(0), at, &mut [0; 1514]).unwrap();
    let (one, all) = (latency.ps(), arrived.since(last).ps());
    // Each is longer than the first by up to 448 bytes and a header.
    assert!((3 * one..3 * (one + 62_000)).contains(&all), "{one} {all}");
}

/// DLLPs that wait for the same TLP travel together: a stream of writes is acknowledged once for as
/// long as nothing goes against it, and each completion carries the credits of a request.
#[test]
fn acknowledgements_that_wait_travel_together() {
    let settings = Settings { gap: Gap::Packed, tags: 4096, ..Settings::link(3, 16) };
    let n = 10_000;
    // A block of 373 on a lane is an SKP ordered set; 1015.625 ps a byte and lane.
    let time = |bytes: u64| bytes as f64 * 1015.625 / 16.0 * 747.0 / 745.0;

    let (mut p, at) = link_of(settings);
    let arrivals: Vec<Time> = (0..n).map(|_| p.write(t(0), at, &[0; 64]).unwrap()).collect();
    let took = arrivals[n - 1].since(arrivals[0]).ps() as f64;
    let by_hand = time(88 * (n as u64 - 1));
    assert!((took / by_hand - 1.0).abs() < 1e-4, "{took} {by_hand}");
    assert_eq!((p.ledger().pcie_down_gap_bytes, p.ledger().pcie_up_gap_bytes), (16, 0));

    let (mut p, at) = link_of(settings);
    let arrivals: Vec<Time> = (0..n).map(|_| p.read(t(0), at, &mut [0; 64]).unwrap()).collect();
    let took = arrivals[n - 1].since(arrivals[0]).ps() as f64;
    // 84 bytes and their padding, behind an Ack and an UpdateFC.
    let by_hand = time(112 * (n as u64 - 1));
    assert!((took / by_hand - 1.0).abs() < 1e-3, "{took} {by_hand}");
}

/// A link without a limit but its own carries to the byte what its rules leave.
#[test]
fn a_full_link_carries_what_its_rules_leave() {
    for (gap, completions, size, symbols) in [
        (Gap::None, Completions::Merged, 64, 6),
        (Gap::Dllp, Completions::Merged, 64, 8),
        (Gap::Completion, Completions::Merged, 64, 8),
        (Gap::Dllp, Completions::Rcb(64), 512, 8 * 6 + 2),
        (Gap::Completion, Completions::Rcb(64), 512, 8 * (6 + 2)),
        (Gap::Dllp, Completions::Merged, 1514, 5 * 18 + 16 + 3 * 2),
        (Gap::Completion, Completions::Merged, 1514, 6 * 2 + 5 * 18 + 16),
        (Gap::Dllp, Completions::Merged, 9000, 35 * 18 + 4 + 18 * 2),
    ] {
        let settings = Settings { gap, completions, tags: 4096, ..Settings::link(2, 16) };
        let (mut p, at) = link_of(settings);
        let n = 200;
        let mut frame = vec![0; size];
        let mut arrivals = (0..n).map(|_| p.read(t(0), at, &mut frame).unwrap());
        let (first, last) = (arrivals.next().unwrap(), arrivals.last().unwrap());
        let took = last.since(first).ps();
        // Toward the device; the way of the requests is not full.
        let expected = SYMBOL.ps() * symbols * (n - 1);
        assert!(took.abs_diff(expected) < SYMBOL.ps() * 200, "{gap:?} {size}: {took} {expected}");
        let l = p.ledger();
        let busy = l.pcie_down_tlp_bytes + l.pcie_down_pad_bytes + l.pcie_down_gap_bytes;
        assert_eq!(busy, symbols * 16 * n, "{gap:?} {size}");
    }
}

/// Bytes that only pass on are counted, timed and checked as others, and copied only where somebody
/// looks at frames: a capture, or a trace.
#[test]
fn bytes_that_nobody_looks_at_are_counted_and_not_copied() {
    let read = |p: &mut Pcie, at: Iova, seen: Option<usize>| {
        let mut into = [0xee; 1518];
        let answered = match seen {
            Some(seen) => p.read_passing(t(9000), at, &mut into, seen),
            None => p.read(t(9000), at, &mut into),
        };
        (answered, p.ledger(), into)
    };
    let written = || {
        let (mut p, at) = link();
        p.write(t(0), at, &[7; 1518]).unwrap();
        p.platform_mut().deliver(t(8000));
        (p, at)
    };
    let (mut p, at) = written();
    let (answered, counted, all) = read(&mut p, at, None);
    assert_eq!(all, [7; 1518]);
    let (mut p, at) = written();
    let (passed, ledger, some) = read(&mut p, at, Some(14));
    assert_eq!((passed, ledger), (answered, counted));
    assert_eq!((&some[..14], &some[14..]), (&[7; 14][..], &[0xee; 1504][..]));
    let looks: [fn(&mut Pcie); 2] = [|p| p.sink_mut().start(), |p| p.platform_mut().record(1)];
    for look in looks {
        let (mut p, at) = written();
        look(&mut p);
        assert_eq!(read(&mut p, at, Some(14)).2, [7; 1518]);
    }
    // One byte behind what is mapped is refused as ever.
    let (mut p, at) = link();
    assert!(p.read_passing(t(0), at + ((1 << 16) - 14), &mut [0; 15], 14).is_err());
    assert_eq!(p.ledger().dma_faults, 1);
}
