//! Points: runs that are planned by `sweep --plan` and made by `doorbell point`, here or on another
//! machine, and now or later. `sweep` makes its own runs in the same way.
//!
//! A point is a line of JSON: the origin of a result (scenario, profile, the value of every key),
//! and a key, the hash of what decides the numbers. Equal keys have equal numbers, so a point runs
//! once, and a [cache](crate::cache) may have its numbers already.

use crate::cache::Cache;
use crate::output::{print, tell};
use crate::progress::{Interrupt, Progress};
use crate::record::{self, About, ORIGIN, Outcome, RecordFile};
use crate::render::{Format, Record, models, records};
use crate::{DONE, Error, MISSED, args, input, plan, run::overloaded, sweep};
use doorbell_host_io::files;
use doorbell_spec::key::{Key, Kind};
use doorbell_systems::Registry;
use doorbell_systems::result::Provenance;
use doorbell_systems::{Plan, cores, on_threads};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version of the program, and the hash of the sources that decide the numbers of a run.
fn program() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), models())
}

/// The key of a run's seed, which an origin also has by itself.
const SEED: &str = "run.seed";
/// The most runs at a time, for each core: each has a thread and its memory.
const JOBS: usize = 4;
/// Lines of a plan that are read at a time.
const LINES: usize = 1024;

/// A run to be made.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// The hash of all that decides the numbers.
    key: String,
    pub(crate) plan: Plan,
    /// The settings that its record has, with their values there.
    columns: Record,
    capture_sha256: Option<String>,
}

/// The different origins of points, without their columns.
#[derive(Default)]
struct Origins {
    all: Vec<Provenance>,
    /// The place of each point's own.
    of: Vec<usize>,
}

impl Origins {
    fn push(&mut self, one: Provenance) {
        let known = self.all.iter().rposition(|o| *o == one);
        self.of.push(known.unwrap_or(self.all.len()));
        self.all.extend(known.is_none().then_some(one));
    }
}

/// A point, as a line of a plan.
#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    /// The program that planned it.
    doorbell: String,
    columns: Record,
    #[serde(flatten)]
    of: Provenance,
}

/// Returns the hash of the program and all that decides the numbers of a run: the value of each key
/// of scenario and profile, the seed among them, and the bytes of the capture, wherever it is.
fn key(program: &str, plan: &Plan, capture_sha256: Option<&str>) -> String {
    let mut all = format!("{program}\n{}\n", plan.system.name);
    let decides = |(key, _): &(&Key, _)| key.kind != Kind::File;
    for (key, value) in plan.values.iter().filter(decides) {
        let _ = writeln!(all, "{}={value}", key.name);
    }
    all += capture_sha256.unwrap_or_default();
    format!("{:x}", Sha256::digest(all))
}

impl Point {
    /// Creates the point of a plan; `columns` are settings for its record.
    pub(crate) fn new(plan: Plan, columns: Record) -> Result<Point, Error> {
        let capture_sha256 = plan::capture(&plan)?.map(|c| c.sha256.clone());
        let key = key(&program(), &plan, capture_sha256.as_deref());
        Ok(Point { key, plan, columns, capture_sha256 })
    }

    /// Reads a line of a plan. `place` is its file and line. Returns the origin beside it, without
    /// what its columns have.
    fn parse(registry: &Registry, place: &str, line: &str) -> Result<(Point, Provenance), Error> {
        let Line { key: given, doorbell, columns, of } = serde_json::from_str(line)
            .map_err(|e| input!("{place}: it is no point of `sweep --plan`: {e}"))?;
        let this = program();
        if doorbell != this {
            return Err(input!("{place}: doorbell {doorbell} planned it, and this is {this}"));
        }
        let (plan, capture_sha256) = (registry.again(place, &of)?, of.capture_sha256.clone());
        let key = key(&this, &plan, capture_sha256.as_deref());
        if key != given {
            return Err(input!("{place}: its key is not that of its settings"));
        }
        let mut of = plan::without(of, |key| columns.contains_key(key));
        if columns.contains_key(SEED) {
            of.seed = 0;
        }
        Ok((Point { key, plan, columns, capture_sha256 }, of))
    }

