//! `doorbell sweep`: one scenario over all combinations of the values of some keys.
//!
//! Each combination of the `--over` keys is a row. The values of the `--across` key stand side by
//! side; two values also with their difference, the second minus the first. People get rates in
//! the units of `run`, programs in units of one.

use crate::args::Sweep;
use crate::chart::{self, Chart, Line, Plot};
use crate::plan::{self, Plans};
use crate::point::{Runner, program, write};
use crate::record::RecordFile;
use crate::run::overloaded;
use doorbell_console::output::print;
use doorbell_console::render::{Cell, Document, Format, Table, amount, people_of, with_unit};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_study::point::{Origins, Point};
use doorbell_study::shown::Shown;
use doorbell_study::sweep::{Grid, Row, Swept};
use doorbell_systems::result::rounded;
use doorbell_systems::{Plan, Registry, cores, on_threads};
use std::path::Path;

/// Lines that `--plan` makes at a time.
const LINES: usize = 1024;

pub(crate) fn sweep(registry: &'static Registry, args: &Sweep) -> Result<u8, Error> {
    let mut grid = Grid::parse(&args.over, args.across.as_deref(), &args.changes.sets)?;
    if args.output.format == Format::Svg {
        let lines = grid.runs().len() / grid.over.last().map_or(1, |a| a.values.len());
        drawable(args.show.len(), lines, args.shard.is_some())?;
    }
    args.shard.map_or(Ok(()), |part| grid.keep(part))?;
    let mut plans = Plans::of(registry);
    let mut shown: Vec<Shown<'_>> = Vec::new();
    // A plan that is printed is made again, so that no more of them are held than one part.
    let own = grid.plans(!args.plan, |n| {
        let plan = plans.plan(&args.scenario, &args.changes, &grid.settings(n))?;
        if n == 0 {
            let all = args.show.iter().map(|text| Shown::parse("--show", text, plan.system));
            shown = all.collect::<Result<_, _>>()?;
        }
        if args.plan && plan.capture() == Some("-") {
            return Err(input!("--plan: a point that runs later cannot read stdin again"));
        }
        Ok(plan)
    })?;
    plans.check()?;
    let (program, one) = (program(), plans.plan(&args.scenario, &args.changes, &grid.settings(0))?);
    let words = grid.words(&one);
    // Hashing all values takes most of the time of a plan.
    let point = |_, plan: &Plan| {
        let columns = grid.columns(plan, &words);
        Ok::<_, Error>(Point::new(&program, plan.clone(), columns, plan::sha256(plan)?))
    };
    if args.plan {
        for begin in grid.runs().step_by(LINES) {
            let runs = begin..grid.runs().end.min(begin + LINES);
            let plans = runs.map(|n| plans.plan(&args.scenario, &args.changes, &grid.settings(n)));
            let points = on_threads(cores(), &plans.collect::<Result<Vec<_>, _>>()?, point)?;
            print(&points.iter().map(|point| point.line(&program)).collect::<String>())?;
        }
        return Ok(DONE);
    }
    let points = on_threads(cores(), &own, point)?;
    drop(own);
    let one = &points[0];
    let runner = Runner::new(&args.scenario, &args.points, args.out.is_some(), args.output.quiet)?;
    // Scenarios and profiles have another extension than records.
    let read = one.plan.capture().map(Path::new);
    let file =
        args.out.as_deref().map(|path| RecordFile::begin(path, read.as_slice())).transpose()?;
    let outcomes = runner.run(&points)?;
    let swept = Swept::of(&grid, &shown, &points, &outcomes)?;
    if let Some(file) = file {
        let records = points.iter().zip(&outcomes).map(|(point, o)| point.record(o));
        write(file, records.collect(), &points, Origins::of_sweep(&grid, &points))?;
    }
    print(&match args.output.format {
        Format::Svg => picture(&swept, &shown[0], one, &args.changes.sets)?,
        format => document(&swept, &shown, points.len()).show(format, "sweep", &swept),
    })?;
    overloaded(outcomes.iter().filter(|o| o.is_overloaded()).count(), outcomes.len());
    Ok(if swept.rows.iter().all(|row| row.audit.is_empty()) { DONE } else { MISSED })
}

/// Returns a notice of the runs that lose frames, if any do. Their latencies are those of the
/// frames that were left.
pub(crate) fn lossy_line(lossy: usize, of: usize, what: &str) -> Option<String> {
    (lossy > 0).then(|| format!("{lossy} of {of} {what} lose frames: see lost_share"))
}

