//! `doorbell fit`: constants of a profile, solved for by measurements of one's own.

use crate::{args::Fit as Args, new, plan, reproduce};
use doorbell_console::output::{SHARED, apart, begun_file, keep, print};
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{Cell, Document, Record, Table, amount, flat, people};
use doorbell_console::{DONE, Error, MISSED, failed, input};
use doorbell_study::figures::{self, MeasureError, Role, Row, Tolerance};
use doorbell_study::fit::{
    Calibration, Compared, FitError, Measurements, Moved, Solved, State, fit, profile,
};
use doorbell_study::origin;
use doorbell_systems::Registry;
use doorbell_systems::RunError;
use doorbell_systems::result::rounded;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

pub(crate) fn solve(registry: &'static Registry, args: &Args) -> Result<u8, Error> {
    let of = loaded(registry, args)?;
    let out = args.out.as_deref();
    let name = new::name(out, "")?;
    let interrupt = Interrupt::watched_for(out.is_some())?;
    out.map_or(Ok(()), |path| apart(&[path], &[&args.file]))?;
    let file = out.map(|path| begun_file(path.to_owned(), SHARED)).transpose()?;
    let progress = Progress::new(&of.name, args.output.quiet);
    let tell = |p: figures::Progress<'_>| {
        reproduce::tell(&progress, &p);
        !interrupt.came()
    };
    let solved = fit(&of, &tell, args.sensitivity).map_err(error)?;
    drop(progress);
    if let Some((mut file, path)) = file {
        let text = profile(&of, &solved, &name);
        file.write_all(text.as_bytes()).map_err(Error::at(path.display()))?;
        keep(file, &path)?;
    }
    let found = Found { of: &of, fit: &solved };
    let data = found.data();
    let document = found.document().with(records(&data));
    print(&document.show(args.output.format, "fit", &data))?;
    let missed = solved.rows.iter().any(|r| r.holds == Some(false));
    Ok(if missed { MISSED } else { DONE })
}

/// Reads the measurements and the captures of their runs.
fn loaded(registry: &Registry, args: &Args) -> Result<Measurements, Error> {
    let Some(file) = args.file.to_str() else {
        return Err(input!("{}: the name is not UTF-8", args.file.display()));
    };
    let mut of = Measurements::load(registry, file)?;
    for run in &mut of.runs {
        run.frames = plan::capture(&run.plan)?.map(|c| c.frames.clone());
    }
    Ok(of)
}

fn error(e: FitError) -> Error {
    match &e {
        FitError::Unmeasured { error: MeasureError::Run(RunError::Stopped), .. } => {
            Error::Interrupted("nothing was written")
        }
        FitError::Unmeasured { error: MeasureError::Run(why), .. } if !why.is_input() => {
            failed!("{e}")
        }
        _ => input!("{e}"),
    }
}

/// A fit with its measurements.
struct Found<'a> {
    of: &'a Measurements,
    fit: &'a Calibration,
}