    /// Returns the line of a plan.
    pub(crate) fn line(&self) -> Result<String, Error> {
        let (key, columns) = (self.key.clone(), self.columns.clone());
        let of = plan::provenance(&self.plan)?;
        let line = serde_json::to_string(&Line { key, doorbell: program(), columns, of });
        Ok(line.unwrap_or_else(|e| unreachable!("plain values serialise: {e}")) + "\n")
    }

    /// Returns the record of its run.
    pub(crate) fn record(&self, outcome: &Outcome) -> Record {
        let (key, Plan { scenario, profile, .. }) = (self.key.as_str().into(), &self.plan);
        let mut all = Record::from_iter([("key".to_owned(), key)]);
        all.extend(record::head(scenario, profile, self.columns.clone()));
        outcome.put(self.plan.system, &mut all);
        all
    }
}

/// Runs points on several threads, each once, and without those that the cache has.
pub(crate) struct Runner {
    cache: Option<Cache>,
    jobs: usize,
    interrupt: Interrupt,
    quiet: bool,
}

impl Runner {
    /// Creates a runner. With `files`, a signal ends it so that none of them is left unfinished.
    pub(crate) fn new(args: &args::Points, files: bool, quiet: bool) -> Result<Runner, Error> {
        let open = |dir| Cache::open(dir, args.cache_size << 20);
        let cache = args.cache.as_deref().map(open).transpose()?;
        let interrupt = Interrupt::watched_for(files || cache.is_some())?;
        Ok(Runner { cache, interrupt, ..Runner::plain(args.jobs, quiet) })
    }

    /// Creates a runner without a cache, for runs that leave no file.
    pub(crate) fn plain(jobs: Option<NonZeroUsize>, quiet: bool) -> Runner {
        let jobs = jobs.map_or_else(cores, usize::from).min(JOBS * cores());
        Runner { cache: None, jobs, interrupt: Interrupt::ignored(), quiet }
    }

    /// Returns the numbers of all points in their order, whatever the number of threads.
    pub(crate) fn run(&self, what: &str, points: &[Point]) -> Result<Vec<Arc<Outcome>>, Error> {
        let mut first = BTreeMap::new();
        for (i, point) in points.iter().enumerate() {
            first.entry(point.key.as_str()).or_insert(i);
        }
        let once: Vec<usize> = first.values().copied().collect();
        let kept = on_threads(self.jobs, &once, |_, &i| match &self.cache {
            Some(cache) => cache.get(&points[i].key),
            None => Ok(None),
        })?;
        let mut found: BTreeMap<usize, Arc<Outcome>> = BTreeMap::new();
        found.extend(once.iter().zip(kept).filter_map(|(&i, o)| Some((i, Arc::new(o?)))));
        if let (Some(cache), false) = (&self.cache, self.quiet) {
            let (had, of, dir) = (found.len(), once.len(), cache.dir().display());
            tell(format_args!("{dir} had {had} of {of} points"));
        }
        let mut rest: Vec<usize> = once.into_iter().filter(|i| !found.contains_key(i)).collect();
        rest.sort_unstable();
        for &i in &rest {
            let Point { plan, capture_sha256, .. } = &points[i];
            plan::same_capture(&plan.scenario, plan, capture_sha256.as_deref())?;
        }
        let progress = Progress::new(what, self.quiet);
        let done = AtomicUsize::new(found.len());
        let of = (found.len() + rest.len()) as u64;
        let ran = on_threads(self.jobs, &rest, |_, &i| {
            progress.at(done.load(Ordering::Relaxed) as u64, of);
            let outcome = self.one(&points[i]);
            done.fetch_add(1, Ordering::Relaxed);
            outcome.map(Arc::new)
        })?;
        found.extend(rest.into_iter().zip(ran));
        if let Some(cache) = &self.cache {
            cache.trim();
        }
        Ok(points.iter().map(|point| found[&first[point.key.as_str()]].clone()).collect())
    }

    fn one(&self, point: &Point) -> Result<Outcome, Error> {
        let interrupted = Error::Interrupted(match self.cache {
            Some(_) => "the cache has the points that were done",
            None => "nothing was written",
        });
        // A short run ends before it looks for an interruption.
        if self.interrupt.came() {
            return Err(interrupted);
        }
        let result = plan::execute_with(&point.plan, (None, None), &self.interrupt, true);
        let outcome = Outcome::of(&result.map_err(|e| match e {
            Error::Interrupted(_) => interrupted,
            e => e,
        })?);
        if let Some(cache) = &self.cache {
            cache.put(&point.key, &outcome)?;
        }
        Ok(outcome)
    }
}

