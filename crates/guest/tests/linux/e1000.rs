//! Checks that all devices have in common, and those of the e1000 family.

use crate::bench::{bench, long, repository};
use crate::host::{Ends, OTHER, OrFail, answer_tagged, background, frame, sleep, until};
use crate::numbers::Numbers;
use crate::rig::{Report, Rig, Vm};
use doorbell_guest::net::{GUEST, MAC, TAP, text};
use doorbell_host_io::netns::Capture;
use doorbell_host_io::packet_socket::PacketSocket;
use std::process::Command;
use std::sync::atomic::AtomicBool;

shared! {
    PROBE: probe, "The driver binds and the kernel has nothing to complain about.";
    LINES: lines_arrive,
        "Lines of the console arrive whole while processes end that nobody waits for.";
    PING: ping, "ICMP both ways, of all sizes.";
    IPERF: iperf_both_ways, "TCP out of the guest and into it.";
    VLAN: vlan,
        "A VLAN of the kernel's: tags inserted, stripped and filtered by the device; or, when that \
         is off, by the kernel.";
    JUMBO: jumbo, "MTU 9000.";
    PROMISCUOUS: promiscuous,
        "Frames for others arrive in promiscuous mode alone; multicast by the table.";
    LINK_FLAPS: link_flaps, "The interface down and up, and the cable out and in.";
    RELOAD: reload,
        "Unload and reload, ten times, the last under traffic; no DMA fault, whatever the driver \
         left behind.";
    ANOTHER_GUEST: another_guest,
        "QEMU is killed under traffic; the next guest on the same server finds a fresh device.";
    STATISTICS: statistics_equal_counters,
        "`ethtool -S` is what the device counted, and what the ledger saw on the wire.";
    SELF_TEST: self_test, "`ethtool -t offline` passes, all parts.";
    BILL: bill, "At the end: nothing was lost without a name, and the capture holds the wire.";
}

checks! { pub(crate) CHECKS:
    = PROBE;
    = PING;
    = IPERF;
    = STATISTICS;
    = SELF_TEST;
    ring_sizes: "`ethtool -G` while up: the rings are built anew, and traffic goes on.";
    speeds:
        "Forced and advertised speeds: what ethtool shows is what was asked for, and frames pass.";
    offloads_off_and_on: "Without TSO, checksums and scatter-gather, and with them again.";
    = JUMBO;
    = PROMISCUOUS;
    = LINK_FLAPS;
    = RELOAD;
    = BILL;
}

checks! { pub(crate) SERVED:
    = PROBE;
    = LINES;
    = PING;
    = IPERF;
    flow_control: "A flood of the host: with pause frames the device loses nothing in time.";
    = VLAN;
    = LINK_FLAPS;
    = ANOTHER_GUEST;
    = BILL;
}

pub(crate) fn probe(rig: &mut Rig) {
    rig.run("dmesg -c >/dev/null");
    rig.load(rig.device.driver);
    rig.run("[ -e /sys/class/net/eth0 ]");
    address(rig);
    rig.up(1500);
    rig.quiet(&[]);
}

/// Fails unless the interface has its station address.
pub(crate) fn address(rig: &mut Rig) {
    let said = rig.run("cat /sys/class/net/eth0/address");
    assert!(said.contains(&text(MAC)), "the station address: {said}");
}

fn lines_arrive(rig: &mut Rig) {
    // A process every millisecond or so ends as an orphan, whose parent is init then.
    rig.run("( while [ ! -e /tmp/enough ]; do (usleep 500 &); usleep 1000; done & )");
    let text = "0123456789".repeat(300);
    for n in 0..50 {
        let said = rig.run(format!("echo {n} {text}"));
        assert!(said.trim_end() == format!("{n} {text}"), "line {n}: {said}");
    }
    rig.run(">/tmp/enough");
}

