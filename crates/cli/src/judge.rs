//! `doorbell judge`: one choice of settings against others.
//!
//! The first `--side` is judged. A side *dominates* another in a run when it is better in
//! every number of `--by`, each by more than `--noise`; smaller is better. So a side that
//! is dominated has no excuse: what it lost in one number it did not gain in another.
//!
//! With `--seeds` a scenario is run once for each, and what is shown is in how many of them
//! who dominated. With `--series` it is a number over time, side by side. The runs are
//! spread over the machine's cores; within one there is one thread, and the result does not
//! depend on how many there are.

use crate::args::{Judge, SweepFormat};
use crate::chart::{self, Chart, Line, Places};
use crate::output::print;
use crate::plan::{self, Plans};
use crate::progress::Progress;
use crate::sweep::{Number, Shown, render};
use crate::text::amount;
use crate::{DONE, Error, MISSED};
use doorbell_lab::result::{RunResult, rounded};
use doorbell_lab::{Plan, Setting};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A choice of settings.
struct Side {
    name: String,
    sets: Vec<String>,
}

impl Side {
    fn parse(text: &str) -> Result<Side, Error> {
        // What stands before a colon is a name where it sets nothing; a time span behind one is
        // part of a value.
        let (name, sets) =
            text.split_once(':').filter(|(name, _)| !name.contains('=')).unwrap_or((text, text));
        let sets: Vec<String> = sets.split(',').map(|s| s.trim().to_owned()).collect();
        if sets.iter().any(|s| !s.contains('=')) {
            let form = "expected key=value,… or a name before them, such as fixed: driver.controller=fixed";
            return Err(Error::input(format!("--side {text}: {form}")));
        }
        Ok(Side { name: name.trim().to_owned(), sets })
    }
}

/// What is taken from a run; a number that it does not have is none.
#[derive(Clone)]
struct Seen {
    by: Vec<Option<Number>>,
    show: Vec<Option<Number>>,
    series: Vec<(f64, f64)>,
    sound: bool,
}

/// Whether `a` is better in all numbers, each by more than the noise.
fn dominates(a: &Seen, b: &Seen, noise: f64) -> bool {
    let better = |(a, b): (&Option<Number>, &Option<Number>)| match (a, b) {
        (Some(a), Some(b)) => a.value * (1.0 + noise) < b.value,
        _ => false,
    };
    a.by.iter().zip(&b.by).all(better)
}

/// `FIRST-LAST`, or one.
fn seeds(text: &str) -> Result<Vec<u64>, Error> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(a), Ok(b)) if a <= b && b - a < 1_000_000 => Ok((a..=b).collect()),
        _ => Err(Error::input(format!(
            "--seeds {text}: expected FIRST-LAST such as 1-1000, of a million at most"
        ))),
    }
}

pub(crate) fn judge(args: &Judge) -> Result<u8, Error> {
    let sides = args.side.iter().map(|t| Side::parse(t)).collect::<Result<Vec<_>, _>>()?;
    if !(0.0..=100.0).contains(&args.noise) {
        return Err(Error::input(format!("--noise {}: expected 0 to 100 percent", args.noise)));
    }
    let by: Vec<Shown<'_>> = args.by.iter().map(|t| Shown::parse(t)).collect();
    let show: Vec<Shown<'_>> = args.show.iter().map(|t| Shown::parse(t)).collect();
    let seeds = args.seeds.as_deref().map(seeds).transpose()?;
    // Scenario by scenario, seed by seed, side by side.
    let mut plans = Plans::default();
    for scenario in &args.scenario {
        for seed in seeds.as_ref().map_or(vec![None], |s| s.iter().copied().map(Some).collect()) {
            for side in &sides {
                let seed =
                    seed.map(|n| Setting::at(format!("--seeds {n}"), format!("run.seed={n}")));
                let sets = side.sets.iter().map(|s| Setting::given("--side", s));
                plans.add(scenario, &args.changes, &sets.chain(seed).collect::<Vec<_>>())?;
            }
        }
    }
    let plans = plans.finish()?;
    let progress = Progress::new(&args.scenario[0], args.quiet);
    let take = |r: &RunResult| -> Result<Seen, Error> {
        let m = &r.measured;
        // A load without transactions has no latency; any other name that is not there is a
        // mistake.
        let of = |s: &Shown<'_>| if s.is_absent(m) { Ok(None) } else { s.of(m).map(Some) };
        let series = match &args.series {
            None => Vec::new(),
            Some(name) => {
                m.series.iter().find(|s| s.name == *name).map(|s| s.points.clone()).ok_or_else(
                    || {
                        let all: Vec<&str> = m.series.iter().map(|s| s.name).collect();
                        Error::input(format!("--series {name}: a run has {}", all.join(", ")))
                    },
                )?
            }
        };
        Ok(Seen {
            by: by.iter().map(of).collect::<Result<_, _>>()?,
            show: show.iter().map(of).collect::<Result<_, _>>()?,
            series,
            sound: m.is_sound(),
        })
    };
    let seen = in_parallel(&plans, |done, plan| {
        progress.at(done as u64, plans.len() as u64);
        take(&plan::execute(plan, true)?)
    })?;
    drop(progress);
    let sound = seen.iter().all(|s| s.sound);
    let table = Table { args, sides: &sides, by: &by, show: &show, noise: args.noise / 100.0 };
    let text = match (&args.series, &seeds) {
        (Some(name), _) => table.over_time(name, &plans, &seen)?,
        (None, Some(seeds)) => table.shares(seeds, &seen)?,
        (None, None) => table.numbers(&seen)?,
    };
    print(&text)?;
    Ok(if sound { DONE } else { MISSED })
}

