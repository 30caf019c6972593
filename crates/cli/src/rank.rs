//! `doorbell rank`: one choice of settings against others.
//!
//! The first `--side` is ranked. A side *dominates* another in a run (Pareto) when it is better in
//! every number of `--by`, each by more than `--noise`: higher where the number is declared so, as
//! packets a second are, else lower. Of single runs the difference must also exceed its error, so
//! runs too short for an error dominate none. With `--seeds` each scenario runs once per seed, all
//! sides with the same arrivals, and the result is the share of runs with a dominated side. A load
//! in which a side does not meet `--where` is left out, for all sides. With `--series` it is a
//! number over time, side by side.
//! Runs are spread over the machine's cores; the result does not depend on their number.

use crate::chart::{self, Chart, Line, Plot};
use crate::plan::{self, Plans};
use crate::render::{Cell, Document, Format, Table, amount};
use crate::sweep::{Shown, lossy_line};
use crate::{DONE, Error, MISSED, args::Rank, input, output::print, progress::Progress};
use doorbell_systems::Registry;
use doorbell_systems::metrics::{Kind, LOST_SHARE};
use doorbell_systems::result::{Numbers, RunResult, rounded};
use doorbell_systems::{Plan, Setting, in_parallel};
use serde_json::{Map, Value, json};
use std::iter::once;

/// A choice of settings.
struct Side {
    name: String,
    sets: Vec<String>,
}

impl Side {
    fn parse(text: &str) -> Result<Side, Error> {
        // A colon ends a name unless a setting precedes it: then it is part of a time span.
        let (name, sets) =
            text.split_once(':').filter(|(name, _)| !name.contains('=')).unwrap_or((text, text));
        let sets: Vec<String> = sets.split(',').map(|s| s.trim().to_owned()).collect();
        if sets.iter().any(|s| !s.contains('=')) {
            return Err(input!(
                "--side {text}: expected key=value,… or a name before them, such as \
                 fixed: driver.controller=fixed"
            ));
        }
        Ok(Side { name: name.trim().to_owned(), sets })
    }
}

/// A number, and half of its 95 % interval if the run can tell.
type Estimate = (f64, Option<f64>);

/// Numbers of one run; a missing one is none.
#[derive(Clone)]
struct Sample {
    /// The numbers of `--by`, then those of `--show`.
    numbers: Vec<Option<Estimate>>,
    series: Vec<(f64, f64)>,
    sound: bool,
    /// It meets `--where`.
    kept: bool,
    /// It lost frames for want of room in the device.
    lossy: bool,
}

/// A condition on a number of a run.
struct Where {
    name: String,
    is: fn(f64, f64) -> bool,
    bound: f64,
}

impl Where {
    fn parse(text: &str) -> Result<Where, Error> {
        let wrong = || {
            input!(
                "--where {text}: expected NAME=VALUE, NAME<BOUND or NAME>BOUND, such as \
                 lost_share=0"
            )
        };
        let at = text.find(['=', '<', '>']).ok_or_else(wrong)?;
        let is: fn(f64, f64) -> bool = match &text[at..=at] {
            "=" => |a, b| a == b,
            "<" => |a, b| a < b,
            _ => |a, b| a > b,
        };
        let bound = text[at + 1..].trim().parse().map_err(|_| wrong())?;
        Ok(Where { name: text[..at].trim().to_owned(), is, bound })
    }

    /// Returns whether a run meets it. One without the number does not.
    fn holds(&self, numbers: &Numbers) -> bool {
        numbers.get(&self.name).is_some_and(|n| (self.is)(n.value, self.bound))
    }
}

/// Parses `FIRST-LAST`, or one seed.
fn seeds(text: &str) -> Result<Vec<u64>, Error> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(a), Ok(b)) if a <= b && b - a < 1_000_000 => Ok((a..=b).collect()),
        _ => Err(input!("--seeds {text}: expected FIRST-LAST such as 1-1000, at most a million")),
    }
}

