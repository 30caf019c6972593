//! `doorbell rank`: one choice of settings against others, on all of the machine's cores.

use crate::args::Rank;
use crate::chart::{self, Chart, Line, Plot};
use crate::plan::Plans;
use crate::point::Runner;
use crate::sweep::lossy_line;
use doorbell_console::render::{Cell, Document, Format, Table, amount, people_of, with_unit};
use doorbell_console::{DONE, Error, MISSED, input, output::print};
use doorbell_study::rank::{
    Contest, Found, Named, Points, Ranked, Rival, Row, Side, Where, seeds, share,
};
use doorbell_study::shown::Shown;
use doorbell_systems::result::rounded;
use doorbell_systems::{Plan, Registry};
use indexmap::IndexMap;
use serde_json::Value;
use std::iter::once;

pub(crate) fn rank(registry: &'static Registry, args: &Rank) -> Result<u8, Error> {
    let sides = args.side.iter().map(|t| Side::parse(t)).collect::<Result<Vec<_>, _>>()?;
    if !(0.0..=100.0).contains(&args.noise) {
        return Err(input!("--noise {}: expected 0 to 100 percent", args.noise));
    }
    if args.output.format == Format::Svg && args.series.is_none() {
        return Err(input!("--format svg: only --series can be drawn"));
    }
    let contest = Contest {
        scenarios: &args.scenario,
        sides,
        seeds: args.seeds.as_deref().map(seeds).transpose()?,
        filter: args.filter.as_deref().map(Where::parse).transpose()?,
        noise: args.noise,
        by: &args.by,
        show: &args.show,
        series: args.series.as_deref().map(|name| (name, args.every)),
    };
    let mut all = Plans::of(registry);
    let plans = contest.plans(|scenario, sets| all.plan(scenario, &args.changes, sets))?;
    all.check()?;
    let shown = contest.shown(&plans)?;
    let runner = Runner::plain(&args.scenario[0], None, args.output.quiet);
    let ranked = contest.rank(&runner, &plans, &shown)?;
    drop(runner);
    let mut doc = match &ranked.found {
        Found::Series { series, points, .. } if args.output.format == Format::Svg => {
            print(&picture(series, points, &plans[0])?)?;
            return Ok(if ranked.is_sound { DONE } else { MISSED });
        }
        Found::Series { series, points, .. } => over_time(series, points),
        Found::Shares { rows, dominated, dominating, .. } => {
            shares(&ranked, rows, dominated, *dominating)
        }
        Found::Numbers { rows } => numbers(&ranked.sides, rows, &shown),
    };
    if args.series.is_none() {
        if let Some(filter) = &ranked.filter {
            doc.line(format!("{filter} in {} of {} loads", ranked.left, ranked.loads));
        }
        let line = lossy_line(ranked.lose_frames, ranked.loads, "loads");
        line.into_iter().for_each(|line| doc.line(line));
    }
    print(&doc.show(args.output.format, "rank", &ranked))?;
    Ok(if ranked.is_sound { DONE } else { MISSED })
}

/// Returns a number in a cell, if there is one.
fn cell(value: Option<f64>, people: impl Fn(f64) -> f64) -> Cell {
    let none = || Cell::exact("-", Value::Null);
    value.map_or_else(none, |value| Cell::exact(amount(people(value)), value))
}

