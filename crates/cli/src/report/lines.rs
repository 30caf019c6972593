//! Lines: a number over a key's values, over time, and the distribution of latencies.

use super::data::Run;
use super::html::{Palette, cell, figure, legend, table, words};
use crate::chart::{Colours, Line, Plot};
use doorbell_console::render::{amount, people};
use doorbell_spec::Readings;
use doorbell_spec::number::Number;
use doorbell_systems::metrics::Metric;
use indexmap::IndexSet;
use maud::{Markup, html};

/// Width and height of a drawing, which grows and shrinks with its panel.
const SIZE: (f64, f64) = (480.0, 230.0);

/// A chart of lines, and what is written around it.
pub(super) struct Shown<'a> {
    pub(super) title: &'a str,
    pub(super) about: &'a str,
    /// The head of the first column of its table.
    pub(super) over: &'a str,
    pub(super) plot: Plot,
}

impl Shown<'_> {
    /// Draws it in these colours. Without numbers there is nothing to draw.
    pub(super) fn drawn(&self, colours: &[&str]) -> Markup {
        let plot = &self.plot;
        if plot.lines.iter().all(|l| l.points.is_empty()) {
            return html! {};
        }
        let mut places: Vec<f64> = Vec::new();
        for (x, _) in plot.lines.iter().flat_map(|l| &l.points) {
            if !places.contains(x) {
                places.push(*x);
            }
        }
        let row = |x: &f64| {
            let name = match plot.words.get(*x as usize) {
                Some(word) => word.clone(),
                None => format!("{} {}", crate::chart::number(*x), plot.units.0),
            };
            let of = |l: &Line| l.points.iter().find(|p| p.0 == *x).map(|p| p.1);
            let cells = plot.lines.iter().map(|l| cell(of(l)));
            std::iter::once(html! { (name.trim()) }).chain(cells).collect::<Vec<_>>()
        };
        let rows: Vec<_> = places.iter().map(row).collect();
        let named = |l: &Line| match l.label.as_str() {
            "" => self.title.to_owned(),
            label => label.to_owned(),
        };
        let heads = std::iter::once(self.over.to_owned()).chain(plot.lines.iter().map(named));
        let heads: Vec<String> = heads.collect();
        let numbers = table(self.title, &heads, 1, &rows);
        figure((self.title, html! {}, self.about), &drawing(self.title, plot, colours), &numbers)
    }
}

/// Draws a plot as a picture with a title.
fn drawing(title: &str, plot: &Plot, colours: &[&str]) -> Markup {
    let look = Colours { ink: "var(--soft)", rule: "var(--soft)", lines: colours.to_vec() };
    let (width, height) = SIZE;
    html! {
        svg.plot viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(title) {
            (plot.draw((width - 10.0, height - 4.0), &look))
        }
    }
}

/// Returns the unit that people use of a number, or else `plain`, and the factor to it.
pub(super) fn unit<'a>(name: &str, plain: Option<&'a String>) -> (f64, &'a str) {
    let known = metric(name).map(|m| people(m.unit, 1.0)).filter(|(_, unit)| !unit.is_empty());
    known.unwrap_or((1.0, plain.map_or("", String::as_str)))
}

/// Returns the declaration of a rate or of the first part of a sum, by its name. Numbers that no
/// built-in system has are counts of a driver or device of one's own, which need none.
pub(super) fn metric(name: &str) -> Option<&'static Metric> {
    let first = name.split('+').next().unwrap_or(name).trim();
    let all = doorbell_systems::DOORBELL.systems.iter().flat_map(|s| s.metrics());
    all.into_iter().find(|m| m.name == first)
}

/// Names of series, and their units.
const SERIES: [(&str, &str, &str); 6] = [
    ("setting_packets", "Setting: packets an interrupt", "packets"),
    ("interrupts_per_s", "Interrupts a second", "interrupts/s"),
    ("packets_per_s", "Packets a second", "packets/s"),
    ("wire_frames_per_s", "Frames a second on the wire, both ways", "frames/s"),
    ("latency_p99_us", "Latency, 99th percentile of each millisecond", "µs"),
    ("setting_delay_us", "Setting: longest wait", "µs"),
];

/// Returns title and unit of a series.
fn series_name(name: &str) -> (String, &'static str) {
    let known = SERIES.iter().find(|(n, _, _)| *n == name);
    known.map_or((words(name), ""), |(_, title, unit)| ((*title).to_owned(), *unit))
}

