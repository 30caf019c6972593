//! The results of `doorbell guest` as tables: kernels side by side, and what changed between them.

use super::result::{GuestResult, Run};
use doorbell_bus::Ledger;
use doorbell_bus::ledger::{Counter, Group};
use doorbell_console::render::{
    Cell, Document, NUMBER, Record, Table, Tone, amount, count, numbers,
};
use doorbell_guest::instructions::Step;
use doorbell_hal::Unit;
use doorbell_spec::Readings;
use doorbell_spec::number::Number;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The difference up to which two numbers a packet are the same: a share of the left one, and an
/// amount. The larger of both counts.
#[derive(Clone, Copy)]
pub(super) struct Margin(f64, f64);

impl Margin {
    /// Margin of what each packet costs by itself, which is the same in all boots of a kernel.
    const EXACT: Margin = Margin(0.005, 0.005);
    /// The share by which other numbers of two boots differ: interrupts and polls come as the
    /// machine runs the guest.
    const SHARE: f64 = 0.15;
    const INSTRUCTIONS: Margin = Margin(Self::SHARE, 10.0);
    const BYTES: Margin = Margin(Self::SHARE, 1.0);
    const COUNT: Margin = Margin(Self::SHARE, 0.1);

    /// Returns the margin of a part of the instructions; `None` if it depends on the machine alone.
    pub(super) fn of_part(name: &str) -> Option<Margin> {
        match name {
            "driver_transmit" => Some(Margin::EXACT),
            // With its idle loop and timers.
            "kernel" => None,
            _ => Some(Margin::INSTRUCTIONS),
        }
    }

    /// Returns the margin of a count.
    fn of_count(counter: &Counter) -> Margin {
        match (counter.group, counter.unit) {
            (Group::Wire, _) => Margin::EXACT,
            _ if READ.contains(&counter.name) => Margin::EXACT,
            (_, Unit::Bytes) => Margin::BYTES,
            _ => Margin::COUNT,
        }
    }

    /// Returns the margin of a function.
    fn of_function(module: &str, function: &str) -> Margin {
        match Step::of(module, function) {
            Step::Transmit => Margin::EXACT,
            _ => Margin::INSTRUCTIONS,
        }
    }

    /// Returns true if a number differs from the one to its left.
    pub(super) fn exceeded(self, before: f64, now: f64) -> bool {
        (now - before).abs() > (before.abs() * self.0).max(self.1)
    }
}

/// Bytes that a device reads of each packet: its data and its descriptors.
const READ: [&str; 3] = ["pcie_read_bytes", "pci_read_bytes", "axi_read_bytes"];

/// The meaning of the mark.
pub(crate) const LEGEND: [&str; 2] = [
    "* differs from the column to its left: transmit, bytes read and the wire by more than 0.5 %,",
    "  others by more than 15 % and 10 instructions, 1 byte or 0.1, since boots of a kernel differ",
];

/// The contents of tables.
#[derive(Clone, Copy)]
pub(super) struct View {
    /// The kernel and user code beside the driver.
    pub(super) all: bool,
    /// The most functions.
    pub(super) functions: usize,
}

/// Parts of the instructions, with descriptions.
const PARTS: [(&str, &str); 8] = [
    ("driver", "instructions of the driver, with the modules that it needs"),
    ("driver_transmit", "of it, from the stack to the doorbell"),
    ("driver_completion", "of it, to give sent buffers back"),
    ("driver_receive", "of it, in polls and for received frames"),
    ("driver_other", "of it, anywhere else"),
    ("kernel", "the kernel and all its modules, idle loop and timers included"),
    ("user", "programs of the guest"),
    ("unlisted", "of functions that are not known, since the plug-in's table was full"),
];

/// Calls of the driver's functions, with descriptions.
const CALLS: [(&str, &str); 3] = [
    ("transmit", "calls of the driver to send (ndo_start_xmit)"),
    ("poll", "polls of the driver (NAPI)"),
    ("interrupt", "calls of the driver's interrupt handlers"),
];

/// The driver's own work by call, with descriptions.
const BY_CALL: [(&str, &str, &str); 8] = [
    ("per_transmit", "instructions", "of the driver's transmit, a call to send"),
    ("per_transmit", "inclusive", "of a call to send, with all that it calls in the kernel"),
    ("per_transmit", "io_loads", "loads from I/O memory there"),
    ("per_transmit", "io_stores", "stores to I/O memory there"),
    ("per_poll", "instructions", "of the driver's polls and interrupts, a poll"),
    ("per_poll", "inclusive", "of a poll, with all that it calls in the kernel"),
    ("per_poll", "io_loads", "loads from I/O memory there"),
    ("per_poll", "io_stores", "stores to I/O memory there"),
];

