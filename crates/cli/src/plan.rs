//! From arguments to a run: the scenario, its changes, and its capture.

use crate::args::Changes;
use crate::observer::{Observed, Observer};
use doorbell_console::output::tell;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::count;
use doorbell_console::{Error, failed, input};
use doorbell_hal::Span;
use doorbell_host_io::files;
use doorbell_host_io::pcap::{self, Reading};
use doorbell_sim::traffic::{CaptureFile, Frames};
use doorbell_spec::InputError;
use doorbell_study::runs::Loaded;
use doorbell_study::{origin, today};
use doorbell_systems::result::{Measured, Provenance, RunResult};
use doorbell_systems::{Plan, Profile, Registry, RunError, Setting, arrivals, limits};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, btree_map::Entry};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The longest frame of an MTU of 1500 bytes.
const LONGEST_USUAL: usize = 1514;

/// Returns the scenario that `given` names, changed.
pub(crate) fn plan(registry: &Registry, given: &str, changes: &Changes) -> Result<Plan, Error> {
    let mut plan = unchanged(registry, given, changes)?;
    change(&mut plan, changes)?;
    Ok(plan)
}

/// Returns the plan with the settings of a machine as other tools print them in these files, and
/// the arguments on top. Of those settings some may have no effect.
pub(crate) fn plan_of_today(
    registry: &Registry,
    given: &str,
    files: &[PathBuf],
    changes: &Changes,
) -> Result<Plan, Error> {
    let mut plan = unchanged(registry, given, changes)?;
    for path in files {
        let text = files::text(path).map_err(Error::at(path.display()))?;
        let settings = today::read(plan.system.name, &path.display().to_string(), &text)?;
        plan.lay(&settings)?;
    }
    change(&mut plan, changes)?;
    Ok(plan)
}

/// Returns the scenario that `given` names, on its own profile or on that of the arguments.
fn unchanged(registry: &Registry, given: &str, changes: &Changes) -> Result<Plan, Error> {
    let scenario = registry.scenario(given)?;
    Ok(match &changes.profile {
        None => scenario.plan(registry)?,
        Some(name) => scenario.plan_on(&registry.profile(name)?)?,
    })
}

/// Returns the profile on which a scenario runs.
pub(crate) fn profile(
    registry: &Registry,
    given: &str,
    changes: &Changes,
) -> Result<Profile, Error> {
    let name = match &changes.profile {
        Some(name) => name.clone(),
        None => registry.scenario(given)?.profile,
    };
    Ok(registry.profile(&name)?)
}

/// Applies the arguments to a plan.
pub(crate) fn change(plan: &mut Plan, changes: &Changes) -> Result<(), Error> {
    plan.pipe |= changes.pcap.is_some();
    Ok(plan.layer(&settings(plan, changes)?)?)
}

/// The plans of several runs. Each setting must have an effect on at least one run that it is for.
pub(crate) struct Plans {
    registry: &'static Registry,
    /// Scenarios by name and profile: the points of a sweep have the same.
    unchanged: BTreeMap<(String, Option<String>), Plan>,
    /// The place of each setting.
    places: Vec<String>,
    /// The reason why the setting of a place has had no effect so far, if any.
    idle: HashMap<String, Option<InputError>>,
}

impl Plans {
    /// Starts without a plan.
    pub(crate) fn of(registry: &'static Registry) -> Plans {
        Plans { registry, unchanged: BTreeMap::new(), places: Vec::new(), idle: HashMap::new() }
    }

    /// Returns the scenario that `given` names, changed; `more` are settings of this one alone.
    pub(crate) fn plan(
        &mut self,
        given: &str,
        changes: &Changes,
        more: &[Setting],
    ) -> Result<Plan, Error> {
        let mut plan = match self.unchanged.entry((given.to_owned(), changes.profile.clone())) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(unchanged(self.registry, given, changes)?).clone(),
        };
        let all = [settings(&plan, changes)?, more.to_vec()].concat();
        plan.pipe |= changes.pcap.is_some();
        let idle = plan.lay(&all)?;
        for s in &all {
            let why = idle.iter().find(|e| e.place == s.place);
            match self.idle.get_mut(&s.place) {
                Some(so_far) => *so_far = so_far.take().filter(|_| why.is_some()),
                None => {
                    self.places.push(s.place.clone());
                    self.idle.insert(s.place.clone(), why.cloned());
                }
            }
        }
        Ok(plan)
    }

    /// Refuses a setting that had no effect on any of the plans.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.places.iter().find_map(|place| self.idle[place].as_ref()) {
            Some(why) => Err(why.clone().into()),
            None => Ok(()),
        }
    }
}

