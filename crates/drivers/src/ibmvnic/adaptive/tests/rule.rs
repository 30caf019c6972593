//! The rule of the module's opening, restated as one script that takes packets, and traffic on
//! which the controller must do the same.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Costs of a packet in an array and of one that goes directly.
type Costs = [u64; 2];

/// One packet of the traffic.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bytes to be summed, if it could go directly.
    summed: Option<u32>,
    under_way: u64,
    /// Until the next, in ps.
    time: Costs,
    /// In the driver's transmit, in ps.
    cpu: Costs,
    /// By which this core's clock is behind.
    skew: u64,
}

/// Packets of some sizes in turn.
#[derive(Clone, Debug)]
struct Stretch {
    packets: u64,
    sizes: Vec<u32>,
    /// One packet in 64 or in 32 has this size.
    rare: (u64, u32),
    /// One packet in so many cannot go directly.
    aside: u64,
    under_way: u64,
    time: Costs,
    cpu: Costs,
    /// A direct call costs so much for each byte, in ps.
    byte: u64,
    skew: u64,
}

impl Stretch {
    fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        (0..self.packets).map(|i| {
            let turn = self.sizes[(i % self.sizes.len() as u64) as usize];
            let size = if i % self.rare.0 == 7 { self.rare.1 } else { turn };
            let direct = self.byte * u64::from(size);
            Sample {
                summed: (i % self.aside != self.aside - 1).then_some(size),
                under_way: self.under_way + i % 5,
                time: [self.time[0], self.time[1] + direct],
                cpu: [self.cpu[0], self.cpu[1] + direct],
                skew: self.skew * (i % 2),
            }
        })
    }
}

/// Decisions by packet, trials, moves, and the most bytes that go directly.
#[derive(Debug, PartialEq)]
struct Course {
    direct: Vec<Option<bool>>,
    trials: u64,
    moves: u64,
    break_even: Option<u32>,
}

/// Totals of one side of a trial.
#[derive(Clone, Copy, Default)]
struct Side {
    packets: u64,
    time: u64,
    cpu: u64,
}

impl Side {
    /// Returns two costs per packet, in millionths of a picosecond.
    fn each(self) -> (u128, u128) {
        let each = |ps: u64| u128::from(ps) * 1_000_000 / u128::from(self.packets);
        (each(self.time), each(self.cpu))
    }
}

struct Script<'a> {
    traffic: core::slice::Iter<'a, Sample>,
    width: u32,
    /// The classes of packets that could go directly, from the first.
    classes: Vec<usize>,
    /// Begins of the last period of 4096 of these and of the one before it.
    periods: [usize; 2],
    clock: u64,
    now: u64,
    rung: usize,
    pause: u64,
    course: Course,
}

impl<'a> Script<'a> {
    fn run(traffic: &'a [Sample], longest: u32) -> Course {
        let course = Course { direct: Vec::new(), trials: 0, moves: 0, break_even: None };
        let mut s = Script {
            traffic: traffic.iter(),
            width: longest.div_ceil(16).max(1),
            classes: Vec::new(),
            periods: [0; 2],
            clock: 0,
            now: 0,
            rung: 17,
            pause: 8192,
            course,
        };
        let ended = s.script();
        assert!(ended.is_none(), "only the traffic ends it");
        s.course.break_even = (s.rung > 0).then(|| (s.rung as u32 - 1) * s.width);
        s.course
    }

    /// Never returns `Some`; `None` when there is no more traffic.
    fn script(&mut self) -> Option<()> {
        let (mut up, mut lost) = (false, 0);
        let mut under_way = self.wait(384)?;
        loop {
            let won = match self.neighbour(up) {
                None => false,
                Some(other) => {
                    self.course.trials += 1;
                    let (won, last) = self.trial(other)?;
                    under_way = last;
                    if won {
                        self.rung = other;
                        self.course.moves += 1;
                    }
                    won
                }
            };
            if won {
                (lost, self.pause) = (0, 8192);
            } else {
                (lost, up) = (lost + 1, !up);
            }
            let mut rest = 2 * under_way + 1;
            if lost == 2 {
                (lost, rest) = (0, self.pause);
                self.pause = (4 * rest).min(1 << 20);
            }
            under_way = self.wait(rest)?;
        }
    }

