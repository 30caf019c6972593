//! Any bytes as a guest of the mlx5 device: random doorbells and WQE memory.
#![no_main]

use doorbell_conformance::mlx5::hostile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::attack(bytes));
