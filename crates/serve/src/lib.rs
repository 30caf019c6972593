//! `doorbell serve`: a device model for somebody else's driver.
//!
//! A guest's own driver drives the lab's own device over vfio-user or by hypervisor calls, and the
//! ledger counts what crosses. There is no virtual time: timers and wire run on this machine's
//! monotonic clock, effects are immediate, and there are counts but no rates.
#![forbid(unsafe_code)]

mod args;
#[cfg(any(test, fuzzing))]
mod attack;
mod axi;
mod bill;
mod context;
mod control;
mod devices;
mod event_loop;
mod hcall;
mod metrics;
mod outlet;
mod report;
mod uplink;
mod vfio;
mod vio_devices;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

pub use args::{ClientLimits, Serve};
pub use report::{Report, Served};

use args::{NEWCOMERS, PARTITIONS, REPLY_TIMEOUT};
use bill::Bill;
use context::{ServeContext, SharedBill};
use control::Control;
use devices::{DEVICES, PLATFORMS, Platform};
pub use devices::{Model, PciDevice};
use doorbell_bus::Meter;
use doorbell_console::output::{Capture, Output, apart, is_collected, parent};
use doorbell_console::progress::Interrupt;
use doorbell_console::{Error, failed, input};
use doorbell_host_io::sandbox::Sandbox;
use doorbell_papr_io::UNITS;
use doorbell_vfio_user::Listener;
pub use doorbell_vfio_user::{Bar, BarOffset, Capability, Identity, PolledPages};
use metrics::Metrics;
use outlet::{Notices, Outlet};
use std::{cell::RefCell, collections::BTreeSet, io, path::Path, rc::Rc};
use uplink::Uplink;
use vfio::Card;

/// The devices that can be served: those of a program's own, and those of this repository.
#[derive(Clone, Copy, Debug, Default)]
pub struct Devices(pub &'static [PciDevice]);

impl Devices {
    fn on_pci(self) -> impl Iterator<Item = &'static PciDevice> {
        self.0.iter().chain(&DEVICES)
    }

    /// Returns their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.on_pci().map(|d| d.name).chain(vio_devices::KINDS.iter().map(|k| k.adapter.name))
    }

    /// Returns whether a device of the program's own is on PCI Express, if this is one.
    pub fn is_on_express(self, name: &str) -> Option<bool> {
        self.0.iter().find(|d| d.name == name).map(|d| d.bus.starts_with("pcie"))
    }

    /// Fails unless there is a device of this name.
    ///
    /// # Errors
    /// There is none. The error has all of them.
    pub fn find(self, name: &str) -> Result<(), UnknownName> {
        let unknown =
            || UnknownName { kind: "device", name: name.into(), known: self.names().collect() };
        self.names().find(|d| *d == name).map(drop).ok_or_else(unknown)
    }

    /// Returns the description of the bus by whose rules a device is counted unless another is
    /// named.
    pub fn bus_of(self, device: &str) -> Option<&'static str> {
        if vio_devices::KINDS.iter().any(|k| k.adapter.name == device) {
            return Some(hcall::BUS);
        }
        self.on_pci().find(|d| d.name == device).and_then(|d| bus(d.bus).ok())
    }
}

/// Returns the names of the buses by whose rules a device can be counted.
pub fn buses() -> impl Iterator<Item = &'static str> {
    PLATFORMS.iter().map(|p| p.name)
}

/// A device or a bus that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("no {kind} is called `{name}`; there are: {}", .known.join(", "))]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    known: Vec<&'static str>,
}

/// Returns the description of the bus of this name in a report.
pub fn bus(name: &str) -> Result<&'static str, UnknownName> {
    let unknown = || UnknownName { kind: "bus", name: name.into(), known: buses().collect() };
    Platform::find(name).map(|p| p.about).ok_or_else(unknown)
}

/// Reports that wait for the reader of stdout.
const REPORTS: usize = 4;

/// Devices that have an option which others have not.
const BEHIND_CALLS: &str = "vnic and veth";
const BEHIND_A_SOCKET: &str = "devices with --socket";

/// Refuses options that a device does not have. Each is followed by those that have it.
fn without(device: &str, options: &[(bool, &str, &str)]) -> Result<(), Error> {
    match options.iter().find(|(given, ..)| *given) {
        Some((_, option, who)) => Err(input!("{option}: {device} has none, only {who}")),
        None => Ok(()),
    }
}

