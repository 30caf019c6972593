//! The shape of our bulk TCP against a real iperf3 over a veth pair.
//!
//! Rates depend on the CPU, so shapes are compared: the share of full-sized segments, and data
//! segments to an acknowledgment. Offloads are off on both ends. Linux acknowledges at the second
//! full segment that the receiver has read, so the count depends on when that process runs: both
//! iperf3 have a real-time priority (SCHED_FIFO). With it, segments to an acknowledgment were 1.91
//! to 1.96 beside 30 runnable processes on two cores; without it 1.28 to 4.86. Needs root,
//! iproute2, ethtool, iperf3, tcpdump and tshark.
//!
//! A program of its own: beside processes of real-time priority, tests that wait for the kernel
//! would time out.

#[path = "../../systems/tests/it/toy/mod.rs"]
#[expect(unreachable_pub, dead_code, reason = "shared with the lab's tests")]
mod toy;

use doorbell_bus::Costs;
use doorbell_conformance::full;
use doorbell_hal::{Span, Time};
use doorbell_host_io::netns::NetNs;
use doorbell_sim::napi::{Cpu, NapiContext, Rules, run};
use doorbell_sim::traffic::tcp::{App, Config, Offloads, Prices, Stack, frame, pair};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The priority of both iperf3; any other process waits for them.
const AHEAD: [&str; 3] = ["chrt", "--fifo", "50"];

/// Of one run: share of full segments, data segments to an acknowledgment.
#[derive(Debug)]
struct Shape {
    full: f64,
    per_ack: f64,
}

fn shape(segments: impl Iterator<Item = (bool, u32)>) -> Shape {
    let (mut data, mut full, mut acks) = (0u32, 0u32, 0u32);
    for (forth, len) in segments {
        match (forth, len) {
            (true, 1..) => {
                data += 1;
                full += u32::from(len == 1448);
            }
            (false, 0) => acks += 1,
            _ => {}
        }
    }
    assert!(
        data > 1000 && acks > 100,
        "{data} data segments and {acks} acknowledgments are too few"
    );
    Shape { full: f64::from(full) / f64::from(data), per_ack: f64::from(data) / f64::from(acks) }
}

fn ours() -> Shape {
    let mac = [2, 0, 0, 0, 0, 1];
    let (connections, hosts) = pair(mac, 1, false, |_| {
        ((Config::LINUX, App::source(8_000_000)), (Config::LINUX, App::drain()))
    });
    let mut m = toy::machine(hosts, Costs::FREE, 1, 200_000_000, Span::from_us(10), true);
    m.device.capture = Some(vec![]);
    let driver = toy::ToyDriver::open(&mut m, true);
    let stack = Stack::new(connections, Offloads::ALL, Prices::default(), false, Span::from_ms(3));
    let mut stations = [NapiContext::new(driver, stack, toy::interrupt(true), 0, 0)];
    let until = Time::ZERO + Span::from_ms(10_000);
    run(&mut m, &mut [Cpu::default()], &mut stations, &Rules::LINUX, until).expect("it runs");
    let frames = m.device.capture.take().unwrap_or_default();
    shape(frames.iter().filter_map(|(_, f)| {
        let r = frame::read(f).filter(|r| r.header.flags & (frame::SYN | frame::FIN) == 0)?;
        Some((r.source_port == 5201, r.payload.len() as u32))
    }))
}

fn theirs() -> Shape {
    let (a, b) = (
        NetNs::new("doorbell-ip").expect("a namespace"),
        NetNs::new("doorbell-ip").expect("a namespace"),
    );
    a.run(&format!("ip link add va type veth peer name vb netns {}", b.name()))
        .expect("a veth pair");
    for (ns, dev, ip) in [(&a, "va", "10.9.8.1/24"), (&b, "vb", "10.9.8.2/24")] {
        ns.run(&format!("ethtool -K {dev} tso off gso off gro off tx off")).expect("offloads off");
        ns.run(&format!("ip addr add {ip} dev {dev}")).expect("an address");
        ns.run(&format!("ip link set {dev} up")).expect("up");
    }
    // Segments one by one at 200 Mbit/s, as a link would bring them.
    a.run("tc qdisc add dev va root tbf rate 200mbit burst 1600 limit 4m").expect("sch_tbf");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("iperf.pcap");
    let start = |ns: &NetNs, line: &[&str]| {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", ns.name(), "timeout", "120"]).args(line);
        c.stdout(Stdio::null()).spawn().unwrap_or_else(|e| panic!("{line:?}: {e}"))
    };
    let mut server = start(&b, &[&AHEAD[..], &["iperf3", "-s", "-1"]].concat());
    let path = file.display().to_string();
    let mut dump = start(
        &a,
        &[
            "tcpdump",
            "-i",
            "va",
            "-s",
            "96",
            "-B",
            "65536",
            "-U",
            "-Z",
            "root",
            "-w",
            &path,
            "tcp port 5201",
        ],
    );
    // Both are there, on a slow machine too: a port (5201) that listens, and a file with its
    // header.
    let ready = || {
        let sockets = |of| {
            fs::read_to_string(format!("/proc/thread-self/net/{of}"))
                .is_ok_and(|s| s.contains(":1451 "))
        };
        let listens = b.within(|| sockets("tcp") || sockets("tcp6")).expect("into the namespace");
        listens && fs::metadata(&file).is_ok_and(|m| m.len() >= 24)
    };
    let until = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < until, "iperf3 or tcpdump does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let client = a.run(&format!("timeout 60 {} iperf3 -c 10.9.8.2 -n 16M", AHEAD.join(" ")));
    let _ = server.wait();
    std::thread::sleep(Duration::from_millis(500));
    let ended = Command::new("kill").arg(dump.id().to_string()).status();
    let _ = dump.wait();
    client.expect("iperf3");
    ended.expect("kill");
    let out = Command::new("tshark")
        .args(["-r", &path, "-Y", "tcp.flags.syn == 0 && tcp.flags.fin == 0", "-T", "fields"])
        .args(["-e", "tcp.stream", "-e", "tcp.dstport", "-e", "tcp.len"])
        .output()
        .expect("tshark");
    let text = String::from_utf8(out.stdout).expect("numbers");
    // Stream 0 is the control connection, stream 1 the data.
    shape(text.lines().filter_map(|l| {
        let mut f = l.split('\t').map(|n| n.parse::<u32>().ok());
        let (stream, to, len) = (f.next()??, f.next()??, f.next()??);
        (stream == 1).then_some((to == 5201, len))
    }))
}

#[test]
fn segments_and_acknowledgments_are_shaped_as_iperf3s() {
    if !full("root, for network namespaces, and iperf3") {
        return;
    }
    let (ours, theirs) = (ours(), theirs());
    println!("ours {ours:?}, iperf3's {theirs:?}");
    assert!(
        (ours.full - theirs.full).abs() < 0.05,
        "full segments: ours {ours:?}, iperf3's {theirs:?}"
    );
    let ratio = ours.per_ack / theirs.per_ack;
    assert!(
        (ratio - 1.0).abs() < 0.15,
        "segments to an acknowledgment: ours {ours:?}, iperf3's {theirs:?}"
    );
}
