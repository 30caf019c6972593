//! `doorbell serve`: its arguments, and a server that clients come to and leave.

use crate::common::served::{Server, ask, client, wait_for};
use crate::common::{self, program, wrong};
use doorbell_host_io::pcap;
use insta::assert_snapshot;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn refused(args: &[&str]) -> String {
    wrong(&[&["serve"], args].concat())
}

#[test]
fn wrong_arguments_are_told_with_what_is_allowed() {
    let socket = ["--socket", "/nowhere/s"];
    assert_snapshot!(refused(&["e1001", socket[0], socket[1]]), @"doorbell: no device is called \
        `e1001`; there are: e1000, e1000-82544gc, e1000-82545em, e1000-82574l, mlx5, axi-ethernet, \
        vnic, veth");
    assert_snapshot!(refused(&["e1000", socket[0], socket[1]]), @"doorbell: --socket /nowhere/s: \
        No such file or directory (os error 2)");
    assert_snapshot!(refused(&["e1000", socket[0], socket[1], "--uplink", "wifi"]), @"doorbell: \
        --uplink wifi: allowed are tap:NAME, pcap:FILE, reflect, socket:PATH, none");
    assert_snapshot!(refused(&["e1000", socket[0], socket[1], "--mac", "1:2"]), @"doorbell: --mac \
        1:2: allowed are unicast addresses such as 52:54:00:db:00:01");
    assert_snapshot!(refused(&["e1000", socket[0], socket[1], "--bus", "isa"]), @"doorbell: --bus \
        isa: allowed are pci32, pci64, pcix, pcie1x1, pcie2x16, pcie3x16, axi");
    assert_snapshot!(
        refused(&["axi-ethernet", socket[0], socket[1], "--bus", "pci32"]),
        @"doorbell: --bus pci32: only axi-ethernet is on AXI, and only there; axi-ethernet is on \
          axi"
    );
    assert_snapshot!(refused(&["mlx5", socket[0], socket[1], "--bus", "axi"]), @"doorbell: --bus \
        axi: only axi-ethernet is on AXI, and only there; mlx5 is on pcie3x16");
    assert_snapshot!(refused(&["vnic", socket[0], socket[1]]), @"doorbell: vnic is reached by \
        hypervisor calls: it needs --plugin-socket PATH, and the plug-in in QEMU");
    assert_eq!(refused(&["vnic"]), refused(&["vnic", socket[0], socket[1]]));
    assert_snapshot!(
        refused(&["veth", "--plugin-socket", "/nowhere/s", "--bus", "pcie3x16"]),
        @"doorbell: --bus: veth has none, only devices with --socket"
    );
    assert_snapshot!(
        refused(&["veth", "--plugin-socket", "/nowhere/s", "--control", "/nowhere/c"]),
        @"doorbell: --control: veth has none, only vnic"
    );
    assert_snapshot!(
        refused(&["e1000", "--socket", "/nowhere/s", "--control", "/nowhere/c"]),
        @"doorbell: --control: e1000 has none, only vnic"
    );
    assert_snapshot!(
        refused(&["vnic", "--plugin-socket", "/nowhere/s", "--control", "/nowhere/c"]),
        @"doorbell: --control /nowhere/c: No such file or directory (os error 2); `mkfifo \
          /nowhere/c` makes the named pipe"
    );
    assert_snapshot!(
        refused(&["vnic", "--plugin-socket", "/nowhere/s", "--control", "/dev/null"]),
        @"doorbell: --control /dev/null: it is not a named pipe"
    );
    assert_snapshot!(refused(&["veth", "--plugin-socket", "/nowhere/s"]), @"doorbell: \
        --plugin-socket /nowhere/s: No such file or directory (os error 2)");
    assert_snapshot!(refused(&["e1000", "--plugin-socket", "/nowhere/s"]), @"doorbell: e1000 is a \
        PCI device: it needs --socket PATH, for vfio-user");
    assert_eq!(refused(&["e1000"]), refused(&["e1000", "--plugin-socket", "/nowhere/s"]));
    assert_snapshot!(refused(&["e1000", socket[0], socket[1], "--metrics", "here"]), @"doorbell: \
        --metrics here: invalid socket address; allowed is a local address, such as \
        127.0.0.1:9100");
    assert_snapshot!(
        refused(&["e1000", socket[0], socket[1], "--capture", "/nowhere/c"]),
        @"doorbell: /nowhere/c: No such file or directory (os error 2)"
    );
    assert_snapshot!(
        refused(&["e1000", socket[0], socket[1], "--trace", "/nowhere/t"]),
        @"doorbell: /nowhere/t: No such file or directory (os error 2)"
    );
}

