//! The summary of a system: the cost of a packet before and after its optimisation, and the runs
//! that a page draws besides. Each run is that of `doorbell run`, with the switch and with every
//! `--set` that the system has.

use crate::plan;
use doorbell_console::Error;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{Document, NUMBER, amount, numbers, people_of};
use doorbell_sim::Unwatched;
use doorbell_study::figures::Setting;
use doorbell_study::shown::Shown;
use doorbell_systems::Plan;
use doorbell_systems::Registry;
use doorbell_systems::bill::PARTS;
use doorbell_systems::published::Headline;
use doorbell_systems::result::RunResult;

/// A run with its plan.
pub(crate) struct Ran {
    pub(crate) plan: Plan,
    pub(crate) result: RunResult,
}

/// A curve's numbers.
pub(crate) struct Points {
    pub(crate) unit: &'static str,
    /// The description of the key.
    pub(crate) about: &'static str,
    pub(crate) more_is_better: bool,
    /// For each value of the key, before and after.
    pub(crate) at: Vec<(f64, [f64; 2])>,
}

/// Both sides of a headline.
pub(crate) struct Sides {
    pub(crate) headline: Headline,
    pub(crate) bill: [Ran; 2],
    pub(crate) curve: Option<Points>,
    pub(crate) moving: Option<[Ran; 2]>,
    pub(crate) waiting: Option<[Ran; 2]>,
}

/// Runs a headline; `all`: with its curve and its other scenarios.
pub(crate) fn run(
    registry: &Registry,
    headline: Headline,
    sets: &[Setting],
    all: bool,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Sides, Error> {
    let points = headline.curve.filter(|_| all).map_or(0, |c| c.values.len());
    let (mut done, runs) = (0, 2 * (1 + points + 2 * usize::from(all)));
    let mut both = |scenario: &str, more: &str| -> Result<[Ran; 2], Error> {
        let [off, on] = headline.sides().map(|side| {
            if interrupt.came() {
                return Err(Error::Interrupted("nothing was written"));
            }
            progress.at(done, runs as u64);
            done += 1;
            ran(registry, scenario, side, more, sets)
        });
        Ok([off?, on?])
    };
    let bill = both(headline.scenario, "")?;
    let moving = headline.moving.filter(|_| all).map(|s| both(s, "")).transpose()?;
    let waiting = headline.waiting.filter(|_| all).map(|s| both(s, "")).transpose()?;
    let mut curve = None;
    if let Some(c) = headline.curve.filter(|_| all) {
        let system = registry.scenario(c.scenario)?.system;
        let shown = Shown::parse("--show", c.show, system)?;
        let (mut at, mut key) = (Vec::new(), ("", ""));
        for value in c.values {
            let sides = both(c.scenario, &format!("{}={value}", c.key))?;
            let [off, on] = [
                shown.of(&sides[0].result.measured.numbers())?,
                shown.of(&sides[1].result.measured.numbers())?,
            ];
            at.push((*value, [off, on].map(|n| people_of(&shown.sum, n.0))));
            let found = sides[0].plan.values.iter().find(|(k, _)| k.name == c.key);
            key = found.map_or(key, |(k, _)| (k.unit(), k.about));
        }
        let more_is_better = shown.sum.is_better_high();
        curve = Some(Points { unit: key.0, about: key.1, more_is_better, at });
    }
    Ok(Sides { headline, bill, curve, moving, waiting })
}

fn ran(
    registry: &Registry,
    scenario: &str,
    side: &str,
    more: &str,
    sets: &[Setting],
) -> Result<Ran, Error> {
    let mut plan = registry.plan(scenario)?;
    for set in sets {
        if !plan.values.keys().iter().any(|k| k.name == set.key) {
            continue;
        }
        plan.set(&format!("{}={}", set.key, set.value))?;
    }
    plan.set(side)?;
    if !more.is_empty() {
        plan.set(more)?;
    }
    let measured = plan
        .system
        .run(&plan.values, None, &mut Unwatched)
        .map_err(|e| plan::of_run(scenario, e))?;
    Ok(Ran { result: plan::result(&plan, measured)?, plan })
}

impl Sides {
    /// Returns the reason why a run failed its audit, if one did.
    pub(crate) fn unsound(&self) -> Option<String> {
        let more = self.moving.iter().chain(&self.waiting).flatten();
        self.bill.iter().chain(more).find(|r| !r.result.measured.is_sound()).map(|r| {
            let why = r.result.measured.verdict.audit.first().map_or("", String::as_str);
            format!("{} with {}: the audit failed: {why}", r.plan.scenario, r.plan.set.join(", "))
        })
    }

    /// Returns the cost of a packet for people.
    pub(crate) fn document(&self, system: &str) -> Document {
        let [off, on] = self.bill.each_ref().map(|r| r.result.measured.per_packet());
        let value = |side: &[(String, f64)], name: &str| {
            side.iter().find(|(n, _)| n == name).map_or(0.0, |(_, v)| *v)
        };
        let [before, after] = self.headline.sides();
        let scenario = self.headline.scenario;
        let mut doc = Document::titled(format!(
            "{system}: a packet's bill in {scenario}: {before}, then {after}"
        ));
        for part in &PARTS {
            let mut items = part.of(&off);
            items.extend(part.of(&on).into_iter().filter(|(n, _, _)| value(&off, n) == 0.0));
            let mut table = numbers(part.title, &["before", "after", "difference"], NUMBER);
            let mut row = |name: &str, [a, b]: [f64; 2]| {
                let difference = if a == b { "same".into() } else { amount(b - a) };
                table.row([name, &amount(a), &amount(b), &difference]);
            };
            let mut sums = [0.0; 2];
            for (name, title, _) in &items {
                let both = [value(&off, name), value(&on, name)];
                sums = [sums[0] + both[0], sums[1] + both[1]];
                row(title, both);
            }
            if items.len() > 1 {
                row("all", sums);
            }
            doc.table(table);
        }
        doc
    }
}
