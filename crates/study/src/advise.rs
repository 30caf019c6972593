//! Advice: the settings of driver, link and host that serve a goal best, what each is worth, what
//! it costs elsewhere, and which assumption it hangs on.
//!
//! A system's knobs ([`doorbell_systems::knobs`]) are what people can set on a real one. [`search`]
//! finds the best design that keeps the bounds; a load that is offered whatever the settings are is
//! one of them. Each setting is then compared with today's value and with nearer ones, all others
//! in place, in pairs of runs ([`bench`]): what gains no more than its error or [`LEAST`] goes
//! back. Last, each constant that the profile assumes or fitted is moved, up to twice and half of
//! it, to find where a setting ceases to pay.

mod bench;
pub mod search;

use crate::limits;
use bench::Bench;
use doorbell_sim::{Unwatched, traffic::Frames};
use doorbell_spec::key::{Key, Kind, Value, Values, leading_number};
use doorbell_spec::{SettingError, refuse};
use doorbell_systems::limits::Limits;
use doorbell_systems::metrics::Metric;
use doorbell_systems::profile::{Profile, Source};
use doorbell_systems::result::{Measured, Outcome, rounded, significant};
use doorbell_systems::system::System;
use doorbell_systems::{RunError, in_parallel};
use schemars::JsonSchema;
use search::{Design, Score, Space, designs};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// The least gain of a setting that is worth a change.
pub const LEAST: f64 = 0.005;
/// The factor by which a constant is moved at most, up and down.
pub const FACTOR: f64 = 2.0;
/// The packets that all runs of a search send together, those of sockets counted sixteen times. It
/// is a minute of one core, about, and no clock is asked: the same question has the same answer on
/// any machine.
pub const BUDGET: u64 = 100_000_000;
/// The packets of a generator that take as long to simulate as one that goes through sockets.
const SOCKET: u64 = 16;
/// The fewest runs of a search, and the most.
const RUNS: (usize, usize) = (48, 4096);
/// The most runs of a search that does not run all designs.
const PART: usize = 960;
/// The goal that all settings together may give up by staying near today's, relative.
const GIVEN_UP: f64 = 2.0 * LEAST;
/// The most costs of a setting that are told.
const COSTS: usize = 4;
/// Halvings of the place where a setting ceases to pay.
const HALVINGS: u32 = 5;

/// A setting under search: a knob, or a key that the user named.
#[derive(Clone, Debug)]
pub struct Variable {
    /// The key.
    pub key: &'static Key,
    /// The values to try; the first is today's.
    pub values: Vec<Value>,
    /// The command that sets it on a real system, if it is known.
    pub command: Option<&'static str>,
}

impl Variable {
    /// Makes a variable of today's value and others to try.
    pub fn new(
        key: &'static Key,
        today: Value,
        others: impl IntoIterator<Item = Value>,
        command: Option<&'static str>,
    ) -> Variable {
        let mut values = vec![today];
        for value in others {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Variable { key, values, command }
    }

    /// Returns how far a value is from today's, the first.
    fn distance(&self, v: usize) -> f64 {
        match (&self.values[0], &self.values[v]) {
            (a, b) if a == b => 0.0,
            (Value::Number(a), Value::Number(b)) if *a > 0.0 && *b > 0.0 => libm::log(a / b).abs(),
            _ => 1.0,
        }
    }

    /// Returns the command with a value, if it is known.
    pub(crate) fn command(&self, value: &Value) -> Option<String> {
        self.command.map(|c| c.replace("{}", &value.to_string()))
    }
}

/// A number that is to be as high or as low as it is better.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// The number.
    pub metric: Metric,
}

/// A bound that a number must keep.
#[derive(Clone, PartialEq, Debug)]
pub struct Keep {
    /// The number.
    pub metric: Metric,
    /// The number must be above the bound, or else below it.
    pub above: bool,
    /// The bound, in the number's unit.
    pub bound: f64,
    /// The bound as it was given.
    pub text: String,
    /// It is the offered load, which nobody gave as a bound.
    pub implied: bool,
}

fn name_of<S: Serializer>(metric: &Metric, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(metric.name)
}

impl Goal {
    /// Parses the name of a number.
    ///
    /// # Errors
    /// The system has no such number.
    pub fn parse(system: &System, name: &str) -> Result<Goal, SettingError> {
        Ok(Goal { metric: system.find_metric(name)? })
    }

