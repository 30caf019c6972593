//! Cases whose answer is known without a model: lone packets, an idle system, a wait of known
//! length.

use crate::sound::{number, run};
use doorbell_hal::Span;
use doorbell_sim::traffic::Frames;
use doorbell_systems::DOORBELL;
use doorbell_systems::Plan;
use doorbell_systems::result::Measured;
use std::sync::Arc;

/// Sends 40 frames of 200 bytes, one each `every`.
fn lone(scenario: &str, every: Span, sets: &[&str]) -> Measured {
    replay(scenario, |i| Span::from_ps(every.ps() * i), sets)
}

/// Sends 40 frames of 200 bytes at their times.
fn replay(scenario: &str, at: impl Fn(u64) -> Span, sets: &[&str]) -> Measured {
    let mut frames = Frames::default();
    (0..40).for_each(|i| frames.push(at(i), &[0x55; 200]));
    let replay = ["traffic.kind=pcap", "traffic.file=lone.pcap", "traffic.times=own"];
    run(scenario, &[&replay, sets].concat(), Some(&Arc::new(frames)))
}

/// The constants of a scenario, to add up by hand.
struct Constants(Plan);

impl Constants {
    fn of(scenario: &str) -> Constants {
        Constants(DOORBELL.plan(scenario).unwrap())
    }

    fn sum(&self, names: &[&str]) -> f64 {
        names.iter().map(|n| self.0.values.number(n)).sum()
    }

    /// Returns the time of so many cycles in ns.
    fn cycles(&self, names: &[&str]) -> f64 {
        self.sum(names) / self.sum(&["cpu.frequency"])
    }
}

/// Interrupts a packet, as messages or on a line.
fn interrupts(m: &Measured) -> f64 {
    ["messages", "line_interrupts"].iter().filter_map(|name| m.number(name)).sum()
}

/// A pause longer than all moderation does not count for a packet before it.
#[test]
fn a_lone_packets_latency_is_the_same_at_any_pace() {
    for scenario in ["mlx5-replay", "e1000-pktgen", "axienet-paced"] {
        let of = |ms| number(&lone(scenario, Span::from_ms(ms), &[]), "latency_ns.p50");
        let (fast, slow) = (of(3), of(10));
        assert!((fast / slow - 1.0).abs() < 0.005, "{scenario}: {fast} {slow}");
        assert!(slow < 100_000.0, "{scenario}: {slow}");
    }
}

#[test]
fn a_lone_packets_work_is_the_same_at_any_pace() {
    for scenario in ["axienet-paced", "ibmveth-paced", "ibmvnic-paced"] {
        let of = |us: u32| {
            let m = run(scenario, &[&format!("paced.every={us}")], None);
            let rate = m.packets_per_s() * f64::from(us) * 1e-6;
            assert!((rate - 1.0).abs() < 0.01, "{scenario}: {rate} frames each {us} us");
            number(&m, "cycles")
        };
        let (fast, slow) = (of(1000), of(10_000));
        assert!((fast / slow - 1.0).abs() < 0.005, "{scenario}: {fast} {slow}");
    }
}

/// Adds up by hand the time of a packet of an otherwise idle ConnectX.
#[test]
fn a_lone_packets_latency_is_the_sum_of_its_parts() {
    let of = Constants::of("mlx5-replay");
    let (key, cycles) = (|name: &str| of.sum(&[name]), |names: &[&str]| of.cycles(names));
    let (link, memory) = (key("pcie.link_latency"), key("pcie.memory_latency"));
    // Gen3 x16: 16 bytes in 1.016 ns.
    let tlp = |bytes: f64| (bytes / 16.0).ceil() * 1.0156;
    let read = |bytes: f64| tlp(24.0) + link + memory + tlp(20.0 + bytes) + link;
    let write = |bytes: f64| tlp(24.0 + bytes) + link;
    let sum = cycles(&[
        "cpu.stack",
        "cpu.tx_shared",
        "cpu.tx_session",
        "cpu.tx_notify",
        "cpu.mmio_write",
        "cpu.fence",
        "cpu.fence",
    ]) + write(8.0)
        + read(64.0)
        + read(200.0)
        + key("nic.pipeline_delay")
        + (200.0 + 24.0) * 8.0 / key("nic.port_rate")
        // From the completion on, and then the event and its message, one behind the other.
        + key("driver.moderation_period") * 1000.0
        + tlp(88.0)
        + write(4.0)
        // The buffer is back in the poll that the handler calls.
        + cycles(&["cpu.interrupt"]);
    let latency = number(&lone("mlx5-replay", Span::from_ms(10), &[]), "latency_ns.p50");
    assert!((latency / sum - 1.0).abs() < 0.01, "{latency}, by hand {sum}");
}

