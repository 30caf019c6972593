//! Points: sweeps in parts, planned and made elsewhere, kept in a cache, interrupted and continued.

use crate::common::{Ran, doorbell_from, doorbell_in, names, pcap, tcp, wrong_in};
use insta::assert_snapshot;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A sweep of 14 rows with two columns each.
const SWEEP: &str = "sweep mlx5-pktgen-64 --set traffic.packets=480 --over traffic.burst=1..7 \
                     --over pcie.mps=128,256 --across driver.mpwqe=off,on --show packets_per_s";
const POINTS: usize = 28;

/// Runs a line of words.
fn line(dir: &Path, line: &str) -> Ran {
    doorbell_in(dir, &line.split_whitespace().collect::<Vec<_>>())
}

/// Returns the stdout of a line that must succeed without a word.
fn good(dir: &Path, text: &str) -> String {
    let r = line(dir, text);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{text}");
    r.out
}

fn read(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap()
}

/// Returns the files of a cache.
fn kept(cache: &Path) -> Vec<std::path::PathBuf> {
    let dirs = fs::read_dir(cache).into_iter().flatten().map(|e| e.unwrap().path());
    let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()));
    files.filter(|f| f.extension().is_none()).collect()
}

#[test]
fn all_parts_of_a_sweep_are_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let whole = good(at, &format!("{SWEEP} --format csv --out all.ndjson"));
    good(at, &format!("{SWEEP} --out all.csv"));
    // A plan of the whole, and one of a part.
    let plan = good(at, &format!("{SWEEP} --plan"));
    for parts in [1, 3, 14] {
        let (mut tables, mut records, mut rows, mut plans) = (vec![], vec![], vec![], vec![]);
        for part in 1..=parts {
            let shard = format!("{SWEEP} --shard {part}/{parts}");
            tables.push(good(at, &format!("{shard} --format csv --out part.ndjson")));
            records.push(read(at, "part.ndjson"));
            good(at, &format!("{shard} --out part.csv"));
            rows.push(read(at, "part.csv"));
            plans.push(good(at, &format!("{shard} --plan")));
        }
        // Of CSV, all but the head of the others.
        let joined = |all: &[String]| -> String {
            let rest = all[1..].iter().map(|t| t.split_once('\n').unwrap().1);
            [all[0].as_str()].into_iter().chain(rest).collect()
        };
        assert_eq!(records.concat(), read(at, "all.ndjson"), "{parts}");
        assert_eq!(joined(&rows), read(at, "all.csv"), "{parts}");
        assert_eq!(joined(&tables), whole, "{parts}");
        assert_eq!(plans.concat(), plan, "{parts}");
    }
    assert_eq!(plan.lines().count(), POINTS);
}

#[test]
fn points_give_the_records_of_their_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    good(at, &format!("{SWEEP} --out sweep.ndjson --jobs 1"));
    fs::write(at.join("plan"), good(at, &format!("{SWEEP} --plan"))).unwrap();
    let swept = read(at, "sweep.ndjson");
    for jobs in [1, 2, 5] {
        assert_eq!(good(at, &format!("point plan --jobs {jobs}")), swept);
    }
    // From stdin, and in the order of the input.
    let reversed = |text: &str| text.lines().rev().map(|l| format!("{l}\n")).collect::<String>();
    fs::write(at.join("back"), reversed(&read(at, "plan"))).unwrap();
    let r = doorbell_from(at, File::open(at.join("back")).unwrap(), &["point"]);
    assert_eq!((r.code, r.out), (0, reversed(&swept)));
    for file in ["a.csv", "a.parquet"] {
        good(at, &format!("{SWEEP} --out {file}"));
        assert_eq!(good(at, &format!("point plan --out point-{file}")), "");
    }
    assert_eq!(read(at, "point-a.csv"), read(at, "a.csv"));
    assert!(fs::read(at.join("point-a.parquet")).unwrap().ends_with(b"PAR1"));
}

