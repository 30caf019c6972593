//! `doorbell live`: the system with real traffic, in real time.
//!
//! A VM's TCP stack speaks through ibmveth, the logical LAN, the trunk's ibmveth and Open vSwitch
//! itself with a host behind a NIC, once with large send and checksum offload and once without.
//! Drivers and devices are those of the lab; stack, switch and wire are the kernel's and Open
//! vSwitch's own, in namespaces that are made for it. Beside it runs the same traffic with nothing
//! of ours in the way (`bare`): what both have in common is not ours, and the ratio says how much
//! of it is.
//!
//! The two take turns, a second or more each, since a machine that others use is not the same from
//! one minute to the next. Every number here is measured on this machine and depends on it; only
//! ratios of one run are judged.
//!
//! [`rights`] says what is needed, [`site`] makes namespaces and switch, [`path`] runs drivers and
//! devices, [`partition`] is a driver's machine, [`measure`] sends, [`wire`] looks at what
//! arrives of a [`transfer`], [`report`] prints, [`urgent`] is for machines that others use.

mod ledger;
mod measure;
mod partition;
mod path;
mod report;
mod rights;
mod setup;
mod site;
mod transfer;
mod urgent;
mod wire;

use crate::args::Live;
use crate::output::{plain, print};
use crate::progress::Interrupt;
use crate::{DONE, Error, INTERRUPTED, MISSED};
use doorbell_host_io::pcap::{InterfaceId, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use ledger::Ledger;
use measure::{Amount, Slice};
use setup::Setup;
use site::{Arm, Site};
use std::io::{self, IsTerminal, Write, stderr};
use std::path::Path;
use std::time::Instant;
use urgent::Urgent;
use wire::Sample;

/// Of the bare pair's rate, at least; less would be our slowness and not the offload's.
const LEAST: f64 = 0.7;
/// Turns that both arms have.
const ROUNDS: u32 = 10;
/// What is said of the wire in a capture. It has no rate of its own.
const BITS_PER_SECOND: u64 = 10_000_000_000;

/// A capture being written, with a wire for each state.
#[derive(Debug)]
struct Recording {
    writer: Writer,
    wires: [InterfaceId; 2],
}

impl Recording {
    fn begin(path: &Path) -> Result<Recording, Error> {
        let told = |e| Error::input(format!("{}: {}", path.display(), plain(&e)));
        let mut writer = Writer::create(path).map_err(told)?;
        let off = writer.interface("offloads off", BITS_PER_SECOND).map_err(told)?;
        let on = writer.interface("offloads on", BITS_PER_SECOND).map_err(told)?;
        Ok(Recording { writer, wires: [off, on] })
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

/// What one state gave.
#[derive(Debug)]
struct Measured {
    state: State,
    /// Through ibmveth, and bare, round by round.
    rounds: Vec<[Slice; 2]>,
    /// Of the path, while it was measured.
    ledger: Ledger,
    /// Frames over the MTU that left by the NIC, of all.
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

    /// What does not hold.
    fn faults(&self) -> Vec<String> {
        let state = self.state.name();
        let s = &self.sample;
        let mut faults = Vec::new();
        if self.ratio() < LEAST {
            faults
                .push(format!("{state}: {:.2} of the bare pair, less than {LEAST}", self.ratio()));
        }
        for (n, end) in s.whole.iter().zip(["network", "VM"]).filter(|(n, _)| **n != wire::AMOUNT) {
            faults.push(format!("{state}: {n} of {} bytes are whole at the {end}", wire::AMOUNT));
        }
        if self.oversize + s.over > 0 {
            faults.push(format!(
                "{state}: {} frames over the MTU left by the NIC",
                self.oversize.max(s.over)
            ));
        }
        if s.wrong > 0 || s.right == 0 {
            faults.push(format!(
                "{state}: {} frames with right checksums, {} with wrong ones",
                s.right, s.wrong
            ));
        }
        faults
    }
}

/// Shows how it goes, and knows when it is to end.
struct Watcher<'a> {
    interrupt: &'a Interrupt,
    /// On a terminal, a line that goes away.
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Whether programs that are started are to come before others.
    urgent: bool,
}

impl Watcher<'_> {
    fn interrupted(&self) -> bool {
        self.interrupt.came()
    }

    /// Whether there is anybody to show a rate to while it is measured.
    fn shows(&self) -> bool {
        self.bar.is_some()
    }

    fn rate(&self, state: State, arm: Arm, bits_per_second: f64) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "offloads {}, {}: {:.2} Gbit/s",
                state.name(),
                arm_name(arm),
                bits_per_second / 1e9
            ));
            bar.tick();
        }
    }

    /// A step that stays to be read.
    fn said(&self, what: &str) {
        if self.quiet {
            return;
        }
        match &self.bar {
            Some(bar) => bar.println(what),
            // Where stderr is gone nobody wants to know.
            None => drop(writeln!(stderr(), "{what}")),
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

pub(crate) fn live(args: &Live) -> Result<u8, Error> {
    if args.system != "ibmveth" {
        return Err(Error::input(format!("live {}: allowed is ibmveth", args.system)));
    }
    rights::check()?;
    let mut recording = args.capture.as_deref().map(Recording::begin).transpose()?;
    let interrupt =
        Interrupt::watched().map_err(|e| Error { code: MISSED, what: format!("signals: {e}") })?;
    let watch = Watcher {
        interrupt: &interrupt,
        bar: bar(args.quiet),
        quiet: args.quiet,
        urgent: args.urgent,
    };
    let _ahead = args.urgent.then(Urgent::begin);
    let began = Instant::now();
    let mut all = Vec::new();
    let mut version = String::new();
    for state in [State::Off, State::On] {
        match one(state, args, &watch, began, recording.as_mut(), &mut version) {
            Ok(m) => all.push(m),
            Err(_) if interrupt.came() => {
                let what = "interrupted; namespaces, daemons and devices are gone".to_owned();
                return Err(Error { code: INTERRUPTED, what });
            }
            Err(e) => {
                return Err(Error {
                    code: MISSED,
                    what: format!("offloads {}: {}", state.name(), plain(&e)),
                });
            }
        }
    }
    if let Some(r) = recording {
        r.writer.finish().map_err(|e| Error::input(plain(&e)))?;
    }
    drop(watch);
    print(&report::show(&all, args, &version))?;
    let faults: Vec<String> = all.iter().flat_map(Measured::faults).collect();
    if faults.is_empty() { Ok(DONE) } else { Err(Error { code: MISSED, what: faults.join("; ") }) }
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
    let mut site = Site::build(state, &setup)?;
    if args.urgent {
        site.programs().into_iter().for_each(urgent::hurry);
    }
    site.ovs.version().clone_into(version);
    watch.said(&format!(
        "offloads {}: Open vSwitch {version} (pid {}) in namespace {}",
        state.name(),
        site.ovs.ids()[0],
        site.switch_name()
    ));
    let rounds = args.seconds.min(ROUNDS);
    let mut slices = vec![[Slice::default(); 2]; rounds as usize];
    let before = site.counts()?;
    for (n, round) in (0u32..).zip(&mut slices) {
        // All seconds, shared out; who goes first changes, so that neither always has the better
        // time.
        let seconds = (args.seconds * (n + 1) / rounds) - (args.seconds * n / rounds);
        let mut arms = [Arm::Ibmveth, Arm::Bare];
        if n % 2 == 1 {
            arms.reverse();
        }
        for arm in arms {
            let amount = Amount { seconds, reverse: args.reverse };
            let s = measure::slice(&mut site, arm, amount, watch, state)?;
            let rate = s.bits / s.seconds.max(f64::MIN_POSITIVE) / 1e9;
            watch.said(&format!("offloads {}, {}: {rate:.2} Gbit/s", state.name(), arm_name(arm)));
            round[arm as usize] = s;
        }
    }
    let ledger = site.counts()? - &before;
    let sample = wire::sample(&mut site, state, watch, began, recording)?;
    let n = sample.whole;
    watch.said(&format!(
        "offloads {}: whole are {} bytes at the network and {} at the VM",
        state.name(),
        n[0],
        n[1]
    ));
    let oversize = site.oversize.count()?;
    site.end()?;
    Ok(Measured { state, rounds: slices, ledger, oversize, sample })
}

/// A line for the rate, on a terminal.
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
