//! Progress of a run, and its interruption by signals.

use crate::Error;
use crate::output::visible;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};
use std::cell::RefCell;
use std::io::{self, IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program that calls a command in one of its threads, and has the signals itself.
#[derive(Debug, Default)]
pub struct Caller {
    /// Ends the command once it is set.
    pub stop: Arc<AtomicBool>,
    progress: Mutex<(u64, u64)>,
}

impl Caller {
    /// Returns how much is done, and of how much; of nothing before the first step.
    pub fn progress(&self) -> (u64, u64) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of progress on stderr that goes away; nothing unless stderr is a terminal. A caller is
/// told, too.
pub struct Progress {
    bar: Option<ProgressBar>,
    caller: Option<Arc<Caller>>,
}

impl Progress {
    /// Shows a line that starts with `what`.
    pub fn new(what: &str, quiet: bool) -> Progress {
        let caller = CALLER.with_borrow(Clone::clone);
        Progress { bar: Progress::line(what, quiet, ProgressBar::new(1)), caller }
    }

    /// Shows lines below each other, one for each of `what`.
    pub fn lines<'a>(what: impl Iterator<Item = &'a str>, quiet: bool) -> Vec<Progress> {
        let all = MultiProgress::new();
        let line = |what| Progress::line(what, quiet, all.add(ProgressBar::new(1)));
        what.map(|what| Progress { bar: line(what), caller: None }).collect()
    }

    fn line(what: &str, quiet: bool, bar: ProgressBar) -> Option<ProgressBar> {
        if quiet || !stderr().is_terminal() {
            return None;
        }
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %") {
            bar.set_style(style);
        }
        bar.set_message(visible(what, &[]).into_owned());
        Some(bar)
    }

    /// Shows how much is done.
    pub fn at(&self, done: u64, of: u64) {
        if let Some(caller) = &self.caller {
            let mut told = caller.progress.lock().unwrap_or_else(PoisonError::into_inner);
            // Of several threads one may come late.
            let least = if told.1 == of { told.0 } else { 0 };
            *told = (done.clamp(least, of.max(least)), of);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(of);
            bar.set_position(done.min(of));
        }
    }

    /// Runs `f`, which writes to stdout, while no line is on the screen.
    pub fn aside<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(f),
            None => f(),
        }
    }

    /// Shows the current step.
    pub fn doing(&self, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A request to end the command. While one is watched for, a signal that would end the process
/// sets it instead, so that unfinished files are removed; a second signal ends the process.
#[derive(Debug, Default)]
pub struct Interrupt {
    came: Arc<AtomicBool>,
    /// The next signal ends the process.
    late: Arc<AtomicBool>,
    ids: Vec<SigId>,
    /// Ends the thread that measures the time since the first signal.
    _timer: Option<Sender<()>>,
}

thread_local! {
    /// The program that calls a command in this thread.
    static CALLER: RefCell<Option<Arc<Caller>>> = const { RefCell::new(None) };
}

/// Takes interruptions in this thread from `caller` instead of signals, and tells it the progress,
/// until the result is dropped.
pub fn take(caller: &Arc<Caller>) -> impl Drop + use<> {
    struct Taken;
    impl Drop for Taken {
        fn drop(&mut self) {
            CALLER.set(None);
        }
    }
    CALLER.set(Some(Arc::clone(caller)));
    Taken
}

/// The time that a [patient](Interrupt::patient) command has to end itself.
const GRACE: Duration = Duration::from_secs(3);

impl Interrupt {
    /// Leaves signals as they are.
    pub fn ignored() -> Interrupt {
        let came = Interrupt::of_caller().unwrap_or_default();
        Interrupt { came, late: Arc::default(), ids: Vec::new(), _timer: None }
    }

    fn of_caller() -> Option<Arc<AtomicBool>> {
        CALLER.with_borrow(|caller| caller.as_ref().map(|c| Arc::clone(&c.stop)))
    }

    /// Watches for Ctrl-C, a closed terminal, and SIGTERM.
    pub fn watched() -> io::Result<Interrupt> {
        if Interrupt::of_caller().is_some() {
            return Ok(Interrupt::ignored());
        }
        let came = Arc::default();
        Interrupt::register(&came, &came)
    }

    /// Watches for the same if the command writes `files`. Without any there is nothing to remove,
    /// and a signal ends the process as usual.
    pub fn watched_for(files: bool) -> Result<Interrupt, Error> {
        match files {
            true => Interrupt::watched().map_err(Error::at("signals")),
            false => Ok(Interrupt::ignored()),
        }
    }

    /// Watches for the same, but a second signal does not end the process: scripts often send two.
    /// One that comes 3 s late does, once [`Interrupt::lose_patience`] was called.
    pub fn patient() -> io::Result<Interrupt> {
        Interrupt::register(&Arc::default(), &Arc::default())
    }

    /// Measures the time since the first signal, in a thread.
    pub fn lose_patience(&mut self) -> io::Result<()> {
        let (came, late) = (Arc::clone(&self.came), Arc::clone(&self.late));
        let (timer, ended) = channel();
        self._timer = Some(timer);
        let mut first = None;
        let measure = move || {
            while ended.recv_timeout(GRACE / 30) == Err(RecvTimeoutError::Timeout) {
                if came.load(Ordering::Relaxed) {
                    let since = first.get_or_insert_with(Instant::now).elapsed();
                    late.store(since >= GRACE, Ordering::Relaxed);
                }
            }
        };
        std::thread::Builder::new().name("interrupt".into()).spawn(measure).map(drop)
    }

    /// Sets `came` on a signal, and ends the process on one that finds `late` set.
    fn register(came: &Arc<AtomicBool>, late: &Arc<AtomicBool>) -> io::Result<Interrupt> {
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            ids.push(flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(late))?);
            ids.push(flag::register(signal, Arc::clone(came))?);
        }
        Ok(Interrupt { came: Arc::clone(came), late: Arc::clone(late), ids, _timer: None })
    }

    /// Returns the flag that is set when it comes.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.came)
    }

    /// Returns true once a signal came.
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}
