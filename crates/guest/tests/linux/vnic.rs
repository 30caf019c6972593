//! Linux's ibmvnic on the served vNIC.

use crate::bench::long;
use crate::beside::{Case, Row, TAKEN, Way, beside};
use crate::e1000;
use crate::host::{OrFail, PATIENCE, Wire, background, iperf_server, received, sleep};
use crate::numbers::Numbers;
use crate::papr::{self, adapter};
use crate::rig::{Options, Report, Rig, Vm, serve};
use doorbell_guest::Device;
use doorbell_guest::net::{GUEST, HOST, MAC};
use std::time::Instant;

checks! { pub(crate) CHECKS:
    = e1000::PROBE;
    = e1000::PING;
    = e1000::IPERF;
    direct_and_batched:
        "Direct and batched packets of `ethtool -S` are the ledger's calls and the device's \
         frames, all queues together.";
    beside_ours: "What a frame costs, beside our own driver's on the same traffic.";
    offloads: "Large sends and checksums: descriptors of both.";
    queues: "Channels: fewer and more of them.";
    link_flaps: "The interface down and up, and the cable out and in.";
    jumbo: "MTU 9000, for which the driver logs in anew.";
    failover:
        "The client asks for a failover under load; the other server takes over, and the load goes \
         on.";
    = e1000::RELOAD;
    = papr::BILL;
}

checks! { pub(crate) SERVED:
    = e1000::PROBE;
    = e1000::PING;
    = e1000::IPERF;
    link_flaps: "The interface down and up, and the cable out and in.";
    failover_and_migration:
        "The server's side begins it, under TCP in both directions: failovers, a migration, an \
         error; nothing is lost without a name.";
    several_adapters:
        "Two vNICs and a logical LAN in one guest of two CPUs, each with a server and a wire of \
         its own, all busy at once.";
    = papr::SERVER_DIES;
    = e1000::ANOTHER_GUEST;
    = papr::BILL;
}

/// A warning of the driver that is due. After a change of queues, MTU or rings it asks for the
/// buffers of the session that it has ended to be unmapped, which the server has done by itself.
const UNMAPPED: &str = "Error 4 in REQUEST_UNMAP_RSP";
/// A send between the end of a session and the transport event that says so: there is no session
/// (H_CLOSED), or one that the handle is not of (H_PARAMETER).
const CLOSED: [&str; 4] = [
    "_direct failed: Backing queue closed. Adapter is down or failover pending. (rc=2)",
    "_indirect failed: Backing queue closed. Adapter is down or failover pending. (rc=2)",
    "_direct failed: Send request is malformed or adapter failover pending. (rc=-4)",
    "_indirect failed: Send request is malformed or adapter failover pending. (rc=-4)",
];
/// A fatal error of the adapter; and that the link of a session that this has ended cannot be set
/// down (INVALIDSTATE).
const FATAL: [&str; 2] = [
    "Firmware reports FATAL error, cause: adapter problem. Starting recovery...",
    "Unable to set link state, rc=7",
];

/// Waits for the link, after whatever reset the driver does by itself.
fn settled(rig: &mut Rig) {
    rig.carrier(true);
    rig.up(1500);
    rig.ping_once();
}

/// Returns the sum of all queues' counters of that name.
fn of_queues(numbers: &Numbers, kind: &str) -> i64 {
    let own = numbers.iter().filter(|(k, _)| k.starts_with("tx") && k.ends_with(kind));
    own.map(|(_, v)| v).sum()
}

fn direct_and_batched(rig: &mut Rig) {
    let mut last = (rig.guest.ethtool(), rig.counts());
    for what in ["ping", "iperf"] {
        if what == "ping" {
            // One at a time, nothing to share a call with: the direct path.
            rig.run("ping -q -c 300 -i 0.002 $HOST");
        } else {
            rig.iperf("-n 16M");
        }
        let counts = rig.at_rest();
        let now = (rig.guest.ethtool(), counts);
        let (n, d) = (now.0.since(&last.0), now.1.since(&last.1));
        last = now;
        let direct = of_queues(&n, "_direct_packets");
        let batched = of_queues(&n, "_batched_packets");
        assert_eq!(direct, d.get("hcall_send_sub_crq"), "{what}: direct packets, and calls");
        let taken = d.get("device_tx_taken");
        assert_eq!(direct + batched, taken, "{what}: packets, and frames of the device");
        let calls = d.get("device_indirect_calls") - d.get("device_rx_add_calls");
        println!("      {what}: {direct} packets direct, {batched} in {calls} arrays");
        if what == "ping" {
            assert_eq!((direct, batched), (300, 0), "a request-response load goes direct");
        } else {
            assert!((1..=batched).contains(&calls), "{calls} arrays for {batched} packets");
            // TCP's headers, large send or not: 66 to 74 bytes, in descriptors of 24, 29 and 29. A
            // direct one has none.
            let given = d.get("device_descriptors") - d.get("device_rx_buffers");
            assert_eq!(
                given,
                direct + 4 * batched,
                "descriptors of {direct} direct and {batched} in arrays"
            );
        }
    }
}

