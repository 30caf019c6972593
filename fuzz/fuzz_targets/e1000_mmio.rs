//! A guest of the 8254x: see `doorbell_hostile::fuzz::e1000_mmio`.
#![no_main]

use doorbell_hostile::fuzz::e1000_mmio;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    e1000_mmio::attack(input);
});
