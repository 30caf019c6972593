//! The parts of a result that a page shows: a sentence, tables, and the command.

use super::result::{GuestResult, Run};
use super::table::{self, Margin, View};
use crate::args::FUNCTIONS;
use doorbell_console::render::{Table, amount};
use doorbell_spec::Readings;

/// Returns the sentence at the head: what the last of several kernels changes of the first
/// workload's packet.
pub(crate) fn sentence(label: &str, result: &GuestResult) -> String {
    let workloads = result.workloads();
    let Some(workload) = workloads.first() else { return label.to_owned() };
    let runs = result.runs_of(workload);
    let readings = |(name, run): &(String, &Run)| (name.clone(), run.readings());
    let (Some((first, a)), Some((last, b))) =
        (runs.first().map(readings), runs.last().map(readings))
    else {
        return label.to_owned();
    };
    let numbers = [
        ("instructions", "driver_transmit", "transmit instructions of"),
        ("instructions", "driver", "instructions of"),
        ("per_packet", "pcie_down_tlp_bytes", "bytes toward"),
    ];
    let has =
        |(group, name, _): &&(&str, &str, &str)| a.value(group, name).is_some_and(|n| n > 0.0);
    let Some((group, name, what)) = numbers.iter().find(has) else {
        return format!("{label}: {workload}");
    };
    let [x, y] = [a, b].map(|r| r.value(group, name).unwrap_or(0.0));
    let of = if *group == "instructions" { &result.driver } else { &result.device };
    let told = format!("{label}: a packet of {workload} takes");
    if runs.len() == 1 {
        return format!("{told} {} {what} {of}", amount(x));
    }
    if !Margin::of_part(name).is_some_and(|m| m.exceeded(x, y)) {
        return format!("{told} {} {what} {of} on {first} and on {last}", amount(y));
    }
    let change = 100.0 * (y / x - 1.0);
    let sign = if change > 0.0 { "+" } else { "−" };
    format!(
        "{told} {} {what} {of} on {first}, {} on {last} ({sign}{:.1} %)",
        amount(x),
        amount(y),
        change.abs()
    )
}

/// Returns a line about the device, and of each workload a title and its tables.
pub(crate) fn parts(result: &GuestResult) -> (String, Vec<(String, Vec<Table>)>) {
    let view = View { all: false, functions: FUNCTIONS };
    let parts = table::parts(result, view).into_iter().map(|p| (p.title, p.tables));
    let bus = match &result.bus {
        Some(bus) => format!("{}, {bus}", result.device),
        None => format!("{}, which is QEMU’s own and has no ledger", result.device),
    };
    (bus, parts.collect())
}

/// Returns the runs of a workload that have numbers over time: their names, and their numbers.
pub(crate) fn over_time(result: &GuestResult, workload: &str) -> (Vec<String>, Vec<Readings>) {
    let runs = result.runs_of(workload).into_iter().filter(|(_, run)| !run.series.is_empty());
    runs.map(|(name, run)| (name, run.readings())).unzip()
}

/// Returns the command that makes a result; there is none of one that was put together of two.
pub(crate) fn command_of(result: &GuestResult) -> Option<&[String]> {
    let together = result.runs.iter().any(|r| r.side.is_some());
    (!together && !result.command.is_empty()).then_some(&result.command)
}
