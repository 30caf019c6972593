//! `doorbell advise`: which settings serve a goal best on a platform with a load.

use crate::{args, plan};
use doorbell_console::output::print;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{
    Cell, Document, NUMBER, Table, amount, count, flat, people, wrapped,
};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_spec::SettingError;
use doorbell_spec::key::{self, Key, Value};
use doorbell_study::advise::{
    self, Advice, BUDGET, Bound, Change, FACTOR, Flip, Goal, Keep, LEAST, Other, OtherValue, Over,
    Question, Switch, Variable,
};
use doorbell_study::axis::Axis;
use doorbell_systems::metrics::{Kind, Metric};
use doorbell_systems::result::Provenance;
use doorbell_systems::{Plan, Profile, Registry};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The frames of a capture that a run sends at least, and the packets of a generator at most.
const FRAMES: usize = 48_000;

pub(crate) fn advise(registry: &'static Registry, args: &args::Advise) -> Result<u8, Error> {
    let mut plan = plan::plan_of_today(registry, &args.scenario, &args.today, &args.changes)?;
    let profile = plan::profile(registry, &args.scenario, &args.changes)?;
    let capture = plan::capture(&plan)?;
    fit_length(&mut plan, capture.as_ref().map(|c| c.frames.len()), args)?;
    let system = plan.system;
    let goal = Goal::parse(system, &args.goal).map_err(|e| input!("--goal: {e}"))?;
    let keep = args.keep.iter().map(|k| Keep::parse(system, k).map_err(|e| input!("--keep {e}")));
    let (keep, variables) = (keep.collect::<Result<_, _>>()?, variables(&plan, args)?);
    if variables.is_empty() {
        return Err(input!(
            "there is nothing to search: all settings of {} are fixed",
            system.name
        ));
    }
    let asked = Asked { plan, profile, goal, keep, variables };
    let advice = asked.answer(args.output.quiet)?;
    let document = document(&asked.plan, &advice).with(flat(&advice.settings));
    print(&document.show(args.output.format, "advise", &asked.data(&advice)?))?;
    Ok(if advice.nearest.is_some() { MISSED } else { DONE })
}

/// An answer for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Advised<'a> {
    of: Provenance,
    /// The values of each setting that were searched, today's first.
    searched: IndexMap<&'static str, Vec<String>>,
    #[serde(flatten)]
    advice: &'a Advice,
}

/// A question, and the plan that it is about.
pub(crate) struct Asked {
    plan: Plan,
    profile: Profile,
    goal: Goal,
    keep: Vec<Keep>,
    variables: Vec<Variable>,
}

impl Asked {
    /// Asks again what had this result, of the file `name`.
    pub(crate) fn again(registry: &Registry, name: &str, kept: &Json) -> Result<Asked, Error> {
        let of = Provenance::deserialize(&kept["of"]).map_err(|e| input!("{name}: of: {e}"))?;
        let (plan, profile) = (registry.again(name, &of)?, registry.profile(&of.profile));
        let at = |e: &dyn std::fmt::Display| input!("{name}: {e}");
        if kept["interrupted"] != false {
            return Err(at(&"it was interrupted, so that no other is the same"));
        }
        let searched = kept["searched"].as_object();
        let searched = searched.ok_or_else(|| at(&"it does not tell what was searched"))?;
        let text = |v: &Json| v.as_str().unwrap_or_default().to_owned();
        let all = |v: &Json| v.as_array().cloned().unwrap_or_default();
        let variable = |(name, values): (&String, &Json)| {
            let key = key::find(&plan.values.keys(), name)?;
            let values =
                all(values).iter().map(|v| key.parse(&text(v))).collect::<Result<_, _>>()?;
            let command = plan.system.knobs.iter().find(|k| k.key == key.name).map(|k| k.command);
            Ok::<_, SettingError>(Variable { key, values, command })
        };
        let given = all(&kept["keep"]).into_iter().filter(|k| k["implied"] == false);
        let keep = given.map(|k| Keep::parse(plan.system, &text(&k["text"])));
        Ok(Asked {
            goal: Goal::parse(plan.system, &text(&kept["goal"])).map_err(|e| at(&e))?,
            keep: keep.collect::<Result<_, _>>().map_err(|e| at(&e))?,
            variables: searched
                .iter()
                .map(variable)
                .collect::<Result<_, _>>()
                .map_err(|e| at(&e))?,
            profile: profile.map_err(|e| at(&e))?,
            plan,
        })
    }