impl Found<'_> {
    /// Returns the constants of the profile, and what was found.
    fn constants(&self) -> impl Iterator<Item = (&figures::Constant, &Solved)> {
        self.fit.constants.iter().enumerate().map(|(i, found)| (self.of.solved_for(i), found))
    }

    /// Returns the rows of these roles, with their numbers.
    fn rows(
        &self,
        wanted: impl Fn(Role) -> bool,
    ) -> impl Iterator<Item = (usize, &Row, &Compared)> {
        let all = self.of.rows.iter().zip(&self.fit.rows).enumerate();
        all.map(|(i, (row, c))| (i + 1, row, c)).filter(move |(_, row, _)| wanted(row.role))
    }

    fn fitted(&self) -> impl Iterator<Item = (usize, &Row, &Compared)> {
        self.rows(|role| role == Role::Fit)
    }

    fn predicted(&self) -> impl Iterator<Item = (usize, &Row, &Compared)> {
        self.rows(|role| role == Role::Predicted)
    }

    fn names(&self, constants: &[usize]) -> Vec<&str> {
        constants.iter().map(|i| &*self.of.solved_for(*i).key).collect()
    }

    fn document(&self) -> Document {
        let (of, fit) = (self.of, self.fit);
        let mut doc = Document::titled(format!("{} on {}", of.name, of.profile.name));
        doc.line(&of.about);
        let (fitted, predicted) = (self.fitted().count(), self.predicted().count());
        let (constants, runs) = (of.unknowns.len(), fit.runs);
        doc.line(format!(
            "rows to fit: {fitted}, predicted: {predicted}; constants: {constants}; runs: {runs}"
        ));
        doc.line(self.freedom());
        doc.table(self.solved());
        doc.table(self.to_fit());
        for role in ["predicted", "exact", "bound", "definition", "shown"] {
            doc.table(self.judged(role));
        }
        let groups = self.groups();
        let claims = self.rows(|role| role != Role::Predicted).filter_map(|(_, _, c)| c.holds);
        let claims: Vec<bool> = claims.collect();
        if !groups.is_empty() || predicted + claims.len() > 0 {
            doc.gap();
        }
        for group in groups {
            doc.line(format!(
                "undetermined: {}: the rows show only a combination of them",
                group.join(", ")
            ));
        }
        if predicted > 0 {
            doc.line(self.verdict());
        }
        if !claims.is_empty() {
            let held = claims.iter().filter(|holds| **holds).count();
            doc.line(format!("{held} of {} other claims hold", claims.len()));
        }
        if let Some(moved) = &fit.sensitivity {
            doc.table(self.followers(moved));
            let still = moved.iter().filter(|m| m.follows.is_none()).count();
            doc.gap();
            doc.line(format!("no row depends on {still} other constants of the profile"));
        }
        doc
    }

    /// Describes what the rows are worth. With as many constants as rows, and nothing predicted,
    /// there is no evidence.
    fn freedom(&self) -> String {
        let (fitted, free) = (self.fitted().count(), self.fit.freedom);
        let (solved, predicted) = (fitted - free, self.predicted().count());
        let verdict = if free + predicted == 0 { ": believe nothing" } else { "" };
        format!(
            "degrees of freedom: {free}, of {fitted} rows less {solved} that are used up; \
             predictions: {predicted}{verdict}"
        )
    }

    /// Returns the table of constants that were moved, and the changes that follow.
    fn followers(&self, moved: &[Moved]) -> Table {
        let solved = self.constants().map(|(unknown, _)| unknown.key.clone());
        let predicted = self.predicted().map(|(n, _, _)| format!("row {n}"));
        let heads = ["moved", "by"].map(str::to_owned).into_iter().chain(solved).chain(predicted);
        let heads: Vec<String> = heads.collect();
        let mut table = Table::new(heads.iter().map(String::as_str)).right(1..heads.len());
        for m in moved {
            let Some((constants, rows)) = &m.follows else { continue };
            let percent = |change: f64| format!("{:+.2}", change * 100.0);
            let known = self.constants().zip(constants).map(|((_, c), by)| match c.state {
                State::Determined(_) => percent(*by),
                _ => String::new(),
            });
            let rows = self.predicted().map(|(n, _, _)| percent(rows[n - 1]));
            let cells = [m.key.clone(), m.nudge.to_string()];
            table.row(cells.into_iter().chain(known).chain(rows).map(Cell::from));
        }
        table
    }

    /// Returns the sets of constants that cannot be told apart.
    fn groups(&self) -> Vec<Vec<&str>> {
        let mut all: Vec<Vec<&str>> = Vec::new();
        for (i, (_, constant)) in self.constants().enumerate() {
            let State::Undetermined(others) = &constant.state else { continue };
            let mut group = others.clone();
            group.push(i);
            group.sort_unstable();
            let names = self.names(&group);
            if group.len() > 1 && !all.contains(&names) {
                all.push(names);
            }
        }
        all
    }

    fn verdict(&self) -> String {
        let count = |holds| self.predicted().filter(|(_, _, c)| c.holds == Some(holds)).count();
        let tolerances = self.predicted().any(|(_, row, _)| row.tolerance.is_some());
        let error = if tolerances { "error or tolerance" } else { "95 % error" };
        let (all, within, outside) = (self.predicted().count(), count(true), count(false));
        match (outside, all - within - outside) {
            (0, 0) => format!("{within} of {all} predictions are within their {error}"),
            (0, without) => format!("{within} of {all} predictions hold; {without} have no error"),
            _ => format!("{outside} of {all} predictions are OUTSIDE their {error}"),
        }
    }

    /// Returns the table of constants.
    fn solved(&self) -> Table {
        let heads = ["constant", "profile", "fitted", "95 % interval", "unit", "rows"];
        let mut table = Table::new(heads).right(1..4);
        for (unknown, constant) in self.constants() {
            let (value, interval) = self.certainty(constant);
            table.row([
                unknown.key.clone(),
                amount(unknown.value),
                value,
                interval,
                unknown.unit.clone(),
                constant.rows.len().to_string(),
            ]);
        }
        table
    }

    /// Returns the value of a constant for people, and its interval or the lack of one.
    fn certainty(&self, constant: &Solved) -> (String, String) {
        let undetermined = "undetermined".to_owned();
        match &constant.state {
            State::Determined(Some((low, high))) => {
                (amount(constant.value), format!("{} to {}", amount(*low), amount(*high)))
            }
            State::Determined(None) => (amount(constant.value), "no rows left for one".to_owned()),
            State::AtBound => (amount(constant.value), "at its bound".to_owned()),
            State::Unused => (undetermined, "no row depends on it".to_owned()),
            State::Undetermined(others) if others.is_empty() => {
                (undetermined, "rows hardly depend on it".to_owned())
            }
            State::Undetermined(others) => {
                (undetermined, format!("not without {}", self.names(others).join(", ")))
            }
        }
    }

    /// Returns the table of rows to fit.
    fn to_fit(&self) -> Table {
        let heads =
            ["row", "to fit", "metric", "measured", "computed", "unit", "percent", "spreads"];
        let mut table = Table::new(heads).right([0, 3, 4, 6, 7]);
        for (n, row, c) in self.fitted() {
            let spreads = c.spreads.map_or("".into(), |s| Cell::from(format!("{s:+.1}")));
            let cells = self.compared(n, row, c).into_iter().map(Cell::from);
            table.row(cells.chain([spreads]));
        }
        table
    }

    /// Returns the table of rows of a role that are not fitted.
    fn judged(&self, role: &'static str) -> Table {
        let heads = ["row", role, "metric", "measured", "computed", "unit", "percent", "error", ""];
        let mut table = Table::new(heads).right([0, 3, 4, 6, 7]);
        for (n, row, c) in self.rows(|of| of != Role::Fit && of.name() == role) {
            let error = c.error.map(|e| format!("{:.2}", percent(e, row.value)));
            let verdict = match (c.holds, row.role) {
                (Some(true), Role::Predicted) => "within".to_owned(),
                (Some(false), Role::Predicted) => "OUTSIDE".to_owned(),
                (Some(holds), _) => if holds { "holds" } else { "MISS" }.to_owned(),
                (None, _) if c.rests_on.is_empty() => String::new(),
                (None, _) => format!("rests on {}", self.names(&c.rests_on).join(", ")),
            };
            let cells = self.compared(n, row, c);
            let error = error.unwrap_or_else(|| row.allowed("computed"));
            table.row(cells.into_iter().chain([error, verdict]));
        }
        table
    }

    /// Returns the cells that tables of rows share, numbers in the units of `run`.
    fn compared(&self, n: usize, row: &Row, c: &Compared) -> [String; 7] {
        let run = self.of.run_of(row).map_or(row.figure.clone(), |plan| {
            let set = plan.set.iter().map(|s| format!(" {}", own_name(s)));
            plan.scenario.clone() + &set.collect::<String>()
        });
        let (measured, computed, unit) = match row.metric() {
            None => (row.value, c.computed, &*row.unit),
            Some(metric) => {
                let (measured, unit) = people(metric.unit(), row.value);
                let unit = match (unit, metric.unit().name()) {
                    ("", "") if metric.is_by_packet() => "a packet",
                    ("", own) => own,
                    (unit, _) => unit,
                };
                (measured, people(metric.unit(), c.computed).0, unit)
            }
        };
        [
            n.to_string(),
            run,
            row.computed_from(),
            amount(measured),
            amount(computed),
            unit.to_owned(),
            format!("{:+.2}", percent(c.difference, row.value)),
        ]
    }

    fn data(&self) -> Fitted<'_> {
        let (of, fit) = (self.of, self.fit);
        let all = of.rows.iter().zip(&fit.rows).enumerate();
        Fitted {
            measurements: &of.name,
            about: &of.about,
            file: &of.file,
            system: of.system().name,
            profile: &of.profile.name,
            profile_sha256: origin::profile_sha256(&of.runs[0].plan),
            constants: self.constants().map(|(u, c)| self.constant(u, c)).collect(),
            rows: all.map(|(i, (row, c))| self.row(i + 1, row, c)).collect(),
            undetermined: self.groups(),
            squares: rounded(fit.squares),
            freedom: fit.freedom,
            runs: fit.runs,
            sensitivity: fit.sensitivity.as_ref().map(|moved| self.moved(moved)),
        }
    }

    /// Returns the constants that rows depend on, with the changes that follow them.
    fn moved<'a>(&'a self, moved: &'a [Moved]) -> Vec<MovedConstant<'a>> {
        let of = |m: &'a Moved| {
            let (constants, rows) = m.follows.as_ref()?;
            let known = self.constants().zip(constants);
            let known = known.filter(|((_, c), _)| matches!(c.state, State::Determined(_)));
            Some(MovedConstant {
                moved: &m.key,
                by: m.nudge.to_string(),
                constants: known.map(|((u, _), by)| (&*u.key, rounded(*by))).collect(),
                rows: rows.iter().map(|by| rounded(*by)).collect(),
            })
        };
        moved.iter().filter_map(of).collect()
    }

    fn constant<'a>(&'a self, unknown: &'a figures::Constant, c: &Solved) -> FittedConstant<'a> {
        let (state, interval, with) = match &c.state {
            State::Determined(interval) => ("determined", *interval, Vec::new()),
            State::AtBound => ("at_bound", None, Vec::new()),
            State::Undetermined(others) => ("undetermined", None, self.names(others)),
            State::Unused => ("unused", None, Vec::new()),
        };
        let value = matches!(c.state, State::Determined(_) | State::AtBound);
        FittedConstant {
            constant: &unknown.key,
            unit: &unknown.unit,
            profile_value: rounded(unknown.value),
            value: value.then(|| rounded(c.value)),
            low: interval.map(|i| rounded(i.0)),
            high: interval.map(|i| rounded(i.1)),
            state,
            with,
            rows: c.rows.iter().map(|i| i + 1).collect(),
        }
    }

    fn row<'a>(&'a self, n: usize, row: &'a Row, c: &Compared) -> ComparedRow<'a> {
        let plan = self.of.run_of(row);
        ComparedRow {
            row: n,
            place: &row.place,
            figure: (!row.figure.is_empty()).then_some(&row.figure),
            role: row.role,
            scenario: plan.map(|plan| &*plan.scenario),
            set: plan.map_or(&[], |plan| &plan.set),
            metric: row.computed_from(),
            unit: &row.unit,
            measured: rounded(row.value),
            spread: row.spread.map(rounded),
            computed: rounded(c.computed),
            difference: rounded(c.difference),
            spreads: c.spreads.map(rounded),
            error: c.error.map(rounded),
            tolerance: row.tolerance,
            holds: c.holds,
            rests_on: self.names(&c.rests_on),
            source: &row.source,
        }
    }
}