#[test]
fn an_option_without_effect_is_refused() {
    let pci =
        |device, more: &[&str]| refused(&[&[device, "--socket", "/nowhere/s"], more].concat());
    let calls = |device, more: &[&str]| {
        refused(&[&[device, "--plugin-socket", "/nowhere/s"], more].concat())
    };
    assert_snapshot!(pci("e1000", &["--trap-doorbells"]), @"doorbell: --trap-doorbells: e1000 has \
        none, only mlx5");
    assert_snapshot!(pci("mlx5", &["--partitions", "2"]), @"doorbell: --partitions: mlx5 has none, \
        only vnic and veth");
    assert_snapshot!(pci("e1000", &["--newcomers", "4"]), @"doorbell: --newcomers: e1000 has none, \
        only vnic and veth");
    assert_snapshot!(calls("vnic", &["--reply-timeout", "1"]), @"doorbell: --reply-timeout: vnic \
        has none, only devices with --socket");
    assert_snapshot!(calls("veth", &["--trunk", "--uplink", "reflect"]), @"doorbell: --uplink \
        reflect: with --trunk nothing else is behind the switch; allowed is none");
    assert_snapshot!(pci("mlx5", &["--min-lso-mss", "224"]), @"doorbell: --min-lso-mss: mlx5 has \
        none, only vnic and veth");
    assert_snapshot!(calls("veth", &["--trunk", "--min-lso-mss", "224"]), @"doorbell: \
        --min-lso-mss: with --trunk no adapter is behind the switch");
    let alone = pci("e1000", &["--metrics-clients", "2"]);
    assert!(alone.contains("required arguments were not provided:\n  --metrics <ADDR>"), "{alone}");
    // A default says nothing new.
    assert!(pci("mlx5", &["--partitions", "1", "--trap-doorbells"]).contains("No such file"));
}

#[test]
fn a_capture_that_is_read_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.pcap"), common::pcap(1, &[vec![0; 60]])).unwrap();
    symlink("c.pcap", dir.path().join("link")).unwrap();
    let said = |option: &str, file: &str| {
        let line = ["serve", "e1000", "--socket", "s", "--uplink", "pcap:c.pcap", option, file];
        common::wrong_in(dir.path(), &line)
    };
    assert_snapshot!(said("--capture", "c.pcap"), @"doorbell: c.pcap: it is read, and would be \
        replaced; take another path");
    assert_snapshot!(said("--capture", "./link"), @"doorbell: ./link: it is read, and would be \
        replaced; take another path");
    assert_snapshot!(said("--trace", "link"), @"doorbell: link: it is read, and would be replaced; \
        take another path");
}

#[test]
fn an_interface_that_is_no_tap_device_is_told() {
    if let Err(e) = File::options().read(true).write(true).open("/dev/net/tun") {
        println!("skipped: /dev/net/tun: {e}");
        return;
    }
    assert_snapshot!(
        refused(&["e1000", "--socket", "/nowhere/s", "--uplink", "tap:lo"]),
        @"doorbell: --uplink tap:lo: the interface lo is not a TAP device"
    );
}

#[test]
fn a_refused_second_server_is_no_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    drop(client(dir.path()));
    let second = common::wrong_in(dir.path(), &["serve", "e1000", "--socket", "s"]);
    assert_snapshot!(second, @"doorbell: --socket s: somebody listens there");
    drop(client(dir.path()));
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!(report["clients"], 2);
}

