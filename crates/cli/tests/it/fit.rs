//! `doorbell fit`: one's own measurements calibrate a profile.

use crate::common::{doorbell_in, good, names, result, wrong_in};
use insta::assert_snapshot;
use std::path::{Path, PathBuf};

const HEAD: &str = "name = \"rack\"\nabout = \"a machine\"\nprofile = \"mlx5-gen3\"\n";
const CONSTANT: &str = "[[constant]]\nkey = \"cpu.stack\"\n";

/// A row of a short run.
fn row(set: &str, metric: &str, value: &str) -> String {
    let short = "\"traffic.packets=640\", \"driver.queue=64\"";
    format!(
        "[[row]]\nscenario = \"mlx5-single-stream\"\nset = [{short}, {set}]\n\
         metric = \"{metric}\"\n\
         {value}\nsource = \"a tool\"\n"
    )
}

fn cycles(set: &str, value: f64) -> String {
    row(set, "cycles", &format!("value = {value}\nunit = \"cycles\"\nspread = \"1 %\""))
}

/// Writes the measurements m.toml with this text below the head.
fn at(dir: &Path, text: &str) -> &'static str {
    std::fs::write(dir.join("m.toml"), format!("{HEAD}{text}")).unwrap();
    "m.toml"
}

#[test]
fn measurements_that_new_writes_are_met_by_the_profile() {
    let dir = tempfile::tempdir().unwrap();
    for of in ["mlx5-single-stream", "e1000-pktgen", "ibmvnic-bulk"] {
        let file = format!("{of}.toml");
        let made = doorbell_in(dir.path(), &["new", "measurements", &file, "--of", of]);
        assert_eq!((made.code, made.err.as_str()), (0, ""));
        let r = doorbell_in(dir.path(), &["fit", &file, "--format", "json"]);
        assert_eq!((r.code, r.err.as_str()), (0, ""), "{}", r.out);
        let fit = result(&r.out);
        assert_eq!(fit["measurements"], of);
        let constant = &fit["constants"][0];
        let [found, start] = ["value", "profile_value"].map(|m| constant[m].as_f64().unwrap());
        assert!((found / start - 1.0).abs() < 1e-3, "{constant}");
        let schema = serde_json::from_str(&good(&["schema", "measurements"])).unwrap();
        let checker = jsonschema::draft7::new(&schema).unwrap();
        let text = std::fs::read_to_string(dir.path().join(&file)).unwrap();
        let wrong: Vec<String> =
            checker.iter_errors(&toml::from_str(&text).unwrap()).map(|e| e.to_string()).collect();
        assert_eq!(wrong, [""; 0], "{file}");
    }
}

#[test]
fn the_written_profile_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = at(dir.path(), &(CONSTANT.to_owned() + &cycles("\"traffic.burst=8\"", 200.0)));
    let r = doorbell_in(dir.path(), &["fit", file, "--out", "mine.toml"]);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{}", r.out);
    assert_eq!(names(dir.path()), ["m.toml", "mine.toml"]);
    let short = ["--set", "traffic.packets=640", "--set", "driver.queue=64"];
    let run = ["run", "mlx5-single-stream", "--profile", "mine.toml", "--format", "json"];
    let burst = ["--set", "traffic.burst=8"];
    let r = doorbell_in(dir.path(), &[&run[..], &short, &burst].concat());
    let cycles = result(&r.out)["per_packet"]["cycles"].as_f64().unwrap();
    assert!((cycles - 200.0).abs() < 0.01, "{cycles}");
    // A fit may begin with it.
    let again = std::fs::read_to_string(dir.path().join(file)).unwrap();
    std::fs::write(dir.path().join("n.toml"), again.replace("mlx5-gen3", "mine.toml")).unwrap();
    let r = doorbell_in(dir.path(), &["fit", "n.toml", "--format", "json"]);
    let constant = result(&r.out)["constants"][0].clone();
    assert_eq!(constant["value"], constant["profile_value"]);
}

#[test]
fn too_few_rows_leave_constants_undetermined() {
    let dir = tempfile::tempdir().unwrap();
    let both = format!("{CONSTANT}{}", CONSTANT.replace("stack", "tx_shared"));
    let file = at(dir.path(), &(both + &cycles("\"traffic.burst=8\"", 200.0)));
    let r = doorbell_in(dir.path(), &["fit", file]);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{}", r.out);
    assert_snapshot!(r.out);
}

