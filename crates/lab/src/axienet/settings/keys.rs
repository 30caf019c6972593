//! The keys of an axienet run.

use crate::key::{Key, Needs};

const TCP: &[Needs] = &[Needs::kind(&["send", "receive", "transactions"])];
const ARRIVE: &[Needs] = &[Needs::kind(&["arrivals"])];
const AT_A_LOAD: &[Needs] =
    &[Needs::word("traffic.pattern", &["even", "poisson", "steps", "on_off"])];
const IN_TURN: &[Needs] = &[Needs::word("traffic.pattern", &["steps", "on_off"])];
const STEPS: &[Needs] = &[Needs::word("traffic.pattern", &["steps"])];
const BURSTS: &[Needs] = &[Needs::word("traffic.pattern", &["bursts"])];
const ONE_SIZE: &[Needs] =
    &[Needs::word("traffic.pattern", &["even", "poisson", "bursts", "steps", "on_off"])];
const FIXED: &[Needs] = &[Needs::word("driver.controller", &["fixed"])];
const TIMED: &[Needs] = &[Needs::word("driver.controller", &["fixed", "dim", "classes"])];

/// What a profile says of its CPU; [`crate::cpu::TCP`] has the rest.
pub(in crate::axienet) static CPU: [Key; 21] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::whole("cpu.cores", "cores", 2.0, 64.0, "cores there are, of which a run uses two"),
    Key::cycles("cpu.stack", "one packet handed to the driver: qdisc and the way there"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by the driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed where the device has not"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, beside each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "a write of TAILDESC, without the register write itself"),
    Key::cycles("cpu.tx_done", "packets found sent, beside each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each packet of them"),
    Key::cycles("cpu.rx_post", "a receive buffer given to the device"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and handed up"),
    Key::cycles(
        "cpu.interrupt",
        "an interrupt taken, its handler and the way to the poll, without register accesses",
    ),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles(
        "cpu.tcp_sleep",
        "an application that waits: its core to idle; and as much again out of it when it is woken",
    ),
    Key::cycles("cpu.map", "a buffer mapped: cache maintenance where memory is not coherent"),
    Key::cycles("cpu.mmio_write", "a register write"),
    Key::ns("cpu.mmio_write_spacing", "least time between two register writes"),
    Key::cycles("cpu.fence", "a fence"),
    Key::cycles("cpu.relax", "a turn of a polling loop"),
];

/// What a profile says of its bus.
pub(in crate::axienet) static BUS: [Key; 10] = [
    Key::choice("axi.protocol", &["axi4", "axi3"], "bursts of up to 256 beats, or of 16"),
    Key::whole("axi.clock", "MHz", 1.0, 1000.0, "clock of the bus"),
    Key::among("axi.width", "bits", &[32.0, 64.0, 128.0, 256.0, 512.0, 1024.0], "data in a beat"),
    Key::among(
        "axi.burst",
        "beats",
        &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0],
        "the DMA's longest burst",
    ),
    Key::whole("axi.reads", "bursts", 1.0, 32.0, "reads under way at a time"),
    Key::whole("axi.writes", "bursts", 1.0, 32.0, "writes under way at a time"),
    Key::whole("axi.lite_clocks", "clocks", 1.0, 255.0, "a register access at its slave"),
    Key::ns("axi.read_latency", "from a read's address to its first data"),
    Key::ns("axi.write_latency", "from a write's last data to its response"),
    Key::ns("axi.cpu_latency", "between CPU and registers, one way"),
];