fn offloads(rig: &mut Rig) {
    for large in ["on", "off"] {
        rig.run(format!("ethtool -K eth0 tso {large}"));
        let before = rig.counts();
        rig.iperf("-n 16M");
        let d = rig.counts().since(&before);
        let (sends, sums) = (d.get("device_large_sends"), d.get("device_tx_checksums"));
        println!("      {sends} large sends, {sums} checksums, {} frames", d["wire_frames"]);
        let due = if large == "on" { sends > 0 } else { sends == 0 && sums > 0 };
        assert!(due, "{large}: {sends} large sends, {sums} checksums");
    }
    rig.run("ethtool -K eth0 tso on");
}

fn set_queues(rig: &mut Rig, n: u32) {
    rig.run(format!("ethtool -L eth0 rx {n} tx {n}"));
    settled(rig);
}

fn queues(rig: &mut Rig) {
    let shown = rig.run("ethtool -l eth0");
    for n in [1, 2, 4] {
        set_queues(rig, n);
    }
    rig.quiet(&[UNMAPPED]);
    assert!(shown.contains("RX"), "{shown}");
}

/// Sets the MTU, for which the driver logs in anew.
fn set_mtu(rig: &mut Rig, mtu: u32) {
    rig.run(format!("ip link set eth0 mtu {mtu}"));
    rig.carrier(true);
    rig.up(mtu);
}

fn beside_ours(rig: &mut Rig) {
    let cases = [
        Case::of("sent one at a time, 60 bytes", Way::Send, 60, 1),
        Case::of("the same, checksum left to the driver", Way::SendSum, 60, 1),
        Case::of("1514 bytes, checksum left to the driver", Way::SendSum, 1514, 1),
        Case::of("sent in bursts of 4, checksum left", Way::SendSum, 60, 4),
        Case::of("sent in bursts of 32", Way::Send, 60, 32),
        Case::of("sent in bursts of 32, checksum left", Way::SendSum, 60, 32),
        Case::of("received one at a time, 60 bytes", Way::Receive, 60, 1),
        Case::of("received in bursts of 16, 1514 bytes", Way::Receive, 1514, 16),
        Case::of("answered one by one, 98 bytes", Way::Answer, 98, 1),
    ];
    let jumbo = [
        Case::of("MTU 9000, 9014 bytes, checksum left to the driver", Way::SendSum, 9014, 1),
        Case::of("MTU 9000, answered one by one, 9014 bytes", Way::Answer, 9014, 1),
    ];
    // Both fill up a pool when less than half of it is out, each from where it stands.
    let pool = rig.guest.number("ethtool -g eth0 | grep '^RX:' | tail -1 | awk '{ print $2 }'");
    let rows = [
        Row::same("H_SEND_SUB_CRQ", &["hcall_send_sub_crq"]),
        Row::minus("arrays sent", &["device_indirect_calls", "device_rx_add_calls"]),
        Row::minus("descriptors sent", &["device_descriptors", "device_rx_buffers"]),
        Row::same("header bytes with them", &["device_header_bytes"]),
        Row::same("checksums left to the server", &["device_tx_checksums"]),
        Row::within(pool / 2 + 16, "receive buffers given", &["device_rx_buffers"]),
        Row::within(pool / 32 + 2, "arrays of those", &["device_rx_add_calls"]),
        Row::alone("H_VIOCTL", &["hcall_vioctl"]),
        Row::alone("interrupts taken", &[TAKEN]),
        Row::alone("messages of the server", &["messages"]),
        Row::same("TCE entries written", &["tce_puts"]),
        Row::same("other calls", &["hcall_send_crq", "hcall_other", "hcall_vio_signal"]),
    ];
    let tables = |rig: &mut Rig, cases: &[Case], more: &[(&str, String)]| {
        // The served server waits for no other completion, and the lab's profile has one that does.
        let sets =
            [("nic.completion_wait", "0".to_owned()), ("driver.rx_entries", pool.to_string())];
        beside(rig, &["ibmvnic"], "ibmvnic-paced", cases, &rows, &[&sets[..], more].concat());
    };
    tables(rig, &cases, &[]);
    // Buffers of sixteen queues at this MTU are more than such a guest has in one piece.
    set_queues(rig, 1);
    set_mtu(rig, 9000);
    tables(rig, &jumbo, &[("driver.mtu", "9000".to_owned())]);
    rig.run("ip link set eth0 mtu 1500");
    settled(rig);
    set_queues(rig, 16);
    rig.quiet(&[UNMAPPED]);
}

