//! `doorbell sweep`: one scenario over all combinations of the values of some keys.
//!
//! Each combination of the `--over` keys is a row. The values of the `--across` key stand side by
//! side; two values also with their difference, the second minus the first. People get rates in
//! the units of `run`, programs in units of one.

use crate::args::Sweep;
use crate::chart::{self, Chart, Line, Plot};
use crate::plan::{self, Plans};
use crate::point::{HELD, Runner, program};
use crate::record::RecordFile;
use crate::run::overloaded;
use doorbell_console::output::{print, tell};
use doorbell_console::render::{Cell, Document, Format, Table, amount, people_of, with_unit};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_study::point::Point;
use doorbell_study::shown::Shown;
use doorbell_study::sweep::{Grid, Row, Swept};
use doorbell_systems::result::rounded;
use doorbell_systems::{Plan, Registry, cores, on_threads};
use std::ops::Range;
use std::path::Path;

/// The most rows of a table, if there is a file that has them, too.
const SHOWN: usize = 10_000;
/// The most runs without a file.
const UNFILED: usize = 100_000;

pub(crate) fn sweep(registry: &'static Registry, args: &Sweep) -> Result<u8, Error> {
    let mut grid = Grid::parse(&args.over, args.across.as_deref(), &args.changes.sets)?;
    if args.output.format == Format::Svg {
        let lines = grid.runs().len() / grid.over.last().map_or(1, |a| a.values.len());
        drawable(args.show.len(), lines, args.shard.is_some())?;
    }
    args.shard.map_or(Ok(()), |part| grid.keep(part))?;
    let all = grid.runs().len();
    if all > UNFILED && args.out.is_none() && !args.plan {
        return Err(input!(
            "{all} runs, and more than {UNFILED} need a file: --out FILE, or --plan"
        ));
    }
    let mut plans = Plans::of(registry);
    check(&mut plans, &grid, args)?;
    let one = plans.plan(&args.scenario, &args.changes, &grid.settings(0))?;
    let shown = args.show.iter().map(|text| Shown::parse("--show", text, one.system));
    let shown: Vec<Shown<'_>> = shown.collect::<Result<_, _>>()?;
    let (program, words) = (program(), grid.words(&one));
    // Hashing all values takes most of the time of a plan.
    let point = |_, plan: &Plan| {
        let columns = grid.columns(plan, &words);
        Ok::<_, Error>(Point::new(&program, plan.clone(), columns, plan::sha256(plan)?))
    };
    let mut points = |rows: &Range<usize>| {
        let own = grid.runs_of(rows).map(|n| plan_of(&mut plans, &grid, args, n));
        on_threads(cores(), &own.collect::<Result<Vec<_>, _>>()?, point)
    };
    if args.plan {
        for rows in grid.parts(HELD) {
            let points = points(&rows)?;
            print(&points.iter().map(|point| point.line(&program)).collect::<String>())?;
        }
        return Ok(DONE);
    }
    let name = &args.scenario;
    let runner = Runner::new(name, &args.points, (args.out.is_some(), args.output.quiet), all)?;
    // Scenarios and profiles have another extension than records.
    let read = one.capture().map(Path::new);
    let file = args.out.as_deref().map(|path| RecordFile::begin(path, read.as_slice()));
    let mut file = file.transpose()?;
    let held = file.is_none() || args.output.format != Format::Table || grid.rows() <= SHOWN;
    let one = point(0, &one)?;
    let mut swept = Swept::begin(&grid, &shown, &one);
    let (mut sound, mut overload) = (true, 0);
    for rows in grid.parts(HELD) {
        let points = points(&rows)?;
        let outcomes = runner.run(&points)?;
        if let Some(file) = &mut file {
            file.origins.extend(&grid, &points);
            file.extend(&points, &outcomes)?;
        }
        let before = swept.rows.len();
        swept.extend((&grid, rows), &shown, &points, &outcomes)?;
        sound &= swept.rows[before..].iter().all(|row| row.audit.is_empty());
        overload += outcomes.iter().filter(|o| o.is_overloaded()).count();
        if !held {
            swept.rows.clear();
        }
    }
    runner.end();
    file.map_or(Ok(()), RecordFile::end)?;
    print(&match args.output.format {
        Format::Svg => picture(&swept, &shown[0], &one, &args.changes.sets)?,
        Format::Table if !held => format!("{} rows are in the file\n", grid.rows()),
        format => document(&swept, &shown, all).show(format, "sweep", &swept),
    })?;
    overloaded(overload, all);
    Ok(if sound { DONE } else { MISSED })
}

fn plan_of(plans: &mut Plans, grid: &Grid, args: &Sweep, n: usize) -> Result<Plan, Error> {
    plans.plan(&args.scenario, &args.changes, &grid.settings(n))
}

/// Makes plans of a grid, so that a wrong value of any axis is known before the first run, and says
/// which axes have an effect on a part of the runs.
fn check(plans: &mut Plans, grid: &Grid, args: &Sweep) -> Result<(), Error> {
    let mut idle = vec![0; grid.axes().count()];
    for n in grid.samples() {
        let plan = plan_of(plans, grid, args, n)?;
        if args.plan && plan.capture() == Some("-") {
            return Err(input!("--plan: a point that runs later cannot read stdin again"));
        }
        let known = |key: &str| plan.values.find(key).map(|(key, _)| key);
        let own = grid.runs().contains(&n);
        for (idle, axis) in idle.iter_mut().zip(grid.axes()).filter(|_| own) {
            let is_idle = known(&axis.key).is_some_and(|key| plan.values.idle(key).is_some());
            *idle += usize::from(is_idle);
        }
    }
    // Beside other values than those of the samples a key may have an effect.
    if plans.check().is_err() && grid.runs() != grid.all() {
        for n in grid.all() {
            plan_of(plans, grid, args, n)?;
        }
    }
    plans.check()?;
    let all = grid.runs().len();
    for (idle, axis) in idle.into_iter().zip(grid.axes()).filter(|(idle, _)| *idle > 0) {
        if !args.output.quiet {
            let (option, key) = (axis.option, &axis.key);
            tell(format_args!("{option} {key}: it has no effect on {idle} of {all} runs"));
        }
    }
    Ok(())
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
