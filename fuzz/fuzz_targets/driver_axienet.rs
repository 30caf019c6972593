//! Any bytes as the device of the axienet driver: lies between it and a well-behaved model.
#![no_main]

use doorbell_hostile::device::axienet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    axienet::attack(bytes);
});
