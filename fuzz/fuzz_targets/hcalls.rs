//! A guest of the vNIC and the logical LAN behind the plug-in: see `doorbell_hostile::hcalls`.
#![no_main]

use doorbell_hostile::hcalls;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    hcalls::attack(input);
});