#[test]
fn a_third_server_on_a_cable_says_that_it_waits() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let wire = format!("socket:{}", dirs[0].path().join("wire").display());
    let servers = dirs.each_ref().map(|dir| talkative(dir.path(), &["--uplink", &wire]));
    let said = |n: usize| std::fs::read_to_string(dirs[n].path().join("err")).unwrap();
    let waits = format!("doorbell: the other end of {wire} has hung up (a cable has two ends)");
    wait_for(|| said(2).contains(&waits));
    assert!(!said(0).contains(&waits) && !said(1).contains(&waits));
    for (server, _) in servers {
        drop(server.stop("-TERM"));
    }
}

#[test]
fn a_device_without_a_link_has_no_cable() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command.args(["serve", "veth", "--plugin-socket", "s"]).current_dir(dir.path());
    command.stdout(Stdio::piped()).stderr(File::create(dir.path().join("err")).unwrap());
    let server = Server(command.spawn().unwrap());
    let said = || std::fs::read_to_string(dir.path().join("err")).unwrap();
    wait_for(|| said().contains("veth is ready"));
    server.signal("-USR2");
    wait_for(|| said().contains("doorbell: veth has no link\n"));
    assert!(!said().contains("the cable is"), "{}", said());
    drop(server.stop("-TERM"));
}

#[test]
fn limits_of_clients_have_bounds() {
    let limit = |option, value| refused(&["e1000", "--socket", "/nowhere/s", option, value]);
    assert_snapshot!(limit("--hello-timeout", "0"), @r"
    error: invalid value '0' for '--hello-timeout <SECONDS>': 0 is not in 1..=3600

    For more information, try '--help'.
    ");
    assert_snapshot!(limit("--newcomers", "256"), @r"
    error: invalid value '256' for '--newcomers <N>': 256 is not in 1..=255

    For more information, try '--help'.
    ");
    assert_snapshot!(limit("--metrics-clients", "all"), @r"
    error: invalid value 'all' for '--metrics-clients <N>': invalid digit found in string

    For more information, try '--help'.
    ");
}

#[test]
fn a_fault_that_the_device_does_not_have() {
    let fault = |device, f| refused(&[device, "--socket", "/nowhere/s", "--fault", f]);
    assert_snapshot!(fault("mlx5", "wqe@0"), @"doorbell: --fault wqe@0: allowed is wqe@N, of mlx5: \
        one WQE in N fails");
    assert_snapshot!(fault("e1000", "wqe@9"), @"doorbell: --fault wqe@9: allowed is wqe@N, of \
        mlx5: one WQE in N fails");
}

#[test]
fn clients_come_and_go_and_the_ledger_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--trace", "trace.json", "--capture", "wire.pcapng"]);
    for _ in 0..3 {
        let mut s = client(dir.path());
        // Gone in the middle of a message.
        s.write_all(&[9, 9, 9]).unwrap();
    }
    drop(client(dir.path()));
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!((&report["clients"], &report["ledger"]["mmio_reads"]), (&4.into(), &4.into()));
    assert_eq!(report["ledger"]["dma_faults"], 0);
    assert!(!dir.path().join("s").exists(), "the socket is gone");
    let trace: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("trace.json")).unwrap()).unwrap();
    let reads = trace.as_array().unwrap().iter().filter(|e| e["name"] == "register read").count();
    assert_eq!(reads, 4);
    assert!(dir.path().join("wire.pcapng").exists());
}

/// RDBAL, a register that a driver writes and a reset clears.
const RDBAL: u16 = 0x2800;

fn rdbal(s: &mut UnixStream) -> Vec<u8> {
    let read = [RDBAL.to_ne_bytes().as_slice(), &[0; 6], &[0; 4], &4u32.to_ne_bytes()].concat();
    ask(s, 9, &read)[16..].to_vec()
}

