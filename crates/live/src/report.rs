//! The result, for people and for programs.

use super::measure::Slice;
use super::{LEAST, Measured, counts::Counts, wire::AMOUNT};
use crate::args::Live;
use doorbell_console::render::{Document, NUMBER, count, each, numbers};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

/// Renders the result.
pub(super) fn show(all: &[Measured], args: &Live, version: &str) -> String {
    document(all, args, version).show(args.output.format, "live", &data(all, args, version))
}

fn gigabits(bits_per_second: f64) -> String {
    format!("{:.2}", bits_per_second / 1e9)
}

/// Returns the last state's rate over the first's, through ibmveth and bare.
fn gain(all: &[Measured]) -> Option<[f64; 2]> {
    let (off, on) = (all.first()?, all.last()?);
    Some([0, 1].map(|arm| on.rate(arm) / off.rate(arm).max(f64::MIN_POSITIVE)))
}

fn direction(args: &Live) -> &'static str {
    if args.reverse { "network to VM" } else { "VM to network" }
}

fn document(all: &[Measured], args: &Live, version: &str) -> Document {
    let (way, seconds) = (direction(args), args.seconds);
    let mut doc =
        Document::titled(format!("ibmveth live, {way}, {seconds} s of TCP in each state"));
    let measured = "measured on this machine, in this run";
    doc.line(format!("Open vSwitch {version}, userspace datapath; {measured}"));
    let mut t = numbers("Gbit/s", &["ibmveth", "bare TAP", "ratio", "holds"], 10);
    for m in all {
        let ratios = m.rounds.iter().map(|r| r[0].rate() / r[1].rate().max(f64::MIN_POSITIVE));
        let (least, most) =
            ratios.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), r| (a.min(r), b.max(r)));
        let cells = [
            format!("offloads {}", m.state.name()),
            gigabits(m.rate(0)),
            gigabits(m.rate(1)),
            format!("{:.2}", m.ratio()),
            if m.ratio() >= LEAST { "yes" } else { "no" }.to_owned(),
        ];
        t.noted(cells, &format!("rounds {least:.2} to {most:.2}, at least {LEAST}"));
    }
    if let Some([ibmveth, bare]) = gain(all) {
        t.row(["on / off", &format!("{ibmveth:.2}"), &format!("{bare:.2}"), "", ""]);
    }
    doc.table(t);

    let heads: Vec<&str> = all.iter().map(|m| m.state.name()).collect();
    let mut t = numbers("wire, behind the NIC", &heads, NUMBER);
    let mut row = |name: &str, f: &dyn Fn(&Measured) -> u64, about: &str| {
        t.noted([name.to_owned()].into_iter().chain(all.iter().map(|m| count(f(m)))), about);
    };
    row("over_mtu", &|m| m.oversize, "All that left by the NIC, in the whole run");
    row("looked_at", &|m| m.sample.frames, "Frames of the inspected transfer");
    row("longest", &|m| m.sample.longest.into(), "Bytes of the longest of those");
    row("right_checksums", &|m| m.sample.right, "TCP, with right checksums");
    row("wrong_checksums", &|m| m.sample.wrong, "Any, with a wrong one");
    row("sends", &|m| m.sample.sends, "By the VM, in that transfer");
    row("segments", &|m| m.sample.segments, "Of those, on a wire of this MTU");
    row("arrived", &|m| m.sample.arrived, "Of the VM's, at the network host");
    row("whole_to_network", &|m| m.sample.whole[0], "Bytes that arrived intact");
    row("whole_to_vm", &|m| m.sample.whole[1], "The same, on the way back");
    row("retransmits", &|m| m.retransmits(0), "By TCP, through ibmveth");
    doc.table(t);

    let heads = all.iter().flat_map(|m| ["frame", "KiB"].map(|per| (m.state.name(), per)));
    let heads: Vec<String> = heads.map(|(state, per)| format!("{state}/{per}")).collect();
    let mut t = numbers("ledger", &heads.iter().map(String::as_str).collect::<Vec<_>>(), 10);
    let first = all.first().into_iter().flat_map(|m| &m.counts.all);
    for (i, &(name, about, _)) in first.enumerate() {
        if all.iter().all(|m| m.counts.all[i].2 == 0) {
            continue;
        }
        let both = |m: &Measured| per(&m.counts).map(|units| each(m.counts.all[i].2 as f64, units));
        let cells = all.iter().flat_map(both);
        t.noted([name.to_owned()].into_iter().chain(cells), about);
    }
    doc.table(t);
    doc
}