    fn of(&self, m: &Measured) -> Option<f64> {
        m.number(self.metric.name)
    }

    /// Returns by how much `to` is better than `from`, relative to it.
    fn gain(&self, from: f64, to: f64) -> f64 {
        let change = if from == 0.0 { 0.0 } else { to / from - 1.0 };
        if self.metric.is_better_high() { change } else { -change }
    }
}

impl Keep {
    /// Parses `latency_ns.p99<50us` or `packets_per_s>10e6`.
    ///
    /// # Errors
    /// Another form, a number that the system has not, or a unit of another dimension.
    pub fn parse(system: &System, text: &str) -> Result<Keep, SettingError> {
        let Some(at) = text.find(['<', '>']) else {
            refuse!("`{text}`: allowed is NAME<BOUND or NAME>BOUND, such as latency_ns.p99<50us");
        };
        let (name, bound) = (text[..at].trim(), text[at + 1..].trim());
        let metric = system.find_metric(name)?;
        let wrong = |why: String| SettingError(format!("`{text}`: {why}"));
        let Some((number, unit)) = leading_number(bound) else {
            return Err(wrong(format!("`{bound}` is no number")));
        };
        let size = match unit {
            "" => 1.0,
            unit => system.sum(name).and_then(|s| s.size_of(Some(unit))).map_err(wrong)?,
        };
        let bound = number * size;
        let above = text[at..].starts_with('>');
        Ok(Keep { metric, above, bound, text: text.to_owned(), implied: false })
    }

    /// Returns the bound that the packet rate of `today` stays, less its error, or less [`LEAST`]
    /// if that is more.
    fn load(system: &System, today: &Measured) -> Option<Keep> {
        let rate = today.packets_per_s();
        let error = today.error(OFFERED).unwrap_or(0.0).max(LEAST * rate);
        let bound = rate - error;
        if !bound.is_finite() || bound <= 0.0 {
            return None;
        }
        // Six digits, rounded down: the text is the bound.
        let digit = 10f64.powi(libm::log10(bound).floor() as i32 - 5);
        let bound = significant((bound / digit).floor() * digit, 6);
        let text = match bound {
            n if n >= 1e6 => format!("{OFFERED}>{}Mpps", significant(n / 1e6, 6)),
            n => format!("{OFFERED}>{n}"),
        };
        let keep = Keep::parse(system, &text).ok()?;
        Some(Keep { implied: true, ..keep })
    }

    /// Returns by how much a result misses the bound, relative to it.
    fn missed(&self, m: &Measured) -> f64 {
        let Some(n) = m.number(self.metric.name) else { return f64::INFINITY };
        let over = if self.above { self.bound - n } else { n - self.bound };
        (over / self.bound.abs().max(1e-12)).max(0.0)
    }
}

/// A question.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The system.
    pub system: &'static System,
    /// Today's values.
    pub values: &'a Values,
    /// The frames of the capture that the values name.
    pub frames: Option<&'a Arc<Frames>>,
    /// The number to improve.
    pub goal: Goal,
    /// Bounds that must hold.
    pub keep: Vec<Keep>,
    /// The settings to search.
    pub variables: Vec<Variable>,
    /// The work of the search, [`BUDGET`] where nothing else is asked for.
    pub budget: u64,
}

/// A number before and after.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChangedNumber")]
pub struct Change {
    /// The number, by name in JSON.
    #[serde(rename = "name", serialize_with = "name_of")]
    #[schemars(with = "String")]
    pub metric: Metric,
    /// Today.
    pub from: f64,
    /// With the advice.
    pub to: f64,
}

/// A bound, and whether it is kept.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "KeptBound")]
pub struct Bound {
    /// The bound, as `--keep` takes it.
    pub text: String,
    /// It is the offered load, which nobody gave as a bound.
    pub implied: bool,
    /// It holds with the advice, or with the nearest settings if there is no advice.
    pub holds: bool,
    /// The number that it bounds, by name in JSON.
    #[serde(rename = "name", serialize_with = "name_of")]
    #[schemars(with = "String")]
    pub metric: Metric,
    /// That number, with the advice or the nearest settings.
    pub reached: Option<f64>,
}

/// A value of a key other than today's.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Other {
    /// The key.
    pub key: &'static str,
    /// Today's value.
    pub from: String,
    /// The other one.
    pub to: String,
}