/// The work on a packet that is mapped, until its tail is written.
const SENT: [&str; 6] = [
    "cpu.stack",
    "cpu.map",
    "cpu.tx_descriptor",
    "cpu.tx_descriptor_entry",
    "cpu.tx_notify",
    "cpu.fence",
];

/// Adds up by hand the time of a packet of an otherwise idle 82545 behind the bridges of a drawer.
#[test]
fn a_lone_packets_latency_is_the_sum_of_its_parts_on_pci() {
    let of = Constants::of("e1000-pktgen");
    let (key, cycles) = (|name: &str| of.sum(&[name]), |names: &[&str]| of.cycles(names));
    // 33 MHz, and 8 bytes a clock.
    let clocks = |n: f64| n * 30.0;
    // An attempt that is retried, the bridge's wait, then address, turnaround, decode, data, idle.
    let read = |bytes: f64| {
        clocks(5.0)
            + key("pci.read_command")
            + clocks((bytes / 8.0).ceil() + 4.0)
            + clocks((bytes * key("pci.read_byte") / clocks(1.0)).ceil())
    };
    let cpu = key("pci.cpu_latency");
    let register_write = clocks(4.0);
    let register_read = clocks(5.0 + (key("pci.register_latency") / clocks(1.0)).ceil());
    let sum = cycles(&SENT) + cpu
        + register_write
        // The descriptor, then the frame, which is no multiple of a line.
        + read(16.0)
        + read(128.0)
        + read(72.0)
        // The delay counts from the frame's arrival on the chip, in units of 1.024 us.
        + key("driver.tx_delay") * 1024.0
        + cycles(&["cpu.interrupt"])
        // The handler reads the cause; then it masks, and reads the status, which pushes the write.
        + cpu
        + register_read
        + cpu
        + cpu
        + register_write
        + register_read
        + cpu;
    let latency = number(&lone("e1000-pktgen", Span::from_ms(10), &[]), "latency_ns.p50");
    assert!((latency / sum - 1.0).abs() < 0.005, "{latency}, by hand {sum}");
}

/// Adds up by hand the time of a packet of an otherwise idle AXI Ethernet, by the clocks of PG021.
#[test]
fn a_lone_packets_latency_is_the_sum_of_its_parts_on_axi() {
    let of = Constants::of("axienet-paced");
    let (key, cycles) = (|name: &str| of.sum(&[name]), |names: &[&str]| of.cycles(names));
    // 125 MHz, and 8 bytes a clock.
    let clocks = |n: f64| n * 8.0;
    let beats = |bytes: f64| clocks((bytes / 8.0).ceil());
    let cpu = key("axi.cpu_latency");
    let lite = clocks(key("axi.lite_clocks"));
    let sum = cycles(&SENT) + cpu
        // The tail, 64 bits as two writes of AXI4-Lite.
        + lite
        + lite
        + clocks(10.0)
        + key("axi.read_latency")
        + beats(52.0)
        + clocks(10.0)
        + key("axi.read_latency")
        + beats(200.0)
        + clocks(6.0)
        // The status is in memory before the delay counts.
        + beats(4.0)
        + key("axi.write_latency")
        + key("driver.tx_usecs") * 1000.0
        + cycles(&["cpu.interrupt"])
        // The handler reads the cause, acknowledges it, and masks.
        + cpu
        + lite
        + cpu
        + cycles(&["cpu.mmio_write"])
        + key("cpu.mmio_write_spacing");
    let latency = number(&lone("axienet-paced", Span::from_ms(10), &[]), "latency_ns.p50");
    assert!((latency / sum - 1.0).abs() < 0.005, "{latency}, by hand {sum}");
}

