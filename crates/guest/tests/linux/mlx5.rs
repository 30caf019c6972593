//! Linux's mlx5_core on the served mlx5: its checks, the bytes of a packet, and mlx5 beside QEMU's
//! own devices.

use crate::bench::{bench, long};
use crate::e1000::{self, budget};
use crate::host::{OTHER, Wire, frame, fresh, host, iperf_server, packets, received, sleep, until};
use crate::rig::{Options, Report, Rig, Vm, counts, start};
use doorbell_guest::net::{HOST_MAC, MAC, TAP, text};
use doorbell_guest::{Device, Server};
use std::path::Path;

/// Bytes toward the device that an interrupt adds: five CQs and the EQ are armed at the end of a
/// poll, each a write that is a TLP of 32 bytes. How many packets one is for is the machine's.
const INTERRUPT: i64 = 6 * 32;
/// skb_tx_mpwqe; the bytes of a packet as published, with the interrupts of a machine that nobody
/// describes; those of symbol times with a TLP, in bursts of 32 and without interrupts, which are
/// the driver's and the model's on any machine but for reads that start inside 256 bytes and have a
/// completion more; bytes of WQEs fetched. With an interrupt for each burst both are within 2 % of
/// what was published.
const INBOUND: [(&str, f64, f64, f64); 2] =
    [("off", 174.3, 170.0, 64.0), ("on", 128.0, 122.8, 64.0 * 64.0 / (6.0 * 32.0))];
/// Packets of a burst.
const BURST: f64 = 32.0;

checks! { pub(crate) CHECKS:
    probe: "The driver binds, and the kernel has nothing to complain about but what is known.";
    = e1000::PING;
    asked: "`ethtool -i -k -g -l -c`: what the driver says of the device.";
    = e1000::IPERF;
    counters: "`ethtool -S` is what the device counted, and what was on the wire.";
    test: "`ethtool -t offline`.";
    changes: "Rings, channels, moderation and offloads change, and traffic goes on.";
    multi_packet:
        "pktgen, bursts of 32: every packet in a multi-packet WQE, a session a burst; none \
         with the flag off.";
    = e1000::JUMBO;
    = e1000::PROMISCUOUS;
    = e1000::LINK_FLAPS;
    unbind: "Unbound from the device under traffic, and bound again.";
    = e1000::RELOAD;
    = BILL;
}

checks! { pub(crate) SERVED:
    probe: "The driver binds, and the kernel has nothing to complain about but what is known.";
    = e1000::PING;
    = e1000::IPERF;
    no_traps:
        "Doorbells leave no CPU: what traps is commands, and packets are seen by looking at the \
         pages.";
    = e1000::VLAN;
    = e1000::LINK_FLAPS;
    = e1000::ANOTHER_GUEST;
    = BILL;
}

shared! {
    BILL: bill,
        "At the end: nothing was lost without a name, no command was unknown, and the capture \
         holds the wire.";
}

// Checks with servers and guests of their own.
checks! { pub(crate) APART:
    alone inbound_bytes:
        "What crosses toward the device for a packet of the real driver, with skb_tx_mpwqe on and \
         off.";
    alone side_by_side:
        "Every frame of mlx5, e1000e and virtio-net in one guest arrives; rates are printed.";
    alone recovery:
        "WQEs that the device refuses: mlx5_core takes the queue through reset each time, and goes \
         on.";
}

/// Sends `count` frames of 64 bytes by the kernel's own generator, in bursts of 32. Returns packets
/// a second, and how many were sent.
fn pktgen(vm: &mut Vm, interface: &str, to: &str, mac: &str, count: u32) -> (f64, i64) {
    let pg = "/proc/net/pktgen";
    vm.run(format!(
        "echo rem_device_all >{pg}/kpktgend_0 && echo add_device {interface} >{pg}/kpktgend_0"
    ));
    let [count, to, mac] =
        [format!("count {count}"), format!("dst {to}"), format!("dst_mac {mac}")];
    for s in [&*count, "burst 32", "pkt_size 60", "delay 0", &*to, &*mac] {
        vm.run(format!("echo {s} >{pg}/{interface}"));
    }
    let said = vm.run(format!("echo start >{pg}/pgctrl; tail -3 {pg}/{interface}"));
    // `Result: OK: 166998(c163849+d3148) usec, 50016 (60byte,0frags)`, then `299500pps 143Mb/sec
    // ...`
    let result = said.split_once("OK: ").and_then(|(_, r)| r.split_once(" usec, "));
    let sent = result.and_then(|(_, r)| r.split_whitespace().next()?.parse().ok());
    let rate = said.split_whitespace().find_map(|w| w.strip_suffix("pps")?.parse().ok());
    let (Some(sent), Some(rate)) = (sent, rate) else { panic!("pktgen on {interface}: {said}") };
    (rate, sent)
}