fn ping(rig: &mut Rig) {
    for size in [0, 18, 56, 1000, 1472] {
        rig.run(format!("ping -q -c 5 -i 0.05 -W 2 -s {size} $HOST"));
        rig.ping_guest(size);
    }
}

/// Returns the TCP segments sent, and those sent again, of /proc/net/snmp.
fn segments(text: &str) -> [i64; 2] {
    let mut lines = text.lines().filter(|l| l.starts_with("Tcp:")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let all: Numbers = names.zip(values).filter_map(|(n, v)| Some((n, v.parse().ok()?))).collect();
    [all["OutSegs"], all["RetransSegs"]]
}

fn iperf_both_ways(rig: &mut Rig) {
    let segments = |rig: &mut Rig| segments(&rig.run("cat /proc/net/snmp"));
    // As much on each machine, and no more the faster it is.
    let much = if long() && !rig.is_virtual() { "-t 30" } else { "-n 32M" };
    let (before, was) = (rig.at_rest(), segments(rig));
    for way in ["", " -R"] {
        rig.iperf(&format!("{much}{way}"));
    }
    let (added, now) = (rig.at_rest().since(&before), segments(rig));
    let (all, again) = (now[0] - was[0], now[1] - was[1]);
    let [sent, came] = ["wire_frames", "arrived_frames"].map(|n| added[n]);
    println!("      {sent} frames sent, {came} came; {again} of {all} segments sent again");
    // Each byte crossed the wire, in segments of at most 1460 bytes.
    let least = (32 << 20) / 1460;
    assert!(sent > least && came > least, "32 MiB each way");
    if rig.is_virtual() {
        // A driver that waits for a lost interrupt sends again, and the peer what a driver lost.
        let both = [again, added["peer_sent_again"]];
        assert_eq!(both, [0; 2], "segments sent again, by the guest and by the peer");
    }
    rig.quiet(&[]);
}

fn statistics_equal_counters(rig: &mut Rig) {
    let read = |vm: &mut Vm| {
        // The driver's watchdog reads the device's counters every two seconds.
        vm.run("sleep 2.5");
        vm.ethtool()
    };
    let traffic = |rig: &mut Rig| {
        rig.run("ping -q -c 20 -i 0.02 -s 700 $HOST");
        rig.iperf("-n 16M");
        // Faster than the guest's CPU.
        rig.run("arrivals even 5000 60 672 1 0");
        rig.send(&vec![frame(OTHER, None, 100); 7]);
    };
    let pairs: [(&[&str], _); 7] = [
        (&["rx_packets"], "device_rx_packets"),
        (&["tx_packets"], "device_tx_packets"),
        (&["tx_packets", "tx_flow_control_xon", "tx_flow_control_xoff"], "wire_frames"),
        (&["tx_flow_control_xon", "tx_flow_control_xoff"], "device_pauses_sent"),
        (&["rx_missed_errors"], "device_rx_missed"),
        (&["rx_no_buffer_count"], "device_rx_waited"),
        (&["tx_tcp_seg_good"], "device_large_sends"),
    ];
    let (s, c) = rig.compare(read, traffic, &pairs);
    assert!(s["tx_packets"] > 20 && s["tx_tcp_seg_good"] > 0, "there was traffic");
    let (fcs, pauses) = (4 * s["tx_packets"], 60 * c["device_pauses_sent"]);
    let due = c["wire_bytes"] - pauses + fcs;
    assert_eq!(s["tx_bytes"], due, "tx_bytes are the wire's, with FCS");
    let lost = c.sum(&["device_rx_filtered", "device_rx_missed", "device_rx_dropped"]);
    let known = s["rx_packets"] + lost;
    assert_eq!(c["arrived_frames"], known, "every frame arrived, or was dropped by name");
    assert_eq!(c["device_rx_filtered"], 7, "frames for others are filtered");
}

fn self_test(rig: &mut Rig) {
    let said = rig.run("ethtool -t eth0 offline");
    assert!(said.contains("result is PASS"), "{said}");
    rig.carrier(true);
    rig.quiet(&[]);
}

fn ring_sizes(rig: &mut Rig) {
    for size in [80, 4096, 256] {
        rig.while_up(&format!("ethtool -G eth0 rx {size} tx {size}"));
        rig.carrier(true);
        rig.ping_once();
    }
}

fn speeds(rig: &mut Rig) {
    for (ask, speed, duplex) in [
        ("speed 100 duplex full autoneg off", "100Mb/s", "Full"),
        ("speed 10 duplex half autoneg off", "10Mb/s", "Half"),
        ("autoneg on advertise 0x004", "100Mb/s", "Half"),
        ("autoneg on advertise 0x02f", "1000Mb/s", "Full"),
    ] {
        rig.while_up(&format!("ethtool -s eth0 {ask}; sleep 0.5"));
        rig.carrier(true);
        let shown = rig.run("ethtool eth0");
        let is = |what: &str, value: &str| shown.contains(&format!("{what}: {value}"));
        assert!(is("Speed", speed) && is("Duplex", duplex), "{ask}: {shown}");
        rig.ping_once();
    }
    rig.quiet(&[]);
}

fn flow_control(rig: &mut Rig) {
    // But for one thing: a pause lasts 33.5 ms and the 8254x does not repeat it, so while the
    // guest's CPU is away for longer, frames are lost, with a card too. In a trace of a busy
    // machine all losses were in such absences, of 34 to 387 ms. The server counts them apart, and
    // there are to be no others.
    let flood = |rig: &mut Rig| {
        rig.up(1500);
        let before = rig.counts();
        rig.iperf("-t 3 -R -u -b 900M -l 1400");
        let d = rig.counts().since(&before);
        (
            d["device_pauses_sent"],
            d["device_rx_missed"],
            d["arrived_frames"],
            d["missed_after_pause"],
        )
    };
    rig.while_up("ethtool -G eth0 rx 80");
    rig.up(1500);
    rig.run("ethtool -A eth0 autoneg off rx off tx off; sleep 1");
    let (none, missed, arrived, _) = flood(rig);
    assert_eq!(none, 0, "pauses without flow control");
    let without = 100.0 * missed as f64 / arrived as f64;
    rig.run("ethtool -A eth0 autoneg off rx on tx on; sleep 1");
    let (pauses, missed, arrived, late) = flood(rig);
    println!(
        "      without, {without:.1} % missed; with {pauses} pause frames {missed} of {arrived}, \
         {late} after a pause ran out"
    );
    // A guest under TCG takes fewer frames a second than come here.
    assert!(pauses > 0, "the flood leads to pauses");
    assert_eq!(missed, late, "pause frames are obeyed");
    rig.while_up("ethtool -A eth0 autoneg on || true");
    rig.while_up("ethtool -G eth0 rx 256 || true");
    rig.up(1500);
    rig.quiet(&[]);
}

fn offloads_off_and_on(rig: &mut Rig) {
    let before = rig.counts();
    rig.while_up(
        "ethtool -K eth0 tso off gso off tx off rx off sg off || ethtool -K eth0 tx off sg off",
    );
    let was = segments(&rig.run("cat /proc/net/snmp"));
    rig.iperf("-n 16M");
    let [_, again] = segments(&rig.run("cat /proc/net/snmp"));
    let added = rig.counts().since(&before);
    assert_eq!(added["device_large_sends"], 0, "large sends without TSO");
    // The peer drops a segment whose checksum is wrong, and then it is sent again.
    assert_eq!(again - was[1], 0, "segments sent again");
    rig.while_up(
        "ethtool -K eth0 sg on tx on rx on tso on gso on || ethtool -K eth0 tx on sg on || true",
    );
    rig.iperf("-n 16M");
    rig.quiet(&[]);
}

/// Runs pings of VLAN 5, tagged on the wire both ways, by anybody. Returns how many.
fn tagged_pings(rig: &mut Rig) -> i64 {
    rig.run("ip neigh replace 10.0.5.2 lladdr $HOST_MAC dev eth0.5");
    let (from, to) = (Capture::open(TAP).or_fail(), PacketSocket::open(TAP).or_fail());
    let end = AtomicBool::new(false);
    let (said, answered) = std::thread::scope(|s| {
        let answers = s.spawn(|| answer_tagged(&from, &to, 5, &end));
        let ends = Ends(&end);
        // Until five are answered: a slow machine may take its time.
        let said = rig.run("ping -q -c 5 -i 0.2 -w 300 -s 1400 10.0.5.2");
        drop(ends);
        (said, answers.join().expect("an answerer without a panic"))
    });
    let sent = said.split(" packets transmitted").next().and_then(|s| s.split_whitespace().last());
    let sent: i64 = sent.and_then(|n| n.parse().ok()).expect("ping's own count");
    assert!(answered == sent && sent >= 5, "{answered} tagged pings came of {sent}");
    sent
}

/// Returns the tags that the device inserted and took out, if it can be seen.
fn tags_by_device(rig: &mut Rig) -> Option<[i64; 2]> {
    let seen = rig.device.driver == "mlx5_core";
    seen.then(|| {
        let s = rig.guest.ethtool();
        [s["tx_added_vlan_packets"], s["rx_removed_vlan_packets"]]
    })
}

fn vlan(rig: &mut Rig) {
    rig.load("8021q");
    rig.run(
        "ip link add link eth0 name eth0.5 type vlan id 5 && ip addr add 10.0.5.1/24 dev eth0.5 && \
         ip link set eth0.5 up",
    );
    let mut now = [false; 2];
    for (rx, tx) in [("off", "on"), ("off", "off"), ("on", "off"), ("on", "on")] {
        // The 8254x has one switch for both, and the driver keeps them alike.
        rig.run(format!("ethtool -K eth0 rxvlan {rx} txvlan {tx}; true"));
        rig.carrier(true);
        let shown = rig.run("ethtool -k eth0");
        now = ["tx", "rx"].map(|way| shown.contains(&format!("{way}-vlan-offload: on")));
        let before = tags_by_device(rig);
        let pings = tagged_pings(rig);
        if let (Some(before), Some(after)) = (before, tags_by_device(rig)) {
            let done = [after[0] - before[0], after[1] - before[1]];
            let due = now.map(|on| if on { pings } else { 0 });
            assert_eq!(done, due, "tags inserted and taken out, rxvlan {rx}, txvlan {tx}");
        }
    }
    assert_eq!(now, [true; 2], "both are on again");
    let mut taken = |vlan| {
        let before = rig.counts();
        rig.send(&vec![frame(MAC, Some(vlan), 100); 5]);
        rig.counts().since(&before)["device_rx_packets"]
    };
    assert_eq!((taken(5), taken(6)), (5, 0), "VLAN 5 arrives, VLAN 6 is filtered");
    rig.run("ip link del eth0.5");
    rig.quiet(&[]);
}

fn jumbo(rig: &mut Rig) {
    rig.up(9000);
    rig.run("ping -q -c 5 -i 0.05 -W 2 -M do -s 8972 $HOST");
    rig.ping_guest(8972);
    rig.iperf("-n 16M");
    rig.iperf("-n 16M -R");
    rig.up(1500);
    rig.quiet(&[]);
}

fn promiscuous(rig: &mut Rig) {
    const ALL: [u8; 6] = [0xff; 6];
    const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x7f, 0x01, 0x02];
    let [add, del] = ["add", "del"].map(|what| format!("ip maddr {what} {} dev eth0", text(GROUP)));
    let all = del + "; ip link set eth0 allmulticast on";
    for (line, to, due, what) in [
        ("true", OTHER, 0, "not for us"),
        ("ip link set eth0 promisc on", OTHER, 10, "promiscuous"),
        ("ip link set eth0 promisc off", OTHER, 0, "not any more"),
        ("true", ALL, 10, "broadcast"),
        ("true", GROUP, 0, "a group that nobody has joined"),
        (&*add, GROUP, 10, "the group has been joined"),
        (&*all, GROUP, 10, "all groups"),
    ] {
        // A driver may set the filters a little later, by the guest's clock.
        rig.run(format!("{line} && sleep 0.5"));
        let before = rig.counts();
        rig.send(&vec![frame(to, None, 100); 10]);
        let taken = rig.counts().since(&before)["device_rx_packets"];
        assert_eq!(taken, due, "{what}");
    }
    rig.run("ip link set eth0 allmulticast off");
}