/// Runs the command. Returns its exit code.
///
/// # Errors
/// Wrong input, a socket or file that cannot be used, or a server that cannot go on.
pub fn serve(devices: Devices, args: &Serve) -> Result<u8, Error> {
    if let Some(kind) = vio_devices::KINDS.iter().find(|k| k.adapter.name == args.device) {
        return behind_calls(args, kind);
    }
    devices.find(&args.device).map_err(|e| input!("{e}"))?;
    let Some(entry) = devices.on_pci().find(|d| d.name == args.device) else {
        unreachable!("a device that can be served is in one of the tables");
    };
    let name = entry.name;
    let Some(path) = &args.socket else {
        return Err(input!("{name} is a PCI device: it needs --socket PATH, for vfio-user"));
    };
    without(
        name,
        &[
            (args.trunk, "--trunk", "veth"),
            (args.control.is_some(), "--control", "vnic"),
            (args.unit.is_some(), "--unit", BEHIND_CALLS),
            (args.partitions != PARTITIONS, "--partitions", BEHIND_CALLS),
            (args.min_lso_mss > 0, "--min-lso-mss", BEHIND_CALLS),
            (args.limits.newcomers != NEWCOMERS, "--newcomers", BEHIND_CALLS),
            (args.allow_mac_change, "--allow-mac-change", BEHIND_CALLS),
            (args.allow_promiscuous, "--allow-promiscuous", BEHIND_CALLS),
            (args.trap_doorbells && name != "mlx5", "--trap-doorbells", "mlx5"),
        ],
    )?;
    let mac = args.mac.as_deref().map(mac).transpose()?;
    let named = args.bus.as_deref().unwrap_or(entry.bus);
    let platform = Platform::find(named).ok_or_else(|| {
        input!("--bus {named}: allowed are {}", buses().collect::<Vec<_>>().join(", "))
    })?;
    if (named == "axi") != (entry.bus == "axi") {
        return Err(input!(
            "--bus {named}: only axi-ethernet is on AXI, and only there; {name} is on {}",
            entry.bus
        ));
    }
    let fail_every = args.fault.as_deref().map_or(Ok(0), |f| fault(f, name))?;
    let card = Card {
        name,
        bus: platform.about,
        bits_per_second: entry.bits_per_second,
        mac,
        trap_doorbells: args.trap_doorbells,
        fail_every,
    };
    let (bill, context) =
        surroundings(args, platform.rules(), entry.bits_per_second, "--socket", path)?;
    (entry.serve)(card, bill, context)
}

/// Serves a device that guests reach by hypervisor calls.
fn behind_calls(args: &Serve, kind: &vio_devices::Kind) -> Result<u8, Error> {
    let mut adapter = kind.adapter;
    let name = adapter.name;
    let Some(path) = &args.plugin_socket else {
        return Err(input!(
            "{name} is reached by hypervisor calls: it needs --plugin-socket PATH, and the plug-in \
             in QEMU"
        ));
    };
    without(
        name,
        &[
            (args.bus.is_some(), "--bus", BEHIND_A_SOCKET),
            (args.limits.reply_timeout != REPLY_TIMEOUT, "--reply-timeout", BEHIND_A_SOCKET),
            (args.trap_doorbells, "--trap-doorbells", "mlx5"),
            (args.fault.is_some(), "--fault", "mlx5"),
            (args.trunk && name != "veth", "--trunk", "veth"),
            (args.control.is_some() && name != "vnic", "--control", "vnic"),
        ],
    )?;
    if args.trunk && args.uplink != "none" {
        return Err(input!(
            "--uplink {}: with --trunk nothing else is behind the switch; allowed is none",
            args.uplink
        ));
    }
    let own = adapter.unit.address;
    adapter.unit.address = args.unit.as_deref().map_or(Ok(own), unit_address)?;
    if args.trunk && args.min_lso_mss > 0 {
        return Err(input!("--min-lso-mss: with --trunk no adapter is behind the switch"));
    }
    let setup = vio_devices::Setup {
        partitions: args.partitions.into(),
        given: addresses(args)?,
        trunk: args.trunk,
        min_lso_mss: args.min_lso_mss,
        mac_change: args.allow_mac_change,
        promiscuous: args.allow_promiscuous,
    };
    let (bill, context) =
        surroundings(args, Meter::Hypervisor, adapter.bits_per_second, "--plugin-socket", path)?;
    (kind.serve)(adapter, setup, bill, context)
}

