//! Completions and events.

use super::*;

#[test]
fn one_cqe_retires_everything_up_to_its_wqe() {
    let mut d = DriverHarness::default_channel();
    d.batch(3);
    d.batch(70);
    d.batch(1);
    let asked: Vec<u16> = d.announced().iter().filter(|w| w.asks).map(|w| w.pc).collect();
    d.complete(asked[1], 0);
    assert_eq!(d.poll(), Poll::Idle);
    assert_eq!(d.returned.packets(), (0..73).collect::<Vec<_>>());
    assert!(!d.channel.is_drained());
    d.complete(asked[2], 0);
    d.poll();
    assert!(d.channel.is_drained());
    d.close();
}

#[test]
fn stray_cqes_are_counted_and_ignored() {
    let mut d = DriverHarness::without_mpwqe();
    d.complete(0, 0);
    d.poll();
    d.batch(2);
    for pc in [2, 3, 1000, 65535] {
        d.complete(pc, 0);
    }
    d.poll();
    assert_eq!(d.stats().cqe_stray, 5);
    assert_eq!(d.returned.packets(), [0_u32; 0]);
    d.complete(1, 0);
    d.complete(1, 0);
    d.poll();
    assert_eq!(d.stats().cqe_stray, 6);
    assert_eq!(d.returned.packets(), [0, 1]);
    d.close();
}

#[test]
fn the_cq_wraps_with_its_owner_bit() {
    let mut d = DriverHarness::new(Config { log_cq: 1, ..Config::DEFAULT }, CAPS);
    for i in 1..=9 {
        d.batch(1);
        assert_eq!(d.poll(), Poll::Idle, "what stands there is of the round before");
        d.complete_all();
        assert_eq!(d.stats().cqes, i);
    }
    assert_eq!((d.stats().cqes, d.returned.packets().len()), (9, 9));
}

#[test]
fn a_poll_ends_at_its_budget_and_does_not_arm() {
    let mut d = DriverHarness::without_mpwqe();
    for _ in 0..65 {
        d.batch(1);
    }
    for w in d.announced() {
        d.complete(w.pc, 0);
    }
    d.doorbells();
    assert_eq!(d.poll(), Poll::Again);
    assert_eq!(d.arms(), []);
    assert_eq!(d.poll(), Poll::Idle);
    // The EQ, read up to 0; the send queue's CQ, up to 65; the others, up to 0.
    let eq = (0x40, vec![FakeFirmware::EQN as u8, 0, 0, 0]);
    let others = (1..5).map(|n| arm(0, FakeFirmware::CQN + n));
    assert_eq!(
        d.arms(),
        [eq, arm(65, FakeFirmware::CQN)].into_iter().chain(others).collect::<Vec<_>>()
    );
}

/// The register write that arms a CQ which was read up to `ci`.
fn arm(ci: u8, cqn: u32) -> (u32, Vec<u8>) {
    (0x20, [&[0, 0, 0, ci][..], &cqn.to_be_bytes()].concat())
}

#[test]
fn a_poll_arms_every_cq_of_the_channel() {
    for (cqs, n) in [(Cqs::Send, 1), (Cqs::Three, 3), (Cqs::Five, 5)] {
        let mut d = DriverHarness::new(Config { cqs, ..Config::DEFAULT }, CAPS);
        assert_eq!(d.cqs().len(), n as usize);
        d.poll();
        let armed: Vec<_> = d.arms().into_iter().filter(|a| a.0 == 0x20).collect();
        assert_eq!(armed, (0..n).map(|i| arm(0, FakeFirmware::CQN + i)).collect::<Vec<_>>());
        d.close();
    }
}

#[test]
fn each_cq_has_its_own_ring_and_record() {
    let mut d = DriverHarness::default_channel();
    let cqs = d.cqs();
    assert_eq!(cqs.iter().map(|c| c.log_size).collect::<Vec<_>>(), [10, 10, 6, 6, 10]);
    let mut places: Vec<u64> = cqs.iter().flat_map(|c| [c.ring, c.dbr]).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 10);
    // The arm stands in each record's second word, with the sequence number of the event that came.
    d.event(FakeFirmware::CQN + 3);
    assert_eq!(d.interrupt(), Irq::Poll);
    d.poll();
    for (i, cq) in cqs.iter().enumerate() {
        let word = d.host.host.port.at(cq.dbr + 4, 4).to_vec();
        assert_eq!(word, [if i == 3 { 0x10 } else { 0 }, 0, 0, 0], "CQ {i}");
    }
}

#[test]
fn a_completion_of_an_empty_queue_is_stray() {
    let mut d = DriverHarness::default_channel();
    d.batch(1);
    for n in 1..5 {
        d.stray(n);
    }
    assert_eq!(d.poll(), Poll::Idle);
    assert_eq!((d.stats().cqe_stray, d.returned.packets().len()), (4, 0));
    d.complete_all();
    assert_eq!((d.stats().cqe_stray, d.returned.packets().len()), (4, 1));
    d.close();
}

#[test]
fn the_arm_sequence_number_counts_events_not_arms() {
    // cq.h mlx5_cq_arm takes it from arm_sn, which only an event raises (eq.c).
    let mut d = DriverHarness::without_mpwqe();
    let sn = |d: &mut DriverHarness| d.arms().iter().find(|a| a.0 == 0x20).map(|a| a.1[0] >> 4);
    d.poll();
    let first = sn(&mut d);
    d.poll();
    assert_eq!(sn(&mut d), first);
}
