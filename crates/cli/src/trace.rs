//! A recorded run for Perfetto: the path of the first packets.
//!
//! Lanes are grouped: cores, the directions of the bus, the stages of the device, interrupts, the
//! wire. On a core, steps nest in the call that made them. Elsewhere events may overlap, so that a
//! lane has as many rows as necessary. A [flow](flows) connects the slices of one packet.
//!
//! Begin and end are rounded down to nanoseconds, never the length, so that slices still nest; the
//! exact picoseconds are in the arguments of each slice.

mod flows;

use doorbell_bus::trace::{
    CpuStep, DmaStage, DriverCall, Event, EventKind, Link, MappedRange, Transfer,
};
use doorbell_console::chrome::{Flow, Lane, Writer};
use doorbell_hal::{Direction, Iova, Time};
use doorbell_sim::Recording;
use flows::Place;
use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap, io};

/// A frame on the wire.
struct Flight<'a> {
    /// It leaves the machine.
    out: bool,
    from: Time,
    until: Time,
    bytes: &'a [u8],
}

/// The lane of a slice. Lanes are sorted by these fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    group: Group,
    platform: usize,
    number: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    Cpu,
    Bus,
    Device,
    Interrupts,
    Wire,
}

/// An event on a lane.
struct Slice {
    key: Key,
    from: Time,
    until: Time,
    name: Cow<'static, str>,
    /// The inside of a JSON object, with a comma before it.
    args: String,
    /// It is a call, in which steps nest.
    call: bool,
}

/// The position of a slice: its number, its row in the lane, begin and end in nanoseconds.
type Placed = (usize, usize, (u64, u64));

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Packets on the wire or between partitions.
    pub(crate) packets: usize,
    /// The record ended before the requested number of packets.
    pub(crate) cut: bool,
}

/// Writes the first packets of a run, on a wire of this rate in bits a second.
pub(crate) fn write(traced: &Recording, rate: u64, out: impl io::Write) -> io::Result<Written> {
    let frames = frames(traced, rate);
    let mut flows = flows::find(traced, &frames);
    let span = |place: &Place| match *place {
        Place::Event(platform, i) => {
            let e = &traced.platforms[platform].events()[i];
            (e.from, e.until)
        }
        Place::Frame(i) => (frames[i].from, frames[i].until),
    };
    flows.sort_by_key(|f| f.iter().map(span).min());
    if frames.is_empty() {
        // Between partitions there is no wire.
        flows.truncate(traced.packets as usize);
    }
    let last =
        flows.iter().flatten().map(|p| span(p).1).chain(frames.iter().map(|f| f.until)).max();
    let crossed = if frames.is_empty() { flows.len() } else { frames.len() };
    let cut = crossed < traced.packets as usize && traced.platforms.iter().any(|t| t.is_full());
    // With fewer packets than requested, the whole record is written.
    let end = last.filter(|_| crossed >= traced.packets as usize).unwrap_or(Time::NEVER);
    let mut slices: Vec<Slice> = Vec::new();
    let mut at: Vec<Vec<Option<usize>>> = Vec::new();
    for (platform, trace) in traced.platforms.iter().enumerate() {
        at.push(vec![None; trace.events().len()]);
        for (i, e) in trace.events().iter().enumerate().filter(|(_, e)| e.from <= end) {
            if let Some(slice) = slice(platform, e, &trace.events()[i..]) {
                at[platform][i] = Some(slices.len());
                slices.push(slice);
            }
        }
    }
    let wire = slices.len();
    slices.extend(frames.iter().map(|f| Slice {
        key: Key { group: Group::Wire, platform: 0, number: u32::from(!f.out) },
        from: f.from,
        until: f.until,
        name: "frame".into(),
        args: format!(",\"bytes\":{}", f.bytes.len()),
        call: false,
    }));
    let lanes = lay(&slices);
    // Begin and order of each slice in the trace.
    let mut met = vec![(0, 0); slices.len()];
    for (n, (slice, _, (begin, _))) in lanes.values().flatten().enumerate() {
        met[*slice] = (*begin, n);
    }
    let mut flow_of: Vec<Option<Flow>> = vec![None; slices.len()];
    for (n, flow) in flows.iter().enumerate() {
        let number = |p: &Place| match *p {
            Place::Event(platform, i) => at[platform][i],
            Place::Frame(i) => Some(wire + i),
        };
        let mut on: Vec<usize> = flow.iter().filter_map(number).collect();
        // In the order of Perfetto.
        on.sort_by_key(|s| met[*s]);
        on.dedup();
        for (k, s) in on.iter().enumerate().filter(|_| on.len() > 1) {
            flow_of[*s] = Some(Flow { id: n + 1, comes: k > 0, goes: k + 1 < on.len() });
        }
    }
    emit(&slices, &lanes, &flow_of, traced.platforms.len(), out)?;
    Ok(Written { packets: crossed, cut })
}