/// Adds up by hand the time of a frame that arrives at an 82574 each millisecond, until the stack
/// has it. With messages of MSI-X no register says what has come.
#[test]
fn a_lone_frames_latency_is_the_sum_of_its_parts_on_pci_express() {
    let of = Constants::of("e1000e-82574l");
    let link = of.sum(&["pcie.link_latency"]);
    // Gen1 x1: a byte in 4 ns. A TLP has 20 bytes beside its data, whose last word is filled.
    let tlp = |bytes: f64| (20.0 + bytes) * 4.0;
    let data = 1516.0 * 4.0 + 12.0 * tlp(0.0) + link;
    let register = tlp(0.0) + link + tlp(4.0) + link;
    let write = tlp(4.0);
    for (interrupts, reads) in [("msix", 0.0), ("msi", 1.0), ("line", 1.0)] {
        // The descriptor, and the message behind it; the line has no TLP here.
        let told = if interrupts == "line" { 0.0 } else { tlp(16.0) + tlp(4.0) + link };
        // Tail and mask are written before the read that flushes them, and the poll ends.
        let sum = data
            + told
            + reads * register
            + 2.0 * write
            + register
            + of.cycles(&["cpu.interrupt", "cpu.poll", "cpu.rx_packet", "cpu.rx_post"])
            + of.cycles(&["cpu.fence", "cpu.fence", "cpu.tcp_gro", "cpu.tcp_receive"]);
        let m = run(
            "e1000e-82574l",
            &[
                "traffic.frames=1",
                "driver.rx_delay=0",
                "driver.throttle=off",
                &format!("driver.interrupts={interrupts}"),
            ],
            None,
        );
        let latency = number(&m, "latency_ns.min");
        assert!((latency / sum - 1.0).abs() < 0.002, "{interrupts}: {latency}, by hand {sum}");
    }
}

/// Adds up by hand the way of a lone frame of 60 bytes through a hypervisor, sent and received.
#[test]
fn a_lone_frames_latency_is_the_sum_of_its_parts_behind_a_hypervisor() {
    let sent = ["cpu.stack", "cpu.tx_descriptor", "cpu.tx_descriptor_entry"];
    let polled = ["cpu.interrupt", "cpu.poll", "cpu.fence", "cpu.completion", "cpu.rx_packet"];
    let cases = [
        (
            "ibmveth-paced",
            &sent[..],
            &["hypervisor.call", "hcall.send"][..],
            "hypervisor.interrupt",
            ["hypervisor.call", "hcall.vio_signal"],
        ),
        (
            "ibmvnic-paced",
            &[&sent[..], &["cpu.tx_notify", "cpu.fence"]].concat(),
            &["hypervisor.call", "hcall.send_sub_crq", "serial.direct", "serial.descriptor"],
            "serial.receive",
            ["hypervisor.call", "hcall.vioctl"],
        ),
    ];
    for (scenario, sent, send, before, signal) in cases {
        let of = Constants::of(scenario);
        let key = |name: &str| of.sum(&[name]);
        let cycles = |names: &[&str]| of.cycles(names) + 60.0 * of.cycles(&["cpu.copy"]);
        // A copy is a read and a write; a frame has 4 bytes of FCS and 8 of preamble.
        let copy = |bytes: f64| bytes * key("hypervisor.copy") / 1024.0 / 2.0;
        let wire = key("link.delay") + 72.0 * 8.0 / key("link.rate");
        let send = cycles(sent) + of.sum(send) + copy(60.0) + wire;
        // The handler and the poll call once each.
        let receive = wire + key(before) + copy(60.0) + cycles(&polled) + 2.0 * of.sum(&signal);
        for (way, by_hand) in [
            ("paced.way=send", send),
            ("paced.way=receive", receive),
            ("paced.way=answer", send + receive),
        ] {
            let m = run(scenario, &["paced.every=10000", "paced.bursts=40", way], None);
            let latency = number(&m, "latency_ns.min");
            assert!(
                (latency / by_hand - 1.0).abs() < 1e-3,
                "{scenario} {way}: {latency}, {by_hand}"
            );
        }
    }
}

