//! The purposes of [`Trains`], each a test, beside net_dim where the two differ: on a queue
//! whose device counts packets and restarts its timer with each, as axienet's.

use doorbell_moderation::{
    Controller, Direction, Flow, Limits, Link, NetDim, Period, Sample, Setting, Trains, profiles,
};

const GIGABIT: Link = Link { mbit_s: 1_000, mtu: 1_500 };
const UNIT_NS: u32 = 1_000;
/// A full frame at 1 Gbit/s.
const FULL_NS: u64 = 12_304;
/// From an interrupt to the end of its poll, but for what each packet takes.
const POLL_NS: u64 = 5_000;
const PACKET_NS: u64 = 4_000;
const MS: u64 = 1_000_000;

fn trains(link: Link) -> Trains {
    Trains::new(Direction::Rx, link, Period::Completion, UNIT_NS, Limits::AXIENET)
}
fn dim() -> NetDim {
    NetDim::new(profiles::axienet(profiles::AXIENET_USEC), Direction::Rx)
}

/// A queue, its controller, and what came of the packets so far.
struct Queue<C> {
    controller: C,
    sample: Sample,
    /// For each packet: when it came, and when the interrupt was that announced it.
    served: Vec<(u64, u64)>,
    /// Times and values of the changes of the setting.
    changes: Vec<(u64, Setting)>,
    /// Packets that came while others were polled, and were polled with them: the device counts
    /// them for the next interrupt.
    ahead: usize,
}

impl<C: Controller> Queue<C> {
    fn new(controller: C) -> Queue<C> {
        Queue {
            controller,
            sample: Sample::default(),
            served: Vec::new(),
            changes: Vec::new(),
            ahead: 0,
        }
    }

    /// Time of the device's interrupt without further packets.
    fn interrupt(&self, waiting: &[u64]) -> u64 {
        let s = self.controller.setting();
        let (count, delay) =
            (usize::from(s.packets).saturating_sub(self.ahead).max(1), u64::from(s.delay_ns));
        for (i, at) in waiting.iter().enumerate().take(count - 1) {
            if waiting.get(i + 1).is_none_or(|next| next - at > delay) {
                return at + delay;
            }
        }
        waiting[count - 1]
    }

    /// An interrupt and its poll; how many of these packets it took.
    fn serve(&mut self, waiting: &[u64]) -> usize {
        let at = self.interrupt(waiting).max(self.sample.time_ns);
        let by = |end: u64| waiting.iter().take_while(|came| **came <= end).count();
        let (mut n, mut end) = (by(at), at);
        loop {
            end = end.max(at + POLL_NS + PACKET_NS * n as u64);
            match by(end) {
                more if more > n => n = more,
                _ => break,
            }
        }
        self.ahead = n - by(at);
        self.served.extend(waiting[..n].iter().map(|came| (*came, at)));
        let rx = Flow {
            packets: self.sample.rx.packets + n as u64,
            bytes: self.sample.rx.bytes + 1_514 * n as u64,
        };
        self.sample = Sample { time_ns: end, events: self.sample.events + 1, rx, ..self.sample };
        if let Some(s) = self.controller.sample(&self.sample) {
            self.controller.applied();
            // Another count begins anew.
            self.ahead = 0;
            self.changes.push((self.sample.time_ns, s));
        }
        n
    }

    /// Packets that come whatever happens.
    fn run(&mut self, arrivals: impl Iterator<Item = u64>) {
        let all: Vec<u64> = arrivals.collect();
        let mut rest = &all[..];
        while !rest.is_empty() {
            rest = &rest[self.serve(rest)..];
        }
    }

    fn changes_after(&self, ns: u64) -> usize {
        self.changes.iter().filter(|c| c.0 > ns).count()
    }
    /// The waits of the packets that came after `ns`.
    fn waits_after(&self, ns: u64) -> impl Iterator<Item = (u64, u64)> {
        self.served
            .iter()
            .filter(move |s| s.0 > ns)
            .map(|(came, at)| (*came, at.saturating_sub(*came)))
    }
    fn interrupts_between(&self, from: u64, to: u64) -> usize {
        let mut all: Vec<u64> =
            self.served.iter().map(|s| s.1).filter(|at| (from..to).contains(at)).collect();
        all.dedup();
        all.len()
    }
}

