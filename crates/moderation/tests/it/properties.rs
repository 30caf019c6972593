//! Properties of every controller, whatever the counters do.

use doorbell_moderation::{
    Controller, Direction, Flow, ItrClasses, ItrMode, Limits, Link, NetDim, Period, RdmaDim,
    Sample, State, Trains, profiles,
};
use proptest::prelude::*;

/// Change of each counter between two calls; sometimes by nothing, sometimes by
/// more than it can hold. With `applied`, the profile is applied before the call.
#[derive(Clone, Debug)]
struct Move {
    time_ns: u64,
    events: u64,
    packets: u64,
    bytes: u64,
    applied: bool,
}

fn amount(usual: u64, wild: u64) -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 8 => 0..usual, 1 => 0..wild]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = (
        amount(2_000_000, u64::MAX),
        amount(80, u64::MAX),
        amount(200, u64::MAX),
        amount(300_000, u64::MAX),
    )
        .prop_flat_map(|(time_ns, events, packets, bytes)| {
            prop::bool::weighted(0.7).prop_map(move |applied| Move {
                time_ns,
                events,
                packets,
                bytes,
                applied,
            })
        });
    prop::collection::vec(one, 1..300)
}

/// The samples that the moves add up to, from a start in the middle of nowhere.
fn samples(start: Sample, moves: &[Move]) -> impl Iterator<Item = (Sample, bool)> + '_ {
    moves.iter().scan(start, |at, m| {
        at.time_ns = at.time_ns.wrapping_add(m.time_ns);
        at.events = at.events.wrapping_add(m.events);
        let add = |f: Flow| Flow {
            packets: f.packets.wrapping_add(m.packets),
            bytes: f.bytes.wrapping_add(m.bytes),
        };
        (at.rx, at.tx) = (add(at.rx), add(at.tx));
        at.completions = at.completions.wrapping_add(m.packets);
        Some((*at, m.applied))
    })
}

fn start() -> impl Strategy<Value = Sample> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(time_ns, events, packets, bytes)| {
            let flow = Flow { packets, bytes };
            Sample { time_ns, events, rx: flow, tx: flow, completions: packets }
        },
    )
}