/// A recommended setting.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "AdvisedSetting")]
pub struct Setting {
    /// The key.
    pub key: &'static str,
    /// Today's value.
    pub from: String,
    /// The recommended one.
    pub to: String,
    /// The command that sets it on a real system.
    pub command: Option<String>,
    /// The gain of the goal by it behind the settings before it, relative to today's number, so
    /// that the gains of all add up. `None` if no run is possible without those behind it, whose
    /// gain has its own.
    pub gain: Option<f64>,
    /// Half of the 95 % interval of the gain; `None` where a run is too short to tell.
    pub error: Option<f64>,
    /// The change of the goal if this setting alone goes back, relative. `None` if no run is
    /// possible.
    pub without: Option<f64>,
    /// Half of the 95 % interval of that.
    pub without_error: Option<f64>,
    /// Numbers that this setting changes for the worse.
    pub costs: Vec<Change>,
    #[serde(skip)]
    at: usize,
}

/// A constant with which a setting ceases to pay.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Flip {
    /// The setting's key.
    pub setting: &'static str,
    /// The value that pays until then.
    pub to: String,
    /// The constant.
    pub constant: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value in the profile.
    pub value: f64,
    /// The value from which on the setting does not pay.
    pub at: f64,
    /// The origin of the constant.
    pub source: String,
}

/// The gains of switches at one value of a key of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "GainsAt")]
pub struct At {
    /// The value.
    pub value: String,
    /// The gain of each switch, in their order; null where no run is possible.
    pub gains: Vec<Option<f64>>,
}

/// The gains of switches over a key of the traffic.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "GainsOver")]
pub struct Over {
    /// The key.
    pub key: &'static str,
    /// Its values.
    pub at: Vec<At>,
}

/// A choice between two values of a setting, with all others as advised: a changed setting against
/// today's value, or one that stays, if it is a choice, against the best of its other values.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Switch {
    /// The key.
    pub key: &'static str,
    /// The other value.
    pub from: String,
    /// The advised value.
    pub to: String,
    #[serde(skip)]
    at: usize,
    #[serde(skip)]
    other: usize,
    /// The least gain that pays.
    #[serde(skip)]
    least: f64,
}

/// A value of a setting other than the advised one.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct OtherValue {
    /// The value.
    pub value: String,
    /// The change of the goal for the better; `None` where no run is possible.
    pub gain: Option<f64>,
    /// The bounds that it breaks and the advice keeps.
    pub breaks: Vec<String>,
}

/// The worth of a setting: the change of the goal with each other value, relative, all other
/// settings as advised.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Worth {
    /// The key.
    pub key: &'static str,
    /// The advised value.
    pub value: String,
    /// Other values.
    pub others: Vec<OtherValue>,
}

/// The advice.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Advice {
    /// The number to improve.
    pub goal: String,
    /// The goal's number before and after.
    pub reached: Change,
    /// Half of the 95 % interval of the gain of all settings together, relative.
    pub error: Option<f64>,
    /// The goal's best number of all designs that were run and keep the bounds. It may be better
    /// than the advice by what settings near today's give up.
    pub best: Option<f64>,
    /// Bounds, with the number that each bounds.
    pub keep: Vec<Bound>,
    /// Settings that come nearest to bounds that cannot be kept. There is no advice then.
    pub nearest: Option<Vec<Other>>,
    /// The limit today.
    pub limit: Limits,
    /// The limit with the advice.
    pub limit_then: Limits,
    /// The recommended settings, in the order in which their gains add up.
    pub settings: Vec<Setting>,
    /// The worth of every setting, changed or not.
    pub worth: Vec<Worth>,
    /// Choices between two values, of which `over` has the gains.
    pub switches: Vec<Switch>,
    /// Numbers that the advice changes.
    pub elsewhere: Vec<Change>,
    /// Constants that change the advice.
    pub flips: Vec<Flip>,
    /// Assumed or fitted constants that were moved to half and to twice their values and change
    /// nothing.
    pub firm: usize,
    /// Gains over the traffic.
    pub over: Vec<Over>,
    /// Designs in the space.
    pub designs: usize,
    /// Designs that were run.
    pub runs: usize,
    /// Searches from different starts that came to their end; 0 where all designs were run.
    pub searches: usize,
    /// Those of them that ended as well as the best.
    pub agree: usize,
    /// The search was interrupted.
    pub interrupted: bool,
}

