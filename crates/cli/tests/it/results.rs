//! Results for programs: their schema, kept results that are run again, records and files of them.

use crate::common::{done_in, doorbell_in, good, names, result, wrong, wrong_in};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::path::Path;

/// Short runs of each system, with settings with and without a unit, of scenario and profile.
const RUNS: [(&str, &[&str]); 6] = [
    ("mlx5-pktgen-64", &["traffic.packets=2400", "pcie.mps=128", "driver.mpwqe=off"]),
    ("e1000-pktgen", &["traffic.packets=480", "driver.tx_ring=128"]),
    ("axienet-saturated", &["traffic.warmup=2ms", "traffic.duration=5ms"]),
    ("ibmveth-send", &["traffic.warmup=2ms", "traffic.duration=5ms"]),
    ("ibmvnic-transactions", &["traffic.warmup=0.2ms", "traffic.duration=0.5ms", "run.seed=7"]),
    ("e1000-pktgen", &["traffic.packets=480", "run.fault=lost-interrupt@3"]),
];

#[test]
fn a_kept_result_of_every_system_is_repeated() {
    for (scenario, sets) in RUNS {
        let dir = tempfile::tempdir().unwrap();
        let mut args = vec!["run", scenario, "--format", "json", "--quiet"];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let kept = good(&args);
        std::fs::write(dir.path().join("kept.json"), &kept).unwrap();
        let r = doorbell_in(dir.path(), &["repeat", "kept.json", "-q"]);
        let same = "kept.json: the same result\n";
        assert_eq!((r.code, r.out.as_str(), r.err.as_str()), (0, same, ""), "{scenario}");
        // The file of `run --out` is the same.
        args.extend(["--out", "o"]);
        doorbell_in(dir.path(), &args);
        assert_eq!(std::fs::read_to_string(dir.path().join("o/result.json")).unwrap(), kept);
    }
}

