//! `doorbell guest`: Linux kernels with a device, and what their own drivers cost a packet.
//!
//! Each kernel is booted under QEMU with the served device, for each value of `--across` anew, and
//! does the workloads one after another. The counts are those of `doorbell serve`, and the
//! instructions those that QEMU executed, by function.

mod lab;
mod machine;
mod page;
mod result;
mod table;

pub(crate) use page::{command_of, over_time, parts, sentence};
pub(crate) use result::GuestResult;
pub(crate) use table::LEGEND;

use crate::args::{FUNCTIONS, Guest, GuestClock, Instructions, Output};
use crate::check::GuestBudget;
use clap::ValueEnum;
use doorbell_console::output::{print, tell};
use doorbell_console::progress::Interrupt;
use doorbell_console::render::json;
use doorbell_console::{DONE, Error, MISSED, failed, input};
use doorbell_guest::settings::{self, Settings};
use doorbell_guest::{Arch, Device, Kernel, Machine, Setup, VirtualTime, Workload};
use doorbell_serve::Devices;
use doorbell_study::axis::Axis;
use doorbell_systems::{Plan, Profile, Registry};
use result::{Failure, Run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;
use table::View;

/// Exit codes for `git bisect run`: the kernel cannot be tested; the search makes no sense.
const SKIP: u8 = 125;
const STOP: u8 = 128;

/// Runs the command. `program` is how this program is started again, if it has arguments then.
pub(crate) fn guest(
    registry: &'static Registry,
    devices: Devices,
    args: &Guest,
    program: &[OsString],
) -> Result<u8, Error> {
    if args.plan {
        let device = Device::named(&args.device, None, None)?;
        let (_, boots) = virtual_boots(registry, args, &device, variants(args)?, &[])?;
        let machines = boots.iter().filter_map(|boot| boot.machine.as_ref());
        print(&machines.map(|machine| machine.plan.as_str()).collect::<String>())?;
        return Ok(DONE);
    }
    if let Some(budget) = &args.bisect {
        return bisect(registry, devices, args, program, budget);
    }
    let result = measure(registry, devices, args, program, &workloads(args, &[]))?;
    let view = View { all: args.instructions == Instructions::All, functions: args.functions };
    let mut doc = table::document(&result, view);
    for (side, files) in sides(args) {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let names = if files.is_empty() { "the kernel's own".to_owned() } else { names.join(", ") };
        side.iter().for_each(|side| doc.line(format!("{side}  {names}")));
    }
    print(&doc.show(args.output.format, "guest", &result))?;
    Ok(if result.failed.is_empty() { DONE } else { MISSED })
}

/// Puts two results that were kept side by side.
pub(crate) fn compare(a: &Path, b: &Path, output: &Output<1>) -> Result<u8, Error> {
    let result = GuestResult::read(a)?.with(GuestResult::read(b)?)?;
    let view = View { all: false, functions: FUNCTIONS };
    let mut doc = table::document(&result, view);
    doc.line(format!("A  {}", a.display()));
    doc.line(format!("B  {}", b.display()));
    print(&doc.show(output.format, "guest", &result))?;
    Ok(DONE)
}

/// Checks one kernel for `git bisect run`, which takes any other code than 0 and 125 below 128 as
/// "bad".
fn bisect(
    registry: &'static Registry,
    devices: Devices,
    args: &Guest,
    program: &[OsString],
    budget: &Path,
) -> Result<u8, Error> {
    let told = |e: &Error, code: u8| {
        tell(e);
        Ok(code)
    };
    let several = args.across.is_some() || !args.against.is_empty() || args.beside_lab;
    if args.kernel.len() > 1 || args.kernel.iter().any(|k| Kernel::is_range(k)) || several {
        let why = "one kernel, without --across, --against and --beside-lab";
        return told(&input!("--bisect: {why}"), STOP);
    }
    let budget = match GuestBudget::read(registry, devices, budget, &args.device) {
        Ok(budget) => budget,
        Err(e) => return told(&e, STOP),
    };
    let workloads = workloads(args, &budget.workloads());
    if let Some(missing) = budget.workloads().iter().find(|w| !workloads.iter().any(|n| n == *w)) {
        return told(&input!("--workload: the budget has numbers of {missing}, too"), STOP);
    }
    let result = match measure(registry, devices, args, program, &workloads) {
        Ok(result) if !result.failed.is_empty() => {
            return told(&failed!("not each workload has a result"), SKIP);
        }
        Ok(result) => result,
        // A build that has no such module, or does not boot.
        Err(e @ (Error::Failed(_) | Error::Untestable(_))) => return told(&e, SKIP),
        Err(e @ Error::Interrupted(_)) => return Err(e),
        Err(e) => return told(&e, STOP),
    };
    match budget.holds(&json("guest", &result), args.output.format) {
        Ok(true) => Ok(DONE),
        Ok(false) => Ok(MISSED),
        // A function that this kernel's compiler has inlined.
        Err(e @ Error::Untestable(_)) => told(&e, SKIP),
        Err(e) => told(&e, STOP),
    }
}

/// Returns the names of the workloads: those that were asked for, those of a budget, or pktgen.
fn workloads(args: &Guest, of_budget: &[&str]) -> Vec<String> {
    let default = if of_budget.is_empty() { &["pktgen"] } else { of_budget };
    match &args.workload[..] {
        [] => default.iter().map(|name| (*name).to_owned()).collect(),
        named => named.to_vec(),
    }
}

/// Boots all kernels with all settings.
fn measure(
    registry: &Registry,
    devices: Devices,
    args: &Guest,
    program: &[OsString],
    names: &[String],
) -> Result<GuestResult, Error> {
    let (own, driver) = (devices.is_on_express(&args.device), args.driver.as_deref());
    let device = Device::named(&args.device, own, driver)?;
    let bus = match &args.bus {
        None => None,
        Some(_) if !device.is_served() => {
            return Err(input!("--bus: {} is not served here and has no ledger", device.name));
        }
        Some(name) => Some(doorbell_serve::bus(name).map_err(|e| input!("--bus: {e}"))?),
    };
    let workloads: Result<Vec<_>, _> = names.iter().map(|w| Workload::find(w)).collect();
    let workloads = workloads?;
    let variants = variants(args)?;
    let said = |line: &str| {
        if !args.output.quiet {
            tell(line);
        }
    };
    let is_virtual = is_virtual(args, &device, &workloads);
    let (profile, boots) = match is_virtual {
        true => virtual_boots(registry, args, &device, variants, &workloads)?,
        false => (None, wall_boots(args, variants, &workloads)?),
    };
    let beside = match profile.as_ref().filter(|_| args.beside_lab) {
        Some(profile) => laboratory(registry, &device, profile, &boots, &workloads, &said)?,
        None => Vec::new(),
    };
    let own = std::env::current_exe().map_err(Error::at("this program"))?.into_os_string();
    let doorbell = if program.is_empty() { slice::from_ref(&own) } else { program };
    let counted = args.instructions != Instructions::Off;
    if args.mmio && !counted {
        return Err(input!("--mmio: nothing is counted with --instructions off"));
    }
    if args.inclusive && !counted {
        return Err(input!("--inclusive: nothing is counted with --instructions off"));
    }
    let needs_plugin = counted || is_virtual || device.arch == Arch::Ppc64;
    let plugin = needs_plugin.then(doorbell_guest::plugin).transpose()?;
    // All of this before the network is left, and while there is one thread.
    let mut machine = Machine::fetch(device.arch, &said)?;
    machine.fetch_packages(&workloads, &said)?;
    let qemu = machine.version()?;
    let kernels = kernels(args, &device, &said)?;
    if let Some(logs) = &args.logs {
        std::fs::create_dir_all(logs).map_err(Error::at(logs.display()))?;
    }
    let interrupt = Interrupt::watched().map_err(|e| failed!("signals: {e}"))?;
    if !is_virtual {
        doorbell_guest::isolate()?;
    }

    let serve = args.bus.as_ref().map(|b| vec!["--bus".to_owned(), b.clone()]).unwrap_or_default();
    let setup = Setup {
        device,
        serve: &serve,
        doorbell,
        plugin: plugin.as_deref(),
        instructions: counted,
        mmio: args.mmio,
        inclusive: args.inclusive,
        virtual_time: None,
        cpus: args.cpus,
        patience: Duration::from_secs(args.timeout),
        logs: args.logs.as_deref(),
    };
    let stop = || interrupt.came();
    let (mut runs, mut failures) =
        booted(&setup, &machine, &kernels, &boots, &workloads, args.repeat, &said, &stop)?;
    for (settings, workload, plan) in beside {
        match lab::run(&plan, settings, workload) {
            Ok(run) => runs.push(run),
            Err(e) => failures.add(lab::LABORATORY, Some(workload.name.clone()), e),
        }
    }
    let profile = profile.map(|profile| profile.name);
    let failed = failures.beside(&runs)?;
    Ok(GuestResult {
        device: device.name.to_owned(),
        driver: device.driver.to_owned(),
        bus: match &profile {
            Some(profile) => Some(format!("the bus of the profile {profile}")),
            None => bus.or_else(|| devices.bus_of(device.name)).map(str::to_owned),
        },
        cpus: args.cpus,
        command: arguments(args, names, is_virtual),
        qemu: Some(qemu),
        plugin: plugin.is_some().then(|| doorbell_guest::PLUGIN_HASH.to_owned()),
        profile,
        runs,
        failed,
    })
}

/// Plans the laboratory's runs beside the guests', so that a setting which is not the laboratory's
/// is refused before anything boots. Tells of the workloads that it has no traffic for.
fn laboratory<'a>(
    registry: &Registry,
    device: &Device,
    profile: &Profile,
    boots: &'a [Boot],
    workloads: &'a [Workload],
    said: &dyn Fn(&str),
) -> Result<Vec<(&'a Settings, &'a Workload, Plan)>, Error> {
    let mut all = Vec::new();
    for Boot { settings, .. } in boots {
        for workload in workloads {
            match lab::plan(registry, device, profile, settings, workload)? {
                Some(plan) => all.push((settings, workload, plan)),
                None => said(&format!("{}: the laboratory has no such traffic", workload.name)),
            }
        }
    }
    Ok(all)
}

