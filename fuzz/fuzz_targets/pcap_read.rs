//! Any bytes as a capture file: see `doorbell_hostile::fuzz::pcap_read`.
#![no_main]

use doorbell_hostile::fuzz::pcap_read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    pcap_read::attack(input);
});
