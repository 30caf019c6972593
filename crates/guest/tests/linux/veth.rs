//! Linux's ibmveth on the served logical LAN.

use crate::beside::{Case, Row, TAKEN, Way, beside, lab};
use crate::capture::tcp_checksums;
use crate::e1000;
use crate::host::{OrFail, PATIENCE, Wire, get, received, sha256};
use crate::numbers::Numbers;
use crate::papr::{self, adapter};
use crate::rig::{Options, Report, Rig, Vm, counts, serve};
use doorbell_guest::Device;
use doorbell_guest::net::MAC;
use doorbell_sim::traffic::arrivals::Rng;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;

checks! { pub(crate) CHECKS:
    = e1000::PROBE;
    = e1000::PING;
    = e1000::IPERF;
    statistics_equal_counters: "The driver's counters are the device's.";
    beside_ours: "What a frame costs, beside our own driver's on the same traffic.";
    offloads:
        "`ethtool -k` with all of them, large send on and off.";
    link_flaps: "The interface down and up.";
    = e1000::JUMBO;
    = e1000::RELOAD;
    = papr::BILL;
}

checks! { pub(crate) SERVED:
    = e1000::PROBE;
    = e1000::PING;
    = e1000::IPERF;
    two_guests:
        "Two guests on one hypervisor: frames of one arrive in the other, large ones whole.";
    trunk: "TCP over a trunk that is bridged to a vNIC, both ways, with large sends and without.";
    = papr::SERVER_DIES;
    = e1000::ANOTHER_GUEST;
    = papr::BILL;
}

/// Bytes that cross a trunk in each direction.
const TRUNK_BYTES: i64 = 8 << 20;
const MSS: i64 = 1448;
/// The message of ibmveth since 6.1 on a packet with a list of fragments.
const LIST_DROPPED: &str = "tx: incorrect packet len copied into ltb";
/// The address that the server gives the second of several partitions; the first has [`MAC`].
const SECOND: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 2];
/// The unit address of the trunk's vNIC.
const NIC: u32 = 0x3000_1003;

/// TCP makes its sends smaller where it is slow, down to two segments; with this, to 16.
const LARGE: &str = "echo 16 >/proc/sys/net/ipv4/tcp_min_tso_segs";

/// Boots the nth guest of a server's hypervisor.
fn partition(rig: &Rig, directory: &Path, n: u8, mac: [u8; 6], more: Vec<String>) -> Vm {
    let here = directory.join(n.to_string());
    std::fs::create_dir(&here).or_fail();
    let options = Options { mac, more, ..Options::default() };
    let mut vm = Vm::boot(&rig.device, &directory.join("socket"), &here, &options);
    vm.load(rig.device.driver);
    vm.run("ip link set eth0 up");
    vm
}

fn two_guests(rig: &mut Rig) {
    let (directory, mut server) = rig.serve("two", "--partitions 2");
    let mut guests = [(1, MAC), (3, SECOND)].map(|(n, mac)| {
        let mut vm = partition(rig, &directory, n, mac, Vec::new());
        vm.run(format!("ip addr add 10.0.0.{n}/24 dev eth0"));
        vm
    });
    let [a, b] = &mut guests;
    a.run("for i in 1 2 3 4 5; do ping -q -c 1 -W 1 10.0.0.3 && break; done");
    a.run("ping -q -c 20 -i 0.02 -W 2 -s 1400 10.0.0.3");
    a.run("ethtool -K eth0 tso on");
    b.run("iperf3 -s -D -1");
    let rate = received(&a.run("sleep 0.5; iperf3 -c 10.0.0.3 -n 8M -f m"));
    for guest in &mut guests {
        guest.power_off();
    }
    let Report { ledger, device, clients, .. } = Report::of(&mut server);
    let sends = ledger["hcall_send"];
    println!(
        "      {rate} Mbit/s between them; {sends} sends, {} frames out of the switch",
        ledger["wire_frames"]
    );
    let whole = device["rx_large"];
    assert!(whole > 0 && whole == device["tx_large"], "large sends arrive whole");
    assert!(clients == 2 && sends > 100, "{clients} guests, {sends} sends");
}

