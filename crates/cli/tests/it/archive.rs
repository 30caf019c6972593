//! `doorbell archive`, and `repeat` of what it makes.

use crate::common::{done_in, doorbell_in, wrong_in};
use doorbell_hal::{Span, Time};
use doorbell_host_io::pcap::Writer;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Writes a capture of so many frames.
fn capture_of(path: &Path, frames: u8) {
    let mut capture = Writer::create(path).unwrap();
    let wire = capture.interface("wire", 1_000_000_000).unwrap();
    for n in 0..frames {
        let mut frame = [0; 60];
        frame[..13].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, n, 0x88]);
        capture.frame(wire, Time::ZERO + Span::from_ns(u64::from(n) * 1000), &frame).unwrap();
    }
    capture.finish().unwrap();
}

/// A member of an archive: its name and its content.
type Member = (String, Vec<u8>);

/// Returns the members of an archive.
fn members(path: &Path) -> Vec<Member> {
    let mut tar = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let member = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry: tar::Entry<'_, GzDecoder<File>> = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    tar.entries().unwrap().map(member).collect()
}

/// Writes an archive of these members, whose names may lead anywhere.
fn pack(path: &Path, members: &[Member]) {
    let file = File::create(path).unwrap();
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, &bytes[..]).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}

#[test]
fn an_archive_repeats_without_the_files_that_it_was_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let done = |line: &str| done_in(dir.path(), line);
    let path = |name: &str| dir.path().join(name);
    capture_of(&path("a.pcapng"), 4);
    capture_of(&path("b.pcapng"), 3);
    std::fs::create_dir(path("all")).unwrap();
    let replay = "mlx5-replay --quiet";
    std::fs::write(
        path("all/run.json"),
        done(&format!("run {replay} --pcap a.pcapng --format json")),
    )
    .unwrap();
    let over = "--over pcie.mps=128,256 --over traffic.file=a.pcapng,b.pcapng";
    done(&format!("sweep {replay} {over} --out all/points.parquet"));
    done(&format!("sweep {replay} {over} --out all/points.csv"));
    done("archive all --out paper.tar.gz");
    done("archive all/points.csv all/run.json all/points.parquet --out again.tgz");
    let [one, other] = ["paper.tar.gz", "again.tgz"].map(|name| members(&path(name)));
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    let hashes = names.iter().filter_map(|n| n.strip_prefix("captures/")?.split_once('-'));
    assert_eq!(hashes.map(|(_, name)| name).collect::<BTreeSet<_>>().len(), 2);
    let of_results: Vec<&&str> = names.iter().filter(|n| !n.starts_with("captures/")).collect();
    assert_eq!(
        of_results,
        [
            &"MANIFEST.json",
            &"profiles/mlx5-gen3.toml",
            &"results/points.csv",
            &"results/points.csv.origin.json",
            &"results/points.parquet",
            &"results/run.json",
            &"scenarios/mlx5-replay.toml",
        ]
    );
    // But for its own name in the manifest, the order of arguments is not in it.
    assert_eq!(one[1..], other[1..]);
    for gone in ["all", "a.pcapng", "b.pcapng"].map(path) {
        if gone.is_dir() { std::fs::remove_dir_all(gone) } else { std::fs::remove_file(gone) }
            .unwrap();
    }
    assert_snapshot!(done("repeat paper.tar.gz -q"), @r"
    run.json: the same result
    points.csv: the same 4 records
    points.parquet: the same 4 records
    ");
    assert_snapshot!(done("repeat paper.tar.gz --sample 50% -q"), @r"
    run.json: the same result
    points.csv: the same 2 of 4 records
    points.parquet: the same 2 of 4 records
    ");
    // A changed byte is found, and a name that leads out of it.
    let changed = |change: &dyn Fn(&mut Member)| {
        let mut all = one.clone();
        all.iter_mut().for_each(change);
        pack(&path("changed.tgz"), &all);
        wrong_in(dir.path(), &["repeat", "changed.tgz"])
    };
    let other = changed(&|(name, bytes)| {
        if name == "results/run.json" {
            bytes.push(b' ');
        }
    });
    assert_eq!(
        other.trim_start_matches("doorbell: changed.tgz: "),
        "results/run.json is not what its MANIFEST.json says"
    );
    let out = changed(&|(name, _)| {
        if name == "results/run.json" {
            *name = "../run.json".into();
        }
    });
    assert_eq!(
        out.trim_start_matches("doorbell: changed.tgz: "),
        "it is no archive: ../run.json is no file within it"
    );
}

#[test]
fn what_cannot_be_archived_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |args: &[&str]| wrong_in(dir.path(), args);
    let run = doorbell_in(dir.path(), &["run", "mlx5-pktgen-64", "-q", "--format", "json"]).out;
    std::fs::write(dir.path().join("a.json"), &run).unwrap();
    std::fs::create_dir(dir.path().join("b")).unwrap();
    std::fs::write(dir.path().join("b/a.json"), &run).unwrap();
    std::fs::write(dir.path().join("c.json"), "{}").unwrap();
    let all = [
        wrong(&["archive", "a.json", "--out", "a.zip"]),
        wrong(&["archive", "a.json", "b", "--out", "a.tgz"]),
        wrong(&["archive", "c.json", "--out", "a.tgz"]),
        wrong(&["repeat", "a.tgz"]),
    ];
    assert_snapshot!(all.join("\n"), @r"
    doorbell: --out a.zip: its name has to end in .tar.gz or .tgz
    doorbell: b/a.json: two results would be called a.json in it
    doorbell: c.json: it is no result that can be repeated
      those are results of `run`, `sweep`, `rank` and `advise` (--format json),
      and .parquet, .ndjson and .csv files of --out
    doorbell: a.tgz: No such file or directory (os error 2)
    ");
    assert!(!dir.path().join("a.tgz").exists());
}
