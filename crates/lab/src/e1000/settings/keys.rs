//! The keys of an e1000 run.

use crate::key::{Is, Key, Needs};

const CLOCKS: &[f64] = &[33.0, 66.0, 100.0, 133.0];
const POWERS: &[f64] = &[16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PARALLEL: &[Needs] = &[Needs::word("bus.kind", &["pci", "pcix"])];
const PCI: &[Needs] = &[Needs::word("bus.kind", &["pci"])];
const PCIX: &[Needs] = &[Needs::word("bus.kind", &["pcix"])];
const EXPRESS: &[Needs] = &[Needs::word("bus.kind", &["pcie"])];
const TCE: &[Needs] = &[Needs::word("iommu.kind", &["tce"])];
const OWN_RX: &[Needs] = &[Needs::new("driver.rx_prefetch", Is::Number)];

/// What a profile says of its CPU; [`crate::cpu::TCP`] has the rest.
pub(in crate::e1000) static CPU: [Key; 19] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles("cpu.stack", "one packet handed to the driver: qdisc and the way there"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by the driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed where the device has not"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, beside each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "a write of TDT, without the register write itself"),
    Key::cycles("cpu.tx_done", "packets found sent, beside each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each packet of them"),
    Key::cycles("cpu.rx_post", "a receive buffer given to the device"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and handed up"),
    Key::cycles("cpu.interrupt", "an interrupt handler entered, without its register accesses"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.map", "a buffer mapped, beside what the I/O MMU asks"),
    Key::cycles("cpu.mmio_write", "a register write"),
    Key::ns("cpu.mmio_write_spacing", "least time between two register writes"),
    Key::cycles("cpu.fence", "a fence"),
    Key::cycles("cpu.relax", "a turn of a polling loop"),
];

/// What a profile says of its bus. What another kind of bus needs has a default.
pub(in crate::e1000) static BUS: [Key; 31] = [
    Key::choice("bus.kind", &["pci", "pcix", "pcie"], "what the card is plugged into"),
    Key::among("pci.clock", "MHz", CLOCKS, "PCI: 33 or 66; PCI-X: 66, 100 or 133")
        .default("66")
        .when(PARALLEL),
    Key::among("pci.width", "bits", &[32.0, 64.0], "data in a clock").default("64").when(PARALLEL),
    Key::among("pci.line", "B", &[16.0, 32.0, 64.0, 128.0, 256.0], "cache line, as configured")
        .default("128"),
    Key::among(
        "pci.boundary",
        "B",
        POWERS,
        "the bridge ends a burst at multiples of this: how far it reads ahead",
    )
    .default("512")
    .when(PARALLEL),
    Key::choice(
        "pci.devsel",
        &["medium", "fast", "slow", "subtractive"],
        "how soon a target decodes",
    )
    .default("medium")
    .when(PARALLEL),
    Key::whole(
        "pci.latency_timer",
        "clocks",
        16.0,
        255.0,
        "clocks of a tenure when others want the bus",
    )
    .or(&["alone"])
    .default("alone")
    .when(PARALLEL),
    Key::choice("pci.mwi", &["on", "off"], "Memory Write and Invalidate allowed")
        .default("on")
        .when(PCI),
    Key::choice(
        "pci.delayed_reads",
        &["yes", "no"],
        "PCI: a read is answered with Retry until its data are there",
    )
    .default("yes")
    .when(PCI),
    Key::among(
        "pci.mmrbc",
        "B",
        &[512.0, 1024.0, 2048.0, 4096.0],
        "PCI-X: maximum memory read byte count",
    )
    .default("2048")
    .when(PCIX),
    Key::among(
        "pci.outstanding",
        "reads",
        &[1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0, 32.0],
        "PCI-X: split reads under way",
    )
    .default("1")
    .when(PCIX),
    Key::ns("pci.read_command", "a read command, beside its clocks").default("0").when(PARALLEL),
    Key::number("pci.read_byte", "ns/B", 0.0, 100.0, "each byte read, beside its clocks")
        .default("0")
        .when(PARALLEL),
    Key::ns("pci.write_command", "a write command, beside its clocks").default("0").when(PARALLEL),
    Key::number("pci.write_byte", "ns/B", 0.0, 100.0, "each byte written, beside its clocks")
        .default("0")
        .when(PARALLEL),
    Key::ns("pci.cpu_latency", "between CPU and bus, one way").default("0").when(PARALLEL),
    Key::ns("pci.memory_latency", "from a write's last data on the bus to memory")
        .default("0")
        .when(PARALLEL),
    Key::ns("pci.register_latency", "of the device, to answer a register read")
        .default("0")
        .when(PARALLEL),
    Key::whole("pcie.generation", "", 1.0, 5.0, "PCIe: 1 to 5").default("1").when(EXPRESS),
    Key::among("pcie.lanes", "lanes", &[1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 32.0], "PCIe: width")
        .default("1")
        .when(EXPRESS),
    Key::among("pcie.mps", "B", PCIE_SIZES, "PCIe: maximum payload size")
        .default("128")
        .when(EXPRESS),
    Key::among("pcie.mrrs", "B", PCIE_SIZES, "PCIe: maximum read request size")
        .default("512")
        .when(EXPRESS),
    Key::choice(
        "pcie.completions",
        &["rcb64", "rcb128", "merged"],
        "PCIe: where the host cuts completions",
    )
    .default("rcb64")
    .when(EXPRESS),
    Key::choice(
        "pcie.dllp",
        &["per_request", "none", "timer", "flat"],
        "PCIe: which Acks and UpdateFCs are booked",
    )
    .default("per_request")
    .when(EXPRESS),
    Key::choice("pcie.ecrc", &["off", "on"], "PCIe: whether TLPs carry the optional digest")
        .default("off")
        .when(EXPRESS),
    Key::number("pcie.usable_share", "", 0.01, 1.0, "PCIe: share of the link that traffic can use")
        .default("1")
        .when(EXPRESS),
    Key::ns("pcie.link_latency", "PCIe: from the last bit sent to the packet being usable")
        .default("150")
        .when(EXPRESS),
    Key::ns("pcie.memory_latency", "PCIe: from a read request at the root complex to its data")
        .default("250")
        .when(EXPRESS),
    Key::choice("iommu.kind", &["identity", "tce"], "how the device's addresses are translated")
        .default("identity"),
    Key::ns("iommu.call", "TCE: a hypervisor call that writes an entry").default("0").when(TCE),
    Key::choice("iommu.multi", &["on", "off"], "TCE: whether a call takes several entries")
        .default("on")
        .when(TCE),
];

/// What a profile says of the controller and its link.
pub(in crate::e1000) static NIC: [Key; 7] = [
    Key::choice("nic.part", &["82545em", "82544gc", "82540em"], "which controller"),
    Key::whole("nic.max_read", "B", 64.0, 16384.0, "most packet data that it reads at a time")
        .default("16384"),
    Key::choice(
        "nic.read_across",
        &["yes", "no"],
        "whether one read of a large send's data goes beyond a segment's end",
    )
    .default("yes"),
    Key::ns("nic.packet_gap", "from the end of a packet's data to the next read").default("0"),
    Key::choice("nic.errata", &["on", "off"], "the parts' faults that touch buffers").default("on"),
    Key::among("link.rate", "Mbit/s", &[10.0, 100.0, 1000.0], "what the link partner agrees to")
        .default("1000"),
    Key::ns("link.delay", "of the cable and what is behind it, one way").default("5000"),
];

/// What is sent or received.
pub(in crate::e1000) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["send", "receive", "transactions", "pktgen", "pcap"],
    "TCP in bulk, either way; TCP transactions that the machine serves; the packet generator; a capture",
)];

const fn threshold(name: &'static str, about: &'static str) -> Key {
    Key::whole(name, "descriptors", 0.0, 63.0, about)
}

/// What a scenario says of the driver. Defaults are Linux's.
pub(in crate::e1000) static DRIVER: [Key; 20] = [
    Key::choice(
        "driver.copy_align",
        &["off", "on"],
        "the switch: frames of up to 2 KiB copied to aligned slots",
    ),
    Key::among(
        "driver.rx_align",
        "B",
        &[0.0, 2.0],
        "bytes before a received frame: 2 align its IP header",
    )
    .default("2"),
    Key::among(
        "driver.rx_buffer_align",
        "B",
        &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0],
        "receive buffers start at a multiple of this",
    )
    .default("128"),
    Key::whole("driver.rx_buffer_offset", "B", 0.0, 4095.0, "and this many bytes after it")
        .default("0"),
    Key::among(
        "driver.rx_buffer",
        "B",
        &[256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0],
        "receive buffer",
    )
    .default("2048"),
    Key::whole("driver.mtu", "B", 576.0, 9216.0, "longest IP packet").default("1500"),
    Key::whole(
        "driver.copybreak",
        "B",
        0.0,
        256.0,
        "shorter frames are copied out of their buffers",
    )
    .default("256"),
    Key::whole(
        "driver.throttle",
        "/s",
        100.0,
        100_000.0,
        "InterruptThrottleRate: interrupts a second",
    )
    .or(&["off", "dynamic", "conservative"])
    .default("conservative"),
    Key::whole("driver.tx_ring", "descriptors", 48.0, 4096.0, "TX ring, a multiple of 8")
        .default("256"),
    Key::whole("driver.rx_ring", "descriptors", 48.0, 4096.0, "RX ring, a multiple of 8")
        .default("256"),
    Key::whole("driver.tx_delay", "ticks", 0.0, 65535.0, "TIDV, in 1.024 us").default("8"),
    Key::whole("driver.tx_absolute", "ticks", 0.0, 65535.0, "TADV, in 1.024 us").default("32"),
    Key::whole("driver.rx_delay", "ticks", 0.0, 65535.0, "RDTR, in 1.024 us").default("0"),
    Key::whole("driver.rx_absolute", "ticks", 0.0, 65535.0, "RADV, in 1.024 us").default("8"),
    threshold("driver.tx_prefetch", "TXDCTL.PTHRESH: fetch when fewer are on the chip")
        .default("0"),
    threshold("driver.tx_host", "TXDCTL.HTHRESH: and so many are in memory").default("0"),
    threshold("driver.tx_write_back", "TXDCTL.WTHRESH: write back when so many are done")
        .or(&["part"])
        .default("part"),
    threshold("driver.rx_prefetch", "RXDCTL.PTHRESH").or(&["part"]).default("part"),
    threshold("driver.rx_host", "RXDCTL.HTHRESH, where rx_prefetch is given")
        .default("0")
        .when(OWN_RX),
    threshold("driver.rx_write_back", "RXDCTL.WTHRESH, where rx_prefetch is given")
        .default("1")
        .when(OWN_RX),
];
