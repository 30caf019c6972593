//! `doorbell check`: the cost of a packet against its budget.
//!
//! A [`budget`] names numbers of a result and their bounds. It is about a scenario, which is then
//! run, or about a device that was served to a guest, whose report is given. Both have the form of
//! `--format json`. Numbers have the names of `list --metrics`, counts by packet:
//! `pcie_read_bytes`, `latency_ns.p99`; those in all are `ledger.dma_faults`. They are compared on
//! nine digits, to which results are rounded. A failed audit, and a report without packets, break
//! every budget.

mod measured;
mod schema;
mod show;

use crate::{args::Check, plan};
use doorbell_console::output::{begun_beside, print, tell};
use doorbell_console::render::{Format, count, json};
use doorbell_console::{DONE, Error, MISSED, failed, input};
use doorbell_serve::Devices;
use doorbell_study::budget::{Bounds, Budget, Line, Served, Subject};
use doorbell_systems::Registry;
use doorbell_systems::result::rounded;
use measured::{Measured, Room};
pub(crate) use schema::schema;
pub(crate) use show::Checked;
use std::path::Path;

/// A line of a budget with the measured number.
#[derive(Clone, PartialEq, Debug)]
struct Row<'b> {
    line: &'b Line,
    /// The workload that it is of, where a guest has several.
    workload: Option<&'b str>,
    measured: f64,
    /// The lowest and the highest of several boots.
    range: [f64; 2],
}

/// A number compared with the bound that it breaks, or comes closest to breaking.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Against {
    bound: f64,
    /// Measured minus the bound.
    difference: f64,
    /// The difference in percent of the bound; none if the bound is zero.
    percent: Option<f64>,
}

impl Row<'_> {
    fn holds(&self) -> bool {
        let m = rounded(self.measured);
        match self.line.bounds {
            Bounds::Exactly(n) => m == rounded(n),
            Bounds::Between { min, max } => {
                min.is_none_or(|n| m >= rounded(n)) && max.is_none_or(|n| m <= rounded(n))
            }
        }
    }

    fn against(&self) -> Against {
        let bound = match self.line.bounds {
            Bounds::Exactly(n) => n,
            Bounds::Between { min: Some(n), max: None } => n,
            Bounds::Between { min: Some(n), max: Some(_) } if self.measured < n => n,
            Bounds::Between { max: Some(n), .. } => n,
            Bounds::Between { min: None, max: None } => self.measured,
        };
        let difference = rounded(self.measured - bound);
        let percent = (bound != 0.0).then(|| rounded(100.0 * difference / bound.abs()));
        Against { bound, difference, percent }
    }
}

/// A budget and the measured numbers.
struct Verdict<'b> {
    file: &'b str,
    /// The subject of the measurement, in words.
    title: String,
    /// Settings on top of the scenario.
    set: Vec<String>,
    rows: Vec<Row<'b>>,
    measured: &'b Measured,
}

impl Verdict<'_> {
    fn broken(&self) -> usize {
        self.rows.iter().filter(|r| !r.holds()).count()
    }
    fn holds(&self) -> bool {
        self.broken() == 0 && self.measured.unsound.is_empty()
    }
}

/// Reads a budget about a scenario, or about one of these devices.
fn read(registry: &'static Registry, devices: Devices, file: &Path) -> Result<Budget, Error> {
    let device = |name: &str| devices.find(name).map_err(|e| e.to_string());
    let served = Served {
        device: &device,
        bus: |name| doorbell_serve::bus(name).map_err(|e| e.to_string()),
    };
    Ok(Budget::read(registry, &served, utf8(file)?)?)
}

pub(crate) fn check(
    registry: &'static Registry,
    devices: Devices,
    args: &Check,
) -> Result<u8, Error> {
    let budget = read(registry, devices, &args.budget)?;
    let file = &*budget.file;
    let (title, set, measured) = measure(args, &budget)?;
    let verdict = verdict(&budget, title, set, &measured)?;
    print(&show::document(&verdict).show(args.output.format, "check", &show::data(&verdict)))?;
    if !args.update {
        return Ok(if verdict.holds() { DONE } else { MISSED });
    }
    if !measured.unsound.is_empty() {
        return Err(failed!("{file}: not updated from a result that is not sound"));
    }
    let room = match args.room {
        Some(percent) => Room { share: percent / 100.0, spreads: 0.0 },
        None => measured.room()?,
    };
    let updated = updated(&budget, &verdict, room);
    replace(Path::new(file), &updated).map_err(Error::at(file))?;
    if !args.output.quiet {
        tell(format_args!("{file}: updated"));
    }
    Ok(DONE)
}

/// Returns the text of a budget with what was measured, and room.
fn updated(budget: &Budget, verdict: &Verdict<'_>, room: Room) -> String {
    let all = |line: &Line| {
        let rows = verdict.rows.iter().filter(|row| row.line.at == line.at);
        rows.fold([f64::MAX, f64::MIN], |[low, high], row| {
            let more = room.spreads * (row.range[1] - row.range[0]);
            // A count is not below zero.
            [low.min((row.range[0] - more).max(0.0)), high.max(row.range[1] + more)]
        })
    };
    let values: Vec<[f64; 2]> = budget.lines.iter().map(all).collect();
    budget.updated(&values, room.share)
}

