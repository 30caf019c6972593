//! Any bytes as a vfio-user client of the served 8254x: messages, descriptors, guest memory, time.
#![no_main]

use doorbell_conformance::vfio_user;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| vfio_user::attack(bytes));