fn link_flaps(rig: &mut Rig) {
    for _ in 0..if long() { 30 } else { 5 } {
        rig.run("ip link set eth0 down; ip link set eth0 up");
        rig.carrier(true);
    }
    rig.up(1500);
    for _ in 0..if long() { 10 } else { 3 } {
        for on in [false, true] {
            rig.pull_or_put_cable();
            rig.carrier(on);
        }
    }
    rig.up(1500);
    rig.ping_once();
    rig.quiet(&[]);
}

fn reload(rig: &mut Rig) {
    let module = rig.device.driver;
    let remove = format!("rmmod {module} && [ ! -e /sys/class/net/eth0 ]");
    for n in 0..if long() { 50 } else { 10 } {
        if n % 10 == 9 {
            rig.flooded(|rig| drop(rig.run(&remove)));
        } else {
            rig.run(&remove);
        }
        rig.run(format!("insmod /m/{module}.ko && [ -e /sys/class/net/eth0 ]"));
        rig.up(1500);
        rig.ping_once();
    }
    rig.quiet(&[]);
}

fn another_guest(rig: &mut Rig) {
    let flood = background(format!("ping -q -f -s 1400 {GUEST}"));
    sleep(1.0);
    rig.guest.kill();
    assert!(until(|| rig.counts()["client_connected"] == 0), "the client has gone");
    drop(flood);
    rig.boot_again();
    let first = crate::checks(&rig.device)[1][0];
    first.run_on(rig);
    ping(rig);
}

