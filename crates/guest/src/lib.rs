//! Boots a Linux kernel under QEMU with a device, runs workloads in it, and tells what the kernel's
//! driver did: the device's counts, and the instructions that the guest executed.
//!
//! [`boot`] runs workloads. A [`Guest`] on a [`Server`] runs lines of its shell; the tests in
//! `tests/linux` check Linux's own drivers so.
//!
//! Nothing here knows a device model: a device is a socket of `doorbell serve`, and its counts are
//! the server's. In [`VirtualTime`] it is a text for the plug-in, which counts.

mod arch;
mod bring_up;
mod claim;
mod console;
mod device;
mod elf;
mod emulator;
mod error;
mod fetch;
mod files;
mod guest;
mod initramfs;
pub mod instructions;
mod kernel;
mod log;
mod modules;
pub mod net;
mod objects;
mod origin;
mod plugin;
mod price;
mod server;
mod session;
pub mod settings;
mod tree;
mod virtual_time;
mod wire;
mod workload;
mod xdp;

pub use arch::Arch;
pub use device::{DEVICES, Device};
pub use emulator::{InProcess, Parts};
pub use error::Error;
pub use fetch::Machine;
pub use guest::Guest;
pub use initramfs::initramfs;
pub use kernel::Kernel;
pub use origin::{ModuleFile, Origin};
pub use plugin::{PLUGIN, PLUGIN_HASH, plugin};
pub use price::Prices;
pub use server::{Counts, Server};
pub use session::{Booted, Failed, Measured, Setup, boot, isolate};
pub use tree::with_axi_ethernet;
pub use virtual_time::{Timed, VirtualTime, check as check_virtual_time, check_wall};
pub use workload::{Variable, Workload};

/// Receives a line for each step.
pub type Progress<'a> = dyn Fn(&str) + 'a;