pub(crate) fn rank(registry: &'static Registry, args: &Rank) -> Result<u8, Error> {
    let sides = args.side.iter().map(|t| Side::parse(t)).collect::<Result<Vec<_>, _>>()?;
    if !(0.0..=100.0).contains(&args.noise) {
        return Err(input!("--noise {}: expected 0 to 100 percent", args.noise));
    }
    if args.output.format == Format::Svg && args.series.is_none() {
        return Err(input!("--format svg: only --series can be drawn"));
    }
    let seeds = args.seeds.as_deref().map(seeds).transpose()?;
    let filter = args.filter.as_deref().map(Where::parse).transpose()?;
    // Scenario by scenario, seed by seed, side by side.
    let (mut all, mut plans) = (Plans::of(registry), Vec::new());
    let mut loads: Vec<Load<'_>> = Vec::new();
    for scenario in &args.scenario {
        for seed in seeds.as_ref().map_or(vec![None], |s| s.iter().copied().map(Some).collect()) {
            loads.push(Load { scenario, seed });
            for side in &sides {
                let seed =
                    seed.map(|n| Setting::at(format!("--seeds {n}"), format!("run.seed={n}")));
                let sets = side.sets.iter().map(|s| Setting::given("--side", s));
                let sets: Vec<Setting> = sets.chain(seed).collect();
                plans.push(all.plan(scenario, &args.changes, &sets)?);
            }
        }
    }
    all.check()?;
    let by = args.by.iter().map(|t| Shown::parse("--by", t, plans[0].system));
    let rest = args.show.iter().map(|t| Shown::parse("--show", t, plans[0].system));
    let shown: Vec<Shown<'_>> = by.chain(rest).collect::<Result<_, _>>()?;
    for plan in &plans {
        shown.iter().try_for_each(|s| s.known(plan.system))?;
        let found = filter.iter().map(|f| plan.system.find_metric(&f.name));
        found.collect::<Result<Vec<_>, _>>().map_err(|e| input!("--where: {e}"))?;
    }
    let progress = Progress::new(&args.scenario[0], args.output.quiet);
    let sample = |r: &RunResult| -> Result<Sample, Error> {
        let (m, numbers) = (&r.measured, r.measured.numbers());
        // A load without transactions has no latency; any other unknown name is a mistake.
        let is_absent =
            |s: &Shown<'_>| s.sum.kind() == Some(Kind::Latency) && m.latency.count() == 0;
        let of = |s: &Shown<'_>| (!is_absent(s)).then(|| s.of(&numbers)).transpose();
        let series = args.series.as_ref().map(|name| {
            let found = m.series.iter().find(|s| s.name == *name).map(|s| s.points.clone());
            found.ok_or_else(|| {
                let all: Vec<&str> = m.series.iter().map(|s| s.name).collect();
                let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                input!("--series {name}: no series of the run has this name; it has {all}")
            })
        });
        let found = shown.iter().map(of).collect::<Result<_, Error>>()?;
        let series = series.transpose()?.unwrap_or_default();
        let kept = filter.as_ref().is_none_or(|f| f.holds(&numbers));
        let lossy = numbers.get(LOST_SHARE.name).is_some_and(|n| n.value > 0.0);
        Ok(Sample { numbers: found, series, sound: m.is_sound(), kept, lossy })
    };
    let samples = in_parallel(&plans, |done, plan| {
        progress.at(done as u64, plans.len() as u64);
        sample(&plan::execute(plan, true)?)
    })?;
    drop(progress);
    let sound = samples.iter().all(|s| s.sound);
    let (all, each) = (loads.len(), || samples.chunks(sides.len()));
    let lossy = each().filter(|load| load.iter().any(|s| s.lossy)).count();
    let kept = loads.into_iter().zip(each()).filter(|(_, load)| load.iter().all(|s| s.kept));
    let (loads, samples): (Vec<Load<'_>>, Vec<&[Sample]>) = kept.unzip();
    if loads.is_empty() {
        let text = args.filter.as_deref().unwrap_or_default();
        return Err(input!("--where {text}: in each of the {all} loads a side does not meet it"));
    }
    let samples = samples.concat();
    let of = Population { all, lossy };
    let ranking = Ranking { args, sides: &sides, shown: &shown, samples: &samples, loads, of };
    let (document, found) = match (&args.series, &seeds) {
        (Some(name), _) => ranking.over_time(name)?,
        (None, Some(_)) => ranking.shares(),
        (None, None) => ranking.numbers(),
    };
    print(&match (&args.series, args.output.format) {
        (Some(name), Format::Svg) => ranking.picture(name, &plans[0])?,
        (_, format) => {
            let mut data = ranking.given(&plans, seeds.as_deref())?;
            data.extend(found);
            document.show(format, "rank", &data)
        }
    })?;
    Ok(if sound { DONE } else { MISSED })
}

/// A scenario with a seed, if any is given.
struct Load<'a> {
    scenario: &'a str,
    seed: Option<u64>,
}