    /// Looks at a period that is over. Returns whether more than a quarter of its packets are in
    /// other classes than those of the period before.
    fn has_changed(&mut self) -> bool {
        let [last, before] = self.periods;
        if self.classes.len() - last < 4096 {
            return false;
        }
        let count = |of: &[usize], c: usize| of.iter().filter(|x| **x == c).count();
        let (new, old) = (&self.classes[last..], &self.classes[before..last]);
        let gone = |c: usize| count(old, c).saturating_sub(count(new, c));
        let moved: usize = (0..CLASSES).map(gone).sum();
        let changed = moved * 4 > new.len();
        self.periods = [self.classes.len(), last];
        if changed {
            self.pause = 8192;
        }
        changed
    }

    /// Takes the next packet while classes below `bound` go directly. Returns it with its costs.
    fn packet(&mut self, bound: usize) -> Option<(u64, u64)> {
        let p = self.traffic.next()?;
        let direct = p.summed.map(|n| {
            let class = n.div_ceil(self.width).min(16) as usize;
            self.classes.push(class);
            class < bound
        });
        self.course.direct.push(direct);
        let way = usize::from(direct == Some(true));
        self.now = self.now.max(self.clock - p.skew + p.cpu[way]);
        self.clock += p.time[way];
        Some((p.under_way, p.cpu[way]))
    }

    /// Waits for some packets, fewer if the traffic changes. Returns how many are under way then.
    fn wait(&mut self, mut left: u64) -> Option<u64> {
        loop {
            if self.has_changed() {
                left = left.min(384);
            }
            let (under_way, _) = self.packet(self.rung)?;
            left -= 1;
            if left == 0 {
                return Some(under_way);
            }
        }
    }

    /// Returns the next bound that has packets between it and the one in force.
    fn neighbour(&self, up: bool) -> Option<usize> {
        let known = &self.classes[self.periods[1]..];
        let least = (known.len() / 50).max(1);
        let common = |c: &usize| known.iter().filter(|x| *x == c).count() >= least;
        if up {
            (self.rung..CLASSES).find(common).map(|c| c + 1)
        } else {
            (0..self.rung).rfind(common)
        }
    }

    /// Measures both bounds twice, or once if they are more than a tenth apart. Returns whether the
    /// other one is cheaper, and the packets under way at the end.
    fn trial(&mut self, other: usize) -> Option<(bool, u64)> {
        let mut sides = [Side::default(); 2];
        let mut under_way = 0;
        for epoch in 0..4 {
            let bound = if epoch % 2 == 0 { self.rung } else { other };
            let settle = if epoch == 0 { 1 } else { 2 * under_way + 64 };
            for _ in 0..settle {
                self.has_changed();
                under_way = self.packet(bound)?.0;
            }
            let (began, length) = (self.now, (4 * under_way).max(384));
            let side = &mut sides[epoch % 2];
            side.packets += length;
            for _ in 0..length {
                self.has_changed();
                let (after, cpu) = self.packet(bound)?;
                under_way = after;
                sides[epoch % 2].cpu += cpu;
            }
            sides[epoch % 2].time += self.now - began;
            let [(a, _), (b, _)] = sides.map(|s| if s.packets > 0 { s.each() } else { (0, 0) });
            if epoch == 1 && a.abs_diff(b) * 10 > a {
                break;
            }
        }
        let [(time, cpu), (other_time, other_cpu)] = sides.map(Side::each);
        let apart = time.abs_diff(other_time) * 250 > time;
        Some((if apart { other_time < time } else { other_cpu < cpu }, under_way))
    }
}

/// The controller's course on the same traffic.
fn course(traffic: &[Sample], longest: u32) -> Course {
    let mut a = AdaptiveDirect::new(longest);
    let mut clock = 0;
    let direct = traffic
        .iter()
        .map(|p| {
            let direct = p.summed.map(|n| a.goes_directly(n));
            let way = usize::from(direct == Some(true));
            let began = Time::from_ps(clock - p.skew);
            a.packet(began, began + Span::from_ps(p.cpu[way]), p.under_way);
            clock += p.time[way];
            direct
        })
        .collect();
    Course { direct, trials: a.trials, moves: a.moves, break_even: a.break_even() }
}

