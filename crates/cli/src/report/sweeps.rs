//! Sweeps and rankings: numbers over a key's values, and choices of settings against each other.

use super::Labelled;
use super::html::{Palette, cell, count, legend, percent, setting, table};
use super::lines::{Shown, metric, over_time, unit};
use super::runs::{options, origin, told};
use crate::chart::{Line, Plot};
use doorbell_console::render::amount;
use doorbell_study::rank::{Found, Ranked, Rival, Row};
use doorbell_study::sweep::{self, Numbers, Swept};
use indexmap::IndexSet;
use maud::{Markup, html};
use serde_json::Value as Json;

/// A number of a sweep, with its place for people.
struct Cell {
    /// The value of the last `--over` key.
    over: Json,
    /// The combination of all other values.
    line: String,
    at: String,
    value: f64,
}

fn word(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cells(sweep: &Swept, name: &str) -> Vec<Cell> {
    let across = sweep.across.keys().next();
    let cell = |row: &sweep::Row, side: Option<&str>, value: f64| {
        let side = across.zip(side).map(|(key, side)| format!("{key}={side}"));
        let keys = row.keys.iter().map(|(key, v)| format!("{key}={}", word(v)));
        let line = keys.clone().take(row.keys.len() - 1).chain(side.clone());
        Cell {
            over: row.keys.values().last().cloned().unwrap_or_default(),
            line: line.map(|s| setting(&s)).collect::<Vec<_>>().join(", "),
            at: keys.chain(side).collect::<Vec<_>>().join(", "),
            value,
        }
    };
    let mut all = Vec::new();
    for row in &sweep.rows {
        match row.values.get(name) {
            Some(Numbers::One(value)) => all.push(cell(row, None, *value)),
            Some(Numbers::Across(sides)) => {
                all.extend(sides.iter().map(|(side, value)| cell(row, Some(side), *value)));
            }
            None => {}
        }
    }
    all
}

fn names(sweep: &Swept) -> Vec<String> {
    sweep.rows.first().map_or(Vec::new(), |r| r.values.keys().cloned().collect())
}

/// Returns a sentence about a sweep: the least and the most of its first number.
pub(super) fn title(result: &Labelled<Swept>) -> String {
    let (label, sweep) = (&result.label, &result.of);
    let Some(name) = names(sweep).into_iter().next() else { return label.clone() };
    let cells = cells(sweep, &name);
    let by = |a: &&Cell, b: &&Cell| a.value.total_cmp(&b.value);
    // The first of equals, in both directions.
    let (least, most) = (cells.iter().min_by(by), cells.iter().rev().max_by(by));
    let (Some(least), Some(most)) = (least, most) else { return label.clone() };
    let text = |c: &Cell| told(&name, c.value, sweep.units.get(&name).map(String::as_str));
    if least.value == most.value {
        return format!("{label}: {name} is {} everywhere", text(least));
    }
    let [(a, x), (b, y)] = [least, most].map(|c| (text(c), &c.at));
    format!("{label}: {name} from {a} at {x} to {b} at {y}")
}

/// Returns what the second of two values of `--across` changes, for each number.
fn changes(sweep: &Swept) -> String {
    let Some((key, [first, second])) = sweep
        .across
        .first()
        .and_then(|(key, all)| Some((key, <&[String; 2]>::try_from(&all[..]).ok()?)))
    else {
        return String::new();
    };
    let told = names(sweep).into_iter().filter_map(|name| {
        let of = |row: &sweep::Row| match row.values.get(&name) {
            Some(Numbers::Across(sides)) => Some(sides.get(second)? / sides.get(first)? - 1.0),
            _ => None,
        };
        let all = sweep.rows.iter().filter_map(of).filter(|c| c.is_finite());
        let all: Vec<f64> = all.collect();
        let least = all.iter().copied().reduce(f64::min).map(percent)?;
        let most = all.iter().copied().reduce(f64::max).map(percent)?;
        let to = if least == most { String::new() } else { format!(" to {most}") };
        Some(format!("{name} by {least}{to}"))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() {
        return told;
    }
    format!("{key}={second} instead of {first} changes {told}.")
}

/// Draws a number of a sweep over its last key; returns the lines' names, too.
fn chart(palette: &mut Palette, sweep: &Swept, name: &str) -> (Vec<String>, Markup) {
    let key = sweep.over.keys().last().map_or("", String::as_str);
    let (factor, unit) = unit(name, sweep.units.get(name));
    let cells = cells(sweep, name);
    let numbers = cells.iter().all(|c| c.over.is_number());
    let words: Vec<String> =
        if numbers { Vec::new() } else { sweep.over.get(key).cloned().unwrap_or_default() };
    let mut lines: Vec<Line> = Vec::new();
    for cell in &cells {
        let place = || words.iter().position(|w| *w == word(&cell.over)).unwrap_or(0) as f64;
        let point =
            (cell.over.as_f64().filter(|_| numbers).unwrap_or_else(place), cell.value * factor);
        match lines.iter_mut().find(|l| l.label == cell.line) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { label: cell.line.clone(), points: vec![point] }),
        }
    }
    let labels: Vec<String> = lines.iter().map(|l| l.label.clone()).collect();
    let colours = palette.sides(&labels);
    let units = (sweep.units.get(key).cloned().unwrap_or_default(), unit.to_owned());
    let comma = if unit.is_empty() || unit == name { String::new() } else { format!("{unit}, ") };
    let about = format!("{comma}over {key}");
    let plot = Plot { words, lines, units, ..Plot::default() };
    (labels, Shown { title: name, about: &about, over: key, plot }.drawn(&colours))
}

fn axes<'a>(all: impl IntoIterator<Item = (&'a String, &'a Vec<String>)>) -> Vec<String> {
    all.into_iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect()
}

