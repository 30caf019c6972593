//! A system: its misses, a packet's bill with its switch off and on, and what all of it rests on.

use super::bill::bill;
use super::data::{Choice, Constant, Curve, Headline, Moved, MovedBy, System};
use super::html::{Palette, count, legend, sentence, setting, table};
use super::lines::{Shown, latency, series};
use super::sweeps::bars;
use crate::chart::{Line, Plot, number};
use doorbell_console::render::amount;
use maud::{Markup, html};
use std::slice::from_ref;

/// Judged figures of several systems, and how many of them hold.
pub(super) struct Held {
    pub(super) judged: usize,
    pub(super) held: usize,
    pub(super) known: usize,
    pub(super) missed: usize,
}

impl Held {
    pub(super) fn of<'a>(systems: impl IntoIterator<Item = &'a System>) -> Held {
        let mut all = Held { judged: 0, held: 0, known: 0, missed: 0 };
        for row in systems.into_iter().flat_map(|s| &s.rows) {
            match row.holds {
                Some(true) => all.held += 1,
                Some(false) if row.known => all.known += 1,
                Some(false) => all.missed += 1,
                None => continue,
            }
            all.judged += 1;
        }
        all
    }
}

/// Draws how much of a system holds.
pub(super) fn tile(s: &System) -> Markup {
    let Held { judged, held, known, missed } = Held::of([s]);
    let f = &s.freedom;
    let misses =
        |n, what: &str| format!("{n} {}", if n == 1 { what.into() } else { format!("{what}es") });
    html! {
        li.tile {
            a href={ "#" (s.name) } { (s.name) }
            div.big { (held) " of " (judged) small { " judged figures hold" } }
            div {
                @if known > 0 { span.verdict.known { (misses(known, "known miss")) " " } }
                @if missed > 0 { span.verdict.miss { (misses(missed, "miss")) } }
            }
            div.soft.small {
                (count(f.predicted, "predicted figure"))
                @if f.derived > 0 { ", " (f.derived) " of them arithmetic" }
                ", against " (count(f.fitted, "fitted constant"))
                @if f.choices > 0 { " and " (count(f.choices, "choice")) " between models" }
            }
            @if let Some(c) = &s.combinations {
                div.soft.small {
                    (c.hold) " of " (c.of) " combinations of choices hold as much"
                }
            }
        }
    }
}

/// Draws a system's section.
pub(super) fn section(palette: &mut Palette, s: &System) -> Markup {
    let headline = s.headline.as_ref().map(|h| headline(palette, h));
    html! {
        section id=(s.name) {
            h2 { (s.name) }
            p.soft { (s.about) }
            @for r in s.rows.iter().filter(|r| r.holds == Some(false)) {
                @let why = r.remarks.iter().find_map(|t| t.strip_prefix("known miss: "));
                @let text = why.map_or_else(|| r.remarks.join("; "), str::to_owned);
                p.miss-note.bad[!r.known] {
                    strong { (r.name) ": " @if r.known { "known miss" } @else { "miss" } ". " }
                    @if !text.is_empty() { (sentence(&text)) "." }
                }
            }
            (headline.unwrap_or_default())
            @if let Some(found) = &s.sensitivity {
                h3 { "Sensitivity" }
                p.soft {
                    "The change of each figure in %, when one constant is moved by 1 %, or by what \
                     stands behind its name, and the fits are run again."
                }
                (sensitivity(found, s))
            }
            (constants(s))
        }
    }
}

fn headline(palette: &mut Palette, h: &Headline) -> Markup {
    let labels = h.sides.each_ref().map(|s| setting(s)).to_vec();
    let curve = h.curve.as_ref().map(|c| curve(palette, c, &labels));
    let waiting = h.waiting.as_ref().map(|w| latency(palette, &[&w[0], &w[1]], &labels));
    let moving =
        h.moving.as_ref().map(|m| series(palette, &[&m[0].numbers, &m[1].numbers], &labels));
    let colours = palette.sides(&labels);
    let runs = &h.bill;
    html! {
        h3 { "A packet’s bill, before and after" }
        p.soft {
            code { (runs[0].scenario) } " on " (runs[0].profile) ", run twice: "
            code { (h.sides[0]) } ", then " code { (h.sides[1]) } "."
        }
        (bill(palette, &[&runs[0], &runs[1]], &labels))
        @if curve.is_some() || waiting.is_some() {
            h3 { @if curve.is_some() { "Where it pays, and who waits" } @else { "Latency" } }
            @if let Some(w) = h.waiting.as_ref().filter(|w| w[0].scenario != h.scenario) {
                p.soft { "Latencies are of " code { (w[0].scenario) } ": " (w[0].about) "." }
            }
            (legend(&labels, &colours))
            div.grid { (curve.unwrap_or_default()) (waiting.unwrap_or_default()) }
        }
        @if let Some((drawn, m)) = moving.zip(h.moving.as_ref()).filter(|(m, _)| !m.0.is_empty()) {
            h3 { "Over time" }
            p.soft { "The series are of " code { (m[0].scenario) } ": " (m[0].about) "." }
            (drawn)
        }
    }
}