#[test]
fn a_repetition_says_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["run", "mlx5-pktgen-64", "--set", "traffic.packets=2400", "--format", "json"];
    let mut kept: Value = serde_json::from_str(&good(&run)).unwrap();
    let file = dir.path().join("kept.json");
    let mut repeated = |change: &dyn Fn(&mut Value)| {
        change(&mut kept);
        std::fs::write(&file, kept.to_string()).unwrap();
        doorbell_in(dir.path(), &["repeat", "kept.json", "-q"])
    };
    // Another program made it, which is no failure.
    let r = repeated(&|k| k["doorbell"]["version"] = json!("0.0.9"));
    let version = env!("CARGO_PKG_VERSION");
    let same = "kept.json: the same result but for the program";
    let but = format!("{same}: doorbell.version was \"0.0.9\", and is \"{version}\"\n");
    assert_eq!((r.code, r.out), (0, but));
    // A key that was not there then has its default.
    let r = repeated(&|k| {
        k["doorbell"]["version"] = json!(version);
        k["ledger"]["maps"] = json!(1);
        k["settings"].as_object_mut().unwrap().shift_remove("traffic.pad");
    });
    assert_eq!(r.code, 1);
    assert_snapshot!(r.out, @r#"
    kept.json: not the same result
      settings.traffic.pad was null, and is "off"
      ledger.maps was 1, and is 2400
    "#);
    let r = repeated(&|k| k["settings"]["pcie.mps"] = json!("3 B"));
    assert_eq!((r.code, r.out.as_str()), (2, ""));
    assert!(r.err.contains("kept.json: `pcie.mps` cannot be 3 B; allowed: 128, 256"), "{}", r.err);
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |text: &str| std::fs::write(dir.path().join("kept.json"), text).unwrap();
    let refused = |text: &str| {
        file(text);
        wrong_in(dir.path(), &["repeat", "kept.json"])
    };
    let texts = [
        "{",
        "{}",
        r#"{ "schema": 2 }"#,
        r#"{ "schema": 1, "kind": "fit" }"#,
        r#"{ "schema": 1, "kind": "run" }"#,
        r#"{ "schema": 1, "kind": "sweep" }"#,
        r#"{ "schema": 1, "kind": "rank" }"#,
        r#"{ "schema": 1, "kind": "advise" }"#,
    ];
    assert_snapshot!(texts.map(refused).join("\n"), @r"
    doorbell: kept.json: it is not JSON: EOF while parsing an object at line 1 column 1
    doorbell: kept.json: it is no result: its member `schema` is missing
    doorbell: kept.json: it has schema 2, but this doorbell reads 1
    doorbell: kept.json: it is no result of `run`, `sweep`, `rank` or `advise`
      of `point`, .parquet, .ndjson and .csv files of --out can be repeated
    doorbell: kept.json: missing field `scenario`
    doorbell: kept.json: missing field `of`
    doorbell: kept.json: missing field `of`
    doorbell: kept.json: of: invalid type: null, expected struct Provenance
    ");
    let none = wrong_in(dir.path(), &["repeat", "none.json"]);
    assert_eq!(none, "doorbell: none.json: No such file or directory (os error 2)");
    let share = wrong_in(dir.path(), &["repeat", "kept.json", "--sample", "0"]);
    assert!(share.contains("allowed are 100 and less"), "{share}");
}

#[test]
fn files_of_records_are_repeated_and_say_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let at = |line: &str| doorbell_in(dir.path(), &line.split(' ').collect::<Vec<_>>());
    let done = |line: &str| done_in(dir.path(), line);
    let sweep = "sweep mlx5-pktgen-64 --set traffic.packets=480 --over traffic.burst=1..5 --over \
                 pcie.mps=128,256 --quiet";
    std::fs::create_dir(dir.path().join("all")).unwrap();
    done(&format!("{sweep} --out all/a.parquet"));
    done(&format!("{sweep} --out all/b.ndjson"));
    done(&format!("{sweep} --out all/d.csv"));
    // Of points of two sweeps, each with an origin of its own.
    let other = "sweep e1000-pktgen --set traffic.packets=240 --over run.seed=1,2 --plan";
    let plan = done(&format!("{sweep} --plan")) + &done(other);
    std::fs::write(dir.path().join("plan"), plan).unwrap();
    done("point plan --out all/c.parquet --quiet");
    done("point plan --out all/e.csv --quiet");
    assert_snapshot!(done("repeat all -q"), @r"
    all/a.parquet: the same 10 records
    all/b.ndjson: the same 10 records
    all/c.parquet: the same 12 records
    all/d.csv: the same 10 records
    all/e.csv: the same 12 records
    ");
    let some = done("repeat all/a.parquet --sample 25% -q");
    assert_eq!(some, "all/a.parquet: the same 3 of 10 records\n");
    // The file beside the lines has the origin, and a record that was changed is found.
    let (lines, origin) =
        (dir.path().join("all/b.ndjson"), dir.path().join("all/b.ndjson.origin.json"));
    let about: Value = serde_json::from_str(&std::fs::read_to_string(&origin).unwrap()).unwrap();
    assert_eq!(about["of"][0]["settings"]["traffic.packets"], "480 packets");
    assert_eq!(about["of"][0]["settings"]["pcie.mps"], Value::Null);
    let text = std::fs::read_to_string(&lines).unwrap();
    std::fs::write(&lines, text.replacen("\"maps\":1.0", "\"maps\":2.0", 1)).unwrap();
    let r = at("repeat all/b.ndjson -q");
    assert_eq!(r.code, 1);
    assert_snapshot!(r.out, @r"
    all/b.ndjson: not the same 10 records
      record 1: maps was 2.0, and is 1.0
    ");
    std::fs::remove_file(&origin).unwrap();
    let gone = wrong_in(dir.path(), &["repeat", "all/b.ndjson"]);
    assert!(gone.contains("all/b.ndjson.origin.json: No such file"), "{gone}");
}

/// Commands whose JSON is repeated, of one scenario each.
const STUDIES: [&str; 8] = [
    "sweep mlx5-pktgen-64 --set traffic.packets=480 --over traffic.burst=1..4 --show cycles",
    "sweep mlx5-pktgen-64 --set traffic.packets=480 --over traffic.burst=1,8 --across \
     traffic.offset=auto,2 --show maps+unmaps --show packets_per_s --shard 2/2",
    "rank axienet-sporadic axienet-steps --by rx_interrupts_per_s --show cycles --side \
     a:driver.controller=dim --side b:driver.controller=fixed,driver.rx_frames=64",
    "rank axienet-random --set driver.rx_frames=8 --seeds 3-5 --by rx_interrupts_per_s --where \
     latency_ns.p99>0 --side a:driver.controller=fixed,driver.rx_frames=64 --side \
     b:driver.controller=fixed",
    "rank axienet-steps --series setting_packets --every 100 --side driver.controller=trains",
    "advise mlx5-full-rate --set traffic.packets=2400 --set run.cores=1 --over \
     driver.moderation_period=0,64,2 --keep latency_ns.p99<10us",
    "advise mlx5-full-rate --set traffic.packets=2400 --set run.cores=1 --over \
     driver.mpwqe=off,on --keep latency_ns.p99<1ns",
    "advise e1000-pktgen --set traffic.packets=480 --over driver.tx_ring=80,256",
];

#[test]
fn studies_are_repeated_by_their_json() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("all")).unwrap();
    let mut same = String::new();
    for (n, study) in STUDIES.iter().enumerate() {
        let args: Vec<&str> = study.split_whitespace().chain(["--format", "json", "-q"]).collect();
        let r = doorbell_in(dir.path(), &args);
        assert!(r.code < 2 && r.err.is_empty(), "{study}: {}", r.err);
        std::fs::write(dir.path().join(format!("all/{n}.json")), &r.out).unwrap();
        same += &format!("all/{n}.json: the same result\n");
    }
    let r = doorbell_in(dir.path(), &["repeat", "all", "-q"]);
    assert_eq!((r.code, r.out, r.err.as_str()), (0, same, ""));
    // Rows of a sweep are sampled, and what was changed is found, by its place in the whole.
    let some = doorbell_in(dir.path(), &["repeat", "all/0.json", "--sample", "50%", "-q"]);
    assert_eq!((some.code, some.out.as_str()), (0, "all/0.json: the same 2 of 4 rows\n"));
    let change = |n: usize, change: &dyn Fn(&mut Value)| {
        let file = dir.path().join(format!("all/{n}.json"));
        let text = std::fs::read_to_string(&file).unwrap();
        let mut kept: Value = serde_json::from_str(&text).unwrap();
        change(&mut kept);
        std::fs::write(file, kept.to_string()).unwrap();
        doorbell_in(dir.path(), &["repeat", &format!("all/{n}.json"), "-q"])
    };
    let r = change(0, &|k| k["rows"][2]["values"]["cycles"] = json!(1.5));
    assert_eq!(r.code, 1);
    assert!(r.out.contains("all/0.json: not the same result\n  rows.2.values.cycles was 1.5, and"));
    let r = change(2, &|k| k["rows"][1]["against_first"] = json!("dominates"));
    assert!(r.code == 1 && r.out.contains("rows.1.against_first was \"dominates\""), "{}", r.out);
    let r = change(5, &|k| k["goal"] = json!("cycles"));
    assert!(r.code == 1 && r.out.contains("reached.name was \"packets_per_s\""), "{}", r.out);
    // What an older program left out, it cannot be asked for.
    let r = change(2, &|k| {
        let settings = k["of"][0]["settings"].as_object_mut().unwrap();
        assert_eq!(settings.shift_remove("driver.rx_frames").unwrap(), "1 packets");
    });
    assert_eq!(r.code, 2);
    let lacks = "all/2.json: its origin does not have `driver.rx_frames` of all sides";
    assert!(r.err.contains(lacks), "{}", r.err);
    let r = change(6, &|k| drop(k.as_object_mut().unwrap().shift_remove("searched")));
    assert!(r.err.contains("all/6.json: it does not tell what was searched"), "{}", r.err);
}