/// Returns the first frames on the wire, in the order in which they left.
fn frames(traced: &Recording, bits_per_second: u64) -> Vec<Flight<'_>> {
    let mut all: Vec<Flight<'_>> = match &traced.wires {
        Some(wires) => [true, false]
            .into_iter()
            .zip(wires)
            .flat_map(|(out, wire)| {
                wire.iter().map(move |f| {
                    // At the machine's end of the link.
                    let from = if out {
                        f.left
                    } else {
                        Time::from_ps(f.arrived.ps().saturating_sub(f.took.ps()))
                    };
                    Flight { out, from, until: from + f.took, bytes: &f.frame }
                })
            })
            .collect(),
        None => traced
            .platforms
            .iter()
            .flat_map(|t| {
                t.events().iter().filter_map(move |e| match e.what {
                    EventKind::Frame(b) => Some(Flight {
                        out: true,
                        from: e.from,
                        until: e.from
                            + doorbell_sim::link::takes(bits_per_second, t.bytes(b)?.len()),
                        bytes: t.bytes(b)?,
                    }),
                    _ => None,
                })
            })
            .collect(),
    };
    all.sort_by_key(|f| f.from);
    all.truncate(traced.packets as usize);
    all
}

/// Returns the slice of an event; `then` are the events from it on. Frames belong to the wire.
fn slice(platform: usize, e: &Event, then: &[Event]) -> Option<Slice> {
    let (group, number, name, args): (_, u32, Cow<'static, str>, String) = match &e.what {
        EventKind::Core(n, step) => {
            let (name, args) = core(step);
            (Group::Cpu, u32::from(*n), name, args)
        }
        EventKind::Bus(link, Transfer { name, at, bytes, count }) => {
            let args = format!(",\"address\":\"{:#x}\",\"bytes\":{bytes},\"count\":{count}", at.0);
            (Group::Bus, *link as u32, (*name).into(), args)
        }
        EventKind::Device(stage, at, b) => {
            let args = format!(",\"address\":\"{:#x}\",\"bytes\":{}", at.0, b.len);
            (Group::Device, *stage as u32, stage_name(*stage as u32).into(), args)
        }
        EventKind::Line(n) => (Group::Interrupts, 2 * u32::from(*n), "high".into(), String::new()),
        EventKind::Message(n) => {
            (Group::Interrupts, 2 * u32::from(*n) + 1, "pending".into(), String::new())
        }
        EventKind::Frame(_) => return None,
    };
    let until = match e.what {
        // A message is pending until its handler runs.
        EventKind::Message(n) => {
            let handler = CpuStep::Call(DriverCall::Interrupt(n));
            let runs = |w: &EventKind| matches!(w, EventKind::Core(_, step) if *step == handler);
            then.iter().find(|t| t.from >= e.from && runs(&t.what)).map_or(e.until, |t| t.from)
        }
        _ => e.until,
    };
    let call = matches!(e.what, EventKind::Core(_, CpuStep::Call(_)));
    Some(Slice { key: Key { group, platform, number }, from: e.from, until, name, args, call })
}

/// The stages of a device with their names.
const STAGES: [(DmaStage, &str); 4] = [
    (DmaStage::FetchDescriptors, "fetch descriptors"),
    (DmaStage::FetchData, "fetch data"),
    (DmaStage::WriteBack, "write back"),
    (DmaStage::DeliverData, "deliver data"),
];

fn stage_name(number: u32) -> &'static str {
    STAGES.iter().find(|s| s.0 as u32 == number).map_or("", |s| s.1)
}