/// Opens pipe, wire, files, page and socket, in this order, so that wrong arguments are reported
/// first. Watches for signals before it makes any of them.
fn surroundings(
    args: &Serve,
    meter: Meter,
    bits_per_second: u64,
    option: &str,
    path: &Path,
) -> Result<(SharedBill, ServeContext), Error> {
    let written = [&args.capture, &args.trace].map(|p| p.as_deref());
    let written: Vec<&Path> = written.into_iter().flatten().collect();
    apart(&written, args.uplink.strip_prefix("pcap:").map(Path::new).as_slice())?;
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let watch = || Interrupt::patient().map_err(|e| failed!("{e}"));
    let (uplink, stop) = if args.uplink.starts_with("pcap:") {
        // The capture may come from a pipe, and a signal ends the wait for it.
        (Uplink::open(&args.uplink)?, watch()?)
    } else {
        let stop = watch()?;
        (Uplink::open(&args.uplink)?, stop)
    };
    let capture = args.capture.as_deref().map(|path| Capture::create(path, bits_per_second));
    let capture = capture.transpose()?;
    let limit = |mib: Option<u64>| mib.map_or(u64::MAX, |n| n << 20);
    let trace = |path: &Path| bill::Trace::create(path, limit(args.trace_limit));
    let trace = args.trace.as_deref().map(trace).transpose()?;
    let metrics = args.metrics.as_deref().map(|address| Metrics::listen(address, &args.limits));
    let metrics = metrics.transpose()?;
    let place = format!("{option} {}", path.display());
    let socket = Listener::bind(path).map_err(Error::at(place))?;
    let Output { format, quiet } = args.output;
    let mut bill = Bill::new(meter, uplink, capture, trace);
    bill.capture_limit = limit(args.capture_limit);
    let bill = Rc::new(RefCell::new(bill));
    let stderr = Outlet::of("notices", outlet::LINES, io::stderr()).map_err(Error::at("stderr"))?;
    let stdout = || Outlet::of("reports", REPORTS, io::stdout()).map_err(Error::at("stdout"));
    let reports = (!is_collected()).then(stdout).transpose()?;
    let (populate, limits) = (args.populate, args.limits);
    let sandbox = (!args.no_sandbox).then(|| sandbox(args, path));
    let check_wire = args.check_wire;
    let c = ServeContext {
        stop,
        socket,
        metrics,
        control,
        format,
        quiet,
        notices: RefCell::new(Notices::new(stderr)),
        reports,
        populate,
        limits,
        check_wire,
        sandbox,
    };
    Ok((bill, c))
}

/// Returns what a server needs when everything is open: the names of its sockets, which go at the
/// end, and of a capture, which gets its place. The peer of a stream comes back.
fn sandbox(args: &Serve, socket: &Path) -> Sandbox {
    let wire = args.uplink.strip_prefix("socket:").map(Path::new);
    // A link stays, and the file that it names is replaced.
    let capture = args.capture.as_deref().map(|p| p.canonicalize().unwrap_or(p.to_owned()));
    let files = [Some(socket), capture.as_deref(), wire];
    let sandbox = Sandbox::default();
    let sandbox = if wire.is_some() { sandbox.with_unix_sockets() } else { sandbox };
    files.into_iter().flatten().map(parent).fold(sandbox, Sandbox::with_names_in)
}

/// Parses `wqe@N`: one WQE in N fails.
fn fault(text: &str, device: &str) -> Result<u32, Error> {
    let every = text.strip_prefix("wqe@").and_then(|n| n.parse().ok());
    every
        .filter(|n| *n > 0 && device == "mlx5")
        .ok_or_else(|| input!("--fault {text}: allowed is wqe@N, of mlx5: one WQE in N fails"))
}

/// Parses a unit address. QEMU assigns the addresses above these itself.
fn unit_address(text: &str) -> Result<u32, Error> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let unit = u32::from_str_radix(digits, 16).ok();
    unit.filter(|u| UNITS.contains(u) && !digits.starts_with('+'))
        .ok_or_else(|| input!("--unit {text}: allowed are hexadecimal numbers from 1 to 70ffffff"))
}

/// Parses a unicast MAC address.
fn mac(text: &str) -> Result<[u8; 6], Error> {
    let byte = |part: &str| {
        let is_byte = (1..=2).contains(&part.len());
        u8::from_str_radix(part, 16).ok().filter(|_| is_byte)
    };
    let bytes: Option<Vec<u8>> = text.split([':', '-']).map(byte).collect();
    let mac = bytes.and_then(|b| <[u8; 6]>::try_from(b).ok());
    mac.filter(|m| m[0] & 1 == 0 && *m != [0; 6]).ok_or_else(|| {
        input!("--mac {text}: allowed are unicast addresses such as 52:54:00:db:00:01")
    })
}

/// Returns the addresses that the hypervisor gives its partitions; none if a guest chooses, who is
/// alone or may change its address anyway.
fn addresses(args: &Serve) -> Result<Vec<[u8; 6]>, Error> {
    match &args.mac {
        Some(list) => macs(list, args.partitions),
        None if args.partitions == PARTITIONS || args.allow_mac_change => Ok(Vec::new()),
        None => Ok((1..=args.partitions).map(|n| [0x52, 0x54, 0, 0xdb, 0, n]).collect()),
    }
}

/// Parses the addresses of all partitions, which differ.
fn macs(list: &str, partitions: u8) -> Result<Vec<[u8; 6]>, Error> {
    let all = list.split(',').map(mac).collect::<Result<Vec<_>, _>>()?;
    let different: BTreeSet<_> = all.iter().collect();
    if all.len() != usize::from(partitions) || different.len() < all.len() {
        return Err(input!(
            "--mac {list}: allowed is an address for each of the {partitions} partitions, each \
             another, with commas between them"
        ));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
