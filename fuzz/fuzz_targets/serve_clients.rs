//! Any clients of `doorbell serve`, beside one that behaves, in time that the input passes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| doorbell_serve::fuzzing::serve_clients(bytes));
