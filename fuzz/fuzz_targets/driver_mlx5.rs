//! Any bytes as the device of the mlx5 driver: lies between it and a well-behaved model.
#![no_main]

use doorbell_hostile::device::mlx5;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    mlx5::attack(bytes);
});