#[test]
fn sweeps_that_share_points_run_them_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let sweep = |more: &str| {
        let base = "sweep mlx5-pktgen-64 --set traffic.packets=480 --show packets_per_s";
        line(at, &format!("{base} {more}"))
    };
    let first = sweep("--set traffic.burst=64 --over pcie.mps=128,256 --cache c");
    assert_eq!((first.code, first.err.as_str()), (0, "doorbell: c had 0 of 2 points\n"));
    // Other axes and another order.
    let more = "--over traffic.burst=1,64 --over pcie.mps=256,512";
    let second = sweep(&format!("{more} --cache c --out second.ndjson"));
    assert_eq!((second.code, second.err.as_str()), (0, "doorbell: c had 1 of 4 points\n"));
    assert_eq!(second.out, sweep(more).out);
    // All of them again, and nothing but them.
    let again = sweep(&format!("{more} --cache c --out again.ndjson"));
    assert_eq!((&*again.err, &again.out), ("doorbell: c had 4 of 4 points\n", &second.out));
    assert_eq!(read(at, "again.ndjson"), read(at, "second.ndjson"));
    assert_eq!(kept(&at.join("c")).len(), 5);
    let quiet = sweep(&format!("{more} --cache c --quiet"));
    assert_eq!((quiet.err.as_str(), quiet.out), ("", second.out));
}

#[test]
fn a_point_that_is_there_twice_runs_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let plan = good(at, &format!("{SWEEP} --plan --shard 1/14"));
    fs::write(at.join("plan"), plan.repeat(3)).unwrap();
    let r = line(at, "point plan plan --cache c");
    assert_eq!(r.err, "doorbell: c had 0 of 2 points\n");
    let lines: Vec<&str> = r.out.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (12, lines[10], lines[11]));
    assert_ne!(lines[0], lines[1]);
}

/// Waits until a child that runs points has kept so many.
fn wait_for(cache: &Path, points: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    while kept(cache).len() < points {
        assert!(Instant::now() < until, "it takes too long");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_ended_sweep_goes_on_where_it_was() {
    let long = "sweep mlx5-pktgen-64 --set traffic.packets=12000 --over run.seed=1..200 \
                --show packets_per_s --cache c --out all.ndjson";
    let whole = tempfile::tempdir().unwrap();
    good(whole.path(), &long.replace("--cache c", ""));
    let whole = read(whole.path(), "all.ndjson");
    for signal in ["INT", "KILL"] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .args(long.split_whitespace())
            .current_dir(at)
            .stdout(Stdio::null())
            .stderr(File::create(at.join("said")).unwrap())
            .spawn()
            .unwrap();
        wait_for(&at.join("c"), 3);
        let kill = ["-s", signal, &child.id().to_string()].map(str::to_owned);
        assert!(Command::new("kill").args(kill).status().unwrap().success());
        let code = child.wait().unwrap().code();
        let done = kept(&at.join("c")).len();
        assert!((3..200).contains(&done), "{done}");
        assert!(!at.join("all.ndjson").exists());
        if signal == "INT" {
            assert_eq!(code, Some(130));
            let said = read(at, "said");
            let end = "doorbell: interrupted; the cache has the points that were done\n";
            assert!(said.ends_with(end), "{said}");
            assert_eq!(names(at), ["c", "said"]);
        }
        let r = line(at, long);
        assert_eq!((r.code, r.err), (0, format!("doorbell: c had {done} of 200 points\n")));
        // As if nothing had happened.
        assert!(read(at, "all.ndjson") == whole && whole.lines().count() == 200);
    }
}

#[test]
fn a_damaged_entry_is_told_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let sweep = format!("{SWEEP} --cache c --quiet");
    let first = line(at, &sweep);
    let files = kept(&at.join("c"));
    let good = fs::read(&files[0]).unwrap();
    for bad in [b"".to_vec(), b"\xff\xfe".to_vec(), good[..good.len() / 2].to_vec()] {
        fs::write(&files[0], bad).unwrap();
        let r = line(at, &sweep);
        let name = files[0].strip_prefix(at).unwrap().display();
        let told = format!("doorbell: {name}: damaged, so its point runs again\n");
        assert_eq!((r.code, r.err, &r.out), (0, told, &first.out));
        assert_eq!(fs::read(&files[0]).unwrap(), good);
    }
}

