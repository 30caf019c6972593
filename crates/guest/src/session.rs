//! A boot of one kernel with one device, and the workloads in it.

use crate::bring_up::{self, bring_up_steps, load_order, pack};
use crate::claim::Claim;
use crate::console::Message;
use crate::device::{Device, Reached};
use crate::emulator::Parts;
use crate::guest::Guest;
pub(crate) use crate::guest::awaited;
use crate::instructions::{Counter, Event, Executed, Snapshot, Symbols};
use crate::kernel::Kernel;
use crate::net::{self, GUEST, MAC, TAP};
use crate::origin::Origin;
use crate::server::{Counts, Server};
use crate::settings::Settings;
use crate::virtual_time::{self, Timed, VirtualTime};
use crate::wire::Wire;
use crate::workload::{Workload, quoted};
use crate::{Error, Machine, Progress};
use doorbell_host_io::child::ChildGuard;
use doorbell_host_io::netns;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Frames that may be in the guest's memory before its driver has read them: less than half of any
/// ring.
const UNREAD: usize = 16;
/// The port of iperf3.
const IPERF3_PORT: u16 = 5201;
/// Time in which a driver reads what has come.
const READ: Duration = Duration::from_secs(60);

/// The surroundings of all boots.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The device.
    pub device: Device,
    /// Further arguments of `doorbell serve`.
    pub serve: &'a [String],
    /// The `doorbell` program, which serves the device, and what comes first of its arguments.
    pub doorbell: &'a [OsString],
    /// QEMU's plug-in, for hypervisor calls and counts of instructions.
    pub plugin: Option<&'a Path>,
    /// Instructions are counted.
    pub instructions: bool,
    /// Accesses to I/O memory are counted, which takes twice as long.
    pub mmio: bool,
    /// The calls of the driver to send and its polls are followed, with all that they call.
    pub inclusive: bool,
    /// The machine of a guest in virtual time; `None` for the wall clock.
    pub virtual_time: Option<VirtualTime<'a>>,
    /// CPUs of the guest.
    pub cpus: u32,
    /// Longest time in which the guest says nothing.
    pub patience: Duration,
    /// Keeps the logs of console and QEMU here.
    pub logs: Option<&'a Path>,
}

/// A workload's result.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the workload.
    pub workload: String,
    /// Packets: those that the workload named, or frames on the wire.
    pub packets: u64,
    /// Frames on the wire, in both directions; 0 where only a model of somebody else sees them.
    pub frames: u64,
    /// Additions to the server's counts; empty for QEMU's own devices.
    pub counts: Counts,
    /// The instructions that the guest executed.
    pub executed: Option<Executed>,
    /// The instructions that it had executed before `begin`.
    pub before_begin: Option<u64>,
    /// Time between `begin` and `end`, on this machine or of the guest in virtual time.
    pub elapsed: Duration,
    /// Times and rates in virtual time.
    pub timed: Option<Timed>,
    /// The output of the guest meanwhile.
    pub output: String,
}

impl Measured {
    /// Refuses it if none of the driver's modules executed an instruction, since any limit would
    /// hold, or if calls that were followed ended unseen.
    pub(crate) fn of_driver(
        self,
        workload: &Workload,
        driver: &[String],
        symbols: Option<&Symbols>,
    ) -> Result<Measured, Error> {
        if let (Some(executed), Some(symbols), false) =
            (&self.executed, symbols, workload.replaces_driver)
        {
            let profile = executed.profile(symbols);
            if driver.iter().all(|module| profile.module(module).instructions == 0) {
                let (workload, driver) = (self.workload, driver.join(", "));
                return Err(Error::Idle { workload, driver, frames: self.frames });
            }
            let lost = Event::FOLLOWED.into_iter().find_map(|event| {
                let within = profile.inside(event).filter(|within| within.lost > 0)?;
                Some((event.name(), within.calls, within.lost))
            });
            if let Some((event, calls, lost)) = lost {
                return Err(Error::Lost { workload: self.workload, event, calls, lost });
            }
        }
        Ok(self)
    }
}

/// A workload that failed.
#[derive(Debug)]
pub struct Failed {
    /// The name of the workload.
    pub workload: String,
    /// The reason.
    pub error: Error,
}

