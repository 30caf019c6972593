//! `doorbell serve`: a device model for somebody else's driver.
//!
//! A guest's own driver drives the lab's own device over vfio-user, and the ledger counts
//! what crosses. There is no virtual time: the device's timers and its wire run on this
//! machine's monotonic clock, effects are immediate, and there are counts but no rates.
//!
//! [`devices`] says what can be served, [`uplink`] where frames go, [`bill`] counts,
//! [`metrics`] shows the counts while it runs, [`turns`] is the loop. [`virtual_io`] has the
//! devices that are reached by hypervisor calls, [`calls`] their loop, and [`control`] what can be
//! asked of them meanwhile.

mod axi;
mod bill;
mod calls;
mod control;
mod devices;
mod metrics;
mod report;
mod turns;
mod uplink;
mod virtual_io;

use crate::args::Serve;
use crate::output::{Capture, plain};
use crate::{DONE, Error};
use bill::Bill;
use control::Control;
use devices::{DEVICES, PLATFORMS, Platform};
use doorbell_bus::Meter;
use doorbell_host_io::pcap::Writer;
use doorbell_papr_io::Unit;
use doorbell_vfio_user::Listener;
use metrics::Metrics;
use std::path::Path;
use uplink::Uplink;

/// Names of all devices that can be served.
pub(crate) fn devices() -> impl Iterator<Item = &'static str> {
    DEVICES.iter().map(|d| d.name).chain(virtual_io::KINDS.iter().map(|k| k.name))
}

/// Names of the buses by whose rules they can be counted.
pub(crate) fn buses() -> impl Iterator<Item = &'static str> {
    PLATFORMS.iter().map(|p| p.name)
}

fn known() -> String {
    devices().collect::<Vec<_>>().join(", ")
}

/// Whether a device of this name can be served, or what can.
pub(crate) fn device(name: &str) -> Result<(), String> {
    if devices().any(|d| d == name) {
        Ok(())
    } else {
        Err(format!("no device is called `{name}`; there are: {}", known()))
    }
}

/// What a report says of the bus of this name, or which there are.
pub(crate) fn bus(name: &str) -> Result<&'static str, String> {
    let names = || buses().collect::<Vec<_>>().join(", ");
    Platform::find(name)
        .map(|p| p.about)
        .ok_or_else(|| format!("no bus is called `{name}`; there are: {}", names()))
}

pub(crate) fn serve(args: &Serve) -> Result<u8, Error> {
    if let Some(kind) = virtual_io::KINDS.iter().find(|k| k.name == args.device) {
        return behind_calls(args, kind);
    }
    let entry = DEVICES.iter().find(|d| d.name == args.device).ok_or_else(|| {
        Error::input(format!("no device is called `{}`; there are: {}", args.device, known()))
    })?;
    for (given, what) in [
        (args.trunk, "--trunk"),
        (args.control.is_some(), "--control"),
        (args.unit.is_some(), "--unit"),
    ] {
        if given {
            return Err(Error::input(format!("{what}: {} has none", entry.name)));
        }
    }
    let Some(path) = &args.socket else {
        return Err(Error::input(format!(
            "{} is a PCI device: --socket, and vfio-user",
            entry.name
        )));
    };
    let mac = args.mac.as_deref().map(station).transpose()?;
    let named = args.bus.as_deref().unwrap_or(entry.bus);
    let platform = Platform::find(named).ok_or_else(|| {
        Error::input(format!(
            "--bus {named}: allowed are {}",
            buses().collect::<Vec<_>>().join(", ")
        ))
    })?;
    if (named == "axi") != (entry.bus == "axi") {
        return Err(Error::input(format!(
            "--bus {named}: AXI is axi-ethernet's, and no other is; {} is on {}",
            entry.name, entry.bus
        )));
    }
    let fail_every = args.fault.as_deref().map_or(Ok(0), |f| fault(f, entry.name))?;
    let (bill, metrics, socket) =
        outside(args, platform.rules(), entry.bits_per_second, "--socket", path)?;
    (entry.serve)(
        entry,
        mac,
        bill,
        turns::Around {
            socket,
            metrics,
            bus: platform.about,
            format: args.format,
            quiet: args.quiet,
            trap_doorbells: args.trap_doorbells,
            fail_every,
        },
    )?;
    Ok(DONE)
}