fn failover(rig: &mut Rig) {
    let before = rig.counts();
    for _ in 0..3 {
        rig.run(
            "ping -q -i 0.01 -c 400 $HOST >/tmp/ping & sleep 1; echo 1 \
             >/sys/devices/vio/30000003/failover; wait",
        );
        settled(rig);
    }
    let done = rig.counts().since(&before)["device_client_failovers"];
    println!("      {done} failovers; {}", rig.run("grep loss /tmp/ping").trim());
    assert_eq!(done, 3, "failovers");
    rig.run("ping -q -c 5 -i 0.05 -W 2 $HOST");
    rig.quiet(&CLOSED);
}

/// Has an event happen. Returns the seconds until frames pass through a session that began after
/// it.
fn recovers(rig: &mut Rig, event: &str) -> f64 {
    let (start, since) = (rig.counts(), Instant::now());
    std::fs::write(rig.directory.join("control"), format!("{event}\n")).or_fail();
    while since.elapsed() < PATIENCE {
        sleep(0.1);
        let d = rig.counts().since(&start);
        if d["device_sessions"] > 0 && d["device_rx_packets"] > 20 {
            return since.elapsed().as_secs_f64();
        }
    }
    let said = rig.run("dmesg | tail -20; cat /sys/class/net/eth0/carrier; true");
    panic!("no traffic for {PATIENCE:?} after `{event}`: {said}");
}

fn failover_and_migration(rig: &mut Rig) {
    let events = ["failover", "migrate", "failover", "error", "migrate", "failover"];
    let events = events.repeat(if long() { 4 } else { 1 });
    for way in ["", "-R"] {
        let before = rig.counts();
        // TCP waits longer from one attempt to the next; pings say when frames pass again.
        let peers =
            (iperf_server(&HOST.to_string()), background(format!("ping -q -i 0.02 {GUEST}")));
        let seconds = 4 * events.len();
        rig.run(format!(
            "iperf3 -c $HOST -t {seconds} -f m {way} >/tmp/load 2>&1 & echo $! >/tmp/pid"
        ));
        let mut took = Vec::new();
        for event in &events {
            sleep(1.5);
            took.push(format!("{:.1}", recovers(rig, event)));
        }
        rig.run("while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.2; done");
        drop(peers);
        let rate = received(&rig.run("cat /tmp/load"));
        let d = rig.at_rest().since(&before);
        for (counter, event) in [
            ("device_failovers", "failover"),
            ("device_migrations", "migrate"),
            ("device_errors_reported", "error"),
        ] {
            let asked = events.iter().filter(|e| **e == event).count();
            assert_eq!(d[counter], asked as i64, "{counter}");
        }
        let ended = ["tx_lost", "tx_discarded", "tx_errors"].map(|n| format!("device_{n}"));
        let dropped =
            ["rx_no_buffer", "rx_malformed", "rx_faults", "rx_off", "rx_lost", "rx_filtered"]
                .map(|n| format!("device_{n}"));
        let sum = |names: &[String]| names.iter().map(|n| d[n.as_str()]).sum::<i64>();
        let known = d["device_tx_sent"] + sum(&ended);
        assert_eq!(d["device_tx_taken"], known, "frames taken, and those whose end is known");
        let known = d["device_rx_packets"] + sum(&dropped);
        assert_eq!(d["arrived_frames"], known, "frames arrived, and those whose end is known");
        let lost = ended.iter().chain(&dropped).filter(|n| d[n.as_str()] != 0);
        let lost: Vec<_> = lost.map(|n| format!("{n} {}", d[n.as_str()])).collect();
        println!(
            "      {} the guest: {rate} Mbit/s; {}; back after {} s",
            if way.is_empty() { "out of" } else { "into" },
            lost.join(", "),
            took.join(", ")
        );
        settled(rig);
    }
    rig.quiet(&[&CLOSED[..], &FATAL].concat());
    rig.run("ping -q -c 20 -i 0.05 -W 2 $HOST");
}