/// A stage of the work, with what is done of how much.
pub(crate) type Tell<'a> = dyn FnMut(&str, usize, usize) -> bool + 'a;
/// The same, once interrupted for good.
type GoOn<'a> = Tell<'a>;

/// Answers a question. `profile` is the platform, whose assumptions are examined. `tell` hears of
/// progress and says whether to go on: what is left out then is empty, except for the gains of the
/// best design so far.
///
/// # Errors
/// Today's values cannot run, or have no such goal.
pub fn advise(
    q: &Question<'_>,
    profile: &Profile,
    seed: u64,
    tell: &mut Tell<'_>,
) -> Result<Advice, RunError> {
    let before = q.run(&q.of(&q.today()))?;
    let Some(from) = q.goal.of(&before) else {
        return Err(RunError::Input(SettingError(format!(
            "the run has no `{}`",
            q.goal.metric.name
        ))));
    };
    let held = q.offered().then(|| Keep::load(q.system, &before)).flatten();
    let q = &Question { keep: q.keep.iter().cloned().chain(held).collect(), ..q.clone() };
    let bench = Bench::new(q, &before);
    let sizes: Vec<usize> = q.variables.iter().map(|v| v.values.len()).collect();
    let most = q.runs(&before, designs(&sizes));
    let mut interrupted = false;
    let mut go_on = |what: &str, n: usize, of: usize| {
        interrupted |= !tell(what, n, of);
        !interrupted
    };
    let score = |d: &Design| Ok::<_, RunError>(bench.score(d));
    let distance = |setting: usize, value: usize| q.variables[setting].distance(value);
    let space = Space { sizes: &sizes, distance: &distance, least: LEAST };
    let found = search::search(&space, &q.today(), (seed, most), &score, &mut |n| {
        go_on("searches", n, most)
    })?;
    let top = found.known.get(&found.top).copied().unwrap_or(Score::NONE);
    let goal = |score: Score| if q.goal.metric.is_better_high() { -score.goal } else { score.goal };
    let mut advice = Advice {
        goal: q.goal.metric.name.to_owned(),
        reached: Change { metric: q.goal.metric, from: rounded(from), to: rounded(from) },
        error: None,
        best: (top.missed == 0.0).then(|| rounded(goal(top))),
        keep: Vec::new(),
        nearest: None,
        limit: Limits::default(),
        limit_then: Limits::default(),
        settings: Vec::new(),
        worth: Vec::new(),
        switches: Vec::new(),
        elsewhere: Vec::new(),
        flips: Vec::new(),
        firm: 0,
        over: Vec::new(),
        designs: designs(&sizes),
        runs: found.known.len(),
        searches: found.ends,
        agree: found.agree,
        interrupted: false,
    };
    if top.missed > 0.0 {
        advice.keep = q.bounds(&*bench.measured(&found.best)?);
        advice.nearest = Some(q.others(&found.best));
        advice.interrupted = interrupted;
        return Ok(advice);
    }
    let best = bench.kept(found.best, &mut go_on);
    let after = bench.measured(&best)?;
    let mut limit = |n: usize, design: &Design, m: &Measured| {
        if !go_on("finds what limits", n, 2) {
            return Limits::default();
        }
        limits::find(q.system, &q.of(design), q.frames, m, &|| false)
    };
    (advice.limit, advice.limit_then) = (limit(0, &q.today(), &before), limit(1, &best, &after));
    (advice.settings, advice.error) = bench.settings(&best, &mut go_on);
    if go_on("tries other values", 0, 1) {
        (advice.worth, advice.switches) = bench.worth(&best, &advice.settings);
    }
    (advice.flips, advice.firm) = q.flips(profile, &best, &advice.switches, &mut go_on)?;
    advice.over = q.over(&best, &advice.switches, &mut go_on)?;
    advice.reached.to = rounded(q.goal.of(&after).unwrap_or(f64::NAN));
    advice.keep = q.bounds(&after);
    advice.elsewhere = changes(q.system, &before, &after);
    advice.interrupted = interrupted;
    Ok(advice)
}

/// The number of a load that is offered whatever the settings are.
const OFFERED: &str = "packets_per_s";