#[test]
fn a_check_row_outside_its_error_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let fitted = CONSTANT.to_owned() + &cycles("\"traffic.burst=8\"", 200.0);
    let check = cycles("\"traffic.burst=1\"", 900.0);
    let check = check.replace("source", "role = \"check\"\nsource");
    let file = at(dir.path(), &(fitted + &check));
    let r = doorbell_in(dir.path(), &["fit", file]);
    assert_eq!((r.code, r.err.as_str()), (1, ""), "{}", r.out);
    assert!(r.out.contains("1 of 1 predictions are OUTSIDE their 95 % error"), "{}", r.out);
}

#[test]
fn records_are_the_constants_and_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let file = at(dir.path(), &(CONSTANT.to_owned() + &cycles("\"traffic.burst=8\"", 200.0)));
    let of = |format| doorbell_in(dir.path(), &["fit", file, "--format", format]).out;
    let lines: Vec<serde_json::Value> =
        of("ndjson").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (&lines[0]["constant"], &lines[0]["state"]),
        (&"cpu.stack".into(), &"determined".into())
    );
    assert_eq!((&lines[1]["row"], &lines[1]["metric"]), (&1.into(), &"cycles".into()));
    let csv = of("csv");
    assert!(csv.starts_with("constant,unit,profile_value,value,low,high,state,row,"), "{csv}");
    assert!(of("markdown").contains("| cpu.stack |"));
}

#[test]
fn wrong_measurements_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |text: &str| {
        let file = at(dir.path(), text);
        let e = wrong_in(dir.path(), &["fit", file, "--out", "mine.toml"]);
        assert_eq!(names(dir.path()), ["m.toml"]);
        e
    };
    let good = cycles("\"traffic.burst=8\"", 200.0);
    let rate =
        row("\"traffic.burst=8\"", "packets_per_s", "value = 9\nunit = \"Mpps\"\nspread = 0.1");
    let samples = root().join("crates/study/src/fit/readers/samples");
    let counters = format!(
        "[[counters]]\nscenario = \"mlx5-single-stream\"\nformat = \"ethtool\"\n\
         before = \"{0}/ethtool-before.txt\"\nafter = \"{0}/ethtool-after.txt\"\n\
         packets = \"tx_packets\"\n[counters.metrics]\ntx_mpwqe = \"driver_mpwqe_blks\"\n",
        samples.display()
    );
    let all = [
        refused(CONSTANT),
        refused(&good),
        refused(
            &(CONSTANT.to_owned() + &good.replace("metric = \"cycles\"", "metric = \"cicles\"")),
        ),
        refused(&(CONSTANT.replace("stack", "stak") + &good)),
        refused(&(CONSTANT.to_owned() + &good + &cycles("\"traffic.burst=8\"", 240.0))),
        refused(&(CONSTANT.to_owned() + &good + &rate)),
        refused(&(CONSTANT.to_owned() + &counters)),
        refused(&(CONSTANT.to_owned() + &good.replace("cycles\"\n", "latency_ns.p51\"\n"))),
    ];
    assert_snapshot!(all.join("\n"));
    at(dir.path(), &(CONSTANT.to_owned() + &good));
    for (file, out, why) in [
        ("m.toml", "mine", "mine: the name has to end in .toml"),
        ("m.toml", "none/mine.toml", "none/mine.toml: No such file or directory (os error 2)"),
        ("n.toml", "mine.toml", "n.toml: No such file or directory (os error 2)"),
    ] {
        let e = wrong_in(dir.path(), &["fit", file, "--out", out]);
        assert_eq!(e, format!("doorbell: {why}"));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of the documentation: they fit their schema, and their run ends well.
#[test]
fn the_example_runs() {
    let schema = serde_json::from_str(&good(&["schema", "measurements"])).unwrap();
    let checker = jsonschema::draft7::new(&schema).unwrap();
    let file = root().join("examples/measurements/mlx5.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let wrong: Vec<String> =
        checker.iter_errors(&toml::from_str(&text).unwrap()).map(|e| e.to_string()).collect();
    assert_eq!(wrong, [""; 0]);
    let r = doorbell_in(&root(), &["fit", "examples/measurements/mlx5.toml", "--format", "json"]);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{}", r.out);
    let fit = result(&r.out);
    let is_determined = |c: &serde_json::Value| c["state"] == "determined";
    assert!(fit["constants"].as_array().unwrap().iter().all(is_determined), "{fit}");
}