/// Sends frames from the guest's first interface to an address that nobody has. Returns how many.
fn generate(vm: &mut Vm, count: u32) -> i64 {
    pktgen(vm, "eth0", "10.9.9.9", &text(HOST_MAC), count).1
}

/// Sets the driver's flag for multi-packet WQEs.
fn set_multi_packet(rig: &mut Rig, flag: &str) {
    rig.run(format!("ethtool --set-priv-flags eth0 skb_tx_mpwqe {flag}"));
    rig.carrier(true);
}

fn probe(rig: &mut Rig) {
    rig.load("pktgen");
    e1000::probe(rig);
}

fn asked(rig: &mut Rig) {
    let said = rig.run("ethtool -i eth0");
    for what in ["driver: mlx5_core", "firmware-version: 16.35.3000"] {
        assert!(said.contains(what), "{said}");
    }
    let features = rig.run("ethtool -k eth0");
    for on in [
        "rx-checksumming",
        "tx-checksumming",
        "tcp-segmentation-offload",
        "receive-hashing",
        "rx-vlan-filter",
    ] {
        assert!(features.contains(&format!("{on}: on")), "{on}: {features}");
    }
    let rings = rig.run("ethtool -g eth0");
    let is_length = |l: &&str| l.split_whitespace().eq(["RX:", "1024"]);
    assert_eq!(rings.lines().filter(is_length).count(), 1, "{rings}");
    let cpus = rig.guest.number("nproc").to_string();
    let channels = rig.run("ethtool -l eth0");
    let combined = channels.lines().rfind(|l| l.contains("Combined"));
    assert!(
        combined.is_some_and(|l| l.split_whitespace().last() == Some(cpus.as_str())),
        "{channels}"
    );
    let moderation = rig.run("ethtool -c eth0");
    assert!(moderation.contains("rx-usecs:"), "{moderation}");
}

fn counters(rig: &mut Rig) {
    let read = |vm: &mut Vm| {
        // Counters of the device are read every second, by the guest's clock.
        vm.run("sleep 1.5");
        vm.ethtool()
    };
    let traffic = |rig: &mut Rig| {
        rig.run("ping -q -c 20 -i 0.02 -s 700 $HOST");
        rig.iperf("-n 16M");
        rig.run("arrivals even 2000 200 20000 1 0");
        rig.send(&vec![frame(OTHER, None, 100); 7]);
    };
    let pairs: [(&[&str], _); 7] = [
        (&["tx_packets_phy"], "wire_frames"),
        (&["tx_packets"], "device_packets"),
        (&["rx_packets_phy"], "arrived_frames"),
        (&["rx_packets"], "device_rx_packets"),
        (&["tx_tso_packets"], "device_lso"),
        (&["tx_mpwqe_blks"], "device_mpwqes"),
        (&["tx_mpwqe_pkts"], "device_mpwqe_packets"),
    ];
    let (s, c) = rig.compare(read, traffic, &pairs);
    let with_fcs = c["wire_bytes"] + 4 * c["wire_frames"];
    assert_eq!(s["tx_bytes_phy"], with_fcs, "tx_bytes_phy are the wire's, with FCS");
    let traffic = s["tx_packets"] > 20 && s["tx_tso_packets"] > 0 && s["rx_packets"] > 20;
    assert!(traffic, "there was traffic");
    let steered = c["arrived_frames"] - c["device_rx_packets"];
    assert_eq!(steered, 7, "frames for others are steered to nobody");
}

fn test(rig: &mut Rig) {
    let said = rig.run("ethtool -t eth0 offline; true");
    assert!(said.contains("result is PASS"), "{said}");
    rig.carrier(true);
    rig.quiet(&[]);
}

