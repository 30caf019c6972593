//! Rigs: a system as the command line sees it.
//!
//! What a system can be told (its keys), and what it can be asked (a run, the
//! transactions of a transfer). Everything above this speaks of keys and results
//! only, so that a new system is one more entry of [`RIGS`].

use crate::input::hint;
use crate::key::{Key, Values};
use crate::mlx5::Watch;
use crate::result::{Failure, Measured};
use crate::traffic::Frames;
use doorbell_bus::pcie::{Operation, Transaction};
use std::sync::Arc;

/// A system.
#[derive(Debug)]
pub struct Rig {
    /// Its name: `mlx5`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// The devices that are modelled.
    pub devices: &'static [&'static str],
    /// What a profile says.
    pub platform_keys: &'static [Key],
    /// What a scenario says.
    pub run_keys: &'static [Key],
    /// Runs it. The frames are those of the capture that `traffic.file` names.
    pub run: fn(&Values, Option<&Arc<Frames>>, &mut dyn Watch) -> Result<Measured, Failure>,
    /// The bus transactions of one transfer by the device.
    pub transfer: fn(&Values, Operation, u64, u32) -> Result<Box<dyn Iterator<Item = Transaction>>, String>,
}

impl PartialEq for Rig {
    fn eq(&self, other: &Rig) -> bool {
        self.name == other.name
    }
}

impl Rig {
    /// What a profile says.
    pub fn platform(&self) -> Vec<&'static Key> {
        self.platform_keys.iter().collect()
    }

    /// All keys: the run's, then the platform's.
    pub fn keys(&self) -> Vec<&'static Key> {
        self.run_keys.iter().chain(self.platform_keys).collect()
    }
}

/// All systems.
pub static RIGS: [&Rig; 1] = [&crate::mlx5::RIG];

/// The system called `name`.
///
/// # Errors
/// The nearest name, and all of them.
pub fn find(name: &str) -> Result<&'static Rig, String> {
    RIGS.iter().find(|r| r.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = RIGS.iter().map(|r| r.name).collect();
        format!("no system is called `{name}`{}; there are: {}", hint(name, names.iter().copied()), names.join(", "))
    })
}