impl Question<'_> {
    /// Returns the design of today's settings.
    fn today(&self) -> Design {
        vec![0; self.variables.len()]
    }

    /// Returns the values of a design.
    fn of(&self, design: &Design) -> Values {
        let mut values = self.values.clone();
        for (variable, at) in self.variables.iter().zip(design) {
            values.put(variable.key, variable.values[*at].clone());
        }
        values
    }

    fn run(&self, values: &Values) -> Result<Measured, RunError> {
        self.system.run(values, self.frames, &mut Unwatched)
    }

    /// Returns whether packets come through a generator or from a capture, not through sockets.
    fn open_loop(&self) -> bool {
        matches!(self.values.word_if_any("traffic.kind"), Some("pktgen" | "pcap"))
    }

    /// Returns whether the load is to be held: it has a rate or times of its own, or sockets
    /// answer each other, and neither the goal nor a bound is a rate.
    fn offered(&self) -> bool {
        let given = self.keep.iter().any(|k| k.above && k.metric.is_better_high());
        let own = |name, word| self.values.word_if_any(name) == Some(word);
        let at_a_rate = match self.values.find("traffic.rate") {
            Some((key, Value::Number(_))) => self.values.idle(key).is_none(),
            _ => false,
        };
        let own_times = own("traffic.kind", "pcap") && own("traffic.times", "own");
        let free = self.open_loop() && !at_a_rate && !own_times;
        !free && !given && !self.goal.metric.is_better_high()
    }

    /// Returns the most runs of a search, each of which takes as long as that of today's settings.
    /// It counts packets: no clock.
    fn runs(&self, today: &Measured, designs: usize) -> usize {
        let each = today.packets.max(1) * if self.open_loop() { 1 } else { SOCKET };
        let most = usize::try_from(self.budget / each).unwrap_or(RUNS.1).clamp(RUNS.0, RUNS.1);
        if designs <= most { designs } else { most.min(PART) }
    }

    /// Returns by how much a result misses the bounds.
    fn missed(&self, m: &Measured) -> f64 {
        self.keep.iter().map(|k| k.missed(m)).sum()
    }

    /// Returns the bounds with the numbers of a result.
    fn bounds(&self, m: &Measured) -> Vec<Bound> {
        let bound = |k: &Keep| Bound {
            text: k.text.clone(),
            implied: k.implied,
            holds: k.missed(m) == 0.0,
            metric: k.metric,
            reached: m.number(k.metric.name).map(rounded),
        };
        self.keep.iter().map(bound).collect()
    }

    /// Returns the values of a design that are not today's.
    fn others(&self, design: &Design) -> Vec<Other> {
        let all = self.variables.iter().zip(design).filter(|(_, at)| **at > 0);
        let other = |(v, at): (&Variable, &usize)| Other {
            key: v.key.name,
            from: v.key.said(&v.values[0]),
            to: v.key.said(&v.values[*at]),
        };
        all.map(other).collect()
    }

    /// Returns the gain of each switch with values changed by `change`. `None` where a run is not
    /// possible.
    fn gains(
        &self,
        best: &Design,
        switches: &[Switch],
        change: impl Fn(&mut Values),
    ) -> Vec<Option<f64>> {
        let goal = |design: &Design| {
            let mut values = self.of(design);
            change(&mut values);
            self.run(&values).ok().and_then(|m| self.goal.of(&m))
        };
        let Some(with) = goal(best) else { return vec![None; switches.len()] };
        let gain = |s: &Switch| {
            let mut design = best.clone();
            design[s.at] = s.other;
            Some(self.goal.gain(goal(&design)?, with))
        };
        switches.iter().map(gain).collect()
    }

    /// Moves each assumed or fitted constant of the profile to [`FACTOR`] times and one part of its
    /// value. Returns those with which a setting ceases to pay, and the number of the others.
    fn flips(
        &self,
        profile: &Profile,
        best: &Design,
        switches: &[Switch],
        go_on: &mut GoOn<'_>,
    ) -> Result<(Vec<Flip>, usize), RunError> {
        let mut moves = Vec::new();
        for (key, value) in self.values.iter() {
            let source = profile.source(key.name);
            let uncertain = matches!(source, Some(Source::Assumed(_) | Source::Fit { .. }));
            let searched = self.variables.iter().any(|v| v.key.name == key.name);
            let Value::Number(n) = value else { continue };
            let (Kind::Number { .. }, Some(source)) = (key.kind, source) else { continue };
            if uncertain && !searched && *n != 0.0 && self.values.idle(key).is_none() {
                moves.push((key, *n, source));
            }
        }
        let pays_now = self.gains(best, switches, |_| {});
        let (mut flips, mut firm) = (Vec::new(), 0);
        let found = |(key, n, source): &(&'static Key, f64, &Source)| {
            let ways = [FACTOR, 1.0 / FACTOR].map(|f| within(key, n * f));
            let mut found = Vec::new();
            for to in ways.into_iter().filter(|to| to != n) {
                let gains = |at: f64| self.gains(best, switches, |v| v.put(key, Value::Number(at)));
                for (i, gain) in gains(to).into_iter().enumerate() {
                    let least = switches[i].least;
                    if gain.is_none_or(|g| g >= least) || pays_now[i].is_none_or(|g| g < least) {
                        continue;
                    }
                    let (mut pays, mut fails) = (*n, to);
                    for _ in 0..HALVINGS {
                        let middle = within(key, (pays * fails).sqrt());
                        match gains(middle)[i] {
                            Some(g) if g >= least => pays = middle,
                            _ => fails = middle,
                        }
                    }
                    found.push(Flip {
                        setting: switches[i].key,
                        to: switches[i].to.clone(),
                        constant: key.name,
                        unit: key.unit(),
                        value: *n,
                        at: rounded(fails),
                        source: source.to_string(),
                    });
                }
            }
            found
        };
        for (n, some) in moves.chunks(8).enumerate() {
            if !go_on("moves what is assumed", 8 * n, moves.len()) {
                break;
            }
            let all = in_parallel(some, |_, m| Ok::<_, RunError>(found(m)))?;
            firm += all.iter().filter(|f| f.is_empty()).count();
            flips.extend(all.into_iter().flatten());
        }
        Ok((flips, firm))
    }

    /// Returns the gains of the switches over each key of the traffic that the system names.
    fn over(
        &self,
        best: &Design,
        switches: &[Switch],
        go_on: &mut GoOn<'_>,
    ) -> Result<Vec<Over>, RunError> {
        let mut all = Vec::new();
        for condition in self.system.conditions {
            let Some((key, _)) = self.values.find(condition.key) else { continue };
            let key: &'static Key = key;
            let searched = self.variables.iter().any(|v| v.key.name == key.name);
            if switches.is_empty() || searched || self.values.idle(key).is_some() {
                continue;
            }
            if !go_on("looks over the traffic", all.len(), self.system.conditions.len()) {
                break;
            }
            let at = in_parallel(condition.values, |_, text| {
                let value = key.parse(text)?;
                let gains = self.gains(best, switches, |v| v.put(key, value.clone()));
                let gains = gains.into_iter().map(|g| g.map(rounded)).collect();
                Ok::<_, RunError>(At { value: key.said(&value), gains })
            })?;
            all.push(Over { key: key.name, at });
        }
        Ok(all)
    }
}