/// Two processes on one cache, at the same time.
#[test]
fn several_writers_share_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let start = |n: usize| {
        Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .args(format!("{SWEEP} --cache c --out {n}.ndjson --quiet").split_whitespace())
            .current_dir(at)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(start).collect();
    children.into_iter().for_each(|mut c| assert!(c.wait().unwrap().success()));
    let whole = read(at, "0.ndjson");
    assert!((1..4).all(|n| read(at, &format!("{n}.ndjson")) == whole));
    assert_eq!(kept(&at.join("c")).len(), POINTS);
    let all = fs::read_dir(at.join("c")).unwrap().map(|e| names(&e.unwrap().path()).len());
    assert_eq!(all.sum::<usize>(), POINTS, "nothing unfinished is left");
}

#[test]
fn a_full_disk_leaves_no_half_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // No file may grow beyond nothing, as on a disk without room.
    let full = |more: &str| {
        let bin = env!("CARGO_BIN_EXE_doorbell");
        let script = format!("trap '' XFSZ; ulimit -f 0; {bin} {SWEEP} --quiet {more} | cat");
        let mut bash = Command::new("bash");
        bash.args(["-o", "pipefail", "-c", &script]).current_dir(at);
        Ran::from(bash.output().unwrap())
    };
    let r = full("--cache c");
    assert_eq!((r.code, r.out.as_str()), (2, ""));
    assert!(r.err.starts_with("doorbell: c/") && r.err.contains("File too large"), "{}", r.err);
    let all = fs::read_dir(at.join("c")).unwrap().map(|e| names(&e.unwrap().path()).len());
    assert_eq!(all.sum::<usize>(), 0);
    let r = full("--out all.parquet");
    assert_eq!((r.code, r.out.as_str()), (2, ""));
    assert!(r.err.contains("all.parquet: ") && r.err.contains("File too large"), "{}", r.err);
    assert_eq!(names(at), ["c"]);
}

#[test]
fn points_that_are_none_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let plan = good(at, &format!("{SWEEP} --plan --shard 2/14"));
    let first = plan.lines().next().unwrap();
    let version = first.split("\"doorbell\":\"").nth(1).unwrap().split('"').next().unwrap();
    let refused = |second: &str| {
        fs::write(at.join("plan"), format!("{first}\n\n{second}\n")).unwrap();
        let said = wrong_in(at, &["point", "plan", "--out", "o.csv", "--cache", "c"]);
        assert_eq!(names(at), ["plan"], "nothing is written");
        said.replace(version, "VERSION")
    };
    let changed = |from: &str, to: &str| {
        assert!(first.contains(from), "{first}");
        first.replace(from, to)
    };
    let bad = [
        "{}".to_owned(),
        changed(version, "0.0.9+123456789abc"),
        changed("\"traffic.burst\":\"1 packets\"", "\"traffic.burst\":\"2 packets\""),
        changed("\"pcie.mps\":\"256 B\"", "\"pcie.mps\":\"3 B\""),
    ];
    assert_snapshot!(bad.iter().map(|b| refused(b)).collect::<Vec<_>>().join("\n"), @r"
    doorbell: plan:3: it is no point of `sweep --plan`: missing field `key` at line 1 column 2
    doorbell: plan:3: doorbell 0.0.9+123456789abc planned it, and this is VERSION
    doorbell: plan:3: its key is not that of its settings
    doorbell: plan:3: `pcie.mps` cannot be 3 B; allowed: 128, 256, 512, 1024, 2048, 4096 B
    ");
    fs::write(at.join("plan"), "\n").unwrap();
    assert_snapshot!(wrong_in(at, &["point", "plan"]), @"doorbell: plan: there is no point in it");
    assert_snapshot!(wrong_in(at, &["point"]), @"doorbell: stdin: there is no point in it");
    assert_snapshot!(
        wrong_in(at, &["point", "none"]),
        @"doorbell: none: No such file or directory (os error 2)"
    );
}

