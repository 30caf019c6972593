//! The systems as the command line sees them.
//!
//! A system has keys, a run, and the bus transactions of a transfer. Code above this module only
//! uses keys and results, so a new system is one more entry of a
//! [`Registry`](crate::registry::Registry).

use crate::RunError;
use crate::key::{Is, Key, Needs, Value, Values};
use crate::knobs::{Condition, Knob};
use crate::limits::{self, Resource};
use crate::metrics::{Metric, Numbers};
use crate::published::SystemFigures;
use crate::result::{Loss, Measured, rounded};
use crate::settings::settings;
use crate::{SettingError, fault, host, refuse};
use doorbell_bus::pcie::{LinkDirection, Operation};
use doorbell_bus::{pci, pcie};
use doorbell_hal::Alignment;
use doorbell_sim::{Watch, traffic::Frames, watch::Asking};
use std::sync::{Arc, OnceLock};

/// Runs a system. The frames are those of the capture that `traffic.file` names.
pub type Run = fn(&Values, Option<&Arc<Frames>>, &mut dyn Watch) -> Result<Measured, RunError>;

/// Lists the bus transactions of one transfer by the device: operation, address, bytes.
pub type Transfer = fn(&Values, Operation, u64, u32) -> Transferred;

/// Bus transactions, one after the other.
pub type Transactions = Box<dyn Iterator<Item = Transaction>>;

/// The transactions of a transfer.
pub type Transferred = Result<Transactions, SettingError>;

/// A bus transaction as people read it, on any bus: a row of `doorbell transfer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The address of the first byte that it requests or carries.
    pub addr: u64,
    /// The bus's name for it: `MRd`, `MWI`.
    pub command: &'static str,
    /// Bytes that it requests or carries.
    pub bytes: u32,
    /// The TLP, on PCI Express.
    pub packet: Option<Packet>,
}

/// The properties of a TLP that a transaction on a shared bus does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// The direction.
    pub toward: LinkDirection,
}

impl From<pcie::Transaction> for Transaction {
    fn from(t: pcie::Transaction) -> Transaction {
        let packet = Some(Packet { wire_bytes: t.wire_bytes, toward: t.toward });
        Transaction { addr: t.addr, command: t.command.name(), bytes: t.bytes, packet }
    }
}

impl From<pci::Transaction> for Transaction {
    fn from(t: pci::Transaction) -> Transaction {
        Transaction { addr: t.addr, command: t.command.name(), bytes: t.bytes, packet: None }
    }
}

/// Lists the transactions of a transfer over the PCI Express link of these values.
pub(crate) fn pcie_transfer(v: &Values, op: Operation, at: u64, bytes: u32) -> Transferred {
    let rules = pcie::Rules::new(host::pcie(v).0).map_err(host::refused)?;
    Ok(Box::new(pcie::transactions(&rules, op, at, bytes).map(Into::into)))
}

/// A system.
#[derive(Debug)]
pub struct System {
    /// The name: `mlx5`.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The devices that are modelled.
    pub devices: &'static [&'static str],
    /// The keys of its profiles.
    pub platform_keys: &'static [&'static [Key]],
    /// The keys of its scenarios.
    pub run_keys: &'static [&'static [Key]],
    /// Runs it, for [`System::run`].
    pub runner: Run,
    /// Lists the transactions of a transfer.
    pub transfer: Transfer,
    /// The key of its port's rate, for the header of a capture.
    pub port_rate: &'static str,
    /// The settings that people can change on a real one.
    pub knobs: &'static [Knob],
    /// Keys of the traffic over which advice is shown.
    pub conditions: &'static [Condition],
    /// The resources that may limit its runs.
    pub resources: &'static [Resource],
    /// Numbers of its results that not every system has.
    pub numbers: Numbers,
    /// The declarations of all of its numbers, made when they are asked for first.
    pub declared: OnceLock<Vec<Metric>>,
    /// Its published figures, of one machine each.
    pub figures: &'static [&'static SystemFigures],
}

impl PartialEq for System {
    fn eq(&self, other: &System) -> bool {
        self.name == other.name
    }
}

/// The share by which a count may exceed its limit: a byte of a short window.
const ROUNDING: f64 = 1e-3;
/// The halves of its 95 % interval by which a share may exceed 1: frames of mixed sizes are counted
/// over a part of the time that the rate of the whole gives them.
const DOUBT: f64 = 2.0;

