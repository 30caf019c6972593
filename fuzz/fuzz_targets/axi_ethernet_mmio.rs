//! A guest of the AXI Ethernet core: see `doorbell_hostile::fuzz::axi_ethernet_mmio`.
#![no_main]

use doorbell_hostile::fuzz::axi_ethernet_mmio;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    axi_ethernet_mmio::attack(input);
});