/// Shows a row for each scenario and side.
fn numbers(sides: &[Side], rows: &[Row], shown: &[Shown<'_>]) -> Document {
    let number = |of: &Named, what: &Shown<'_>| *of.get(what.text)?;
    let heads =
        shown.iter().map(|what| Cell::exact(with_unit((what.text, &what.sum), ""), what.text));
    let heads = ["scenario".into(), "side".into()].into_iter().chain(heads);
    let heads = heads.chain([format!("against {}", sides[0].name).into()]);
    let mut table = Table::new(heads).right(2..shown.len() + 3);
    for (i, row) in rows.iter().enumerate() {
        // The name of a scenario stands once.
        let name = if i % sides.len() == 0 { row.scenario.as_str() } else { "" };
        let people =
            |what: &Shown<'_>| cell(number(&row.values, what), |n| people_of(&what.sum, n));
        let name = [Cell::exact(name, row.scenario.as_str()), row.side.as_str().into()];
        let against = [row.against_first.as_str().into()];
        table.row(name.into_iter().chain(shown.iter().map(people)).chain(against));
    }
    let errors = shown.iter().filter_map(|what| {
        let all = rows.iter().filter_map(|row| Some((number(&row.values, what)?, row)));
        let percent = |(value, row): (f64, &Row)| match number(&row.errors, what)? {
            0.0 => Some(0.0),
            error => Some(100.0 * error / value.abs()),
        };
        match all.map(percent).try_fold(0.0, |most: f64, e| Some(most.max(e?))) {
            None => Some(format!("{} unknown, a run is too short for its load", what.text)),
            Some(most) if most >= 0.005 => Some(format!("{} up to ±{most:.2} %", what.text)),
            Some(_) => None,
        }
    });
    let errors = errors.collect::<Vec<_>>().join(", ");
    let mut doc = Document::from(table);
    if !errors.is_empty() {
        doc.gap();
        doc.line(format!("errors (95 %): {errors}"));
    }
    doc
}

/// Shows the shares of runs in which a side dominates the first, and the reverse.
fn shares(ranked: &Ranked, rows: &[Rival], any: &[String], dominating: usize) -> Document {
    let (runs, first) = (ranked.left, &ranked.sides[0].name);
    let share = |k: usize| {
        let [share, low, high] = share(k, runs).map(|p| 100.0 * p);
        Cell::exact(format!("{share:.1} % ({low:.1} to {high:.1})"), share / 100.0)
    };
    let heads = ["other".to_owned(), format!("dominates {first}"), format!("dominated by {first}")];
    let ratios = ranked.by.iter().map(|what| format!("{what}, {first} / other"));
    let mut table = Table::new(heads.into_iter().chain(ratios)).right(1..ranked.by.len() + 3);
    for row in rows {
        let median = |name| row.medians.get(name).copied().flatten();
        let ratios = ranked.by.iter().map(|name| cell(median(name), |n| n));
        let shares = [row.dominates_first, row.dominated_by_first].map(share);
        table.row(once(row.side.as_str().into()).chain(shares).chain(ratios));
    }
    let all = [any.len(), dominating].map(share);
    let none = ranked.by.iter().map(|_| "".into());
    table.row(once("any".into()).chain(all).chain(none));
    let listed = any[..any.len().min(20)].join(", ");
    let which = match any.len() {
        0 => String::new(),
        1..=20 => format!("; {first} is dominated in: {listed}"),
        _ => format!("; the first 20 where {first} is dominated: {listed}"),
    };
    let mut doc = Document::from(table);
    doc.gap();
    doc.line(format!("{runs} runs{which}"));
    doc
}

/// Returns how many points all sides have.
fn shortest(points: &IndexMap<String, Points>) -> usize {
    points.values().map(Vec::len).min().unwrap_or(0)
}

/// Draws a number over time, each side a line.
fn picture(name: &str, all: &IndexMap<String, Points>, plan: &Plan) -> Result<String, Error> {
    if all.len() > chart::MOST {
        return Err(input!("--format svg: a chart has room for {} sides", chart::MOST));
    }
    let line = |(label, points): (&String, &Points)| Line {
        label: label.clone(),
        points: points[..shortest(all)].to_vec(),
    };
    let (x, y) = ("ms".to_owned(), name.to_owned());
    let title = format!("{} on {}", plan.scenario, plan.profile);
    let units = (x.clone(), String::new());
    let plot = Plot { lines: all.iter().map(line).collect(), units, ..Plot::default() };
    Ok(Chart { title, x, y, plot }.svg())
}

/// Shows a number over time, each side a column.
fn over_time(name: &str, all: &IndexMap<String, Points>) -> Document {
    let mut table = Table::new(once(format!("{name} at ms")).chain(all.keys().cloned()));
    table = table.right(1..=all.len());
    for i in 0..shortest(all) {
        let ms = all.values().min_by_key(|points| points.len()).map(|points| points[i].0);
        let cells = all.values().map(|points| cell(Some(rounded(points[i].1)), |n| n));
        table.row(once(Cell::from(ms.unwrap_or_default().to_string())).chain(cells));
    }
    table.into()
}