/// A fit for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Fitted<'a> {
    /// Their name.
    measurements: &'a str,
    /// Their description.
    about: &'a str,
    file: &'a str,
    system: &'static str,
    /// The profile that the fit began with.
    profile: &'a str,
    /// SHA-256 of its content, a line `key=value` for each of its keys, in hexadecimal.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    profile_sha256: String,
    constants: Vec<FittedConstant<'a>>,
    rows: Vec<ComparedRow<'a>>,
    /// Constants that the rows show in combination only.
    undetermined: Vec<Vec<&'a str>>,
    /// The sum of squared differences of rows to fit, in spreads; relative to the measured values
    /// if there are no spreads.
    squares: f64,
    /// Rows to fit, less what they determine.
    freedom: usize,
    /// Runs that were made.
    runs: usize,
    /// With `--sensitivity`: the constants that were not solved for and that rows depend on.
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Vec<MovedConstant<'a>>>,
}

#[derive(Serialize, JsonSchema)]
struct MovedConstant<'a> {
    /// Its key.
    moved: &'a str,
    /// Its step: a share, or an amount in its unit.
    by: String,
    /// The relative change of each determined constant, solved again.
    constants: BTreeMap<&'a str, f64>,
    /// The relative change of each row then.
    rows: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct FittedConstant<'a> {
    /// Its key.
    constant: &'a str,
    unit: &'a str,
    /// The start of the search.
    profile_value: f64,
    /// Null if the rows do not determine it.
    value: Option<f64>,
    /// The lower end of the interval that holds with 95 % for all constants together.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// `determined`; `at_bound`: the rows would have it beyond the end of its range;
    /// `undetermined`; `unused`: no row to fit depends on it.
    state: &'static str,
    /// Constants that it cannot be told apart from.
    with: Vec<&'a str>,
    /// The rows to fit that depend on it.
    rows: Vec<usize>,
}