fn several_adapters(rig: &mut Rig) {
    const WIRES: [&str; 3] = ["wire0", "wire1", "wire2"];
    let kinds = [("vnic", 0x3000_0003), ("vnic", 0x3000_1003), ("veth", 0x3000_2002)];
    let (mut wires, mut servers, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for (n, (kind, unit)) in kinds.into_iter().enumerate() {
        wires.push(Wire::new(WIRES[n], &format!("10.0.{}.2/24", 4 + n), ""));
        let device = Device::find(kind).expect("a device");
        let directory = rig.directory.join(format!("several-{n}"));
        let arguments = format!("--unit {unit:#x} --uplink tap:wire{n}");
        let server = serve(&device, &directory, &arguments);
        if n > 0 {
            let mac = [0x52, 0x54, 0, 0xdb, 0, 1 + n as u8];
            more.extend(adapter(kind, unit, mac, server.socket()));
        }
        servers.push(server);
    }
    let options = Options { cpus: 2, mac: MAC, more };
    let directory = rig.directory.join("several-0");
    let mut vm = Vm::boot(&rig.device, servers[0].socket(), &directory, &options);
    for module in ["ibmvnic", "ibmveth"] {
        vm.load(module);
    }
    vm.run("cat /sys/class/net/eth2/address");
    for n in 0..3 {
        let net = format!("10.0.{}", 4 + n);
        vm.run(format!("ip link set eth{n} up && ip addr add {net}.1/24 dev eth{n}"));
        vm.run(format!("for i in $(seq 20); do ping -q -c 1 -W 1 {net}.2 && break; done"));
    }
    let ping = |n| format!("ping -q -c 100 -i 0.02 -s 1400 10.0.{}.2 >/tmp/ping{n} & ", 4 + n);
    vm.run((0..3).map(ping).collect::<String>() + "wait");
    vm.power_off();
    for ((kind, unit), server) in kinds.into_iter().zip(&mut servers) {
        let Report { ledger, device, .. } = Report::of(server);
        // `ping` counts as lost what comes late; the device knows what it did not pass on.
        let lost = device.iter().filter(|(name, v)| {
            let name = name.strip_prefix("rx_").unwrap_or(name);
            *v != 0 && ["no_buffer", "dropped", "malformed", "faults", "lost"].contains(&name)
        });
        let (lost, came) = (lost.collect::<Vec<_>>(), device["rx_packets"]);
        assert!(came >= 100 && lost.is_empty(), "{kind} {unit:#x}: {came} received, {lost:?}");
        let sends = ledger[if kind == "veth" { "hcall_send" } else { "hcall_send_sub_crq" }];
        assert!(sends >= 100, "{kind} {unit:#x}: {sends} sends");
        println!(
            "      {kind} {unit:#x}: {sends} sends, {} of them posted, {} interrupts",
            ledger["posted"], ledger["messages"]
        );
    }
}

fn link_flaps(rig: &mut Rig) {
    for _ in 0..3 {
        rig.run("ip link set eth0 down; ip link set eth0 up");
        rig.carrier(true);
    }
    rig.up(1500);
    rig.pull_or_put_cable();
    rig.carrier(false);
    rig.pull_or_put_cable();
    settled(rig);
    rig.quiet(&[]);
}

fn jumbo(rig: &mut Rig) {
    // Buffers of sixteen queues at this MTU are more than such a guest has in one piece.
    rig.run("ethtool -L eth0 rx 4 tx 4 || true");
    settled(rig);
    set_mtu(rig, 9000);
    rig.run("ping -q -c 5 -i 0.05 -W 2 -M do -s 8900 $HOST");
    rig.iperf("-n 16M");
    rig.run("ip link set eth0 mtu 1500");
    settled(rig);
    rig.quiet(&[UNMAPPED]);
}
