//! `doorbell live`: what it measures, and that nothing of it stays.

mod common;

use common::{doorbell, names, wrong};
use doorbell_conformance::{full, tshark};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const NEEDS: &str = "root, Open vSwitch, iperf3, ethtool and tshark";
/// Two at once would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn wrong_arguments_are_told_with_what_is_allowed() {
    assert_eq!(wrong(&["live", "e1000"]), "doorbell: live e1000: allowed is ibmveth");
    assert!(wrong(&["live", "--seconds", "0"]).contains("1..=3600"));
    assert!(wrong(&["live", "--slice", "10"]).contains("1024.."));
}

#[test]
fn without_the_rights_it_says_so_and_does_nothing() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|l| l.starts_with("Uid:") && l.split_whitespace().nth(2) == Some("0"));
    let r = if root {
        // Where nobody may read it.
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = dir.path().join("doorbell");
        fs::copy(env!("CARGO_BIN_EXE_doorbell"), &copy).unwrap();
        let o = Command::new(copy).arg("live").current_dir("/").uid(65534).gid(65534).output().unwrap();
        common::Ran::from(o)
    } else {
        doorbell(&["live"])
    };
    assert_eq!((r.code, r.out.as_str()), (1, ""), "{}", r.err);
    assert!(r.err.contains("needs root (missing: CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN)"), "{}", r.err);
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    if !full(NEEDS) {
        return;
    }
    let o = Command::new(env!("CARGO_BIN_EXE_doorbell")).arg("live").env("PATH", "/nowhere").output().unwrap();
    let r = common::Ran::from(o);
    assert_eq!((r.code, r.out.as_str()), (1, ""));
    assert!(r.err.contains("ovs-vswitchd") && r.err.contains("apt-get install iproute2 iputils-ping"), "{}", r.err);
}

/// What the command itself asks of a ratio, and what is asked here: a machine with other things to do gives the same two
/// paths rates that differ by a factor within a second, in which a slow path still shows.
const HELD: f64 = 0.7;
const LEAST: f64 = 0.4;
/// With the offloads, as many times as fast: one state is measured behind the other.
const GAIN: f64 = 1.2;

/// All that is claimed of one run. Of the ratios and the gain the best of a few tries is asked, everything else in each.
#[test]
fn both_states_keep_up_with_the_bare_pair_and_the_wire_is_right() {
    if !full(NEEDS) {
        return;
    }
    let _alone = ALONE.lock();
    let (mut best, mut most) = ([0.0; 2], 0.0);
    for attempt in 0..8 {
        let direction: &[&str] = if attempt == 1 { &["--reverse"] } else { &[] };
        let dir = tempfile::tempdir().unwrap();
        let args = ["live", "--seconds", "2", "--urgent", "--format", "json", "--capture", "far.pcapng"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.args(args).args(direction).current_dir(dir.path()).env("TMPDIR", dir.path());
        let r = common::Ran::from(command.stdin(Stdio::null()).output().unwrap());
        let v: Value = serde_json::from_str(&r.out).unwrap_or_else(|e| panic!("{e}: {}{}", r.out, r.err));
        let states = v["states"].as_array().unwrap();
        assert_eq!(states.iter().map(|s| s["offloads"].as_str().unwrap()).collect::<Vec<_>>(), ["off", "on"]);
        for s in states {
            let n = |path: &str| s.pointer(path).unwrap().as_f64().unwrap();
            assert!(n("/bits_per_s") > 0.0 && n("/bare_bits_per_s") > 0.0, "{s}");
            assert_eq!(
                [n("/wire/over_mtu"), n("/wire/wrong_checksums"), n("/wire/longest")],
                [0.0, 0.0, 1514.0],
                "{s}"
            );
            assert!(n("/wire/right_checksums") > 1000.0 && n("/ledger/frames") > 1000.0, "{s}");
            assert_eq!(["dma_faults", "dropped", "no_buffer"].map(|c| n(&format!("/ledger/{c}"))), [0.0; 3], "{s}");
            // Every frame is one send, and one receive buffer.
            assert_eq!(n("/ledger/frames"), n("/ledger/h_send_logical_lan"), "{s}");
        }
        let per_kib = |i: usize, name: &str| states[i]["per_kib"][name].as_f64().unwrap();
        for name in ["hcalls", "h_send_logical_lan", "frames", "maps"] {
            assert!(per_kib(1, name) * 3.0 < per_kib(0, name), "{name}: {v}");
        }
        assert!((per_kib(0, "segments") / per_kib(1, "segments") - 1.0).abs() < 0.5, "the same on the wire: {v}");
        assert!(r.err.contains("offloads on, ibmveth: ") && r.err.contains(" Gbit/s"), "{}", r.err);

        let far = dir.path().join("far.pcapng");
        assert_eq!(tshark::bad_checksums(&far).expect("tshark"), [0; 0]);
        let frames = tshark::frames(&far).expect("tshark");
        assert!(frames.len() > 2000 && frames.iter().all(|f| f.len <= 1514), "{} frames", frames.len());
        assert_eq!(names(dir.path()), ["far.pcapng"], "its directories are gone");
        assert_eq!(left_over(&r.err), [""; 0]);

        let ratios = [0, 1].map(|i| states[i]["ratio"].as_f64().unwrap());
        let gain = v["gain"]["ibmveth"].as_f64().unwrap();
        println!("ratios off and on {ratios:.2?}, gain {gain:.2}");
        assert_eq!(r.code, i32::from(ratios.iter().any(|r| *r < HELD)), "{}", r.err);
        best = [0, 1].map(|i| ratios[i].max(best[i]));
        most = gain.max(most);
        if best.iter().all(|r| *r >= HELD) && most > GAIN {
            return;
        }
    }
    assert!(best.iter().all(|r| *r >= LEAST), "the best of the bare pair, off and on: {best:.2?}");
    assert!(most > GAIN, "with the offloads {most:.2} times as fast at best");
}

/// A run that has begun to measure.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
    switch: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Until its switch is there, and the first rate too.
    fn start(dir: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.args(["live", "--seconds", "60", "--capture", "c.pcapng"]).current_dir(dir).env("TMPDIR", dir);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Running { child, stderr, said: String::new(), switch: String::new() };
        while !running.said.contains("Gbit/s") {
            assert!(running.stderr.read_line(&mut running.said).unwrap() > 0, "it ended: {}", running.said);
        }
        running.switch = word_after(&running.said, "(pid ").to_owned();
        assert!(alive(&running.switch), "{}", running.said);
        running
    }

    /// Its exit code, and all that it said.
    fn end(&mut self) -> (Option<i32>, &str) {
        let began = Instant::now();
        while self.stderr.read_line(&mut self.said).unwrap() > 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "it does not end: {}", self.said);
        }
        (self.child.wait().unwrap().code(), &self.said)
    }
}

