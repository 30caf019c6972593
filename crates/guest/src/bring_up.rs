//! The way of a guest from its kernel to an interface that is up.

use crate::initramfs::Archive;
use crate::instructions::{Event, Symbols, SymbolsError, built_in};
use crate::kernel::Kernel;
use crate::net::{self, GUEST, HOST, HOST_MAC};
use crate::session::Setup;
use crate::settings::{self, Settings};
use crate::workload::{Workload, quoted};
use crate::{Error, Machine};

/// The guest's interface.
const NIC: &str = "eth0";

/// Returns the modules that do the driver's work: its own, and all that those need. Of what is
/// built into the kernel the functions are counted if their names or the objects of its build tree
/// tell them, or it is refused.
pub(crate) fn driver(
    setup: &Setup<'_>,
    kernel: &Kernel,
    settings: &Settings,
) -> Result<Vec<String>, Error> {
    let own = [setup.device.beside, &[setup.device.driver]].concat();
    let mut all = kernel.load_order(&own)?;
    for module in own.into_iter().filter(|module| kernel.modules.has_built_in(module)) {
        let is_known = built_in::names(module).is_some();
        if setup.instructions && !is_known && kernel.modules.objects(module)?.is_empty() {
            let (kernel, module) = (kernel.name.clone(), module.to_owned());
            return Err(Error::BuiltIn { kernel, module });
        }
        if module == setup.device.driver && !settings::parameters(settings).is_empty() {
            return Err(Error::Input(format!(
                "--set module.NAME: {} has `{module}` built in, which takes no parameters then",
                kernel.name
            )));
        }
        all.push(module.replace('-', "_"));
    }
    if setup.inclusive && followed(&all).is_empty() {
        let driver = setup.device.driver;
        return Err(Error::Input(format!(
            "--inclusive: the functions of `{driver}` that send and poll are not known here"
        )));
    }
    Ok(all)
}

/// The word of such a line.
pub(crate) const FOLLOW: &str = "inside ";

/// Returns the lines that have the calls of a driver's functions followed.
fn followed(driver: &[String]) -> Vec<String> {
    let line = |event: Event, module: &String| {
        let functions = event.functions(module).collect::<Vec<_>>().join("|");
        let named = !functions.is_empty();
        named.then(|| format!("{FOLLOW}{} '{functions}' {module}", event.name()))
    };
    let of = |event| driver.iter().filter_map(move |module| line(event, module));
    Event::FOLLOWED.into_iter().flat_map(of).collect()
}

/// Reads the kernel's `/proc/kallsyms`, with the functions of the driver's modules that are built
/// in.
pub(crate) fn symbols(
    kallsyms: &str,
    kernel: &Kernel,
    driver: &[String],
) -> Result<Symbols, SymbolsError> {
    let mut symbols = Symbols::parse(kallsyms)?;
    for module in driver.iter().filter(|module| kernel.modules.has_built_in(module)) {
        match built_in::names(module) {
            Some(names) => symbols.give(module, names),
            // They were read before the boot.
            None => {
                let objects = kernel.modules.objects(module).unwrap_or_default();
                symbols.give_text(module, &objects)?;
            }
        }
    }
    Ok(symbols)
}

/// Returns the modules of driver and workloads in the order in which they are loaded. The driver's
/// own is apart from those that come before and behind it.
pub(crate) fn load_order(
    setup: &Setup<'_>,
    kernel: &Kernel,
    workloads: &[Workload],
) -> Result<Vec<String>, Error> {
    let mut wanted = setup.device.beside.to_vec();
    wanted.push(setup.device.driver);
    wanted.extend(workloads.iter().flat_map(|w| w.modules.iter().map(String::as_str)));
    kernel.load_order(&wanted)
}

/// Lines of the guest's shell. Those with a text are tests to wait for, and it says what their
/// failure means.
pub(crate) type Steps = Vec<(String, Option<String>)>;

/// Returns the steps that load the modules and bring the interface up, if any workload has one.
/// `all` are the driver's modules.
pub(crate) fn bring_up_steps(
    setup: &Setup<'_>,
    order: &[String],
    all: &[String],
    settings: &Settings,
    workloads: &[Workload],
) -> Steps {
    let mut steps = Steps::new();
    let driver = setup.device.driver;
    for module in order {
        let own = *module == driver.replace('-', "_");
        let parameters = if own { settings::parameters(settings) } else { String::new() };
        steps.push((format!("insmod /m/{module}.ko{parameters}"), None));
    }
    let prices = setup.virtual_time.map(|time| time.prices.lines()).filter(|l| !l.is_empty());
    if setup.inclusive || prices.is_some() {
        steps.push(("echo 0 >/proc/sys/kernel/kptr_restrict".to_owned(), None));
    }
    steps.extend(prices.map(|lines| (format!("prices {}", quoted(&lines)), None)));
    if setup.inclusive {
        // Before the first of them is executed.
        steps.extend(followed(all).into_iter().map(|line| (line, None)));
    }
    if workloads.iter().all(|workload| !workload.has_interface) {
        return steps;
    }
    let none = format!("the driver {driver} has made no interface");
    steps.push((format!("[ -e /sys/class/net/{NIC} ]"), Some(none)));
    let host = net::text(HOST_MAC);
    steps.push((format!("NIC={NIC} GUEST={GUEST} HOST={HOST} HOST_MAC={host}"), None));
    // Some of them a driver takes only while the interface is down.
    steps.extend(settings::commands(settings).into_iter().map(|command| (command, None)));
    steps.push(("ip link set $NIC up && ip addr add $GUEST/24 dev $NIC".to_owned(), None));
    let none = format!("the interface of {driver} has no carrier");
    steps.push((format!("[ \"$(cat /sys/class/net/{NIC}/carrier)\" = 1 ]"), Some(none)));
    // Nobody asks whether the other is there: that would be a frame more now and then.
    let neighbour = "ip neigh replace $HOST lladdr $HOST_MAC nud permanent dev $NIC";
    steps.push((neighbour.to_owned(), None));
    steps
}

/// Returns the messages of warning level and worse in what `dmesg -r` printed.
pub(crate) fn warnings(said: &str) -> Vec<String> {
    let serious = |line: &&str| {
        let level = line.strip_prefix('<').and_then(|l| l.split_once('>')?.0.parse().ok());
        level.is_some_and(|l: u32| l & 7 <= 4)
    };
    let text = |line: &str| line.split_once('>').map_or(line, |(_, text)| text).to_owned();
    said.lines().filter(serious).map(text).collect()
}

/// Packs the guest's file system. With a script, the guest runs it and ends.
pub(crate) fn pack(
    machine: &Machine,
    kernel: &Kernel,
    modules: &[String],
    workloads: &[Workload],
    settings: &Settings,
    script: Option<&str>,
) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::of(machine, kernel, modules)?;
    if let Some(script) = script {
        let words = include_str!("virtual.sh");
        archive.plain("script", format!("{words}{script}").as_bytes());
    }
    for workload in workloads {
        archive.plain(&format!("w/{}", workload.name), workload.with(settings).as_bytes());
    }
    Ok(archive.finish())
}
