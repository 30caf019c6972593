//! A ranking: one choice of settings against others.
//!
//! The first side is ranked. A side *dominates* another in a run (Pareto) when it is better in
//! every number that counts, each by more than the noise: higher where the number is declared so,
//! as packets a second are, else lower. Of single runs the difference must also exceed its error,
//! so runs too short for an error dominate none. With seeds each scenario runs once per seed, all
//! sides with the same arrivals, and the result is the share of runs with a dominated side. A load
//! in which a side does not meet the condition is left out, for all sides. A series is a number
//! over time, side by side.

use crate::axis::plain;
use crate::origin;
use crate::point::SEED;
use crate::runs::{Caller, each};
use crate::shown::{Estimate, Shown, units};
use doorbell_spec::InputError;
use doorbell_systems::metrics::{Kind, LOST_SHARE};
use doorbell_systems::result::{Measured, Numbers, Provenance, rounded};
use doorbell_systems::{Plan, Registry, Setting, cores};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A choice of settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its name, or the settings.
    pub name: String,
    /// The settings, each `key=value`.
    pub set: Vec<String>,
}

impl Side {
    /// Parses `NAME: key=value,…`, or settings without a name; or `NAME: {…}`, an object of JSON
    /// whose values are taken as they are.
    pub fn parse(text: &str) -> Result<Side, InputError> {
        // A colon ends a name unless a setting precedes it: then it is part of a time span.
        let is_name = |name: &str| !name.contains('=') && !name.trim_start().starts_with('{');
        let named = text.split_once(':').filter(|(name, _)| is_name(name));
        let (name, sets) = named.unwrap_or((text, text));
        let set: Vec<String> = match serde_json::from_str::<IndexMap<String, Value>>(sets) {
            Ok(object) => {
                let set = |(key, v)| Some(format!("{key}={}", plain(v)?));
                object.iter().map(set).collect::<Option<_>>().unwrap_or_default()
            }
            Err(_) => sets.split(',').map(|s| s.trim().to_owned()).collect(),
        };
        if set.is_empty() || set.iter().any(|s| !s.contains('=')) {
            let what = "expected key=value,… or a name before them, such as \
                        fixed: driver.controller=fixed";
            return Err(InputError::new(format!("--side {text}"), what));
        }
        Ok(Side { name: name.trim().to_owned(), set })
    }

    /// Returns whether it sets this key.
    fn has(&self, key: &str) -> bool {
        self.set.iter().any(|set| set.split_once('=').is_some_and(|(k, _)| k.trim() == key))
    }
}

/// A condition on a number of a run.
#[derive(Clone, Debug)]
pub struct Where {
    text: String,
    name: String,
    is: fn(f64, f64) -> bool,
    bound: f64,
}

impl Where {
    /// Parses `NAME=VALUE`, `NAME<BOUND` or `NAME>BOUND`.
    pub fn parse(text: &str) -> Result<Where, InputError> {
        let wrong = || {
            let what = "expected NAME=VALUE, NAME<BOUND or NAME>BOUND, such as lost_share=0";
            InputError::new(format!("--where {text}"), what)
        };
        let at = text.find(['=', '<', '>']).ok_or_else(wrong)?;
        let is: fn(f64, f64) -> bool = match &text[at..=at] {
            "=" => |a, b| a == b,
            "<" => |a, b| a < b,
            _ => |a, b| a > b,
        };
        let bound = text[at + 1..].trim().parse().map_err(|_| wrong())?;
        Ok(Where { text: text.to_owned(), name: text[..at].trim().to_owned(), is, bound })
    }

    /// Returns whether a run meets it. One without the number does not.
    fn holds(&self, numbers: &Numbers) -> bool {
        numbers.get(&self.name).is_some_and(|n| (self.is)(n.value, self.bound))
    }
}

/// Parses `FIRST-LAST`, or one seed.
pub fn seeds(text: &str) -> Result<Vec<u64>, InputError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(a), Ok(b)) if a <= b && b - a < 1_000_000 => Ok((a..=b).collect()),
        _ => {
            let what = "expected FIRST-LAST such as 1-1000, at most a million";
            Err(InputError::new(format!("--seeds {text}"), what))
        }
    }
}

