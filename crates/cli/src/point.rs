//! `doorbell point`: runs that were planned by `sweep --plan`, here or on another machine, and now
//! or later. `sweep` makes its own runs in the same way.

use crate::cache::Cache;
use crate::record::RecordFile;
use crate::{args, plan, run::overloaded};
use doorbell_console::output::print;
use doorbell_console::progress::{Interrupt, Progress};
use doorbell_console::render::{Format, models, records};
use doorbell_console::{DONE, Error, MISSED, input};
use doorbell_host_io::files;
use doorbell_study::point::{Origins, Point, outcomes};
use doorbell_study::record::Outcome;
use doorbell_study::runs::{Caller, Loaded, threads};
use doorbell_study::sweep::MOST;
use doorbell_systems::result::Provenance;
use doorbell_systems::{Plan, Registry, RunError, cores, on_threads};
use std::fs::File;
use std::io::{self, Seek};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the version of the program, and the hash of the sources that decide the numbers of a
/// run.
pub(crate) fn program() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), models())
}

/// Points that are held at a time, of a plan or of a sweep.
pub(crate) const HELD: usize = 1024;

/// Makes the runs of a study: has their captures and a cache, shows their progress, and ends them
/// when interrupted.
pub(crate) struct Runner {
    cache: Option<Cache>,
    threads: usize,
    interrupt: Interrupt,
    progress: Progress,
    /// Runs of the study, if it has several parts, and those of the parts that are done.
    all: usize,
    done: AtomicUsize,
    /// Points that the cache had, of how many.
    had: [AtomicUsize; 2],
}

impl Runner {
    /// Creates a runner of so many points of `what`. With `files`, a signal ends it so that none of
    /// them is left unfinished.
    pub(crate) fn new(
        what: &str,
        args: &args::Points,
        (files, quiet): (bool, bool),
        all: usize,
    ) -> Result<Runner, Error> {
        let open = |dir| Cache::open(dir, args.cache_size << 20, quiet);
        let cache = args.cache.as_deref().map(open).transpose()?;
        let interrupt = Interrupt::watched_for(files || cache.is_some())?;
        Ok(Runner { cache, interrupt, all, ..Runner::plain(what, args.jobs, quiet) })
    }

    /// Creates a runner without a cache, for runs that leave no file.
    pub(crate) fn plain(what: &str, jobs: Option<NonZeroUsize>, quiet: bool) -> Runner {
        let (interrupt, progress) = (Interrupt::ignored(), Progress::new(what, quiet));
        let (threads, done, had) = (threads(jobs), AtomicUsize::new(0), Default::default());
        Runner { cache: None, threads, interrupt, progress, all: 0, done, had }
    }

    /// Returns the numbers of some points in their order, whatever the number of threads.
    pub(crate) fn run(&self, points: &[Point]) -> Result<Vec<Arc<Outcome>>, Error> {
        let some = outcomes(self, self.threads, points)?;
        self.done.fetch_add(points.len(), Ordering::Relaxed);
        Ok(some)
    }

    /// Prints what is known so far.
    fn print(&self, text: &str) -> Result<(), Error> {
        self.progress.aside(|| print(text))
    }

    /// Ends the study: says what the cache had, and brings it back to its size.
    pub(crate) fn end(self) {
        let Runner { cache: Some(cache), progress, had: [had, of], .. } = self else { return };
        drop(progress);
        cache.had(had.into_inner(), of.into_inner());
        cache.trim();
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
        let done = self.done.load(Ordering::Relaxed) + done;
        self.progress.at(done as u64, self.all.max(of) as u64);
        !self.interrupt.came()
    }

    fn kept(&self, key: &str) -> Result<Option<Outcome>, Error> {
        self.cache.as_ref().map_or(Ok(None), |cache| cache.get(key))
    }

    fn keep(&self, key: &str, outcome: &Outcome) -> Result<(), Error> {
        self.cache.as_ref().map_or(Ok(()), |cache| cache.put(key, outcome))
    }