/// Times and rates in virtual time, with descriptions.
const TIMED: [(&str, &str); 4] = [
    ("sent_per_s", "frames sent a second of virtual time, from the first to the last"),
    ("offered_per_s", "frames that came a second of virtual time, from the first to the last"),
    ("dropped", "frames in all that the device did not take"),
    ("answers", "answers in all that the peer got, frames that came back among them"),
];

/// Latencies of the peer's requests in virtual time, with descriptions.
const LATENCIES: [(&str, &str); 5] = [
    ("min", "from a request's first bit to its answer's last, at the peer"),
    ("p50", "of half of them, at most"),
    ("p90", "of 90 %"),
    ("p99", "of 99 %"),
    ("max", "of all"),
];

/// Builds the tables: for each workload a bill, and the functions.
pub(super) fn document(result: &GuestResult, view: View) -> Document {
    let mut doc = Document::titled(match &result.bus {
        Some(_) => format!("{}: the driver of Linux on the served device", result.device),
        None => format!("{}: its driver in Linux, without a ledger", result.device),
    });
    if let Some(bus) = &result.bus {
        doc.line(bus);
    }
    if let Some(profile) = &result.profile {
        doc.line(format!("in virtual time on {profile}; cpu.instruction is assumed"));
    }
    for line in compilers(result).into_iter().chain(boots(result)) {
        doc.line(line);
    }
    let parts = parts(result, view);
    let marked = parts.iter().any(|p| p.marked);
    for part in parts {
        doc.gap();
        doc.line(part.title);
        part.tables.into_iter().for_each(|table| doc.table(table));
    }
    if marked {
        LEGEND.into_iter().for_each(|line| doc.line(line));
    }
    doc.with(records(result))
}

/// Returns a line for each kernel, if compilers differ: they move instructions too.
fn compilers(result: &GuestResult) -> Vec<String> {
    let of = |run: &Run| Some((run.kernel.clone(), run.origin.as_ref()?.compiler.clone()?));
    let kernels: BTreeMap<String, String> = result.runs.iter().filter_map(of).collect();
    let different: BTreeSet<&String> = kernels.values().collect();
    if different.len() < 2 {
        return Vec::new();
    }
    kernels.iter().map(|(kernel, compiler)| format!("{kernel} is built by {compiler}")).collect()
}

/// Returns a line about boots of the same, if there are any.
fn boots(result: &GuestResult) -> Option<String> {
    let boots = || result.runs.iter().filter_map(|run| run.boots.as_ref());
    let n = boots().map(|boots| boots.boots).max()?;
    Some(match boots().all(|boots| boots.spread.is_empty()) {
        true => format!("{n} boots of each, which are equal to the last digit"),
        false => format!(
            "{n} boots of each, which differ: the numbers are those of the first, and a * stands \
             where no boot is as any to its left"
        ),
    })
}

/// A workload's tables.
pub(super) struct Part {
    pub(super) title: String,
    /// The bill, the functions, and those of calls that were followed.
    pub(super) tables: Vec<Table>,
    /// True if any number is marked.
    marked: bool,
}

/// A run beside others of its workload.
struct Column<'r> {
    head: String,
    run: &'r Run,
    numbers: Readings,
}

impl Column<'_> {
    fn of((head, run): (String, &Run)) -> Column<'_> {
        Column { head, run, numbers: run.readings() }
    }

    fn number(&self, group: &str, name: &str) -> Option<&Number> {
        shown(&self.numbers, group, name)
    }
}

/// Returns a number that a table shows. A guest without a peer has no answers.
fn shown<'n>(numbers: &'n Readings, group: &str, name: &str) -> Option<&'n Number> {
    let is_answers = (group, name) == ("timed", "answers");
    numbers.number(group, name).filter(|n| !is_answers || n.value > 0.0)
}

/// Returns the tables of each workload.
pub(super) fn parts(result: &GuestResult, view: View) -> Vec<Part> {
    let driver = result.driver.replace('-', "_");
    let part = |workload| {
        let runs: Vec<Column<'_>> = result.runs_of(workload).into_iter().map(Column::of).collect();
        let (bill, some) = bill(&runs, view);
        let (functions, others) = functions(&runs, &driver, view);
        let title = title(workload, &runs);
        let mut tables = vec![bill, functions];
        tables.extend(INSIDE.iter().filter_map(|of| inside(&runs, of, &driver, view)));
        Part { title, tables, marked: some || others }
    };
    result.workloads().into_iter().map(part).collect()
}