/// The scenarios and sides of a ranking.
#[derive(Clone, Debug)]
pub struct Contest<'a> {
    /// The scenarios.
    pub scenarios: &'a [String],
    /// The sides, at least one.
    pub sides: Vec<Side>,
    /// The seeds of each scenario, if any are given.
    pub seeds: Option<Vec<u64>>,
    /// The condition that all sides have to meet.
    pub filter: Option<Where>,
    /// The difference up to which two numbers are equal, in percent.
    pub noise: f64,
    /// The numbers that count.
    pub by: &'a [String],
    /// Numbers that are shown beside them.
    pub show: &'a [String],
    /// The number over time that is asked for instead, and the points of a mean of it.
    pub series: Option<(&'a str, usize)>,
}

impl Ranked {
    /// Returns the contest that had this result, of these `scenarios`. It is shown what was shown,
    /// as far as the result tells.
    pub fn contest<'a>(
        &'a self,
        scenarios: &'a [String],
        show: &'a [String],
    ) -> Result<Contest<'a>, InputError> {
        Ok(Contest {
            scenarios,
            sides: self.sides.clone(),
            seeds: self.seeds.map(|(first, last)| (first..=last).collect()),
            filter: self.filter.as_deref().map(Where::parse).transpose()?,
            noise: self.noise_percent,
            by: &self.by,
            show,
            series: match &self.found {
                Found::Series { series, every, .. } => Some((series, *every)),
                _ => None,
            },
        })
    }

    /// Returns the names of the numbers that were shown beside those that count.
    pub fn shown(&self) -> Vec<String> {
        let names: Vec<&String> = match &self.found {
            Found::Numbers { rows } => rows.iter().take(1).flat_map(|r| r.values.keys()).collect(),
            // Those without a unit are in no member.
            _ => self.units.keys().collect(),
        };
        names.into_iter().filter(|name| !self.by.contains(name)).cloned().collect()
    }

    /// Makes the plan of a scenario again, with the settings of a side and a seed. `place` is the
    /// file of the result.
    pub fn plan(
        &self,
        registry: &Registry,
        place: &str,
        scenario: &str,
        sets: &[Setting],
    ) -> Result<Plan, InputError> {
        let wrong = |what: String| InputError::new(place, what);
        let of = self.of.iter().find(|of| of.scenario == scenario);
        let of = of.ok_or_else(|| wrong(format!("it has no origin of {scenario}")))?;
        let mut plan = registry.again(place, of)?;
        plan.lay(sets)?;
        let is_set = |key: &str| sets.iter().any(|s| s.text.split('=').next() == Some(key));
        let lacks = |key: &&str| !of.settings.contains_key(*key) && !is_set(key);
        let keys = self.sides.iter().flat_map(|side| &side.set);
        match keys.filter_map(|set| Some(set.split_once('=')?.0.trim())).find(lacks) {
            Some(key) => Err(wrong(format!("its origin does not have `{key}` of all sides"))),
            None => Ok(plan),
        }
    }
}

/// A scenario with a seed, if any is given.
type Load<'a> = (&'a str, Option<u64>);

/// Numbers of one run; a missing one is none.
struct Sample {
    /// The numbers that count, then those that are shown beside them.
    numbers: Vec<Option<Estimate>>,
    series: Points,
    sound: bool,
    /// It meets the condition.
    kept: bool,
    /// It lost frames for want of room in the device.
    lossy: bool,
}