/// Draws a sweep; its sentence stands at its head unless it is that of the page.
pub(super) fn swept(
    palette: &mut Palette,
    result: &Labelled<Swept>,
    id: &str,
    head: bool,
) -> Markup {
    let sweep = &result.of;
    let names = names(sweep);
    let charts: Vec<_> = names.iter().map(|name| chart(palette, sweep, name)).collect();
    let labels = charts.first().map_or(&[][..], |(labels, _)| labels);
    let colours = palette.sides(labels);
    let audit: Vec<String> = sweep.rows.iter().flat_map(|r| r.audit.iter().cloned()).collect();
    let command = options(
        &["sweep", &sweep.of.scenario],
        &[
            ("--over", &axes(&sweep.over)),
            ("--across", &axes(&sweep.across)),
            ("--show", &names),
            ("--set", &sweep.of.set),
        ],
    );
    html! {
        section id=(id) {
            h2 { "Sweep: " (result.label) }
            @if !head { p { (title(result)) "." } }
            p { (changes(sweep)) }
            h3 { "Over " (sweep.over.keys().last().map_or("", String::as_str)) }
            @if labels.len() > 1 { (legend(labels, &colours)) }
            div.grid { @for (_, chart) in &charts { (chart) } }
            h3 { "Where it comes from" }
            (origin(result, "", &[&sweep.of], &command, &audit, &[]))
        }
    }
}

/// Returns a sentence about a ranking: which sides are better than the first, and where.
pub(super) fn rank_title(result: &Labelled<Ranked>) -> String {
    let (label, rank) = (&result.label, &result.of);
    let sides: Vec<&str> = rank.sides.iter().map(|s| s.name.as_str()).collect();
    let Some((first, others)) = sides.split_first() else { return label.clone() };
    let rows = match &rank.found {
        Found::Series { series, .. } => {
            return format!("{label}: {series} of {} over time", sides.join(", "));
        }
        Found::Shares { runs, dominated, .. } => {
            let runs = count(*runs, "run");
            return format!("{label}: {first} is dominated in {} of {runs}", dominated.len());
        }
        Found::Numbers { rows } => rows,
    };
    let better = others.iter().filter_map(|side| {
        let own = rows.iter().filter(|r| r.side == *side && r.against_first == "dominates");
        let at: Vec<&str> = own.map(|r| r.scenario.as_str()).collect();
        (!at.is_empty()).then(|| format!("{side} dominates {first} in {}", at.join(", ")))
    });
    let better: Vec<String> = better.collect();
    if better.is_empty() {
        return format!("{label}: {first} is not dominated by {}", others.join(" or "));
    }
    format!("{label}: {}", better.join("; "))
}

