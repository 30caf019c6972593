//! `doorbell live`: the system with real traffic, in real time.
//!
//! A VM's TCP stack talks through ibmveth, the logical LAN, the trunk's ibmveth and Open vSwitch to
//! a host behind a NIC, once with large send and checksum offload and once without. Drivers and
//! devices are those of the lab; stack, switch and wire are the kernel's and Open vSwitch's own, in
//! namespaces. The same traffic also runs without our part (`bare`), in turns of a second or more,
//! since the load of the machine changes. All rates depend on the machine; only ratios within one
//! run are checked.
//!
//! Machine, partitions and ledger are those of the lab, too, at no price. Schedulers and loads are
//! not: a frame comes when the kernel has one, on the wall clock, and rates are measured there, by
//! iperf3 at the receiver.
#![forbid(unsafe_code)]

mod args;
mod counts;
mod data_path;
mod measure;
mod partition;
mod priority;
mod report;
mod rights;
mod setup;
mod testbed;
mod transfer;
mod wire;

pub use args::Live;
use doorbell_console::output::{print, visible};
use doorbell_console::{DONE, Error, failed, input, plain, progress::Interrupt};
pub use report::LiveResult;

use counts::Counts;
use doorbell_host_io::pcap::{InterfaceId, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use measure::{Amount, Slice};
use priority::Priority;
use setup::Setup;
use std::io::{self, IsTerminal, Write, stderr};
use std::{path::Path, time::Instant};
use testbed::{Arm, Testbed};
use wire::Sample;

/// The lowest accepted share of the bare pair's rate; below it, our own slowness is measured.
const LEAST: f64 = 0.7;
/// Turns of both arms.
const ROUNDS: u32 = 10;
/// The rate of the wire in a capture; the wire has none of its own.
const BITS_PER_SECOND: u64 = 10_000_000_000;

/// An open capture, with a wire for each state.
struct Recording {
    writer: Writer,
    wires: [InterfaceId; 2],
}

impl Recording {
    fn begin(path: &Path) -> Result<Recording, Error> {
        let begin = || {
            let mut writer = Writer::create(path)?;
            let off = writer.interface("offloads off", BITS_PER_SECOND)?;
            let on = writer.interface("offloads on", BITS_PER_SECOND)?;
            Ok(Recording { writer, wires: [off, on] })
        };
        begin().map_err(Error::at(path.display()))
    }
}

/// A state of the switch: large send and checksum offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    On,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            State::Off => "off",
            State::On => "on",
        }
    }
}

struct Measured {
    state: State,
    /// Slices through ibmveth and bare, round by round.
    rounds: Vec<[Slice; 2]>,
    /// Counts of the path during the measurement.
    counts: Counts,
    /// All frames over the MTU that left by the NIC.
    oversize: u64,
    sample: Sample,
}

impl Measured {
    fn rate(&self, arm: usize) -> f64 {
        let sum = |f: fn(&Slice) -> f64| self.rounds.iter().map(|r| f(&r[arm])).sum::<f64>();
        sum(|s| s.bits) / sum(|s| s.seconds).max(f64::MIN_POSITIVE)
    }

    fn ratio(&self) -> f64 {
        self.rate(0) / self.rate(1).max(f64::MIN_POSITIVE)
    }

    fn retransmits(&self, arm: usize) -> u64 {
        self.rounds.iter().map(|r| r[arm].retransmits).sum()
    }

    /// Returns the violated claims.
    fn faults(&self) -> Vec<String> {
        let state = self.state.name();
        let s = &self.sample;
        let mut faults = Vec::new();
        if self.ratio() < LEAST {
            let ratio = self.ratio();
            faults.push(format!("{state}: {ratio:.2} of the bare pair, less than {LEAST}"));
        }
        for (n, end) in s.whole.iter().zip(["network", "VM"]).filter(|(n, _)| **n != wire::AMOUNT) {
            faults.push(format!("{state}: {n} of {} bytes are intact at the {end}", wire::AMOUNT));
        }
        if self.oversize + s.over > 0 {
            let n = self.oversize.max(s.over);
            faults.push(format!("{state}: {n} frames over the MTU left by the NIC"));
        }
        if s.wrong > 0 || s.right == 0 {
            let (right, wrong) = (s.right, s.wrong);
            faults
                .push(format!("{state}: {right} frames with right checksums, {wrong} with wrong"));
        }
        faults
    }
}

/// Shows progress, and watches for an interrupt.
struct Watcher<'a> {
    interrupt: &'a Interrupt,
    /// A line that goes away, on a terminal only.
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Started programs get a higher CPU priority.
    urgent: bool,
}