    /// Returns the plan that it is about.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Searches, until interrupted.
    pub(crate) fn answer(&self, quiet: bool) -> Result<Advice, Error> {
        let plan = &self.plan;
        let capture = plan::capture(plan)?;
        let question = Question {
            system: plan.system,
            values: &plan.values,
            frames: capture.as_ref().map(|c| &c.frames),
            goal: self.goal,
            keep: self.keep.clone(),
            variables: self.variables.clone(),
            budget: BUDGET,
        };
        let interrupt = Interrupt::watched().map_err(Error::at("signals"))?;
        let progress = Progress::new(&plan.scenario, quiet);
        let mut tell = |what: &str, done: usize, of: usize| {
            progress.doing(format!("{}: {what}", plan.scenario));
            progress.at(done as u64, of as u64);
            !interrupt.came()
        };
        let advice = advise::advise(&question, &self.profile, plan.seed(), &mut tell);
        advice.map_err(|e| plan::of_run(&plan.scenario, e))
    }

    /// Returns the advice for programs, with its origin.
    pub(crate) fn data<'a>(&self, advice: &'a Advice) -> Result<Advised<'a>, Error> {
        let values = |v: &Variable| v.values.iter().map(|value| v.key.said(value)).collect();
        let searched = self.variables.iter().map(|v| (v.key.name, values(v))).collect();
        Ok(Advised { of: plan::provenance(&self.plan)?, searched, advice })
    }
}

/// Sends a short capture several times, and fewer packets than a long run of the generator, unless
/// their number was given: the rates of a few thousand packets are not steady enough to tell
/// settings apart, and those of many take long.
fn fit_length(plan: &mut Plan, frames: Option<usize>, args: &args::Advise) -> Result<(), Error> {
    let given = |key: &str| args.changes.sets.iter().any(|s| s.trim_start().starts_with(key));
    if let Some(frames) = frames {
        let rounds = FRAMES.div_ceil(frames.max(1));
        let asked = args.changes.rounds.is_some() || given("traffic.rounds");
        if !asked && rounds > 1 && plan.values.word("traffic.times") == "full" {
            plan.set(&format!("traffic.rounds={rounds}"))?;
        }
    } else if plan.values.word("traffic.kind") == "pktgen"
        && plan.values.number("traffic.packets") > FRAMES as f64
        && !given("traffic.packets")
    {
        plan.set(&format!("traffic.packets={FRAMES}"))?;
    }
    Ok(())
}

/// Returns the settings to search, today's value first: those of `--over`, or the system's knobs
/// that have an effect, except `--fix`.
fn variables(plan: &Plan, args: &args::Advise) -> Result<Vec<Variable>, Error> {
    let keys = plan.values.keys();
    for fixed in &args.fix {
        key::find(&keys, fixed).map_err(|e| input!("--fix {fixed}: {e}"))?;
    }
    let variable = |key: &'static Key, values: Vec<Value>, command| {
        Variable::new(key, plan.values.get(key.name).clone(), values, command)
    };
    let knob = |name: &str| plan.system.knobs.iter().find(|k| k.key == name);
    let mut all = Vec::new();
    for over in &args.over {
        let axis = Axis::parse("--over", over)?;
        let key = key::find(&keys, &axis.key).map_err(|e| input!("--over {over}: {e}"))?;
        let values = axis.values.iter().map(|v| key.parse(v));
        let values = values.collect::<Result<_, _>>().map_err(|e| input!("--over {over}: {e}"))?;
        all.push(variable(key, values, knob(key.name).map(|k| k.command)));
    }
    if !all.is_empty() {
        return Ok(all);
    }
    let has_effect = |key: &Key| {
        plan.values.idle(key).is_none()
            || plan.system.knobs.iter().any(|other| {
                other.values.iter().any(|v| {
                    let mut values = plan.values.clone();
                    values.set(&format!("{}={v}", other.key)).is_ok() && values.idle(key).is_none()
                })
            })
    };
    for knob in plan.system.knobs {
        let key = key::find(&keys, knob.key).map_err(|e| input!("{e}"))?;
        if args.fix.iter().any(|f| f == key.name) || !has_effect(key) {
            continue;
        }
        // A value that another key does not allow cannot run, and is not tried.
        let allowed = |v: &Value| match (key.name, v) {
            ("run.cores", Value::Number(n)) => *n <= plan.values.number("cpu.cores"),
            _ => true,
        };
        let values = knob.values.iter().filter_map(|v| key.parse(v).ok()).filter(allowed).collect();
        all.push(variable(key, values, Some(knob.command)));
    }
    Ok(all)
}