/// A line of csv without quotes.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').collect()
}

#[test]
fn records_have_the_numbers_of_the_result() {
    let of = |format: &str| {
        let set = ["--set", "traffic.packets=2400", "--set", "traffic.burst=8"];
        good(&[&["run", "mlx5-pktgen-64", "--format", format], &set[..]].concat())
    };
    let whole = result(&of("json"));
    let lines = of("ndjson");
    let record: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(lines.lines().count(), 1);
    for (name, value) in whole["per_packet"].as_object().unwrap() {
        assert_eq!(record[name], *value, "{name}");
    }
    for (name, value) in whole["rates"].as_object().unwrap() {
        assert_eq!(record[name], *value, "{name}");
    }
    assert_eq!(record["latency_ns.p99"], whole["latency_ns"]["p99"]);
    assert_eq!(
        record["packets_per_s_error"],
        whole["rates_error"].get("packets_per_s").cloned().unwrap_or_default()
    );
    // Settings are numbers in the unit of their key, or words.
    assert_eq!(record["traffic.burst"], json!(8));
    assert_eq!((&record["driver.mpwqe"], &record["traffic.file"]), (&json!("on"), &Value::Null));
    let csv = of("csv");
    let (heads, values) = csv.trim_end().split_once('\n').unwrap();
    let (heads, values) = (cells(heads), cells(values));
    assert_eq!(heads, record.as_object().unwrap().keys().collect::<Vec<_>>());
    let at = heads.iter().position(|h| *h == "maps").unwrap();
    assert_eq!((values[at], heads.len()), ("1", values.len()));
}

