//! Attacks of a guest on the mlx5 device.

pub mod function;
pub mod queue;

use crate::fuzz::Seed;
use doorbell_devices::mlx5::Mlx5;

type CommandHarness = doorbell_testkit::mlx5::CommandHarness<Mlx5>;
type DeviceHarness = doorbell_testkit::mlx5::DeviceHarness<Mlx5>;

/// Attacks a device: an even byte leads to WQEs, an odd one to a whole guest.
pub fn attack(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, rest)) if kind & 1 == 0 => _ = queue::attack(rest),
        Some((_, rest)) => _ = function::attack(rest),
        None => {}
    }
}

/// Returns the seeds of both.
pub fn seeds() -> Vec<Seed> {
    [queue::seeds(), function::seeds()].concat()
}