/// Returns the number of a metric in the unit that people use.
fn shown(metric: &Metric, value: f64) -> String {
    match metric.kind {
        Kind::Latency => format!("{} us", amount(value / 1000.0)),
        _ => {
            let (value, unit) = people(metric.unit, value);
            format!("{} {unit}", amount(value)).trim_end().to_owned()
        }
    }
}

fn percent(x: f64) -> String {
    format!("{:+.1} %", x * 100.0)
}

/// Returns the change of a number, with its share.
fn moved(c: &Change) -> String {
    let share =
        if c.from == 0.0 { String::new() } else { format!(" ({})", percent(c.to / c.from - 1.0)) };
    format!("{} -> {}{share}", shown(&c.metric, c.from), shown(&c.metric, c.to))
}

fn document(plan: &Plan, a: &Advice) -> Document {
    let mut doc =
        Document::titled(format!("{} on {}: advice for {}", plan.scenario, plan.profile, a.goal));
    plan.set.iter().for_each(|set| doc.line(format!("with {set}")));
    if let Some(nearest) = &a.nearest {
        doc.line(format!("{} today: {}", a.goal, shown(&a.reached.metric, a.reached.from)));
        a.keep.iter().for_each(|k| doc.line(bound(k)));
        unkept(&mut doc, a, nearest);
        return doc;
    }
    doc.line(format!("{}: {}", a.goal, moved(&a.reached)));
    a.keep.iter().for_each(|k| doc.line(bound(k)));
    if !a.limit.resources.is_empty() {
        doc.line(format!("the limit today is {}", a.limit.said()));
    }
    if !a.settings.is_empty() && !a.limit_then.resources.is_empty() {
        doc.line(format!("the limit then is {}", a.limit_then.said()));
    }
    if a.settings.is_empty() {
        doc.line("today's settings are as good as any that were tried");
    } else {
        settings(&mut doc, a);
    }
    worth(&mut doc, a);
    let mut elsewhere = Table::new(["what changes", "today", "then"]).right(1..3);
    for c in a.elsewhere.iter().filter(|c| c.metric != a.reached.metric) {
        let Change { metric, from, to } = c;
        elsewhere.row([metric.name.to_owned(), shown(metric, *from), shown(metric, *to)]);
    }
    doc.table(elsewhere);
    a.over.iter().for_each(|over| doc.table(gains(over, a)));
    hangs_on(&mut doc, a);
    searched(&mut doc, a);
    doc
}

/// Returns a line about a bound.
fn bound(k: &Bound) -> String {
    let with = k.reached.map_or("no number".to_owned(), |n| shown(&k.metric, n));
    let holds = if k.holds { "holds" } else { "CANNOT BE KEPT" };
    let why = match k.implied {
        true => format!("; the offered load, lifted by --keep '{}>0'", k.metric.name),
        false => String::new(),
    };
    format!("--keep '{}' {holds}: {with}{why}", k.text)
}

/// Adds the settings that come nearest to the bounds.
fn unkept(doc: &mut Document, a: &Advice, nearest: &[Other]) {
    let so_far = if a.interrupted { ", of those that were run" } else { "" };
    doc.gap();
    match nearest {
        [] => doc.line(format!("today's settings come nearest{so_far}; there is no advice")),
        _ => {
            doc.line(format!("these settings come nearest{so_far}; there is no advice"));
            let mut table = Table::new(["setting", "today", "nearest"]);
            nearest.iter().for_each(|o| table.row([o.key, &o.from, &o.to]));
            doc.table(table);
        }
    }
    searched(doc, a);
}

