//! Any text as a scenario, a profile, settings, a budget or a range: an error with its place, or
//! values that are the same when they are written and read again.
#![no_main]

use doorbell_hostile::settings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    settings::attack(bytes);
});