#[test]
fn a_point_needs_the_capture_that_it_was_planned_with() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mine = pcap(1, &[tcp(100), tcp(1000)]);
    fs::write(at.join("mine.pcap"), &mine).unwrap();
    let sweep = "sweep mlx5-replay --over pcie.mps=128,256 --show packets_per_s";
    let plan = good(at, &format!("{sweep} --pcap mine.pcap --plan"));
    fs::write(at.join("plan"), plan).unwrap();
    fs::write(at.join("mine.pcap"), pcap(1, &[tcp(100)])).unwrap();
    let said = wrong_in(at, &["point", "plan"]);
    let begin = "doorbell: mlx5-replay: the capture had SHA-256 ";
    assert!(said.starts_with(begin) && said.contains(", and now has "), "{said}");
    fs::rename(at.join("mine.pcap"), at.join("other.pcap")).unwrap();
    assert_snapshot!(
        wrong_in(at, &["point", "plan"]),
        @"doorbell: mine.pcap: No such file or directory (os error 2)"
    );
    // The same bytes in another place are the same points.
    fs::write(at.join("other.pcap"), &mine).unwrap();
    assert_eq!(line(at, &format!("{sweep} --pcap other.pcap --cache c")).code, 0);
    let r = line(at, "point plan --cache c");
    assert_eq!((r.code, r.err.as_str()), (0, "doorbell: c had 2 of 2 points\n"));
    let stdin = File::open(at.join("other.pcap")).unwrap();
    let args = format!("{sweep} --pcap - --plan");
    let r = doorbell_from(at, stdin, &args.split(' ').collect::<Vec<_>>());
    assert_eq!(r.code, 2);
    assert_snapshot!(
        r.err,
        @"doorbell: --plan: a point that runs later cannot read stdin again"
    );
}

#[test]
fn options_of_many_runs_that_make_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("file"), "mine").unwrap();
    let said = |more: &str| {
        let args = format!("{SWEEP} {more}");
        wrong_in(at, &args.split_whitespace().collect::<Vec<_>>())
    };
    assert_snapshot!(said("--shard 1/15"), @"doorbell: --shard: there are 14 rows, so at most as \
        many parts");
    for shard in ["0/4", "5/4", "4", "1/0", "-1/4"] {
        assert!(said(&format!("--shard={shard}")).contains("allowed are 1/N to N/N"), "{shard}");
    }
    assert_snapshot!(said("--cache file"), @"doorbell: --cache file: it exists and is not a \
        directory");
    assert!(said("--cache-size 3").contains("--cache <DIR>"), "a size of nothing");
    assert!(said("--plan --out o.csv").contains("cannot be used with"));
    assert!(said("--jobs 0").contains("invalid value '0'"));
    assert_eq!((read(at, "file").as_str(), names(at)), ("mine", vec!["file".to_owned()]));
}

#[test]
fn a_key_with_words_and_numbers_is_text_in_all_parts() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let sweep = "sweep mlx5-pktgen-64 --set traffic.packets=480 --show maps --over \
                 traffic.rate=1Mpps,full";
    for part in ["1/2", "2/2"] {
        good(at, &format!("{sweep} --shard {part} --out part.ndjson"));
        let record: serde_json::Value = serde_json::from_str(&read(at, "part.ndjson")).unwrap();
        assert!(record["traffic.rate"].is_string(), "{part}: {}", record["traffic.rate"]);
    }
}

#[test]
fn every_system_is_swept_by_its_packet_rate_unless_told() {
    let dir = tempfile::tempdir().unwrap();
    for of in
        ["mlx5-pktgen-64", "e1000-pktgen", "axienet-sporadic", "ibmveth-packets", "ibmvnic-paced"]
    {
        let sweep = format!("sweep {of} --over cpu.frequency=1,2");
        assert_eq!(good(dir.path(), &format!("{sweep} --plan")).lines().count(), 2, "{of}");
        let table = good(dir.path(), &format!("{sweep} --format csv"));
        assert!(table.starts_with("cpu.frequency,packets_per_s\n"), "{of}: {table}");
    }
}
