//! The run: check, swap, set, fit, measure, judge, move.

use super::bench::{Bench, Progress, Stage};
use super::cores::Cores;
use super::report::{DegreesOfFreedom, Outcome, Report, SystemReport, round_significant, settle};
use super::{
    FigureSet, FigureSetError, Fit, MeasureError, SetError, Setting, UnknownConstant, combinations,
    fit, sensitivity,
};
use doorbell_spec::nearest;
use doorbell_systems::cores;
use std::sync::{Mutex, PoisonError, mpsc};

/// The options of `doorbell reproduce`, except the systems.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// Fit on the swap partners, and predict the rows fitted otherwise.
    pub swap: bool,
    /// Move each constant and see which rows follow.
    pub sensitivity: bool,
    /// Constants and choices set by hand, in order. A key applies to every system that has it.
    pub set: Vec<Setting>,
}

/// A part of a run that is done.
#[derive(Clone, Copy, Debug)]
pub enum Done<'a> {
    /// The rows of a system with their verdicts, while its sensitivity run goes on.
    Rows(&'a SystemReport),
    /// All of a system, whose rows were told of.
    System(&'a SystemReport),
}

/// The reasons not to run.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Refused {
    /// A system's declarations contradict each other: its author's fault.
    #[error(transparent)]
    FigureSet(FigureSetError),
    /// A `--set` that no system accepts: the user's fault.
    #[error(transparent)]
    Set(SetError),
    /// `progress` ended it.
    #[error("stopped")]
    Stopped,
}

/// Runs of fits and rows, one of a system at a time: they come before all others, but for the first
/// system's, whose table a person waits for.
const FITS: usize = 0;
/// Runs of which many can be made at a time.
const OTHERS: usize = 1;