/// What `f` makes of each, in their order. The first error, in that order too.
fn in_parallel<T: Send>(
    plans: &[Plan],
    f: impl Fn(usize, &Plan) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new((0..plans.len()).map(|_| None).collect::<Vec<Option<Result<T, Error>>>>());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(i) else { return };
                    let made = f(i, plan);
                    if made.is_err() {
                        // Those behind it need not be run; those before it are under way.
                        next.store(plans.len(), Ordering::Relaxed);
                    }
                    all.lock().unwrap_or_else(|e| e.into_inner())[i] = Some(made);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().flatten().collect()
}

struct Table<'a> {
    args: &'a Judge,
    sides: &'a [Side],
    by: &'a [Shown<'a>],
    show: &'a [Shown<'a>],
    noise: f64,
}

impl Table<'_> {
    fn format(&self, what: &str) -> Result<bool, Error> {
        match self.args.format {
            SweepFormat::Table => Ok(false),
            SweepFormat::Markdown => Ok(true),
            _ => Err(Error::input(format!("--format: {what} is a table, markdown or json"))),
        }
    }

    /// A row for each scenario and side.
    fn numbers(&self, seen: &[Seen]) -> Result<String, Error> {
        let n = self.sides.len();
        let verdict = |first: &Seen, other: &Seen| match () {
            () if dominates(other, first, self.noise) => "dominates",
            () if dominates(first, other, self.noise) => "dominated",
            () => "",
        };
        if self.args.format == SweepFormat::Json {
            let rows: Vec<Value> = seen
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    let all = self.by.iter().zip(&s.by).chain(self.show.iter().zip(&s.show));
                    let values: serde_json::Map<String, Value> = all
                        .map(|(what, n)| (what.text.to_owned(), json!(n.as_ref().map(|n| n.value))))
                        .collect();
                    let against_first = if i % n == 0 { "" } else { verdict(&seen[i - i % n], s) };
                    json!({
                        "scenario": self.args.scenario[i / n],
                        "side": self.sides[i % n].name,
                        "values": values,
                        "against_first": against_first,
                    })
                })
                .collect();
            return Ok(pretty(&json!({ "rows": rows })));
        }
        let markdown = self.format("what is judged")?;
        let mut heads = vec!["scenario".to_owned(), "side".to_owned()];
        for (i, what) in self.by.iter().enumerate() {
            heads.push(head(what, seen.iter().find_map(|s| s.by[i].as_ref())));
        }
        for (i, what) in self.show.iter().enumerate() {
            heads.push(head(what, seen.iter().find_map(|s| s.show[i].as_ref())));
        }
        heads.push(format!("against {}", self.sides[0].name));
        let rows = seen.iter().enumerate().map(|(i, s)| {
            // A scenario's name stands once.
            let scenario =
                if i % n == 0 { self.args.scenario[i / n].clone() } else { String::new() };
            let numbers = s.by.iter().chain(&s.show);
            let cells = numbers.map(|n| n.as_ref().map_or("-".to_owned(), |n| amount(n.shown)));
            let against = if i % n == 0 { "" } else { verdict(&seen[i - i % n], s) };
            [scenario, self.sides[i % n].name.clone()]
                .into_iter()
                .chain(cells)
                .chain([against.to_owned()])
                .collect()
        });
        Ok(render(&heads, 2, rows.collect(), markdown))
    }

    /// In how many runs who dominated whom.
    fn shares(&self, seeds: &[u64], seen: &[Seen]) -> Result<String, Error> {
        let n = self.sides.len();
        let runs: Vec<&[Seen]> = seen.chunks(n).collect();
        let label = |run: usize| match self.args.scenario.len() {
            1 => seeds[run].to_string(),
            _ => format!("{} {}", self.args.scenario[run / seeds.len()], seeds[run % seeds.len()]),
        };
        let lost = |run: &[Seen], i: usize| dominates(&run[i], &run[0], self.noise);
        let won = |run: &[Seen], i: usize| dominates(&run[0], &run[i], self.noise);
        let any: Vec<String> =
            (0..runs.len()).filter(|&r| (1..n).any(|i| lost(runs[r], i))).map(label).collect();
        // The middle one of the quotients, of runs that have both.
        let median = |i: usize, k: usize| {
            let quotient =
                |r: &&[Seen]| Some(r[0].by[k].as_ref()?.value / r[i].by[k].as_ref()?.value);
            let mut all: Vec<f64> =
                runs.iter().filter_map(quotient).filter(|q| q.is_finite()).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().map(rounded)
        };
        let count = |f: &dyn Fn(&[Seen]) -> bool| runs.iter().filter(|r| f(r)).count();
        let first = &self.sides[0].name;
        if self.args.format == SweepFormat::Json {
            let rows: Vec<Value> = (1..n)
                .map(|i| {
                    json!({
                        "side": self.sides[i].name,
                        "dominates_first": count(&|r| lost(r, i)),
                        "dominated_by_first": count(&|r| won(r, i)),
                        "median_first_over_side": (0..self.by.len()).map(|k| (self.by[k].text.to_owned(), json!(median(i, k)))).collect::<serde_json::Map<_, _>>(),
                    })
                })
                .collect();
            return Ok(pretty(
                &json!({ "judged": first, "runs": runs.len(), "dominated": any, "sides": rows }),
            ));
        }
        let markdown = self.format("what is judged")?;
        let percent = |k: usize| format!("{:.1} %", 100.0 * k as f64 / runs.len() as f64);
        let mut heads =
            vec!["other".to_owned(), format!("dominates {first}"), format!("dominated by {first}")];
        heads.extend(self.by.iter().map(|what| format!("{}, {first} / other", what.text)));
        let mut rows: Vec<Vec<String>> = (1..n)
            .map(|i| {
                let ratios =
                    (0..self.by.len()).map(|k| median(i, k).map_or("-".to_owned(), amount));
                let shares = [percent(count(&|r| lost(r, i))), percent(count(&|r| won(r, i)))];
                [self.sides[i].name.clone()].into_iter().chain(shares).chain(ratios).collect()
            })
            .collect();
        let all = [percent(any.len()), percent(count(&|r| (1..n).any(|i| won(r, i))))];
        let none = self.by.iter().map(|_| String::new());
        rows.push(["any".to_owned()].into_iter().chain(all).chain(none).collect());
        let mut text = render(&heads, 1, rows, markdown);
        let which = match any.len() {
            0 => String::new(),
            k if k > 20 => {
                format!("; the first 20 where {first} is dominated: {}", any[..20].join(", "))
            }
            _ => format!("; {first} is dominated in: {}", any.join(", ")),
        };
        text += &format!("\n{}{} runs{which}\n", if markdown { "" } else { " " }, runs.len());
        Ok(text)
    }

    /// A number over time, each side a column or a line.
    fn over_time(&self, name: &str, plans: &[Plan], seen: &[Seen]) -> Result<String, Error> {
        if seen.len() != self.sides.len() {
            return Err(Error::input("--series: one scenario, and no --seeds".to_owned()));
        }
        // Several slices become one: their mean.
        let every = self.args.every.max(1);
        let thin = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            let mean = |c: &[(f64, f64)]| {
                (c[c.len() - 1].0, c.iter().map(|p| p.1).sum::<f64>() / c.len() as f64)
            };
            points.chunks(every).map(mean).collect()
        };
        let all: Vec<Vec<(f64, f64)>> = seen.iter().map(|s| thin(&s.series)).collect();
        let times: Vec<f64> = all
            .iter()
            .min_by_key(|s| s.len())
            .map_or(Vec::new(), |s| s.iter().map(|p| p.0).collect());
        match self.args.format {
            SweepFormat::Json => {
                let sides: serde_json::Map<String, Value> = self
                    .sides
                    .iter()
                    .zip(&all)
                    .map(|(s, points)| (s.name.clone(), json!(points)))
                    .collect();
                Ok(pretty(&json!({ "series": name, "sides": sides })))
            }
            SweepFormat::Svg => {
                if self.sides.len() > chart::MOST {
                    return Err(Error::input(format!(
                        "--format svg: a chart has room for {} sides",
                        chart::MOST
                    )));
                }
                let lines = self.sides.iter().zip(&all).map(|(s, points)| Line {
                    label: s.name.clone(),
                    values: points.iter().take(times.len()).map(|p| p.1).collect(),
                });
                let (lines, plan) = (lines.collect(), &plans[0]);
                let title = format!("{} on {}", plan.scenario, plan.profile);
                let chart = Chart {
                    title,
                    x: "ms".to_owned(),
                    y: name.to_owned(),
                    places: Places::Numbers(times),
                    lines,
                };
                chart::svg(&chart).map_err(|what| Error { code: MISSED, what })
            }
            _ => {
                let heads: Vec<String> = [format!("{name} at ms")]
                    .into_iter()
                    .chain(self.sides.iter().map(|s| s.name.clone()))
                    .collect();
                let rows = times.iter().enumerate().map(|(i, ms)| {
                    let cells = all.iter().map(|points| amount(rounded(points[i].1)));
                    [format!("{ms}")].into_iter().chain(cells).collect()
                });
                Ok(render(&heads, 1, rows.collect(), self.args.format == SweepFormat::Markdown))
            }
        }
    }
}

fn head(what: &Shown<'_>, n: Option<&Number>) -> String {
    n.map_or(what.text.to_owned(), |n| what.with_unit(n, ""))
}

fn pretty(v: &Value) -> String {
    serde_json::to_string_pretty(v).unwrap_or_else(|e| unreachable!("plain numbers serialise: {e}"))
        + "\n"
}
