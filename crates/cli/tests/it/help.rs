//! Help, its examples, completions and manual pages.

use crate::common::{COMMANDS, doorbell, good, pcap, program, tcp};
use std::path::Path;
use std::process::Command;

/// The examples in the help of a command.
fn examples(command: &str) -> Vec<String> {
    let help = good(&[command, "--help"]);
    let (_, examples) = help.split_once("\nExamples:\n").expect("a command has examples");
    examples.lines().map(|l| l.trim().to_owned()).collect()
}

#[test]
fn every_example_in_help_works() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    std::fs::write(at.join("mine.pcap.gz"), pcap(1, &[tcp(100), tcp(1000)])).unwrap();
    std::fs::write(at.join("budget.toml"), good(&["new", "budget", "--of", "mlx5-pktgen-64"]))
        .unwrap();
    let measured = good(&["new", "measurements", "--of", "e1000-pktgen"]);
    std::fs::write(at.join("measured.toml"), measured).unwrap();
    let of = ["mlx5-pktgen-64", "--set", "traffic.packets=480"];
    std::fs::write(at.join("result.json"), good(&[&["run", "--format", "json"], &of[..]].concat()))
        .unwrap();
    let out = at.join("points.parquet");
    let over = ["--over", "pcie.mps=128,256", "--out", out.to_str().unwrap()];
    good(&[&["sweep"], &of[..], &over[..]].concat());
    let bin = Path::new(program()).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // Those that serve or need root wait for somebody else, and `guest` boots; `reproduce` has a
    // test of its own.
    let ends = |c: &&&str| !["serve", "guest", "live", "reproduce"].contains(*c);
    for example in COMMANDS.iter().filter(ends).flat_map(|c| examples(c)) {
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-ec", &example]).current_dir(at).env("PATH", &path);
        let out = shell.output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && !out.stdout.is_empty(), "{example}: {err}");
    }
}

#[test]
fn examples_of_what_waits_are_taken() {
    let all = ["serve", "guest", "live", "reproduce"];
    for example in all.into_iter().flat_map(examples) {
        // An unknown option after them is the only mistake.
        let args: Vec<&str> = example.split(' ').skip(1).chain(["--no-such-option"]).collect();
        let r = doorbell(&args);
        assert!(
            r.code == 2 && r.err.starts_with("error: unexpected argument '--no-such"),
            "{}",
            r.err
        );
    }
}

#[test]
fn help_fits_in_100_columns() {
    for command in COMMANDS {
        for flag in ["-h", "--help"] {
            for line in good(&[command, flag]).lines().filter(|l| !l.starts_with("  doorbell")) {
                assert!(line.chars().count() <= 100, "{command} {flag}: {line}");
            }
        }
    }
}

#[test]
fn shells_take_the_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = good(&["completions", shell]);
        assert!(COMMANDS.iter().all(|c| text.contains(c)), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("doorbell.bash");
    std::fs::write(&file, good(&["completions", "bash"])).unwrap();
    let script = format!(
        "source {}; COMP_WORDS=(doorbell sw); COMP_CWORD=1; _doorbell doorbell sw doorbell; \
         echo ${{COMPREPLY[@]}}",
        file.display()
    );
    let out = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "sweep");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    good(&["man", "--out", pages.to_str().unwrap()]);
    for command in COMMANDS {
        let page = std::fs::read_to_string(pages.join(format!("doorbell-{command}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{command}");
    }
    assert!(good(&["man"]).contains(".TH doorbell 1"));
}

#[test]
fn the_version_has_the_commit() {
    let version = good(&["--version"]);
    let words: Vec<&str> = version.split_whitespace().collect();
    assert_eq!(words[..2], ["doorbell", env!("CARGO_PKG_VERSION")]);
    let commit = words.get(2).expect("built in a repository").trim_matches(['(', ')']);
    assert!(commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{version}");
}

/// Returns the output of a command on a terminal of so many columns.
fn on_terminal(columns: u32, command: &str) -> String {
    let doorbell = program();
    let script = format!(
        "stty cols {columns} rows 50; export TERM=xterm; {}",
        command.replace("doorbell", doorbell)
    );
    let out = Command::new("script").args(["-qec", &script, "/dev/null"]).output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_terminal_gets_colours_and_lines_that_fit() {
    let compare = "doorbell compare -q mlx5-single-stream --with driver.mpwqe=off";
    let text = on_terminal(70, compare);
    assert!(text.contains("\x1b[31m") && text.contains("\x1b[32m"), "{text}");
    let plain = on_terminal(70, &format!("NO_COLOR=1 {compare}"));
    assert!(!plain.contains('\x1b'), "{plain}");
    let tables = plain.lines().filter(|l| !l.contains("same in both") && l.starts_with(' '));
    for line in tables.filter(|l| l.contains("pcie_") || l.contains("rate")) {
        assert!(line.trim_end().chars().count() <= 70, "{line}");
    }
    assert!(
        !good(&["compare", "mlx5-single-stream", "--with", "driver.mpwqe=off"]).contains('\x1b')
    );
}

#[test]
fn metrics_are_listed_with_unit_and_origin() {
    let all: serde_json::Value =
        serde_json::from_str(&good(&["list", "--metrics", "mlx5", "--format", "json"])).unwrap();
    let all = all["metrics"].as_array().unwrap();
    let rate = all.iter().find(|m| m["name"] == "packets_per_s").unwrap();
    assert_eq!(rate["unit"], "1/s");
    let bytes = all.iter().find(|m| m["name"] == "pcie_read_bytes").unwrap();
    assert_eq!(
        (&bytes["unit"], &bytes["counted"]),
        (&"B".into(), &"between CPU and device".into())
    );
    assert!(all.iter().all(|m| !m["name"].as_str().unwrap().starts_with("axi_")), "not its bus");
    // A run has the counts of its own buses alone.
    let run: serde_json::Value =
        serde_json::from_str(&good(&["run", "mlx5-pktgen-64", "--format", "json"])).unwrap();
    let ledger = run["ledger"].as_object().unwrap();
    assert!(ledger.contains_key("pcie_read_bytes") && !ledger.contains_key("axi_reads"));
    let named = |n: &String| all.iter().any(|m| m["name"] == **n);
    assert_eq!(ledger.keys().filter(|n| !named(n)).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(good(&["list", "--metrics", "e1000", "retries"]).contains("pci_retries"));
}
