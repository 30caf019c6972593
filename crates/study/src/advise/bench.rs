//! The comparison of designs in pairs of runs.
//!
//! Two designs are compared in [`PAIRS`] pairs of runs. Both runs of a pair have the same seed and
//! the same clock, which is faster by a few ten-thousandths from one pair to the next: a load that
//! draws nothing would else be the same run again, and its phases the same chance. What moves both
//! runs of a pair alike is not in their difference. The differences of the pairs give the error.

use super::*;
use crate::memo::Memo;
use std::convert::Infallible;
use std::slice::from_ref;

/// Pairs of runs.
pub(super) const PAIRS: usize = 5;
/// Student's t for 95 %, two-sided, of as many.
const T: f64 = 2.776;
/// The share by which the clock is faster from one pair to the next.
const NUDGE: f64 = 2e-4;
/// The clock of the cores.
const CLOCK: &str = "cpu.frequency";

/// The gain of one design over another, relative.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Gain {
    /// That of the runs as they are.
    pub(super) plain: f64,
    /// The mean of all pairs.
    pub(super) mean: f64,
    /// Half of its 95 % interval; `None` where no run can tell.
    pub(super) error: Option<f64>,
}

impl Gain {
    /// Returns the gain of pairs. Where they are all alike, `error` has its error.
    pub(super) fn of(pairs: &[f64], error: impl FnOnce() -> Option<f64>) -> Option<Gain> {
        let plain = *pairs.first()?;
        let n = pairs.len() as f64;
        let mean = pairs.iter().sum::<f64>() / n;
        let squares: f64 = pairs.iter().map(|p| (p - mean) * (p - mean)).sum();
        let alike = pairs.iter().all(|p| *p == plain);
        let of_pairs = || Some(T * (squares / (n - 1.0) / n).sqrt());
        let error = match alike {
            true if plain == 0.0 && pairs.len() == PAIRS => Some(0.0),
            true => error(),
            false if pairs.len() < PAIRS => error(),
            false => of_pairs(),
        };
        Some(Gain { plain, mean, error: error.filter(|e| e.is_finite()) })
    }

    /// Returns the least gain that is more than its error and worth a change.
    pub(super) fn least(&self) -> f64 {
        self.error.unwrap_or(0.0).max(LEAST)
    }

    /// Returns whether it pays, by the run as it is and by the mean, where so much of an offered
    /// load is lost for it.
    pub(super) fn pays(&self, lost: f64) -> bool {
        self.plain.min(self.mean) >= self.least() + lost
    }
}

/// Runs of designs, each made once.
pub(super) struct Bench<'q> {
    q: &'q Question<'q>,
    /// The fault of today's run. A design with a worse one cannot run.
    today: u8,
    /// By design and pair; `None` for one that cannot run.
    known: Memo<Asked, Option<Arc<Measured>>>,
}

/// A design in a pair.
type Asked = (Design, usize);

/// Returns how bad the outcome of a run is; 0 for a load that came to its end.
fn fault(m: &Measured) -> u8 {
    match m.verdict.outcome() {
        Outcome::Failed => 2,
        Outcome::Overloaded => 1,
        _ => 0,
    }
}

