//! `doorbell check`: budgets that hold, that are broken, and that make no sense.

use crate::common::{Ran, doorbell, doorbell_in, pcap, tcp, wrong_in};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::path::Path;

const MLX5: &str =
    "scenario = \"mlx5-pktgen-64\"\n[set]\n\"traffic.packets\" = 4800\n\"run.cores\" = 1\n";

fn check_in(dir: &Path, budget: &str, more: &[&str]) -> Ran {
    std::fs::write(dir.join("b.toml"), budget).unwrap();
    doorbell_in(dir, &[&["check", "b.toml", "--quiet"], more].concat())
}

fn check(budget: &str, more: &[&str]) -> Ran {
    check_in(tempfile::tempdir().unwrap().path(), budget, more)
}

fn refused(budget: &str, more: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b.toml"), budget).unwrap();
    wrong_in(dir.path(), &[&["check", "b.toml", "--quiet"], more].concat())
}

#[test]
fn the_budgets_here_hold() {
    let mpwqe = doorbell(&["check", "../../budgets/mlx5-mpwqe.toml", "--quiet"]);
    assert_eq!((mpwqe.code, mpwqe.err.as_str()), (0, ""), "{}", mpwqe.out);
    let guest = doorbell(&["check", "../../budgets/e1000-guest.toml", "--quiet"]);
    assert_snapshot!(guest.err, @"doorbell: ../../budgets/e1000-guest.toml: it is about a served \
        device; give the output of `serve` or `guest` with --format json as --report FILE");
}

#[test]
fn a_driver_that_costs_more_breaks_it_and_the_difference_is_shown() {
    let budget = format!(
        "{MLX5}[budget]\n\
         pcie_down_tlp_bytes = 115\n\
         driver_mpwqe_pkts = {{ exact = 1 }}\n\
         pcie_write_bytes = {{ min = 2, max = 4 }}\n\
         \"ledger.dma_faults\" = {{ exact = 0 }}\n"
    );
    let good = check(&budget, &[]);
    assert_eq!(good.code, 0, "{}{}", good.out, good.err);
    let bad = check(&budget, &["--set", "driver.mpwqe=off"]);
    assert_eq!((bad.code, bad.err.as_str()), (1, ""));
    assert_snapshot!(bad.out);
    assert_snapshot!(check(&budget, &["--set", "driver.mpwqe=off", "--format", "markdown"]).out);
    let json = check(&budget, &["--set", "driver.mpwqe=off", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["holds"], &json["broken"]), (&json!(false), &json!(2)));
    assert_eq!(json["rows"][1]["allowed"], json!({ "exact": 1.0 }));
    assert_eq!(json["rows"][1]["measured"], 0.0);
    assert_eq!(
        (&json["rows"][1]["difference"], &json["rows"][1]["percent"]),
        (&json!(-1.0), &json!(-100.0))
    );
    assert_eq!(json["rows"][1]["line"], 7);
}

#[test]
fn the_same_input_gives_the_same_counts_to_the_last_bit() {
    let budget = format!(
        "{MLX5}[budget]\ncycles = {{ exact = 0 }}\n\"latency_ns.p99\" = {{ exact = \
         0 }}\n"
    );
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(check_in(dir.path(), &budget, &["--update"]).code, 0);
    let again = doorbell_in(dir.path(), &["check", "b.toml", "--quiet"]);
    assert_eq!(again.code, 0, "{}", again.out);
    let other =
        doorbell_in(dir.path(), &["check", "b.toml", "--quiet", "--set", "driver.mpwqe=off"]);
    assert_ne!(other.code, 0, "another driver has other numbers");
}