/// Returns the divisors of counts: frames, and their KiB.
fn per(counts: &Counts) -> [f64; 2] {
    [counts.get("frames") as f64, counts.get("frame_bytes") as f64 / 1024.0]
}

/// The result for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LiveResult {
    system: &'static str,
    /// `VM to network`, or `network to VM`.
    direction: &'static str,
    /// Seconds of TCP in each state.
    seconds: u32,
    /// The version of Open vSwitch.
    ovs: String,
    /// The least ratio to a bare TAP that holds.
    least_ratio: f64,
    states: Vec<OfState>,
    gain: Gain,
}

/// The last state's rate over the first's.
#[derive(Debug, Serialize, JsonSchema)]
struct Gain {
    ibmveth: f64,
    bare: f64,
}

/// A state of the offloads.
#[derive(Debug, Serialize, JsonSchema)]
struct OfState {
    offloads: &'static str,
    bits_per_s: f64,
    /// The rate of a bare TAP.
    bare_bits_per_s: f64,
    ratio: f64,
    /// The rates of each round, through ibmveth and bare.
    rounds_bits_per_s: Vec<[f64; 2]>,
    retransmits: u64,
    bare_retransmits: u64,
    wire: Wire,
    transfer: Transfer,
    ledger: IndexMap<&'static str, u64>,
    per_frame: IndexMap<&'static str, f64>,
    per_kib: IndexMap<&'static str, f64>,
    /// The claims that do not hold.
    faults: Vec<String>,
}

/// Frames behind the NIC.
#[derive(Debug, Serialize, JsonSchema)]
struct Wire {
    over_mtu: u64,
    looked_at: u64,
    longest: u32,
    right_checksums: u64,
    wrong_checksums: u64,
}

/// The inspected transfer.
#[derive(Debug, Serialize, JsonSchema)]
struct Transfer {
    bytes: u64,
    whole_to_network: u64,
    whole_to_vm: u64,
    sends: u64,
    segments: u64,
    arrived: u64,
}

fn data(all: &[Measured], args: &Live, version: &str) -> LiveResult {
    let [ibmveth, bare] = gain(all).unwrap_or_default();
    LiveResult {
        system: "ibmveth",
        direction: direction(args),
        seconds: args.seconds,
        ovs: version.to_owned(),
        least_ratio: LEAST,
        states: all.iter().map(state).collect(),
        gain: Gain { ibmveth, bare },
    }
}

fn state(m: &Measured) -> OfState {
    let entries = &m.counts.all;
    let divided = |by: f64| {
        let each = entries.iter().filter(|_| by > 0.0);
        each.map(|e| (e.0, e.2 as f64 / by)).collect()
    };
    let [frames, kib] = per(&m.counts);
    OfState {
        offloads: m.state.name(),
        bits_per_s: m.rate(0),
        bare_bits_per_s: m.rate(1),
        ratio: m.ratio(),
        rounds_bits_per_s: m.rounds.iter().map(|r| r.each_ref().map(Slice::rate)).collect(),
        retransmits: m.retransmits(0),
        bare_retransmits: m.retransmits(1),
        wire: Wire {
            over_mtu: m.oversize,
            looked_at: m.sample.frames,
            longest: m.sample.longest,
            right_checksums: m.sample.right,
            wrong_checksums: m.sample.wrong,
        },
        transfer: Transfer {
            bytes: AMOUNT,
            whole_to_network: m.sample.whole[0],
            whole_to_vm: m.sample.whole[1],
            sends: m.sample.sends,
            segments: m.sample.segments,
            arrived: m.sample.arrived,
        },
        ledger: entries.iter().map(|e| (e.0, e.2)).collect(),
        per_frame: divided(frames),
        per_kib: divided(kib),
        faults: m.faults(),
    }
}