fn changes(rig: &mut Rig) {
    for change in [
        "-G eth0 rx 512 tx 2048",
        "-G eth0 rx 1024 tx 1024",
        "-C eth0 adaptive-rx off rx-usecs 50",
        "-C eth0 adaptive-rx on",
        "-K eth0 tso off gso off tx off rx off",
        "-K eth0 tso on gso on tx on rx on",
        "--set-priv-flags eth0 skb_tx_mpwqe off",
        "--set-priv-flags eth0 skb_tx_mpwqe on",
    ] {
        rig.run(format!("ethtool {change}"));
        rig.carrier(true);
        rig.ping_once();
    }
    let cpus = rig.guest.number("nproc");
    for n in [1, cpus].into_iter().filter(|_| cpus > 1) {
        rig.run(format!("ethtool -L eth0 combined {n}"));
        rig.ping_once();
    }
    assert_eq!(rig.guest.number("cat /sys/class/net/eth0/carrier"), 1, "the carrier");
    rig.quiet(&[]);
}

fn multi_packet(rig: &mut Rig) {
    // Packets sent, sessions, and packets in them.
    let generated = |rig: &mut Rig| {
        let before = rig.guest.ethtool();
        let sent = generate(&mut rig.guest, 20_000);
        let added = rig.guest.ethtool().since(&before);
        (sent, added["tx_mpwqe_blks"], added["tx_mpwqe_pkts"])
    };
    let (sent, blocks, packets) = generated(rig);
    println!("      {sent} packets: {blocks} sessions with {packets} of them");
    assert_eq!(packets, sent, "every packet of the generator came in a session");
    assert_eq!(blocks, sent / 32, "a session for a burst");
    set_multi_packet(rig, "off");
    let (sent, blocks, packets) = generated(rig);
    assert_eq!((sent, blocks, packets), (20_000, 0, 0), "sessions with the flag off");
    set_multi_packet(rig, "on");
    rig.quiet(&[]);
}

fn no_traps(rig: &mut Rig) {
    let before = rig.counts();
    let sent = generate(&mut rig.guest, 20_000);
    let d = rig.counts().since(&before);
    let (rings, trapped) = (d["mmio_writes"], d["trapped_writes"]);
    println!("      {sent} packets: {rings} rings seen, {trapped} writes trapped");
    assert!(d["wire_frames"] >= sent && rings > 10, "rings are seen");
    // The driver reads its counters every second: a command each.
    assert!(trapped <= d["device_commands"], "{trapped} writes trapped");
    rig.quiet(&[]);
}

fn unbind(rig: &mut Rig) {
    rig.flooded(|rig| {
        for _ in 0..if long() { 5 } else { 2 } {
            for (to, test) in [("unbind", "! -e"), ("bind", "-e")] {
                let file = format!("/sys/bus/pci/drivers/mlx5_core/{to}");
                rig.run(format!("echo 0000:01:00.0 >{file} && [ {test} /sys/class/net/eth0 ]"));
            }
            rig.up(1500);
        }
    });
    rig.ping_once();
    rig.quiet(&[]);
}

fn bill(rig: &mut Rig) {
    let Report { ledger, device, frames, .. } = rig.bill();
    for name in
        ["bad_doorbells", "errors", "lost_entries", "unknown_commands", "undelivered_commands"]
    {
        assert_eq!(device[name], 0, "{name}");
    }
    if !rig.is_virtual() {
        budget(rig);
    }
    let names = ["mmio_writes", "messages", "pcie_down_tlp_bytes", "pcie_up_tlp_bytes"];
    ledger.print_a_frame(frames, &names);
}

/// Starts a server of its own with a guest, and loads modules.
fn with_guest(
    device: &Device,
    name: &str,
    arguments: &str,
    more: Vec<String>,
    modules: &[&str],
) -> (Vm, Server) {
    let directory = Path::new(name);
    fresh(directory);
    let arguments = format!("--uplink tap:{TAP} {arguments}");
    let server = start(&bench().release, device, directory, &arguments);
    let options = Options { more, ..Options::default() };
    let mut vm = Vm::boot(device, server.socket(), directory, &options);
    for module in modules {
        vm.load(module);
    }
    (vm, server)
}