fn offloads(rig: &mut Rig) {
    let shown = rig.run("ethtool -k eth0");
    for wanted in [
        "tx-checksum-ipv4: on",
        "tx-checksum-ipv6: on",
        "rx-checksumming: on",
        "scatter-gather: on",
    ] {
        assert!(shown.contains(wanted), "{shown}");
    }
    rig.run(LARGE);
    let sent = ["on", "off"].map(|large| {
        rig.run(format!("ethtool -K eth0 tso {large}"));
        rig.up(1500);
        let before = rig.counts();
        let rate = rig.iperf("-n 16M");
        let d = rig.counts().since(&before);
        let each = |name: &str| d.get(name) as f64 / d.get("hcall_send").max(1) as f64;
        let [frames, descriptors, entries] =
            ["wire_frames", "device_tx_descriptors", "tce_puts"].map(each);
        println!(
            "      large send {large}: {rate:.0} Mbit/s, {frames:.1} frames of the wire a call, \
             {descriptors:.3} descriptors, {entries:.3} TCE entries"
        );
        // A copy in a buffer that is mapped for good: one descriptor, whatever the frame. What
        // comes is short, and copied out.
        assert!(
            d.get("device_tx_descriptors") == d.get("hcall_send").max(1) && entries < 0.02,
            "{descriptors} descriptors, {entries} TCE entries"
        );
        frames
    });
    assert!(sent[0] > 2.0 && sent[1] <= 1.01, "{sent:?}");
    let ledger = lab("ibmveth-packets", &[("traffic.form", "copy".to_owned())]).1;
    let ours = ["device_server_tx_descriptors", "driver_server_tx_copied"].map(|n| ledger[n]);
    let sends = ledger["hcall_send"];
    println!("      ours, of copies: {} descriptors of {sends} large sends", ours[0]);
    assert_eq!(ours, [sends; 2], "ours");
    rig.run("ethtool -K eth0 tso on");
    rig.quiet(&[]);
}

fn trunk(rig: &mut Rig) {
    let _wire = Wire::new("outside", "10.0.7.2/24", "");
    let (directory, mut lan) = rig.serve("trunk", "--partitions 2 --trunk");
    let capture = directory.join("outside.pcapng");
    let (vnic, there) = (Device::find("vnic").expect("a device"), rig.directory.join("trunk-nic"));
    // A bridge wants frames for others.
    let arguments = format!(
        "--unit {NIC:#x} --uplink tap:outside --allow-promiscuous --capture {}",
        capture.display()
    );
    let mut nic = serve(&vnic, &there, &arguments);
    let second = adapter("vnic", NIC, [0x52, 0x54, 0, 0xdb, 0, 0x77], nic.socket());
    let mut guests = [
        partition(rig, &directory, 1, MAC, second.to_vec()),
        partition(rig, &directory, 3, SECOND, Vec::new()),
    ];
    set_up_bridge(&mut guests);
    // The kernel merges what it receives. Of more than 17 segments it makes a list, which this
    // driver says that it takes, and drops: the last case. Before that no more are merged.
    let cases = [("off", 16384, "out in"), ("on", 16384, "out in"), ("on", 65536, "in")];
    for (large, merged, ways) in cases {
        for guest in &mut guests {
            guest.run(format!("ethtool -K eth0 tso {large}"));
        }
        guests[0].run(format!("ip link set eth1 gro_max_size {merged}"));
        guests[1].run(
            "for i in $(seq 30); do ping -q -c 1 -W 1 10.0.7.2 && break; sleep 1; done; ping -q -c \
             1 -W 5 10.0.7.2",
        );
        for way in ways.split(' ') {
            let mut seen = |guests: &mut [Vm; 2]| {
                let names = ["tx_packets", "rx_packets", "tx_dropped"];
                let [trunk, inside] = guests.each_mut().map(|g| (g.ethtool(), g.interface(&names)));
                [trunk.0, inside.0, trunk.1, inside.1, counts(&mut lan), counts(&mut nic)]
            };
            let before = seen(&mut guests);
            let transfer = if way == "out" { sends_file } else { gets_file };
            if let Err(e) = transfer(&mut guests[1], &directory) {
                for guest in &mut guests {
                    // One that has ended says why.
                    guest.run("true");
                }
                panic!("{e}");
            }
            let after = seen(&mut guests);
            let added = std::array::from_fn(|n| after[n].since(&before[n]));
            let said = guests[0].run("dmesg -r").matches(LIST_DROPPED).count() as i64;
            print!("      {way}, large send {large}, merged up to {merged} B: ");
            judge(way == "out", large == "on", said, &added);
            guests[1].quiet(&[]);
            guests[0].quiet(if merged > 16384 { &[LIST_DROPPED] } else { &[] });
        }
    }
    for guest in &mut guests {
        guest.power_off();
    }
    for server in [&mut lan, &mut nic] {
        Report::of(server);
    }
    for source in [3, 2] {
        let right = tcp_checksums(&capture, [10, 0, 7, source], 0);
        println!("      {right} segments from 10.0.7.{source} on the wire, all right");
    }
    std::fs::remove_file(capture).or_fail();
}

