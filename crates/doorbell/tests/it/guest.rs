//! A device of one's own in a virtual machine, with Linux's own driver.
//!
//! These tests boot a kernel and are ignored here; `make test-guest` builds the examples and runs
//! them, where kernels and QEMU have been fetched.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program of an example.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a program");
    let built = test.parent().and_then(Path::parent).expect("it is in a directory of deps");
    built.join("examples").join(name)
}

/// The program of `examples/own_served.rs`.
fn program() -> PathBuf {
    example("own_served")
}

/// The only run of `own_served guest`.
fn booted(args: &[&str]) -> Value {
    let mut command = Command::new(program());
    command.arg("guest").args(args).args(["--set", "size=1024", "--format", "json", "--quiet"]);
    let done = command.stderr(Stdio::inherit()).output().expect("examples are built");
    assert!(done.status.success(), "{args:?}");
    let all: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    all["runs"][0].clone()
}

/// True for as many frames as the workload was asked for. pktgen sends in bursts of 32; one that a
/// full ring has cut short moves the last past its end.
fn asked(count: &Value) -> bool {
    (6400..6432).contains(&count.as_u64().expect("a count"))
}

/// The frames on the wire.
fn frames(run: &Value) -> u64 {
    assert!(asked(&run["frames"]), "{}", run["frames"]);
    run["frames"].as_u64().expect("a count")
}

#[test]
#[ignore = "boots a kernel; `make test-guest` runs it"]
fn linux_drives_a_device_of_ones_own() {
    let own = booted(&["shortnic", "--driver", "e1000"]);
    let built_in = booted(&["e1000", "--clock", "wall"]);
    // 1,024 bytes in pieces of 64, and in one.
    let reads = |run: &Value| run["device_counters"]["data_reads"].as_u64().expect("a count");
    assert_eq!((reads(&own), reads(&built_in)), (16 * frames(&own), frames(&built_in)));
    assert_eq!((&own["packets"], &built_in["packets"]), (&own["frames"], &built_in["frames"]));
    let clocks = |run: &Value| run["per_packet"]["pci_clocks"].as_f64().expect("a count");
    assert!(clocks(&own) > 1.5 * clocks(&built_in));
}

/// A server that ends with its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
#[ignore = "boots a kernel; `make test-guest` runs it"]
fn linux_drives_a_model_that_somebody_else_serves() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let script = dir.path().join("again.sh");
    let again = "# Loads the driver again\n#: no interface\n#: times=3  How often\nbegin\n\
                 for n in $(seq \"$times\"); do rmmod e1000 && insmod /m/e1000.ko || exit 1; done\n\
                 end \"$times\"\n";
    std::fs::write(&script, again).unwrap();
    let mut command = Command::new(program());
    command.args(["serve", "shortnic", "--quiet", "--socket"]).arg(&socket);
    let _served = Served(command.stdout(Stdio::null()).spawn().expect("examples are built"));
    let until = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < until, "the server has no socket");
        std::thread::sleep(Duration::from_millis(5));
    }
    let device = format!("vfio-user:{}", socket.display());
    // Nobody here sees its wire: packets are what the workload says.
    let run = booted(&[&device, "--driver", "e1000"]);
    assert_eq!((asked(&run["packets"]), &run["frames"]), (true, &0.into()));
    assert!(run["instructions"]["driver"].as_f64().expect("counted") > 100.0);
    // A driver without a network needs none.
    let script = script.to_str().unwrap();
    let mut command = Command::new(program());
    command.args(["guest", &device, "--driver", "e1000", "--workload", script]);
    let done = command.args(["--format", "json", "--quiet"]).output().unwrap();
    let all: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(all["runs"][0]["packets"], 3);
    let functions = all["runs"][0]["functions"].as_array().expect("functions");
    assert!(functions.iter().any(|f| f["function"] == "e1000_probe"), "{functions:?}");
}

/// The kernel for which modules are built.
const KERNEL: &str = "6.12";

/// A file of the repository.
fn of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Builds the driver of `examples/dma` in `dir`, with `wrong` for `right` in its source.
fn module(dir: &Path, right: &str, wrong: &str) -> PathBuf {
    let (own, sources) = (of_repository("examples/dma"), dir.join("sources"));
    std::fs::create_dir(&sources).unwrap();
    std::fs::copy(own.join("Kbuild"), sources.join("Kbuild")).unwrap();
    let driver = std::fs::read_to_string(own.join("dmatoy.c")).unwrap();
    assert!(driver.contains(right), "{right}");
    std::fs::write(sources.join("dmatoy.c"), driver.replace(right, wrong)).unwrap();
    let mut build = Command::new("sh");
    build.arg(of_repository("tools/guest/module.sh")).args([KERNEL]).arg(&sources).arg(dir);
    assert!(build.status().unwrap().success());
    dir.join("dmatoy.ko")
}

/// Copies in a guest. Returns the exit code, the only run, and what was said.
fn copied(module: &Path) -> (Option<i32>, Value, String) {
    let mut command = Command::new(example("own_dma"));
    command.args(["guest", "dmatoy", "--driver", "dmatoy", "--format", "json", "--quiet"]);
    command.args(["--kernel", &format!("debian:{KERNEL}"), "--module"]).arg(module);
    command.arg("--workload").arg(of_repository("examples/dma/copy.sh"));
    let done = command.output().expect("examples are built");
    let all: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    (done.status.code(), all["runs"][0].clone(), String::from_utf8(done.stderr).unwrap())
}

#[test]
#[ignore = "boots a kernel; `make test-guest` runs it"]
fn a_driver_out_of_the_tree_drives_an_engine_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let (code, run, said) = copied(&module(dir.path(), "", ""));
    assert_eq!(code, Some(0), "{said}");
    // 100 copies of 4,096 bytes in pieces of 256. Two addresses of two registers, the length, the
    // doorbell and the status that is cleared; the interrupt reads the status.
    let each = |name: &str| run["per_packet"][name].as_f64().expect("a count");
    assert_eq!(run["packets"], 100);
    assert_eq!((each("pcie_mrd_up"), each("pcie_read_bytes")), (16.0, 4096.0));
    assert_eq!((each("mmio_writes"), each("mmio_reads"), each("messages")), (7.0, 1.0, 1.0));
    let counted = |name: &str| run["device_counters"][name].as_u64().expect("a count");
    assert_eq!((counted("copies"), counted("errors"), counted("early_doorbells")), (100, 0, 0));
    assert!(run["instructions"]["driver"].as_f64().expect("counted") > 100.0);
}

/// The doorbell before the length: it compiles, and loads. The first copy has no length yet.
#[test]
#[ignore = "boots a kernel; `make test-guest` runs it"]
fn a_mistake_with_a_register_is_found_without_hardware() {
    let length = "\tiowrite32(length, toy->regs + LENGTH);\n";
    let doorbell = "\tiowrite32(1, toy->regs + DOORBELL);\n";
    let (right, wrong) = ([length, doorbell].concat(), [doorbell, length].concat());
    let dir = tempfile::tempdir().unwrap();
    let (code, _, said) = copied(&module(dir.path(), &right, &wrong));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error writing '/dev/dmatoy': Input/output error"), "{said}");
}