fn inbound_bytes(device: &Device) {
    let arguments = "--bus pcie2x16 --trap-doorbells";
    let modules = ["mlx5_core", "pktgen"];
    let (mut vm, mut server) = with_guest(device, "inbound", arguments, Vec::new(), &modules);
    vm.run("ip link set eth0 up; sleep 2");
    let mut without_interrupts = Vec::new();
    for (flag, published, due, wqes) in INBOUND {
        vm.run(format!("ethtool --set-priv-flags eth0 skb_tx_mpwqe {flag}; sleep 1"));
        let before = counts(&mut server);
        let sent = generate(&mut vm, if long() { 100_000 } else { 30_000 });
        let d = counts(&mut server).since(&before);
        let n = d["wire_frames"];
        assert!(n >= sent && n < sent + 50, "{sent} packets, {n} frames on the wire");
        let each = |name: &str| d[name] as f64 / n as f64;
        let whole = each("pcie_down_tlp_bytes") + each("pcie_down_pad_bytes");
        let steady = whole - (INTERRUPT * d["messages"]) as f64 / n as f64;
        let of = |bytes: f64| format!("{bytes:.1} B ({:+.2} %)", 100.0 * (bytes / published - 1.0));
        println!(
            "      skb_tx_mpwqe {flag}, a packet toward the device: {}, published {published:.1}; \
             without its {} interrupts {}\n        {:.1} B of TLPs, {:.1} B of padding; {:.2} B of \
             WQEs fetched in {:.3} reads; {:.4} doorbells, {:.4} writes in all",
            of(whole),
            d["messages"],
            of(steady),
            each("pcie_down_tlp_bytes"),
            each("pcie_down_pad_bytes"),
            each("device_fetched_bytes"),
            each("device_fetches"),
            each("device_doorbells"),
            each("mmio_writes"),
        );
        let apart = |is: f64, from: f64| (is / from - 1.0).abs();
        let fetched = each("device_fetched_bytes");
        assert!(
            apart(fetched, wqes) < 0.002,
            "skb_tx_mpwqe {flag}: {fetched} B of WQEs a packet, not {wqes}"
        );
        assert!(
            apart(steady, due) <= 0.01,
            "skb_tx_mpwqe {flag}: {steady:.2} B without interrupts, not {due}"
        );
        assert!(
            apart(steady + INTERRUPT as f64 / BURST, published) <= 0.02,
            "skb_tx_mpwqe {flag}: {steady:.2} B without interrupts, published {published}"
        );
        without_interrupts.push(steady);
    }
    println!(
        "      saved: {:.1} B a packet (published 46.2); fetch: up to 1024 B a read, no WQE read \
         twice; completions of up to 256 B, each padded to a symbol time of x16; bursts of 32, one \
         queue",
        without_interrupts[0] - without_interrupts[1]
    );
}

fn recovery(device: &Device) {
    let (mut vm, mut server) =
        with_guest(device, "recovery", "--fault wqe@120", Vec::new(), &["mlx5_core"]);
    vm.run(
        "ip link set eth0 up; ip addr add $GUEST/24 dev eth0; ip neigh replace $HOST lladdr \
         $HOST_MAC dev eth0; sleep 2",
    );
    for flag in if long() { &["on", "off"][..] } else { &["on"] } {
        vm.run(format!(
            "ethtool --set-priv-flags eth0 skb_tx_mpwqe {flag}; sleep 1; dmesg -c >/dev/null"
        ));
        let (s0, c0) = (vm.ethtool(), counts(&mut server));
        let now = |vm: &mut Vm, name: &str| vm.ethtool()[name] - s0[name];
        let failed = |server: &mut Server| counts(server)["device_errors"] - c0["device_errors"];
        for n in 1..=if long() { 16 } else { 4 } {
            // A WQE each, until one fails. What is sent after it is lost, until the queue has been
            // recovered.
            for _ in 0..8 {
                if failed(&mut server) >= n {
                    break;
                }
                vm.run("ping -q -c 40 -i 0.002 -W 1 $HOST; true");
            }
            assert_eq!(failed(&mut server), n, "WQEs that failed");
            let recovered = until(|| now(&mut vm, "tx_recover") == n);
            assert!(recovered, "{} recoveries of {n}", now(&mut vm, "tx_recover"));
            // An error within half a second of the last recovery is left alone by devlink, and the
            // queue stands until the watchdog comes after 15 s.
            vm.run("sleep 1");
        }
        let discarded = counts(&mut server)["device_discarded"] - c0["device_discarded"];
        let failed = failed(&mut server);
        let [recoveries, errors] = ["tx_recover", "tx_cqe_err"].map(|name| now(&mut vm, name));
        println!(
            "      skb_tx_mpwqe {flag}: {failed} WQEs failed, {recoveries} recoveries, {errors} \
             error CQEs, {discarded} packets lost"
        );
        assert!(recoveries == failed && failed <= errors, "each is recovered from");
        vm.run("for i in 1 2 3 4 5; do ping -q -c 1 -W 1 $HOST && break; done");
        let said = vm.run("dmesg -r");
        assert!(said.contains("Error cqe on cqn"), "the driver says what it was told");
        const WRONG: [&str; 5] = ["BUG", "WARNING", "Call Trace", "TX timeout", "failed"];
        let found = said.lines().filter(|l| WRONG.iter().any(|w| l.contains(w)));
        let found: Vec<_> = found.collect();
        assert!(found.is_empty(), "{}", found.join("; "));
    }
    assert_eq!(counts(&mut server)["dma_faults"], 0, "DMA faults");
}