/// Offers twice what a core can take. The last of n packets is due after n intervals and sent after
/// twice as many: it waited for n.
#[test]
fn a_packet_waits_from_its_due_time_for_a_core_that_is_late() {
    for (scenario, sets) in [("mlx5-pktgen-64", &["run.cores=1"][..]), ("e1000-pktgen", &[])] {
        let at = |rate: &str| {
            let rate = format!("traffic.rate={rate}");
            run(scenario, &[sets, &["traffic.packets=20000", &rate]].concat(), None)
        };
        let full = at("full").packets_per_s();
        let m = at(&(full * 2e-6).to_string());
        let wait = 20_000.0 / full / 2.0 * 1e9;
        let longest = number(&m, "latency_ns.max");
        assert!((longest / wait - 1.0).abs() < 0.03, "{scenario}: {longest}, by hand {wait}");
    }
}

/// Cards of this family filled a gigabit with the shortest frames (R. Olsson, pktgen the linux
/// packet generator, 2005: "A single flow of 1.48 Mpps"). So what a slower bus lacks is no limit of
/// the chip.
#[test]
fn the_8254x_fills_its_wire_with_the_shortest_frames_on_a_free_bus() {
    let free = [
        "bus.kind=pcix",
        "pci.clock=133",
        "pci.read_command=0",
        "pci.read_byte=0",
        "pci.write_command=0",
        "pci.cpu_latency=0",
        "pci.memory_latency=0",
        "cpu.frequency=2.67",
        "traffic.size=60",
    ];
    let rate = run("e1000-pktgen", &free, None).packets_per_s();
    let wire = 1e9 / 8.0 / f64::from(60 + 4 + 20);
    assert!((rate / wire - 1.0).abs() < 1e-3, "{rate} of {wire}");
}

/// Moderation of so many microseconds delays a lone packet by as many.
#[test]
fn moderation_delays_a_lone_packet_by_its_time() {
    let cases = [
        ("mlx5-replay", "driver.moderation_period", [0.0, 2.0, 8.0, 16.0, 100.0], 1000.0),
        ("axienet-paced", "driver.tx_usecs", [5.0, 10.0, 50.0, 100.0, 200.0], 1000.0),
        ("e1000-pktgen", "driver.tx_delay", [4.0, 8.0, 16.0, 24.0, 28.0], 1024.0),
    ];
    for (scenario, key, values, unit) in cases {
        let of = |n: f64| {
            let set = format!("{key}={n}");
            number(&lone(scenario, Span::from_ms(3), &[&set]), "latency_ns.min")
        };
        let first = of(values[0]);
        for n in &values[1..] {
            let (more, expected) = (of(*n) - first, (n - values[0]) * unit);
            assert!((more - expected).abs() < 0.01 * expected, "{key}={n}: {more}");
        }
    }
}

#[test]
fn packets_closer_than_moderation_share_an_interrupt() {
    for (scenario, set) in [
        ("mlx5-replay", "driver.moderation_period=16"),
        ("axienet-paced", "driver.tx_usecs=16"),
        ("e1000-pktgen", "driver.tx_delay=16"),
    ] {
        // Two frames so many microseconds apart, and the next two 500 us later.
        let of = |apart: u64| {
            let at = |i: u64| Span::from_us(i / 2 * 500 + i % 2 * apart);
            interrupts(&replay(scenario, at, &[set]))
        };
        let (close, far) = (of(8), of(100));
        assert!(
            (close - 0.5).abs() < 0.03 && (far - 1.0).abs() < 0.03,
            "{scenario}: {close} {far}"
        );
    }
}

#[test]
fn an_idle_system_is_idle() {
    for scenario in ["mlx5-replay", "e1000-pktgen", "axienet-paced"] {
        let m = lone(scenario, Span::from_ms(10), &[]);
        for r in m.rates.iter().filter(|r| r.metric.name.ends_with("_share")) {
            assert!(r.value < 0.01, "{scenario}: {} {}", r.metric.name, r.value);
        }
        let interrupts = interrupts(&m);
        assert!((1.0..1.1).contains(&interrupts), "{scenario}: {interrupts}");
    }
}
