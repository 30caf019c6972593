//! `doorbell serve`: a device model for somebody else's driver.
//!
//! A guest's own driver drives the lab's own device over vfio-user, and the ledger counts
//! what crosses. There is no virtual time: the device's timers and its wire run on this
//! machine's monotonic clock, effects are immediate, and there are counts but no rates.
//!
//! [`devices`] says what can be served, [`uplink`] where frames go, [`bill`] counts,
//! [`metrics`] shows the counts while it runs, [`turns`] is the loop.

mod bill;
mod devices;
mod metrics;
mod report;
mod turns;
mod uplink;

use crate::args::Serve;
use crate::output::{Capture, plain};
use crate::{DONE, Error};
use bill::Bill;
use devices::{DEVICES, PLATFORMS, Platform};
use doorbell_attach::pcap::Writer;
use doorbell_attach::vfio_user::Listener;
use metrics::Metrics;
use uplink::Uplink;

/// Names of all devices that can be served, with a word about each.
fn known() -> String {
    DEVICES.iter().map(|d| d.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn serve(args: &Serve) -> Result<u8, Error> {
    let entry = DEVICES
        .iter()
        .find(|d| d.name == args.device)
        .ok_or_else(|| Error::input(format!("no device is called `{}`; there are: {}", args.device, known())))?;
    let mac = args.mac.as_deref().map(station).transpose()?;
    let named = args.bus.as_deref().unwrap_or(entry.bus);
    let platform = Platform::find(named).ok_or_else(|| {
        let names: Vec<&str> = PLATFORMS.iter().map(|p| p.name).collect();
        Error::input(format!("--bus {named}: allowed are {}", names.join(", ")))
    })?;
    let uplink = Uplink::open(&args.uplink)?;
    let capture = match &args.capture {
        None => None,
        Some(path) => {
            let mut writer = Writer::create(path).map_err(|e| Error::input(plain(&e)))?;
            let wire = writer
                .interface("wire", entry.bits_per_second)
                .map_err(|e| Error::input(format!("{}: {}", path.display(), plain(&e))))?;
            Some(Capture { writer, wire })
        }
    };
    let trace = args.trace.as_deref().map(bill::Trace::create).transpose()?;
    let metrics = args.metrics.as_deref().map(Metrics::listen).transpose()?;
    let socket = Listener::bind(&args.socket)
        .map_err(|e| Error::input(format!("--socket {}: {}", args.socket.display(), plain(&e))))?;
    let bill = Bill::new(platform.rules(), uplink, capture, trace);
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
        },
    )?;
    Ok(DONE)
}

/// A station address.
fn station(text: &str) -> Result<[u8; 6], Error> {
    let wrong = || Error::input(format!("--mac {text}: allowed are unicast addresses such as 52:54:00:db:00:01"));
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|p| (1..=2).contains(&p.len())).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() || mac[0] & 1 == 1 || mac == [0; 6] { Err(wrong()) } else { Ok(mac) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_address_is_unicast() {
        assert_eq!(station("52:54:0:db:00:01").ok(), Some([0x52, 0x54, 0, 0xdb, 0, 1]));
        assert_eq!(station("52-54-00-db-00-01").ok(), Some([0x52, 0x54, 0, 0xdb, 0, 1]));
        for wrong in [
            "",
            "52:54:00:db:00",
            "52:54:00:db:00:01:02",
            "53:54:00:db:00:01",
            "0:0:0:0:0:0",
            "g:0:0:0:0:1",
            "+1:0:0:0:0:1",
        ] {
            assert!(station(wrong).is_err(), "{wrong}");
        }
    }
}
