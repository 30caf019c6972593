//! `doorbell compare`: two runs, side by side.

use crate::run::{GROUPS, audit, is_overloaded, overloaded};
use crate::{args::Compare, plan::Plans};
use crate::{guest, plan};
use doorbell_console::output::print;
use doorbell_console::render::{
    Cell, Document, Record, Table, Tone, amount, flat, numbers, rate, wrapped,
};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_systems::Registry;
use doorbell_systems::metrics::{Better, Kind, Metric};
use doorbell_systems::result::{Group, Number, Numbers, RunResult, rounded};
use doorbell_systems::{Plan, Setting};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// One number in both runs.
#[derive(Serialize, JsonSchema, Clone, Debug)]
struct Pair {
    /// Null if run A has no such number.
    a: Option<f64>,
    /// Null if run B has no such number.
    b: Option<f64>,
    /// B minus A.
    difference: Option<f64>,
    /// B over A; null if A is zero.
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

/// Numbers of both runs: rates, latencies, then those of a packet.
type Pairs = Vec<(Metric, Pair)>;

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
    let pairs = pairs(&both, &results);
    let document = document(&both, &results, &pairs).with(records(&pairs));
    print(&document.show(args.output.format, "compare", &data(&results, &pairs)))?;
    overloaded(results.iter().filter(|r| is_overloaded(r)).count(), results.len());
    Ok(if results.iter().all(|r| r.measured.is_sound()) { DONE } else { MISSED })
}

/// Pairs the numbers of both runs, in the order of the first. What only one of two runs of a system
/// counted by packet, such as cycles by cause, the other has none of.
fn pairs(plans: &[Plan; 2], results: &[RunResult; 2]) -> Pairs {
    let [a, b] = results.each_ref().map(|r| r.measured.numbers());
    let same = plans[0].system == plans[1].system;
    let value = |metric: &Metric, of: &Numbers| match of.get(metric.name) {
        Some(n) if metric.kind == Kind::Rate => Some(rounded(n.value)),
        Some(n) => Some(n.value),
        None => (same && metric.is_by_packet()).then_some(0.0),
    };
    let only_b = b.0.iter().filter(|n| a.get(&n.name).is_none());
    let metric = |n: &Number| plans.iter().find_map(|plan| plan.system.metric(&n.name));
    let all = a.0.iter().chain(only_b).filter_map(metric);
    let mut all: Pairs = all.map(|m| (m, Pair::new(value(&m, &a), value(&m, &b)))).collect();
    all.sort_by_key(|(m, _)| (m.is_by_packet(), m.kind == Kind::Latency));
    all
}

/// Returns whether more of a number is better, if it is judged at all.
fn judged(metric: &Metric) -> Option<bool> {
    (metric.better != Better::Neither).then(|| metric.is_better_high())
}

/// Returns a record for each number, by the name in `list --metrics`.
fn records(pairs: &Pairs) -> Vec<Record> {
    #[derive(Serialize)]
    struct Row<'a> {
        name: &'a str,
        #[serde(flatten)]
        pair: &'a Pair,
    }
    flat(pairs.iter().map(|(metric, pair)| Row { name: metric.name, pair }))
}

/// Two runs, and the pairs of their numbers, for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Comparison<'a> {
    a: &'a RunResult,
    b: &'a RunResult,
    rates: IndexMap<&'static str, &'a Pair>,
    per_packet: IndexMap<&'static str, &'a Pair>,
    latency_ns: IndexMap<&'static str, &'a Pair>,
}

fn data<'a>(results: &'a [RunResult; 2], pairs: &'a Pairs) -> Comparison<'a> {
    let named = |is: fn(&Metric) -> bool| {
        let all = pairs.iter().filter(|(metric, _)| is(metric));
        // In a result, latencies are in a group of their own.
        let own = |name: &'static str| name.split_once('.').map_or(name, |(_, own)| own);
        all.map(|(m, pair)| (own(m.name), pair)).collect()
    };
    Comparison {
        a: &results[0],
        b: &results[1],
        rates: named(|m| m.kind == Kind::Rate),
        per_packet: named(Metric::is_by_packet),
        latency_ns: named(|m| m.kind == Kind::Latency),
    }
}

fn document(plans: &[Plan; 2], results: &[RunResult; 2], pairs: &Pairs) -> Document {
    let mut doc = Document::titled("A and B, a packet");
    for (name, plan) in ["A", "B"].into_iter().zip(plans) {
        doc.line(format!("{name}  {} on {}", plan.scenario, plan.profile));
        plan.set.iter().for_each(|set| doc.line(format!("   with {set}")));
    }
    let [a, b] = results.each_ref().map(|r| &r.measured);
    let table = |title: &str| numbers(title, &["A", "B", "B - A", "B / A"], 12);
    let mut of_rates = table("rates");
    for (metric, p) in pairs.iter().filter(|(metric, _)| metric.kind == Kind::Rate) {
        let shown = Shown { unit: rate(metric.unit, 0.0).1, better: judged(metric) };
        p.row(&mut of_rates, metric.name, |x| rate(metric.unit, x).0, shown);
    }
    doc.table(of_rates);

    // Cycles by cause are in no group of counts.
    let group = |name: &str| {
        a.counts.iter().chain(&b.counts).find(|c| c.name == name).map_or(Group::Cpu, |c| c.group)
    };
    for (of, title) in GROUPS {
        let (mut differ, mut same) = (table(title), Vec::new());
        let counted = pairs.iter().filter(|(metric, _)| metric.is_by_packet());
        for (metric, p) in counted.filter(|(m, p)| group(m.name) == of && !p.is_zero()) {
            let name = metric.name;
            if let (Some(a), true) = (p.a, p.a == p.b) {
                same.push(format!("{name} {}", amount(a)));
            } else {
                p.row(&mut differ, name, amount, Shown { unit: "", better: judged(metric) });
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
    for (metric, p) in pairs.iter().filter(|(metric, _)| metric.kind == Kind::Latency) {
        p.row(&mut latency, metric.name, amount, Shown { unit: "", better: judged(metric) });
    }
    doc.table(latency);
    for (name, result) in ["A", "B"].into_iter().zip(results) {
        audit(&mut doc, name, result);
    }
    doc
}
