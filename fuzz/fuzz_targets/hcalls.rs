//! Any bytes as a guest of the vNIC and the logical LAN behind the plug-in: board, calls, entries,
//! memory, frames, time.
#![no_main]

use doorbell_conformance::hcalls;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hcalls::attack(bytes));
