//! Any bytes as a capture file: an error or a sound capture, never a panic.
#![no_main]

use doorbell_host_io::pcap::{MAX_FRAME, MIN_FRAME, read_from};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (pad, file) = input;
    match read_from("fuzz", file, pad) {
        Ok(c) => {
            let mut at = 0;
            for f in &c.frames {
                assert_eq!(f.start, at, "frames lie one after the other");
                assert!((MIN_FRAME..=MAX_FRAME).contains(&f.len));
                at += f.len as usize;
            }
            assert_eq!(at, c.bytes.len());
            let plain = c.format.packing.is_none() && c.padded == 0;
            assert!(at < file.len() || !plain, "frames come from the file");
            assert!(c.frames.iter().any(|f| f.at_ns == 0), "times count from the earliest");
        }
        Err(e) => {
            let packed = file.starts_with(&[0x1f, 0x8b]) || file.starts_with(&[0x28, 0xb5]);
            assert!(packed || e.offset <= file.len() as u64);
            assert!(!e.to_string().is_empty());
        }
    }
});
