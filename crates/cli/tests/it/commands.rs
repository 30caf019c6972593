//! Outputs and files of the commands.

use crate::common::{COMMANDS, OTHERS, doorbell_in, good, names, pcap, program, tcp, wrong_in};
use insta::assert_snapshot;
use serde_json::Value;
use std::process::{Command, Stdio};

fn json(args: &[&str]) -> Value {
    let all: Vec<&str> = args.iter().copied().chain(["--format", "json"]).collect();
    serde_json::from_str(&good(&all)).unwrap()
}

fn keys(v: &Value) -> Vec<&str> {
    v.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn list_has_the_shape_that_programs_know() {
    let list = json(&["list"]);
    assert_eq!(
        list["systems"],
        serde_json::json!(["mlx5", "e1000", "axienet", "ibmveth", "ibmvnic"])
    );
    assert_eq!(
        list["profiles"],
        serde_json::json!([
            "mlx5-gen2",
            "mlx5-gen3",
            "mlx5-xdp-paper",
            "e1000-power4",
            "e1000e-82574l",
            "axienet-zynqmp",
            "ibmveth-power8",
            "ibmvnic-power9"
        ])
    );
    for s in list["scenarios"].as_array().unwrap() {
        assert!(list["profiles"].as_array().unwrap().contains(&s["profile"]));
    }
    // Every scenario but the one that needs a file runs as it is.
    for s in list["scenarios"].as_array().unwrap() {
        let name = s["name"].as_str().unwrap();
        if name == "mlx5-replay" {
            continue;
        }
        // Shorter, if such a key has an effect on it.
        let short: &[&str] = match s["system"].as_str() {
            Some("ibmvnic") => &["--set", "traffic.warmup=1", "--set", "traffic.duration=2"],
            _ => &["--set", "traffic.packets=2400"],
        };
        let runs = [short, &[]].map(|short| [&["run", name, "--format", "json"], short].concat());
        let taken = |args: &Vec<&str>| {
            let r = doorbell_in(std::path::Path::new("."), args);
            assert!(
                r.code == 0 || (r.code == 2 && r.err.contains("has no effect on this run")),
                "{args:?}: {}",
                r.err
            );
            (r.code == 0).then_some(r.out)
        };
        let out = runs.iter().find_map(taken).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&out).unwrap()["audit"],
            serde_json::json!([]),
            "{name}"
        );
    }
}

#[test]
fn list_keys_names_all_that_set_takes() {
    let text = good(&["list", "--keys"]);
    for k in json(&["list", "--keys"])["keys"].as_array().unwrap() {
        assert!(
            text.contains(k["key"].as_str().unwrap()) && !k["allowed"].as_str().unwrap().is_empty()
        );
    }
}

