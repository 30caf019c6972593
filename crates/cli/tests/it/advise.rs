//! `doorbell advise`, and what `run` says of limits.

use crate::common::{Ran, doorbell, good, wrong};
use insta::assert_snapshot;
use serde_json::Value;

const SHORT: [&str; 5] =
    ["mlx5-full-rate", "--set", "traffic.packets=6000", "--set", "run.cores=1"];
const SWITCH: [&str; 2] = ["--over", "driver.mpwqe=off,on"];

#[test]
fn the_switch_is_advised_with_its_worth_and_its_command() {
    let off = ["--set", "driver.mpwqe=off"];
    let args = [&["advise"], &SHORT[..], &off, &SWITCH, &["--format", "json"]].concat();
    let advice: Value = serde_json::from_str(&good(&args)).unwrap();
    let setting = &advice["settings"][0];
    assert_eq!(setting["key"], "driver.mpwqe");
    assert_eq!((&setting["from"], &setting["to"]), (&"off".into(), &"on".into()));
    assert_eq!(setting["command"], "ethtool --set-priv-flags $NIC skb_tx_mpwqe on");
    assert!(setting["gain"].as_f64().unwrap() > 0.05);
    assert!(setting["without"].as_f64().unwrap() < -0.05);
    assert_eq!((&advice["designs"], &advice["runs"]), (&2.into(), &2.into()));
    assert_eq!(advice["limit"]["binds"], "cores");
    // The same question has the same answer.
    assert_eq!(good(&args), good(&args));
}