impl System {
    /// Runs the system on these values. The frames are those of the capture that `traffic.file`
    /// names. No share of the result is above 1 beyond its error, or its audit has failed.
    ///
    /// # Errors
    /// The values do not go together, or the run is stuck. A failed audit is no error.
    pub fn run(
        &self,
        values: &Values,
        frames: Option<&Arc<Frames>>,
        watch: &mut dyn Watch,
    ) -> Result<Measured, RunError> {
        let until = match values.find("run.until") {
            Some((key, Value::Number(percent))) if values.idle(key).is_none() => Some(*percent),
            _ => None,
        };
        let long = until.map(|_| longest(values));
        let values = long.as_ref().unwrap_or(values);
        let mut watch = Asking::until(watch, until.map(|percent| percent / 100.0));
        let mut m = (self.runner)(values, frames, &mut watch)?;
        m.verdict.lost = self.numbers.losses.iter().filter_map(|of| Loss::of(&m, of)).collect();
        // The shares of a run that is wrong mean nothing.
        if m.verdict.audit.is_empty() {
            let errors = m.rate_errors();
            let over = m.rates.iter().filter_map(|rate| {
                let (name, share) = limits::share(self, values, rate)?;
                let error = errors.iter().find(|e| e.0 == rate.metric.name).map_or(0.0, |e| e.1);
                let sampled = DOUBT * error / rate.value.max(f64::MIN_POSITIVE) * share;
                let text = || format!("{name}: {}, of 1 that there is", rounded(share));
                (share - sampled > 1.0 + ROUNDING).then(text)
            });
            let over: Vec<String> = over.collect();
            m.verdict.audit.extend(over);
        }
        Ok(m)
    }

    /// Returns the keys of its profiles.
    pub fn platform(&self) -> Vec<&'static Key> {
        self.platform_keys.iter().copied().flatten().collect()
    }

    /// Returns the keys of its scenarios.
    pub fn scenario(&self) -> Vec<&'static Key> {
        self.run_keys.iter().copied().flatten().collect()
    }

    /// Returns all keys: the run's, then the platform's.
    pub fn keys(&self) -> Vec<&'static Key> {
        self.run_keys.iter().chain(self.platform_keys).copied().flatten().collect()
    }
}

const WHOLE: &[Needs] = &[Needs::kind(&["pktgen", "send", "receive", "transactions"])];
/// The length of a run that does not end by its error, in those that its traffic has.
pub(crate) const LONGEST: u64 = 1000;

/// Returns the values with the most traffic that a run may have which ends by its error.
fn longest(values: &Values) -> Values {
    let mut long = values.clone();
    for name in ["traffic.packets", "traffic.rounds", "traffic.duration"] {
        if let Some((key, Value::Number(n))) = values.find(name) {
            long.put(key, Value::Number(n * LONGEST as f64));
        }
    }
    long
}

const STEADY: &[Needs] =
    &[Needs::kind(&["pktgen", "pcap", "send", "receive", "transactions", "bulk", "arrivals"])];
const FAULTS: &[Needs] = &[Needs::new("run.fault", Is::Given)];

/// Needs packets that come down through the stack.
const STACK: &[Needs] = &[Needs::kind(&["pcap", "send", "receive", "transactions", "bulk"])
    .or("paced.way", Is::Word(&["answer"]))];

settings! {
    /// Settings of the stack above a driver that reports its bytes.
    pub(crate) struct StackKeys {
        /// the stack limits the bytes in a transmit queue and so where a batch ends; pktgen ignores
        /// the limit
        bql: bool = "stack.bql", choice(&["on", "off"]).default("on").when(STACK);
    }
}

settings! {
    /// Place of the frames of a generator, and of whole frames of TCP.
    pub(crate) struct PlacementKeys {
        /// alignment of a buffer that holds a whole frame
        align: u32 = "traffic.align",
            among("B", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])
                .default("64")
                .when(WHOLE);
        /// offset of such a buffer from that alignment; auto: 2 for pktgen, as in Linux, and 0
        offset: Option<u32> = "traffic.offset",
            whole("B", 0.0, 8191.0).or(&["auto"]).default("auto").when(WHOLE);
    }
}

/// Returns the place of whole frames, by default at `offset`.
///
/// # Errors
/// The offset is not below the alignment.
pub(crate) fn placement(v: &Values, offset: u32) -> Result<Alignment, SettingError> {
    let k = PlacementKeys::of(v);
    let (align, offset) = (k.align, k.offset.unwrap_or(offset));
    if offset >= align {
        refuse!("`traffic.offset` is {offset} B, which is not below `traffic.align`, {align}");
    }
    Ok(Alignment { align, offset })
}

/// The keys of a scenario of any system.
pub static RUN: &[Key] = &[
    Key::choice(
        "run.guard",
        &["page", "byte"],
        "granularity of the checks of the device's memory accesses",
    )
    .default("page"),
    Key::whole(
        "run.seed",
        "",
        0.0,
        9_007_199_254_740_991.0,
        "seed of random faults and arrivals, recorded; pktgen, captures and TCP draw nothing",
    )
    .default("0"),
    Key::number(
        "run.until",
        "%",
        0.001,
        100.0,
        "error of the packet rate at which a run ends, after at most 1000 times its length; end: \
         after its length",
    )
    .or(&["end"])
    .default("end")
    .when(STEADY),
    Key::faults("run.fault", fault::FORM, "faults injected during the traffic"),
    Key::number(
        "run.watchdog",
        "ms",
        0.01,
        60_000.0,
        "with faults: time after which a stopped queue counts as hung",
    )
    .or(&["linux"])
    .default("linux")
    .when(FAULTS),
];

#[cfg(test)]
mod tests;