proptest! {
    #[test]
    fn net_dim_stays_in_its_table_and_moves_by_one(
        first in 0u8..5,
        start in start(),
        moves in moves(),
    ) {
        let table = profiles::axienet(16);
        let mut dim = NetDim::new(table, Direction::Rx).starting_at(first);
        for (sample, applied) in samples(start, &moves) {
            if applied {
                dim.applied();
            }
            let (before, waited) = (dim.index(), dim.state() == State::ApplyNewProfile);
            let told = dim.sample(&sample);
            prop_assert!(
                dim.index() < 5
                    && dim.tired() <= 10
                    && dim.steps_left() <= 4
                    && dim.steps_right() <= 4
            );
            prop_assert_eq!(
                u8::from(told.is_some()),
                dim.index().abs_diff(before),
                "a setting is one step"
            );
            prop_assert!(!waited || told.is_none());
            prop_assert_eq!(told.is_some(), dim.state() == State::ApplyNewProfile && !waited);
            prop_assert!(told.is_none_or(|s| s == table[usize::from(dim.index())]));
        }
    }

    #[test]
    fn rdma_dim_stays_in_its_table(start in start(), moves in moves()) {
        let mut dim = RdmaDim::new();
        for (sample, applied) in samples(start, &moves).cycle_few() {
            if applied {
                dim.applied();
            }
            let before = dim.index();
            let told = dim.sample(&sample);
            prop_assert!(dim.index() < 9);
            prop_assert!(
                dim.index().abs_diff(before) <= 1 || dim.index() == 0,
                "one step, or back to 0"
            );
            prop_assert_eq!(
                told,
                (dim.index() != before).then(|| RdmaDim::PROFILES[usize::from(dim.index())])
            );
        }
    }

    #[test]
    fn only_the_differences_of_narrow_counters_count(start in start(), moves in moves()) {
        // The same walk with counters of 64 bits, with Linux's widths, and from zero.
        let new = || NetDim::new(profiles::linux(Direction::Rx, Period::Event), Direction::Rx);
        let (mut wide, mut narrow, mut zero) = (new(), new(), new());
        let origin = Sample { time_ns: start.time_ns, ..Sample::default() };
        for ((s, applied), (z, _)) in samples(start, &moves).zip(samples(origin, &moves)) {
            if applied {
                wide.applied();
                narrow.applied();
                zero.applied();
            }
            let rx = Flow { packets: s.rx.packets & 0xffff_ffff, bytes: s.rx.bytes & 0xffff_ffff };
            let told = wide.sample(&s);
            prop_assert_eq!(told, narrow.sample(&Sample { events: s.events & 0xffff, rx, ..s }));
            prop_assert_eq!(told, zero.sample(&z));
            let stand = |d: &NetDim| {
                (d.index(), d.state(), d.tune(), d.tired(), d.steps_left(), d.steps_right())
            };
            prop_assert_eq!(stand(&wide), stand(&narrow));
            prop_assert_eq!(stand(&wide), stand(&zero));
        }
    }

    #[test]
    fn the_same_samples_give_the_same_settings(start in start(), moves in moves(), mode in 0..2) {
        let mode = [ItrMode::Dynamic, ItrMode::Conservative][mode as usize];
        let dim = NetDim::new(profiles::linux(Direction::Tx, Period::Completion), Direction::Tx);
        prop_assert_eq!(run(dim.clone(), start, &moves), run(dim, start, &moves));
        prop_assert_eq!(run(RdmaDim::new(), start, &moves), run(RdmaDim::new(), start, &moves));
        let itr = ItrClasses::new(mode, 1_000, &start);
        prop_assert_eq!(run(itr.clone(), start, &moves), run(itr, start, &moves));
    }

    #[test]
    fn itr_stays_between_its_rates(
        start in start(),
        moves in moves(),
        gigabit: bool,
        conservative: bool,
    ) {
        let mode = if conservative { ItrMode::Conservative } else { ItrMode::Dynamic };
        let mut itr = ItrClasses::new(mode, if gigabit { 1_000 } else { 100 }, &start);
        let most = match (gigabit, conservative) {
            (true, false) => 70_000,
            _ => 20_000,
        };
        for (sample, _) in samples(start, &moves) {
            let before = itr.setting();
            let told = itr.sample(&sample);
            prop_assert!((4_000..=most).contains(&itr.rate()));
            prop_assert_eq!(told, (itr.setting() != before).then(|| itr.setting()));
            prop_assert!(gigabit || itr.rate() == 4_000);
        }
    }

    #[test]
    fn a_links_table_catches_the_next_packet(
        mbit_s in 1u32..800_000,
        mtu in 46u32..16_000,
        usec in 1u32..5_000,
        packets in 1u16..2_000,
    ) {
        let (link, limits) = (Link { mbit_s, mtu }, Limits { usec, packets });
        let gap = link.packet_ns().unwrap();
        for period in [Period::Event, Period::Completion, Period::Interval] {
            let table = link.profiles(period, limits);
            prop_assert!(
                table
                    .windows(2)
                    .all(|w| w[0].packets <= w[1].packets && w[0].delay_ns <= w[1].delay_ns)
            );
            for s in table {
                prop_assert!(
                    s.packets >= 1
                        && s.packets <= packets
                        && s.usec() <= usec
                        && s.period == period
                );
                // Either nothing is waited for, or long enough for a second packet.
                let waits_right =
                    if s.packets == 1 { s.delay_ns == 0 } else { u64::from(s.delay_ns) >= gap };
                prop_assert!(waits_right);
            }
        }
    }
}

