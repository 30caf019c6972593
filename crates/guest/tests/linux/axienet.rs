//! Linux's axienet on the served AXI Ethernet, in an arm64 guest: its checks, and interrupts as
//! coalescing was set.

use crate::beside::{Case, Row, TAKEN, Way, beside};
use crate::e1000;
use crate::rig::{Report, Rig, Vm};

checks! { pub(crate) CHECKS:
    probe: "The unmodified driver binds, and the kernel has nothing to complain about.";
    = e1000::PING;
    = e1000::IPERF;
    statistics_equal_counters:
        "The driver's counters are the device's, and what the ledger saw on the wire.";
    beside_ours: "What a frame costs, beside our own driver's on the same traffic.";
    coalescing: "`ethtool -C`: frames and microseconds are in the registers, of both channels.";
    interrupts_as_set: "Each group of as many frames as `rx-frames` says has its interrupts.";
    checksums: "TCP of the guest has its checksum made by the device, by application words.";
    = e1000::JUMBO;
    = e1000::LINK_FLAPS;
    = e1000::RELOAD;
    = BILL;
}

checks! { pub(crate) SERVED:
    probe: "The unmodified driver binds, and the kernel has nothing to complain about.";
    = e1000::PING;
    = e1000::IPERF;
    = e1000::LINK_FLAPS;
    = e1000::ANOTHER_GUEST;
    = BILL;
}

shared! {
    BILL: bill, "At the end: nothing was lost without a name, and the capture holds the wire.";
}

/// Loads the driver and what a device tree's cores need.
fn load(vm: &mut Vm) {
    for module in ["rp1_pci", "xilinx_dma", "xilinx_emac"] {
        vm.load(module);
    }
    vm.wait_for_interface();
}

fn probe(rig: &mut Rig) {
    rig.run("dmesg -c >/dev/null");
    load(&mut rig.guest);
    e1000::address(rig);
    let said = rig.run("ethtool -i eth0");
    assert!(said.contains("driver: xaxienet"), "{said}");
    rig.up(1500);
    rig.quiet(&[]);
}

/// Returns the DMA engine's CR, of transmit and receive, as `ethtool -d` shows them.
fn registers(rig: &mut Rig) -> [u64; 2] {
    let said = rig.run("ethtool -d eth0 raw on | od -A n -v -t u4");
    let words: Vec<u64> = said.split_whitespace().map(|w| w.parse().expect("a word")).collect();
    // axienet_ethtools_get_regs: MAC registers first.
    [words[32], words[36]]
}

/// Returns frames and delay of a CR.
fn setting(cr: u64) -> (u64, u64) {
    (cr >> 16 & 255, cr >> 24)
}

/// Frames and microseconds.
type Moderation = (u64, u64);
/// As the driver has the transmit channel when it is loaded.
const TX: Moderation = (24, 50);

fn coalesce(vm: &mut Vm, rx: Moderation, tx: Moderation) {
    vm.run(format!(
        "ethtool -C eth0 adaptive-rx off rx-frames {} rx-usecs {} tx-frames {} tx-usecs {}",
        rx.0, rx.1, tx.0, tx.1
    ));
}

fn coalescing(rig: &mut Rig) {
    for (rx, tx) in [((16, 40), (8, 20)), ((1, 0), TX), ((255, 255), (255, 255))] {
        coalesce(&mut rig.guest, rx, tx);
        assert_eq!(registers(rig).map(setting), [tx, rx], "in CR");
    }
    rig.ping_once();
}

/// Frames of a group, and groups.
const THRESHOLDS: [u64; 4] = [1, 4, 16, 64];
const GROUPS: u64 = 30;

fn interrupts_as_set(rig: &mut Rig) {
    for frames in THRESHOLDS {
        coalesce(&mut rig.guest, (frames, if frames > 1 { 255 } else { 0 }), TX);
        let before = rig.at_rest();
        // The delay is shorter than the time between groups, and restarts with each frame.
        rig.run(format!("frames {} 1514 {frames} 4000", GROUPS * frames));
        let added = rig.at_rest().since(&before);
        let [came, raised] =
            ["rx_packets", "rx_interrupts"].map(|n| added[&*format!("device_{n}")]);
        println!("      {frames:3} frames: {GROUPS} groups, {raised} interrupts");
        assert_eq!(came, (GROUPS * frames) as i64, "threshold {frames}: frames");
        // One for the count, and one for the delay behind it if there is one.
        let due = if frames > 1 { 2 * GROUPS } else { GROUPS };
        assert_eq!(raised, due as i64, "threshold {frames}: interrupts");
    }
}

