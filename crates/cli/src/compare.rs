//! `doorbell compare`: two runs, side by side.

use crate::args::{Compare, Format};
use crate::output::print;
use crate::plan::Plans;
use crate::text::{Table, amount, heading, rate, rate_name, wrapped};
use crate::{DONE, Error, MISSED, plan};
use doorbell_lab::result::{Group, Measured, Object, RunResult, rounded};
use doorbell_lab::{Plan, Setting};
use serde::Serialize;

/// One number in both runs.
#[derive(Serialize, Clone, Debug)]
struct Pair {
    a: f64,
    b: f64,
    difference: f64,
    /// B over A; none if A is zero.
    ratio: Option<f64>,
}

impl Pair {
    fn new(a: f64, b: f64) -> Pair {
        Pair { a, b, difference: rounded(b - a), ratio: (a != 0.0).then(|| rounded(b / a)) }
    }
}

/// Numbers of both runs, by name.
type Pairs = Vec<(String, Pair)>;

pub(crate) fn compare(args: &Compare) -> Result<u8, Error> {
    let b = args.b.as_ref().unwrap_or(&args.a);
    let with: Vec<Setting> = args.with.iter().map(|w| Setting::given("--with", w)).collect();
    let mut plans = Plans::default();
    plans.add(&args.a, &args.changes, &[])?;
    plans.add(b, &args.changes, &with)?;
    let plans = plans.finish()?;
    let [a, b] = &plans[..] else { unreachable!("two were added") };
    let results = [plan::execute(a, args.quiet)?, plan::execute(b, args.quiet)?];
    print(&match args.format {
        Format::Json => json(&plans, &results),
        Format::Table => table(&plans, &results),
    })?;
    Ok(if results.iter().all(|r| r.measured.is_sound()) { DONE } else { MISSED })
}

/// Names of both, in the order of the first; what only one has is zero in the other.
fn pairs<N: Into<String>>(a: Vec<(N, f64)>, b: Vec<(N, f64)>) -> Pairs {
    let owned = |v: Vec<(N, f64)>| {
        v.into_iter().map(|(n, x)| (n.into(), x)).collect::<Vec<(String, f64)>>()
    };
    let (a, b) = (owned(a), owned(b));
    let find = |v: &[(String, f64)], name: &str| {
        v.iter().find(|(n, _)| n == name).map_or(0.0, |(_, x)| *x)
    };
    let only_b = b.iter().filter(|(n, _)| a.iter().all(|(m, _)| m != n));
    let names: Vec<&String> = a.iter().chain(only_b).map(|(n, _)| n).collect();
    names.into_iter().map(|n| (n.clone(), Pair::new(find(&a, n), find(&b, n)))).collect()
}

fn rates(m: &Measured) -> Vec<(&'static str, f64)> {
    m.rates.iter().map(|r| (r.name, rounded(r.value))).collect()
}

fn json(plans: &[Plan], results: &[RunResult; 2]) -> String {
    #[derive(Serialize)]
    struct Side<'a> {
        scenario: &'a str,
        profile: &'a str,
        set: &'a [String],
        seed: u64,
        packets: u64,
        audit: &'a [String],
    }
    let side = |i: usize| Side {
        scenario: &plans[i].scenario,
        profile: &plans[i].profile,
        set: &plans[i].set,
        seed: results[i].seed,
        packets: results[i].measured.packets,
        audit: &results[i].measured.audit,
    };
    let [a, b] = results;
    let (a, b) = (&a.measured, &b.measured);
    #[derive(Serialize)]
    struct Comparison<'a> {
        a: Side<'a>,
        b: Side<'a>,
        rates: Object<std::vec::IntoIter<(String, Pair)>>,
        per_packet: Object<std::vec::IntoIter<(String, Pair)>>,
        latency_ns: Object<std::vec::IntoIter<(String, Pair)>>,
    }
    let all = Comparison {
        a: side(0),
        b: side(1),
        rates: Object(pairs(rates(a), rates(b)).into_iter()),
        per_packet: Object(pairs(a.per_packet(), b.per_packet()).into_iter()),
        latency_ns: Object(pairs(a.latency_ns(), b.latency_ns()).into_iter()),
    };
    serde_json::to_string_pretty(&all)
        .unwrap_or_else(|e| unreachable!("plain numbers serialise: {e}"))
        + "\n"
}

const NUMBER: usize = 12;

fn table(plans: &[Plan], results: &[RunResult; 2]) -> String {
    let mut text = heading("A and B, a packet");
    for (name, plan) in ["A", "B"].into_iter().zip(plans) {
        text += &format!(" {name}  {} on {}\n", plan.scenario, plan.profile);
        for set in &plan.set {
            text += &format!("    with {set}\n");
        }
    }
    let [a, b] = results;
    let (a, b) = (&a.measured, &b.measured);
    let mut table = Table::new("rates", &["A", "B", "B - A", "B / A"], &[NUMBER]);
    for (name, p) in pairs(rates(a), rates(b)) {
        let shown = |x: f64| rate(&name, x).0;
        let unit = rate(&name, 0.0).1;
        table.row(
            &rate_name(&name),
            &[shown(p.a), shown(p.b), shown(p.difference), ratio(&p)],
            unit,
        );
    }
    text += &table.finish();

    let counted = pairs(a.per_packet(), b.per_packet());
    // Cycles by cause are in no group of counts.
    let group = |name: &str| {
        a.counts.iter().chain(&b.counts).find(|c| c.name == name).map_or(Group::Cpu, |c| c.group)
    };
    for (of, title) in
        Group::ALL.into_iter().zip(["bus", "CPU", "driver", "device", "wire", "faults"])
    {
        let mut table = Table::new(title, &["A", "B", "B - A", "B / A"], &[NUMBER]);
        let mut same = Vec::new();
        for (name, p) in
            counted.iter().filter(|(name, p)| group(name) == of && (p.a != 0.0 || p.b != 0.0))
        {
            let short =
                name.strip_prefix("driver_").or(name.strip_prefix("device_")).unwrap_or(name);
            if p.a == p.b {
                same.push(format!("{short} {}", amount(p.a)));
            } else {
                table.row(short, &[amount(p.a), amount(p.b), amount(p.difference), ratio(p)], "");
            }
        }
        let differs = table.finish();
        text += &differs;
        if !same.is_empty() {
            let title = if differs.is_empty() {
                format!("{title}, the same in both:")
            } else {
                "the same in both:".to_owned()
            };
            text += if differs.is_empty() { "\n" } else { "" };
            text += &wrapped(&title, &same);
        }
    }
    let mut table = Table::new("latency, ns", &["A", "B", "B - A", "B / A"], &[NUMBER]);
    for (name, p) in pairs(a.latency_ns(), b.latency_ns()) {
        table.row(&name, &[amount(p.a), amount(p.b), amount(p.difference), ratio(&p)], "");
    }
    text += &table.finish();
    for (name, result) in ["A", "B"].into_iter().zip(results) {
        text += &crate::run::audit(name, result);
    }
    text
}

fn ratio(p: &Pair) -> String {
    p.ratio.map_or("-".to_owned(), |r| format!("{r:.3}"))
}