fn run(
    mut c: impl Controller,
    start: Sample,
    moves: &[Move],
) -> Vec<Option<doorbell_moderation::Setting>> {
    samples(start, moves)
        .map(|(sample, applied)| {
            if applied {
                c.applied();
            }
            c.sample(&sample)
        })
        .collect()
}

/// Repeats what a walk does, so that epochs of 64 calls come to an end.
trait CycleFew: Iterator<Item = (Sample, bool)> + Sized {
    fn cycle_few(self) -> impl Iterator<Item = (Sample, bool)> {
        let all: Vec<_> = self.collect();
        let len = all.len();
        all.into_iter().cycle().take(len * 5)
    }
}

impl<I: Iterator<Item = (Sample, bool)>> CycleFew for I {}

fn trains(mbit_s: u32, mtu: u32, period: Period, usec: u32, packets: u16) -> Trains {
    Trains::new(Direction::Rx, Link { mbit_s, mtu }, period, 1_000, Limits { usec, packets })
}

proptest! {
    #[test]
    fn trains_stay_within_the_device(
        start in start(),
        moves in moves(),
        mbit_s in 0u32..100_000,
        usec in 0u32..5_000,
        packets in 0u16..2_000,
        period in
            prop_oneof![Just(Period::Event), Just(Period::Completion), Just(Period::Interval)],
    ) {
        let mut c = trains(mbit_s, 1_500, period, usec, packets);
        for (sample, _) in samples(start, &moves) {
            let before = c.setting();
            let told = c.sample(&sample);
            let s = c.setting();
            prop_assert_eq!(told, (s != before).then_some(s));
            prop_assert!(
                s.packets >= 1
                    && s.packets <= packets.max(1)
                    && s.usec() <= usec
                    && s.period == period
            );
            // It waits for a count with a timer, or not at all.
            prop_assert_eq!(s.packets == 1, s.delay_ns == 0);
        }
    }

    #[test]
    fn trains_know_differences_only(start in start(), moves in moves()) {
        // A clock of nanoseconds does not wrap in 500 years, and nor does a counter of packets.
        let flow = Flow { packets: start.rx.packets >> 4, ..start.rx };
        let start = Sample { time_ns: start.time_ns >> 4, rx: flow, ..start };
        let moves: Vec<Move> = moves
            .into_iter()
            .map(|m| Move { time_ns: m.time_ns.min(1 << 50), packets: m.packets.min(1 << 50), ..m })
            .collect();
        let origin = Sample { time_ns: 0, ..Sample::default() };
        let (mut here, mut there) = (
            trains(1_000, 1_500, Period::Completion, 255, 255),
            trains(1_000, 1_500, Period::Completion, 255, 255),
        );
        here.sample(&start);
        there.sample(&origin);
        // From the first silence with packets on, the two have seen the same.
        let quiet = Move { time_ns: 1 << 40, events: 1, packets: 1, bytes: 60, applied: true };
        let moves: Vec<Move> = [quiet].into_iter().chain(moves).collect();
        for ((a, _), (b, _)) in samples(start, &moves).zip(samples(origin, &moves)) {
            here.sample(&a);
            there.sample(&b);
            prop_assert_eq!(here.setting(), there.setting());
        }
    }

    #[test]
    fn if_an_even_load_is_waited_for_so_is_a_faster_one(
        gap in 1_000u64..200_000,
        faster in 1u64..100,
        each in 1u64..32,
        n in 1u64..2_000,
    ) {
        let waits = |gap: u64| {
            let mut c = trains(1_000, 1_500, Period::Completion, 255, 255);
            for i in 1..=n {
                let rx = Flow { packets: i * each, bytes: 0 };
                c.sample(&Sample { time_ns: (1 << 40) + i * each * gap, rx, ..Sample::default() });
            }
            c.setting().packets > 1
        };
        prop_assert!(waits(gap * faster / 100) >= waits(gap));
    }
}