/// Bridges the trunk's LAN to its NIC, and makes a file in the other guest.
fn set_up_bridge([trunk, inside]: &mut [Vm; 2]) {
    for module in ["ibmvnic", "bridge"] {
        trunk.load(module);
    }
    trunk.run(
        "ip link add br0 type bridge && ip link set br0 up && for i in eth0 eth1; do ip link set \
         $i up master br0; done",
    );
    // Where GRO makes one packet of large ones and small ones from the LAN, their pieces are of all
    // lengths, and Linux ends in a BUG_ON when the bridge has them cut (skb_segment).
    trunk.run("ethtool -K eth0 gro off");
    // The bridge makes its ports promiscuous, and ibmvnic asks for that when it logs in, which it
    // has: a change has it do so anew.
    trunk.run("ethtool -L eth1 rx 1 tx 1");
    inside.run("ip addr add 10.0.7.3/24 dev eth0");
    let blocks = TRUNK_BYTES >> 16;
    inside.run(format!("dd if=/dev/urandom of=/tmp/out bs=64k count={blocks} 2>/dev/null"));
    inside.run(format!("{LARGE} && httpd -p 5301 -h /tmp"));
    for guest in [trunk, inside] {
        guest.run("dmesg -c >/dev/null");
    }
}

/// Has the guest send a file to the host, and compares.
fn sends_file(inside: &mut Vm, directory: &Path) -> io::Result<()> {
    let got = get(("10.0.7.3", 5301), "/out")?;
    let said = inside.run("sha256sum </tmp/out");
    let same = said.split_whitespace().next() == Some(&*sha256(&got, directory));
    assert!(same && got.len() as i64 == TRUNK_BYTES, "{} bytes, not the guest's", got.len());
    Ok(())
}

/// Has the guest get a file from the host, and compares.
fn gets_file(inside: &mut Vm, directory: &Path) -> io::Result<()> {
    let mut draw = Rng::new(1);
    let data: Vec<u8> = (0..TRUNK_BYTES / 8).flat_map(|_| draw.bits().to_le_bytes()).collect();
    let listening = TcpListener::bind("10.0.7.2:5302")?;
    let due = sha256(&data, directory);
    // It ends with the connection, or with this process.
    std::thread::spawn(move || {
        let (mut connection, _) = listening.accept()?;
        connection.set_write_timeout(Some(PATIENCE))?;
        connection.write_all(&data)
    });
    let said = inside.run("nc 10.0.7.2 5302 </dev/null | sha256sum");
    assert_eq!(said.split_whitespace().next(), Some(&*due), "the guest has what the host sent");
    Ok(())
}

