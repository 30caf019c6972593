//! `doorbell rank`, and with it the position of our controller among the others.

use crate::common::{good, wrong};
use serde_json::Value;

const SIDES: [&str; 6] = [
    "trains: driver.controller=trains",
    "fixed 1: driver.controller=fixed",
    "fixed 64: driver.controller=fixed,driver.rx_frames=64",
    "dim_cqe: driver.controller=dim_cqe",
    "dim: driver.controller=dim",
    "classes: driver.controller=classes",
];

fn rank(args: &[&str]) -> Value {
    let sides = SIDES.iter().flat_map(|s| ["--side", s]);
    let by = ["--by", "rx_interrupts_per_s", "--by", "latency_ns.p99", "--format", "json"];
    let all: Vec<&str> =
        ["rank"].into_iter().chain(args.iter().copied()).chain(sides).chain(by).collect();
    serde_json::from_str(&good(&all)).unwrap()
}

const NAMED: [&str; 8] = [
    "axienet-saturated",
    "axienet-bursts",
    "axienet-sporadic",
    "axienet-steps",
    "axienet-on-off",
    "axienet-receive",
    "axienet-beside",
    "axienet-jumbo",
];

/// All commands agree on the direction of a number: what `rank` calls dominated, `compare` calls
/// worse, and `advise` leaves.
#[test]
fn the_direction_of_packets_is_that_of_all_commands() {
    let sides = ["--side", "on: driver.mpwqe=on", "--side", "off: driver.mpwqe=off"];
    let scenario = ["mlx5-single-stream", "--set", "traffic.packets=200000"];
    let ranked = |by: &str| -> Vec<String> {
        let more = ["--by", by, "--format", "json", "--quiet"];
        let all = good(&[&["rank"], &scenario[..], &sides, &more].concat());
        let all: Value = serde_json::from_str(&all).unwrap();
        let rows = all["rows"].as_array().unwrap();
        rows.iter().map(|r| r["against_first"].as_str().unwrap().to_owned()).collect()
    };
    // Multi-packet WQEs send more packets and take fewer bytes.
    for by in ["packets_per_s", "frame_bits_per_s", "pcie_down_tlp_bytes", "cycles"] {
        assert_eq!(ranked(by), ["", "dominated"], "{by}");
    }
    let compared = good(
        &[
            &["compare"],
            &scenario[..],
            &[
                "--set",
                "driver.mpwqe=off",
                "--with",
                "driver.mpwqe=on",
                "--format",
                "csv",
                "--quiet",
            ],
        ]
        .concat(),
    );
    let row = compared.lines().find(|l| l.starts_with("packets_per_s,")).unwrap();
    let difference: f64 = row.split(',').nth(3).unwrap().parse().unwrap();
    assert!(difference > 0.0, "{row}");
    let advised = good(&[
        "advise",
        "mlx5-single-stream",
        "--set",
        "driver.mpwqe=off",
        "--over",
        "driver.mpwqe=on,off",
        "--goal",
        "packets_per_s",
        "--format",
        "json",
        "--quiet",
    ]);
    let advised: Value = serde_json::from_str(&advised).unwrap();
    let (from, to) = (&advised["reached"]["from"], &advised["reached"]["to"]);
    assert!(to.as_f64() > from.as_f64(), "{}", advised["reached"]);
}

#[test]
fn trains_is_dominated_in_none_of_the_named_scenarios() {
    let all = rank(&NAMED);
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows.len(), NAMED.len() * SIDES.len());
    for r in rows {
        assert_ne!(r["against_first"], "dominates", "{r}");
    }
    let of = |scenario: &str, side: &str, what: &str| {
        let row = rows.iter().find(|r| r["scenario"] == scenario && r["side"] == side).unwrap();
        row["values"][what].as_f64().unwrap()
    };
    for saturated in ["axienet-saturated", "axienet-receive"] {
        let interrupts = |side| of(saturated, side, "rx_interrupts_per_s");
        assert!(interrupts("trains") <= interrupts("dim"), "{saturated}");
    }
    // At low load, and over drops of load, better than DIM.
    let p99 = |scenario, side| of(scenario, side, "latency_ns.p99");
    assert_eq!(p99("axienet-sporadic", "trains"), p99("axienet-sporadic", "fixed 1"));
    assert!(p99("axienet-sporadic", "trains") * 2.0 < p99("axienet-sporadic", "dim"));
    assert!(p99("axienet-steps", "trains") * 2.0 < p99("axienet-steps", "dim"));
}

