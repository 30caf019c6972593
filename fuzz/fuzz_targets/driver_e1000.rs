//! Any bytes as the device of the e1000 driver: lies between it and a well-behaved model.
#![no_main]

use doorbell_hostile::device::e1000;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    e1000::attack(bytes);
});
