//! Rigs: a system as the command line sees it.
//!
//! What a system can be told (its keys), and what it can be asked (a run, the
//! transactions of a transfer). Everything above this speaks of keys and results
//! only, so that a new system is one more entry of [`RIGS`].

use crate::input::hint;
use crate::key::{Key, Values};
use crate::watch::Watch;
use crate::result::{Failure, Measured};
use crate::traffic::Frames;
use doorbell_bus::pcie::{Operation, Transaction};
use std::sync::Arc;

/// Runs a system. The frames are those of the capture that `traffic.file` names.
pub type Run = fn(&Values, Option<&Arc<Frames>>, &mut dyn Watch) -> Result<Measured, Failure>;

/// The bus transactions of one transfer by the device: what, where, how many bytes.
pub type Transfer = fn(&Values, Operation, u64, u32) -> Result<Transactions, String>;

/// Bus transactions, one after the other.
pub type Transactions = Box<dyn Iterator<Item = Transaction>>;

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
    pub platform_keys: &'static [&'static [Key]],
    /// What a scenario says.
    pub run_keys: &'static [&'static [Key]],
    /// Runs it.
    pub run: Run,
    /// Lists the transactions of a transfer.
    pub transfer: Transfer,
}

impl PartialEq for Rig {
    fn eq(&self, other: &Rig) -> bool {
        self.name == other.name
    }
}

impl Rig {
    /// What a profile says.
    pub fn platform(&self) -> Vec<&'static Key> {
        self.platform_keys.iter().copied().flatten().collect()
    }

    /// What a scenario says.
    pub fn scenario(&self) -> Vec<&'static Key> {
        self.run_keys.iter().copied().flatten().collect()
    }

    /// All keys: the run's, then the platform's.
    pub fn keys(&self) -> Vec<&'static Key> {
        self.run_keys.iter().chain(self.platform_keys).copied().flatten().collect()
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