/// All loads, those left out among them.
#[derive(Clone, Copy)]
struct Population {
    all: usize,
    /// Those in which a side loses frames.
    lossy: usize,
}

struct Ranking<'a> {
    args: &'a Rank,
    sides: &'a [Side],
    shown: &'a [Shown<'a>],
    samples: &'a [Sample],
    /// The load of each group of samples.
    loads: Vec<Load<'a>>,
    of: Population,
}

impl Ranking<'_> {
    /// Returns true if `a` is better in all numbers of `--by`, each by more than the noise, and
    /// without seeds by more than the error of the difference.
    fn dominates(&self, a: &Sample, b: &Sample) -> bool {
        let single = self.args.seeds.is_none();
        let better = |(of, both): (&Shown<'_>, (&Option<Estimate>, &Option<Estimate>))| {
            let (Some((a, of_a)), Some((b, of_b))) = both else { return false };
            let both = of_a.zip(*of_b).map(|(a, b)| libm::hypot(a, b));
            let error = if single { both } else { Some(0.0) };
            let (good, bad) = if of.sum.is_better_high() { (b, a) } else { (a, b) };
            let beyond = good * (1.0 + self.args.noise / 100.0) < *bad;
            error.is_some_and(|e| bad - good > e) && beyond
        };
        let both = a.numbers.iter().zip(&b.numbers);
        self.shown.iter().zip(both).take(self.args.by.len()).all(better)
    }

    fn against_first(&self, i: usize) -> &'static str {
        let (first, other) = (&self.samples[i - i % self.sides.len()], &self.samples[i]);
        match () {
            () if self.dominates(other, first) => "dominates",
            () if self.dominates(first, other) => "dominated",
            () => "",
        }
    }

    /// Returns what was asked: origins without the keys that the sides differ in, and the sides.
    fn given(&self, plans: &[Plan], seeds: Option<&[u64]>) -> Result<Map<String, Value>, Error> {
        let sets = || self.sides.iter().flat_map(|s| &s.sets);
        let differs = |key: &str| {
            let is = |set: &String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
            sets().any(is) || (seeds.is_some() && key == "run.seed")
        };
        let each = plans.chunks(plans.len() / self.args.scenario.len());
        let of = each.map(|p| plan::shared(&p[0], differs)).collect::<Result<Vec<_>, _>>()?;
        let sides = self.sides.iter().map(|s| json!({ "name": s.name, "set": s.sets }));
        let units: Map<String, Value> = self.shown.iter().filter_map(Shown::unit).collect();
        let all = [
            ("of", json!(of)),
            ("sides", sides.collect()),
            ("by", json!(self.args.by)),
            ("units", json!(units)),
            ("noise_percent", json!(self.args.noise)),
            ("seeds", json!(seeds.map(|s| [s[0], s[s.len() - 1]]))),
            ("where", json!(self.args.filter)),
            ("loads", json!(self.of.all)),
            ("lose_frames", json!(self.of.lossy)),
        ];
        Ok(named(all))
    }

    /// Returns a row for each scenario and side.
    fn numbers(&self) -> Ranked {
        let n = self.sides.len();
        let row = |(i, s): (usize, &Sample)| {
            let each = |of: &dyn Fn(&Estimate) -> Option<f64>| {
                let all = self.shown.iter().zip(&s.numbers);
                all.map(|(what, n)| (what.text.to_owned(), json!(n.as_ref().and_then(of))))
                    .collect::<Value>()
            };
            json!({
                "scenario": self.loads[i / n].scenario,
                "side": self.sides[i % n].name,
                "values": each(&|n| Some(n.0)),
                "errors": each(&|n| n.1.map(rounded)),
                "against_first": self.against_first(i),
            })
        };
        let rows: Vec<Value> = self.samples.iter().enumerate().map(row).collect();
        let heads = self.shown.iter().map(|what| Cell::exact(what.with_unit(""), what.text));
        let heads = ["scenario".into(), "side".into()].into_iter().chain(heads);
        let heads = heads.chain([format!("against {}", self.sides[0].name).into()]);
        let mut table = Table::new(heads).right(2..self.shown.len() + 3);
        for (i, s) in self.samples.iter().enumerate() {
            // The name of a scenario stands once.
            let scenario = self.loads[i / n].scenario;
            let name = Cell::exact(if i % n == 0 { scenario } else { "" }, scenario);
            let cells = self.shown.iter().zip(&s.numbers).map(|(what, n)| match n {
                Some((value, _)) => Cell::exact(amount(what.people(*value)), *value),
                None => Cell::exact("-", Value::Null),
            });
            let side = Cell::from(&self.sides[i % n].name);
            let against = Cell::from(self.against_first(i));
            table.row([name, side].into_iter().chain(cells).chain([against]));
        }
        let errors = self.shown.iter().enumerate().filter_map(|(i, what)| {
            let all = self.samples.iter().filter_map(|s| s.numbers[i].as_ref());
            let percent = |(value, error): &Estimate| match (*error)? {
                0.0 => Some(0.0),
                error => Some(100.0 * error / value.abs()),
            };
            match all.map(percent).try_fold(0.0, |most: f64, e| Some(most.max(e?))) {
                None => Some(format!("{} unknown, a run is too short for its load", what.text)),
                Some(most) if most >= 0.005 => Some(format!("{} up to ±{most:.2} %", what.text)),
                Some(_) => None,
            }
        });
        let errors = errors.collect::<Vec<_>>().join(", ");
        let mut doc = Document::from(table);
        if !errors.is_empty() {
            doc.gap();
            doc.line(format!("errors (95 %): {errors}"));
        }
        self.population(&mut doc);
        (doc, named([("rows", json!(rows))]))
    }

    /// Says how many loads are left, and how many lose frames.
    fn population(&self, doc: &mut Document) {
        let Population { all, lossy } = self.of;
        if let Some(filter) = &self.args.filter {
            doc.line(format!("{filter} in {} of {all} loads", self.loads.len()));
        }
        lossy_line(lossy, all, "loads").into_iter().for_each(|line| doc.line(line));
    }

    /// Returns the shares of runs in which a side dominates the first, and the reverse.
    fn shares(&self) -> Ranked {
        let n = self.sides.len();
        let runs: Vec<&[Sample]> = self.samples.chunks(n).collect();
        let label = |run: usize| {
            let Load { scenario, seed } = self.loads[run];
            let seed = seed.map_or_else(String::new, |s| s.to_string());
            if self.args.scenario.len() == 1 { seed } else { format!("{scenario} {seed}") }
        };
        let lost = |run: &[Sample], i: usize| self.dominates(&run[i], &run[0]);
        let won = |run: &[Sample], i: usize| self.dominates(&run[0], &run[i]);
        let any: Vec<String> =
            (0..runs.len()).filter(|&r| (1..n).any(|i| lost(runs[r], i))).map(label).collect();
        // The median quotient of the runs that have both numbers.
        let median = |i: usize, k: usize| {
            let value = |s: &Sample| s.numbers[k].map(|n| n.0);
            let quotients = runs.iter().filter_map(|r| Some(value(&r[0])? / value(&r[i])?));
            let mut all: Vec<f64> = quotients.filter(|q| q.is_finite()).collect();
            all.sort_by(f64::total_cmp);
            let middle = all.get(all.len().saturating_sub(1) / 2).zip(all.get(all.len() / 2));
            middle.map(|(low, high)| rounded((low + high) / 2.0))
        };
        let count = |f: &dyn Fn(&[Sample]) -> bool| runs.iter().filter(|r| f(r)).count();
        let by = &self.shown[..self.args.by.len()];
        let first = &self.sides[0].name;
        let rows = (1..n).map(|i| {
            let medians = by.iter().enumerate();
            let medians = medians.map(|(k, what)| (what.text.to_owned(), json!(median(i, k))));
            json!({
                "side": self.sides[i].name,
                "dominates_first": count(&|r| lost(r, i)),
                "dominated_by_first": count(&|r| won(r, i)),
                "median_first_over_side": medians.collect::<Value>(),
            })
        });
        let rows: Vec<Value> = rows.collect();
        let data = [
            ("ranked", json!(first)),
            ("runs", json!(runs.len())),
            ("dominated", json!(any)),
            ("rows", json!(rows)),
        ];

        let share = |k: usize| {
            let [share, low, high] = share(k, runs.len()).map(|p| 100.0 * p);
            Cell::exact(format!("{share:.1} % ({low:.1} to {high:.1})"), share / 100.0)
        };
        let heads = [format!("dominates {first}"), format!("dominated by {first}")];
        let ratios = by.iter().map(|what| format!("{}, {first} / other", what.text));
        let mut table =
            Table::new(once("other".to_owned()).chain(heads).chain(ratios)).right(1..by.len() + 3);
        for i in 1..n {
            let ratios = (0..by.len()).map(|k| match median(i, k) {
                Some(ratio) => Cell::exact(amount(ratio), ratio),
                None => Cell::exact("-", Value::Null),
            });
            let shares = [share(count(&|r| lost(r, i))), share(count(&|r| won(r, i)))];
            let side = Cell::from(&self.sides[i].name);
            table.row(once(side).chain(shares).chain(ratios));
        }
        let all = [share(any.len()), share(count(&|r| (1..n).any(|i| won(r, i))))];
        let none = by.iter().map(|_| "".into());
        table.row(once("any".into()).chain(all).chain(none));
        let listed = any[..any.len().min(20)].join(", ");
        let which = match any.len() {
            0 => String::new(),
            1..=20 => format!("; {first} is dominated in: {listed}"),
            _ => format!("; the first 20 where {first} is dominated: {listed}"),
        };
        let mut doc = Document::from(table);
        doc.gap();
        doc.line(format!("{} runs{which}", runs.len()));
        self.population(&mut doc);
        (doc, named(data))
    }

    /// Returns the points of each side, each the mean of `--every`, and the times that all have.
    fn points(&self) -> Result<(Vec<Points>, Vec<f64>), Error> {
        if self.samples.len() != self.sides.len() {
            return Err(input!("--series: one scenario, and no --seeds"));
        }
        let mean = |c: &[(f64, f64)]| {
            (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)
        };
        let thin = |s: &Sample| s.series.chunks(self.args.every.max(1)).map(mean).collect();
        let all: Vec<Points> = self.samples.iter().map(thin).collect();
        let shortest = all.iter().min_by_key(|s| s.len());
        let times = shortest.into_iter().flatten().map(|p| p.0).collect();
        Ok((all, times))
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.sides.iter().map(|s| s.name.clone())
    }

    /// Draws a number over time, each side a line.
    fn picture(&self, name: &str, plan: &Plan) -> Result<String, Error> {
        if self.sides.len() > chart::MOST {
            return Err(input!("--format svg: a chart has room for {} sides", chart::MOST));
        }
        let (all, times) = self.points()?;
        let lines = self.names().zip(&all).map(|(label, points)| Line {
            label,
            points: points.iter().take(times.len()).copied().collect(),
        });
        let (x, y) = ("ms".to_owned(), name.to_owned());
        let title = format!("{} on {}", plan.scenario, plan.profile);
        let units = (x.clone(), String::new());
        let plot = Plot { lines: lines.collect(), units, ..Plot::default() };
        Ok(Chart { title, x, y, plot }.svg())
    }

    /// Returns a number over time, each side a column.
    fn over_time(&self, name: &str) -> Result<Ranked, Error> {
        let (all, times) = self.points()?;
        let heads = once(format!("{name} at ms")).chain(self.names());
        let mut table = Table::new(heads).right(1..=self.sides.len());
        for (i, ms) in times.iter().enumerate() {
            let cells = all.iter().map(|points| rounded(points[i].1));
            let cells = cells.map(|v| Cell::exact(amount(v), v));
            table.row(once(Cell::from(ms.to_string())).chain(cells));
        }
        let points = self.names().zip(all.iter().map(|points| json!(points)));
        let data = [
            ("series", json!(name)),
            ("every", json!(self.args.every)),
            ("points", points.collect()),
        ];
        Ok((table.into(), named(data)))
    }
}

/// Returns a share of runs, and the ends of its 95 % interval (Wilson).
fn share(k: usize, of: usize) -> [f64; 3] {
    let (k, n, z) = (k as f64, of as f64, 1.96);
    let middle = (k + z * z / 2.0) / (n + z * z);
    let half = z / (n + z * z) * (k * (n - k) / n + z * z / 4.0).sqrt();
    [k / n, (middle - half).max(0.0), (middle + half).min(1.0)]
}

/// Pairs of ms and value.
type Points = Vec<(f64, f64)>;

/// A result for people, and its members for programs.
type Ranked = (Document, Map<String, Value>);

fn named<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.map(|(name, v)| (name.to_owned(), v)).into_iter().collect()
}

#[cfg(test)]
mod tests;