/// Behind a drop of load and at low load: worse in the median and in the 99th percentile.
#[test]
fn behind_a_drop_and_at_low_load_dim_is_dominated() {
    let sides = [
        "--side",
        SIDES[0],
        "--side",
        SIDES[4],
        "--by",
        "latency_ns.p50",
        "--by",
        "latency_ns.p99",
    ];
    let time =
        ["--set", "traffic.warmup=100", "--set", "traffic.duration=1000", "--format", "json"];
    // The command's former name.
    let all = [&["judge", "axienet-steps", "axienet-sporadic"], &sides[..], &time[..]].concat();
    let all: Value = serde_json::from_str(&good(&all)).unwrap();
    let rows = all["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for dim in rows.iter().filter(|r| r["side"] == "dim") {
        // The steps of a load are no phases of a steady one: a run has one of each.
        let steps = dim["scenario"] == "axienet-steps";
        let verdict = if steps { "" } else { "dominated" };
        assert_eq!(dim["against_first"], verdict, "{dim}");
    }
}

#[test]
fn trains_is_dominated_in_few_random_scenarios() {
    let all = rank(&["axienet-random", "--seeds", "1-60"]);
    assert_eq!(all["runs"], 60);
    // Of a thousand it is 0.7 %, of which one is here.
    assert!(all["dominated"].as_array().unwrap().len() <= 1, "{}", all["dominated"]);
    let count = |side: &str, what: &str| {
        let row = all["rows"].as_array().unwrap().iter().find(|s| s["side"] == side).unwrap();
        row[what].as_u64().unwrap()
    };
    assert!(count("dim", "dominated_by_first") > count("dim", "dominates_first"));
}

#[test]
fn what_is_not_a_side_or_a_range_is_refused() {
    let with = |args: &[&str]| {
        wrong(&[&["rank", "axienet-sporadic", "--by", "rx_interrupts_per_s"], args].concat())
    };
    assert!(with(&["--side", "dim"]).contains("expected key=value"));
    assert!(with(&["--side", "driver.controller=dimm"]).contains("driver.controller"));
    assert!(
        with(&["--side", "driver.controller=dim", "--seeds", "9-1"])
            .contains("expected FIRST-LAST")
    );
    assert!(with(&["--side", "driver.controller=dim", "--noise", "101"]).contains("0 to 100"));
    let series = ["--side", "driver.controller=dim", "--series", "nothing"];
    assert!(with(&series).contains("setting_packets"));
}

/// A run without an error cannot tell by how much it must differ.
#[test]
fn runs_that_are_too_short_dominate_none() {
    let short = ["--set", "run.cores=1", "--set", "traffic.packets=240"];
    let sides = ["--side", "traffic.size=64", "--side", "traffic.size=1500"];
    let by = ["--by", "inbound_link_share"];
    let args = [&["rank", "mlx5-full-rate"], &short[..], &sides, &by].concat();
    let all: Value =
        serde_json::from_str(&good(&[&args[..], &["--format", "json"]].concat())).unwrap();
    for row in all["rows"].as_array().unwrap() {
        let error = &row["errors"]["inbound_link_share"];
        assert_eq!((error, &row["against_first"]), (&Value::Null, &"".into()), "{all}");
    }
    let table = good(&args);
    assert!(table.contains("inbound_link_share unknown, a run is too short"), "{table}");
}

/// Two seeds of the same system differ, and neither dominates: the difference is within their
/// errors, which are told. What differs by more is dominated.
#[test]
fn a_side_is_dominated_only_beyond_the_error() {
    let random = ["--set", "traffic.arrivals=poisson", "--set", "traffic.rate=5Mpps"];
    let few = ["--set", "run.cores=1", "--set", "traffic.packets=20000"];
    let sides = ["--side", "a: run.seed=1", "--side", "b: run.seed=2"];
    let other = ["--side", "c: run.seed=1,traffic.size=256"];
    let by = ["--by", "inbound_link_share", "--noise", "0", "--format", "json"];
    let args = [&["rank", "mlx5-full-rate"], &random[..], &few, &sides, &other, &by].concat();
    let all: Value = serde_json::from_str(&good(&args)).unwrap();
    let of =
        |side: usize, what: &str| all["rows"][side][what]["inbound_link_share"].as_f64().unwrap();
    let apart = (of(0, "values") - of(1, "values")).abs();
    assert!(apart > 0.0 && apart < libm::hypot(of(0, "errors"), of(1, "errors")), "{all}");
    let verdicts = [0, 1, 2].map(|i| all["rows"][i]["against_first"].as_str().unwrap());
    assert_eq!(verdicts, ["", "", "dominated"]);
}
