//! Files that a person, or a file of a person, names: bounds, kinds, permissions, and what of them
//! is shown.

use crate::common::{doorbell_in, program, wrong, wrong_in};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every way to name a file of text. `F` is its path.
const WAYS: [&str; 14] = [
    "run F",
    "run mlx5-pktgen-64 --profile F",
    "run names.toml",
    "repeat F",
    "sweep F --over run.seed=1,2",
    "rank F --side a:driver.mpwqe=on --side b:driver.mpwqe=off --by maps",
    "compare F mlx5-pktgen-64",
    "compare F.json F.json",
    "check F",
    "check budget.toml --report F",
    "fit F",
    "fit counted.toml",
    "point F",
    "report .",
];

/// Runs each way with a file that `make` makes. Each must be refused with `why`.
fn each_way(why: &str, make: impl Fn(&Path)) {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let name = match way {
            "report ." => "sub.json",
            _ if way.contains("F.json") => "F.json",
            _ => "F.toml",
        };
        make(&at(name));
        let head = "name = \"s\"\nabout = \"s\"\n";
        let scenario = format!("{head}system = \"mlx5\"\nprofile = \"F.toml\"\n");
        fs::write(at("names.toml"), scenario).unwrap();
        let counted = "profile = \"mlx5-gen2\"\n[[constant]]\nkey = \"cpu.stack\"\n[[counters]]\n\
            scenario = \"mlx5-pktgen-64\"\nformat = \"ethtool\"\nfile = \"F.toml\"\npackets = 1\n\
            [counters.metrics]\nx = \"maps\"\n";
        fs::write(at("counted.toml"), format!("{head}{counted}")).unwrap();
        let budget = "scenario = \"mlx5-pktgen-64\"\n[budget]\nmaps = 2\n";
        fs::write(at("budget.toml"), budget).unwrap();
        let args = way.replace("F.json", "\0").replace('F', "F.toml").replace('\0', "F.json");
        let said = wrong_in(dir.path(), &args.split(' ').collect::<Vec<_>>());
        assert!(said.contains(why), "{way}: {said}");
    }
}

#[test]
fn a_pipe_that_nobody_writes_is_refused() {
    each_way("it is no regular file, which alone is read", pipe);
}

#[test]
fn a_device_without_end_is_refused() {
    each_way("it is no regular file, which alone is read", |p| symlink("/dev/zero", p).unwrap());
}

/// Makes a pipe that nobody writes.
fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_capture_that_a_file_names_is_a_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let scenario = "name = \"s\"\nabout = \"s\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n\n\
        [traffic]\nkind = \"pcap\"\nfile = \"x.pcap\"\n";
    fs::write(at("s.toml"), scenario).unwrap();
    let refused = |why: &str| {
        for args in [&["run", "s.toml"][..], &["sweep", "s.toml", "--over", "run.seed=1,2"]] {
            let said = wrong_in(dir.path(), args);
            assert!(said.contains(why), "{args:?}: {said}");
        }
    };
    let irregular = "it is no regular file, which alone is read";
    pipe(&at("x.pcap"));
    refused(irregular);
    fs::remove_file(at("x.pcap")).unwrap();
    symlink("/dev/zero", at("x.pcap")).unwrap();
    refused(irregular);
    // The command line may name what it likes.
    let said = wrong_in(dir.path(), &["run", "s.toml", "--pcap", "x.pcap"]);
    assert!(!said.contains(irregular) && said.contains("x.pcap"), "{said}");
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    each_way("longer than", |path| fs::File::create(path).unwrap().set_len(17 << 20).unwrap());
}

#[test]
fn too_many_runs_are_refused_with_their_number() {
    let over = |more: &str| {
        wrong(&["sweep", "mlx5-pktgen-64", "--over", "run.seed=1..9000", "--over", more, "--plan"])
    };
    let said = over("traffic.burst=1..4096");
    assert!(said.contains("the values make 36864000 runs, and a sweep has 10000000"), "{said}");
    let ranges = ["1..9000"; 12].join(",");
    let said = over(&format!("traffic.burst={ranges}"));
    assert!(said.contains("traffic.burst: more than 100000 values"), "{said}");
}

#[test]
fn memory_that_the_system_refuses_is_an_error_in_words() {
    // Over 2 GiB of simulated memory, and less than that of address space.
    let run = format!(
        "ulimit -v 2097152 && exec {} run ibmveth-receive-fraglist --no-limits \
         --set traffic.window=65536",
        program()
    );
    let ran = Command::new("sh").args(["-c", &run]).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("MiB for the memory of the simulated machine"), "{said}");
}

#[test]
fn escape_sequences_of_files_do_not_reach_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "name = \"s\"\nabout = \"s\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n\n\
        [traffic]\n\"\\u001b[31mx\\u009b2J\" = 1\n";
    fs::write(dir.path().join("s.toml"), scenario).unwrap();
    let said = wrong_in(dir.path(), &["run", "s.toml"]);
    assert!(!said.contains(['\x1b', '\u{9b}']), "{said:?}");
    assert!(said.contains(r"traffic.\u{1b}[31mx\u{9b}2J"), "{said}");
    let said = wrong(&["run", "--no\x1b]0;title\x07"]);
    assert!(!said.contains(['\x1b', '\x07']), "{said:?}");
}

#[test]
fn help_to_a_full_device_fails() {
    for args in ["--help", "--version", "run --help", "list"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Command::new(program())
            .args(args.split(' '))
            .stdout(Stdio::from(full))
            .output()
            .unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{args}: {said}");
        assert!(said.contains("stdout: No space left on device"), "{args}: {said}");
    }
}

#[test]
fn captures_and_traces_are_their_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let run = "run mlx5-pktgen-64 --set traffic.packets=480 --no-limits --out out --capture c \
        --trace t";
    let args: Vec<&str> = run.split_whitespace().collect();
    assert_eq!(doorbell_in(dir.path(), &args).code, 0);
    let mode = |name: &str| {
        let of = fs::metadata(dir.path().join("out").join(name)).unwrap();
        of.permissions().mode() & 0o777
    };
    assert_eq!([mode("c"), mode("t")], [0o600; 2]);
    // The result is not: it has no frames.
    let usual = dir.path().join("usual");
    fs::write(&usual, "").unwrap();
    assert_eq!(Permissions::from_mode(mode("result.json")).mode() & 0o777, {
        fs::metadata(usual).unwrap().permissions().mode() & 0o777
    });
}
