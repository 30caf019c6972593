//! A boot in virtual time: the device is in QEMU's process, and the guest has its whole work from
//! the start. Nobody answers it while it runs, so that two boots are the same to the instruction.
//!
//! The guest's words are answered by the plug-in, which writes a file for each (its module
//! `device::words`). They are read when QEMU has ended.

use crate::arch::Arch;
use crate::bring_up::{self, Steps};
use crate::claim::Claim;
use crate::console::{Message, PANIC, message};
use crate::emulator::{self, InProcess, Parts};
use crate::instructions::{Executed, Snapshot};
use crate::kernel::Kernel;
use crate::log::{Kept, end_of};
use crate::net::MAC;
use crate::origin::Origin;
use crate::price::Prices;
use crate::server::Counts;
use crate::session::{self, Booted, Failed, Measured, Setup};
use crate::settings::Settings;
use crate::workload::{Workload, quoted};
use crate::{Error, Machine, Progress};
use doorbell_host_io::child::ChildGuard;
use doorbell_spec::number::{Series, series};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The machine of a guest in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct VirtualTime<'a> {
    /// The numbers of the device's machine, as the plug-in reads them.
    pub plan: &'a str,
    /// The costs of instructions.
    pub prices: &'a Prices,
}

/// Times of a workload's window, in virtual time.
#[derive(Clone, PartialEq, Debug)]
pub struct Timed {
    /// From `begin` to `end`.
    pub window: Duration,
    /// Frames a second that the device sent, from the first to the last.
    pub sent_per_s: Option<f64>,
    /// Frames a second that the peer sent, from the first to the last.
    pub offered_per_s: Option<f64>,
    /// Frames that the device did not take.
    pub dropped: u64,
    /// Answers that the peer got. A frame that comes back is one.
    pub answers: u64,
    /// Time of an answer in ns, from its request's first bit to its own last one: the shortest, the
    /// longest, and quantiles that are known to 0.2 %. Empty without an answer.
    pub latency_ns: BTreeMap<String, f64>,
    /// Rates and moderation over the time since `begin`.
    pub series: Vec<Series>,
}

/// Words of workloads that need the machine's own commands.
const COMMANDS: [&str; 2] = ["host", "start"];
/// The word that only the laboratory's peer knows.
const ARRIVALS: &str = "arrivals";
/// Time between two looks at QEMU.
const LOOK: Duration = Duration::from_millis(20);

/// Refuses more CPUs than one, and workloads that do not run in virtual time.
pub fn check(cpus: u32, workloads: &[Workload]) -> Result<(), Error> {
    if cpus != 1 {
        return Err(Error::Input(format!(
            "--cpus {cpus}: --clock virtual has one CPU, since two boots with more differ"
        )));
    }
    for workload in workloads {
        let name = &workload.name;
        if let Some(word) = COMMANDS.into_iter().find(|word| workload.says(word)) {
            return Err(Error::Input(format!(
                "--workload {name}: `{word}` runs no command in virtual time; --clock wall does"
            )));
        }
        if let Some((package, _)) = workload.packages.first() {
            return Err(Error::Input(format!(
                "--workload {name}: virtual time has no programs of {package} yet; --clock wall \
                 runs it"
            )));
        }
    }
    Ok(())
}

/// Refuses workloads that run in virtual time alone.
pub fn check_wall(workloads: &[Workload]) -> Result<(), Error> {
    match workloads.iter().find(|workload| workload.says(ARRIVALS)) {
        None => Ok(()),
        Some(workload) => Err(Error::Input(format!(
            "--workload {}: `{ARRIVALS}` needs --clock virtual",
            workload.name
        ))),
    }
}

/// A word that the plug-in answered.
struct Word {
    line: String,
    counts: BTreeMap<String, u64>,
    snapshot: Option<Snapshot>,
    series: Vec<Series>,
}

impl Word {
    /// Reads the files of the word with this number; `None` if there is none.
    fn read(directory: &Path, n: usize) -> Result<Option<Word>, Error> {
        let file = directory.join(n.to_string());
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).map_err(Error::io(file.display()))?;
        let mut lines = text.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let count = |line: &str| {
            let (name, n) = line.split_once(' ')?;
            Some((name.to_owned(), n.parse().ok()?))
        };
        let counts = lines.filter_map(count).collect();
        let file = file.with_extension("counts");
        let snapshot = match fs::read(&file) {
            Ok(bytes) => Some(Snapshot::of_message(&bytes).map_err(Error::io(file.display()))?),
            Err(_) => None,
        };
        let series =
            series_of(&fs::read_to_string(file.with_extension("series")).unwrap_or_default());
        Ok(Some(Word { line, counts, snapshot, series }))
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Returns the counts of a group by their own names.
    fn group(&self, group: &str) -> BTreeMap<String, u64> {
        let of = |(name, n): (&String, &u64)| Some((name.strip_prefix(group)?.to_owned(), *n));
        self.counts.iter().filter_map(of).collect()
    }