/// Reads the points of a file, of which there may be `most`; `-` is stdin.
fn read(
    registry: &Registry,
    path: &Path,
    most: usize,
    origins: &mut Origins,
) -> Result<Vec<Point>, Error> {
    let stdin = path.as_os_str() == "-";
    let name = if stdin { "stdin".into() } else { path.display().to_string() };
    let file: Box<dyn io::Read> = match stdin {
        true => Box::new(io::stdin().lock()),
        false => Box::new(files::open(path).map_err(Error::at(&name))?),
    };
    let (mut lines, mut points) = (files::lines(file).enumerate().peekable(), Vec::new());
    while lines.peek().is_some() {
        let some: Vec<(String, io::Result<String>)> =
            lines.by_ref().take(LINES).map(|(n, l)| (format!("{name}:{}", n + 1), l)).collect();
        let mut whole = Vec::with_capacity(some.len());
        for (place, line) in some {
            let line = line.map_err(Error::at(&place))?;
            whole.extend((!line.trim().is_empty()).then_some((place, line)));
        }
        for (point, of) in
            on_threads(cores(), &whole, |_, (place, l)| Point::parse(registry, place, l))?
        {
            points.push(point);
            origins.push(of);
        }
        if points.len() > most {
            return Err(input!("{name}: more than {} points, the most at once", sweep::MOST));
        }
    }
    if points.is_empty() {
        return Err(input!("{name}: there is no point in it"));
    }
    Ok(points)
}

pub(crate) fn point(registry: &'static Registry, args: &args::Point) -> Result<u8, Error> {
    let files = if args.file.is_empty() { &["-".into()] } else { &args.file[..] };
    let (mut points, mut origins) = (Vec::new(), Origins::default());
    for file in files {
        points.extend(read(registry, file, sweep::MOST - points.len(), &mut origins)?);
    }
    let runner = Runner::new(&args.points, args.out.is_some(), args.quiet)?;
    let file = args.out.as_deref();
    let read: Vec<&Path> = args.file.iter().map(|f| f.as_path()).collect();
    let file = file.map(|path| RecordFile::begin(path, &read)).transpose()?;
    let outcomes = runner.run("points", &points)?;
    let sound = outcomes.iter().all(|o| o.audit.is_empty());
    let all = points.iter().zip(&outcomes).map(|(point, o)| point.record(o));
    let mut all: Vec<Record> = all.collect();
    match file {
        Some(file) => {
            if origins.all.len() > 1 {
                let each = all.iter_mut().zip(origins.of);
                each.for_each(|(r, of)| drop(r.insert(ORIGIN.to_owned(), of.into())));
            }
            let about = About::new(origins.all, units(&points));
            let is_text = |column: &str| points.iter().any(|p| record::is_text(&p.plan, column));
            file.write(&all, &about, is_text)?;
        }
        None => print(&records(Format::Ndjson, &all))?,
    }
    overloaded(outcomes.iter().filter(|o| o.is_overloaded()).count(), outcomes.len());
    Ok(if sound { DONE } else { MISSED })
}

/// Returns the units of all numbers and keys of the points' systems. A key that has another unit in
/// another system has them all, each with its systems.
fn units(points: &[Point]) -> Map<String, Value> {
    let systems: BTreeMap<&str, &Plan> =
        points.iter().map(|p| (p.plan.system.name, &p.plan)).collect();
    let mut all: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for (system, plan) in systems {
        for (name, unit) in sweep::units(plan) {
            let unit = unit.as_str().unwrap_or_default().to_owned();
            all.entry(name).or_default().entry(unit).or_default().push(system);
        }
    }
    let one = |units: BTreeMap<String, Vec<&str>>| match units.len() {
        1 => units.into_keys().collect(),
        _ => {
            let all =
                units.iter().map(|(unit, systems)| format!("{unit} ({})", systems.join(", ")));
            all.collect::<Vec<_>>().join("; ")
        }
    };
    all.into_iter().map(|(name, units)| (name, Value::String(one(units)))).collect()
}

#[cfg(test)]
mod tests;