fn word_after<'a>(text: &'a str, mark: &str) -> &'a str {
    let rest = text.split_once(mark).unwrap_or_else(|| panic!("no `{mark}` in {text}")).1;
    rest.split([')', ' ', '\n']).next().unwrap()
}

fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// What is left of the runs that said this: namespaces and processes.
fn left_over(said: &str) -> Vec<String> {
    let marks: Vec<&str> = said.lines().filter(|l| l.contains("(pid ")).collect();
    assert!(!marks.is_empty(), "{said}");
    let namespaces: Vec<String> = names(Path::new("/run/netns"));
    let mut left = Vec::new();
    for line in marks {
        let run = word_after(line, "in namespace doorbell-sw-").split('-').next().unwrap().to_owned();
        left.extend(
            namespaces.iter().filter(|n| n.starts_with("doorbell-") && n.contains(&format!("-{run}-"))).cloned(),
        );
        let switch = word_after(line, "(pid ");
        left.extend(alive(switch).then(|| switch.to_owned()));
    }
    left
}

#[test]
fn interrupted_it_leaves_nothing() {
    if !full(NEEDS) {
        return;
    }
    let _alone = ALONE.lock();
    for signal in ["-INT", "-TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Running::start(dir.path());
        kill(signal, &run.child.id().to_string());
        let (code, said) = run.end();
        assert_eq!(code, Some(130), "{said}");
        assert!(said.contains("doorbell: interrupted; "), "{said}");
        assert_eq!(left_over(said), [""; 0]);
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn when_its_switch_is_killed_it_says_so_and_leaves_nothing() {
    if !full(NEEDS) {
        return;
    }
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::start(dir.path());
    kill("-KILL", &run.switch.clone());
    let (code, said) = run.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ovs-vswitchd has ended: signal: 9 (SIGKILL)"), "{said}");
    assert_eq!(left_over(said), [""; 0]);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn killed_itself_its_programs_end_and_the_next_run_takes_its_namespaces_away() {
    if !full(NEEDS) {
        return;
    }
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut run = Running::start(dir.path());
    kill("-KILL", &run.child.id().to_string());
    let (code, said) = run.end();
    assert_eq!(code, None);
    let until = Instant::now() + Duration::from_secs(60);
    let switch = word_after(said, "(pid ").to_owned();
    while alive(&switch) {
        assert!(Instant::now() < until, "Open vSwitch outlives it");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left_over(said).len(), 4, "namespaces cannot end by themselves");
    let before = said.to_owned();
    let next = tempfile::tempdir().unwrap();
    let mut run = Running::start(next.path());
    kill("-INT", &run.child.id().to_string());
    assert_eq!(run.end().0, Some(130));
    assert_eq!(left_over(&before), [""; 0]);
}