impl<'a> Contest<'a> {
    /// Returns the loads: scenario by scenario, seed by seed.
    fn loads(&self) -> impl Iterator<Item = Load<'a>> {
        let seeds = self.seeds.iter().flatten().copied().map(Some);
        let seeds = if self.seeds.is_none() { vec![None] } else { seeds.collect() };
        let each = move |scenario: &'a String| {
            seeds.clone().into_iter().map(move |seed| (scenario.as_str(), seed))
        };
        self.scenarios.iter().flat_map(each)
    }

    /// Makes the plans of all sides in the first load, then in the next, by scenario and settings.
    pub fn plans<E>(
        &self,
        mut plan: impl FnMut(&str, &[Setting]) -> Result<Plan, E>,
    ) -> Result<Vec<Plan>, E> {
        let mut plans = Vec::new();
        for (scenario, seed) in self.loads() {
            let seed = seed.map(|n| Setting::at(format!("--seeds {n}"), format!("run.seed={n}")));
            for side in &self.sides {
                let sets = side.set.iter().map(|s| Setting::given("--side", s));
                plans.push(plan(scenario, &sets.chain(seed.clone()).collect::<Vec<_>>())?);
            }
        }
        Ok(plans)
    }

    /// Returns the numbers that count, and those beside them. Refuses a plan whose runs do not have
    /// one of them, or not that of the condition.
    pub fn shown(&self, plans: &[Plan]) -> Result<Vec<Shown<'a>>, InputError> {
        let by = self.by.iter().map(|text| ("--by", text));
        let all = by.chain(self.show.iter().map(|text| ("--show", text)));
        let all = all.map(|(option, text)| Shown::parse(option, text, plans[0].system));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        for plan in plans {
            all.iter().try_for_each(|s| s.known(plan.system))?;
            let found = self.filter.as_ref().map(|f| plan.system.find_metric(&f.name));
            found.transpose().map_err(|e| InputError::new("--where", e))?;
        }
        Ok(all)
    }

    /// Runs all plans, and compares the sides. The condition has to leave a load.
    pub fn rank<C: Caller>(
        &self,
        caller: &C,
        plans: &[Plan],
        shown: &[Shown<'_>],
    ) -> Result<Ranked, C::Error> {
        let sample = |_: &Plan, m: Measured| Ok(self.sample(shown, &m)?);
        let mut samples = each(caller, (cores(), 0), plans, |plan| plan, sample)?.into_iter();
        let run = |load| (load, samples.by_ref().take(self.sides.len()).collect());
        let mut runs: Vec<(Load<'_>, Vec<Sample>)> = self.loads().map(run).collect();
        let (loads, any) = (runs.len(), |is: fn(&Sample) -> bool| {
            runs.iter().filter(|(_, run)| run.iter().any(is)).count()
        });
        let (lose_frames, is_sound) = (any(|s| s.lossy), any(|s| !s.sound) == 0);
        runs.retain(|(_, run)| run.iter().all(|s| s.kept));
        if let (Some(Where { text, .. }), true) = (&self.filter, runs.is_empty()) {
            let what = format!("in each of the {loads} loads a side does not meet it");
            return Err(InputError::new(format!("--where {text}"), what).into());
        }
        let firsts = plans.chunks(plans.len() / self.scenarios.len());
        let origin = |plans: &[Plan]| {
            let sides = plans.iter().take(self.sides.len());
            Ok(self.origin(
                &sides.map(|p| origin::of(p, None)).collect::<Vec<_>>(),
                caller.sha256(&plans[0])?,
            ))
        };
        let found = match (self.series, &self.seeds) {
            (Some(series), _) => self.over_time(series, &runs)?,
            (None, Some(_)) => self.shares(shown, &runs),
            (None, None) => {
                let rows = runs.iter().flat_map(|(load, run)| self.rows(load.0, shown, run));
                Found::Numbers { rows: rows.collect() }
            }
        };
        Ok(Ranked {
            of: firsts.map(origin).collect::<Result<_, C::Error>>()?,
            sides: self.sides.clone(),
            by: self.by.to_vec(),
            units: units(shown),
            noise_percent: self.noise,
            seeds: self.seeds.as_ref().map(|s| (s[0], s[s.len() - 1])),
            filter: self.filter.as_ref().map(|f| f.text.clone()),
            loads,
            lose_frames,
            found,
            left: runs.len(),
            is_sound,
        })
    }

    /// Returns the origin of the runs of a scenario, whose `sides` have these. A key that some
    /// sides set has the value of those that do not, and is left out if all set it.
    fn origin(&self, sides: &[Provenance], capture_sha256: Option<String>) -> Provenance {
        let seeded = |key: &str| self.seeds.is_some() && key == SEED;
        let value = |key: &str| {
            let at = self.sides.iter().position(|side| !side.has(key) && !seeded(key))?;
            Some((key.to_owned(), sides[at].settings[key].clone()))
        };
        let differs = |key: &str| seeded(key) || self.sides.iter().any(|side| side.has(key));
        let settings = sides[0].settings.keys().filter_map(|key| value(key)).collect();
        let of = origin::without(sides[0].clone(), differs);
        Provenance { settings, capture_sha256, ..of }
    }

    fn sample(&self, shown: &[Shown<'_>], m: &Measured) -> Result<Sample, InputError> {
        let numbers = m.numbers();
        // A load without transactions has no latency; any other unknown name is a mistake.
        let is_absent =
            |s: &Shown<'_>| s.sum.kind() == Some(Kind::Latency) && m.latency.count() == 0;
        let of = |s: &Shown<'_>| (!is_absent(s)).then(|| s.of(&numbers)).transpose();
        let found = shown.iter().map(of).collect::<Result<_, _>>()?;
        let series = self.series.map(|(name, _)| {
            let found = m.series.iter().find(|s| s.name == name).map(|s| s.points.clone());
            found.ok_or_else(|| {
                let all: Vec<&str> = m.series.iter().map(|s| s.name).collect();
                let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                let what = format!("no series of the run has this name; it has {all}");
                InputError::new(format!("--series {name}"), what)
            })
        });
        Ok(Sample {
            numbers: found,
            series: series.transpose()?.unwrap_or_default(),
            sound: m.is_sound(),
            kept: self.filter.as_ref().is_none_or(|f| f.holds(&numbers)),
            lossy: numbers.get(LOST_SHARE.name).is_some_and(|n| n.value > 0.0),
        })
    }

    /// Returns true if `a` is better in all numbers that count, each by more than the noise, and
    /// without seeds by more than the error of the difference.
    fn dominates(&self, shown: &[Shown<'_>], a: &Sample, b: &Sample) -> bool {
        let single = self.seeds.is_none();
        let better = |(of, both): (&Shown<'_>, (&Option<Estimate>, &Option<Estimate>))| {
            let (Some((a, of_a)), Some((b, of_b))) = both else { return false };
            let both = of_a.zip(*of_b).map(|(a, b)| libm::hypot(a, b));
            let error = if single { both } else { Some(0.0) };
            let (good, bad) = if of.sum.is_better_high() { (b, a) } else { (a, b) };
            let beyond = good * (1.0 + self.noise / 100.0) < *bad;
            error.is_some_and(|e| bad - good > e) && beyond
        };
        let both = a.numbers.iter().zip(&b.numbers);
        shown.iter().zip(both).take(self.by.len()).all(better)
    }

    /// Returns a row for each side.
    fn rows(&self, scenario: &str, shown: &[Shown<'_>], run: &[Sample]) -> Vec<Row> {
        let row = |(side, s): (&Side, &Sample)| {
            let named = |of: &dyn Fn(&Estimate) -> Option<f64>| {
                let all = shown.iter().zip(&s.numbers);
                all.map(|(what, n)| (what.text.to_owned(), n.as_ref().and_then(of))).collect()
            };
            let against = match () {
                () if self.dominates(shown, s, &run[0]) => "dominates",
                () if self.dominates(shown, &run[0], s) => "dominated",
                () => "",
            };
            Row {
                scenario: scenario.to_owned(),
                side: side.name.clone(),
                values: named(&|n| Some(n.0)),
                errors: named(&|n| n.1.map(rounded)),
                against_first: against.to_owned(),
            }
        };
        self.sides.iter().zip(run).map(row).collect()
    }

    /// Returns the shares of runs in which a side dominates the first, and the reverse.
    fn shares(&self, shown: &[Shown<'_>], runs: &[(Load<'_>, Vec<Sample>)]) -> Found {
        let others = || 1..self.sides.len();
        let lost = |run: &[Sample], i: usize| self.dominates(shown, &run[i], &run[0]);
        let won = |run: &[Sample], i: usize| self.dominates(shown, &run[0], &run[i]);
        let count = |is: &dyn Fn(&[Sample]) -> bool| runs.iter().filter(|r| is(&r.1)).count();
        let label = |(scenario, seed): &Load<'_>| {
            let seed = seed.map_or_else(String::new, |s| s.to_string());
            if self.scenarios.len() == 1 { seed } else { format!("{scenario} {seed}") }
        };
        let dominated = runs.iter().filter(|(_, run)| others().any(|i| lost(run, i)));
        // The median quotient of the runs that have both numbers.
        let median = |i: usize, k: usize| {
            let value = |s: &Sample| s.numbers[k].map(|n| n.0);
            let quotients = runs.iter().filter_map(|(_, r)| Some(value(&r[0])? / value(&r[i])?));
            let mut all: Vec<f64> = quotients.filter(|q| q.is_finite()).collect();
            all.sort_by(f64::total_cmp);
            let middle = all.get(all.len().saturating_sub(1) / 2).zip(all.get(all.len() / 2));
            middle.map(|(low, high)| rounded((low + high) / 2.0))
        };
        let by = || self.by.iter().enumerate();
        let rows = others().map(|i| Rival {
            side: self.sides[i].name.clone(),
            dominates_first: count(&|r| lost(r, i)),
            dominated_by_first: count(&|r| won(r, i)),
            medians: by().map(|(k, n)| (n.clone(), median(i, k))).collect(),
        });
        Found::Shares {
            ranked: self.sides[0].name.clone(),
            runs: runs.len(),
            dominated: dominated.map(|(load, _)| label(load)).collect(),
            dominating: count(&|r| others().any(|i| won(r, i))),
            rows: rows.collect(),
        }
    }

    /// Returns the series of each side, each point the mean of several.
    fn over_time(
        &self,
        (name, every): (&str, usize),
        runs: &[(Load<'_>, Vec<Sample>)],
    ) -> Result<Found, InputError> {
        let [((_, None), run)] = runs else {
            return Err(InputError::new("--series", "one scenario, and no --seeds"));
        };
        let mean = |c: &[(f64, f64)]| {
            (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)
        };
        let thin = |s: &Sample| s.series.chunks(every.max(1)).map(mean).collect();
        let points = self.sides.iter().map(|s| s.name.clone()).zip(run.iter().map(thin));
        Ok(Found::Series { series: name.to_owned(), every, points: points.collect() })
    }
}

/// Pairs of ms and value.
pub type Points = Vec<(f64, f64)>;

/// A ranking: rows, shares of runs, or a number over time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ranked {
    /// The origin of each scenario's runs, without the keys that the sides differ in.
    pub of: Vec<Provenance>,
    /// The sides.
    pub sides: Vec<Side>,
    /// The numbers that count.
    pub by: Vec<String>,
    /// The units of those numbers that have one.
    pub units: IndexMap<String, String>,
    /// The difference up to which two numbers are equal, in percent.
    pub noise_percent: f64,
    /// The first seed and the last.
    pub seeds: Option<(u64, u64)>,
    /// The condition; a load in which a side does not meet it is left out.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// All loads, those left out among them.
    #[serde(default)]
    pub loads: usize,
    /// Those in which a side loses frames.
    #[serde(default)]
    pub lose_frames: usize,
    /// The result.
    #[serde(flatten)]
    pub found: Found,
    /// The loads that are left.
    #[serde(skip)]
    pub left: usize,
    /// No run failed a check.
    #[serde(skip)]
    pub is_sound: bool,
}

/// The result of a ranking.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Found {
    /// The shares of loads in which a side dominates the first, and the reverse.
    Shares {
        /// The first side; only with `--seeds`.
        ranked: String,
        /// The loads.
        runs: usize,
        /// Those in which another side dominates the first.
        dominated: Vec<String>,
        /// The number of those in which the first dominates another.
        #[serde(skip)]
        dominating: usize,
        /// Each other side.
        rows: Vec<Rival>,
    },
    /// Each side in each load.
    Numbers {
        /// The rows.
        rows: Vec<Row>,
    },
    /// A number over time.
    Series {
        /// Its name; only with `--series`.
        series: String,
        /// The points of a mean.
        every: usize,
        /// The means of each side: pairs of ms and value.
        points: IndexMap<String, Points>,
    },
}

/// Numbers by name; a missing one is none.
pub type Named = IndexMap<String, Option<f64>>;

/// A side in a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RankedRow")]
pub struct Row {
    /// The scenario.
    pub scenario: String,
    /// The name of the side.
    pub side: String,
    /// The numbers.
    pub values: Named,
    /// The halves of their 95 % intervals; null if a run cannot tell: it is too short, or its load
    /// changes too slowly.
    #[serde(default)]
    pub errors: Named,
    /// `dominates`, `dominated`, or nothing.
    pub against_first: String,
}

/// A side against the first, in all loads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rival {
    /// The name of the side.
    pub side: String,
    /// The loads in which it dominates the first side.
    pub dominates_first: usize,
    /// Those in which the first dominates it.
    pub dominated_by_first: usize,
    /// For each number that counts, the median quotient of the first side and it.
    #[serde(rename = "median_first_over_side")]
    pub medians: Named,
}

/// Returns a share of runs, and the ends of its 95 % interval (Wilson).
pub fn share(k: usize, of: usize) -> [f64; 3] {
    let (k, n, z) = (k as f64, of as f64, 1.96);
    let middle = (k + z * z / 2.0) / (n + z * z);
    let half = z / (n + z * z) * (k * (n - k) / n + z * z / 4.0).sqrt();
    [k / n, (middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests;