#[test]
fn files_lie_beside_the_budget_and_a_profile_stands_in_for_the_scenarios() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "name = \"mine\"\nabout = \"mine\"\nsystem = \"mlx5\"\nprofile = \
        \"mlx5-gen2\"\n[traffic]\npackets = 4800\n";
    std::fs::write(dir.path().join("mine.toml"), scenario).unwrap();
    let on = |head: &str| {
        let budget = format!(
            "scenario = \"mine.toml\"\n{head}seed = 7\n[budget]\npackets = {{ exact = 4800 \
             }}\nseed = 7\n"
        );
        std::fs::write(dir.path().join("b.toml"), budget).unwrap();
        // From elsewhere.
        let ran = doorbell(&["check", dir.path().join("b.toml").to_str().unwrap(), "--quiet"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        ran.out
    };
    assert!(on("").contains("mine on mlx5-gen2, 4,800 packets"));
    assert!(on("profile = \"mlx5-gen3\"\n").contains("mine on mlx5-gen3, 4,800 packets"));
}

#[test]
fn an_update_keeps_comments_and_order() {
    let budget = "# Ours.\nscenario = \"mlx5-pktgen-64\" # the switch is on\n\n\
        [set]\ntraffic.packets = 3200\n\n\
        [budget] # of a packet\n# Doorbells.\nmaps   =   7   # too many\n\
        unmaps = { max = 9 } # here too\n\n\
        [budget.ledger]\nwire_frames={exact=1}# exactly\n\
        messages = { min = 1_000, max = 2e3 }\n";
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(check_in(dir.path(), budget, &["--update"]).code, 0);
    let written = std::fs::read_to_string(dir.path().join("b.toml")).unwrap();
    assert_snapshot!(written);
    assert_eq!(doorbell_in(dir.path(), &["check", "b.toml", "--quiet"]).code, 0, "now it holds");
    assert_eq!(check_in(dir.path(), budget, &["--update", "--room", "50"]).code, 0);
    let written = std::fs::read_to_string(dir.path().join("b.toml")).unwrap();
    assert!(
        written.contains("=   1.5   # too many") && written.contains("{exact=3216}# exactly"),
        "{written}"
    );
}

/// Returns a shortened output of `serve --format json`.
fn report(frames: u64) -> Value {
    let of = |n: u64| {
        if frames == 0 { json!({}) } else { json!({ "mmio_writes": n as f64 / frames as f64 }) }
    };
    json!({
        "schema": 1, "kind": "serve", "device": "e1000",
        "bus": "PCI, 32 bits at 66 MHz, lines of 64 B, a bridge that reads 512 B ahead",
        "clients": 1, "frames": frames, "ledger": { "mmio_writes": 2500, "dma_faults": 0 },
        "per_packet": of(2500), "device_counters": { "hangs": 0 }
    })
}

#[test]
fn a_guests_report_is_held_like_a_run() {
    let dir = tempfile::tempdir().unwrap();
    // SIGUSR1 had it printed before the end; the last is the whole.
    std::fs::write(dir.path().join("r.json"), format!("{}\n{}\n", report(1), report(10_000)))
        .unwrap();
    let budget = |most: &str| {
        format!(
            "device = \"e1000\"\nbus = \"pci32\"\n[budget]\nframes = {{ min = 1000 }}\n\
             mmio_writes = {most}\n\
             [budget.device_counters]\nhangs = {{ exact = 0 }}\n"
        )
    };
    let ran = check_in(dir.path(), &budget("0.25"), &["--report", "r.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = check_in(dir.path(), &budget("0.2"), &["--report", "r.json"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.out);
    // Nothing crossed: no ceiling is met by that.
    std::fs::write(dir.path().join("r.json"), report(0).to_string()).unwrap();
    let ran = check_in(dir.path(), &budget("0.2"), &["--report", "r.json"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.err, @"doorbell: --report r.json: no packet was counted, so there is \
        nothing to check");
}

#[test]
fn a_run_may_have_been_done_before() {
    let dir = tempfile::tempdir().unwrap();
    let run = [
        "run",
        "mlx5-pktgen-64",
        "--format",
        "json",
        "--quiet",
        "--set",
        "traffic.packets=4800",
        "--set",
        "run.cores=1",
    ];
    let mut result = doorbell(&run).out;
    std::fs::write(dir.path().join("r.json"), &result).unwrap();
    let budget = format!("{MLX5}[budget]\npackets = {{ exact = 4800 }}\nmaps = 1\n");
    assert_eq!(check_in(dir.path(), &budget, &["--report", "r.json"]).code, 0);
    // A result whose audit failed holds nothing, and is not written down.
    result = result.replace("\"audit\": []", "\"audit\": [\"one packet is missing\"]");
    std::fs::write(dir.path().join("r.json"), &result).unwrap();
    let ran = check_in(dir.path(), &budget, &["--report", "r.json"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("NOTHING HOLDS") && ran.out.contains("audit: one packet is missing"),
        "{}",
        ran.out
    );
    let ran = check_in(dir.path(), &budget, &["--report", "r.json", "--update"]);
    assert_eq!(
        (ran.code, std::fs::read_to_string(dir.path().join("b.toml")).unwrap()),
        (1, budget)
    );
}

#[test]
fn names_of_an_older_version_are_read_with_a_hint() {
    let old = check(
        &format!(
            "{MLX5}[budget]\n\"per_packet.maps+unmaps\" = 2\n\"rates.packets_per_s\" = {{ min = \
             1 }}\n[budget.per_packet]\nmmio_writes = 2\n"
        ),
        &[],
    );
    assert_eq!(
        (old.code, old.err.as_str()),
        (
            0,
            "doorbell: b.toml:6: `maps+unmaps` has no `per_packet` before it any more; the next \
             version refuses it\n"
        ),
        "{}",
        old.out
    );
}

/// Every refused budget with its message; the snapshot has both.
#[test]
fn a_mistake_is_told_with_its_line() {
    let bounds = [
        "pcie_raed_bytes = 1\n\"ledger.mmio_write\" = 2",
        "\"per_packet.pcie_raed_bytes\" = 1",
        "\"pcie_down_tlp_bytes+pcie_down_dlp_bytes\" = 1",
        "maps = \"few\"",
        "maps = { most = 3 }",
        "maps = { min = 3, max = 2 }",
        "maps = { exact = 3, max = 2 }",
        "maps = {}",
        "maps = 1\n[budget.per_packet]\nmaps = 2",
        "maps = 1\nmaps = 2",
        "",
    ];
    let heads = [
        "\ndevice = \"e1001\"",
        "device = \"e1000\"\nbus = \"isa\"",
        "device = \"e1000\"\nseed = 3",
        "",
        "scenario = \"mlx5-pktgen-64\"\nprofil = \"x\"",
        "scenario = \"mlx5-pktgen-64\"\n[set]\n\"driver.mpwq\" = true",
        "scenario = \"mlx5-pktgen-64\"\nprofile = \"e1000-power4\"",
        "scenario = \"mlx5-pktgen-64\"\nprofile = \"mine.toml\"",
        "scenario = \"mlx5-pktgen-64\"\nseed = \"x\"",
        "scenario = mlx5",
    ];
    let bounds = bounds.iter().map(|rest| format!("{MLX5}[budget]\n{rest}"));
    let heads = heads.iter().map(|head| format!("{head}\n[budget]\npackets = 1"));
    let mut all: String =
        bounds.chain(heads).map(|b| format!("{b}\n  => {}\n\n", refused(&b, &[]))).collect();
    let fine = format!("{MLX5}[budget]\npackets = 4800");
    for args in [
        &["--set", "driver.mpwq=on"][..],
        &["--report", "r.json"],
        &["--report", "r.json", "--seed", "1"],
    ] {
        all += &format!("{args:?}\n  => {}\n\n", refused(&fine, args));
    }
    all += &wrong_in(Path::new("."), &["check", "nowhere.toml"]);
    assert_snapshot!(all);
}

/// These list all names that are alike, of which there will be more.
#[test]
fn a_misspelt_name_is_told_with_the_nearest() {
    let lost = refused("scenario = \"mlx5-pktgen\"\n[budget]\npackets = 1", &[]);
    let near = "no scenario is called `mlx5-pktgen`; the nearest is `mlx5-pktgen-64`";
    assert!(lost.starts_with(&format!("doorbell: b.toml:1: {near}")), "{lost}");
    let lost = refused(
        "scenario = \"mlx5-pktgen-64\"\nprofile = \"mlx5-gen4\"\n[budget]\npackets = 1",
        &[],
    );
    let near = "no profile is called `mlx5-gen4`; the nearest is `mlx5-gen2`";
    assert!(lost.starts_with(&format!("doorbell: b.toml:2: {near}")), "{lost}");
}

#[test]
fn an_update_with_settings_of_its_own_is_refused() {
    let budget = format!("{MLX5}[budget]\npackets = 4800\n");
    let message = refused(&budget, &["--update", "--set", "driver.mpwqe=off"]);
    assert_snapshot!(message, @"doorbell: --update: `driver.mpwqe` is off on the command line, but \
        not in b.toml, whose next run would break the written numbers; put it under [set] there");
    // What the file says already may be said again.
    assert_eq!(check(&budget, &["--update", "--set", "run.cores=1"]).code, 0);
}

#[test]
fn a_report_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("a.pcap"), pcap(1, &[tcp(100), tcp(200)])).unwrap();
    std::fs::write(at.join("b.pcap"), pcap(1, &[tcp(100), tcp(201)])).unwrap();
    std::fs::copy(at.join("a.pcap"), at.join("the-same.pcap")).unwrap();
    let budget =
        "scenario = \"mlx5-replay\"\n[set]\ntraffic.file = \"a.pcap\"\n[budget]\npackets = 2\n";
    std::fs::write(at.join("b.toml"), budget).unwrap();
    let held = |more: &[&str]| {
        let ran = doorbell_in(
            at,
            &[&["run", "mlx5-replay", "--format", "json", "--quiet"], more].concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        std::fs::write(at.join("r.json"), ran.out).unwrap();
        doorbell_in(at, &["check", "b.toml", "--report", "r.json"])
    };
    assert_eq!(held(&["--pcap", "the-same.pcap"]).code, 0, "where it lies does not count");
    let other = held(&["--pcap", "b.pcap"]);
    assert_eq!(other.code, 2);
    assert!(
        other.err.starts_with("doorbell: --report r.json: its capture is another: SHA-256 "),
        "{}",
        other.err
    );
    assert_snapshot!(held(&["--pcap", "a.pcap", "--rounds", "20"]).err, @"doorbell: --report \
        r.json: `traffic.rounds` was 20 rounds, but b.toml is about a run with 1 rounds");
    assert_snapshot!(held(&["--pcap", "a.pcap", "--set", "pcie.mps=128"]).err, @"doorbell: \
        --report r.json: `pcie.mps` was 128 B, but b.toml is about a run with 256 B");
    let text = std::fs::read_to_string(at.join("r.json")).unwrap();
    std::fs::write(at.join("r.json"), text.replace("\"mlx5-gen3\"", "\"mlx5-gen2\"")).unwrap();
    assert_snapshot!(wrong_in(at, &["check", "b.toml", "--report", "r.json"]), @"doorbell: \
        --report r.json: it is of a run on mlx5-gen2, but b.toml is about mlx5-gen3");
}

#[test]
fn a_report_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let held = |budget: &str, report: &str| {
        std::fs::write(dir.path().join("b.toml"), budget).unwrap();
        std::fs::write(dir.path().join("r.json"), report).unwrap();
        wrong_in(dir.path(), &["check", "b.toml", "--report", "r.json"])
    };
    let mlx5 = format!("{MLX5}[budget]\npackets = 4800");
    let e1000 = |bus: &str| format!("device = \"e1000\"\n{bus}[budget]\nframes = 1");
    let r = report(5).to_string();
    assert_snapshot!(held(&mlx5, &r), @"doorbell: --report r.json: it is of e1000, but b.toml is \
        about mlx5-pktgen-64");
    assert_snapshot!(held(&e1000("").replace("e1000", "mlx5"), &r), @"doorbell: --report r.json: \
        it is of e1000, but b.toml is about mlx5");
    assert_snapshot!(held(&e1000("bus = \"pcix\"\n"), &r), @"doorbell: --report r.json: it was \
        counted by the rules of PCI, 32 bits at 66 MHz, lines of 64 B, a bridge that reads 512 B \
        ahead; b.toml wants those of PCI-X, 64 bits at 133 MHz, requests of up to 2048 B, blocks \
        to 512 B");
    let sweep = "{ \"schema\": 1, \"kind\": \"sweep\" }";
    assert_snapshot!(held(&e1000(""), sweep), @"doorbell: --report r.json: it is not an output of \
        `run`, `serve` or `guest` with --format json");
    assert_snapshot!(held(&e1000(""), "{}"), @"doorbell: --report r.json: it is no result: its \
        member `schema` is missing");
    assert_snapshot!(held(&e1000(""), "frames: 1"), @"doorbell: --report r.json: it is not JSON: \
        expected ident at line 1 column 2");
    assert_snapshot!(held(&e1000(""), ""), @"doorbell: --report r.json: it holds no report");
}