fn even(from: u64, to: u64, gap: u64) -> impl Iterator<Item = u64> {
    (from..to).step_by(gap as usize)
}

/// At random, so many a millisecond in the mean.
fn poisson(seed: u64, from: u64, to: u64, a_ms: f64) -> impl Iterator<Item = u64> {
    let (mut state, mut at) = (seed, from as f64);
    std::iter::from_fn(move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        at -= libm::log(1.0 - unit) * MS as f64 / a_ms;
        Some(at as u64)
    })
    .take_while(move |at| *at < to)
}

/// The seed's "10p/ms": net_dim goes on changing, and ours does not once.
#[test]
fn at_low_load_the_setting_does_not_change_and_net_dims_wanders() {
    for a_ms in [0.5, 2.0, 5.0, 10.0] {
        for seed in 0..5 {
            let arrivals = || poisson(seed, 0, 5_000 * MS, a_ms);
            let mut ours = Queue::new(trains(GIGABIT));
            ours.run(arrivals());
            assert_eq!(
                ours.changes_after(0),
                0,
                "{a_ms} a millisecond, seed {seed}: {:?}",
                ours.changes
            );
            assert!(ours.waits_after(0).all(|w| w.1 <= POLL_NS), "no packet is waited for");
            let mut theirs = Queue::new(dim());
            theirs.run(arrivals());
            assert!(
                theirs.changes_after(1_000 * MS) > 2,
                "net_dim at {a_ms} a millisecond: {:?}",
                theirs.changes
            );
        }
    }
}

/// It settles from above as well: what a load before it left behind is gone, and stays away.
#[test]
fn at_low_load_behind_a_high_one_it_settles_and_stays() {
    for seed in 0..5 {
        let mut q = Queue::new(trains(GIGABIT));
        q.run(even(0, 500 * MS, FULL_NS).chain(poisson(seed, 500 * MS, 5_500 * MS, 10.0)));
        assert_eq!(q.changes_after(503 * MS), 0, "seed {seed}: {:?}", q.changes);
        assert_eq!(q.controller.setting().packets, 1);
    }
}

/// From the 3rd millisecond after a drop on no packet waits, be there ten a millisecond or one in a
/// hundred; but the one that is there when the drop is first seen. net_dim takes 64 interrupts for
/// each step.
#[test]
fn low_latency_is_back_3_ms_after_a_load_drop_whatever_the_interrupt_rate() {
    let drop = 1_000 * MS;
    for gap in [MS / 10, MS / 3, MS, 10 * MS, 100 * MS] {
        let end = drop + 1_000 * MS + 3 * gap;
        let arrivals = || even(0, drop, FULL_NS).chain(even(drop + gap, end, gap));
        let mut ours = Queue::new(trains(GIGABIT));
        ours.run(arrivals());
        assert!(ours.changes.iter().any(|c| c.1.packets == 255), "the load was high");
        let from = (drop + 3 * MS).max(drop + gap);
        let late = ours.waits_after(from).find(|w| w.1 > 0);
        assert_eq!(late, None, "a packet each {gap} ns");
        let mut theirs = Queue::new(dim());
        theirs.run(arrivals());
        let slow = theirs.waits_after(from).filter(|w| w.1 > 0).map(|w| w.0).last();
        let took = slow.map_or(0, |at| at - drop);
        assert!(
            took > 64 * gap || took + 2 * gap > end - drop,
            "net_dim is back after {took} ns, a packet each {gap} ns"
        );
    }
}

