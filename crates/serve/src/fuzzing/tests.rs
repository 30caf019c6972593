use super::*;
use doorbell_hostile::fuzz::{Seed, files};
use proptest::prelude::*;

/// Returns an input of each kind, and some that are refused.
fn seeds() -> Vec<Seed> {
    let make = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    // A large send of 3,000 bytes: checksum at 34 + 16, segments of 1,448.
    let mut large = vec![1, 1, 54, 0, 168, 5, 34, 0, 16, 0];
    let mut frame = vec![0; 3054];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&3040_u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    (frame[46], frame[47]) = (0x50, 0x10);
    large.extend(frame);
    let stream = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[0, 0, 0, 3, 1, 2, 3], &[0, 0, 0, 0], &[1; 9]];
    let lines = [&b"failover\n\x1b\n"[..], &[b'x'; 300], b"\nlink down\nerror 1"].concat();
    let get = b"\x01\x09\x00\x05\x01\x02\x03\x04GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
    vec![
        ("large_send", make(0, &large)),
        ("plain_frame", make(0, &[&[0; 10][..], &[7; 60]].concat())),
        ("stream", make(1, &stream.concat())),
        ("lines", make(2, &lines)),
        ("request", make(3, get)),
    ]
}

#[test]
fn each_input_reaches_its_subject() {
    let none = Inputs::default();
    for (name, bytes) in seeds() {
        let expected = match name {
            "large_send" => Inputs { frames: (3, 1), ..none },
            "plain_frame" => Inputs { frames: (1, 1), ..none },
            "stream" => Inputs { streamed: 2, ..none },
            "lines" => Inputs { lines: 3, ..none },
            _ => Inputs { requests: 1, ..none },
        };
        assert_eq!(inputs(&bytes), expected, "{name}");
    }
}

#[test]
fn seed_files_are_what_the_code_makes() {
    files::check_seeds("inputs", &seeds());
}

#[test]
fn corpora_run_through_their_bodies() {
    for name in files::corpora() {
        match name.as_str() {
            "inputs" => _ = files::replay("inputs", |bytes| _ = inputs(bytes)),
            "serve_clients" => _ = files::replay("serve_clients", serve_clients),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_are_taken_for_others(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        inputs(&bytes);
    }
}