    /// Returns the rate of frames noted since `begin`, if there are two.
    fn rate(&self, group: &str) -> Option<f64> {
        let [frames, first, last] =
            ["frames", "first_ps", "last_ps"].map(|name| self.count(&format!("{group}{name}")));
        (last > first).then(|| (frames - 1) as f64 * 1e12 / (last - first) as f64)
    }
}

/// Reads series: a point a line, as name, milliseconds and value.
fn series_of(text: &str) -> Vec<Series> {
    let mut all = series::ALL.map(|name| Series { name, points: Vec::new() });
    for line in text.lines() {
        let Some((name, point)) = line.split_once(' ') else { continue };
        let point =
            point.split_once(' ').and_then(|(ms, v)| Some((ms.parse().ok()?, v.parse().ok()?)));
        let series = all.iter_mut().find(|series| series.name == name);
        series.into_iter().for_each(|series| series.points.extend(point));
    }
    all.into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// Returns what was counted between two words.
fn measured(
    workload: &Workload,
    begun: &Word,
    ended: &Word,
    output: String,
) -> Result<Measured, Error> {
    let name = &workload.name;
    let counts = |w: &Word| Counts { ledger: w.group("ledger."), device: w.group("device.") };
    let frames = ended.count("sent.frames") + ended.count("offered.frames");
    let claimed: Vec<&str> = ended.line.split_whitespace().skip(1).collect();
    let packets = Claim::of(name, &claimed)?.held(name, Some(frames), &output)?;
    let executed: Option<Executed> = match (&begun.snapshot, &ended.snapshot) {
        (Some(a), Some(b)) => Some(b.since(a)),
        _ => None,
    };
    let window = Duration::from_nanos((ended.count("time_ps") - begun.count("time_ps")) / 1000);
    let dropped = ended.count("dropped") - begun.count("dropped");
    let (sent_per_s, offered_per_s) = (ended.rate("sent."), ended.rate("offered."));
    let latencies = ended.group("latency_ps.").into_iter();
    Ok(Measured {
        workload: name.clone(),
        packets,
        frames,
        counts: counts(ended).since(&counts(begun)),
        executed,
        before_begin: begun.snapshot.as_ref().map(Snapshot::instructions),
        elapsed: window,
        timed: Some(Timed {
            window,
            sent_per_s,
            offered_per_s,
            dropped,
            answers: ended.count("answers"),
            latency_ns: latencies.map(|(name, ps)| (name, ps as f64 / 1000.0)).collect(),
            series: ended.series.clone(),
        }),
        output,
    })
}

/// The first and the last word of a window.
type Window = (Word, Word);

/// Reads the words of so many workloads. Returns the last window of each.
fn windows(directory: &Path, workloads: usize) -> Result<Vec<Option<Window>>, Error> {
    let mut all: Vec<Option<Window>> = (0..workloads).map(|_| None).collect();
    let (mut at, mut begun) = (0_usize, None);
    for n in 0.. {
        let Some(word) = Word::read(directory, n)? else { break };
        match (word.line.split_whitespace().next(), begun.take()) {
            (Some("workload"), _) => at += 1,
            (Some("begin"), _) => begun = Some(word),
            (Some("end"), Some(from)) => {
                if let Some(window) = at.checked_sub(1).and_then(|n| all.get_mut(n)) {
                    *window = Some((from, word));
                }
            }
            (_, from) => begun = from,
        }
    }
    Ok(all)
}

/// Returns what a workload printed in its last window.
fn output(messages: &[Message]) -> String {
    let last = |word: &str| messages.iter().rposition(|m| m.word == word);
    let (Some(begin), Some(end)) = (last("begin"), last("end")) else { return String::new() };
    let parts = messages[(begin + 1).min(end)..=end].iter().map(|m| m.before.trim());
    parts.filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The guest's work: a line of its shell each, and what it means if the line fails.
struct Script {
    steps: Steps,
    /// Number of the step that prints the symbols.
    symbols: Option<usize>,
    /// Numbers of the first workload's step, and of the first behind the workloads.
    first: usize,
    last: usize,
}

/// The step that prints the kernel's version.
const VERSION: usize = 0;

fn script(
    setup: &Setup<'_>,
    order: &[String],
    driver: &[String],
    settings: &Settings,
    workloads: &[Workload],
) -> Script {
    let plain = |line: &str| (line.to_owned(), None);
    let mut steps = vec![plain("cat /proc/version"), plain("dmesg -c >/dev/null")];
    if setup.device.arch == Arch::X86_64 {
        let why = "the kernel has no /dev/port (CONFIG_DEVPORT), by which a workload speaks in \
                   virtual time; --clock wall does without";
        steps.push(("[ -c /dev/port ]".to_owned(), Some(why.to_owned())));
    }
    steps.extend(bring_up::bring_up_steps(setup, order, driver, settings, workloads));
    let mut symbols = None;
    if setup.instructions {
        steps.push(plain("echo 0 >/proc/sys/kernel/kptr_restrict"));
        symbols = Some(steps.len());
        steps.push(plain("grep ' [tTwW] ' /proc/kallsyms"));
    }
    let first = steps.len();
    for (n, workload) in workloads.iter().enumerate() {
        let name = quoted(&workload.name);
        steps.push((format!("word workload {n}; ( . /w/{name} )"), None));
    }
    let last = steps.len();
    steps.push(plain("dmesg -r"));
    Script { steps, symbols, first, last }
}

impl Script {
    /// Returns it as the guest runs it. A workload that fails does not end the guest.
    fn text(&self) -> String {
        let line = |(n, (line, what)): (usize, &(String, Option<String>))| {
            let line = if what.is_some() { session::awaited(line) } else { line.clone() };
            let word = if (self.first..self.last).contains(&n) { "work" } else { "step" };
            format!("{word} {}\n", quoted(&line))
        };
        self.steps.iter().enumerate().map(line).collect()
    }

    /// Returns what each step printed, until the guest's end: the messages of all words in it, of
    /// which the last has the step's exit status.
    fn printed(&self, console: &str) -> Result<Vec<Vec<Message>>, Error> {
        let (mut rest, mut all) = (console.as_bytes(), Vec::new());
        let (mut step, mut up) = (Vec::new(), false);
        while let Ok((found, end)) = message(rest, 0) {
            rest = &rest[end..];
            if !up {
                up = found.word == "up";
                continue;
            }
            let done = (found.word == "done").then(|| status(&found));
            let said = found.before.trim().to_owned();
            step.push(found);
            match (done, self.steps.get(all.len())) {
                (None, _) => {}
                (Some(0), _) => all.push(std::mem::take(&mut step)),
                (Some(_), _) if (self.first..self.last).contains(&all.len()) => {
                    all.push(std::mem::take(&mut step));
                }
                (Some(_), Some((_, Some(what)))) => {
                    return Err(Error::Guest { what: what.clone(), console: said });
                }
                (Some(status), line) => {
                    let command = line.map_or("", |l| &l.0).to_owned();
                    return Err(Error::Command { command, status, said });
                }
            }
        }
        Ok(all)
    }
}

/// Returns the exit status that a step's last message has.
fn status(done: &Message) -> i32 {
    done.arguments.parse().unwrap_or(-1)
}

/// Returns the result of a workload: its window, and the messages of its step.
fn result(
    workload: &Workload,
    window: Option<Window>,
    messages: &[Message],
) -> Result<Measured, Error> {
    let name = &workload.name;
    if let Some(done) = messages.last().filter(|done| status(done) != 0) {
        let said = messages.iter().map(|m| m.before.trim()).collect::<Vec<_>>().join("\n");
        let command = format!("the workload {name}");
        let said = said.trim().to_owned();
        return Err(Error::Command { command, status: status(done), said });
    }
    let (begun, ended) = window.ok_or_else(|| session::no_end(name))?;
    measured(workload, &begun, &ended, output(messages))
}

/// Boots the kernel and runs the workloads.
pub(crate) fn boot(
    setup: &Setup<'_>,
    machine: &Machine,
    kernel: &Kernel,
    settings: &Settings,
    workloads: &[Workload],
    progress: &Progress<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Booted, Error> {
    let (Some(time), Some(plugin)) = (setup.virtual_time, setup.plugin) else {
        return Err(Error::Input("virtual time needs the plug-in".to_owned()));
    };
    let own = session::own_directory()?;
    let [plan, words, initramfs] = ["plan", "words", "initramfs"].map(|name| own.path().join(name));
    fs::write(&plan, time.plan).map_err(Error::io(plan.display()))?;
    let driver = bring_up::driver(setup, kernel, settings)?;
    let order = bring_up::load_order(setup, kernel, workloads)?;
    let script = script(setup, &order, &driver, settings, workloads);
    let mut text = script.text();
    if setup.inclusive {
        text.insert_str(0, include_str!("inclusive.sh"));
    }
    if !time.prices.functions.is_empty() {
        text.insert_str(0, include_str!("price.sh"));
    }
    let packed = bring_up::pack(machine, kernel, &order, workloads, settings, Some(&text))?;
    fs::write(&initramfs, packed).map_err(Error::io(initramfs.display()))?;
    let in_process = InProcess {
        plan: &plan,
        words: &words,
        talk: None,
        prices: time.prices,
        instructions: setup.instructions,
        mmio: setup.mmio,
        inclusive: setup.inclusive,
    };
    let parts = Parts {
        device: setup.device,
        mac: MAC,
        socket: None,
        plugin: Some(plugin),
        counting: None,
        in_process: Some(in_process),
        cpus: setup.cpus,
        image: kernel.image(),
        initramfs: &initramfs,
        more: &[],
        directory: setup.logs.unwrap_or(own.path()),
    };
    progress(&format!("{}: runs in virtual time", kernel.name));
    let (console, broken) = run(machine, &parts, setup.patience, stop)?;
    let printed = script.printed(&console)?;
    let whole = printed.len() == script.steps.len();
    let why = match memchr::memmem::find(console.as_bytes(), PANIC) {
        Some(_) => "the guest's kernel panicked",
        None => "the guest has ended before its work",
    };
    let mut broken = broken.or_else(|| (!whole).then(|| ended(why, &console)));
    if printed.len() < script.first {
        return Err(broken.unwrap_or(Error::NotRun));
    }
    let text = |n: usize| printed[n].last().map_or("", |m| &m.before);
    let symbols = script.symbols.map(|n| bring_up::symbols(text(n), kernel, &driver)).transpose();
    let symbols = symbols.map_err(|e| ended(&format!("/proc/kallsyms: {e}"), &console))?;
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    let windows = windows(&words, workloads.len())?;
    for (n, (workload, window)) in workloads.iter().zip(windows).enumerate() {
        let done = match printed.get(script.first + n) {
            Some(messages) => result(workload, window, messages),
            // The guest ended in the first of these.
            None => Err(broken.take().unwrap_or(Error::NotRun)),
        };
        match done.and_then(|done| done.of_driver(workload, &driver, symbols.as_ref())) {
            Ok(done) => measured.push(done),
            Err(error) => failed.push(Failed { workload: workload.name.clone(), error }),
        }
    }
    let origin = Origin::of(kernel, &order, text(VERSION))?;
    let warnings = if whole { bring_up::warnings(text(script.last)) } else { Vec::new() };
    Ok(Booted { origin, driver, symbols, measured, failed, warnings })
}

/// Runs QEMU to its end. Returns what the guest printed, and an error if it was stopped before its
/// end or failed.
fn run(
    machine: &Machine,
    parts: &Parts<'_>,
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<(String, Option<Error>), Error> {
    let [log, console] = ["qemu.log", "console.log"].map(|name| parts.directory.join(name));
    let errors = Kept::create(&log)?;
    Kept::create(&console)?;
    let mut command = emulator::command(machine, parts)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut qemu = ChildGuard::spawn("QEMU", &mut command).map_err(Error::io("QEMU"))?;
    let Some(said) = qemu.take_stderr() else { unreachable!("it is a pipe") };
    let log = Kept::follow(said, errors, log, "QEMU");
    let printed = || {
        let bytes = fs::read(&console).map_err(Error::io(console.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (mut size, mut until) = (0, Instant::now() + patience);
    let why = loop {
        if let Some(status) = qemu.ended().map_err(Error::io("QEMU"))? {
            if status.success() {
                return Ok((printed()?, None));
            }
            break format!("QEMU has ended ({status})");
        }
        if stop() {
            return Err(Error::Interrupted);
        }
        let now = fs::metadata(&console).map_or(0, |m| m.len());
        if now != size {
            (size, until) = (now, Instant::now() + patience);
        }
        if size > MOST {
            break format!("the guest printed {} MiB", MOST >> 20);
        }
        if Instant::now() > until {
            let seconds = patience.as_secs();
            break format!(
                "the guest said nothing for {seconds} s, and was stopped (--timeout allows more)"
            );
        }
        std::thread::sleep(LOOK);
    };
    // It does not end by another signal where its clock stands.
    qemu.signal(Signal::KILL).map_err(Error::io("QEMU"))?;
    let (words, console) = (log.last_words(), printed()?);
    let error = ended(&why, &format!("{console}\n{words}"));
    Ok((console, Some(error)))
}

/// Builds the error of a guest that is not there any more.
fn ended(what: &str, console: &str) -> Error {
    let console = end_of(console.replace('\r', "").trim().as_bytes());
    Error::Guest { what: what.to_owned(), console }
}

/// The most output of a guest: its symbols are a third of it.
const MOST: u64 = 32 << 20;

#[cfg(test)]
mod tests;