/// Bursts of any length, at any speed and MTU: the last packet waits for one packet time and one
/// unit of the timer at the most. The timer is told whole units.
#[test]
fn the_end_of_a_burst_waits_for_one_packet_and_one_unit_at_most() {
    for (mbit_s, mtu) in [
        (1_000, 1_500),
        (1_000, 9_000),
        (100, 1_500),
        (1_000, 576),
        (10_000, 1_500),
        (1_000, 1_551),
    ] {
        let link = Link { mbit_s, mtu };
        let packet = link.packet_ns().unwrap();
        for n in [1, 2, 3, 5, 8, 17, 32, 33, 100, 700] {
            let mut q = Queue::new(trains(link));
            let period = (n + 50) * packet;
            q.run(
                (0..300)
                    .flat_map(|burst| even(burst * period, burst * period + n * packet, packet)),
            );
            for burst in q.served.chunks(n as usize) {
                let (came, at) = burst[burst.len() - 1];
                let waited = at.saturating_sub(came);
                assert!(
                    waited <= packet + u64::from(UNIT_NS),
                    "{n} packets of {mtu} at {mbit_s}: {waited} ns"
                );
            }
            let delays = q.changes.iter().map(|c| c.1.delay_ns);
            assert!(
                delays.clone().all(|d| d % UNIT_NS == 0 && (d == 0 || u64::from(d) >= packet)),
                "whole units"
            );
        }
    }
}

/// Saturated by full frames and by small ones, with time to find out.
#[test]
fn saturation_takes_no_more_interrupts_than_net_dims() {
    for gap in [FULL_NS, 9_000, 5_000] {
        let (from, to) = (2_000 * MS, 3_000 * MS);
        let mut ours = Queue::new(trains(GIGABIT));
        ours.run(even(0, to, gap));
        let mut theirs = Queue::new(dim());
        theirs.run(even(0, to, gap));
        let (a, b) = (ours.interrupts_between(from, to), theirs.interrupts_between(from, to));
        assert!(a <= b, "a packet each {gap} ns: ours {a}, net_dim's {b}");
        if gap == FULL_NS {
            assert!(a.abs_diff(318) <= 1, "one for all that the device counts: {a}");
        }
    }
}

#[test]
fn the_way_to_saturation_takes_1400_interrupts_and_net_dims_256_at_least() {
    let interrupts_until_255 = |changes: &[(u64, Setting)], served: &[(u64, u64)]| {
        let end = changes.iter().find(|c| c.1.packets == 255).unwrap().0;
        let mut all: Vec<u64> = served.iter().map(|s| s.1).filter(|at| *at < end).collect();
        all.dedup();
        all.len()
    };
    let mut ours = Queue::new(trains(GIGABIT));
    ours.run(even(0, 2_000 * MS, FULL_NS));
    let n = interrupts_until_255(&ours.changes, &ours.served);
    assert!((1_300..1_400).contains(&n), "{n}");
    let at = ours.changes.iter().find(|c| c.1.packets == 255).unwrap().0;
    assert!((140 * MS..160 * MS).contains(&at), "{at} ns");
    let mut theirs = Queue::new(dim());
    theirs.run(even(0, 2_000 * MS, FULL_NS));
    assert!(interrupts_until_255(&theirs.changes, &theirs.served) >= 192);
}

/// A sender that has no more than a window under way and waits for acknowledgments, which the end
/// of a poll sends: where the count is above the window, the timer has to end the wait each time.
/// Fixed at 255 that costs a tenth.
#[test]
fn a_window_below_the_count_costs_next_to_no_throughput() {
    // From the end of a poll to the first packet that an acknowledgment allows.
    const ROUND_TRIP_NS: u64 = 50_000;
    fn share<C: Controller>(controller: C, window: usize) -> f64 {
        let mut q = Queue::new(controller);
        let mut waiting: Vec<u64> = (0..window as u64).map(|i| i * FULL_NS).collect();
        while q.sample.time_ns < 2_000 * MS {
            let n = q.serve(&waiting);
            let done = q.sample.time_ns + ROUND_TRIP_NS;
            let mut next = waiting[waiting.len() - 1] + FULL_NS;
            waiting.drain(..n);
            for _ in 0..n {
                next = next.max(done);
                waiting.push(next);
                next += FULL_NS;
            }
        }
        q.served.iter().filter(|s| s.0 > 1_000 * MS).count() as f64 * FULL_NS as f64
            / (q.sample.time_ns - 1_000 * MS) as f64
    }
    for window in [100, 181, 200, 300, 1_000] {
        let ours = share(trains(GIGABIT), window);
        assert!(ours > 0.9, "window {window}: {ours}");
    }
    let fixed = doorbell_moderation::Fixed(Setting::usecs(16, 255, Period::Completion));
    assert!(share(fixed, 181) < 0.8);
}