#[test]
fn a_client_that_vanishes_leaves_no_state() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    for _ in 0..3 {
        let mut s = client(dir.path());
        assert_eq!(rdbal(&mut s), [0; 4], "as after power-on");
        ask(
            &mut s,
            10,
            &[RDBAL.to_ne_bytes().as_slice(), &[0; 6], &[0; 4], &4u32.to_ne_bytes(), &[0x80; 4]]
                .concat(),
        );
        assert_eq!(rdbal(&mut s), [0x80; 4]);
        // Gone without a word, half of a message sent.
        s.write_all(&[9, 9, 9]).unwrap();
    }
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!((&report["clients"], &report["ledger"]["dma_faults"]), (&3.into(), &0.into()));
}

/// Returns a directory of the user nobody, with the program in it, for tests that run as root.
fn as_nobody() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    common::copy_program(&dir.path().join("doorbell"));
    // Who is not root cannot give it away, and is an ordinary user already.
    let _ = std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY));
    dir
}

const NOBODY: u32 = 65534;

#[test]
fn an_ordinary_user_can_serve() {
    let dir = as_nobody();
    let mut command = Command::new(dir.path().join("doorbell"));
    command.args([
        "serve", "e1000", "--socket", "s", "--uplink", "reflect", "--format", "json", "--quiet",
    ]);
    command.args(["--trace", "trace.json", "--capture", "wire.pcapng", "--metrics", "127.0.0.1:0"]);
    if std::fs::metadata(dir.path()).unwrap().uid() == NOBODY {
        command.uid(NOBODY).gid(NOBODY);
    }
    let server = Server(command.current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap());
    wait_for(|| dir.path().join("s").exists());
    let owner = std::fs::metadata(dir.path().join("s")).unwrap().uid();
    assert_ne!(owner, 0, "the server is not root");
    drop(client(dir.path()));
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!(report["clients"], 1);
}

/// Root makes the TAP device, once, and gives it to the user.
#[test]
fn an_ordinary_user_can_serve_a_tap_device_that_is_theirs() {
    if std::env::var("DOORBELL_FULL").is_err() {
        println!("skipped: DOORBELL_FULL=1 is not set, and a network namespace needs root");
        return;
    }
    let dir = as_nobody();
    // udev opens /dev/net/tun to all; here, for these processes alone.
    let line = format!(
        "mknod tun c 10 200 && chmod 666 tun && mount --bind tun /dev/net/tun && \
         ip tuntap add dev tap0 mode tap user {NOBODY} && ip link set tap0 up && \
         exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --bounding-set -all \
         --no-new-privs ./doorbell serve e1000 --socket s --uplink tap:tap0 --format json --quiet"
    );
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--mount", "sh", "-c", &line])
        .current_dir(dir.path())
        .stdout(Stdio::piped());
    let server = Server(command.spawn().unwrap());
    wait_for(|| dir.path().join("s").exists());
    assert_eq!(std::fs::metadata(dir.path().join("s")).unwrap().uid(), NOBODY);
    drop(client(dir.path()));
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!(report["clients"], 1);
}

#[test]
fn the_counts_are_shown_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    // A port that is free now, and most likely in a moment.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = Server::start(dir.path(), &["--metrics", &port]);
    let page = || {
        let mut s = TcpStream::connect(&port).unwrap();
        write!(s, "GET /metrics HTTP/1.1\r\nHost: {port}\r\n\r\n").unwrap();
        let mut page = String::new();
        s.read_to_string(&mut page).unwrap();
        page
    };
    assert!(page().contains("doorbell_client_connected{device=\"e1000\"} 0\n"));
    let s = client(dir.path());
    let shown = page();
    assert!(shown.starts_with("HTTP/1.1 200 OK\r\n"));
    for line in ["client_connected{device=\"e1000\"} 1\n", "mmio_reads_total{device=\"e1000\"} 1\n"]
    {
        assert!(shown.contains(&format!("doorbell_{line}")), "{line} in {shown}");
    }
    server.signal("-USR1");
    drop(s);
    wait_for(|| page().contains("client_connected{device=\"e1000\"} 0\n"));
    let out = server.stop("-INT");
    let reports: Vec<Value> =
        serde_json::Deserializer::from_str(&out).into_iter().map(Result::unwrap).collect();
    assert_eq!(reports.len(), 2, "one on SIGUSR1, one at the end");
    assert_eq!(reports[0]["ledger"]["mmio_reads"], 1);
}