/// What a profile says of the cores and the link.
pub(in crate::axienet) static NIC: [Key; 8] = [
    Key::whole("nic.clock", "MHz", 1.0, 1000.0, "of the DMA engine and its delay timers"),
    Key::whole(
        "nic.delay_clocks",
        "clocks",
        1.0,
        100_000.0,
        "in a unit of the delay; the driver counts on 125",
    ),
    Key::whole("nic.rx_memory", "KiB", 2.0, 32.0, "receive memory of the MAC"),
    Key::whole("nic.tx_memory", "KiB", 2.0, 32.0, "transmit memory of the MAC"),
    Key::choice(
        "nic.rx_checksum",
        &["partial", "full", "none"],
        "what the core does about received checksums",
    ),
    Key::choice("nic.tx_checksum", &["partial", "full", "none"], "and about transmitted ones"),
    Key::among("link.rate", "Mbit/s", &[10.0, 100.0, 1000.0], "of the link"),
    Key::ns("link.delay", "of the cable and what is behind it, one way").default("5000"),
];

/// What is sent or received.
pub(in crate::axienet) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["receive", "send", "transactions", "arrivals", "pktgen", "pcap", "paced"],
    "TCP in bulk, either way; TCP transactions that the machine serves; frames that come by a pattern; frames sent; \
     frames at a pace",
)];

/// What a scenario says of arrivals.
pub(in crate::axienet) static ARRIVALS: [Key; 9] = [
    Key::choice(
        "traffic.pattern",
        &["even", "poisson", "bursts", "steps", "on_off", "random"],
        "arrivals: evenly; at random; in bursts; high and low load in turn; load and silence in turn; phases by the seed",
    ).when(ARRIVE),
    Key::number("traffic.load", "%", 0.001, 100.0, "arrivals: of the link").default("100").when(AT_A_LOAD),
    Key::number("traffic.low", "%", 0.001, 100.0, "steps: of the link, in between").default("1").when(STEPS),
    Key::number("traffic.hold", "ms", 0.01, 1e4, "steps and on_off: how long each lasts").default("20").when(IN_TURN),
    Key::whole("traffic.frames", "packets", 1.0, 100_000.0, "bursts: frames back to back").default("32").when(BURSTS),
    Key::number("traffic.every", "us", 1.0, 1e6, "bursts: from one to the next").default("1000").when(BURSTS),
    Key::whole("traffic.arrival_size", "B", 60.0, 9014.0, "arrivals: frame without FCS").default("1514").when(ONE_SIZE),
    Key::whole("traffic.beside", "connections", 0.0, 64.0, "receive: connections beside it that the machine serves")
        .default("0").when(TCP),
    Key::choice(
        "traffic.backlog",
        &["merged", "single"],
        "TCP: segments that come while the application owns the socket become one (Linux 5.0), or stay what they were",
    )
    .default("merged").when(TCP),
];

/// What a scenario says of the driver. Defaults are Linux's.
pub(in crate::axienet) static DRIVER: [Key; 10] = [
    Key::choice(
        "driver.controller",
        &["dim", "fixed", "dim_cqe", "dim_link", "classes", "trains"],
        "the switch: net_dim over 4^i packets; `ethtool -C`; net_dim over Linux's CQE table, or times from link and MTU; e1000's; ours",
    ),
    Key::whole("driver.rx_frames", "packets", 1.0, 255.0, "fixed: received packets an interrupt")
        .default("1")
        .when(FIXED),
    Key::whole(
        "driver.rx_usecs",
        "us",
        0.0,
        1000.0,
        "fixed, dim and classes: silence that ends the wait",
    )
    .default("16")
    .when(TIMED),
    Key::whole("driver.tx_frames", "packets", 1.0, 255.0, "sent packets an interrupt")
        .default("24"),
    Key::whole("driver.tx_usecs", "us", 0.0, 1000.0, "silence that ends that wait").default("50"),
    Key::whole("driver.rx_ring", "descriptors", 1.0, 4096.0, "RX ring").default("1024"),
    Key::whole("driver.tx_ring", "descriptors", 18.0, 4096.0, "TX ring").default("128"),
    Key::whole("driver.mtu", "B", 576.0, 9000.0, "longest IP packet").default("1500"),
    Key::choice("driver.batch", &["off", "on"], "TAILDESC written once a batch").default("off"),
    Key::choice("driver.rx_align", &["on", "off"], "received IP headers are aligned to four bytes")
        .default("on"),
];
