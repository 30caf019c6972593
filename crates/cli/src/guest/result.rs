//! The results of `doorbell guest`, also read again from files.

use doorbell_console::render::of_this_schema;
use doorbell_console::{Error, input};
use doorbell_guest::instructions::{Event, Profile, Step, Within, Work};
use doorbell_guest::settings::Settings;
use doorbell_guest::{Booted, Kernel, Measured, Workload};
use doorbell_host_io::files;
use doorbell_spec::Readings;
use doorbell_systems::result::{Series, rounded};
use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Series by name, each with pairs of milliseconds and value.
pub(super) type Points = IndexMap<String, Vec<(f64, f64)>>;

/// All runs of one command.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct GuestResult {
    pub(super) device: String,
    /// The kernel module of its driver.
    pub(super) driver: String,
    /// The bus by whose rules it is counted; null of QEMU's own devices, which have no ledger.
    pub(super) bus: Option<String>,
    pub(super) cpus: u32,
    /// The arguments that ask for it; absent where `compare` has put two results together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) command: Vec<String>,
    /// QEMU's own words on its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) qemu: Option<String>,
    /// The first digits of the SHA-256 of QEMU's plug-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<String>,
    /// The machine around the device, of a guest in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    /// A workload on a kernel each, in the order of kernels, values of `--across`, and workloads.
    pub(super) runs: Vec<Run>,
    /// Workloads without a result; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) failed: Vec<Failure>,
}

/// A workload that failed on a kernel.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestFailure")]
pub(super) struct Failure {
    pub(super) kernel: String,
    /// None, if the kernel did not come to its workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<String>,
    pub(super) error: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { kernel, workload, error } = self;
        match workload {
            Some(workload) => write!(f, "{kernel}, {workload}: {error}"),
            None => write!(f, "{kernel}: {error}"),
        }
    }
}

/// A workload on one kernel.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestRun")]
pub(super) struct Run {
    /// A or B: of the results that `compare` was given, or of `--module` and `--against`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) side: Option<String>,
    pub(super) kernel: String,
    /// The release that the kernel calls itself.
    pub(super) release: String,
    /// The kernel and its modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    pub(super) workload: String,
    /// Settings of interface and driver, and the workload's own variables.
    pub(super) settings: BTreeMap<String, String>,
    /// The workload's packets, by which counts are divided.
    pub(super) packets: u64,
    /// Frames on the wire, in both directions.
    pub(super) frames: u64,
    /// Counts, of the bus that the device has.
    pub(super) ledger: BTreeMap<String, u64>,
    /// The ledger by packet.
    pub(super) per_packet: BTreeMap<String, f64>,
    /// Counters of the device itself.
    pub(super) device_counters: BTreeMap<String, u64>,
    /// Instructions a packet: of the driver's modules and of its steps, of the kernel with all
    /// modules, of user code. Null if they were not counted.
    pub(super) instructions: Option<BTreeMap<String, f64>>,
    /// Instructions a packet of each of the driver's modules that executed any.
    #[serde(default)]
    pub(super) modules: BTreeMap<String, f64>,
    /// Calls a packet, if instructions were counted: of the driver's function to send
    /// (`transmit`), of its polls (`poll`), of its interrupt handlers (`interrupt`).
    #[serde(default)]
    pub(super) calls: BTreeMap<String, f64>,
    /// By call of the driver's function to send: instructions of its transmit step, with
    /// `--inclusive` those of the call with all that it calls, with `--mmio` its loads from and
    /// stores to I/O memory. Empty without a call.
    #[serde(default)]
    pub(super) per_transmit: BTreeMap<String, f64>,
    /// By poll of the driver: the same of its steps in polls and interrupts.
    #[serde(default)]
    pub(super) per_poll: BTreeMap<String, f64>,
    /// Functions of the driver, or of the whole kernel, the most expensive first.
    pub(super) functions: Vec<Function>,
    /// With `--inclusive`, the driver's calls to send (`transmit`) and its polls (`poll`) with all
    /// that they call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) inside: BTreeMap<String, Inside>,
    /// The instructions that the guest executed before `begin`: its boot, and workloads before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before_begin: Option<u64>,
    /// The time that this machine took, which says nothing about another machine; in virtual time
    /// the guest's.
    pub(super) elapsed_s: f64,
    /// Times and rates in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timed: Option<Timed>,
    /// Of several boots (`--repeat`), what they differ by. All other numbers are of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) boots: Option<Boots>,
    /// Rates and moderation over the guest's time since `begin`: pairs of milliseconds and value.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(super) series: Points,
    /// Time from a request of the peer, its first bit, to its answer's last bit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) latency_ns: BTreeMap<String, f64>,
    /// The workload's own output.
    pub(super) output: String,
}