#[test]
fn transfers_on_pci_are_the_published_traces() {
    let t = |args: &str| good(&args.split(' ').collect::<Vec<_>>());
    assert_snapshot!(t("transfer --profile e1000-power4 --read --at 0x4800 --bytes 1514"), @r"
    0x4800 MRM 512
    0x4a00 MRM 512
    0x4c00 MRM 490
    ");
    assert_snapshot!(t("transfer --profile e1000-power4 --read --at 0x420a8 --bytes 1514"), @r"
    0x420a8 MRM 344
    0x42200 MRM 512
    0x42400 MRM 512
    0x42600 MRL 128
    0x42680 MR 18
    ");
    assert_snapshot!(t("transfer --profile e1000-power4 --write --at 0xee800 --bytes 1514"), @r"
    0xee800 MWI 512
    0xeea00 MWI 512
    0xeec00 MWI 384
    0xeed80 MW 106
    ");
    assert_snapshot!(t("transfer --profile e1000-power4 --write --at 0x2012 --bytes 1514"), @r"
    0x2012 MW 494
    0x2200 MW 512
    0x2400 MW 508
    ");
}

#[test]
fn transfers_are_listed_as_they_cross_the_link() {
    let t = |args: &str| good(&args.split(' ').collect::<Vec<_>>());
    assert_snapshot!(t("transfer --profile mlx5-gen3 --read --at 0x100001e02 --bytes 1514"), @r"
    0x100001e02 MRd 510
    0x100001e02 CplD 254
    0x100001f00 CplD 256
    0x100002000 MRd 512
    0x100002000 CplD 256
    0x100002100 CplD 256
    0x100002200 MRd 492
    0x100002200 CplD 256
    0x100002300 CplD 236
    ");
    assert_snapshot!(t("transfer --profile mlx5-gen2 --write --at 0x2012 --bytes 700"), @r"
    0x2012 MWr 238
    0x2100 MWr 256
    0x2200 MWr 206
    ");
    assert_snapshot!(t("transfer --profile mlx5-gen2 --read --at 65568 --bytes 128 --set \
        pcie.completions=rcb64"), @r"
    0x10020 MRd 128
    0x10020 CplD 32
    0x10040 CplD 64
    0x10080 CplD 32
    ");
    let line = "transfer --profile mlx5-gen2 --write --at 0x100000000 --bytes 64";
    let shown = json(&line.split(' ').collect::<Vec<_>>());
    let packet = serde_json::json!({
        "address": "0x100000000", "command": "MWr", "bytes": 64, "wire_bytes": 88, "toward": "host"
    });
    assert_eq!(shown["transactions"], serde_json::json!([packet]));
}

#[test]
fn run_json_has_its_shape_and_counts_agree() {
    let r = json(&["run", "mlx5-pktgen-64", "--set", "traffic.packets=24000", "--seed", "7"]);
    let (window, error) = (&r["window"], r["rates_error"]["packets_per_s"].as_f64().unwrap());
    assert_eq!(
        (&window["steady"], &window["note"], &r["counts_of"]),
        (&true.into(), &Value::Null, &"run".into())
    );
    assert!(
        window["packets"].as_u64().unwrap() < 24_000 && window["start_ns"].as_f64().unwrap() > 0.0,
        "{window}"
    );
    assert!((r["rates"]["packets_per_s"].as_f64().unwrap() - 36.864e6).abs() < error, "{error}");
    assert_eq!(
        (&r["settings"]["pcie.mps"], &r["settings"]["run.seed"]),
        (&"256 B".into(), &"7".into())
    );
    assert_eq!(
        (&r["scenario"], &r["seed"], &r["audit"]),
        (&"mlx5-pktgen-64".into(), &7.into(), &serde_json::json!([]))
    );
    assert_eq!(r["packets"], 24_000);
    assert_eq!(r["ledger"]["wire_frames"], 24_000);
    let of = |name: &str| {
        (r["per_packet"][name].as_f64().unwrap(), r["ledger"][name].as_f64().unwrap() / 24_000.0)
    };
    for name in keys(&r["ledger"]) {
        let (a, b) = of(name);
        assert!((a - b).abs() <= 1e-8 * b, "{name}: {a} {b}");
    }
    let causes =
        r["per_packet"].as_object().unwrap().iter().filter(|(k, _)| k.starts_with("cycles_"));
    let sum: f64 = causes.map(|(_, v)| v.as_f64().unwrap()).sum();
    assert!((sum - r["per_packet"]["cycles"].as_f64().unwrap()).abs() < 1e-6);
}

#[test]
fn a_run_too_short_says_so_everywhere() {
    let run = ["run", "mlx5-pktgen-64", "--set", "traffic.packets=240"];
    let table = good(&run);
    let line = table.lines().find(|l| l.contains("packets_per_s")).unwrap();
    assert!(line.ends_with("too short: start and end are in the rates"), "{line}");
    let r = json(&run);
    assert_eq!(
        (&r["window"]["steady"], r["rates_error"].as_object().unwrap().len()),
        (&false.into(), 0)
    );
    assert_eq!(r["window"]["note"], "too short: start and end are in the rates");
    let steady = good(&["run", "mlx5-pktgen-64", "--set", "traffic.packets=24000"]);
    let line = steady.lines().find(|l| l.contains("packets_per_s")).unwrap();
    let error = line.strip_suffix("%  packets sent").and_then(|l| l.split_whitespace().last());
    let error: f64 = error.expect("an error").parse().unwrap();
    assert!(error > 0.0 && error < 10.0, "{line}");
    let bytes = steady.lines().find(|l| l.contains("wire_bits_per_s")).unwrap();
    assert_eq!(bytes.split_whitespace().nth(3), Some(&*format!("{error:.2}")), "{bytes}");
}

#[test]
fn two_runs_print_the_same_bytes() {
    let args = ["run", "mlx5-full-rate", "--set", "traffic.packets=24000", "--format", "json"];
    assert_eq!(good(&args), good(&args));
}

#[test]
fn the_table_stays_in_100_columns() {
    let all = [
        good(&["run", "mlx5-pktgen-64", "--set", "driver.mpwqe=off"]),
        good(&["compare", "mlx5-pktgen-64", "mlx5-pktgen-64-gen3"]),
        good(&["compare", "mlx5-pktgen-64", "--with", "traffic.burst=1"]),
    ];
    for line in all.iter().flat_map(|t| t.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(
        all[0].contains("with driver.mpwqe=off") && !all[0].contains("mpwqe_blks"),
        "what is zero is left out"
    );
}

#[test]
fn compare_shows_what_the_switch_saves() {
    let c = json(&["compare", "mlx5-pktgen-64", "--with", "driver.mpwqe=off"]);
    let wqes = &c["per_packet"]["driver_wqes"];
    assert_eq!(wqes["b"], 1.0);
    assert!(wqes["a"].as_f64().unwrap() < 0.1 && wqes["ratio"].as_f64().unwrap() > 10.0);
    assert_eq!(c["b"]["set"], serde_json::json!(["driver.mpwqe=off"]));
    let saved = &c["per_packet"]["pcie_down_tlp_bytes"];
    let difference = saved["b"].as_f64().unwrap() - saved["a"].as_f64().unwrap();
    assert!((difference - saved["difference"].as_f64().unwrap()).abs() < 1e-6);
}

/// Frames go in, and come out as they were: what the device computes is what the
/// sender's own stack had computed.
const SWEEP: [&str; 8] = [
    "sweep",
    "e1000-send",
    "--set",
    "traffic.duration=2",
    "--over",
    "traffic.mss=512,1 KiB,1460",
    "--across",
    "driver.copy_align=on,off",
];

#[test]
fn a_sweep_shows_rates_in_the_units_of_run_and_gives_programs_the_number() {
    let show = ["--show", "payload_bits_per_s", "--show", "maps"];
    let text = good(&[&SWEEP[..], &show].concat());
    let heads = " mss    payload_bits_per_s on, Gbit/s  payload_bits_per_s off, Gbit/s  off - on";
    assert!(text.starts_with(heads) && text.contains("off - on  maps on  maps off"), "{text}");
    let rows = json(&[&SWEEP[..], &show[..2]].concat());
    let (on, off) = (|v: &Value| v["on"].as_f64().unwrap(), |v: &Value| v["off"].as_f64().unwrap());
    let rate = &rows["rows"][2]["values"]["payload_bits_per_s"];
    assert!((8e8..9e8).contains(&on(rate)) && (7e8..8e8).contains(&off(rate)), "{rate}");
    let line: Vec<&str> = text.lines().nth(4).unwrap().split_whitespace().collect();
    let shown = |x: f64| format!("{:.3}", x / 1e9);
    assert_eq!(line[..3], ["1460", &shown(on(rate)), &shown(off(rate))]);
    // The second less the first, as in a comparison.
    let difference: f64 = line[3].parse().unwrap();
    assert!(difference < 0.0 && (difference - (off(rate) - on(rate)) / 1e9).abs() < 2e-3, "{text}");
    let compared = json(&[
        "compare",
        "e1000-send",
        "--set",
        "traffic.duration=2",
        "--with",
        "driver.copy_align=on",
    ]);
    assert!(
        compared["rates"]["payload_bits_per_s"]["difference"].as_f64().unwrap() > 0.0,
        "on less off"
    );
}

#[test]
fn each_number_of_a_sweep_has_a_difference_of_its_own() {
    let text = good(&[
        "sweep",
        "e1000-send",
        "--over",
        "pci.boundary=512",
        "--across",
        "driver.copy_align=off,on",
        "--show",
        "payload_bits_per_s",
        "--show",
        "pci_retries",
        "--format",
        "csv",
    ]);
    let [heads, cells] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let row: Vec<(&str, f64)> =
        heads.split(',').zip(cells.split(',').map(|c| c.parse().unwrap())).collect();
    let of =
        |name: &str| row.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{text}")).1;
    assert_eq!(row.len(), 7, "{text}");
    for name in ["payload_bits_per_s", "pci_retries"] {
        let [off, on] = ["off", "on"].map(|v| of(&format!("{name} driver.copy_align={v}")));
        let difference = of(&format!("{name} on - off"));
        assert!((on - off - difference).abs() <= 1e-6 * on.abs().max(off.abs()), "{text}");
    }
}

#[test]
fn a_number_that_a_run_does_not_have_is_not_zero() {
    let c = json(&["compare", "e1000-pktgen", "axienet-saturated"]);
    let rate = &c["rates"]["rx_interrupts_per_s"];
    assert!(rate["a"].is_null() && rate["b"].as_f64().unwrap() > 0.0, "{rate}");
    assert!(rate["difference"].is_null() && rate["ratio"].is_null(), "{rate}");
    // What the other run of a system has none of is zero.
    let c = json(&["compare", "mlx5-pktgen-64", "--with", "driver.mpwqe=off"]);
    let all = c["per_packet"].as_object().unwrap();
    assert!(all.values().all(|p| p["a"].is_f64() && p["b"].is_f64()), "{c}");
}

#[test]
fn a_sweep_draws_a_chart_that_names_its_axes_and_lines() {
    let chart =
        || good(&[&SWEEP[..], &["--show", "payload_bits_per_s", "--format", "svg"]].concat());
    let text = chart();
    assert_eq!(text, chart(), "the same bytes");
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    for word in [
        "e1000-send on e1000-power4, traffic.duration=2",
        "traffic.mss, B",
        "payload_bits_per_s, Gbit/s",
        "copy_align on",
        "copy_align off",
    ] {
        assert!(text.contains(&format!(">{word}</text>")), "{word}: {text}");
    }
    // Earlier keys are lines too; 1 KiB lies between 512 and 1460.
    let text = good(
        &[&SWEEP[..6], &["--over", "driver.tx_ring=64,256", "--format", "svg", "--show", "maps"]]
            .concat(),
    );
    assert_eq!(
        ["mss 512", "mss 1 KiB", "mss 1460"].map(|l| text.contains(&format!(">{l}</text>"))),
        [true; 3],
        "{text}"
    );
    assert!(text.contains(">maps a packet</text>"), "{text}");
}

#[test]
fn a_capture_goes_through_and_comes_out_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let frames: Vec<Vec<u8>> = (0..200).map(|i| tcp(i * 7 + 6)).collect();
    std::fs::write(at.join("in.pcap"), pcap(1, &frames)).unwrap();
    for extra in [&["--times", "own"][..], &["--offload", "none"], &["--set", "driver.mpwqe=off"]] {
        let mut args = vec![
            "run",
            "mlx5-replay",
            "--pcap",
            "in.pcap",
            "--capture",
            "wire.pcapng",
            "--out",
            "o",
        ];
        args.extend(["--format", "json"].iter().chain(extra));
        let r = doorbell_in(at, &args);
        assert_eq!((r.code, r.err.as_str()), (0, ""), "{extra:?}");
        assert_eq!(names(&at.join("o")), ["result.json", "wire.pcapng"]);
        assert_eq!(std::fs::read_to_string(at.join("o/result.json")).unwrap(), r.out);
        let wire = doorbell_host_io::pcap::read(at.join("o/wire.pcapng")).unwrap();
        let out: Vec<&[u8]> = wire.iter().map(|(_, f)| f).collect();
        assert!(out == frames, "{extra:?}");
    }
    assert_eq!(names(at), ["in.pcap", "o"]);
}

#[test]
fn a_large_frame_leaves_as_segments() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("in.pcap"), pcap(1, &[tcp(4000)])).unwrap();
    let args = [
        "run",
        "mlx5-replay",
        "--pcap",
        "in.pcap",
        "--gso",
        "1448",
        "--rounds",
        "3",
        "--capture",
        "w.pcapng",
    ];
    let r = doorbell_in(dir.path(), &args);
    assert_eq!((r.code, r.err.as_str()), (0, ""));
    let wire = doorbell_host_io::pcap::read(dir.path().join("w.pcapng")).unwrap();
    let lengths: Vec<u32> = wire.frames.iter().map(|f| f.len).collect();
    assert_eq!(lengths, [1502, 1502, 1158].repeat(3));
}

/// A reader such as `head` goes away: no message, no panic.
#[test]
fn a_closed_pipe_is_no_error() {
    let command = |args: &[&str]| {
        let mut c = Command::new(program());
        c.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        c
    };
    let long = ["transfer", "--profile", "mlx5-gen3", "--read", "--at", "0", "--bytes", "16MiB"];
    for args in [&long[..], &["run", "mlx5-pktgen-64"], &["--help"]] {
        let mut child = command(args).spawn().unwrap();
        drop(child.stdout.take());
        let o = child.wait_with_output().unwrap();
        assert_eq!(
            (o.status.code(), String::from_utf8_lossy(&o.stderr).as_ref()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn help_names_only_what_exists() {
    let help = good(&["--help"]);
    let all = [&COMMANDS[..], &OTHERS[..]].concat();
    for command in &all {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
    }
    let is_command = |l: &&str| {
        l.strip_prefix("  ").is_some_and(|l| l.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let listed = help.lines().filter(is_command).count();
    assert_eq!(listed, all.len() + 1, "and help; README and tests know no other:\n{help}");
}

/// On the two systems that take seconds.
#[test]
fn reproduce_prints_rows_and_exits_1_exactly_when_one_misses_unexplained() {
    let of = |args: &[&str]| {
        let all = [&["reproduce", "--format", "json"], args].concat();
        let r = doorbell_in(std::path::Path::new("."), &all);
        let rows = serde_json::from_str::<Value>(&r.out).unwrap()["rows"].take();
        // The miss that is listed with its explanation.
        let missed = |row: &&Value| row["holds"] == false;
        let unexplained = |row: &Value| row["figure"] != "ibmveth.network_to_vm_before";
        let all = rows.as_array().unwrap();
        assert!(all.iter().any(|row| missed(&row)), "each of these runs misses a row: {args:?}");
        let missed = all.iter().filter(missed).any(unexplained);
        assert_eq!(r.code, i32::from(missed), "{args:?}: {}", r.err);
        (r.code, rows)
    };
    let find = |rows: &Value, figure: &str| {
        let row = rows.as_array().unwrap().iter().find(|r| r["figure"] == figure).unwrap().clone();
        row["measured"].as_f64().unwrap()
    };
    let (code, rows) = of(&["ibmveth"]);
    assert_eq!(code, 0);
    let (code, set) = of(&["ibmveth", "--set", "link.rate=5000 Mbit/s"]);
    assert_eq!(code, 1);
    let name = "ibmveth.vm_to_network_after";
    assert!(find(&set, name) < find(&rows, name), "a slower link");
    let (code, set) = of(&["e1000", "--set", "nic.read_across=no"]);
    assert_eq!((code, &set[0]["combinations"]["of"]), (1, &6.into()));
    let choices = set[0]["choices"].as_array().unwrap();
    let taken = choices.iter().find(|c| c["key"] == "nic.read_across").unwrap();
    assert_eq!((&taken["value"], &taken["set"]), (&"no".into(), &true.into()));
}

/// The two files that a newcomer writes, as they are begun: they run together.
#[test]
fn what_new_writes_runs() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let r = doorbell_in(dir.path(), args);
        assert_eq!((r.code, r.err.as_str()), (0, ""), "{args:?}");
        r.out
    };
    run(&["new", "profile", "machine.toml", "--from", "e1000-power4"]);
    run(&["new", "scenario", "case.toml", "--on", "machine.toml"]);
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    run(&["new", "scenario", "sub/other.toml", "--on", "machine.toml"]);
    let short = ["--set", "traffic.duration=5", "--quiet"];
    assert!(run(&[&["run", "case.toml"], &short[..]].concat()).contains(" case on machine\n"));
    assert!(
        run(&[&["run", "sub/other.toml"], &short[..]].concat()).contains(" other on machine\n")
    );
    assert_eq!(
        run(&["new", "scenario", "--on", "e1000-power4"]).lines().find(|l| l.starts_with("name")),
        Some("name = \"my-scenario\"")
    );
    run(&["new", "budget", "sub/budget.toml", "--of", "case.toml"]);
    run(&["check", "sub/budget.toml", "--quiet"]);
    // And what is begun fits the schema of its kind.
    run(&["new", "budget", "veth.toml", "--of", "ibmveth-packets"]);
    run(&["new", "budget", "vnic.toml", "--of", "ibmvnic-transactions-small"]);
    for (what, files) in [
        ("scenario", &["case.toml", "sub/other.toml"][..]),
        ("profile", &["machine.toml"]),
        ("budget", &["sub/budget.toml", "veth.toml", "vnic.toml"]),
    ] {
        let schema: Value = serde_json::from_str(&run(&["schema", what])).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        let checker = jsonschema::draft7::new(&schema).unwrap();
        for file in files {
            let text: Value =
                toml::from_str(&std::fs::read_to_string(dir.path().join(file)).unwrap()).unwrap();
            let wrong: Vec<String> = checker.iter_errors(&text).map(|e| e.to_string()).collect();
            assert_eq!(wrong, [""; 0], "{file}");
        }
    }
}

/// A newcomer's own traffic, and its page: one file that names nothing outside, with the run in it.
#[test]
fn a_capture_and_its_page_take_two_commands() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let frames: Vec<Vec<u8>> = (0..50).map(|i| tcp(i * 7 + 6)).collect();
    std::fs::write(at.join("mine.pcap"), pcap(1, &frames)).unwrap();
    assert_eq!(
        doorbell_in(at, &["run", "mlx5-replay", "--pcap", "mine.pcap", "--out", "mine"]).code,
        0
    );
    let r = doorbell_in(at, &["report", "mine"]);
    assert_eq!((r.code, r.out.as_str(), r.err.as_str()), (0, "mine/report.html\n", ""));
    assert_eq!(names(&at.join("mine")), ["report.html", "result.json"]);
    let page = std::fs::read_to_string(at.join("mine/report.html")).unwrap();
    assert!(page.contains("default-src 'none'") && page.contains("Run: mlx5-replay"));
    assert!(!page.contains("<script") && !page.contains("<link"));
    assert_eq!(
        wrong_in(at, &["report", "nowhere"]),
        "doorbell: nowhere: No such file or directory (os error 2)"
    );
}