/// Measures and judges every row of every system, on all cores, and the first systems first.
/// `progress` gets each step before it starts and returns whether to go on. `done` gets the parts
/// of each system as soon as they and all before them are done.
///
/// # Errors
/// A sheet is inconsistent or a constant unknown; nothing has run then. Or `progress` ended it.
/// Later failures (of a fit, of a measurement) are in the report.
pub fn reproduce(
    systems: &[FigureSet],
    options: &Options,
    progress: &mut (dyn FnMut(Progress<'_>) -> bool + Send),
    done: &mut dyn FnMut(Done<'_>),
) -> Result<Report, Refused> {
    reproduce_on(cores(), systems, options, progress, done)
}

pub(super) fn reproduce_on(
    cores: usize,
    systems: &[FigureSet],
    options: &Options,
    progress: &mut (dyn FnMut(Progress<'_>) -> bool + Send),
    done: &mut dyn FnMut(Done<'_>),
) -> Result<Report, Refused> {
    let mut sheets = systems.to_vec();
    for sheet in &mut sheets {
        sheet.check().map_err(Refused::FigureSet)?;
    }
    if options.swap {
        for sheet in &mut sheets {
            sheet.swap().map_err(Refused::FigureSet)?;
        }
    }
    for setting in &options.set {
        let key = &setting.key;
        let mut known = false;
        for sheet in &mut sheets {
            match sheet.set(setting) {
                Ok(()) => known = true,
                Err(SetError::Unknown(_)) => {}
                Err(refused) => return Err(Refused::Set(refused)),
            }
        }
        if !known {
            let keys = sheets.iter().flat_map(|s| s.constants.keys());
            let nearest = nearest(key, keys).map(str::to_owned);
            let unknown = UnknownConstant { key: key.clone(), nearest };
            return Err(Refused::Set(SetError::Unknown(unknown)));
        }
    }
    // Systems share nothing but the cores, so their results do not depend on each other.
    let heard = Mutex::new(progress);
    let tell = |p: Progress<'_>| (heard.lock().unwrap_or_else(PoisonError::into_inner))(p);
    let cores = Cores::new(cores);
    let systems: Option<Vec<SystemReport>> = std::thread::scope(|threads| {
        let runs = sheets.iter().enumerate().map(|(place, sheet)| {
            let bench = Bench::new(sheet, (&cores, [place.min(1), FITS, place]), &tell);
            let (send, rows) = mpsc::channel();
            // The receiver stays until the sender is gone.
            let judged = move |report: &SystemReport| drop(send.send(report.clone()));
            (rows, threads.spawn(move || run(bench, options, judged)))
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter()
            .map(|(rows, system)| {
                rows.iter().for_each(|report| done(Done::Rows(&report)));
                let report = system.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                report.inspect(|report| done(Done::System(report)))
            })
            .collect()
    });
    systems.map(|systems| Report { systems }).ok_or(Refused::Stopped)
}

/// Returns the report of a system, or nothing if `progress` ended it. `judged` gets it as soon as
/// only the sensitivity run is missing.
fn run(
    mut bench: Bench<'_>,
    options: &Options,
    judged: impl FnOnce(&SystemReport),
) -> Option<SystemReport> {
    let sheet = bench.sheet;
    let mut constants = sheet.constants.clone();
    let (fits, slopes) = fit::solve(&bench, &mut constants);

    let measured = bench.each(&sheet.rows, |at, row| {
        bench.tell(Stage::Row { figure: &row.figure, done: at, total: sheet.rows.len() });
        bench.measure(&constants, at)
    });
    bench.rank[1] = OTHERS;
    let move_all = || sensitivity::measure(&bench, &constants, &fits, &slopes);
    // Whether a row rests on a fit that failed is known when all constants were moved.
    let failed = fits.iter().any(|f| f.failed.is_some());
    let sensitivity = (options.sensitivity && failed).then(move_all);

    let rows = sheet.rows.iter().zip(measured).enumerate().map(|(at, (row, measured))| {
        let inputs = match &sensitivity {
            Some(found) => Some(found.inputs(at)),
            None => sheet.declared_inputs(row),
        };
        judge(sheet, at, measured, inputs, &fits)
    });
    let rows: Vec<Outcome> = rows.collect();
    let combinations = combinations::count(&bench, &constants, &slopes, &rows);
    let mut report = SystemReport {
        name: sheet.system.clone(),
        about: sheet.about.clone(),
        swapped: sheet.swapped,
        rows,
        constants: constants.clone(),
        freedom: DegreesOfFreedom::of(sheet),
        combinations,
        fits: fits.clone(),
        sensitivity: None,
    };
    if bench.is_stopped() {
        return None;
    }
    judged(&report);
    report.sensitivity = sensitivity.or_else(|| options.sensitivity.then(move_all));
    if let Some(found) = &report.sensitivity {
        report.rows.iter_mut().enumerate().for_each(|(at, row)| row.inputs = found.inputs(at));
    }
    (!bench.is_stopped()).then_some(report)
}

/// Describes the result of a fit, and the residual: one that is within `precision`, or more, which
/// a simulation's steps left.
fn fitted(fit: &Fit, precision: f64) -> String {
    let found = format!("fits {} = {}", fit.constant, round_significant(fit.value, 6));
    match fit.residual {
        Some(left) if left.abs() > fit::RESIDUAL => {
            let steps = left.abs() > precision;
            let why = if steps { "as close as its steps allow" } else { "close enough" };
            format!("{found}, {why}: {:+} %", round_significant(left * 100.0, 2))
        }
        _ => found,
    }
}

/// Returns one row's verdict, with all remarks on it.
pub(super) fn judge(
    sheet: &FigureSet,
    at: usize,
    measured: Result<f64, MeasureError>,
    inputs: Option<Vec<String>>,
    fits: &[Fit],
) -> Outcome {
    let row = sheet.rows[at].clone();
    // The printed value is judged, so that a reader of the table or the JSON can check the verdict.
    let measured = measured.map(|m| settle(m, row.role));
    let mut holds = match &measured {
        Ok(m) => row.judge(*m),
        Err(_) => row.role.judged().then_some(false),
    };
    let mut notes = Vec::new();
    if let Err(why) = &measured {
        notes.push(format!("not measured: {why}"));
    }
    if let Some(derived) = &row.derived {
        notes.push(format!("computed: {derived}"));
    }
    let chosen: Vec<&str> = sheet.chosen_by(&row).map(|c| c.key.as_str()).collect();
    if !chosen.is_empty() {
        notes.push(format!("looked at to choose {}", chosen.join(", ")));
    }
    let remarks = sheet.remarks.iter().filter(|(figure, _)| *figure == row.figure);
    notes.extend(remarks.map(|(_, remark)| remark.clone()));
    for fit in fits {
        let rests_on_it = inputs.as_ref().is_none_or(|keys| keys.contains(&fit.constant));
        match &fit.failed {
            _ if fit.row == row.figure => notes.push(match &fit.failed {
                None => fitted(fit, sheet.precision),
                Some(why) => format!("the fit of {} failed: {why}", fit.constant),
            }),
            Some(_) if holds == Some(true) && row.role != super::Role::Exact && rests_on_it => {
                holds = Some(false);
                notes.push(format!("rests on {}, whose fit failed", fit.constant));
            }
            Some(_) | None => {}
        }
    }
    let known = sheet.known_misses.iter().find(|k| k.figure == row.figure).map(|k| k.why.clone());
    let mut known_miss = None;
    match (holds, known) {
        (Some(false), Some(why)) => known_miss = Some(why),
        // With constants set by hand, a listed miss may well hold.
        (Some(true), Some(_)) if !sheet.set_by_hand => {
            notes.push("listed as a known miss, but it holds: the list is stale".into());
        }
        _ => {}
    }
    Outcome { inputs: inputs.unwrap_or_default(), row, measured, holds, known_miss, notes }
}