impl Watcher<'_> {
    fn interrupted(&self) -> bool {
        self.interrupt.came()
    }

    /// Returns true if rates are shown during the measurement.
    fn shows(&self) -> bool {
        self.bar.is_some()
    }

    fn rate(&self, state: State, arm: Arm, bits_per_second: f64) {
        if let Some(bar) = &self.bar {
            let (state, arm, rate) = (state.name(), arm_name(arm), bits_per_second / 1e9);
            bar.set_message(format!("offloads {state}, {arm}: {rate:.2} Gbit/s"));
            bar.tick();
        }
    }

    /// Prints a completed step.
    fn report(&self, what: &str) {
        if self.quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.println(visible(what, &[])),
            // A closed stderr is no error.
            None => drop(writeln!(stderr(), "{}", visible(what, &[]))),
        }
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const fn arm_name(arm: Arm) -> &'static str {
    match arm {
        Arm::Ibmveth => "ibmveth",
        Arm::Bare => "bare TAP",
    }
}

/// Runs the command.
///
/// # Errors
/// Wrong input, missing rights or programs, or traffic that fails.
pub fn live(args: &Live) -> Result<u8, Error> {
    if args.system != "ibmveth" {
        return Err(input!("live {}: allowed is ibmveth", args.system));
    }
    rights::check()?;
    let mut recording = args.capture.as_deref().map(Recording::begin).transpose()?;
    let interrupt = Interrupt::watched().map_err(|e| failed!("signals: {e}"))?;
    let (quiet, urgent) = (args.output.quiet, args.urgent);
    let watch = Watcher { interrupt: &interrupt, bar: bar(quiet), quiet, urgent };
    let _raised = urgent.then(Priority::raise);
    let began = Instant::now();
    let mut all = Vec::new();
    let mut version = String::new();
    for state in [State::Off, State::On] {
        match one(state, args, &watch, began, recording.as_mut(), &mut version) {
            Ok(m) => all.push(m),
            Err(_) if interrupt.came() => {
                return Err(Error::Interrupted("namespaces, daemons and devices are gone"));
            }
            Err(e) => return Err(failed!("offloads {}: {}", state.name(), plain(&e))),
        }
    }
    if let Some(r) = recording {
        r.writer.finish().map_err(|e| input!("{}", plain(&e)))?;
    }
    drop(watch);
    print(&report::show(&all, args, &version))?;
    let faults: Vec<String> = all.iter().flat_map(Measured::faults).collect();
    if faults.is_empty() { Ok(DONE) } else { Err(Error::Failed(faults.join("; "))) }
}

/// Measures one state.
fn one(
    state: State,
    args: &Live,
    watch: &Watcher<'_>,
    began: Instant,
    recording: Option<&mut Recording>,
    version: &mut String,
) -> io::Result<Measured> {
    let setup = Setup {
        transmit: args.transmit,
        large_send: args.large_send,
        slice: args.slice.unwrap_or(u32::MAX),
        large_buffers: args.large_buffers,
    };
    let mut bed = Testbed::build(state, &setup)?;
    if args.urgent {
        bed.programs().into_iter().for_each(priority::raise);
    }
    bed.ovs.version().clone_into(version);
    let (name, pid, namespace) = (state.name(), bed.ovs.ids()[0], bed.switch_name());
    let switch = format!("Open vSwitch {version} (pid {pid}) in namespace {namespace}");
    watch.report(&format!("offloads {name}: {switch}"));
    let rounds = args.seconds.min(ROUNDS);
    let mut slices = vec![[Slice::default(); 2]; rounds as usize];
    let before = bed.counts()?;
    for (n, round) in (0u32..).zip(&mut slices) {
        // The seconds are distributed over the rounds. The first arm changes, so that neither
        // always runs first.
        let seconds = (args.seconds * (n + 1) / rounds) - (args.seconds * n / rounds);
        let mut arms = [Arm::Ibmveth, Arm::Bare];
        if n % 2 == 1 {
            arms.reverse();
        }
        for arm in arms {
            let amount = Amount { seconds, reverse: args.reverse, arm, state };
            let s = measure::slice(&mut bed, amount, watch)?;
            let (arm_name, rate) = (arm_name(arm), s.rate() / 1e9);
            watch.report(&format!("offloads {name}, {arm_name}: {rate:.2} Gbit/s"));
            round[arm as usize] = s;
        }
    }
    let counts = bed.counts()?.since(&before);
    let sample = wire::sample(&mut bed, state, watch, began, recording)?;
    let [network, vm] = sample.whole;
    watch.report(&format!(
        "offloads {name}: {network} bytes arrived intact at the network and {vm} at the VM"
    ));
    let oversize = bed.oversize.count()?;
    bed.end()?;
    Ok(Measured { state, rounds: slices, counts, oversize, sample })
}

/// Returns a line for the rate, on a terminal only.
fn bar(quiet: bool) -> Option<ProgressBar> {
    if quiet || !stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    Some(bar)
}
