//! `doorbell compare`: two runs, side by side.

use crate::render::{Cell, Document, Record, Table, Tone, amount, flat, numbers, rate, wrapped};
use crate::run::{GROUPS, audit, is_overloaded, overloaded};
use crate::{DONE, Error, MISSED, guest, input, plan};
use crate::{args::Compare, output::print, plan::Plans};
use doorbell_systems::Registry;
use doorbell_systems::metrics::{Better, Metric};
use doorbell_systems::result::{Group, Measured, Object, RunResult, rounded};
use doorbell_systems::{Plan, Setting};
use serde::Serialize;
use std::path::Path;

/// One number in both runs. `None` is a number that the run does not have.
#[derive(Serialize, Clone, Debug)]
struct Pair {
    a: Option<f64>,
    b: Option<f64>,
    difference: Option<f64>,
    /// B over A; none if A is zero.
    ratio: Option<f64>,
}

impl Pair {
    fn new(a: Option<f64>, b: Option<f64>) -> Pair {
        let both = a.zip(b);
        Pair {
            a,
            b,
            difference: both.map(|(a, b)| rounded(b - a)),
            ratio: both.filter(|(a, _)| *a != 0.0).map(|(a, b)| rounded(b / a)),
        }
    }

    /// Returns whether neither run has the number, or has anything of it.
    fn is_zero(&self) -> bool {
        [self.a, self.b].iter().all(|n| n.unwrap_or(0.0) == 0.0)
    }

    /// Adds a row with both numbers, their difference and their ratio.
    fn row(&self, table: &mut Table, name: &str, shown: impl Fn(f64) -> String, of: Shown) {
        let ratio = self.ratio.map_or("-".to_owned(), |r| format!("{r:.3}"));
        let [a, b, difference] =
            [self.a, self.b, self.difference].map(|n| n.map_or("-".to_owned(), &shown));
        let moved = self.difference.filter(|d| *d != 0.0);
        let tone = of
            .better
            .zip(moved)
            .map(|(more, d)| if more == (d > 0.0) { Tone::Better } else { Tone::Worse });
        let cells = [name, &a, &b].map(Cell::from);
        let change = [difference, ratio].map(|c| Cell::toned(c, tone));
        table.noted(cells.into_iter().chain(change), of.unit);
    }
}

/// The unit of a row, and its direction.
#[derive(Clone, Copy, Default)]
struct Shown {
    unit: &'static str,
    /// True if more is better, false if less is; none if neither.
    better: Option<bool>,
}

/// Numbers of both runs, by name.
type Pairs = Vec<(String, Pair)>;

pub(crate) fn compare(registry: &'static Registry, args: &Compare) -> Result<u8, Error> {
    let b = args.b.as_ref().unwrap_or(&args.a);
    if [&args.a, b].iter().any(|name| name.ends_with(".json")) {
        if args.b.is_none() || !args.changes.sets.is_empty() || !args.with.is_empty() {
            return Err(input!("{}: results that were kept are compared as they are", args.a));
        }
        return guest::compare(Path::new(&args.a), Path::new(b), &args.output);
    }
    let with: Vec<Setting> = args.with.iter().map(|w| Setting::given("--with", w)).collect();
    let mut plans = Plans::of(registry);
    let both = [plans.plan(&args.a, &args.changes, &[])?, plans.plan(b, &args.changes, &with)?];
    plans.check()?;
    let [a, b] = &both;
    let quiet = args.output.quiet;
    let results = [plan::execute(a, quiet)?, plan::execute(b, quiet)?];
    let document = document(&both, &results).with(records(&results));
    print(&document.show(args.output.format, "compare", &data(&results)))?;
    overloaded(results.iter().filter(|r| is_overloaded(r)).count(), results.len());
    Ok(if results.iter().all(|r| r.measured.is_sound()) { DONE } else { MISSED })
}

/// Pairs the numbers of both runs, in the order of the first.
fn pairs<N: Into<String>>(a: Vec<(N, f64)>, b: Vec<(N, f64)>) -> Pairs {
    pairs_or(None, a, b)
}

/// Pairs the numbers of both runs; `missing` is one that only the other run has.
fn pairs_or<N: Into<String>>(missing: Option<f64>, a: Vec<(N, f64)>, b: Vec<(N, f64)>) -> Pairs {
    let owned = |v: Vec<(N, f64)>| -> Vec<(String, f64)> {
        v.into_iter().map(|(n, x)| (n.into(), x)).collect()
    };
    let (a, b) = (owned(a), owned(b));
    let find = |v: &[(String, f64)], name: &str| {
        v.iter().find(|(n, _)| n == name).map(|(_, x)| *x).or(missing)
    };
    let only_b = b.iter().filter(|(n, _)| a.iter().all(|(m, _)| m != n));
    let names: Vec<&String> = a.iter().chain(only_b).map(|(n, _)| n).collect();
    names.into_iter().map(|n| (n.clone(), Pair::new(find(&a, n), find(&b, n)))).collect()
}