#[derive(Serialize, JsonSchema)]
struct ComparedRow<'a> {
    /// Its number, from 1 on.
    row: usize,
    /// File and line.
    place: &'a str,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    figure: Option<&'a str>,
    role: Role,
    /// Null for a row that is computed from others.
    scenario: Option<&'a str>,
    set: &'a [String],
    /// A number of a result or a sum, `per` another, or arithmetic on other rows.
    metric: String,
    /// The unit of all numbers of the row; empty for a pure number.
    unit: &'a str,
    measured: f64,
    /// One standard deviation of the measured value.
    spread: Option<f64>,
    /// By a run with the fitted constants.
    computed: f64,
    /// Computed minus measured.
    difference: f64,
    /// The difference in spreads.
    spreads: Option<f64>,
    /// The 95 % error of the difference, of a predicted row.
    error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerance: Option<Tolerance>,
    /// The difference is within that error or tolerance, or the row's claim holds.
    holds: Option<bool>,
    /// Constants that a predicted row depends on and that the rows to fit do not determine.
    rests_on: Vec<&'a str>,
    source: &'a str,
}

/// Returns the records for programs: constants, then rows.
fn records(data: &Fitted<'_>) -> Vec<Record> {
    flat(&data.constants).into_iter().chain(flat(&data.rows)).collect()
}

/// Returns a setting without the table of its key: `burst=8`.
fn own_name(set: &str) -> &str {
    let key = set.split('=').next().unwrap_or(set);
    key.find('.').map_or(set, |dot| &set[dot + 1..])
}

/// Returns a difference in percent of a value, or as it is if that is 0.
fn percent(difference: f64, of: f64) -> f64 {
    if of == 0.0 { difference } else { 100.0 * difference / of.abs() }
}
