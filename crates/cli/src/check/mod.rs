//! `doorbell check`: what a packet may cost, held against what it costs.
//!
//! A budget ([`budget`]) names numbers of a result and what each may be. It is about a
//! scenario, which is then run in the lab, where the same input gives the same counts to the
//! last bit; or about a device that was served to a guest, whose report is given. Both have the
//! same form, that of `--format json`, and their numbers the same names:
//! `per_packet.pcie_read_bytes`, `ledger.dma_faults`, `latency_ns.p99`. What holds is decided
//! on nine digits, which is what results are rounded to. A run whose audit failed, and a report
//! without packets, hold no budget.

mod budget;
mod measured;
mod schema;
mod show;

use crate::args::{Check, CheckFormat};
use crate::output::print;
use crate::text::count;
use crate::{DONE, Error, MISSED, plan};
use budget::{Bounds, Budget, Line, Of};
use doorbell_lab::result::rounded;
use measured::Measured;
pub(crate) use schema::schema;
use std::io::Write;

/// A line of a budget, beside what was measured.
#[derive(Clone, PartialEq, Debug)]
struct Row<'b> {
    line: &'b Line,
    measured: f64,
}

/// How a number stands to the bound that it breaks, or that it comes closest to breaking.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Against {
    bound: f64,
    /// Measured less the bound.
    difference: f64,
    /// That of the bound, in percent; none where the bound is zero.
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

/// A budget and what came of it.
struct Verdict<'b> {
    file: &'b str,
    /// What was measured, in words.
    title: String,
    /// What was set on top of the scenario.
    set: Vec<String>,
    rows: Vec<Row<'b>>,
    /// Why the result itself is not to be trusted.
    unsound: Vec<String>,
}

impl Verdict<'_> {
    fn broken(&self) -> usize {
        self.rows.iter().filter(|r| !r.holds()).count()
    }
    fn holds(&self) -> bool {
        self.broken() == 0 && self.unsound.is_empty()
    }
}

pub(crate) fn check(args: &Check) -> Result<u8, Error> {
    let file =
        args.budget.to_str().ok_or_else(|| Error::input("the budget's name is not UTF-8"))?;
    let budget = Budget::read(file)?;
    let (title, set, measured) = measure(args, &budget)?;
    let rows =
        budget.lines.iter().map(|line| Ok(Row { line, measured: measured.number(file, line)? }));
    let (rows, wrong): (Vec<_>, Vec<_>) = rows.partition(Result::is_ok);
    let wrong: Vec<String> =
        wrong.into_iter().filter_map(|r: Result<Row<'_>, String>| r.err()).collect();
    if !wrong.is_empty() {
        return Err(Error::input(wrong.join("\n")));
    }
    let rows = rows.into_iter().flatten().collect();
    let verdict = Verdict { file, title, set, rows, unsound: measured.unsound };
    print(&match args.format {
        CheckFormat::Table => show::table(&verdict, false),
        CheckFormat::Markdown => show::table(&verdict, true),
        CheckFormat::Json => show::json(&verdict),
    })?;
    if !args.update {
        return Ok(if verdict.holds() { DONE } else { MISSED });
    }
    if !verdict.unsound.is_empty() {
        return Err(Error {
            code: MISSED,
            what: format!("{file}: not updated from a result that is not sound"),
        });
    }
    let values: Vec<f64> = verdict.rows.iter().map(|r| r.measured).collect();
    budget.update(&values, args.room / 100.0)?;
    if !args.quiet {
        let _ = writeln!(std::io::stderr(), "doorbell: {file}: updated");
    }
    Ok(DONE)
}

/// What the budget is about: in words, what was set, and all its numbers.
fn measure(args: &Check, budget: &Budget) -> Result<(String, Vec<String>, Measured), Error> {
    if !(0.0..=1000.0).contains(&args.room) {
        return Err(Error::input(format!("--room {}: expected 0 to 1000 percent", args.room)));
    }
    let Some(report) = &args.report else {
        let Of::Scenario { .. } = &budget.of else {
            let what = "it is about a served device; give what `serve --format json` printed with --report FILE";
            return Err(Error::input(format!("{}: {what}", budget.file)));
        };
        let own = budget.plan()?;
        let mut plan = own.clone();
        plan::change(&mut plan, &args.changes)?;
        if args.update
            && let Some((key, value)) =
                plan.values.iter().find(|(key, v)| own.values.get(key.name) != *v)
        {
            let (name, value) = (key.name, key.said(value));
            let what = format!(
                "`{name}` is {value} on the command line, but not in {}, whose next run would",
                budget.file
            );
            return Err(Error::input(format!(
                "--update: {what} break what is written; put it under [set] there"
            )));
        }
        let result = plan::execute(&plan, args.quiet)?;
        let title = format!(
            "{} on {}, {} packets",
            plan.scenario,
            plan.profile,
            count(result.measured.packets)
        );
        let measured = Measured::parse("the result", &result.to_json())?;
        return Ok((title, plan.set, measured));
    };
    if args.changes.any() {
        return Err(Error::input(
            "--report: what has been measured can no longer be changed by --set, --seed, --pcap",
        ));
    }
    let measured = Measured::read(report)?;
    measured.is_about(budget)?;
    if let Of::Scenario { .. } = &budget.of {
        let plan = budget.plan()?;
        measured.is_of(&plan, &budget.file)?;
    }
    Ok((measured.title.clone(), Vec::new(), measured))
}

#[cfg(test)]
mod tests;