/// Replaces a file as a whole, with its permissions. A symbolic link stays one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = &path.canonicalize()?;
    let file = begun_beside(path, text.as_bytes())?;
    file.as_file().set_permissions(std::fs::metadata(path)?.permissions())?;
    file.persist(path).map(|_| ()).map_err(|e| e.error)
}

fn utf8(budget: &Path) -> Result<&str, Error> {
    budget.to_str().ok_or_else(|| input!("the budget's name is not UTF-8"))
}

/// Compares the budget's numbers with measured ones.
fn verdict<'b>(
    budget: &'b Budget,
    title: String,
    set: Vec<String>,
    measured: &'b Measured,
) -> Result<Verdict<'b>, Error> {
    let (file, mut rows, mut unknown) = (budget.file.as_str(), Vec::new(), Vec::new());
    let mut of_code = true;
    for line in &budget.lines {
        match measured.rows(line) {
            Ok(more) => rows.extend(more),
            Err(e) => {
                of_code &= e.is_of_code();
                unknown.push(format!("{file}:{}: {e}", line.at));
            }
        }
    }
    match (unknown.is_empty(), of_code) {
        (true, _) => {}
        (false, true) => return Err(Error::Untestable(unknown.join("\n"))),
        (false, false) => return Err(Error::Input(unknown.join("\n"))),
    }
    if let Some((line, group)) = budget.lines.iter().find_map(|l| Some((l, l.old?))) {
        let Line { at, name, .. } = line;
        tell(format_args!(
            "{file}:{at}: `{name}` has no `{group}` before it any more; the next version refuses it"
        ));
    }
    Ok(Verdict { file, title, set, rows, measured })
}

/// A budget of a device in a guest, which is read before the guest is booted.
pub(crate) struct GuestBudget(Budget);

impl GuestBudget {
    /// Reads the budget, which must be about this device.
    pub(crate) fn read(
        registry: &'static Registry,
        devices: Devices,
        path: &Path,
        device: &str,
    ) -> Result<GuestBudget, Error> {
        let budget = read(registry, devices, path)?;
        match &budget.of {
            Subject::Device { device: of, .. } if of == device => Ok(GuestBudget(budget)),
            _ => Err(input!("{}: it is not about the device {device}", budget.file)),
        }
    }

    /// Returns the workloads that have numbers of their own.
    pub(crate) fn workloads(&self) -> Vec<&str> {
        self.0.workloads()
    }

    /// Checks the output of `guest --format json` and prints the verdict. Returns whether it holds.
    pub(crate) fn holds(&self, result: &str, format: Format) -> Result<bool, Error> {
        let measured = Measured::parse("the result", result)?;
        measured.is_about(&self.0)?;
        let verdict = verdict(&self.0, measured.title.clone(), Vec::new(), &measured)?;
        print(&show::document(&verdict).show(format, "check", &show::data(&verdict)))?;
        Ok(verdict.holds())
    }
}

/// Returns the subject of the budget in words, its settings, and all its numbers.
fn measure(args: &Check, budget: &Budget) -> Result<(String, Vec<String>, Measured), Error> {
    if let Some(room) = args.room.filter(|room| !(0.0..=1000.0).contains(room)) {
        return Err(input!("--room {room}: expected 0 to 1000 percent"));
    }
    let file = &budget.file;
    if let Some(report) = &args.report {
        if args.changes.any() {
            return Err(input!("--report: --set, --seed and --pcap cannot change a past run"));
        }
        let measured = Measured::read(report)?;
        measured.is_about(budget)?;
        if let Subject::Scenario { .. } = &budget.of {
            measured.is_of(budget, &budget.plan()?)?;
        }
        return Ok((measured.title.clone(), Vec::new(), measured));
    }
    let Subject::Scenario { .. } = &budget.of else {
        return Err(input!(
            "{file}: it is about a served device; give the output of `serve` or `guest` with \
             --format json as --report FILE"
        ));
    };
    if let Some(profile) = &args.changes.profile {
        let why = format!("the numbers of {file} are of the profile of its scenario");
        return Err(input!("--profile {profile}: {why}"));
    }
    let own = budget.plan()?;
    let mut plan = own.clone();
    plan::change(&mut plan, &args.changes)?;
    let mut differs = plan.values.iter().filter(|(key, v)| own.values.get(key.name) != *v);
    if let (true, Some((key, value))) = (args.update, differs.next()) {
        return Err(input!(
            "--update: `{}` is {} on the command line, but not in {file}, whose next run would \
             break the written numbers; put it under [set] there",
            key.name,
            key.said(value)
        ));
    }
    drop(differs);
    let result = plan::execute(&plan, args.output.quiet)?;
    let packets = count(result.measured.packets);
    let title = format!("{} on {}, {packets} packets", plan.scenario, plan.profile);
    let measured = Measured::parse("the result", &json("run", &result))?;
    Ok((title, plan.set, measured))
}

#[cfg(test)]
mod tests;