/// Finds the kernels to boot, each with the builds of its modules, by side.
fn kernels(
    args: &Guest,
    device: &Device,
    said: &dyn Fn(&str),
) -> Result<Vec<(Option<&'static str>, Kernel)>, Error> {
    let mut all = Vec::new();
    let mut names = Vec::new();
    for name in self::names(args, device) {
        if Kernel::is_range(&name) {
            names.extend(Kernel::range(&name, device.arch, said)?);
        } else {
            names.push(name);
        }
    }
    for name in names {
        for (side, files) in sides(args) {
            let mut kernel = Kernel::find(&name, args.modules.as_deref(), device.arch, said)?;
            for file in files {
                kernel.replace(file)?;
            }
            all.push((side, kernel));
        }
    }
    Ok(all)
}

/// Boots each kernel with all settings, so many times. Returns the results of the workloads, and
/// what failed.
#[expect(clippy::too_many_arguments, reason = "a boot's, and how many")]
fn booted(
    setup: &Setup<'_>,
    machine: &Machine,
    kernels: &[(Option<&'static str>, Kernel)],
    boots: &[Boot],
    workloads: &[Workload],
    repeat: u32,
    said: &dyn Fn(&str),
    stop: &dyn Fn() -> bool,
) -> Result<(Vec<Run>, Failures), Error> {
    let (mut runs, mut failures) = (Vec::new(), Failures::default());
    for (side, kernel) in kernels {
        for Boot { settings, inside, machine: time } in boots {
            let virtual_time =
                time.as_ref().map(|m| VirtualTime { plan: &m.plan, prices: &m.prices });
            let setup = Setup { virtual_time, ..*setup };
            let mut all: Vec<Run> = Vec::new();
            for n in 0..repeat {
                let booted =
                    doorbell_guest::boot(&setup, machine, kernel, inside, workloads, said, stop);
                let booted = match booted {
                    Ok(booted) => booted,
                    Err(e @ doorbell_guest::Error::Interrupted) => return Err(e.into()),
                    Err(e) => {
                        failures.add(&kernel.name, None, e.into());
                        continue;
                    }
                };
                // Each boot has them.
                for warning in booted.warnings.iter().filter(|_| n == 0) {
                    said(&format!("{}: {warning}", kernel.name));
                }
                let measured = Run::of(&booted, kernel, settings, workloads);
                let side = side.map(str::to_owned);
                let measured = measured.into_iter().map(|r| Run { side: side.clone(), ..r });
                all.extend(measured);
                for failed in booted.failed {
                    failures.add(&kernel.name, Some(failed.workload), failed.error.into());
                }
            }
            for (run, differs) in Run::repeated(all, repeat, time.is_some()) {
                if let Some(differs) = differs {
                    let workload = Some(run.workload.clone());
                    failures.add(&kernel.name, workload, failed!("{differs}"));
                }
                runs.push(run);
            }
        }
    }
    Ok((runs, failures))
}

/// Boots and workloads that failed.
#[derive(Default)]
struct Failures(Vec<(Failure, Error)>);

impl Failures {
    fn add(&mut self, kernel: &str, workload: Option<String>, e: Error) {
        let failure = Failure { kernel: kernel.to_owned(), workload, error: e.to_string() };
        self.0.push((failure, e));
    }

    /// Tells of the failures beside results. Without a result, the first of them is the error.
    fn beside(self, runs: &[Run]) -> Result<Vec<Failure>, Error> {
        let mut all = self.0.into_iter();
        let first = if runs.is_empty() { all.next() } else { None };
        let told = |(failure, _): (Failure, Error)| {
            tell(&failure);
            failure
        };
        let failed = all.map(told).collect();
        first.map_or(Ok(failed), |(_, e)| Err(e))
    }
}

/// Returns the arguments that ask for this result, whatever is shown of it.
fn arguments(args: &Guest, workloads: &[String], is_virtual: bool) -> Vec<String> {
    let mut words = vec!["guest".to_owned(), args.device.clone()];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    let path = |path: &PathBuf| path.display().to_string();
    if !args.kernel.is_empty() {
        option("kernel", args.kernel.join(","));
    }
    args.driver.iter().for_each(|name| option("driver", name.clone()));
    args.modules.iter().for_each(|dir| option("modules", path(dir)));
    args.module.iter().for_each(|file| option("module", path(file)));
    args.against.iter().for_each(|file| option("against", path(file)));
    option("workload", workloads.join(","));
    option("clock", if is_virtual { "virtual" } else { "wall" }.to_owned());
    args.profile.iter().for_each(|name| option("profile", name.clone()));
    args.bus.iter().for_each(|name| option("bus", name.clone()));
    args.sets.iter().for_each(|set| option("set", set.clone()));
    args.across.iter().for_each(|across| option("across", across.clone()));
    args.pcap.iter().for_each(|file| option("pcap", path(file)));
    option("cpus", args.cpus.to_string());
    if args.repeat > 1 {
        option("repeat", args.repeat.to_string());
    }
    let counted = args.instructions.to_possible_value();
    counted.iter().for_each(|value| option("instructions", value.get_name().to_owned()));
    let flags =
        [(args.mmio, "--mmio"), (args.inclusive, "--inclusive"), (args.beside_lab, "--beside-lab")];
    words.extend(flags.iter().filter(|(given, _)| *given).map(|(_, name)| (*name).to_owned()));
    words
}

/// A boot of each kernel.
struct Boot {
    /// All settings, for the result.
    settings: Settings,
    /// Those inside the guest.
    inside: Settings,
    /// The machine, in virtual time.
    machine: Option<machine::Machine>,
}

/// Returns true for virtual time: it was asked for, or nobody asked for a clock and it can be.
fn is_virtual(args: &Guest, device: &Device, workloads: &[Workload]) -> bool {
    let can = || {
        args.bus.is_none()
            && machine::default_profile(device).is_some()
            && doorbell_guest::check_virtual_time(args.cpus, workloads).is_ok()
    };
    args.clock.map_or_else(can, |clock| clock == GuestClock::Virtual)
}

/// Returns the boots on this machine's clock.
fn wall_boots(
    args: &Guest,
    variants: Vec<Settings>,
    workloads: &[Workload],
) -> Result<Vec<Boot>, Error> {
    if args.beside_lab {
        return Err(input!("--beside-lab: it needs --clock virtual"));
    }
    if args.profile.is_some() {
        return Err(input!("--profile: it is the machine of --clock virtual"));
    }
    if args.pcap.is_some() {
        return Err(input!("--pcap: its frames need the peer of --clock virtual"));
    }
    doorbell_guest::check_wall(workloads)?;
    let boot = |settings: Settings| {
        settings::check(&settings, workloads)?;
        Ok(Boot { inside: settings.clone(), settings, machine: None })
    };
    variants.into_iter().map(boot).collect()
}

/// Returns the boots in virtual time, and the profile of their machine.
fn virtual_boots(
    registry: &Registry,
    args: &Guest,
    device: &Device,
    variants: Vec<Settings>,
    workloads: &[Workload],
) -> Result<(Option<Profile>, Vec<Boot>), Error> {
    if args.bus.is_some() {
        return Err(input!("--bus: in virtual time the bus is the profile's (--profile, --set)"));
    }
    let profile = machine::profile(registry, device, args.profile.as_deref())?;
    doorbell_guest::check_virtual_time(args.cpus, workloads)?;
    let captured = machine::captured(args.pcap.as_deref())?;
    let boot = |settings: Settings| {
        let pattern = settings.iter().rfind(|(key, _)| key == "pattern");
        let asked = pattern.is_some_and(|(_, pattern)| pattern == "capture");
        if asked == captured.is_empty() {
            return Err(input!(
                "--pcap: a capture and --workload arrivals --set pattern=capture belong together"
            ));
        }
        let machine = machine::Machine::of(device, &profile, &settings, &captured)?;
        settings::check(&machine.inside, workloads)?;
        if !machine.prices.functions.is_empty() && args.instructions == Instructions::Off {
            let why = "costs of functions need instructions counted";
            return Err(input!("--instructions off: {why}"));
        }
        let (key, mut all) = (machine::INSTRUCTION.0, settings);
        match all.iter_mut().rfind(|(k, _)| k == key) {
            // A file says what is in it.
            Some((_, value)) if machine::is_file(value) => *value = machine.prices.to_string(),
            Some(_) => {}
            None => all.push((key.to_owned(), machine::INSTRUCTION.1.to_owned())),
        }
        Ok(Boot { inside: machine.inside.clone(), settings: all, machine: Some(machine) })
    };
    let boots = variants.into_iter().map(boot).collect::<Result<_, Error>>()?;
    Ok((Some(profile), boots))
}

/// Returns the names of the kernels to boot.
fn names(args: &Guest, device: &Device) -> Vec<String> {
    if !args.kernel.is_empty() {
        return args.kernel.clone();
    }
    // Linux instantiates devices of a device tree behind PCI since 7.0.
    let version = if device.arch == Arch::Arm64 { "7.3" } else { "6.12" };
    vec![format!("debian:{version}")]
}

/// Returns the builds of modules that stand beside each other, by side: A is `--module`, or none,
/// and B `--against`. Without the latter there are no sides.
fn sides(args: &Guest) -> Vec<(Option<&'static str>, &[PathBuf])> {
    match &args.against[..] {
        [] => vec![(None, &args.module)],
        against => vec![(Some("A"), &args.module), (Some("B"), against)],
    }
}

/// Returns the settings of each boot: `--set`, and a value of `--across`.
fn variants(args: &Guest) -> Result<Vec<Settings>, Error> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(input!("--set {text}: expected key=value")),
    };
    let fixed: Settings = args.sets.iter().map(pair).collect::<Result<_, Error>>()?;
    let Some(across) = &args.across else { return Ok(vec![fixed]) };
    let Axis { key, values, .. } = Axis::parse("--across", across)?;
    let with = |value| [&fixed[..], &[(key.clone(), value)]].concat();
    Ok(values.into_iter().map(with).collect())
}
