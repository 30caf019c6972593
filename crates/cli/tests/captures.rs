//! Captures in the forms that people have them: compressed, from stdin, cut short, captured in
//! part, of `-i any`, with long frames.

mod common;

use common::{Ran, doorbell_from, doorbell_in, pcap, tcp};
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use std::fs::{File, write};
use std::io::Write;
use std::path::Path;

fn frames() -> Vec<Vec<u8>> {
    (0..200).map(|i| tcp(i * 7 + 6)).collect()
}

/// A replay of a file in a directory, which must succeed.
fn replay(at: &Path, args: &[&str]) -> Ran {
    let r = doorbell_in(at, &[&["run", "mlx5-replay"], args].concat());
    assert_eq!(r.code, 0, "{args:?}: {}", r.err);
    r
}

/// The result without the capture's name and hash.
fn result(r: &Ran) -> Value {
    let mut v: Value = serde_json::from_str(&r.out).expect("a result is JSON");
    for key in ["set", "capture_sha256"] {
        v.as_object_mut().expect("an object").remove(key).expect("a result has it");
    }
    v["settings"].as_object_mut().expect("an object").remove("traffic.file").expect("a file");
    v
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_compressed_file_and_stdin_give_the_same_result() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let plain = pcap(1, &frames());
    write(at.join("in.pcap"), &plain).unwrap();
    write(at.join("in.pcap.gz"), gzip(&plain)).unwrap();
    let json = ["--format", "json", "--pcap"];
    let whole = replay(at, &[&json[..], &["in.pcap"]].concat());
    let packed = replay(at, &[&json[..], &["in.pcap.gz"]].concat());
    assert_eq!((result(&packed), packed.err.as_str()), (result(&whole), ""));
    let stdin = File::open(at.join("in.pcap.gz")).unwrap();
    let args = [&["run", "mlx5-replay"], &json[..], &["-"]].concat();
    let piped = doorbell_from(at, stdin, &args);
    assert_eq!((piped.code, result(&piped)), (0, result(&whole)));
    let hash = |r: &Ran| serde_json::from_str::<Value>(&r.out).unwrap()["capture_sha256"].clone();
    assert_eq!(hash(&piped), hash(&packed), "of the file as it is");
    assert_ne!(hash(&packed), hash(&whole));
    // Two runs read stdin once.
    let stdin = File::open(at.join("in.pcap")).unwrap();
    let with = ["compare", "mlx5-replay", "--pcap", "-", "--with", "driver.mpwqe=off"];
    assert_eq!(doorbell_from(at, stdin, &with).code, 0);
}

#[test]
fn the_format_and_the_frames_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mut frames = frames();
    frames.push(tcp(8000));
    write(at.join("in.pcap.gz"), gzip(&pcap(1, &frames))).unwrap();
    let r = replay(at, &["--pcap", "in.pcap.gz", "--set", "traffic.mtu=9000"]);
    let told = " capture: gzip, pcap, microseconds: 201 frames of 60 to 8054 bytes, 1 over 1514\n";
    assert!(r.out.contains(told), "{}", r.out);
}

#[test]
fn of_a_file_that_is_cut_short_the_whole_frames_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let whole = pcap(1, &[tcp(100), tcp(200)]);
    write(at.join("in.pcap"), &whole[..whole.len() - 7]).unwrap();
    let r = replay(at, &["--pcap", "in.pcap", "--format", "json"]);
    let told = "doorbell: in.pcap: the file is cut short at byte 194; sent are the frames \
                before that, 1\n";
    assert_eq!((result(&r)["packets"].as_u64(), r.err.as_str()), (Some(1), told));
}

#[test]
fn frames_captured_in_part_cost_what_the_whole_ones_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let whole = frames();
    write(at.join("whole.pcap"), pcap(1, &whole)).unwrap();
    let mut file = pcap(1, &[]);
    for (i, f) in whole.iter().enumerate() {
        let captured = f.len().min(96);
        for word in [1, i as u32, captured as u32, f.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&f[..captured]);
    }
    write(at.join("part.pcap"), file).unwrap();
    let of =
        |file, more: &[&str]| replay(at, &[&["--pcap", file, "--format", "json"], more].concat());
    let part = of("part.pcap", &["--pad"]);
    let told =
        "doorbell: part.pcap: 194 of 200 frames are captured in part, and filled with zeros\n";
    assert_eq!(part.err, told);
    let (mut part, whole) = (result(&part), result(&of("whole.pcap", &[])));
    part["settings"]["traffic.pad"] = "off".into();
    assert_eq!(part, whole);
}

#[test]
fn packets_of_every_interface_get_an_ethernet_header() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let cooked =
        |f: &Vec<u8>| [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0, 8, 0], &f[14..]].concat();
    write(at.join("any.pcap"), pcap(113, &frames().iter().map(cooked).collect::<Vec<_>>()))
        .unwrap();
    write(at.join("eth.pcap"), pcap(1, &frames())).unwrap();
    let of = |file| replay(at, &["--pcap", file, "--format", "json"]);
    let any = of("any.pcap");
    assert!(
        any.err.starts_with("doorbell: any.pcap: 200 of 200 frames are of -i any"),
        "{}",
        any.err
    );
    assert_eq!(result(&any), result(&of("eth.pcap")));
}