/// A card of a guest with several.
struct Card {
    name: &'static str,
    mac: [u8; 6],
    /// The host's end of its wire.
    end: &'static str,
    /// The network of both.
    net: &'static str,
    /// Its interface in the guest.
    interface: String,
    /// The best rates: TCP out, TCP in, packets.
    best: [f64; 3],
}

fn side_by_side(device: &Device) {
    let other = |n: u8| [0x52, 0x54, 0, 0xdb, n, 1];
    let mut cards = [
        ("mlx5", MAC, TAP, "10.0.0"),
        ("e1000e", other(1), "e1000e", "10.0.1"),
        ("virtio-net", other(2), "virtio", "10.0.2"),
    ]
    .map(|(name, mac, end, net)| Card {
        name,
        mac,
        end,
        net,
        interface: String::new(),
        best: [0.0; 3],
    });
    let (mut wires, mut more) = (Vec::new(), Vec::new());
    for (card, model) in cards[1..].iter().zip(["e1000e", "virtio-net-pci,disable-legacy=on"]) {
        let Card { end, net, mac, .. } = card;
        wires.push(Wire::new(end, &format!("{net}.2/24"), "vnet_hdr"));
        let tap = format!("tap,id={end},ifname={end},script=no,downscript=no,vhost=off");
        let card = format!("{model},netdev={end},mac={}", text(*mac));
        more.extend(["-netdev".to_owned(), tap, "-device".to_owned(), card]);
    }
    let modules = ["mlx5_core", "e1000e", "virtio_net", "pktgen"];
    let (mut vm, _server) = with_guest(device, "side", "", more, &modules);
    let links = vm.run("ip -c=never -br link");
    for card in &mut cards {
        let line = links.lines().find(|l| l.contains(&text(card.mac)));
        let interface = line.and_then(|l| l.split_whitespace().next()).expect("its interface");
        card.interface = interface.to_owned();
        let net = card.net;
        vm.run(format!("ip link set {interface} up; ip addr add {net}.1/24 dev {interface}"));
    }
    sleep(3.0);
    for _ in 0..if long() { 5 } else { 1 } {
        for card in &mut cards {
            measure(&mut vm, card);
        }
    }
    // For information: rates are the machine's.
    for (n, title) in
        ["TCP out, Mbit/s", "TCP in, Mbit/s", "pktgen 64 B, packets/s"].iter().enumerate()
    {
        let each = cards.iter().map(|c| format!("{} {:9.0}", c.name, c.best[n]));
        println!("      {title:24}{}", each.collect::<Vec<_>>().join("   "));
    }
}

/// Measures a card. Fails unless every frame that it says to have sent is on the host's end.
fn measure(vm: &mut Vm, card: &mut Card) {
    let Card { name, end, net, interface, best, .. } = card;
    let much = if long() { "-t 10" } else { "-n 32M" };
    for (way, flag) in ["", "-R"].iter().enumerate() {
        let _server = iperf_server(&format!("{net}.2"));
        let said = vm.run(format!("iperf3 -c {net}.2 {much} -f m {flag}"));
        best[way] = best[way].max(received(&said));
    }
    let link = host(format!("ip -o link show {end}"));
    let mac = link.split_once("link/ether ").and_then(|(_, l)| l.split_whitespace().next());
    let came = || packets(end)[0];
    let before = came();
    let count = if long() { 100_000 } else { 50_000 };
    let (rate, sent) = pktgen(vm, interface, &format!("{net}.2"), mac.expect("its address"), count);
    // On the host's end is what was sent, to the last frame: TCP's last words may come in between.
    let all = until(|| came() - before >= sent) && came() - before < sent + 10;
    assert!(all, "{name}: {} of {sent} came", came() - before);
    best[2] = best[2].max(rate);
}
