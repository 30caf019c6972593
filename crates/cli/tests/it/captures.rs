//! Captures in the forms that people have them: compressed, from stdin, cut short, captured in
//! part, of `-i any`, with long frames.

use crate::common::{Ran, doorbell_from, doorbell_in, pcap, tcp};
use doorbell_host_io::pcap::read;
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

/// A hundred thousand frames of 512 flows in many sizes leave once each over 1, 8 and 32 cores,
/// those of a flow in order. One core limits itself; eight have what the link carries.
#[test]
fn a_capture_over_many_cores_is_sent_once_and_flows_stay_in_order() {
    const FRAMES: u32 = 100_000;
    const FLOW: std::ops::Range<usize> = 28..30;
    const NUMBER: std::ops::Range<usize> = 54..58;
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let sizes = [6, 6, 6, 40, 300, 536, 1400, 1460].map(tcp);
    let frame = |n: u32| {
        // A fixed permutation mixes flows and sizes.
        let mixed = n.wrapping_mul(2_654_435_761) >> 8;
        let mut f = sizes[mixed as usize % sizes.len()].clone();
        f[FLOW].copy_from_slice(&(mixed / 8 % 512).to_be_bytes()[2..]);
        f[NUMBER].copy_from_slice(&n.to_be_bytes());
        f
    };
    write(at.join("in.pcap"), pcap(1, &(0..FRAMES).map(frame).collect::<Vec<_>>())).unwrap();
    let rates = ["1", "8", "32"].map(|cores| {
        let of = format!("run.cores={cores}");
        let file = format!("{cores}.pcapng");
        let args = ["--pcap", "in.pcap", "--set", "cpu.cores=32", "--set", &of, "--format", "json"];
        let run = replay(at, &[&args[..], &["--capture", &file]].concat());
        let result: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(result["audit"], serde_json::json!([]));
        assert_eq!(result["packets"], FRAMES);
        let sent = read(at.join(&file)).unwrap();
        let mut seen = vec![false; FRAMES as usize];
        let mut last = [None; 512];
        for (_, f) in sent.iter() {
            let n = u32::from_be_bytes(f[NUMBER].try_into().unwrap());
            let flow = usize::from(u16::from_be_bytes(f[FLOW].try_into().unwrap()));
            assert!(!std::mem::replace(&mut seen[n as usize], true), "{n} left twice");
            assert!(last[flow].replace(n).is_none_or(|before| before < n), "{n} of flow {flow}");
        }
        assert!(seen.iter().all(|s| *s));
        (result["limit"]["binds"].clone(), result["rates"]["packets_per_s"].as_f64().unwrap())
    });
    let [(one, rate), (eight, faster), (all, fastest)] = rates;
    assert_eq!([&one, &eight, &all], ["cores", "link", "link"]);
    assert!(faster > 1.2 * rate, "{faster} {rate}");
    assert!((fastest / faster - 1.0).abs() < 0.05, "{fastest} {faster}");
}
