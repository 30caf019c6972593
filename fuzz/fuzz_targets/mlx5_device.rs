//! A guest of the mlx5 device: doorbells and WQE memory of a queue that is ready, or registers, all
//! of memory, firmware commands, a driver and frames. See `doorbell_hostile::mlx5`.
#![no_main]

use doorbell_hostile::mlx5;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mlx5::attack(bytes));