#[test]
fn the_port_that_the_system_has_chosen_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (server, said) = talkative(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let address = said.split_once("doorbell: the counts are at http://").unwrap().1;
    let mut s = TcpStream::connect(address.split_once("/metrics\n").unwrap().0).unwrap();
    s.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    s.read_to_string(&mut page).unwrap();
    assert!(page.contains("doorbell_client_connected{device=\"e1000\"} 0\n"), "{page}");
    drop(server.stop("-TERM"));
}

/// Asks a server for its report. Returns the number of frames that have arrived.
fn arrived(server: &mut Server) -> u64 {
    server.signal("-USR1");
    let out = server.0.stdout.as_mut().unwrap();
    let shown = serde_json::Deserializer::from_reader(out).into_iter::<Value>().next();
    shown.unwrap().unwrap()["ledger"]["arrived_frames"].as_u64().unwrap()
}

#[test]
fn a_full_disk_ends_capture_and_trace_alone() {
    let dir = tempfile::tempdir().unwrap();
    // Blocks of 512 or 1024 bytes; the signal of a file that is too long is ignored.
    let limit = "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limit, program(), "serve", "e1000", "--socket", "s"]);
    command.args(["--uplink", "socket:wire", "--capture", "wire.pcapng", "--trace", "trace.json"]);
    command.args(["--format", "json", "--quiet"]).current_dir(dir.path()).stdout(Stdio::piped());
    command.stderr(File::create(dir.path().join("err")).unwrap());
    let mut server = Server(command.spawn().unwrap());
    wait_for(|| dir.path().join("s").exists());
    let mut s = client(dir.path());
    let mut wire = UnixStream::connect(dir.path().join("wire")).unwrap();
    const FRAMES: usize = 6000;
    for _ in 0..FRAMES {
        wire.write_all(&1000u32.to_be_bytes()).unwrap();
        wire.write_all(&[0x55; 1000]).unwrap();
    }
    let said = || std::fs::read_to_string(dir.path().join("err")).unwrap();
    wait_for(|| said().lines().count() == 2);
    ask(&mut s, 4, &[0; 16]);
    // All frames are in the ledger, long after the files have ended.
    wait_for(|| arrived(&mut server) == FRAMES as u64);
    server.signal("-TERM");
    let last: Value = serde_json::from_reader(server.0.stdout.as_mut().unwrap()).unwrap();
    assert_eq!(last["ledger"]["arrived_frames"], FRAMES);
    assert_eq!(server.0.wait().unwrap().code(), Some(1), "the files are not complete");
    let said = said();
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("doorbell: the capture ends here: File too large"), "{said}");
    assert!(said.contains("doorbell: trace.json: the trace ends here: File too large"), "{said}");
    let kept = pcap::read(dir.path().join("wire.pcapng")).unwrap().frames.len();
    assert!((50..FRAMES).contains(&kept), "{kept} whole frames");
    let trace: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("trace.json")).unwrap()).unwrap();
    assert!(trace.as_array().unwrap().len() > 100);
}

/// Returns the value of a line of /proc/PID/status for each thread of a server.
fn of_threads(server: &Server, key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.0.id())).unwrap();
    let value = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default().trim().to_owned()
    };
    tasks.map(value).collect()
}

/// Starts a server with a message on stderr, and waits until it is ready. Returns its messages.
fn talkative(dir: &Path, more: &[&str]) -> (Server, String) {
    let mut command = Command::new(program());
    command.args(["serve", "e1000", "--socket", "s"]).args(more).current_dir(dir);
    command.stdout(Stdio::piped()).stderr(File::create(dir.join("err")).unwrap());
    let server = Server(command.spawn().unwrap());
    let said = || std::fs::read_to_string(dir.join("err")).unwrap();
    wait_for(|| said().contains("is ready"));
    (server, said())
}

