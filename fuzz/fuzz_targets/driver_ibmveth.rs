//! Any bytes as the device of the ibmveth driver: lies between it and a well-behaved model.
#![no_main]

use doorbell_hostile::device::ibmveth;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    ibmveth::attack(bytes);
});