/// Describes a workload with the settings that all runs have.
fn title(workload: &str, runs: &[Column<'_>]) -> String {
    let same = |(k, v): &(&String, &String)| runs.iter().all(|r| r.run.settings.get(*k) == Some(v));
    let set: Vec<String> =
        runs[0].run.settings.iter().filter(same).map(|(k, v)| format!("{k}={v}")).collect();
    let packets: Vec<String> = runs.iter().map(|r| count(r.run.packets)).collect();
    let packets = if packets.iter().all(|p| *p == packets[0]) {
        packets[0].clone()
    } else {
        packets.join(", ")
    };
    format!("{workload}: {packets} packets ({})", set.join(", "))
}

/// Returns an empty table with a column for each run.
fn side_by_side(title: &str, runs: &[Column<'_>]) -> Table {
    let heads: Vec<&str> = runs.iter().map(|r| r.head.as_str()).collect();
    let width = heads.iter().map(|h| h.len()).max().unwrap_or(0).max(NUMBER);
    numbers(title, &heads, width)
}

/// Returns true if a number differs from the one to its left: of several boots, if none is as any
/// of the others, and by more than what each packet costs by itself may.
fn differs(before: &Number, now: &Number, margin: Margin) -> bool {
    match (before.range, now.range) {
        (Some([low, high]), Some([lowest, highest])) => {
            (lowest > high || highest < low) && Margin::EXACT.exceeded(before.value, now.value)
        }
        _ => margin.exceeded(before.value, now.value),
    }
}

/// Returns the cells of a row; a number that differs from its left neighbour is marked. Also
/// returns whether any is.
fn cells(values: &[Option<Number>], margin: Option<Margin>) -> (Vec<Cell>, bool) {
    let mut any = false;
    let mut before: Option<&Number> = None;
    let mut cells = Vec::new();
    for v in values {
        let Some(v) = v else {
            cells.push(Cell::from("-"));
            continue;
        };
        let moved = before.filter(|b| margin.is_some_and(|m| differs(b, v, m)));
        before = Some(v);
        any |= moved.is_some();
        let is_less = |b: &Number| v.value < b.value;
        let tone = moved.map(|b| if is_less(b) { Tone::Better } else { Tone::Worse });
        let mark = if moved.is_some() { "*" } else { "" };
        cells.push(Cell::toned(format!("{mark}{}", amount(v.value)), tone));
    }
    (cells, any)
}

/// Groups that stand before the names of their numbers.
const GROUPS: [&str; 6] =
    ["instructions", "modules", "calls", "per_transmit", "per_poll", "latency_ns"];

/// Returns the modules of the drivers that executed instructions.
fn modules<'r>(runs: &[Column<'r>]) -> BTreeSet<&'r str> {
    runs.iter().flat_map(|r| r.run.modules.keys()).map(String::as_str).collect()
}

