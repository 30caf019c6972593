//! The command on a card and a driver of one's own: `cargo run --release -- run mynic-send`
//!
//! `src/driver.rs` is the driver; this file says how it and the device are made. Every command that
//! runs a system takes it: `run`, `compare`, `sweep`, `rank`, `advise`, `check`, `report`, `list`.

use doorbell::card::system;
use doorbell::devices::e1000::{Config, Counters, E1000};
use doorbell::key::Values;
use doorbell::prelude::*;
use doorbell::{Registry, SettingError, main_with};
use driver::{MyNic, Stats};

mod driver;
#[cfg(test)]
mod tests;

/// The device.
const DEVICE: Config = Config::I82545EM;

pub(crate) struct MyCard;

impl Card for MyCard {
    type Config = ();
    type Device<P: Port> = E1000;
    type Driver<H: Host> = MyNic;
    type Stats = Stats;
    type Counters = Counters;

    fn config(v: &Values) -> Result<(), SettingError> {
        match (v.number("link.rate"), v.word("bus.kind")) {
            (_, "axi") => Err(SettingError("`bus.kind`: this card has no AXI".to_owned())),
            (1.0, _) => Ok(()),
            _ => Err(SettingError("`link.rate`: this card has 1 Gbit/s".to_owned())),
        }
    }

    fn mac((): &()) -> [u8; 6] {
        DEVICE.mac
    }

    fn in_flight((): &()) -> u32 {
        driver::RING - 1
    }

    fn device<P: Port>((): &()) -> E1000 {
        E1000::new(DEVICE)
    }

    fn open<H: Host>(h: &mut H, (): &()) -> Result<MyNic, OpenError> {
        driver::open(h)
    }

    fn close<H: Host>(driver: MyNic, h: &mut H) -> Stats {
        driver.close(h)
    }

    fn stats<H: Host>(driver: &MyNic) -> Stats {
        driver.stats
    }

    fn rules<P: Port>(device: &E1000) -> impl IntoIterator<Item = Rule> {
        device.rules()
    }

    fn cable<P: Port>(device: &mut E1000, at: Time, up: bool) {
        device.set_cable(at, up);
    }
}

static SYSTEM: System = system::<MyCard>("mynic", "a driver of one's own");

pub(crate) static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[("mynic", include_str!("../profile.toml"))],
    scenarios: &[
        ("mynic-send", include_str!("../send.toml")),
        ("mynic-receive", include_str!("../receive.toml")),
        ("mynic-tcp", include_str!("../tcp.toml")),
    ],
};

fn main() -> std::process::ExitCode {
    main_with(&REGISTRY)
}