fn compare(stretches: &[Stretch], longest: u32) -> Course {
    let traffic: Vec<Sample> = stretches.iter().flat_map(Stretch::samples).collect();
    let (found, expected) = (course(&traffic, longest), Script::run(&traffic, longest));
    let first = (0..traffic.len()).find(|i| found.direct[*i] != expected.direct[*i]);
    assert_eq!(first, None, "the first packet that goes another way");
    assert_eq!(found, expected);
    found
}

const ONE_SIZE: Stretch = Stretch {
    packets: 40_000,
    sizes: Vec::new(),
    rare: (64, 1000),
    aside: u64::MAX,
    under_way: 8,
    time: [1_000_000; 2],
    cpu: [500_000; 2],
    byte: 0,
    skew: 0,
};

/// Costs of packets that are equal, on the limits of four thousandths and of a tenth, just beyond
/// them, and far apart.
const COSTS: [u64; 10] = [
    1_000_000, 1_004_000, 996_000, 1_004_004, 1_100_000, 1_100_200, 900_000, 899_800, 500_000,
    2_000_000,
];

fn stretch() -> impl Strategy<Value = Stretch> {
    let cost = prop::sample::select(&COSTS[..]);
    let costs = (cost.clone(), cost).prop_map(|(a, b)| [a, b]);
    let sizes = prop::collection::vec(0u32..9500, 1..6);
    let rare = (prop::sample::select(vec![32u64, 64]), 0u32..9500);
    let cpu = prop::sample::select(vec![[500_000u64; 2], [500_000, 400_000], [500_000, 600_000]]);
    let byte = prop::sample::select(vec![0u64, 0, 100]);
    let aside = prop::sample::select(vec![11u64, u64::MAX]);
    (2_000u64..24_000, sizes, rare, aside, 0u64..160, costs, cpu, byte, 0u64..2).prop_map(
        |(packets, sizes, rare, aside, under_way, time, cpu, byte, skew)| Stretch {
            packets,
            sizes,
            rare,
            aside,
            under_way,
            time,
            cpu,
            byte,
            skew: skew * 300_000,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_controller_follows_its_rule(
        stretches in prop::collection::vec(stretch(), 1..6),
        longest in prop::sample::select(vec![1514u32, 9014, 9000, 1]),
    ) {
        // The clock of a core that is behind begins above zero.
        let first = Stretch { packets: 10, sizes: vec![60], ..ONE_SIZE };
        let all: Vec<Stretch> = [first].into_iter().chain(stretches).collect();
        compare(&all, longest);
    }
}

#[test]
fn each_pair_of_costs_on_a_limit_is_decided_by_the_rule() {
    for (array, direct) in COSTS.into_iter().flat_map(|a| COSTS.map(|b| (a, b))) {
        for cpu in [[500_000, 400_000], [500_000, 600_000]] {
            let time = [array, direct];
            compare(&[Stretch { packets: 9_000, sizes: vec![1000], time, cpu, ..ONE_SIZE }], 9014);
        }
    }
}

#[test]
fn bounds_of_equal_cost_are_not_changed() {
    let found = compare(&[Stretch { sizes: vec![1000], ..ONE_SIZE }], 9014);
    assert!(found.trials > 0);
    assert_eq!((found.moves, found.break_even), (0, Some(16 * 564)));
}

#[test]
fn a_quarter_of_the_packets_in_another_class_is_no_change() {
    // Periods of 4096 that could go directly, of which 1023, 1024 or 1025 change their class.
    for moved in 1023..=1025u32 {
        let sample = |size| Sample {
            summed: Some(size),
            under_way: 8,
            time: [1_000_000, 2_000_000],
            cpu: [500_000; 2],
            skew: 0,
        };
        let (old, new) = (sample(8000), sample(1000));
        // Long enough for a pause that is not over when the traffic changes.
        let mut traffic = vec![old; 12 * 4096];
        traffic.extend((0..4096).map(|i| if i < moved { new } else { old }));
        traffic.extend(vec![old; 4 * 4096]);
        let (found, expected) = (course(&traffic, 9014), Script::run(&traffic, 9014));
        assert_eq!(found, expected, "{moved}");
        let without = course(&vec![old; traffic.len()], 9014);
        assert_eq!(found.trials > without.trials, moved == 1025, "{moved} of 4096");
    }
}