/// Returns the settings of the arguments in order.
fn settings(plan: &Plan, changes: &Changes) -> Result<Vec<Setting>, Error> {
    let mut all = Vec::new();
    if let Some(file) = &changes.pcap {
        let Some(name) = file.to_str() else {
            return Err(input!("--pcap {}: the name is not UTF-8", file.display()));
        };
        let place = format!("--pcap {name}");
        match changes.direction.as_deref() {
            Some("receive") => {
                all.push(Setting::at(&*place, format!("traffic.kind={}", arrivals::KIND)));
                all.push(Setting::at(&*place, format!("traffic.pattern={}", arrivals::CAPTURE)));
            }
            _ => all.push(Setting::at(&*place, "traffic.kind=pcap")),
        }
        all.push(Setting::at(place, format!("traffic.file={name}")));
    }
    let flags = [
        ("--pad", "traffic.pad", changes.pad.then_some("")),
        ("--skip", "traffic.skip", changes.skip.then_some("")),
        ("--interface", "traffic.interface", changes.interface.as_deref()),
        ("--offload", "traffic.offload", changes.offload.as_deref()),
        ("--gso", "traffic.gso", changes.gso.as_deref()),
        ("--times", "traffic.times", changes.times.as_deref()),
        ("--rounds", "traffic.rounds", changes.rounds.as_deref()),
    ];
    for (flag, key, value) in flags {
        let Some(value) = value else { continue };
        // An option without a value switches on.
        let (given, value) = match value {
            "" => (flag.to_owned(), "on"),
            _ => (format!("{flag} {value}"), value),
        };
        if plan.capture().is_none() && changes.pcap.is_none() {
            return Err(input!("{given}: it is for captures; give one with --pcap FILE"));
        }
        all.push(Setting::at(given, format!("{key}={value}")));
    }
    let order = changes.order.as_ref().map(|order| (format!("--order {order}"), "order", &**order));
    let strict = changes.strict.then(|| ("--strict".to_owned(), "strict", "on"));
    for (given, key, value) in order.into_iter().chain(strict) {
        let key = format!("run.{key}");
        if !plan.values.keys().iter().any(|k| k.name == key) {
            let system = plan.system.name;
            return Err(input!(
                "{given}: it is for a driver of your own, and {system} is built in"
            ));
        }
        all.push(Setting::at(given, format!("{key}={value}")));
    }
    let until = |e: &String| Setting::at(format!("--until {e}"), format!("run.until={e}"));
    all.extend(changes.until.iter().map(until));
    let seed = |n| Setting::at(format!("--seed {n}"), format!("run.seed={n}"));
    all.extend(changes.seed.map(seed));
    if !changes.fault.is_empty() {
        let place = format!("--fault {}", changes.fault.join(" --fault "));
        all.push(Setting::at(place, format!("run.fault={}", changes.fault.join(","))));
    }
    all.extend(changes.sets.iter().map(|set| Setting::given("--set", set)));
    Ok(all)
}

/// A capture's file and the options of its reading.
#[derive(PartialEq)]
struct Source {
    path: String,
    how: Reading,
    /// Device, inode, length and time of the last write, one of which changes when a file is
    /// written or replaced. `None` for a stream, and where there is no file.
    version: Option<(u64, u64, u64, Option<SystemTime>)>,
}

impl Source {
    fn of(path: &str, how: Reading) -> Source {
        let file = std::fs::metadata(path).ok().filter(|of| path != "-" && of.is_file());
        let version = file.map(|of| (of.dev(), of.ino(), of.len(), of.modified().ok()));
        Source { path: path.to_owned(), how, version }
    }
}

/// The capture that was read last: the runs of a sweep send the same one, and stdin can be read
/// only once.
static LAST: Mutex<Option<(Source, Arc<Loaded>)>> = Mutex::new(None);

/// Returns the plan's capture, if it sends one.
pub(crate) fn capture(plan: &Plan) -> Result<Option<Arc<Loaded>>, Error> {
    // Without a name the system says that the file is missing.
    let Some(file) = plan.capture().filter(|f| !f.is_empty()) else { return Ok(None) };
    let how = Reading {
        pad: plan.values.is_on("traffic.pad"),
        skip: plan.values.is_on("traffic.skip"),
        interface: plan.values.number_or_word("traffic.interface").map(|n| n as u32),
    };
    let source = Source::of(file, how);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, loaded)) = &*last
        && *of == source
    {
        return Ok(Some(loaded.clone()));
    }
    let loaded = Arc::new(load(file, how, plan)?);
    *last = Some((source, loaded.clone()));
    Ok(Some(loaded))
}

/// A stream whose bytes are hashed as they are read.
struct Hashed<R>(R, Sha256);

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(into)?;
        self.1.update(&into[..n]);
        Ok(n)
    }
}