/// Boots of a kernel.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestBoots")]
pub(super) struct Boots {
    pub(super) boots: u32,
    /// The lowest and the highest of each number that is not the same in all boots, as
    /// `per_packet.mmio_writes` or `functions.NAME`. Empty if the boots are equal.
    pub(super) spread: BTreeMap<String, [f64; 2]>,
}

/// Calls of the driver's functions with all that they call.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestInside")]
pub(super) struct Inside {
    pub(super) calls: u64,
    /// Instructions, interrupts meanwhile left out.
    pub(super) instructions: u64,
    /// Functions that were executed in the calls, the most expensive first.
    pub(super) functions: Vec<InsideFunction>,
}

/// The share of a function in calls of the driver's functions.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestInsideFunction")]
pub(super) struct InsideFunction {
    pub(super) module: String,
    pub(super) function: String,
    pub(super) instructions: u64,
    pub(super) per_call: f64,
}

impl Inside {
    fn of(within: &Within) -> Inside {
        let calls = within.calls.max(1) as f64;
        let functions = within.functions().into_iter().map(|(f, instructions)| InsideFunction {
            module: f.module.clone(),
            function: f.name.clone(),
            instructions,
            per_call: rounded(instructions as f64 / calls),
        });
        let (calls, instructions) = (within.calls, within.instructions());
        Inside { calls, instructions, functions: functions.collect() }
    }
}

/// A kernel and its modules.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestOrigin")]
pub(super) struct Origin {
    /// `/proc/version`.
    pub(super) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compiler: Option<String>,
    pub(super) image_sha256: String,
    pub(super) modules: Vec<ModuleFile>,
    /// Messages of the kernel of warning level and worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// The file of a module.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct ModuleFile {
    pub(super) name: String,
    pub(super) sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) srcversion: Option<String>,
}

impl Origin {
    fn of(booted: &Booted) -> Origin {
        let of = &booted.origin;
        let modules = of.modules.iter().map(|m| ModuleFile {
            name: m.name.clone(),
            sha256: m.sha256.clone(),
            srcversion: m.srcversion.clone(),
        });
        Origin {
            version: of.version.clone(),
            compiler: of.compiler().map(str::to_owned),
            image_sha256: of.image_sha256.clone(),
            modules: modules.collect(),
            warnings: booted.warnings.clone(),
        }
    }
}

/// Times and rates of a guest in virtual time: exact, and the same in each boot.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(super) struct Timed {
    /// Frames a second that the device sent, from the first to the last.
    pub(super) sent_per_s: Option<f64>,
    /// Frames a second that came for the device, from the first to the last.
    pub(super) offered_per_s: Option<f64>,
    /// Frames that the device did not take.
    pub(super) dropped: u64,
    /// Answers that the peer got. A frame that comes back is one.
    #[serde(default)]
    pub(super) answers: u64,
}

/// The share of a function.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GuestFunction")]
pub(super) struct Function {
    pub(super) module: String,
    pub(super) function: String,
    pub(super) instructions: u64,
    /// Of a packet.
    pub(super) per_packet: f64,
    /// Loads from I/O memory, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io_loads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io_stores: Option<u64>,
}

impl GuestResult {
    /// Reads a file that `doorbell guest --format json` made.
    pub(super) fn read(path: &Path) -> Result<GuestResult, Error> {
        let text = files::text(path).map_err(Error::at(path.display()))?;
        let wrong = |e: serde_json::Error| input!("{}: {e}", path.display());
        let value: Value = serde_json::from_str(&text).map_err(wrong)?;
        of_this_schema(&path.display().to_string(), &value)?;
        if value["kind"] != "guest" {
            let kind = &value["kind"];
            return Err(input!("{}: its kind is {kind}, not \"guest\"", path.display()));
        }
        serde_json::from_str(&text).map_err(wrong)
    }