/// Draws a number of both sides over a key's values, and where it is even.
fn curve(palette: &mut Palette, curve: &Curve, labels: &[String]) -> Markup {
    let gain = |[_, off, on]: &[f64; 3]| (on - off) / if *off == 0.0 { 1.0 } else { off.abs() };
    // What differs by less than a percent is the same.
    let better = |at: &&[f64; 3]| {
        let gain = if curve.more_is_better { gain(at) } else { -gain(at) };
        if gain > 0.01 {
            1
        } else if gain < -0.01 {
            -1
        } else {
            0
        }
    };
    let n = |what: i32| curve.at.iter().filter(|at| better(at) == what).count();
    let parts = [(1, "better"), (-1, "worse"), (0, "the same within 1 %")];
    let parts = parts.iter().filter(|(b, _)| n(*b) > 0).map(|(b, t)| format!("{t} at {}", n(*b)));
    let paying = format!(
        "“{}” is {} of {} values.",
        labels[1],
        parts.collect::<Vec<_>>().join(", "),
        curve.at.len()
    );
    let crossings: Vec<f64> = curve
        .at
        .windows(2)
        .filter_map(|w| {
            let (a, b) = (gain(&w[0]), gain(&w[1]));
            let crosses = a * b < 0.0 && a.abs().max(b.abs()) > 0.01;
            crosses.then(|| w[0][0] + (w[1][0] - w[0][0]) * a / (a - b))
        })
        .collect();
    let rules = match &crossings[..] {
        [one] => vec![(*one, format!("even at {}", number((one * 100.0).round() / 100.0)))],
        _ => Vec::new(),
    };
    let unit = if curve.unit.is_empty() { String::new() } else { format!(", {}", curve.unit) };
    let about = format!("over {} ({}{unit}). {paying}", curve.key, curve.about);
    let line = |(s, label): (usize, &String)| Line {
        label: label.clone(),
        points: curve.at.iter().map(|at| (at[0], at[s + 1])).collect(),
    };
    let plot = Plot {
        lines: labels.iter().enumerate().map(line).collect(),
        units: (curve.unit.clone(), String::new()),
        rules,
        ..Plot::default()
    };
    let title = sentence(&curve.shown);
    Shown { title: &title, about: &about, over: &curve.key, plot }.drawn(&palette.sides(labels))
}

/// Draws what moves each figure, the strongest constants first.
fn sensitivity(found: &Moved, s: &System) -> Markup {
    const MOST: usize = 14;
    let of = |at: usize| {
        let moved = found.constants.iter().filter_map(|c| Some((c, c.changes[at]?)));
        let mut moved: Vec<_> = moved.filter(|(_, by)| *by != 0.0).collect();
        moved.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        moved
    };
    let name = |c: &MovedBy| {
        let unit = s.constants.iter().find(|k| k.key == c.key).map_or("", |k| &k.unit);
        if c.by.ends_with('%') { c.key.clone() } else { format!("{} {} {unit}", c.key, c.by) }
    };
    html! {
        @for (at, row) in s.rows.iter().enumerate() {
            @let moved = of(at);
            @if let Some((first, by)) = moved.first() {
                details.moved {
                    summary {
                        (row.name) ": " (moved.len()) " of "
                        (count(found.constants.len(), "constant"))
                        @if moved.len() == 1 { " moves it, " } @else { " move it, the most " }
                        (name(first)) " (" (amount(*by)) " %)"
                    }
                    @let shown = &moved[..moved.len().min(MOST)];
                    @let names: Vec<String> = shown.iter().map(|(c, _)| name(c)).collect();
                    (bars(&names, from_ref(&row.name), &["var(--c0)"], &|place, _| {
                        shown.iter().find(|(c, _)| name(c) == *place).map(|(_, by)| *by)
                    }, "%"))
                }
            }
        }
    }
}

/// Lists constants and choices with their sources.
fn constants(s: &System) -> Markup {
    let cells = |all: Vec<String>| all.into_iter().map(|t| html! { (t) }).collect::<Vec<_>>();
    let constant = |c: &Constant| {
        let fitted = if c.fitted { "yes" } else { "no" };
        cells(vec![c.key.clone(), number(c.value), c.unit.clone(), fitted.into(), c.source.clone()])
    };
    let choice = |c: &Choice| {
        let others: Vec<_> = c.alternatives.iter().filter(|a| **a != c.value).cloned().collect();
        let value = format!("{} {}", c.value, c.unit).trim().to_owned();
        cells(vec![c.key.clone(), value, others.join(", "), c.rows.join(", "), c.source.clone()])
    };
    let list = |what: &str, about: &str, heads: [&str; 5], rows: Vec<Vec<Markup>>| {
        let heads = heads.map(str::to_owned);
        html! {
            @if !rows.is_empty() {
                details {
                    summary { (count(rows.len(), what)) (about) }
                    div.scroll { (table(&format!("{what}s of {}", s.name), &heads, 5, &rows)) }
                }
            }
        }
    };
    let each = format!(" that {} rests on, each with its source", s.name);
    let made = format!(" between models, made by looking at figures of {}", s.name);
    let heads = ["constant", "value", "unit", "fitted", "from"];
    let constants = list("constant", &each, heads, s.constants.iter().map(constant).collect());
    let heads = ["choice", "chosen", "or", "looking at", "from"];
    let choices = list("choice", &made, heads, s.choices.iter().map(choice).collect());
    html! { (constants) (choices) }
}