/// Fails unless `doorbell check` holds the device's budget against its report, and one of a frame
/// for nothing does not hold.
pub(crate) fn budget(rig: &Rig) {
    let name = rig.device.name.split('-').next().unwrap_or_default();
    let text = std::fs::read_to_string(repository().join(format!("budgets/{name}-guest.toml")));
    // The other cards of the family cost about the same, on other buses.
    let text = text
        .or_fail()
        .replace("\nbus = ", "\n# ")
        .replace(&format!("device = \"{name}\""), &format!("device = \"{}\"", rig.device.name));
    let nothing = text.lines().map(|line| match line.strip_prefix("mmio_writes") {
        Some(_) => "mmio_writes = 0",
        None => line,
    });
    let nothing = nothing.collect::<Vec<_>>().join("\n");
    assert_ne!(nothing, text.trim_end(), "the budget names mmio_writes");
    let (path, report) = (rig.directory.join("budget.toml"), rig.directory.join("report.json"));
    for (what, code) in [(&text, 0), (&nothing, 1)] {
        std::fs::write(&path, what).or_fail();
        let mut command = Command::new(&bench().doorbell);
        let done = command.arg("check").arg(&path).arg("--report").arg(&report).output().or_fail();
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "check: {said}");
    }
}

fn bill(rig: &mut Rig) {
    let Report { ledger, device, frames, .. } = rig.bill();
    assert_eq!(device["hangs"], 0, "hangs of the transmitter");
    if !rig.is_virtual() {
        budget(rig);
    }
    ledger.print_a_frame(
        frames,
        &["mmio_writes", "mmio_reads", "line_interrupts", "pci_read_bytes", "pci_write_bytes"],
    );
}
