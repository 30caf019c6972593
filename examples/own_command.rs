//! The command on a driver of your own:
//! `cargo run --release --example own_command -- run mine-send`
//!
//! The driver of `own_driver.rs` as a system with a profile and scenarios. Every command that runs
//! a system takes it: `run`, `compare`, `sweep`, `rank`, `advise`, `check`, `report`, `list`.

use doorbell::card::system;
use doorbell::devices::e1000::{Config, Counters, E1000};
use doorbell::key::Values;
use doorbell::prelude::*;
use doorbell::{Registry, SettingError, main_with};
use own_driver::Mine;

#[allow(dead_code, reason = "a program of its own has more of it")]
pub(crate) mod own_driver;

struct OnI82545;

impl Card for OnI82545 {
    type Config = ();
    type Device<P: Port> = E1000;
    type Driver<H: Host> = Mine;
    type Stats = ();
    type Counters = Counters;

    fn config(v: &Values) -> Result<(), SettingError> {
        match v.number("link.rate") {
            1.0 => Ok(()),
            _ => Err(SettingError("`link.rate`: this card has 1 Gbit/s".to_owned())),
        }
    }

    fn in_flight((): &()) -> u32 {
        255
    }

    fn device<P: Port>((): &()) -> E1000 {
        E1000::new(Config::I82545EM)
    }

    fn open<H: Host>(h: &mut H, (): &()) -> Result<Mine, OpenError> {
        Ok(own_driver::open(h))
    }

    fn close<H: Host>(driver: Mine, h: &mut H) {
        driver.0.release(h);
    }

    fn counters<P: Port>(device: &E1000) -> Counters {
        device.counters
    }
}

static SYSTEM: System = system::<OnI82545>("mine", "a driver of one's own on an 82545EM");

pub(crate) static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[("mine", include_str!("own_profile.toml"))],
    scenarios: &[("mine-send", include_str!("own_scenario.toml"))],
};

fn main() -> std::process::ExitCode {
    main_with(&REGISTRY)
}