/// Every metric of `list --metrics` that a run has is a column, and every column is one.
#[test]
fn columns_have_the_names_of_list_metrics() {
    let run = ["run", "e1000-pktgen", "--set", "traffic.packets=480", "--format", "ndjson"];
    let record: Value = serde_json::from_str(&good(&run)).unwrap();
    let list = result(&good(&["list", "--metrics", "e1000", "--format", "json"]));
    let known: Vec<&str> =
        list["metrics"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    let others = [
        "scenario",
        "profile",
        "packets",
        "seconds",
        "steady",
        "limit",
        "limit_share",
        "binds",
        "outcome",
    ];
    for name in record.as_object().unwrap().keys().filter(|n| !n.contains('.')) {
        let name = name.strip_suffix("_error").unwrap_or(name);
        assert!(known.contains(&name) || others.contains(&name), "{name}");
    }
    assert!(known.contains(&"latency_ns.p99") && record.get("latency_ns.p99").is_some());
}

#[test]
fn every_command_with_records_gives_the_same_in_both_formats() {
    let short = ["--set", "traffic.packets=480"];
    let sides = ["--side", "driver.mpwqe=on", "--side", "driver.mpwqe=off", "--by", "cycles"];
    let over = ["--over", "pcie.mps=128,256", "--show", "packets_per_s"];
    let all: [&[&str]; 8] = [
        &["compare", "mlx5-pktgen-64", "--with", "driver.mpwqe=off"],
        &[&["sweep", "mlx5-pktgen-64"], &over[..]].concat(),
        &[&["rank", "mlx5-pktgen-64"], &sides[..]].concat(),
        &["transfer", "--profile", "mlx5-gen2", "--at", "0x1000", "--bytes", "600", "--write"],
        &["list"],
        &["list", "--keys", "ibmvnic"],
        &["list", "--metrics", "axienet"],
        &["reproduce", "ibmveth"],
    ];
    for args in all {
        let runs = matches!(args[0], "compare" | "sweep" | "rank");
        let shortened = if runs { &short[..] } else { &[] };
        let of = |format| good(&[args, shortened, &["--format", format, "-q"]].concat());
        let records: Vec<Value> =
            of("ndjson").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let csv = of("csv");
        let (heads, rows) = csv.split_once('\n').unwrap();
        assert!(records.len() > 1, "{args:?}");
        let heads = cells(heads);
        for record in &records {
            let names = record.as_object().unwrap().keys();
            assert!(names.clone().all(|n| heads.contains(&n.as_str())), "{args:?}: {heads:?}");
        }
        assert_eq!(rows.lines().count(), records.len(), "{args:?}");
    }
}

#[test]
fn a_sweep_writes_a_record_of_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = |file: &str| {
        let line = format!(
            "sweep mlx5-pktgen-64 --set traffic.packets=480 --over pcie.mps=128,256 --across \
             driver.mpwqe=off,on --show pcie_read_bytes --format json --out {file}"
        );
        doorbell_in(dir.path(), &line.split(' ').collect::<Vec<_>>())
    };
    let r = sweep("s.ndjson");
    assert_eq!((r.code, r.err.as_str()), (0, ""));
    let shown: Value = serde_json::from_str(&r.out).unwrap();
    let text = std::fs::read_to_string(dir.path().join("s.ndjson")).unwrap();
    let records: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let found: Vec<(f64, &str, &Value)> = records
        .iter()
        .map(|r| {
            let mps = r["pcie.mps"].as_f64().unwrap();
            (mps, r["driver.mpwqe"].as_str().unwrap(), &r["pcie_read_bytes"])
        })
        .collect();
    let values = |i: usize| &shown["rows"][i]["values"]["pcie_read_bytes"];
    let wanted = [
        (128.0, "off", &values(0)["off"]),
        (128.0, "on", &values(0)["on"]),
        (256.0, "off", &values(1)["off"]),
        (256.0, "on", &values(1)["on"]),
    ];
    assert_eq!(found, wanted);
    assert_eq!(shown["over"], json!({ "pcie.mps": ["128", "256"] }));
    // What all runs share, without the keys that differ.
    let settings = shown["of"]["settings"].as_object().unwrap();
    assert!(settings.contains_key("pcie.mrrs") && !settings.contains_key("pcie.mps"));
    // The same bytes each time, in each format.
    for file in ["a.parquet", "a.csv"] {
        assert_eq!(sweep(file).code, 0);
        let first = std::fs::read(dir.path().join(file)).unwrap();
        assert_eq!(sweep(file).code, 0);
        assert_eq!(std::fs::read(dir.path().join(file)).unwrap(), first);
    }
    let parquet = std::fs::read(dir.path().join("a.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let all = ["a.csv", "a.csv.origin.json", "a.parquet", "s.ndjson", "s.ndjson.origin.json"];
    assert_eq!(names(dir.path()), all);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_runs() {
    let dir = tempfile::tempdir().unwrap();
    let out = |file: &str| {
        let args = ["sweep", "mlx5-full-rate", "--over", "pcie.mps=128,256", "--show", "maps"];
        wrong_in(dir.path(), &[&args[..], &["--out", file]].concat())
    };
    assert_snapshot!(["s.xlsx", "none/s.csv"].map(out).join("\n"), @r"
    doorbell: --out s.xlsx: allowed are .parquet, .csv and .ndjson
    doorbell: none/s.csv: No such file or directory (os error 2)
    ");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn the_schema_of_results_refuses_what_it_does_not_know() {
    let schema: Value = serde_json::from_str(&good(&["schema", "result"])).unwrap();
    let of = jsonschema::validator_for(&schema).unwrap();
    let line = ["transfer", "--profile", "mlx5-gen2", "--at", "0x0", "--bytes", "64", "--read"];
    let mut one = result(&good(&[&line[..], &["--format", "json"]].concat()));
    assert!(of.is_valid(&one));
    for (member, value) in [("new", json!(1)), ("kind", json!("run")), ("bytes", json!("64"))] {
        let before = one.clone();
        one[member] = value;
        assert!(!of.is_valid(&one), "{member}");
        one = before;
    }
    assert!(wrong(&["schema", "results"]).contains("[possible values: scenario"));
}

/// Results of `guest` on two kernels, with fewer functions than they had.
fn kept() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept")
}

#[test]
fn kept_results_of_guests_stand_side_by_side() {
    let compare = ["compare", "linux-6.1.json", "linux-7.3.json"];
    let r = doorbell_in(&kept(), &[&compare[..], &["--format", "json"]].concat());
    assert_eq!((r.code, r.err.as_str()), (0, ""));
    let both = result(&r.out);
    assert_eq!(both["kind"], "guest");
    let runs = both["runs"].as_array().unwrap();
    let sides: Vec<&str> = runs.iter().map(|r| r["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["A", "A", "B", "B"]);
    let r = doorbell_in(&kept(), &compare);
    // A function that is new in B stands first; one that is the same in both is not marked.
    let changed = r.out.split("functions that changed most").nth(1).unwrap();
    let first = changed.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(first, ["mlx5e_tx_skb_update_ts_flags", "-", "16.000"]);
    assert!(
        r.out.contains("debian:6.1 A") && r.out.contains("\n B  linux-7.3.json\n"),
        "{}",
        r.out
    );
}

#[test]
fn results_that_cannot_be_compared_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(kept().join("linux-6.1.json")).unwrap();
    let mut other: Value = serde_json::from_str(&text).unwrap();
    std::fs::write(dir.path().join("a.json"), &text).unwrap();
    other["cpus"] = json!(2);
    std::fs::write(dir.path().join("b.json"), other.to_string()).unwrap();
    std::fs::write(dir.path().join("run.json"), good(&["list", "--format", "json"])).unwrap();
    let said = |args: &[&str]| wrong_in(dir.path(), &[&["compare"], args].concat());
    let buses = "mlx5 with mlx5_core, PCI Express 3.0 x16, MPS 256, MRRS 512, an Ack and an \
                 UpdateFC per request";
    assert_eq!(
        said(&["a.json", "b.json"]),
        format!("doorbell: A is of {buses}, 1 CPU, B of {buses}, 2 CPU")
    );
    assert_eq!(
        said(&["a.json", "run.json"]),
        "doorbell: run.json: its kind is \"list\", not \"guest\""
    );
    let asis = "doorbell: a.json: results that were kept are compared as they are";
    assert_eq!(said(&["a.json", "--with", "driver.mpwqe=on"]), asis);
    assert!(said(&["a.json", "none.json"]).contains("none.json: No such file"));
}