/// Judges what one way added to all counters, and to the log's dropped `lists`.
fn judge(out: bool, large: bool, lists: i64, added: &[Numbers; 6]) {
    let [trunk, inside, trunk_moved, inside_moved, lan, nic] = added;
    let (sender, receiver, sent) =
        if out { (inside, trunk, inside_moved) } else { (trunk, inside, trunk_moved) };
    let (calls, dropped) = (sent["tx_packets"], sent["tx_dropped"]);
    let frames = nic[if out { "wire_frames" } else { "arrived_frames" }];
    let (whole, came) = (sender["tx_large_packets"], receiver["rx_large_packets"]);
    let each = TRUNK_BYTES as f64 / calls as f64;
    let taken = TRUNK_BYTES as f64 / nic["device_tx_taken"] as f64;
    let to_nic =
        if out { format!(", {taken:.0} B a frame given to the NIC") } else { String::new() };
    println!(
        "{each:.0} B a call; {whole} large sends, {came} came whole, {dropped} lists dropped; \
         {frames} frames on the wire{to_nic}"
    );
    assert!(frames as f64 >= TRUNK_BYTES as f64 / MSS as f64, "{frames} frames on the wire");
    assert_eq!(lan["device_tx_packets"], lan["device_rx_packets"], "packets sent, and received");
    assert!(
        whole - dropped == came && dropped == lists,
        "{whole} large sends, {dropped} dropped, {lists} lists, {came} came whole"
    );
    let of_lan = ["tx", "rx"].map(|way| lan.get(&format!("device_{way}_large")));
    assert_eq!(of_lan, [came; 2], "large sends of the LAN, and of the guests");
    let mss = MSS as f64;
    if !large {
        assert!(
            came == 0 && each <= mss,
            "without large sends: {came} of them, {each:.0} B a call"
        );
    } else if out {
        // Sixteen segments at the least, but where the window ends.
        assert!(each.min(taken) > 8.0 * mss, "{each:.0} B a call, {taken:.0} B a frame to the NIC");
    } else {
        // As many segments as were there at a poll.
        assert!(came > 0 && each > 2.0 * mss, "{each:.0} B a call");
    }
}

fn link_flaps(rig: &mut Rig) {
    for _ in 0..5 {
        rig.run("ip link set eth0 down; ip link set eth0 up");
        rig.carrier(true);
    }
    rig.up(1500);
    rig.ping_once();
    rig.quiet(&[]);
}

fn statistics_equal_counters(rig: &mut Rig) {
    rig.compare(
        |vm| vm.interface(&["rx_packets", "tx_packets"]),
        |rig| drop(rig.run("ping -q -c 50 -i 0.01 -s 700 $HOST")),
        &[(&["tx_packets"], "hcall_send"), (&["rx_packets"], "arrived_frames")],
    );
}

fn beside_ours(rig: &mut Rig) {
    let cases = [
        Case::of("sent one at a time, 60 bytes", Way::Send, 60, 1),
        Case::of("1514 bytes, checksum left to the driver", Way::SendSum, 1514, 1),
        Case::of("sent in bursts of 32", Way::Send, 60, 32),
        Case::of("received one at a time, 60 bytes", Way::Receive, 60, 1),
        Case::of("received one at a time, 1514 bytes", Way::Receive, 1514, 1),
        Case::of("received in bursts of 16, 1514 bytes", Way::Receive, 1514, 16),
        Case::of("answered one by one, 98 bytes", Way::Answer, 98, 1),
    ];
    // A pool of 512 is filled up when more than an eighth of it is gone. Of both drivers' pools up
    // to that many may be gone when a case begins, or when it ends.
    const GONE: i64 = 2 * 65;
    let rows = [
        Row::same("H_SEND_LOGICAL_LAN", &["hcall_send"]),
        Row::same("descriptors sent", &["device_tx_descriptors"]),
        Row::within(GONE, "receive buffers lent", &["device_buffers_added"]),
        Row::within(GONE, "H_ADD_LOGICAL_LAN_BUFFER", &["hcall_add_buffer", "hcall_add_buffers"]),
        Row::within(GONE, "calls for TCEs", &["tce_hcalls"]),
        // Where the kernel puts a buffer of 2 KiB, a page of 4 KiB ends in every other one; the
        // lab's are aligned.
        Row::shown("TCE entries written or cleared", &["tce_puts"]),
        Row::alone("H_VIO_SIGNAL", &["hcall_vio_signal"]),
        Row::alone("interrupts taken", &[TAKEN]),
        Row::alone("messages of the LAN", &["messages"]),
    ];
    beside(rig, &["eth0"], "ibmveth-paced", &cases, &rows, &[]);
}