fn load(file: &str, how: Reading, plan: &Plan) -> Result<Loaded, Error> {
    let own_times = plan.values.word("traffic.times") == "own";
    let from: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin().lock()),
        _ => {
            let opened = if plan.pipe { File::open(file) } else { files::open(Path::new(file)) };
            Box::new(opened.map_err(Error::at(file))?)
        }
    };
    let mut from = Hashed(from, Sha256::new());
    let name = if file == "-" { "stdin" } else { file };
    let capture = pcap::read_from(name, &mut from, how).map_err(|e| match e.why.reason() {
        Some(_) => input!("{e}; --skip leaves it out"),
        None => input!("{e}"),
    })?;
    io::copy(&mut from, &mut io::sink()).map_err(Error::at(name))?;
    let n = capture.frames.len() as u64;
    let odd = [
        (capture.backwards, "earlier than the one before", own_times),
        (capture.untimed, "without a time of their own", own_times),
        (capture.padded, "captured in part, and filled with zeros", true),
        (capture.cooked, "of -i any: receivers have made-up addresses, some are there twice", true),
        (capture.headed, "of a link without Ethernet's header, and have made-up addresses", true),
    ];
    let mut notes: Vec<String> = odd
        .into_iter()
        .filter(|(n, _, told)| *n > 0 && *told)
        .map(|(some, how, _)| format!("{some} of {n} frames are {how}"))
        .collect();
    let skipped = capture
        .skipped
        .iter()
        .map(|(why, some)| format!("{some} of {} packets are left out: {why}", capture.packets));
    notes.extend(skipped);
    notes.extend(capture.cut_short.map(|at| {
        format!("the file is cut short at byte {at}; sent are the frames before that, {n}")
    }));
    for note in notes {
        tell(format_args!("{name}: {note}"));
    }
    let mut frames = Frames::default();
    frames.file = CaptureFile {
        packets: capture.packets,
        padded: capture.padded,
        headed: capture.cooked + capture.headed,
        skipped: capture.skipped.clone(),
        cut_short: capture.cut_short,
    };
    let (mut shortest, mut longest, mut jumbo) = (usize::MAX, 0, 0);
    for f in &capture.frames {
        let frame = capture.frame(f);
        // 213 days fit; the system refuses to wait for a clock that jumped by years.
        frames.push_numbered(Span::from_ps(f.at_ns.saturating_mul(1000)), frame, f.number);
        (shortest, longest) = (shortest.min(frame.len()), longest.max(frame.len()));
        jumbo += u64::from(frame.len() > LONGEST_USUAL);
    }
    let mut about = format!(
        "{}: {} frame{} of {shortest} to {longest} bytes",
        capture.format,
        count(n),
        if n == 1 { "" } else { "s" }
    );
    if jumbo > 0 {
        about += &format!(", {} over {LONGEST_USUAL}", count(jumbo));
    }
    let sha256 = format!("{:x}", from.1.finalize());
    Ok(Loaded { frames: Arc::new(frames), sha256, about })
}

/// Returns the origin of the results of a plan.
pub(crate) fn provenance(plan: &Plan) -> Result<Provenance, Error> {
    Ok(origin::of(plan, sha256(plan)?.as_deref()))
}

/// Returns the SHA-256 of the capture that a plan sends, if it sends one.
pub(crate) fn sha256(plan: &Plan) -> Result<Option<String>, Error> {
    Ok(capture(plan)?.map(|c| c.sha256.clone()))
}

pub(crate) fn result(plan: &Plan, mut measured: Measured) -> Result<RunResult, Error> {
    measured.retain_counts(|name| plan.system.metric(name).is_some());
    let limits = limits::shares(plan.system, &plan.values, &measured);
    Ok(RunResult { of: provenance(plan)?, limits, limit: None, measured })
}

/// Runs a plan that writes no file.
pub(crate) fn execute(plan: &Plan, quiet: bool) -> Result<RunResult, Error> {
    execute_with(plan, Observed::default(), &Interrupt::ignored(), quiet)
}

/// Runs a plan, captures or records it if requested, and ends early when interrupted.
pub(crate) fn execute_with(
    plan: &Plan,
    of: Observed<'_>,
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<RunResult, Error> {
    let (loaded, recorded) = (self::capture(plan)?, of.recording.is_some());
    let progress = Progress::new(&plan.scenario, quiet);
    let mut observer = Observer { progress, of, interrupt };
    let frames = loaded.as_ref().map(|c| &c.frames);
    let measured = plan.system.run(&plan.values, frames, &mut observer);
    let measured = measured.map_err(|e| match e {
        e if recorded && !interrupt.came() => of_run(&plan.scenario, e),
        e => failed(plan, e, interrupt, NOTHING),
    });
    result(plan, measured?)
}

/// Returns the error of a run that failed, with its scenario.
pub(crate) fn of_run(scenario: &str, e: RunError) -> Error {
    let what = format!("{scenario}: {e}");
    if e.is_input() { Error::Input(what) } else { Error::Failed(what) }
}

/// The files that an interruption leaves, of a command without a cache.
pub(crate) const NOTHING: &str = "nothing was written";

/// Returns the error of a run without a result; an interruption has `left` this.
pub(crate) fn failed(plan: &Plan, e: RunError, interrupt: &Interrupt, left: &'static str) -> Error {
    match e {
        e if e.is_input() => of_run(&plan.scenario, e),
        _ if interrupt.came() => Error::Interrupted(left),
        e => failed!(
            "{}: {e}\n  `doorbell run` with --trace FILE shows the steps that led to it",
            plan.scenario
        ),
    }
}
