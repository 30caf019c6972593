//! A system that is a small function of its keys.

use crate::record::Outcome;
use crate::runs::{Caller, Loaded};
use doorbell_hal::Span;
use doorbell_sim::histogram::Histogram;
use doorbell_sim::{Watch, traffic::Frames};
use doorbell_spec::key::{Key, Values};
use doorbell_spec::{InputError, SettingError};
use doorbell_systems::metrics::{LOST_SHARE, Numbers, PACKETS};
use doorbell_systems::result::{Count, CountsOf, Errors, Group, Measured, SENT, Series, Verdict};
use doorbell_systems::system::System;
use doorbell_systems::window::Window;
use doorbell_systems::{Plan, Registry, RunError, Setting};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Packets of a run.
const PACKETS_SENT: u64 = 100;

static PLATFORM: &[Key] = &[Key::ns("toy.time", "time of a packet").default("10")];
static RUN: &[Key] = &[
    Key::choice("traffic.kind", &["toy", "pcap"], "the load").default("toy"),
    Key::file("traffic.file", "a capture"),
    Key::whole("toy.size", "B", 1.0, 64.0, "maps of a packet").or(&["auto"]).default("4"),
    Key::choice("toy.way", &["on", "off", "wrong", "refused"], "register writes").default("on"),
    Key::whole("run.seed", "", 0.0, 1e6, "the seed").default("0"),
];

/// It maps `toy.size` times a packet, and writes to a register once, or twice if `toy.way` is off.
/// It loses half of its packets over 32. A latency is that of the size, more with an odd seed.
pub(crate) static TOY: System = System {
    name: "toy",
    about: "a function of its keys",
    devices: &[],
    platform_keys: &[PLATFORM],
    run_keys: &[RUN],
    runner: run,
    transfer: |_, _, _, _| Err(SettingError("no bus".to_owned())),
    port_rate: "",
    knobs: &[],
    conditions: &[],
    resources: &[],
    numbers: Numbers {
        buses: &[],
        rates: &[&[LOST_SHARE]],
        counters: &[],
        calls: &[],
        losses: &[],
        cache: false,
    },
    declared: OnceLock::new(),
    figures: &[],
};

pub(crate) static REGISTRY: Registry = Registry { systems: &[&TOY], profiles: &[], scenarios: &[] };

fn run(v: &Values, _: Option<&Arc<Frames>>, watch: &mut dyn Watch) -> Result<Measured, RunError> {
    if !watch.progress(0, PACKETS_SENT) {
        return Err(RunError::Stopped);
    }
    let (size, way) = (v.number_or_word("toy.size").unwrap_or(8.0), v.word("toy.way"));
    if way == "refused" {
        return Err(SettingError("`toy.way` is refused".to_owned()).into());
    }
    let seed = v.number("run.seed");
    let mut latency = Histogram::default();
    latency.record(Span::from_ns((v.number("toy.time") * size * (1.0 + seed % 2.0)) as u64));
    let count = |name: &str, value: f64| {
        let value = (value * PACKETS_SENT as f64) as u64;
        Count { group: Group::Cpu, name: name.to_owned(), about: "", value }
    };
    let elapsed = Span::from_ns(1000);
    Ok(Measured {
        packets: PACKETS_SENT,
        elapsed,
        window: Window::whole(elapsed, PACKETS_SENT),
        counts_of: CountsOf::Run,
        rates: vec![PACKETS.is(1e6 / size), LOST_SHARE.is(if size > 32.0 { 0.5 } else { 0.0 })],
        counts: vec![
            count("maps", size),
            count("fences", if way == "off" { 2.0 } else { 1.0 }),
            count("unknown", 1.0),
        ],
        costs: Vec::new(),
        registers: Vec::new(),
        series: vec![Series {
            name: "size",
            points: (1..=5).map(|n| (f64::from(n), size * f64::from(n))).collect(),
        }],
        latency,
        latency_of: SENT,
        errors: Errors::none(CountsOf::Run),
        sent: None,
        verdict: Verdict {
            audit: (way == "wrong").then(|| "it is wrong".to_owned()).into_iter().collect(),
            ..Verdict::default()
        },
    })
}

/// Returns a plan with these settings.
pub(crate) fn plan(sets: &[Setting]) -> Result<Plan, InputError> {
    let values = Values::defaults(&TOY.keys());
    let mut plan = Plan {
        scenario: "toy-run".to_owned(),
        about: "a toy".to_owned(),
        profile: "toy-profile".to_owned(),
        platform: values.clone(),
        system: &TOY,
        values,
        set: Vec::new(),
        pipe: false,
    };
    plan.layer(sets)?;
    Ok(plan)
}

/// Returns the settings of `--set`.
pub(crate) fn sets(all: &[&str]) -> Vec<Setting> {
    all.iter().map(|set| Setting::given("--set", set)).collect()
}

/// The error of a study.
#[derive(PartialEq, Debug)]
pub(crate) struct Failed(pub(crate) String);

impl From<InputError> for Failed {
    fn from(e: InputError) -> Failed {
        Failed(e.to_string())
    }
}

/// Keeps outcomes in memory, and counts runs.
#[derive(Default)]
pub(crate) struct Lab {
    pub(crate) kept: Mutex<BTreeMap<String, Outcome>>,
    /// Runs that were made.
    pub(crate) ran: AtomicUsize,
    /// Points that were kept, of how many.
    pub(crate) had: Mutex<Vec<(usize, usize)>>,
    /// The run after which it wants no more.
    pub(crate) most: Option<usize>,
    /// The hash of the capture.
    pub(crate) sha256: Option<&'static str>,
}

impl Caller for Lab {
    type Error = Failed;

    fn capture(&self, _: &Plan) -> Result<Option<Arc<Loaded>>, Failed> {
        let loaded = |sha256: &str| {
            let (frames, about) = (Arc::default(), String::new());
            Arc::new(Loaded { frames, sha256: sha256.to_owned(), about })
        };
        Ok(self.sha256.map(loaded))
    }

    fn failed(&self, plan: &Plan, why: RunError) -> Failed {
        Failed(format!("{}: {why}", plan.set.join(" ")))
    }

    fn go_on(&self, done: usize, _: usize) -> bool {
        self.most.is_none_or(|most| done < most)
    }

    fn kept(&self, key: &str) -> Result<Option<Outcome>, Failed> {
        Ok(self.kept.lock().unwrap().get(key).cloned())
    }

    fn keep(&self, key: &str, outcome: &Outcome) -> Result<(), Failed> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        self.kept.lock().unwrap().insert(key.to_owned(), outcome.clone());
        Ok(())
    }

    fn had(&self, points: usize, of: usize) {
        self.had.lock().unwrap().push((points, of));
    }
}