fn core(step: &CpuStep) -> (Cow<'static, str>, String) {
    let area = |at: Iova, len: u32| format!(",\"address\":\"{:#x}\",\"bytes\":{len}", at.0);
    let lent = |l: &MappedRange| {
        let dir = match l.dir {
            Direction::ToDevice => "to the device",
            Direction::FromDevice => "from the device",
            Direction::Both => "both",
        };
        format!("{},\"direction\":\"{dir}\"", area(l.at, l.len))
    };
    let register = |r: &doorbell_hal::Reg, size: u8| {
        format!(",\"register\":\"{}+{:#x}\",\"bytes\":{size}", r.region, r.offset)
    };
    match step {
        CpuStep::Call(call) => match call {
            DriverCall::Transmit => ("transmit".into(), String::new()),
            DriverCall::Poll => ("poll".into(), String::new()),
            DriverCall::Interrupt(n) => ("interrupt".into(), format!(",\"number\":{n}")),
            DriverCall::Work => ("work".into(), String::new()),
            DriverCall::Stack => ("stack".into(), String::new()),
            DriverCall::Timers => ("timers".into(), String::new()),
            DriverCall::Application => ("application".into(), String::new()),
        },
        // As the profile's prices are called.
        CpuStep::CpuWork(w) => {
            (format!("cpu.{}", w.kind().name()).into(), format!(",\"amount\":{}", w.amount()))
        }
        CpuStep::Read(r, size, _) => ("register read".into(), register(r, *size)),
        CpuStep::Write(r, size, _) => ("register write".into(), register(r, *size)),
        CpuStep::Fence => ("fence".into(), String::new()),
        CpuStep::Map(l) => ("map".into(), lent(l)),
        CpuStep::Unmap(l) => ("unmap".into(), lent(l)),
        CpuStep::Look(l) => ("look".into(), lent(l)),
        CpuStep::Copy(at, len) => ("copy".into(), area(*at, *len)),
        CpuStep::CopyOut(at, len) => ("copy out".into(), area(*at, *len)),
        CpuStep::Hcall(c) => ("hcall".into(), format!(",\"call\":\"{:#x}\"", c.0)),
    }
}

/// Places all slices on their lanes, in the order in which they are written.
fn lay(slices: &[Slice]) -> BTreeMap<Key, Vec<Placed>> {
    let mut lanes: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (i, s) in slices.iter().enumerate() {
        lanes.entry(s.key).or_default().push(i);
    }
    let place = |(key, all): (Key, Vec<usize>)| {
        (key, if key.group == Group::Cpu { nest(slices, &all) } else { rows(slices, all) })
    };
    lanes.into_iter().map(place).collect()
}

fn ns(t: Time) -> u64 {
    t.ps() / 1000
}

/// Places the slices of a core. A call is recorded at its end; its steps are those since its begin.
fn nest(slices: &[Slice], all: &[usize]) -> Vec<Placed> {
    let span = |s: &usize| (ns(slices[*s].from), ns(slices[*s].until));
    let mut placed: Vec<Placed> = Vec::with_capacity(all.len());
    let mut done = 0;
    for (k, &call) in all.iter().enumerate().filter(|(_, s)| slices[**s].call) {
        let before = &all[done..k];
        let own =
            before.iter().rposition(|s| slices[*s].from < slices[call].from).map_or(0, |n| n + 1);
        let (outside, inside) = before.split_at(own);
        placed.extend(outside.iter().map(|s| (*s, 0, span(s))));
        placed.push((call, 0, span(&call)));
        steps(slices, inside, span(&call), &mut placed);
        done = k + 1;
    }
    placed.extend(all[done..].iter().map(|s| (*s, 0, span(s))));
    placed
}

/// Places the steps of a call. Many steps without a duration, such as mappings whose work is
/// declared apart, would be indistinguishable: they share the time of the work beside them.
fn steps(slices: &[Slice], steps: &[usize], (from, until): (u64, u64), placed: &mut Vec<Placed>) {
    let first = placed.len();
    let span = |s: &usize| (ns(slices[*s].from), ns(slices[*s].until));
    let instant = |s: &usize| slices[*s].from == slices[*s].until;
    let mut k = 0;
    while k < steps.len() {
        let at = slices[steps[k]].from;
        let n = steps[k..].iter().take_while(|s| instant(s) && slices[**s].from == at).count();
        if n == 0 {
            placed.push((steps[k], 0, span(&steps[k])));
            k += 1;
            continue;
        }
        let before = steps[..k].last().filter(|s| slices[**s].until == at && !instant(s));
        let after = steps.get(k + n).filter(|s| slices[**s].from == at);
        let priced = before.filter(|s| slices[**s].name == "cpu.map");
        let beside = priced.or(after).or(before).map(span);
        for (i, s) in steps[k..k + n].iter().enumerate() {
            let part = |(a, b): (u64, u64), i: usize| a + (b - a) * i as u64 / n as u64;
            // A lone step at the very end of a call would be shown after it.
            let alone = ns(at).min(until.saturating_sub(1).max(from));
            placed.push((*s, 1, beside.map_or((alone, alone), |b| (part(b, i), part(b, i + 1)))));
        }
        k += n;
    }
    // Work comes before the steps that share its time.
    placed[first..].sort_by_key(|p| (p.2.0, Reverse(p.2.1), p.1));
    placed[first..].iter_mut().for_each(|p| p.1 = 0);
}

