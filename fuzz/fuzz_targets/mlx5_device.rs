//! A guest of the mlx5 device: doorbells and WQE memory of a queue that is ready, or registers, all
//! of memory, firmware commands, a driver and frames. See `doorbell_conformance::mlx5`.
#![no_main]

use doorbell_conformance::mlx5::{hostile, hostile_guest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| match input.split_first() {
    Some((kind, rest)) if kind & 1 == 0 => hostile::attack(rest),
    Some((_, rest)) => {
        hostile_guest::attack(rest);
    }
    None => {}
});
