//! Any bytes as a guest of the mlx5 device: random doorbells and WQE memory on a queue
//! that is ready, or registers, all of memory, firmware commands and frames.
#![no_main]

use doorbell_conformance::mlx5::{hostile, hostile_guest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match bytes.split_first() {
    Some((kind, rest)) if kind & 1 == 0 => hostile::attack(rest),
    Some((_, rest)) => hostile_guest::attack(rest),
    None => {}
});
