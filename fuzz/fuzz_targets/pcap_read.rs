//! Any bytes as a capture file: an error or a sound capture, never a panic.
#![no_main]

use doorbell_host_io::pcap::{MAX_FRAME, MIN_FRAME, read_from};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    match read_from("fuzz", file) {
        Ok(c) => {
            let mut at = 0;
            for f in &c.frames {
                assert_eq!(f.start, at, "frames lie one after the other");
                assert!((MIN_FRAME..=MAX_FRAME).contains(&f.len));
                at += f.len as usize;
            }
            assert_eq!(at, c.bytes.len());
            assert!(at < file.len(), "frames come from the file");
            assert!(c.frames.iter().any(|f| f.at_ns == 0), "times count from the earliest");
        }
        Err(e) => {
            assert!(e.offset <= file.len() as u64);
            assert!(!e.to_string().is_empty());
        }
    }
});
