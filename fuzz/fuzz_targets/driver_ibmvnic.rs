//! Any bytes as the device of the ibmvnic driver: lies between it and a well-behaved model.
#![no_main]

use doorbell_hostile::device::ibmvnic;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    ibmvnic::attack(bytes);
});