/// Returns the bill a packet, and whether any number is marked.
fn bill(runs: &[Column<'_>], view: View) -> (Table, bool) {
    let mut table = side_by_side("a packet", runs);
    let mut marked = false;
    let mut row = |group: &str, name: &str, about: &str, margin: Option<Margin>| {
        let values: Vec<_> = runs.iter().map(|r| r.number(group, name).cloned()).collect();
        if values.iter().flatten().all(|v| v.value == 0.0) {
            return;
        }
        let (mut all, any) = cells(&values, margin);
        marked |= any;
        let shown =
            if GROUPS.contains(&group) { format!("{group}.{name}") } else { name.to_owned() };
        all.insert(0, Cell::from(shown));
        // Beside more columns there is no room for it.
        let about = if runs.len() > 2 { "" } else { about };
        match (runs, values.iter().flatten().next().and_then(|v| v.range)) {
            ([_], Some([low, high])) if low < high => {
                let range = format!("{about}: {} to {}", amount(low), amount(high));
                table.noted(all, &range);
            }
            _ => table.noted(all, about),
        }
    };
    for (name, about) in PARTS {
        if view.all || !matches!(name, "kernel" | "user") {
            row("instructions", name, about, Margin::of_part(name));
        }
    }
    let modules = modules(runs);
    for name in modules.iter().filter(|_| modules.len() > 1) {
        row("modules", name, "of the driver, in this module", Some(Margin::INSTRUCTIONS));
    }
    for (name, about) in CALLS {
        row("calls", name, about, Some(Margin::COUNT));
    }
    for (group, name, about) in BY_CALL {
        let margin = match (group, name) {
            ("per_transmit", _) => Margin::EXACT,
            (_, "instructions" | "inclusive") => Margin::INSTRUCTIONS,
            _ => Margin::COUNT,
        };
        row(group, name, about, Some(margin));
    }
    for c in Ledger::COUNTERS {
        row("per_packet", c.name, c.about, Some(Margin::of_count(c)));
    }
    for (name, about) in TIMED {
        row("timed", name, about, Some(Margin::EXACT));
    }
    for (name, about) in LATENCIES {
        row("latency_ns", name, about, Some(Margin::EXACT));
    }
    (table, marked)
}

/// Returns the functions, and whether any number is marked: of one run the most expensive
/// functions, of several those that changed most.
fn functions(runs: &[Column<'_>], driver: &str, view: View) -> (Table, bool) {
    let own = modules(runs);
    let listed = |module: &str| view.all || module == driver || own.contains(module);
    let mut all: BTreeMap<(&str, &str), Vec<Option<f64>>> = BTreeMap::new();
    for (n, Column { run, .. }) in runs.iter().enumerate() {
        for f in run.functions.iter().filter(|f| listed(&f.module)) {
            let values = all.entry((&f.module, &f.function)).or_insert(vec![None; runs.len()]);
            values[n] = Some(f.per_packet);
        }
    }
    let spread = |values: &[Option<f64>]| {
        let values: Vec<f64> = values.iter().map(|v| v.unwrap_or(0.0)).collect();
        let (low, high) =
            values.iter().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
        if runs.len() > 1 { high - low } else { high }
    };
    let mut rows: Vec<_> = all.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| spread(b).total_cmp(&spread(a)));
    let what = if runs.len() > 1 { "functions that changed most" } else { "functions" };
    let (mut table, mut marked) = (side_by_side(what, runs), false);
    for ((module, function), values) in rows.into_iter().take(view.functions) {
        if spread(&values) < Margin::EXACT.1 {
            continue;
        }
        // The range is of all modules that have it.
        let of = |(value, r): (&Option<f64>, &Column<'_>)| {
            let range = r.number("functions", function).and_then(|n| n.range);
            value.map(|value| Number { range, ..Number::new(function.to_owned(), value) })
        };
        let values: Vec<Option<Number>> = values.iter().zip(runs).map(of).collect();
        let (mut cells, any) = cells(&values, Some(Margin::of_function(module, function)));
        marked |= any;
        let named = module == driver;
        let name = if named { function.to_owned() } else { format!("{function} [{module}]") };
        cells.insert(0, Cell::from(name));
        table.row(cells);
    }
    (table, marked)
}

/// Calls that are followed, with the heads of their tables.
const INSIDE: [(&str, &str); 2] = [
    ("transmit", "a call to send, with all that it calls"),
    ("poll", "a poll, with all that it calls"),
];

/// Returns the functions in the calls of the driver to send or in its polls, by call, the most
/// expensive first; `None` if no run has followed them.
fn inside(
    runs: &[Column<'_>],
    (event, about): &(&str, &str),
    driver: &str,
    view: View,
) -> Option<Table> {
    let mut all: BTreeMap<(&str, &str), Vec<Option<f64>>> = BTreeMap::new();
    for (n, Column { run, .. }) in runs.iter().enumerate() {
        for f in run.inside.get(*event).iter().flat_map(|inside| &inside.functions) {
            let values = all.entry((&f.module, &f.function)).or_insert(vec![None; runs.len()]);
            values[n] = Some(f.per_call);
        }
    }
    let most = |values: &[Option<f64>]| values.iter().flatten().fold(0.0, |m: f64, v| m.max(*v));
    let mut rows: Vec<_> = all.into_iter().filter(|(_, v)| most(v) >= Margin::EXACT.1).collect();
    rows.sort_by(|(_, a), (_, b)| most(b).total_cmp(&most(a)));
    let mut table = side_by_side(about, runs);
    if rows.is_empty() {
        return None;
    }
    for ((module, function), values) in rows.into_iter().take(view.functions) {
        let named = module == driver;
        let name = if named { function.to_owned() } else { format!("{function} [{module}]") };
        let of = |value: &Option<f64>| value.map(|value| Number::new(function.to_owned(), value));
        let (cells, _) = cells(&values.iter().map(of).collect::<Vec<_>>(), None);
        table.row([Cell::from(name)].into_iter().chain(cells));
    }
    Some(table)
}

/// Returns a record of each run, with all its numbers.
fn records(result: &GuestResult) -> Vec<Record> {
    let record = |run: &Run| {
        let mut all = Record::new();
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        put("device", result.device.clone().into());
        if let Some(side) = &run.side {
            put("side", side.clone().into());
        }
        put("kernel", run.kernel.clone().into());
        put("release", run.release.clone().into());
        put("workload", run.workload.clone().into());
        for (key, value) in &run.settings {
            put(key, value.clone().into());
        }
        put("packets", run.packets.into());
        let numbers = run.readings();
        for group in GROUPS {
            for n in numbers.group(group) {
                put(&format!("{group}.{}", n.name), n.value.into());
            }
        }
        for (name, value) in &run.per_packet {
            put(name, (*value).into());
        }
        for (name, _) in TIMED {
            if let Some(n) = shown(&numbers, "timed", name) {
                put(name, n.value.into());
            }
        }
        put("elapsed_s", run.elapsed_s.into());
        all
    };
    result.runs.iter().map(record).collect()
}

#[cfg(test)]
mod tests;