/// A boot's results.
#[derive(Debug)]
pub struct Booted {
    /// The kernel and its modules.
    pub origin: Origin,
    /// The modules that do the driver's work.
    pub driver: Vec<String>,
    /// Names of the kernel's addresses.
    pub symbols: Option<Symbols>,
    /// The results, in the order of the workloads.
    pub measured: Vec<Measured>,
    /// The workloads that have none.
    pub failed: Vec<Failed>,
    /// Messages of the kernel of warning level and worse.
    pub warnings: Vec<String>,
}

/// Moves this process to a network of its own, in which all guests run. It must have one thread,
/// and have fetched all that it needs.
pub fn isolate() -> Result<(), Error> {
    net::isolate()
}

/// Makes a directory for the files of a boot, which is removed with it.
pub(crate) fn own_directory() -> Result<TempDir, Error> {
    let own = tempfile::Builder::new().prefix("doorbell-guest-").tempdir();
    own.map_err(Error::io("a temporary directory"))
}

/// Boots the kernel and runs the workloads. `stop` is asked now and then, and ends it. A workload
/// that fails loses no other's results.
pub fn boot(
    setup: &Setup<'_>,
    machine: &Machine,
    kernel: &Kernel,
    settings: &Settings,
    workloads: &[Workload],
    progress: &Progress<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Booted, Error> {
    if setup.virtual_time.is_some() {
        return virtual_time::boot(setup, machine, kernel, settings, workloads, progress, stop);
    }
    let own = own_directory()?;
    // Sockets are in the temporary directory: their paths have at most 107 bytes.
    let (mut server, mut wire) = (None, None);
    if setup.device.is_served() {
        server = Some(serve(setup, own.path())?);
    } else if setup.device.has_wire() {
        wire = Some(Wire::open().map_err(Error::io(TAP))?);
    }
    let counting = setup.plugin.filter(|_| setup.instructions);
    let counter = counting.map(|_| Counter::bind(own.path().join("count"))).transpose();
    let counter = counter.map_err(Error::io("the plug-in's socket"))?;
    let driver = bring_up::driver(setup, kernel, settings)?;
    let order = load_order(setup, kernel, workloads)?;
    let initramfs = own.path().join("initramfs");
    let packed = pack(machine, kernel, &order, workloads, settings, None)?;
    std::fs::write(&initramfs, packed).map_err(Error::io(initramfs.display()))?;
    let counter = counter.map(|c| if setup.mmio { c.with_mmio() } else { c });
    let counter = counter.map(|c| if setup.inclusive { c.with_inside() } else { c });
    let argument = counter.as_ref().map(Counter::argument);
    let needs_plugin = counter.is_some() || matches!(setup.device.reached, Reached::Calls { .. });
    let parts = Parts {
        device: setup.device,
        mac: MAC,
        socket: server.as_ref().map(Server::socket).or(setup.device.socket()),
        plugin: setup.plugin.filter(|_| needs_plugin),
        counting: argument.as_deref(),
        in_process: None,
        cpus: setup.cpus,
        image: kernel.image(),
        initramfs: &initramfs,
        more: &[],
        directory: setup.logs.unwrap_or(own.path()),
    };
    progress(&format!("{}: boots", kernel.name));
    let guest = Guest::start(machine, &parts, setup.patience, stop)?;
    let session = Session { guest, server, wire, counter, tools: own.path(), idle: true };
    session.run(setup, machine, kernel, &order, driver, settings, workloads, progress)
}

/// Starts the server of the device.
fn serve(setup: &Setup<'_>, directory: &Path) -> Result<Server, Error> {
    let mut arguments = vec!["--uplink".to_owned(), format!("tap:{TAP}")];
    if setup.device.name == "mlx5" {
        // Each doorbell is a transaction, also one that follows another at once.
        arguments.push("--trap-doorbells".to_owned());
    }
    arguments.extend_from_slice(setup.serve);
    Server::start(setup.doorbell, &setup.device, &arguments, directory)
}

/// A guest that does workloads.
struct Session<'a> {
    guest: Guest<'a>,
    server: Option<Server>,
    /// The wire of a device without a server.
    wire: Option<Wire>,
    counter: Option<Counter>,
    /// A directory with programs for the commands of workloads.
    tools: &'a Path,
    /// The guest waits for a line.
    idle: bool,
}

/// A window in which is counted.
struct Window {
    since: Instant,
    counts: Counts,
    /// Frames on the wire, in both directions, if this side sees them.
    frames: Option<u64>,
    executed: Option<Snapshot>,
}