/// A device that guests reach by hypervisor calls.
fn behind_calls(args: &Serve, kind: &virtual_io::Kind) -> Result<u8, Error> {
    let Some(path) = &args.plugin_socket else {
        return Err(Error::input(format!(
            "{} is reached by hypervisor calls: --plugin-socket, and the plug-in in QEMU",
            kind.name
        )));
    };
    for (given, what) in [
        (args.mac.is_some(), "--mac"),
        (args.bus.is_some(), "--bus"),
        (args.trap_doorbells, "--trap-doorbells"),
        (args.fault.is_some(), "--fault"),
        (args.trunk && kind.name != "veth", "--trunk"),
        (args.control.is_some() && kind.name != "vnic", "--control"),
    ] {
        if given {
            return Err(Error::input(format!("{what}: {} has none", kind.name)));
        }
    }
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let unit = args.unit.as_deref().map_or(Ok(kind.unit.address), unit_address)?;
    let unit = Unit { address: unit, ..kind.unit };
    let (bill, metrics, socket) =
        outside(args, Meter::Hypervisor, kind.bits_per_second, "--plugin-socket", path)?;
    (kind.serve)(
        kind,
        virtual_io::Setup { partitions: args.partitions.into(), trunk: args.trunk, unit },
        bill,
        calls::Around { socket, metrics, control, format: args.format, quiet: args.quiet },
    )?;
    Ok(DONE)
}

/// The bill with wire and files, the page, and the socket: in this order, so that what is wrong is
/// told first.
fn outside(
    args: &Serve,
    meter: Meter,
    bits_per_second: u64,
    option: &str,
    path: &Path,
) -> Result<(Bill, Option<Metrics>, Listener), Error> {
    let uplink = Uplink::open(&args.uplink)?;
    let capture = match &args.capture {
        None => None,
        Some(path) => {
            let mut writer = Writer::create(path).map_err(|e| Error::input(plain(&e)))?;
            let wire = writer
                .interface("wire", bits_per_second)
                .map_err(|e| Error::input(format!("{}: {}", path.display(), plain(&e))))?;
            Some(Capture { writer, wire })
        }
    };
    let trace = args.trace.as_deref().map(bill::Trace::create).transpose()?;
    let metrics = args.metrics.as_deref().map(Metrics::listen).transpose()?;
    let socket = Listener::bind(path)
        .map_err(|e| Error::input(format!("{option} {}: {}", path.display(), plain(&e))))?;
    Ok((Bill::new(meter, uplink, capture, trace), metrics, socket))
}

/// `wqe@N`: one WQE in so many fails.
fn fault(text: &str, device: &str) -> Result<u32, Error> {
    let every = text
        .strip_prefix("wqe@")
        .and_then(|n| n.parse().ok())
        .filter(|n| *n > 0 && device == "mlx5");
    every.ok_or_else(|| {
        Error::input(format!("--fault {text}: allowed is wqe@N, of mlx5: one WQE in N fails"))
    })
}

/// A unit address. Those above are QEMU's own to give.
fn unit_address(text: &str) -> Result<u32, Error> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let unit = u32::from_str_radix(digits, 16)
        .ok()
        .filter(|u| (1..0x7100_0000).contains(u) && !digits.starts_with('+'));
    unit.ok_or_else(|| {
        Error::input(format!("--unit {text}: allowed are hexadecimal numbers from 1 to 70ffffff"))
    })
}

/// A station address.
fn station(text: &str) -> Result<[u8; 6], Error> {
    let wrong = || {
        Error::input(format!(
            "--mac {text}: allowed are unicast addresses such as 52:54:00:db:00:01"
        ))
    };
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len())).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() || mac[0] & 1 == 1 || mac == [0; 6] { Err(wrong()) } else { Ok(mac) }
}

/// A report with one of everything, as a program reads it.
#[cfg(test)]
pub(crate) fn a_report() -> String {
    let ledger = vec![("wire_frames", "", 1)];
    let report = report::Report {
        device: "e1000",
        bus: "",
        connected: true,
        clients: 1,
        ledger,
        counters: vec![("x", 1)],
    };
    report.show(crate::args::Format::Json)
}

#[cfg(test)]
mod tests;