    /// Adds the runs of another result on the same device; both say from then on which they are of.
    pub(super) fn with(mut self, other: GuestResult) -> Result<GuestResult, Error> {
        let of = |r: &GuestResult| {
            let bus = r.bus.as_deref().unwrap_or("no ledger");
            let clock =
                r.profile.as_deref().map_or(String::new(), |p| format!(", in virtual time on {p}"));
            format!("{} with {}, {bus}, {} CPU{clock}", r.device, r.driver, r.cpus)
        };
        if of(&self) != of(&other) {
            return Err(input!("A is of {}, B of {}", of(&self), of(&other)));
        }
        let sided = |side: &str, runs: Vec<Run>| {
            let side = Some(side.to_owned());
            runs.into_iter().map(move |r| Run { side: side.clone(), ..r }).collect::<Vec<_>>()
        };
        (self.command, self.qemu, self.plugin) = (Vec::new(), None, None);
        self.runs = sided("A", self.runs);
        self.runs.extend(sided("B", other.runs));
        self.failed.extend(other.failed);
        Ok(self)
    }

    /// Returns the names of workloads in their order.
    pub(crate) fn workloads(&self) -> Vec<&str> {
        let names: IndexSet<&str> = self.runs.iter().map(|run| run.workload.as_str()).collect();
        names.into_iter().collect()
    }

    /// Returns the names of all runs beside those of the same workload, in their order.
    pub(crate) fn sides(&self) -> Vec<String> {
        let name = |run: &Run| {
            let beside: Vec<&Run> =
                self.runs.iter().filter(|r| r.workload == run.workload).collect();
            run.name_among(&beside)
        };
        self.runs.iter().map(name).collect()
    }

    /// Returns the runs of a workload with their names beside each other.
    pub(super) fn runs_of(&self, workload: &str) -> Vec<(String, &Run)> {
        self.sides().into_iter().zip(&self.runs).filter(|(_, r)| r.workload == workload).collect()
    }
}

impl Run {
    /// Returns what this run has and others have not: side, kernel, settings.
    fn name_among(&self, runs: &[&Run]) -> String {
        let kernels = runs.len() == 1 || runs.iter().any(|r| r.kernel != self.kernel);
        let kernel = self.kernel.rsplit('/').next().filter(|_| kernels);
        let differs =
            |(k, v): &(&String, &String)| runs.iter().any(|r| r.settings.get(*k) != Some(v));
        let short =
            |(k, v): (&String, &String)| format!("{}={v}", k.rsplit('.').next().unwrap_or(k));
        let set = self.settings.iter().filter(differs).map(short);
        let first = kernel.into_iter().chain(self.side.as_deref()).map(str::to_owned);
        first.chain(set).collect::<Vec<_>>().join(" ")
    }

    /// Returns the runs of a boot.
    pub(super) fn of(
        booted: &Booted,
        kernel: &Kernel,
        settings: &Settings,
        workloads: &[Workload],
    ) -> Vec<Run> {
        // Those that failed are not among the measured.
        let of = |m: &Measured| workloads.iter().find(|w| w.name == m.workload);
        let each = booted.measured.iter().filter_map(|m| Some((m, of(m)?)));
        each.map(|(m, w)| Run::one(m, w, booted, &kernel.name, settings)).collect()
    }

    fn one(
        m: &Measured,
        workload: &Workload,
        booted: &Booted,
        kernel: &str,
        settings: &Settings,
    ) -> Run {
        let packets = m.packets as f64;
        let ledger = m.counts.ledger.iter();
        let per_packet = ledger.map(|(k, v)| (k.clone(), rounded(*v as f64 / packets)));
        let profile = match (&m.executed, &booted.symbols) {
            (Some(executed), Some(symbols)) => Some(executed.profile(symbols)),
            _ => None,
        };
        let driver = &booted.driver;
        let of = |numbers: &dyn Fn(&Profile) -> BTreeMap<String, f64>| {
            profile.as_ref().map(numbers).unwrap_or_default()
        };
        Run {
            side: None,
            kernel: kernel.to_owned(),
            release: booted.origin.release().to_owned(),
            origin: Some(Origin::of(booted)),
            workload: m.workload.clone(),
            settings: settings_of(workload, settings),
            packets: m.packets,
            frames: m.frames,
            ledger: m.counts.ledger.clone(),
            per_packet: per_packet.collect(),
            device_counters: m.counts.device.clone(),
            instructions: profile.as_ref().map(|p| parts(p, driver, packets)),
            modules: of(&|p| modules(p, driver, packets)),
            calls: of(&|p| calls(p, driver, packets)),
            per_transmit: of(&|p| by_call(p, driver, Event::Transmit)),
            per_poll: of(&|p| by_call(p, driver, Event::Poll)),
            functions: profile.as_ref().map(|p| functions(p, packets)).unwrap_or_default(),
            inside: profile.as_ref().map(inside).unwrap_or_default(),
            before_begin: m.before_begin,
            elapsed_s: rounded(m.elapsed.as_secs_f64()),
            boots: None,
            timed: m.timed.as_ref().map(|t| Timed {
                sent_per_s: t.sent_per_s.map(rounded),
                offered_per_s: t.offered_per_s.map(rounded),
                dropped: t.dropped,
                answers: t.answers,
            }),
            series: series(m.timed.iter().flat_map(|t| &t.series)),
            latency_ns: m.timed.as_ref().map(|t| t.latency_ns.clone()).unwrap_or_default(),
            output: m.output.clone(),
        }
    }