impl Session<'_> {
    /// Waits for the next message.
    fn message(&mut self) -> Result<Message, Error> {
        let found = self.guest.message();
        self.or_server(found)
    }

    /// Runs a line of the shell, and returns what it printed.
    fn shell(&mut self, line: &str) -> Result<String, Error> {
        let found = self.guest.shell(line);
        self.or_server(found)
    }

    /// A server that has ended says more than the guest without it.
    fn or_server<T>(&mut self, found: Result<T, Error>) -> Result<T, Error> {
        if let (Err(Error::Guest { .. }), Some(server)) = (&found, &mut self.server) {
            server.alive()?;
        }
        found
    }

    #[expect(clippy::too_many_arguments, reason = "those of `boot`")]
    fn run(
        mut self,
        setup: &Setup<'_>,
        machine: &Machine,
        kernel: &Kernel,
        order: &[String],
        driver: Vec<String>,
        settings: &Settings,
        workloads: &[Workload],
        progress: &Progress<'_>,
    ) -> Result<Booted, Error> {
        self.message()?;
        let origin = Origin::of(kernel, order, &self.shell("cat /proc/version")?)?;
        let release = origin.release();
        progress(&format!("{}: {release}, loads {}", kernel.name, setup.device.driver));
        // Messages of the boot are not the driver's.
        self.shell("dmesg -c >/dev/null")?;
        self.bring_up(setup, order, &driver, settings, workloads)?;
        let mut symbols = None;
        if self.counter.is_some() {
            self.shell("echo 0 >/proc/sys/kernel/kptr_restrict")?;
            let text = self.shell("grep ' [tTwW] ' /proc/kallsyms")?;
            let read = bring_up::symbols(&text, kernel, &driver);
            symbols =
                Some(read.map_err(|e| self.guest.console.ended(&format!("/proc/kallsyms: {e}")))?);
        }
        self.host_programs(machine)?;
        let (mut measured, mut failed) = (Vec::new(), Vec::new());
        for workload in workloads {
            progress(&format!("{}: {release}, runs {}", kernel.name, workload.name));
            let done = if self.idle { self.workload(workload) } else { Err(Error::NotRun) };
            match done.and_then(|done| done.of_driver(workload, &driver, symbols.as_ref())) {
                Ok(done) => measured.push(done),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => failed.push(Failed { workload: workload.name.clone(), error }),
            }
        }
        let mut warnings = Vec::new();
        if self.idle {
            warnings = bring_up::warnings(&self.shell("dmesg -r")?);
        }
        Ok(Booted { origin, driver, symbols, measured, failed, warnings })
    }

    /// Loads the modules, and brings the interface up.
    fn bring_up(
        &mut self,
        setup: &Setup<'_>,
        order: &[String],
        driver: &[String],
        settings: &Settings,
        workloads: &[Workload],
    ) -> Result<(), Error> {
        for (line, what) in bring_up_steps(setup, order, driver, settings, workloads) {
            match what {
                Some(what) => self.guest.wait_for(&line, &what)?,
                None => match line.strip_prefix(bring_up::FOLLOW) {
                    Some(functions) => self.follow(functions)?,
                    None => self.step(&line)?,
                },
            }
        }
        Ok(())
    }

    /// Has the calls of functions followed, of an event and a module as `inclusive.sh` has them.
    fn follow(&mut self, functions: &str) -> Result<(), Error> {
        let words: Vec<&str> = functions.split(' ').collect();
        let ([event, names, module], Some(counter)) = (&words[..], &mut self.counter) else {
            return Ok(());
        };
        let names = names.trim_matches('\'');
        let pattern = format!(" [tTwW] ({names})([[:space:]]\\[{module}\\])?$");
        let command = format!("grep -E '{pattern}' /proc/kallsyms | cut -d ' ' -f 1");
        let found = self.guest.shell(&command)?;
        for event in Event::FOLLOWED.into_iter().filter(|e| e.name() == *event) {
            for address in found.split_whitespace() {
                counter.follow(event, address).map_err(Error::io("the plug-in's counts"))?;
            }
        }
        if found.trim().is_empty() {
            let said = format!("the kernel has no function {names} of {module}");
            return Err(Error::Command { command, status: 1, said });
        }
        Ok(())
    }

    /// Runs a line that brings the interface up.
    fn step(&mut self, line: &str) -> Result<(), Error> {
        let done = self.shell(line);
        if let Err(Error::Command { command, status, said }) = done {
            // The kernel's own words name the symbol, the version or the parameter.
            let why = self.shell("dmesg | tail -n 3").unwrap_or_default();
            let said = format!("{said}\n{}", why.trim());
            return Err(Error::Command { command, status, said });
        }
        done.map(drop)
    }

    /// Makes iperf3 of QEMU's packages a program of the host.
    fn host_programs(&self, machine: &Machine) -> Result<(), Error> {
        use std::os::unix::fs::PermissionsExt;
        let file = self.tools.join("iperf3");
        let mut line = "#!/bin/sh\nexec".to_owned();
        let command = machine.program("iperf3");
        for word in std::iter::once(command.get_program()).chain(command.get_args()) {
            // Writing to a string does not fail.
            let _ = write!(line, " {}", quoted(&word.to_string_lossy()));
        }
        line.push_str(" \"$@\"\n");
        std::fs::write(&file, line).map_err(Error::io(file.display()))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).map_err(Error::io(file.display()))
    }

    fn window(&mut self) -> Result<Window, Error> {
        let counts = self.server.as_mut().map_or(Ok(Counts::default()), Server::at_rest)?;
        let executed = match &mut self.counter {
            Some(counter) => Some(counter.read().map_err(Error::io("the plug-in's counts"))?),
            None => None,
        };
        let frames = match (&self.wire, &self.server) {
            (Some(wire), _) => Some(wire.frames().map_err(Error::io(TAP))?),
            (None, server) => server.as_ref().map(|_| counts.frames()),
        };
        Ok(Window { since: Instant::now(), counts, frames, executed })
    }

    /// Runs a workload, and answers what it asks.
    fn workload(&mut self, workload: &Workload) -> Result<Measured, Error> {
        let name = &workload.name;
        self.guest.console.send(&format!("( . /w/{} )", quoted(name)))?;
        self.idle = false;
        let (mut open, mut result, mut output) = (None, None, String::new());
        let mut background: Vec<(String, ChildGuard)> = Vec::new();
        loop {
            let said = self.message()?;
            for (line, child) in &mut background {
                child.alive().map_err(Error::io(format!("{name}: start {line}")))?;
            }
            output.push_str(&said.before);
            let words: Vec<&str> = said.arguments.split_whitespace().collect();
            match said.word.as_str() {
                "begin" => {
                    open = Some(self.window()?);
                    output.clear();
                    self.guest.console.send("")?;
                }
                "end" => {
                    let Some(begun) = open.take() else {
                        return Err(Error::Input(format!("{name}: `end` without `begin`")));
                    };
                    let elapsed = begun.since.elapsed();
                    let now = self.window()?;
                    let on_wire = workload.has_interface;
                    result = Some(measured(name, begun, now, elapsed, &words, on_wire, &output));
                    self.guest.console.send("")?;
                }
                "frames" => self.frames(name, &words)?,
                "ask" => {
                    let (kind, count, size) = match words[..] {
                        [kind, count, size] => (kind, count.parse(), size.parse()),
                        _ => ("", "".parse(), "".parse()),
                    };
                    let (Ok(count), Ok(size)) = (count, size) else {
                        let wrong = &said.arguments;
                        return Err(Error::Input(format!(
                            "{name}: `ask {wrong}`: allowed is `ask icmp|tcp COUNT SIZE`"
                        )));
                    };
                    let asked = net::ask(kind, count, size);
                    asked.map_err(Error::io(format!("{name}: ask {kind}")))?;
                    self.guest.console.send("0")?;
                }
                "listen" => {
                    let server = self.iperf3().map_err(Error::io("iperf3 -s"))?;
                    background.push(("iperf3 -s".to_owned(), server));
                    self.guest.console.send("")?;
                }
                "start" => {
                    // Without a shell in between, which would leave it behind.
                    let mut command = self.host_command(&format!("exec {}", said.arguments));
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let child = ChildGuard::spawn(&said.arguments, &mut command);
                    let child = child.map_err(Error::io(&said.arguments))?;
                    background.push((said.arguments.clone(), child));
                    self.guest.console.send("0")?;
                }
                "host" => {
                    let done = self.host_command(&said.arguments).output();
                    let done = done.map_err(Error::io(&said.arguments))?;
                    output.push_str(&String::from_utf8_lossy(&done.stdout));
                    output.push_str(&String::from_utf8_lossy(&done.stderr));
                    self.guest.console.send(&done.status.code().unwrap_or(255).to_string())?;
                }
                "done" => {
                    self.idle = true;
                    let status = said.arguments.parse().unwrap_or(-1);
                    if status != 0 {
                        let command = format!("the workload {name}");
                        let said = output + &self.faults();
                        return Err(Error::Command { command, status, said });
                    }
                    return result.unwrap_or_else(|| Err(no_end(name)));
                }
                other => {
                    return Err(Error::Input(format!("{name}: the guest said `{other}`")));
                }
            }
        }
    }

    /// Returns a line with the faults of the device's accesses, if there were any.
    fn faults(&mut self) -> String {
        let counts = self.server.as_mut().and_then(|server| server.counts().ok());
        let counts = counts.unwrap_or_default().ledger;
        let told = ["dma_faults", "dma_without_master"].into_iter().filter_map(|name| {
            let count = counts.get(name).filter(|n| **n > 0)?;
            Some(format!("{name} {count}"))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        if told.is_empty() { told } else { format!("the device has counted {told}\n") }
    }

    /// Starts a server of iperf3 on the host. Returns it when it listens.
    fn iperf3(&self) -> std::io::Result<ChildGuard> {
        let mut command = self.host_command("exec iperf3 -s");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = ChildGuard::spawn("iperf3 -s", &mut command)?;
        // A kernel without IPv6 has no second table.
        let listens = |table: &str| {
            let text = std::fs::read_to_string(table).unwrap_or_default();
            netns::listens(&text, IPERF3_PORT)
        };
        while !["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(listens) {
            server.alive()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn host_command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.tools.display()));
        command.env("GUEST", GUEST.to_string());
        command
    }

    /// Sends frames toward the guest, and waits for its driver, so that nobody loses one. The guest
    /// is asked at the end: its answers cost instructions, and drivers ask their device for them.
    fn frames(&mut self, name: &str, words: &[&str]) -> Result<(), Error> {
        let numbers: Vec<usize> = words.iter().filter_map(|w| w.parse().ok()).collect();
        let [count, size, burst, gap] = numbers[..] else {
            let wrong = words.join(" ");
            return Err(Error::Input(format!(
                "{name}: `frames {wrong}`: allowed is `frames COUNT SIZE BURST GAP`"
            )));
        };
        let sender = net::Sender::open()?;
        let first = self.read_by_driver()?;
        let (mut sent, mut unread) = (0, 0);
        while sent < count {
            let now = burst.clamp(1, count - sent);
            sender.send(now, size)?;
            (sent, unread) = (sent + now, unread + now);
            std::thread::sleep(Duration::from_micros(gap as u64));
            match &mut self.server {
                Some(server) if sent < count && unread >= UNREAD => server.lull()?,
                _ if unread >= UNREAD || sent == count => self.until_read(name, first, sent)?,
                _ => continue,
            }
            unread = 0;
        }
        self.guest.console.send("0")
    }

    /// Waits until the driver has read `sent` frames.
    fn until_read(&mut self, name: &str, first: u64, sent: usize) -> Result<(), Error> {
        let until = Instant::now() + READ;
        while self.read_by_driver()? < first + sent as u64 {
            if Instant::now() > until {
                let what = format!("{name}: the driver did not read {sent} frames");
                return Err(self.guest.console.ended(&what));
            }
        }
        Ok(())
    }

    /// Returns the frames that the driver has passed up. The guest is in `frames`.
    fn read_by_driver(&mut self) -> Result<u64, Error> {
        self.guest.console.send("read")?;
        let said = self.message()?;
        said.arguments.parse().map_err(|_| self.guest.console.ended("the guest has no counters"))
    }
}

/// Builds the error of a workload that says no `end` behind its last `begin`.
pub(crate) fn no_end(workload: &str) -> Error {
    Error::Input(format!("{workload}: it did not come to `end`"))
}

fn measured(
    name: &str,
    begun: Window,
    now: Window,
    elapsed: Duration,
    claimed: &[&str],
    on_wire: bool,
    output: &str,
) -> Result<Measured, Error> {
    let counts = now.counts.since(&begun.counts);
    let frames = now.frames.zip(begun.frames).map(|(now, then)| now - then);
    let packets = Claim::of(name, claimed)?.held(name, frames.filter(|_| on_wire), output)?;
    let before_begin = begun.executed.as_ref().map(Snapshot::instructions);
    let executed = match (begun.executed, now.executed) {
        (Some(a), Some(b)) => Some(b.since(&a)),
        _ => None,
    };
    Ok(Measured {
        workload: name.to_owned(),
        packets,
        frames: frames.unwrap_or(0),
        counts,
        executed,
        before_begin,
        elapsed,
        timed: None,
        output: output.trim().to_owned(),
    })
}