fn checksums(rig: &mut Rig) {
    let features = rig.run("ethtool -k eth0");
    for on in ["tx-checksum-ip-generic: on", "rx-checksumming: on"] {
        assert!(features.contains(on), "{features}");
    }
    let before = rig.at_rest();
    rig.iperf("-n 8M");
    let added = rig.at_rest().since(&before);
    assert!(added["wire_frames"] > (8 << 20) / 1460, "8 MiB");
    assert_eq!(added["device_wire_bad_checksums"], 0, "checksums on the wire");
}

fn statistics_equal_counters(rig: &mut Rig) {
    let traffic = |rig: &mut Rig| {
        rig.run("ping -q -c 20 -i 0.02 -s 700 $HOST");
        rig.iperf("-n 16M");
    };
    let (s, c) = rig.compare(
        |vm| vm.interface(&["rx_packets", "tx_packets", "rx_bytes", "tx_bytes"]),
        traffic,
        &[
            (&["rx_packets"], "device_rx_packets"),
            (&["tx_packets"], "device_tx_packets"),
            (&["tx_packets"], "wire_frames"),
            (&["rx_bytes"], "device_rx_bytes"),
        ],
    );
    let lost = c.sum(&["device_rx_filtered", "device_rx_missed", "device_rx_dropped"]);
    let known = s["rx_packets"] + lost;
    assert_eq!(c["arrived_frames"], known, "every frame arrived, or was dropped by name");
}

fn beside_ours(rig: &mut Rig) {
    // As the lab's scenario has it, which is what the driver sets when it is loaded.
    coalesce(&mut rig.guest, (1, 0), TX);
    let cases = [
        Case::of("sent one at a time, 60 bytes", Way::Send, 60, 1),
        Case::of("1514 bytes, checksum left to the driver", Way::SendSum, 1514, 1),
        Case::of("sent in bursts of 32", Way::Send, 60, 32),
        Case::of("received one at a time, 60 bytes", Way::Receive, 60, 1),
        Case::of("received in bursts of 16, 1514 bytes", Way::Receive, 1514, 16),
        Case::of("answered one by one, 98 bytes", Way::Answer, 98, 1),
    ];
    let rows = [
        Row::same("descriptors sent", &["device_tx_descriptors"]),
        Row::same("descriptors received into", &["device_rx_descriptors"]),
        Row::same("doorbells (TAILDESC), transmit", &["device_tx_doorbells"]),
        Row::shown("doorbells, receive", &["device_rx_doorbells"]),
        Row::same("bytes of frames read", &["device_data_read_bytes"]),
        Row::same("bytes of frames written", &["device_data_write_bytes"]),
        Row::shown("AXI-Lite writes", &["axi_lite_writes"]),
        Row::shown("AXI-Lite reads", &["axi_lite_reads"]),
        Row::shown("interrupts taken", &[TAKEN]),
        Row::shown("interrupts, transmit", &["device_tx_interrupts"]),
        Row::shown("interrupts, receive", &["device_rx_interrupts"]),
        Row::shown("AXI reads", &["axi_reads"]),
        Row::shown("AXI writes", &["axi_writes"]),
    ];
    let interrupts = ["ethernet", "eth0", "axienet"];
    beside(rig, &interrupts, "axienet-paced", &cases, &rows, &[]);
}

fn bill(rig: &mut Rig) {
    let Report { ledger, device, frames, .. } = rig.bill();
    for name in ["hangs", "dma_errors"] {
        assert_eq!(device[name], 0, "{name}");
    }
    ledger.print_a_frame(
        frames,
        &[
            "axi_lite_writes",
            "axi_lite_reads",
            "line_interrupts",
            "messages",
            "axi_reads",
            "axi_writes",
        ],
    );
}