impl<'q> Bench<'q> {
    pub(super) fn new(q: &'q Question<'q>, today: &Measured) -> Bench<'q> {
        Bench { q, today: fault(today), known: Memo::default() }
    }

    /// Returns the values of a design in a pair; pair 0 has them as they are.
    fn values(&self, design: &Design, pair: usize) -> Values {
        let mut values = self.q.of(design);
        for (name, change) in [
            ("run.seed", &(|n| n + pair as f64) as &dyn Fn(f64) -> f64),
            (CLOCK, &|n| n * (1.0 + NUDGE * pair as f64)),
        ] {
            if let (true, Some((key, Value::Number(n)))) = (pair > 0, values.find(name).cloned()) {
                values.put(key, Value::Number(within(key, change(n))));
            }
        }
        values
    }

    fn make(&self, design: &Design, pair: usize) -> Result<Measured, RunError> {
        self.q.run(&self.values(design, pair))
    }

    /// Returns whether a result counts: its load came to its end, or that of today's does not.
    fn ran(&self, m: &Measured) -> bool {
        fault(m) <= self.today
    }

    /// Returns how good a design is. Values that do not go together are the worst.
    pub(super) fn score(&self, design: &Design) -> Score {
        let Ok(m) = self.make(design, 0) else { return Score::NONE };
        let Some(goal) = self.q.goal.of(&m).filter(|_| self.ran(&m)) else { return Score::NONE };
        let missed = self.q.missed(&m);
        let error = m.error(self.q.goal.metric.name).map_or(0.0, |e| e / goal.abs().max(1e-12));
        Score {
            missed,
            goal: if self.q.goal.metric.is_better_high() { -goal } else { goal },
            error,
        }
    }

    /// Makes the runs that are not known, on all cores.
    fn prepare(&self, mut asked: Vec<Asked>) {
        asked.sort();
        asked.dedup();
        let make = |_, (design, pair): &Asked| Ok::<_, Infallible>(self.get(design, *pair));
        let Ok(_) = in_parallel(&asked, make);
    }

    fn get(&self, design: &Design, pair: usize) -> Option<Arc<Measured>> {
        self.known.get((design.clone(), pair), || {
            self.make(design, pair).ok().filter(|m| self.ran(m)).map(Arc::new)
        })
    }

    /// Returns the measurements of a design that the search has run.
    pub(super) fn measured(&self, design: &Design) -> Result<Arc<Measured>, RunError> {
        match self.get(design, 0) {
            Some(m) => Ok(m),
            None => self.make(design, 0).map(Arc::new),
        }
    }

    /// Makes all pairs of these designs.
    fn prepare_pairs(&self, designs: &[Design], pairs: usize) {
        self.prepare(designs.iter().flat_map(|d| (0..pairs).map(|p| (d.clone(), p))).collect());
    }

    /// Returns the goal's numbers of a design in the pairs that are known.
    fn goals(&self, design: &Design, pairs: usize) -> Option<Vec<f64>> {
        (0..pairs).map(|pair| self.q.goal.of(&*self.get(design, pair)?)).collect()
    }

    /// Returns the gain of `to` over `from`, relative to `base`. `None` if one of them cannot run.
    pub(super) fn gain(
        &self,
        base: &Design,
        from: &Design,
        to: &Design,
        pairs: usize,
    ) -> Option<Gain> {
        let of = |d| self.goals(d, pairs);
        let (base, before, after) = (of(base)?, of(from)?, of(to)?);
        let gains = base.iter().zip(before.iter().zip(&after)).map(|(base, (before, after))| {
            let change = if *base == 0.0 { 0.0 } else { (after - before) / base.abs() };
            if self.q.goal.metric.is_better_high() { change } else { -change }
        });
        // A difference relative to a number that is as uncertain as both of them.
        let error = || {
            let own = |d| self.get(d, 0)?.error(self.q.goal.metric.name);
            let error = libm::hypot(own(from)?, own(to)?);
            Some(if error == 0.0 { 0.0 } else { error / base[0].abs() })
        };
        Gain::of(&gains.collect::<Vec<_>>(), error)
    }

    /// Returns the share of an offered load that `to` carries less than `from`, which its bound
    /// allows: half as much work for half of the load is no gain.
    fn lost(&self, from: &Design, to: &Design, pairs: usize) -> f64 {
        if !self.q.keep.iter().any(|k| k.implied) {
            return 0.0;
        }
        let rate = |d, pair| self.get(d, pair).map(|m| m.packets_per_s());
        let lost = (0..pairs).map(|pair| {
            let (from, to) = (rate(from, pair)?, rate(to, pair)?);
            (from > 0.0).then(|| 1.0 - to / from)
        });
        let lost: Option<f64> = lost.sum();
        lost.map_or(0.0, |sum| (sum / pairs as f64).max(0.0))
    }

    /// Returns whether `to` gains enough over `from`. `None` if one of them cannot run.
    fn pays(&self, from: &Design, to: &Design) -> Option<bool> {
        let gain = self.gain(from, from, to, PAIRS)?;
        Some(gain.pays(self.lost(from, to, PAIRS)))
    }

    /// Returns the design with one setting changed.
    fn with(design: &Design, at: usize, value: usize) -> Design {
        let mut design = design.clone();
        design[at] = value;
        design
    }

    /// Returns the settings that are not today's.
    fn changed(design: &Design) -> Vec<usize> {
        (0..design.len()).filter(|at| design[*at] != 0).collect()
    }

    /// Returns the best design without what does not pay: first settings that gain no more than
    /// their error or [`LEAST`] over today's value, then values that gain no more over a nearer
    /// one.
    /// Together they give up [`GIVEN_UP`] at the most. What keeps a bound stays.
    pub(super) fn kept(&self, best: Design, go_on: &mut GoOn<'_>) -> Design {
        let mut now = best.clone();
        for round in 0.. {
            if !go_on("tells gains from noise", round, round + 1) {
                break;
            }
            let Some(back) = self.idle(&now).or_else(|| self.nearer(&best, &now)) else { break };
            now = back;
        }
        now
    }

    /// Returns whether a design misses the bounds by more than another.
    fn misses_more(&self, design: &Design, than: &Design) -> bool {
        let missed = |d| self.get(d, 0).map_or(f64::INFINITY, |m| self.q.missed(&m));
        missed(design) > missed(than)
    }

    /// Returns the design without the setting that gains least, if that does not pay.
    fn idle(&self, now: &Design) -> Option<Design> {
        let without: Vec<Design> =
            Self::changed(now).into_iter().map(|at| Self::with(now, at, 0)).collect();
        self.prepare_pairs(&[&without[..], from_ref(now)].concat(), PAIRS);
        let gain = |d: &Design| Some((self.gain(d, d, now, PAIRS)?, d.clone()));
        let idle = without.iter().filter_map(gain);
        let idle =
            idle.filter(|(_, d)| self.pays(d, now) == Some(false) && !self.misses_more(d, now));
        idle.min_by(|a, b| a.0.mean.total_cmp(&b.0.mean)).map(|(_, d)| d)
    }

    /// Returns the design with one setting nearer to today's, where the farther value does not pay.
    fn nearer(&self, best: &Design, now: &Design) -> Option<Design> {
        for at in Self::changed(now) {
            let v = &self.q.variables[at];
            let far = |value: usize| v.distance(value);
            let mut values: Vec<usize> =
                (1..v.values.len()).filter(|value| far(*value) < far(now[at])).collect();
            values.sort_by(|a, b| far(*a).total_cmp(&far(*b)));
            let designs: Vec<Design> =
                values.into_iter().map(|value| Self::with(now, at, value)).collect();
            // One run tells whether a pair is worth while.
            self.prepare_pairs(&[&designs[..], from_ref(now)].concat(), 1);
            for d in designs {
                let lost = self.gain(&d, &d, now, 1).map_or(f64::INFINITY, |g| g.plain);
                if lost > 2.0 * GIVEN_UP || self.misses_more(&d, now) {
                    continue;
                }
                self.prepare_pairs(&[d.clone(), now.clone(), best.clone()], PAIRS);
                let Some(all) = self.gain(&d, &d, best, PAIRS) else { continue };
                if self.pays(&d, now) == Some(false)
                    && all.mean < GIVEN_UP + all.error.unwrap_or(0.0)
                {
                    return Some(d);
                }
            }
        }
        None
    }

    /// Returns the settings of a design with their gains, and the error of the gain of all.
    pub(super) fn settings(
        &self,
        best: &Design,
        go_on: &mut GoOn<'_>,
    ) -> (Vec<Setting>, Option<f64>) {
        let today = self.q.today();
        let changed = Self::changed(best);
        let pairs = if go_on("adds gains up", 0, changed.len()) { PAIRS } else { 1 };
        let alone: Vec<Design> = changed.iter().map(|at| Self::with(best, *at, 0)).collect();
        self.prepare_pairs(&[&alone[..], &[today.clone(), best.clone()]].concat(), pairs);
        let (mut settings, mut left) = (Vec::new(), changed);
        // The last design that could run, and the one that all settings so far make.
        let (mut last, mut sofar) = (today.clone(), today.clone());
        while !left.is_empty() {
            go_on("adds gains up", settings.len(), settings.len() + left.len());
            let next: Vec<Design> =
                left.iter().map(|at| Self::with(&sofar, *at, best[*at])).collect();
            self.prepare_pairs(&next, 1);
            let gains = next.iter().map(|d| self.gain(&today, &last, d, 1).map(|g| g.plain));
            let gains: Vec<f64> = gains.map(|g| g.unwrap_or(f64::NEG_INFINITY)).collect();
            let most = (0..left.len()).max_by(|a, b| gains[*a].total_cmp(&gains[*b])).unwrap_or(0);
            let (at, design) = (left.remove(most), next[most].clone());
            self.prepare_pairs(from_ref(&design), pairs);
            let gain = self.gain(&today, &last, &design, pairs);
            settings.push(self.setting(at, best, gain, pairs));
            if gain.is_some() {
                last = design.clone();
            }
            sofar = design;
        }
        let all = self.gain(&today, &today, best, pairs);
        (settings, all.and_then(|g| g.error).map(rounded))
    }

    fn setting(&self, at: usize, best: &Design, gain: Option<Gain>, pairs: usize) -> Setting {
        let v = &self.q.variables[at];
        let (from, to) = (&v.values[0], &v.values[best[at]]);
        let without = Self::with(best, at, 0);
        let lost = self.gain(best, best, &without, pairs);
        let costs = self.get(&without, 0).zip(self.get(best, 0));
        let costs = costs.map(|(a, b)| worse(self.q.system, &a, &b, self.q.goal.metric.name));
        Setting {
            key: v.key.name,
            from: v.key.said(from),
            to: v.key.said(to),
            command: v.command(to),
            gain: gain.map(|g| rounded(g.plain)),
            error: gain.and_then(|g| g.error).map(rounded),
            without: lost.map(|g| rounded(g.plain)),
            without_error: lost.and_then(|g| g.error).map(rounded),
            costs: costs.unwrap_or_default(),
            at,
        }
    }

    /// Returns the worth of each setting, and the switches among them.
    pub(super) fn worth(&self, best: &Design, settings: &[Setting]) -> (Vec<Worth>, Vec<Switch>) {
        let variables = self.q.variables.iter().enumerate();
        let all = variables.clone().flat_map(|(at, v)| (0..v.values.len()).map(move |i| (at, i)));
        self.prepare(all.map(|(at, i)| (Self::with(best, at, i), 0)).collect());
        let kept = |k: &&Keep| self.get(best, 0).is_some_and(|m| k.missed(&m) == 0.0);
        let kept: Vec<&Keep> = self.q.keep.iter().filter(kept).collect();
        let (mut worth, mut switches) = (Vec::new(), Vec::new());
        for (at, v) in variables {
            let said = |value: usize| v.key.said(&v.values[value]);
            let other = |value: usize| {
                let design = Self::with(best, at, value);
                let gain = self.gain(best, best, &design, 1).map(|g| rounded(g.plain));
                let m = self.get(&design, 0);
                let broken = kept.iter().filter(|k| m.as_ref().is_some_and(|m| k.missed(m) > 0.0));
                let breaks = broken.map(|k| k.text.clone()).collect();
                OtherValue { value: said(value), gain, breaks }
            };
            let others: Vec<(usize, OtherValue)> = (0..v.values.len())
                .filter(|value| *value != best[at])
                .map(|value| (value, other(value)))
                .collect();
            let next = others.iter().max_by(|(_, a), (_, b)| {
                let rank = |o: &OtherValue| (o.breaks.is_empty(), o.gain.unwrap_or(f64::MIN));
                let (a, b) = (rank(a), rank(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
            let other = match next {
                _ if best[at] != 0 => Some(0),
                Some((value, _)) if v.key.kind == Kind::Choice => Some(*value),
                _ => None,
            };
            let error = settings.iter().find(|s| s.at == at).and_then(|s| s.without_error);
            switches.extend(other.map(|other| Switch {
                key: v.key.name,
                from: said(other),
                to: said(best[at]),
                at,
                other,
                least: error.unwrap_or(0.0).max(LEAST),
            }));
            worth.push(Worth {
                key: v.key.name,
                value: said(best[at]),
                others: others.into_iter().map(|(_, other)| other).collect(),
            });
        }
        (worth, switches)
    }
}