fn more_or_less(name: &str) -> &'static str {
    if metric(name).is_some_and(|m| m.is_better_high()) { "more" } else { "less" }
}

/// Returns the shares of runs of a ranking.
fn shares_table(result: &Labelled<Ranked>, runs: usize, rows: &[Rival]) -> Markup {
    let rank = &result.of;
    let first = rank.sides.first().map_or("", |s| s.name.as_str());
    let medians = rank.by.iter().map(|n| format!("{n}, median of {first} / side"));
    let fixed = ["side".into(), format!("dominates {first}"), format!("dominated by {first}")];
    let heads: Vec<String> = fixed.into_iter().chain(medians).collect();
    let share = |n: usize| html! { (format!("{:.1} %", 100.0 * n as f64 / runs.max(1) as f64)) };
    let row = |r: &Rival| {
        let medians = rank.by.iter().map(|n| cell(r.medians.get(n).copied().flatten()));
        let shares = [r.dominates_first, r.dominated_by_first].map(share);
        [html! { (r.side) }].into_iter().chain(shares).chain(medians).collect::<Vec<_>>()
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    html! { div.panel { (table(&format!("Ranking {}", result.label), &heads, 1, &rows)) } }
}

/// Returns the numbers of a ranking: each side in each scenario.
fn ranked_table(result: &Labelled<Ranked>, rows: &[Row]) -> Markup {
    let rank = &result.of;
    let first = rank.sides.first().map_or("", |s| s.name.as_str());
    let names: Vec<&String> = rows.first().map_or(vec![], |r| r.values.keys().collect());
    let fixed = ["scenario".to_owned(), "side".to_owned()].into_iter();
    let named = names.iter().map(|n| (*n).clone());
    let heads: Vec<String> = fixed.chain(named).chain([format!("against {first}")]).collect();
    let row = |r: &Row| {
        let text = |n: &String| {
            let value = r.values.get(n).copied().flatten();
            value.map_or(String::new(), |v| told(n, v, rank.units.get(n).map(String::as_str)))
        };
        let against = match r.against_first.as_str() {
            "dominates" => html! { span.holds { "dominates" } },
            "dominated" => html! { span.miss { "dominated" } },
            other => html! { (other) },
        };
        let cells = [html! { (r.scenario) }, html! { (r.side) }];
        let numbers = names.iter().map(|n| html! { (text(n)) });
        cells.into_iter().chain(numbers).chain([against]).collect::<Vec<_>>()
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    html! { div.panel { (table(&format!("Ranking {}", result.label), &heads, 2, &rows)) } }
}

/// Draws a number by which sides were ranked, over the scenarios.
fn rank_chart(
    rank: &Ranked,
    rows: &[Row],
    name: &str,
    labels: &[String],
    colours: &[&str],
) -> Markup {
    let places: IndexSet<String> = rows.iter().map(|row| row.scenario.clone()).collect();
    let places: Vec<String> = places.into_iter().collect();
    let (factor, unit) = unit(name, rank.units.get(name));
    let value = |place: &String, side: usize| {
        let row = rows.iter().find(|r| r.scenario == *place && r.side == labels[side])?;
        row.values.get(name).copied().flatten().map(|v| v * factor)
    };
    html! {
        figure.panel {
            figcaption {
                h4 { (name) }
                p.soft.small {
                    @if !unit.is_empty() { (unit) "; " }
                    (more_or_less(name)) " is better"
                }
            }
            (bars(&places, labels, colours, &value, unit))
        }
    }
}

/// Draws a bar for each place and side, all on one scale.
pub(super) fn bars(
    places: &[String],
    labels: &[String],
    colours: &[&str],
    of: &dyn Fn(&String, usize) -> Option<f64>,
    unit: &str,
) -> Markup {
    let all = || places.iter().flat_map(|p| (0..labels.len()).filter_map(move |s| of(p, s)));
    let most = all().map(f64::abs).fold(f64::MIN_POSITIVE, f64::max);
    html! {
        div.bars {
            @for place in places {
                span { (place) }
                div {
                    @for (s, label) in labels.iter().enumerate() {
                        @if let Some(value) = of(place, s) {
                            div.track.thin {
                                @let width = format!("{:.2}%", 100.0 * value.abs() / most);
                                div.bar title={ (label) ": " (amount(value)) " " (unit) }
                                    style={ "width:" (width) ";background:" (colours[s]) } {}
                                b { (amount(value)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Draws a ranking; its sentence stands at its head unless it is that of the page.
pub(super) fn ranked(
    palette: &mut Palette,
    result: &Labelled<Ranked>,
    id: &str,
    head: bool,
) -> Markup {
    let rank = &result.of;
    let labels: Vec<String> = rank.sides.iter().map(|s| s.name.clone()).collect();
    let colours = palette.sides(&labels);
    let by = rank.by.iter().map(|name| format!("{} {name}", more_or_less(name)));
    let dominance = format!(
        "A side dominates another if it has {}, by more than {} %.",
        by.collect::<Vec<_>>().join(" and "),
        rank.noise_percent
    );
    let sides: Vec<String> = rank
        .sides
        .iter()
        .map(|s| {
            let set = s.set.join(",");
            if s.name == set { set } else { format!("{}:{set}", s.name) }
        })
        .collect();
    let seeds: Vec<String> = rank.seeds.iter().map(|(a, b)| format!("{a}-{b}")).collect();
    let (mut shown, mut series): (Vec<String>, _) = (Vec::new(), [Vec::new(), Vec::new()]);
    match &rank.found {
        Found::Numbers { rows } => {
            let names = rows.first().into_iter().flat_map(|r| r.values.keys());
            shown.extend(names.filter(|n| !rank.by.contains(n)).cloned());
        }
        Found::Series { series: name, every, .. } => {
            series = [vec![name.clone()], vec![every.to_string()]];
        }
        Found::Shares { .. } => {}
    }
    let set = rank.of.first().map_or(&[][..], |o| &o.set);
    let scenarios = rank.of.iter().map(|o| o.scenario.as_str());
    let command = options(
        &std::iter::once("rank").chain(scenarios).collect::<Vec<_>>(),
        &[
            ("--side", &sides),
            ("--by", &rank.by),
            ("--seeds", &seeds),
            ("--series", &series[0]),
            ("--every", &series[1]),
            ("--show", &shown),
            ("--noise", &[rank.noise_percent.to_string()]),
            ("--set", set),
        ],
    );
    html! {
        section id=(id) {
            h2 { "Ranking: " (result.label) }
            @if !head { p { (rank_title(result)) "." } }
            @match &rank.found {
                Found::Series { series, points, .. } => {
                    h3 { "Over time" }
                    (legend(&labels, &colours))
                    @let line = |side: &String| Line {
                        label: side.clone(),
                        points: points.get(side).cloned().unwrap_or_default(),
                    };
                    (over_time(series, labels.iter().map(line).collect(), &colours))
                }
                Found::Shares { runs, rows, .. } => {
                    p.soft { (dominance) }
                    (shares_table(result, *runs, rows))
                }
                Found::Numbers { rows } => {
                    p.soft { (dominance) }
                    (ranked_table(result, rows))
                    h3 { "Side by side" }
                    (legend(&labels, &colours))
                    div.grid {
                        @for name in &rank.by { (rank_chart(rank, rows, name, &labels, &colours)) }
                    }
                }
            }
            h3 { "Where it comes from" }
            (origin(result, "", &rank.of.iter().collect::<Vec<_>>(), &command, &[], &[]))
        }
    }
}
