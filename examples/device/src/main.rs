//! The command on a device and a driver of one's own: `cargo run --release -- run mynic-send`
//!
//! `src/device.rs` is the device, `src/driver.rs` its driver; this file says how they are made.
//! Every command that runs a system takes it: `run`, `compare`, `sweep`, `rank`, `advise`, `check`,
//! `report`, `list`. `serve` and `guest` have the device for a virtual machine.

use device::{Config, Counters, Nic};
use doorbell::card::system;
use doorbell::key::{Key, Values};
use doorbell::prelude::*;
use doorbell::serve::{Bar, Identity, Model, PciDevice};
use doorbell::{Devices, Registry, SettingError, main_serving};
use driver::{MyDriver, Stats};

mod device;
mod driver;
#[cfg(test)]
mod tests;

pub(crate) struct MyCard;

impl Card for MyCard {
    type Config = Config;
    type Device<P: Port> = Nic;
    type Driver<H: Host> = MyDriver;
    type Stats = Stats;
    type Counters = Counters;

    const RUN: &'static [Key] = &[Key::choice(
        "nic.report",
        &["doorbell", "packet"],
        "what the device reports as sent: the last packet of a doorbell, or each",
    )
    .default("doorbell")];

    fn config(v: &Values) -> Result<Config, SettingError> {
        let byte = Span::from_ps((8000.0 / v.number("link.rate")).round() as u64);
        Ok(Config { byte, each: v.word("nic.report") == "packet" })
    }

    fn in_flight(_: &Config) -> u32 {
        device::RING - 1
    }

    fn device<P: Port>(c: &Config) -> Nic {
        Nic::new(*c)
    }

    fn open<H: Host>(h: &mut H, _: &Config) -> Result<MyDriver, OpenError> {
        driver::open(h)
    }

    fn close<H: Host>(driver: MyDriver, h: &mut H) -> Stats {
        driver.close(h)
    }

    fn stats<H: Host>(driver: &MyDriver) -> Stats {
        driver.stats
    }
}

impl Model for MyCard {
    const NAME: &'static str = "mynic";
    const BUS: &'static str = "pcie2x16";
    const BITS_PER_SECOND: u64 = 10_000_000_000;
    type Device<P: Port> = Nic;

    fn identity() -> Identity {
        Identity {
            // Of nobody: not to be sold.
            vendor: 0xfffe,
            device: 1,
            subsystem: (0xfffe, 1),
            revision: 0,
            class: 0x02_0000,
            bars: [Bar::Memory(4096), Bar::None, Bar::None, Bar::None, Bar::None, Bar::None],
            line: true,
            capabilities: Vec::new(),
            polled: None,
        }
    }

    fn device<P: Port>(_: Option<[u8; 6]>) -> Nic {
        Nic::new(Config::default())
    }
}

static SYSTEM: System = system::<MyCard>("mynic", "a device and a driver of one's own");

pub(crate) static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[("mynic", include_str!("../profile.toml"))],
    scenarios: &[
        ("mynic-send", include_str!("../send.toml")),
        ("mynic-receive", include_str!("../receive.toml")),
        ("mynic-tcp", include_str!("../tcp.toml")),
    ],
};

static DEVICES: [PciDevice; 1] = [PciDevice::of::<MyCard>()];

fn main() -> std::process::ExitCode {
    main_serving(&REGISTRY, Devices(&DEVICES))
}
