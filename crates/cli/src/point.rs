//! `doorbell point`: runs that were planned by `sweep --plan`, here or on another machine, and now
//! or later. `sweep` makes its own runs in the same way.

use crate::cache::Cache;
use crate::record::{About, ORIGIN, RecordFile};
use crate::{args, plan, run::overloaded};
use doorbell_console::output::print;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{Format, Record, models, records};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_host_io::files;
use doorbell_study::axis::MOST;
use doorbell_study::point::{Origins, Point, outcomes, units};
use doorbell_study::record::{Outcome, is_text};
use doorbell_study::runs::{Caller, Loaded, threads};
use doorbell_systems::{Plan, Registry, RunError, cores, on_threads};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

/// Returns the version of the program, and the hash of the sources that decide the numbers of a
/// run.
pub(crate) fn program() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), models())
}

/// Lines of a plan that are read at a time.
const LINES: usize = 1024;

/// Makes the runs of a study: has their captures and a cache, shows their progress, and ends them
/// when interrupted.
pub(crate) struct Runner {
    cache: Option<Cache>,
    threads: usize,
    interrupt: Interrupt,
    progress: Progress,
}

impl Runner {
    /// Creates a runner of points of `what`. With `files`, a signal ends it so that none of them is
    /// left unfinished.
    pub(crate) fn new(
        what: &str,
        args: &args::Points,
        files: bool,
        quiet: bool,
    ) -> Result<Runner, Error> {
        let open = |dir| Cache::open(dir, args.cache_size << 20, quiet);
        let cache = args.cache.as_deref().map(open).transpose()?;
        let interrupt = Interrupt::watched_for(files || cache.is_some())?;
        Ok(Runner { cache, interrupt, ..Runner::plain(what, args.jobs, quiet) })
    }

    /// Creates a runner without a cache, for runs that leave no file.
    pub(crate) fn plain(what: &str, jobs: Option<NonZeroUsize>, quiet: bool) -> Runner {
        let (interrupt, progress) = (Interrupt::ignored(), Progress::new(what, quiet));
        Runner { cache: None, threads: threads(jobs), interrupt, progress }
    }

    /// Returns the numbers of all points in their order, whatever the number of threads.
    pub(crate) fn run(self, points: &[Point]) -> Result<Vec<Arc<Outcome>>, Error> {
        let all = outcomes(&self, self.threads, points)?;
        self.cache.iter().for_each(Cache::trim);
        Ok(all)
    }
}

impl Caller for Runner {
    type Error = Error;

    fn capture(&self, plan: &Plan) -> Result<Option<Arc<Loaded>>, Error> {
        plan::capture(plan)
    }

    fn failed(&self, plan: &Plan, why: RunError) -> Error {
        let left = match self.cache {
            Some(_) => "the cache has the points that were done",
            None => plan::NOTHING,
        };
        plan::failed(plan, why, &self.interrupt, left)
    }

    fn go_on(&self, done: usize, of: usize) -> bool {
        self.progress.at(done as u64, of as u64);
        !self.interrupt.came()
    }

    fn kept(&self, key: &str) -> Result<Option<Outcome>, Error> {
        self.cache.as_ref().map_or(Ok(None), |cache| cache.get(key))
    }

    fn keep(&self, key: &str, outcome: &Outcome) -> Result<(), Error> {
        self.cache.as_ref().map_or(Ok(()), |cache| cache.put(key, outcome))
    }

    fn had(&self, points: usize, of: usize) {
        self.cache.iter().for_each(|cache| cache.had(points, of));
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
    let program = program();
    while lines.peek().is_some() {
        let some: Vec<(String, io::Result<String>)> =
            lines.by_ref().take(LINES).map(|(n, l)| (format!("{name}:{}", n + 1), l)).collect();
        let mut whole = Vec::with_capacity(some.len());
        for (place, line) in some {
            let line = line.map_err(Error::at(&place))?;
            whole.extend((!line.trim().is_empty()).then_some((place, line)));
        }
        let parse = |_, (place, l): &(String, String)| Point::parse(registry, &program, place, l);
        for (point, of) in on_threads(cores(), &whole, parse)? {
            points.push(point);
            origins.push(of);
        }
        if points.len() > most {
            return Err(input!("{name}: more than {MOST} points, the most at once"));
        }
    }
    if points.is_empty() {
        return Err(input!("{name}: there is no point in it"));
    }
    Ok(points)
}

/// Writes the records of points. Each says which origin is its own if there are several.
pub(crate) fn write(
    file: RecordFile,
    mut records: Vec<Record>,
    points: &[Point],
    origins: Origins,
) -> Result<(), Error> {
    if origins.all.len() > 1 {
        let each = records.iter_mut().zip(origins.of);
        each.for_each(|(r, of)| drop(r.insert(ORIGIN.to_owned(), of.into())));
    }
    let about = About::new(origins.all, units(points));
    file.write(&records, &about, |column| points.iter().any(|p| is_text(&p.plan, column)))
}

pub(crate) fn point(registry: &'static Registry, args: &args::Point) -> Result<u8, Error> {
    let files = if args.file.is_empty() { &["-".into()] } else { &args.file[..] };
    let (mut points, mut origins) = (Vec::new(), Origins::default());
    for file in files {
        points.extend(read(registry, file, MOST - points.len(), &mut origins)?);
    }
    let runner = Runner::new("points", &args.points, args.out.is_some(), args.quiet)?;
    let file = args.out.as_deref();
    let read: Vec<&Path> = args.file.iter().map(|f| f.as_path()).collect();
    let file = file.map(|path| RecordFile::begin(path, &read)).transpose()?;
    let outcomes = runner.run(&points)?;
    let sound = outcomes.iter().all(|o| o.audit.is_empty());
    let all = points.iter().zip(&outcomes).map(|(point, o)| point.record(o));
    let all: Vec<Record> = all.collect();
    match file {
        Some(file) => write(file, all, &points, origins)?,
        None => print(&records(Format::Ndjson, &all))?,
    }
    overloaded(outcomes.iter().filter(|o| o.is_overloaded()).count(), outcomes.len());
    Ok(if sound { DONE } else { MISSED })
}