#[test]
fn the_settings_of_a_system_are_searched_unless_they_are_fixed() {
    let args = |more: &[&'static str]| {
        let all = [&["advise"], &SHORT[..], &["--format", "json"], more].concat();
        let advice: Value = serde_json::from_str(&good(&all)).unwrap();
        let worth = advice["worth"].as_array().unwrap();
        worth.iter().map(|w| w["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let fixed =
        ["driver.queue", "driver.moderation_period", "driver.moderation_count", "run.cores"];
    let fix: Vec<&str> = fixed.iter().flat_map(|key| ["--fix", key]).collect();
    assert_eq!(args(&fix), ["driver.mpwqe", "pcie.mps", "pcie.mrrs"]);
}

#[test]
fn wrong_questions_are_refused_before_anything_runs() {
    let said = |more: &[&str]| wrong(&[&["advise"], &SHORT[..], more].concat());
    let goal = said(&["--goal", "speed"]);
    assert_snapshot!(
        goal,
        @"doorbell: --goal: a run of mlx5 has no number `speed`; `list --metrics mlx5` has all"
    );
    assert_snapshot!(
        said(&["--keep", "latency_ns.p99=5us"]),
        @"doorbell: --keep `latency_ns.p99=5us`: allowed is NAME<BOUND or NAME>BOUND, such as \
          latency_ns.p99<50us"
    );
    assert_snapshot!(
        said(&["--keep", "latency_ns.p99<5 Gbit/s"]),
        @"doorbell: --keep `latency_ns.p99<5 Gbit/s`: `latency_ns.p99` cannot be in \
          `Gbit/s`; allowed units: ps, ns, us, ms, s"
    );
    assert_snapshot!(
        said(&["--fix", "driver.mpwq"]),
        @"doorbell: --fix driver.mpwq: no key is called `driver.mpwq`; the nearest is \
          `driver.mpwqe`"
    );
    assert_snapshot!(
        said(&["--over", "driver.mpwqe=maybe"]),
        @"doorbell: --over driver.mpwqe=maybe: `driver.mpwqe` cannot be `maybe`; allowed: on, \
          off"
    );
    let fix = [
        "driver.mpwqe",
        "driver.queue",
        "driver.moderation_period",
        "driver.moderation_count",
        "pcie.mps",
        "pcie.mrrs",
        "run.cores",
    ];
    let all: Vec<&str> = fix.iter().flat_map(|key| ["--fix", key]).collect();
    assert_snapshot!(
        said(&all),
        @"doorbell: there is nothing to search: all settings of mlx5 are fixed"
    );
}

#[test]
fn a_bound_that_nothing_keeps_ends_with_1_and_the_nearest() {
    let args = [&["advise"], &SHORT[..], &SWITCH, &["--keep", "latency_ns.p99<1ns"]].concat();
    let Ran { code, out, .. } = doorbell(&args);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("--keep 'latency_ns.p99<1ns' CANNOT BE KEPT: "), "{out}");
    assert!(out.contains("come nearest; there is no advice"), "{out}");
    assert!(!out.contains("what each setting is worth"), "{out}");
    let json = doorbell(&[&args[..], &["--format", "json"]].concat()).out;
    let advice: Value = serde_json::from_str(&json).unwrap();
    assert!(advice["keep"][0]["reached"].as_f64().unwrap() > 1.0);
    assert!(advice["nearest"].is_array() && advice["settings"] == Value::Array(Vec::new()));
}

#[test]
fn an_offered_load_is_a_bound_that_is_printed() {
    let paced = [&["advise"], &SHORT[..], &SWITCH, &["--set", "traffic.rate=2"]].concat();
    let args = [&paced[..], &["--goal", "cycles"]].concat();
    let out = good(&args);
    let line = out.lines().find(|l| l.contains("--keep 'packets_per_s>1.9")).expect(&out);
    assert!(line.contains("Mpps' holds: "), "{line}");
    assert!(line.ends_with("the offered load, lifted by --keep 'packets_per_s>0'"), "{line}");
    assert!(!good(&[&args[..], &["--keep", "packets_per_s>0"]].concat()).contains("offered"));
    assert!(!good(&paced).contains("offered"));
}

#[test]
fn values_that_break_a_bound_are_marked() {
    let over = ["--over", "driver.moderation_period=0,2,64", "--keep", "latency_ns.p99<10us"];
    let out = good(&[&["advise"], &SHORT[..], &over].concat());
    assert!(out.contains("(breaks latency_ns.p99<10us)"), "{out}");
}

#[test]
fn a_run_says_what_limits_unless_it_is_told_not_to() {
    let run = [&["run"], &SHORT[..], &["--set", "nic.port_rate=1"]].concat();
    let limit = "the limit is port: nic.port_rate 1 -> 1.1 Gbit/s gives +10.0 % packets";
    assert!(good(&run).contains(limit), "{}", good(&run));
    assert!(!good(&[&run[..], &["--no-limits"]].concat()).contains("limit is"));
}

#[test]
fn todays_settings_come_from_what_ethtool_and_lspci_print() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("today.txt");
    let path = file.to_str().unwrap();
    let text = "Coalesce parameters for eth0:\ntx-usecs:\t8\ntx-frames:\t32\n\nRing parameters for \
                eth0:\nPre-set maximums:\nTX:\t8192\nCurrent hardware settings:\nTX:\t2048\n";
    std::fs::write(&file, text).unwrap();
    let ask = [&["advise"], &SHORT[..], &SWITCH, &["--today", path, "--format", "json"]].concat();
    let of = |args: &[&str]| {
        let advice: Value = serde_json::from_str(&good(args)).unwrap();
        let settings = &advice["of"]["settings"];
        ["driver.moderation_period", "driver.queue"].map(|key| settings[key].clone())
    };
    assert_eq!(of(&ask), ["8 us", "2048 blocks"]);
    // What is set beside it wins.
    let own = [&ask[..], &["--set", "driver.queue=512"]].concat();
    assert_eq!(of(&own), ["8 us", "512 blocks"]);
    std::fs::write(&file, "Coalesce parameters for eth0:\ntx-usecs:\tfast\n").unwrap();
    let refused = wrong(&ask);
    assert!(refused.starts_with(&format!("doorbell: {path}:2: ")), "{refused}");
}
