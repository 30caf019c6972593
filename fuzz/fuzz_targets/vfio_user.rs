//! A client of the served 8254x: see `doorbell_hostile::vfio_user`.
#![no_main]

use doorbell_hostile::vfio_user;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    vfio_user::attack(input);
});