    /// Puts the runs of several boots together: of each workload the first run, with what the
    /// others differ by. In virtual time a difference is an error, which is returned beside it.
    pub(super) fn repeated(
        all: Vec<Run>,
        repeat: u32,
        is_virtual: bool,
    ) -> Vec<(Run, Option<String>)> {
        if repeat == 1 {
            return all.into_iter().map(|run| (run, None)).collect();
        }
        let mut firsts: Vec<(Run, Vec<Run>)> = Vec::new();
        for run in all {
            match firsts.iter_mut().find(|(first, _)| first.workload == run.workload) {
                Some((_, others)) => others.push(run),
                None => firsts.push((run, Vec::new())),
            }
        }
        firsts.into_iter().map(|(first, others)| first.with(&others, is_virtual)).collect()
    }

    /// Adds what other boots differ by.
    fn with(mut self, others: &[Run], is_virtual: bool) -> (Run, Option<String>) {
        let own = self.readings().by_name();
        let mut spread: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for other in others.iter().map(|run| run.readings().by_name()) {
            for name in own.keys().chain(other.keys()) {
                // A function that did not run has no number.
                let [own, n] = [&own, &other].map(|of| of.get(name).copied().unwrap_or(0.0));
                let [low, high] = spread.entry(name.clone()).or_insert([own; 2]);
                (*low, *high) = (low.min(n), high.max(n));
            }
        }
        // The time that this machine took says nothing.
        spread.retain(|name, [low, high]| low < high && (is_virtual || name != "elapsed_s"));
        let boots = 1 + others.len() as u32;
        let first = spread.iter().next().filter(|_| is_virtual);
        let differs = first.map(|(name, [low, high])| {
            let n = spread.len();
            format!("{boots} boots in virtual time differ in {n} numbers: {name} {low} to {high}")
        });
        self.boots = Some(Boots { boots, spread });
        (self, differs)
    }

    /// Returns its numbers as they are read back from a file.
    pub(super) fn readings(&self) -> Readings {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_object().map(Readings::of).unwrap_or_default()
    }
}

/// Returns series by name.
pub(super) fn series<'a>(all: impl IntoIterator<Item = &'a Series>) -> Points {
    let points = |s: &Series| s.points.iter().map(|p| (rounded(p.0), rounded(p.1))).collect();
    all.into_iter().map(|s| (s.name.to_owned(), points(s))).collect()
}

/// Returns the settings of a workload's run: its variables, and what is not another workload's.
pub(super) fn settings_of(workload: &Workload, settings: &Settings) -> BTreeMap<String, String> {
    let own = workload.variables.iter();
    let own = own.map(|v| (v.name.clone(), v.value(settings).to_owned()));
    let others = settings.iter().filter(|(key, _)| key.contains('.') || key == "mtu").cloned();
    own.chain(others).collect()
}

/// Returns instructions a packet of those of the driver's modules that executed any.
fn modules(p: &Profile, driver: &[String], packets: f64) -> BTreeMap<String, f64> {
    let each = |module: &String| (module.clone(), p.module(module).instructions);
    let some = driver.iter().map(each).filter(|(_, n)| *n > 0);
    some.map(|(module, n)| (module, rounded(n as f64 / packets))).collect()
}

/// Returns calls a packet of the driver's functions.
fn calls(p: &Profile, driver: &[String], packets: f64) -> BTreeMap<String, f64> {
    let each =
        |event: Event| (event.name().to_owned(), rounded(p.events(event, driver) as f64 / packets));
    Event::ALL.map(each).into()
}