/// Draws lines over the time of a run.
pub(super) fn over_time(name: &str, lines: Vec<Line>, colours: &[&str]) -> Markup {
    let (title, unit) = series_name(name);
    let comma = if unit.is_empty() { "" } else { ", " };
    let units = ("ms".to_owned(), unit.to_owned());
    let about = format!("{unit}{comma}over the run’s time in ms");
    let plot = Plot { lines, steps: true, units, ..Plot::default() };
    Shown { title: &title, about: &about, over: "time", plot }.drawn(colours)
}

/// Draws every series of some runs that moves at all, with a legend.
pub(super) fn series(palette: &mut Palette, runs: &[&Readings], labels: &[String]) -> Markup {
    let colours = palette.sides(labels);
    let moves = |name: &str| {
        let own = runs.iter().filter_map(|r| r.over_time(name));
        own.into_iter().any(|s| s.iter().skip(2).any(|p| p.1 != s[1].1))
    };
    let all = runs.iter().flat_map(|r| r.series());
    let mut names: IndexSet<&str> = all.filter(|name| moves(name)).collect();
    if names.is_empty() {
        return html! {};
    }
    names.sort_by_key(|n| SERIES.iter().position(|(s, _, _)| s == n).unwrap_or(SERIES.len()));
    let of = |name: &str| {
        let points = |r: &&Readings| r.over_time(name).unwrap_or_default().to_vec();
        let each = runs.iter().map(points).zip(labels);
        each.map(|(points, label)| Line { label: label.clone(), points }).collect()
    };
    html! {
        (legend(labels, &colours))
        div.grid { @for name in names { (over_time(name, of(name), &colours)) } }
    }
}

/// The quantiles of a table.
const QUANTILES: [(&str, &str); 6] = [
    ("min", "shortest"),
    ("p50", "50 %"),
    ("p90", "90 %"),
    ("p99", "99 %"),
    ("p999", "99.9 %"),
    ("max", "longest"),
];

/// Draws which share of packets takes no longer than so long.
pub(super) fn latency(palette: &mut Palette, runs: &[&Run], labels: &[String]) -> Markup {
    let Some(first) = runs.iter().find(|r| !r.latency_histogram_ns.is_empty()) else {
        return html! {};
    };
    let buckets = runs.iter().flat_map(|r| r.latency_histogram_ns.iter().map(|b| b.0));
    let least = buckets.filter(|ns| *ns > 0.0).fold(f64::MAX, f64::min);
    let us = |ns: f64| ns.max(least) / 1000.0;
    let lines = runs.iter().zip(labels).map(|(r, label)| {
        let all: u64 = r.latency_histogram_ns.iter().map(|b| b.1).sum();
        let mut seen = 0;
        let start = (us(r.value("latency_ns", "min").unwrap_or(0.0)), 0.0);
        let steps = r.latency_histogram_ns.iter().map(|(ns, n)| {
            seen += n;
            (us(*ns), 100.0 * seen as f64 / all as f64)
        });
        let points = if all > 0 { std::iter::once(start).chain(steps).collect() } else { vec![] };
        Line { label: label.clone(), points }
    });
    let colours = palette.sides(labels);
    let units = ("µs".to_owned(), "% of packets".to_owned());
    let plot = Plot { lines: lines.collect(), steps: true, units, ..Plot::default() };
    let near = |r: &&Run| {
        let same = |of: &Number| {
            let other = r.value("latency_ns", &of.name);
            other.is_some_and(|other| (other - of.value).abs() <= of.value / 100.0)
        };
        first.numbers.group("latency_ns").iter().all(same)
    };
    let same = if runs.len() > 1 && runs.iter().all(near) { "; the same within 1 %" } else { "" };
    let about =
        format!("{}: share of packets in % that take at most so many µs{same}", first.latency_of);
    let row = |(q, name): &(&str, &str)| {
        let of = |r: &&Run| r.value("latency_ns", q).map(|ns| ns / 1000.0);
        let cells = runs.iter().map(|r| cell(of(r)));
        std::iter::once(html! { (name) }).chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = QUANTILES.iter().map(row).collect();
    let heads = std::iter::once("share, in µs".to_owned()).chain(labels.iter().cloned());
    let numbers = table("Latency", &heads.collect::<Vec<_>>(), 1, &rows);
    let median = |r: &&Run| r.value("latency_ns", "p50").map(|ns| amount(ns / 1000.0));
    let medians: Vec<String> = runs.iter().filter_map(median).collect();
    let said = html! { "half of them: " strong { (medians.join(", ")) } " µs" };
    figure(("Latency", said, &about), &drawing("Latency", &plot, &colours), &numbers)
}