    fn had(&self, points: usize, of: usize) {
        for (sum, n) in self.had.iter().zip([points, of]) {
            sum.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// A file with a point in each line, which is read twice: first all is checked.
struct Planned {
    name: String,
    file: File,
}

impl Planned {
    /// Opens a file; `-` is stdin, which is copied.
    fn open(path: &Path) -> Result<Planned, Error> {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "stdin".into() } else { path.display().to_string() };
        let copied = || {
            let mut file = tempfile::tempfile()?;
            io::copy(&mut io::stdin().lock(), &mut file).map(|_| file)
        };
        let file = if stdin { copied() } else { files::open(path) };
        Ok(Planned { file: file.map_err(Error::at(&name))?, name })
    }

    /// Gives some points after the other to `take`, with the origins beside their columns.
    fn points(
        &mut self,
        registry: &Registry,
        mut take: impl FnMut(Vec<(Point, Provenance)>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (name, program) = (&self.name, program());
        self.file.rewind().map_err(Error::at(name))?;
        let mut lines = files::lines(&self.file).enumerate().peekable();
        while lines.peek().is_some() {
            let some: Vec<(String, io::Result<String>)> =
                lines.by_ref().take(HELD).map(|(n, l)| (format!("{name}:{}", n + 1), l)).collect();
            let mut whole = Vec::with_capacity(some.len());
            for (place, line) in some {
                let line = line.map_err(Error::at(&place))?;
                whole.extend((!line.trim().is_empty()).then_some((place, line)));
            }
            let parse =
                |_, (place, l): &(String, String)| Point::parse(registry, &program, place, l);
            take(on_threads(cores(), &whole, parse)?)?;
        }
        Ok(())
    }
}

pub(crate) fn point(registry: &'static Registry, args: &args::Point) -> Result<u8, Error> {
    let files = if args.file.is_empty() { &["-".into()] } else { &args.file[..] };
    let mut files = files.iter().map(|f| Planned::open(f)).collect::<Result<Vec<_>, _>>()?;
    let (mut all, mut origins) = (0, Origins::default());
    for planned in &mut files {
        let before = all;
        planned.points(registry, |points| {
            all += points.len();
            points.into_iter().for_each(|(_, of)| origins.push(of));
            Ok(())
        })?;
        if all > MOST {
            return Err(input!("{}: {all} points, and {MOST} are the most", planned.name));
        }
        if all == before {
            return Err(input!("{}: there is no point in it", planned.name));
        }
    }
    let runner = Runner::new("points", &args.points, (args.out.is_some(), args.quiet), all)?;
    let read: Vec<&Path> = args.file.iter().map(|f| f.as_path()).collect();
    let file = args.out.as_deref().map(|path| RecordFile::begin(path, &read));
    let mut file = file.transpose()?;
    if let Some(file) = &mut file {
        file.origins = origins;
    }
    let (mut sound, mut overload, mut held) = (true, 0, Vec::new());
    let mut run = |points: Vec<Point>| {
        let outcomes = runner.run(&points)?;
        sound &= outcomes.iter().all(|o| o.audit.is_empty());
        overload += outcomes.iter().filter(|o| o.is_overloaded()).count();
        match &mut file {
            Some(file) => file.extend(&points, &outcomes),
            None => {
                let all = points.iter().zip(&outcomes).map(|(point, o)| point.record(o));
                runner.print(&records(Format::Ndjson, &all.collect::<Vec<_>>()))
            }
        }
    };
    for planned in &mut files {
        planned.points(registry, |points| {
            held.extend(points.into_iter().map(|(point, _)| point));
            if held.len() < HELD { Ok(()) } else { run(std::mem::take(&mut held)) }
        })?;
    }
    run(held)?;
    runner.end();
    file.map_or(Ok(()), RecordFile::end)?;
    overloaded(overload, all);
    Ok(if sound { DONE } else { MISSED })
}