#[test]
fn every_thread_of_a_server_is_confined() {
    const FILTERED: &str = "2";
    let dir = tempfile::tempdir().unwrap();
    let (server, said) = talkative(dir.path(), &[]);
    let line = said.lines().find(|l| l.starts_with("doorbell: sandbox: ")).expect("it is told");
    if line.contains("no seccomp") {
        println!("skipped: {line}");
        return;
    }
    drop(client(dir.path()));
    let threads = of_threads(&server, "Seccomp:");
    assert!(threads.len() > 1 && threads.iter().all(|s| s == FILTERED), "{threads:?}");
    assert!(of_threads(&server, "NoNewPrivs:").iter().all(|s| s == "1"));
    drop(server.stop("-TERM"));
    let (server, said) = talkative(dir.path(), &["--no-sandbox"]);
    assert!(!said.contains("sandbox"), "{said}");
    assert!(of_threads(&server, "Seccomp:").iter().all(|s| s != FILTERED));
    drop(server.stop("-TERM"));
}

/// A link to a directory is changed after the start: a server that is not confined makes its socket
/// in the new one when the peer of the uplink has gone.
#[test]
fn a_confined_server_makes_no_name_elsewhere() {
    for (more, elsewhere) in [(&[][..], false), (&["--no-sandbox"], true)] {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b, link) = (dir.path().join("a"), other.path(), dir.path().join("link"));
        std::fs::create_dir(&a).unwrap();
        symlink("a", &link).unwrap();
        let peer = UnixListener::bind(a.join("wire")).unwrap();
        let all = [&["--uplink", "socket:link/wire"], more].concat();
        let (server, said) = talkative(dir.path(), &all);
        if said.contains("no Landlock") {
            println!("skipped: this kernel has no Landlock");
            return;
        }
        std::fs::remove_file(&link).unwrap();
        symlink(b, &link).unwrap();
        let s = client(dir.path());
        drop((peer.accept().unwrap(), peer));
        if elsewhere {
            wait_for(|| b.join("wire").exists());
        } else {
            // It has noticed the end of the peer by the time of a second look at its wire.
            for _ in 0..20 {
                drop(UnixStream::connect(dir.path().join("s")));
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(!b.join("wire").exists());
        }
        drop(s);
        drop(server.stop("-TERM"));
    }
}

/// The peer of the uplink goes and comes back, and a capture behind a link is finished.
#[test]
fn a_confined_server_does_all_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("kept.pcapng"), "older").unwrap();
    symlink("elsewhere/kept.pcapng", dir.path().join("wire.pcapng")).unwrap();
    let peer = UnixListener::bind(dir.path().join("wire")).unwrap();
    let more = ["--uplink", "socket:wire", "--capture", "wire.pcapng"];
    let mut server = Server::start(dir.path(), &more);
    let s = client(dir.path());
    let send = |mut wire: UnixStream| {
        wire.write_all(&60u32.to_be_bytes()).unwrap();
        wire.write_all(&[0x55; 60]).unwrap();
        wire
    };
    drop(send(peer.accept().unwrap().0));
    std::fs::remove_file(dir.path().join("wire")).unwrap();
    drop(peer);
    // Now the server listens there.
    let mut back = None;
    wait_for(|| {
        back = UnixStream::connect(dir.path().join("wire")).ok();
        back.is_some()
    });
    let wire = send(back.unwrap());
    wait_for(|| arrived(&mut server) == 2);
    drop(wire);
    drop(s);
    drop(server.stop("-TERM"));
    assert_eq!(pcap::read(elsewhere.join("kept.pcapng")).unwrap().frames.len(), 2);
    assert!(std::fs::symlink_metadata(dir.path().join("wire.pcapng")).unwrap().is_symlink());
}

#[test]
fn many_signals_end_the_server_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--capture", "wire.pcapng", "--trace", "trace.json"]);
    drop(client(dir.path()));
    let pid = rustix::process::Pid::from_child(&server.0);
    for _ in 0..500 {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let report: Value = serde_json::from_str(&server.stop("-TERM")).unwrap();
    assert_eq!(report["clients"], 1);
    assert!(dir.path().join("wire.pcapng").exists());
    let trace = std::fs::read(dir.path().join("trace.json")).unwrap();
    assert!(serde_json::from_slice::<Value>(&trace).is_ok());
}