fn rates(m: &Measured) -> Vec<(&'static str, f64)> {
    m.rates.iter().map(|r| (r.metric.name, rounded(r.value))).collect()
}

/// Returns whether more of a number is better, if it is judged at all.
fn judged(metric: Metric) -> Option<bool> {
    (metric.better != Better::Neither).then(|| metric.is_better_high())
}

/// Pairs the numbers per packet. What only one of two runs of a system counted, such as cycles by
/// cause, the other has none of.
fn per_packet([a, b]: &[RunResult; 2]) -> Pairs {
    let missing = (a.of.system == b.of.system).then_some(0.0);
    pairs_or(missing, a.measured.per_packet(), b.measured.per_packet())
}

/// Returns a record for each number, by the name in `list --metrics`.
fn records(results: &[RunResult; 2]) -> Vec<Record> {
    let [a, b] = results.each_ref().map(|r| &r.measured);
    let latency = pairs(a.latency_ns(), b.latency_ns()).into_iter();
    let latency = latency.map(|(name, pair)| (format!("latency_ns.{name}"), pair));
    let all = pairs(rates(a), rates(b)).into_iter().chain(latency);
    let all = all.chain(per_packet(results));
    #[derive(Serialize)]
    struct Row {
        name: String,
        #[serde(flatten)]
        pair: Pair,
    }
    flat(all.map(|(name, pair)| Row { name, pair }))
}

/// Returns both results, and the pairs of their numbers.
fn data(results: &[RunResult; 2]) -> impl Serialize {
    let [a, b] = results;
    #[derive(Serialize)]
    struct Comparison<'a> {
        a: &'a RunResult,
        b: &'a RunResult,
        rates: Object<std::vec::IntoIter<(String, Pair)>>,
        per_packet: Object<std::vec::IntoIter<(String, Pair)>>,
        latency_ns: Object<std::vec::IntoIter<(String, Pair)>>,
    }
    let (of_a, of_b) = (&a.measured, &b.measured);
    Comparison {
        a,
        b,
        rates: Object(pairs(rates(of_a), rates(of_b)).into_iter()),
        per_packet: Object(per_packet(results).into_iter()),
        latency_ns: Object(pairs(of_a.latency_ns(), of_b.latency_ns()).into_iter()),
    }
}

fn document(plans: &[Plan], results: &[RunResult; 2]) -> Document {
    let mut doc = Document::titled("A and B, a packet");
    for (name, plan) in ["A", "B"].into_iter().zip(plans) {
        doc.line(format!("{name}  {} on {}", plan.scenario, plan.profile));
        plan.set.iter().for_each(|set| doc.line(format!("   with {set}")));
    }
    let [a, b] = results.each_ref().map(|r| &r.measured);
    let table = |title: &str| numbers(title, &["A", "B", "B - A", "B / A"], 12);
    let metric = |name: &str| plans.iter().find_map(|plan| plan.system.metric(name));
    let mut of_rates = table("rates");
    for (name, p) in pairs(rates(a), rates(b)) {
        let Some(metric) = metric(&name) else { continue };
        let (unit, better) = (rate(metric.unit, 0.0).1, judged(metric));
        p.row(&mut of_rates, &name, |x| rate(metric.unit, x).0, Shown { unit, better });
    }
    doc.table(of_rates);

    let counted = per_packet(results);
    // Cycles by cause are in no group of counts.
    let group = |name: &str| {
        a.counts.iter().chain(&b.counts).find(|c| c.name == name).map_or(Group::Cpu, |c| c.group)
    };
    for (of, title) in GROUPS {
        let (mut differ, mut same) = (table(title), Vec::new());
        for (name, p) in counted.iter().filter(|(n, p)| group(n) == of && !p.is_zero()) {
            if let (Some(a), true) = (p.a, p.a == p.b) {
                same.push(format!("{name} {}", amount(a)));
            } else {
                let better = metric(name).and_then(judged);
                p.row(&mut differ, name, amount, Shown { unit: "", better });
            }
        }
        let all_same = differ.is_empty();
        doc.table(differ);
        if all_same && !same.is_empty() {
            doc.gap();
            doc.line(wrapped(&format!("{title}, the same in both:"), &same));
        } else if !same.is_empty() {
            doc.line(wrapped("the same in both:", &same));
        }
    }
    let mut latency = table("latency, ns");
    for (name, p) in pairs(a.latency_ns(), b.latency_ns()) {
        let name = format!("latency_ns.{name}");
        let better = metric(&name).and_then(judged);
        p.row(&mut latency, &name, amount, Shown { unit: "", better });
    }
    doc.table(latency);
    for (name, result) in ["A", "B"].into_iter().zip(results) {
        audit(&mut doc, name, result);
    }
    doc
}
