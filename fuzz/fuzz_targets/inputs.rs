//! Any bytes as what a server reads: frames of a TAP device, a stream of frames, lines of
//! `--control`, a request of the page of counts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    doorbell_serve::fuzzing::inputs(bytes);
});