fn document(swept: &Swept, shown: &[Shown<'_>], runs: usize) -> Document {
    let mut doc = Document::from(table(swept, shown));
    if let Some(line) = lossy_line(swept.lose_frames, runs, "runs") {
        doc.gap();
        doc.line(line);
    }
    doc
}

fn table(swept: &Swept, shown: &[Shown<'_>]) -> Table {
    let mut heads: Vec<Cell> =
        swept.over.keys().map(|key| Cell::exact(short(key), key.as_str())).collect();
    for what in shown {
        let Some((key, all)) = swept.across.first() else {
            heads.push(Cell::exact(with_unit((what.text, &what.sum), ""), what.text));
            continue;
        };
        heads.extend(all.iter().map(|v| {
            let exact = format!("{} {key}={v}", what.text);
            match shown.len() {
                1 => Cell::exact(format!("{} {v}", short(key)), exact),
                _ => Cell::exact(with_unit((what.text, &what.sum), v), exact),
            }
        }));
        if let [first, second] = &all[..] {
            let difference = format!("{second} - {first}");
            let exact = format!("{} {difference}", what.text);
            heads.push(Cell::exact(difference, exact));
        }
    }
    let mut table = Table::new(heads.clone()).right(swept.over.len()..heads.len());
    for row in &swept.rows {
        let keys = row.given.iter().zip(row.keys.values());
        let mut line: Vec<Cell> = keys.map(|(v, key)| Cell::exact(v, key.clone())).collect();
        for what in shown {
            let (people, values) = (|n| people_of(&what.sum, n), row.values[what.text].all());
            line.extend(values.iter().map(|n| Cell::exact(amount(people(*n)), *n)));
            if let ([a, b], false) = (&values[..], swept.across.is_empty()) {
                let difference = amount(rounded(people(*b) - people(*a)));
                line.push(Cell::exact(difference, rounded(b - a)));
            }
        }
        table.row(line);
    }
    table
}

/// Returns the lines of a chart, one for each combination of the earlier axes and column, over
/// these places on its horizontal axis.
fn lines(swept: &Swept, what: &Shown<'_>, places: &[f64]) -> Vec<Line> {
    let columns = swept.across.first();
    let columns = columns.map(|(key, all)| all.iter().map(|v| format!("{} {v}", short(key))));
    let columns = columns.map_or(vec![None], |all| all.map(Some).collect());
    let mut lines = Vec::new();
    for rows in swept.rows.chunks(places.len()) {
        let earlier = swept.over.keys().zip(&rows[0].given).take(swept.over.len() - 1);
        let earlier: Vec<String> = earlier.map(|(k, v)| format!("{} {v}", short(k))).collect();
        for (column, across) in columns.iter().enumerate() {
            let label: Vec<String> = earlier.iter().chain(across).cloned().collect();
            let value = |row: &Row| people_of(&what.sum, row.values[what.text].all()[column]);
            let points = places.iter().copied().zip(rows.iter().map(value)).collect();
            lines.push(Line { label: label.join(", "), points });
        }
    }
    lines
}

/// Draws a number of the results, of which `one` is a point.
fn picture(swept: &Swept, what: &Shown<'_>, one: &Point, sets: &[String]) -> Result<String, Error> {
    let Some((key, given)) = swept.over.last() else {
        return Err(input!("--format svg: there is no --over key"));
    };
    let of = if what.sum.is_by_packet() { " a packet" } else { "" };
    let y = format!("{}{of}", with_unit((what.text, &what.sum), ""));
    // The values as the system understood them: with `0.5 KiB` beside `1024`, both are bytes.
    let values = swept.rows.iter().take(given.len()).map(|row| row.keys[key].as_f64());
    let (places, words, unit) = match values.collect::<Option<Vec<f64>>>() {
        Some(n) => (n, Vec::new(), swept.units.get(key).map_or("", String::as_str)),
        None => ((0..given.len()).map(|i| i as f64).collect(), given.clone(), ""),
    };
    let x = if unit.is_empty() { key.clone() } else { format!("{key}, {unit}") };
    // The settings that all points share.
    let set = if sets.is_empty() { String::new() } else { format!(", {}", sets.join(", ")) };
    let title = format!("{} on {}{set}", one.plan.scenario, one.plan.profile);
    let (lines, units) = (lines(swept, what, &places), (unit.to_owned(), String::new()));
    let plot = Plot { words, lines, units, ..Plot::default() };
    Ok(Chart { title, x, y, plot }.svg())
}

/// Returns a key without its table.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Refuses a chart that has no room for so much.
fn drawable(shown: usize, lines: usize, part: bool) -> Result<(), Error> {
    if part {
        return Err(input!(
            "--format svg: a chart shows all rows, but --shard runs a part of them"
        ));
    }
    if shown > 1 {
        return Err(input!(
            "--format svg: a chart shows one number, but --show is given more than once"
        ));
    }
    if lines > chart::MOST {
        return Err(input!(
            "--format svg: {lines} lines, but a chart has room for {}; the last --over key is the \
             horizontal axis",
            chart::MOST
        ));
    }
    Ok(())
}
