//! Any bytes as what commands read: frames of a TAP device, a stream of frames, lines of
//! `--control`, a range of `--over`, a budget, a request of the page of counts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    doorbell_cli::fuzzing::inputs(bytes);
});
