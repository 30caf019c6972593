//! The parts of a result that a page shows: a sentence, tables, and the command.

use super::result::{GuestResult, Run};
use super::table::{self, Margin, View};
use crate::args::FUNCTIONS;
use crate::render::{Table, amount};

/// Returns the sentence at the head: what the last of several kernels changes of the first
/// workload's packet.
pub(crate) fn sentence(label: &str, result: &GuestResult) -> String {
    let workloads = result.workloads();
    let Some(workload) = workloads.first() else { return label.to_owned() };
    let runs = result.runs_of(workload);
    let (Some((first, a)), Some((last, b))) = (runs.first(), runs.last()) else {
        return label.to_owned();
    };
    let numbers = [
        ("instructions", "driver_transmit", "transmit instructions of"),
        ("instructions", "driver", "instructions of"),
        ("per_packet", "pcie_down_tlp_bytes", "bytes toward"),
    ];
    let has =
        |(group, name, _): &&(&str, &str, &str)| a.number(group, name).is_some_and(|n| n > 0.0);
    let Some((group, name, what)) = numbers.iter().find(has) else {
        return format!("{label}: {workload}");
    };
    let [x, y] = [*a, *b].map(|r: &Run| r.number(group, name).unwrap_or(0.0));
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
pub(crate) fn parts(result: &GuestResult) -> (String, Vec<(String, [Table; 2])>) {
    let view = View { all: false, functions: FUNCTIONS };
    let parts = table::parts(result, view).into_iter().map(|p| (p.title, p.tables));
    let bus = match &result.bus {
        Some(bus) => format!("{}, {bus}", result.device),
        None => format!("{}, which is QEMU’s own and has no ledger", result.device),
    };
    (bus, parts.collect())
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,=:/@+-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the command that makes a result; of one that was put together of two there is none.
pub(crate) fn command(result: &GuestResult) -> Option<String> {
    if result.runs.iter().any(|r| r.side.is_some()) {
        return None;
    }
    if !result.command.is_empty() {
        let words: Vec<String> = result.command.iter().map(|word| quoted(word)).collect();
        return Some(format!("doorbell {}", words.join(" ")));
    }
    fn unique<'a>(all: impl Iterator<Item = &'a str>) -> String {
        let mut found: Vec<&str> = Vec::new();
        for one in all {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        found.join(",")
    }
    let runs = || result.runs.iter();
    let kernels = unique(runs().map(|r| r.kernel.as_str()));
    let workloads = unique(runs().map(|r| r.workload.as_str()));
    let mut keys: Vec<&String> = runs().flat_map(|r| r.settings.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let settings = keys.into_iter().map(|key| {
        let values = unique(runs().filter_map(|r| r.settings.get(key)).map(String::as_str));
        let option = if values.contains(',') { "--across" } else { "--set" };
        format!(" {option} {key}={values}")
    });
    let settings: String = settings.collect();
    let device = &result.device;
    Some(format!("doorbell guest {device} --kernel {kernels} --workload {workloads}{settings}"))
}