/// Returns the number that a key allows next to `n`.
fn within(key: &Key, n: f64) -> f64 {
    match key.kind {
        Kind::Number { min, max, step, .. } => {
            let n = if step > 0.0 { (n / step).round() * step } else { n };
            n.clamp(min, max)
        }
        _ => n,
    }
}

/// Returns the numbers that people look at and that differ by more than [`LEAST`].
fn changes(system: &System, before: &Measured, after: &Measured) -> Vec<Change> {
    let (before, after) = (before.numbers(), after.numbers());
    let change = |metric: Metric| {
        let (from, to) = (before.get(metric.name)?.value, after.get(metric.name)?.value);
        let moved = (to - from).abs() > LEAST * from.abs().max(to.abs());
        moved.then(|| Change { metric, from: rounded(from), to: rounded(to) })
    };
    system.main_metrics().filter_map(change).collect()
}

/// Returns those that are worse after than before, except the goal, the worst first.
fn worse(system: &System, before: &Measured, after: &Measured, goal: &str) -> Vec<Change> {
    let mut all = changes(system, before, after);
    all.retain(|c| c.metric.name != goal && (c.to < c.from) == c.metric.is_better_high());
    let share = |c: &Change| if c.from == 0.0 { f64::MAX } else { (c.to / c.from - 1.0).abs() };
    all.sort_by(|a, b| share(b).total_cmp(&share(a)));
    all.truncate(COSTS);
    all
}

#[cfg(test)]
mod tests;
