//! A client of the served 8254x: see `doorbell_conformance::vfio_user`.
#![no_main]

use doorbell_conformance::vfio_user;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    vfio_user::attack(input);
});
