//! The driver of `examples/own_driver.rs` as a system: it receives nothing, and leaves checksums
//! undone.

use doorbell::card::system;
use doorbell::devices::e1000::{Config, Counters, E1000};
use doorbell::key::Values;
use doorbell::prelude::*;
use doorbell::{Registry, SettingError};
use own_driver::Mine;

#[path = "../../../../examples/own_driver.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
pub(crate) mod own_driver;

pub(crate) struct OnI82545;

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
}

static SYSTEM: System = system::<OnI82545>("mine", "a driver of one's own on an 82545EM");

pub(crate) static REGISTRY: Registry = Registry {
    systems: &[&SYSTEM],
    profiles: &[("mine", include_str!("one_page/profile.toml"))],
    scenarios: &[("mine-send", include_str!("one_page/scenario.toml"))],
};