/// Adds how much of the space was searched, and how sure the best is.
fn searched(doc: &mut Document, a: &Advice) {
    let (runs, all) = (count(a.runs as u64), count(a.designs as u64));
    let found = if a.interrupted { "; interrupted, this is the best so far" } else { "" };
    doc.gap();
    doc.line(format!("{runs} of {all} combinations of settings were run{found}"));
    let best = a.best.filter(|best| (best / a.reached.to - 1.0).abs() > LEAST);
    if let Some(best) = best {
        doc.line(format!(
            "the best of them has {}, which the settings farther from today's are not worth",
            shown(&a.reached.metric, best)
        ));
    }
    if a.agree < a.searches {
        doc.line(format!(
            "{} of {} searches from other starts ended in worse ones: there may be better ones \
             than the best",
            a.searches - a.agree,
            a.searches
        ));
    }
}

fn settings(doc: &mut Document, a: &Advice) {
    let heads = ["set", "today", "to", "gain", "error", "without it"];
    let mut table = Table::new(heads).right(3..6);
    let error = |gain: Option<f64>, error: Option<f64>| match (gain, error) {
        (_, Some(e)) => format!("±{:.1} %", e * 100.0),
        (Some(_), None) => "unknown".to_owned(),
        (None, None) => String::new(),
    };
    for s in &a.settings {
        let gain = s.gain.map_or("with the next".to_owned(), percent);
        let without = s.without.map_or("cannot run".to_owned(), percent);
        table.row([s.key, &s.from, &s.to, &gain, &error(s.gain, s.error), &without]);
    }
    if a.settings.len() > 1 {
        let gain = a.settings.iter().filter_map(|s| s.gain).sum();
        table.row(["all", "", "", &percent(gain), &error(Some(gain), a.error), ""]);
    }
    doc.table(table);
    for s in &a.settings {
        if let Some(command) = &s.command {
            doc.line(format!("{}: {command}", s.key));
        }
        let costs = s.costs.iter().map(|c| format!("{} {}", c.metric.name, moved(c)));
        let costs: Vec<String> = costs.collect();
        if !costs.is_empty() {
            doc.line(wrapped("   costs:", &costs));
        }
    }
}

/// Adds all settings with the goal's change for other values.
fn worth(doc: &mut Document, a: &Advice) {
    if a.worth.is_empty() {
        return;
    }
    doc.gap();
    doc.line(format!("what each setting is worth: the gain of {} with other values", a.goal));
    for w in &a.worth {
        let other = |OtherValue { value, gain, breaks }: &OtherValue| {
            let gain = gain.map_or("cannot run".to_owned(), percent);
            let broken = if breaks.is_empty() { "" } else { " (breaks " };
            let end = if breaks.is_empty() { "" } else { ")" };
            format!("{value} {gain}{broken}{}{end}", breaks.join(", "))
        };
        let others: Vec<String> = w.others.iter().map(other).collect();
        doc.line(wrapped(&format!("{}={}:", w.key, w.value), &others));
    }
}

/// Returns a table of the gains over a key of the traffic.
fn gains(over: &Over, a: &Advice) -> Table {
    let heads = std::iter::once(format!("gain over {}", over.key));
    let switch = |s: &Switch| format!("{} {}", s.key, s.to);
    let heads: Vec<String> = heads.chain(a.switches.iter().map(switch)).collect();
    let widths = heads.iter().map(|h| h.len().max(NUMBER)).collect();
    let columns = heads.len();
    let mut table = Table::new(heads.iter().map(String::as_str)).right(1..columns).fixed(widths);
    for at in &over.at {
        let gain = |g: &Option<f64>| Cell::from(g.map_or("-".to_owned(), percent));
        table.row(std::iter::once(Cell::from(at.value.as_str())).chain(at.gains.iter().map(gain)));
    }
    table
}

/// Adds the constants that change the advice.
fn hangs_on(doc: &mut Document, a: &Advice) {
    if a.flips.is_empty() && a.firm == 0 {
        return;
    }
    doc.gap();
    for Flip { setting, to, constant, unit, value, at, source } in &a.flips {
        let [value, at] = [*value, *at].map(|n| format!("{} {unit}", amount(n)));
        doc.line(format!(
            "{setting}={to} does not pay if {constant} is {} instead of {} ({source})",
            at.trim_end(),
            value.trim_end()
        ));
    }
    let others = if a.flips.is_empty() { "none of the" } else { "none of the other" };
    doc.line(format!(
        "{others} {} constants that are assumed or fitted changes this between {} and {FACTOR} \
         times its value",
        a.firm,
        1.0 / FACTOR
    ));
}
