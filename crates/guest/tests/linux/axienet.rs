//! Linux's axienet on the served AXI Ethernet, in an arm64 guest: its checks, and interrupts as
//! coalescing was set.

use crate::beside::{Case, Row, TAKEN, Way, beside};
use crate::e1000;
use crate::host::{OrFail, Wire, frame, send_on, until};
use crate::rig::{Options, Report, Rig, Vm};
use doorbell_guest::net::MAC;
use doorbell_host_io::packet_socket::PacketSocket;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

checks! { pub(crate) CHECKS:
    probe: "The unmodified driver binds, and the kernel has nothing to complain about.";
    = e1000::PING;
    = e1000::IPERF;
    statistics_equal_counters:
        "The driver's counters are the device's, and what the ledger saw on the wire.";
    beside_ours: "What a frame costs, beside our own driver's on the same traffic.";
    coalescing: "`ethtool -C`: frames and microseconds are in the registers, of both channels.";
    interrupts_as_set: "Interrupts for a count come after so many frames, in the server's trace.";
    checksums:
        "TCP of the guest has its checksum made by the device, by application words, and it is \
         right on the wire.";
    = e1000::JUMBO;
    = e1000::LINK_FLAPS;
    = e1000::RELOAD;
    = e1000::ANOTHER_GUEST;
    bill: "At the end: nothing was lost without a name, and the capture holds the wire.";
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

/// An event of the receive channel in the trace.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Frame,
    /// A write of its control register.
    Control(u64),
    /// A write of its status register.
    Status(u64),
}

/// Reads a trace: seconds and events.
fn events(file: &Path) -> Vec<(f64, Event)> {
    // In BAR 1, behind the MAC.
    const CONTROL: &str = "\"1+0x40030\"";
    const STATUS: &str = "\"1+0x40034\"";
    let event = |line: &str| {
        let behind = |what: &str| Some(line.split_once(what)?.1);
        let value = || {
            let digits = behind("\"value\":\"0x")?.split('"').next()?;
            u64::from_str_radix(digits, 16).ok()
        };
        let write = line.contains("\"register write\"");
        let event = match line {
            _ if line.contains("\"frame in\"") => Event::Frame,
            _ if write && line.contains(CONTROL) => Event::Control(value()?),
            _ if write && line.contains(STATUS) => Event::Status(value()?),
            _ => return None,
        };
        let at = behind("\"ts\":")?.split([',', '}']).next()?;
        Some((at.parse::<f64>().ok()? / 1e6, event))
    };
    let lines = BufReader::new(File::open(file).or_fail()).lines().map_while(Result::ok);
    lines.filter_map(|l| event(&l)).collect()
}

/// Does `work` with a guest on a server of its own, whose wire is the TAP device `traced`. Returns
/// its result, the server's trace, and the server's report.
fn traced<T>(rig: &mut Rig, work: impl FnOnce(&mut Vm) -> T) -> (T, Vec<(f64, Event)>, Report) {
    let _wire = Wire::new("traced", "10.0.7.2/24", "");
    let trace = rig.directory.join("trace.json");
    let arguments = format!("--uplink tap:traced --trace {}", trace.display());
    let (directory, mut server) = rig.serve("traced", &arguments);
    let mut vm = Vm::boot(&rig.device, server.socket(), &directory, &Options::default());
    load(&mut vm);
    vm.run("ip link set eth0 up; sleep 1");
    let done = work(&mut vm);
    vm.power_off();
    let report = Report::of(&mut server);
    let events = events(&trace);
    std::fs::remove_file(trace).or_fail();
    (done, events, report)
}

/// Frames of a group, and groups.
const THRESHOLDS: [u64; 4] = [1, 4, 16, 64];
const GROUPS: u64 = 30;

/// Sends groups of as many frames as the threshold, each once the last is read.
fn groups(vm: &mut Vm) {
    let socket = PacketSocket::open("traced").or_fail();
    let read = |vm: &mut Vm| vm.interface(&["rx_packets"])["rx_packets"] as u64;
    for frames in THRESHOLDS {
        coalesce(vm, (frames, if frames > 1 { 255 } else { 0 }), TX);
        let group = vec![frame(MAC, None, 1514); frames as usize];
        let first = read(vm);
        for n in 1..=GROUPS {
            send_on(&socket, &group);
            let mut came = 0;
            let all = until(|| {
                came = read(vm) - first;
                came >= n * frames
            });
            assert!(all, "{came} of {} frames were read", n * frames);
        }
    }
}

fn interrupts_as_set(rig: &mut Rig) {
    #[derive(Default)]
    struct Seen {
        frames: u64,
        /// Interrupts for the count, and for the delay.
        counted: u64,
        late: u64,
    }
    let ((), events, _) = traced(rig, groups);
    let (mut all, mut now) = (BTreeMap::<u64, Seen>::new(), 0);
    for (_, event) in events {
        match event {
            // Another threshold begins its count anew.
            Event::Control(cr) if setting(cr).0 != now => {
                now = setting(cr).0;
                all.insert(now, Seen::default());
            }
            Event::Control(_) => {}
            _ => {
                let Some(seen) = all.get_mut(&now).filter(|_| now > 0) else { continue };
                let Event::Status(value) = event else {
                    seen.frames += 1;
                    continue;
                };
                // The driver acknowledges what was raised: for the count (IOC), or the delay after
                // a frame that no other followed.
                seen.counted += value >> 12 & 1;
                seen.late += value >> 13 & 1;
                assert!(
                    seen.frames >= seen.counted * now,
                    "threshold {now}: {} interrupts for the count after {} frames",
                    seen.counted,
                    seen.frames
                );
            }
        }
    }
    for frames in THRESHOLDS {
        let Seen { frames: came, counted, late } =
            all.get(&frames).expect("a threshold that was set");
        println!(
            "      {frames:3} frames: {GROUPS} groups, {counted} interrupts for the count, {late} \
             for the delay"
        );
        assert!(*came >= GROUPS * frames, "{came} frames in the trace");
        // Without a delay nothing else can come; with it a group that is held up within has one for
        // that, and perhaps none for the count.
        let wanted = if frames == 1 { GROUPS } else { 1 };
        assert!(*counted >= wanted, "threshold {frames}: {counted} interrupts for the count");
    }
}

fn checksums(rig: &mut Rig) {
    let features = rig.run("ethtool -k eth0");
    for on in ["tx-checksum-ip-generic: on", "rx-checksumming: on"] {
        assert!(features.contains(on), "{features}");
    }
    let since = rig.captured();
    rig.iperf("-n 8M");
    rig.on_the_wire(since);
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