/// Places the slices of other lanes, each on the first free row.
fn rows(slices: &[Slice], mut all: Vec<usize>) -> Vec<Placed> {
    all.sort_by_key(|s| (ns(slices[*s].from), ns(slices[*s].until)));
    let mut free: Vec<u64> = Vec::new();
    let mut placed: Vec<Placed> = Vec::with_capacity(all.len());
    for s in all {
        let (from, until) = (ns(slices[s].from), ns(slices[s].until));
        let row = free.iter().position(|f| *f <= from).unwrap_or_else(|| {
            free.push(0);
            free.len() - 1
        });
        free[row] = until;
        placed.push((s, row, (from, until)));
    }
    placed.sort_by_key(|p| (p.1, p.2.0, Reverse(p.2.1)));
    placed
}

fn emit(
    slices: &[Slice],
    lanes: &BTreeMap<Key, Vec<Placed>>,
    flows: &[Option<Flow>],
    platforms: usize,
    out: impl io::Write,
) -> io::Result<()> {
    let mut w = Writer::begin(out)?;
    let (mut group, mut number, mut last) = (0, 0, None);
    for (key, placed) in lanes {
        if last != Some((key.group, key.platform)) {
            last = Some((key.group, key.platform));
            group += 1;
            w.group(group, &group_name(key, platforms))?;
        }
        let first = number + 1;
        let count = placed.iter().map(|p| p.1 + 1).max().unwrap_or(0);
        for row in 0..count {
            number += 1;
            let name = lane_name(key);
            let name = if row == 0 { name } else { format!("{name} ({})", row + 1) };
            w.lane(Lane { group, number }, &name)?;
        }
        for (s, row, span) in placed {
            let Slice { from, until, name, args, .. } = &slices[*s];
            let (start, lasts) = (from.ps(), until.since(*from).ps());
            let packet = flows[*s].map_or(String::new(), |f| format!(",\"packet\":{}", f.id));
            let lane = Lane { group, number: first + row };
            let args = format_args!("\"start_ps\":{start},\"lasts_ps\":{lasts}{args}{packet}");
            w.slice(lane, *span, name, flows[*s], args)?;
        }
    }
    w.end()
}

fn group_name(key: &Key, platforms: usize) -> String {
    let name = match key.group {
        Group::Cpu => "CPU",
        Group::Bus => "bus",
        Group::Device => "device",
        Group::Interrupts => "interrupts",
        Group::Wire => return "wire".to_owned(),
    };
    if platforms > 1 { format!("{name} of partition {}", key.platform) } else { name.to_owned() }
}

fn lane_name(key: &Key) -> String {
    let n = key.number;
    let links = [
        (Link::PcieDown, "PCIe toward the device"),
        (Link::PcieUp, "PCIe toward the host"),
        (Link::Pci, "PCI"),
        (Link::AxiRead, "AXI read data"),
        (Link::AxiWrite, "AXI write data"),
        (Link::AxiLite, "AXI4-Lite registers"),
        (Link::Hypervisor, "hypervisor's copies"),
    ];
    match key.group {
        Group::Cpu => format!("core {n}"),
        Group::Bus => links.iter().find(|l| l.0 as u32 == n).map_or("bus", |l| l.1).to_owned(),
        Group::Device => stage_name(n).to_owned(),
        Group::Interrupts if n.is_multiple_of(2) => format!("line {}", n / 2),
        Group::Interrupts => format!("message {}", n / 2),
        Group::Wire => if n == 0 { "wire out" } else { "wire in" }.to_owned(),
    }
}

#[cfg(test)]
mod tests;