/// Returns the work of the driver's steps that an event causes, by call; nothing without a call.
fn by_call(p: &Profile, driver: &[String], event: Event) -> BTreeMap<String, f64> {
    let calls = p.events(event, driver);
    if calls == 0 {
        return BTreeMap::new();
    }
    let of_event = |step: Step| match step {
        Step::Transmit => event == Event::Transmit,
        Step::Completion | Step::Receive => event == Event::Poll,
        Step::Other => false,
    };
    let steps = driver.iter().flat_map(|module| p.steps(module));
    let work: Work = steps.filter(|(step, _)| of_event(*step)).map(|(_, work)| work).sum();
    let mut all = vec![("instructions", work.instructions)];
    all.extend(p.inside(event).map(|within| ("inclusive", within.instructions())));
    if p.has_mmio() {
        all.extend([("io_loads", work.loads), ("io_stores", work.stores)]);
    }
    let each = |(name, n): (&str, u64)| (name.to_owned(), rounded(n as f64 / calls as f64));
    all.into_iter().map(each).collect()
}

/// Returns instructions a packet: of the driver and its steps, of the kernel with all its modules,
/// and of user code.
fn parts(p: &Profile, driver: &[String], packets: f64) -> BTreeMap<String, f64> {
    let each = |n: u64| rounded(n as f64 / packets);
    let steps: Vec<_> = driver.iter().map(|module| p.steps(module)).collect();
    let steps = Step::ALL.iter().enumerate().map(|(n, step)| {
        let all: u64 = steps.iter().map(|of| of[n].1.instructions).sum();
        (format!("driver_{}", step.name()), all)
    });
    let driver = driver.iter().map(|module| p.module(module).instructions).sum();
    let user = p.user().instructions;
    let unlisted = p.unlisted().instructions;
    let all = [
        ("driver".to_owned(), driver),
        ("kernel".to_owned(), p.total().instructions - user - unlisted),
        ("user".to_owned(), user),
        // Nowhere else: the plug-in's table was full.
        ("unlisted".to_owned(), unlisted),
    ];
    let known = all.into_iter().filter(|(name, n)| *n > 0 || name != "unlisted");
    known.chain(steps).map(|(name, n)| (name, each(n))).collect()
}

/// Returns the calls that were followed and happened, by event.
fn inside(p: &Profile) -> BTreeMap<String, Inside> {
    let of = |event: Event| p.inside(event).map(|w| (event.name().to_owned(), Inside::of(w)));
    Event::ALL.into_iter().filter_map(of).filter(|(_, inside)| inside.calls > 0).collect()
}

fn functions(p: &Profile, packets: f64) -> Vec<Function> {
    let io = |n: u64| p.has_mmio().then_some(n);
    let all = p.functions().into_iter().map(|(f, w)| Function {
        module: f.module.clone(),
        function: f.name.clone(),
        instructions: w.instructions,
        per_packet: rounded(w.instructions as f64 / packets),
        io_loads: io(w.loads),
        io_stores: io(w.stores),
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::Run;
    use std::collections::BTreeMap;

    /// A run of pktgen with these register writes a packet.
    fn boot(writes: f64) -> Run {
        let per_packet = BTreeMap::from([("mmio_writes".to_owned(), writes)]);
        Run { workload: "pktgen".to_owned(), packets: 100, per_packet, ..Run::default() }
    }

    #[test]
    fn boots_that_differ_have_a_spread_and_in_virtual_time_an_error() {
        let boots = || vec![boot(0.25), boot(0.5), boot(0.125)];
        let repeated = |boots: Vec<Run>, is_virtual| {
            let n = boots.len() as u32;
            let mut all = Run::repeated(boots, n, is_virtual);
            assert_eq!(all.len(), 1);
            all.remove(0)
        };
        let (run, error) = repeated(boots(), false);
        let spread = BTreeMap::from([("per_packet.mmio_writes".to_owned(), [0.125, 0.5])]);
        assert_eq!(run.boots.as_ref().unwrap().spread, spread);
        assert_eq!((run.per_packet["mmio_writes"], error), (0.25, None));
        let all = run.readings();
        assert_eq!(all.named("mmio_writes").unwrap().range, Some([0.125, 0.5]));
        let said =
            "3 boots in virtual time differ in 1 numbers: per_packet.mmio_writes 0.125 to 0.5";
        assert_eq!(repeated(boots(), true).1.as_deref(), Some(said));
        // Equal ones are told as such, and one boot says nothing of others.
        let (run, error) = repeated(vec![boot(0.25), boot(0.25)], true);
        assert_eq!((run.boots.unwrap().spread.len(), error), (0, None));
        assert!(Run::repeated(vec![boot(0.25)], 1, true)[0].0.boots.is_none());
    }
}
