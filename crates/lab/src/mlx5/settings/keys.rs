//! The keys of an mlx5 run.
//!
//! Prices of CPU work are in cycles, so that a faster core makes all of them
//! shorter; what a bus or a device takes is in nanoseconds.

use crate::key::{Key, Needs};

/// Each core has an EQ; EQ numbers have 8 bits, and the device keeps the first four.
const MAX_CORES: f64 = 252.0;

const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PKTGEN: &[Needs] = &[Needs::kind(&["pktgen"])];
/// Packets share a WQE.
const SESSIONS: &[Needs] =
    &[Needs::word("driver.mpwqe", &["on"]), Needs::word("nic.enhanced_mpw", &["on"])];

/// What a profile says.
pub(in crate::mlx5) static PLATFORM: [Key; 47] = [
    Key::number("cpu.frequency", "GHz", 0.1, 10.0, "clock of every core"),
    Key::whole("cpu.cores", "cores", 1.0, MAX_CORES, "cores there are"),
    Key::choice(
        "cpu.memory",
        &["above_4gib", "below_4gib"],
        "where host memory lies: above, a read request's header is 4 bytes longer",
    ),
    Key::cycles("cpu.stack", "one packet handed to the driver by what is above it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed").default("0"),
    Key::cycles("cpu.tx_descriptor", "a send WQE for one packet, beside its entries"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each data segment of it"),
    Key::cycles("cpu.tx_shared", "a packet added to a session").when(SESSIONS),
    Key::cycles("cpu.tx_session", "a session opened and closed").when(SESSIONS),
    Key::cycles("cpu.tx_pad", "ring space filled with NOPs, beside its blocks"),
    Key::number("cpu.tx_pad_entry", "cycles/entry", 0.0, 1e6, "each block of it"),
    Key::cycles("cpu.tx_notify", "a doorbell, without the register write itself"),
    Key::cycles("cpu.tx_done", "packets found sent, beside each packet"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each packet of them"),
    Key::cycles("cpu.completion", "a CQE examined"),
    Key::cycles("cpu.interrupt", "an interrupt handler entered"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.map", "a buffer mapped for the device"),
    Key::cycles("cpu.mmio_write", "a register write, for the core that makes it"),
    Key::ns("cpu.mmio_write_spacing", "the least time between two register writes of one core"),
    Key::cycles("cpu.fence", "a memory barrier"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one turn of a polling loop"),
    Key::among("pcie.generation", "", &[1.0, 2.0, 3.0, 4.0, 5.0], "PCI Express generation"),
    Key::among("pcie.lanes", "lanes", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "width of the link"),
    Key::among("pcie.mps", "B", PCIE_SIZES, "Max_Payload_Size"),
    Key::among("pcie.mrrs", "B", PCIE_SIZES, "Max_Read_Request_Size"),
    Key::choice(
        "pcie.completions",
        &["merged", "rcb64", "rcb128"],
        "how the host cuts the completions of a read: at MPS, or at each 64 or 128 bytes",
    ),
    Key::choice(
        "pcie.dllp",
        &["none", "per_request", "timer", "flat"],
        "which Acks and UpdateFCs are booked",
    ),
    Key::choice("pcie.ecrc", &["on", "off"], "whether TLPs carry the optional digest"),
    Key::number(
        "pcie.usable_share",
        "",
        0.01,
        1.0,
        "share of the link's byte rate that traffic can use",
    ),
    Key::ns("pcie.link_latency", "from the last bit sent to the packet being usable, one way"),
    Key::ns("pcie.memory_latency", "from a read request at the root complex to its data"),
    Key::choice(
        "pcie.bar",
        &["above_4gib", "below_4gib"],
        "where the registers lie: above, a doorbell's header is 4 bytes longer",
    ),
    Key::steps("nic.fetch_chunk", "B", (64.0, 4096.0, 64.0), "largest read of WQEs"),
    Key::steps(
        "nic.fetch_ahead",
        "B",
        (64.0, 1_048_576.0, 64.0),
        "WQEs fetched and not yet executed, over all queues",
    ),
    Key::choice(
        "nic.refetch",
        &["no", "yes"],
        "whether a WQE cut by the end of a chunk is read again from its start",
    ),
    Key::whole("nic.reads_outstanding", "reads", 1.0, 4096.0, "data reads in flight at the most"),
    Key::ns("nic.packet_time", "least time between two packets' starts of execution"),
    Key::ns("nic.pipeline_delay", "from a packet's last byte on chip to its first bit on the wire"),
    Key::number("nic.port_rate", "Gbit/s", 0.01, 1000.0, "rate of the Ethernet port"),
    Key::steps("nic.max_frame", "B", (60.0, 16384.0, 1.0), "largest frame, without FCS"),
    Key::choice("nic.enhanced_mpw", &["on", "off"], "capability: multi-packet WQEs"),
    Key::choice(
        "nic.min_inline",
        &["none", "l2", "ip", "tcp_udp"],
        "headers that a WQE must carry inline",
    ),
    Key::among(
        "nic.max_wqe",
        "B",
        &[64.0, 128.0, 256.0, 512.0, 1024.0],
        "capability max_wqe_sz_sq: the longest send WQE",
    ),
    Key::among(
        "nic.max_lso",
        "KiB",
        &[0.0, 16.0, 32.0, 64.0, 128.0, 256.0],
        "capability max_lso_cap: the largest large send's payload; 0: no LSO",
    ),
];

/// What is sent.
pub(in crate::mlx5) static KIND: [Key; 1] =
    [Key::choice("traffic.kind", &["pktgen", "pcap"], "the packet generator, or a capture")];

/// What a scenario says beside its traffic. Defaults are Linux's where it has them.
pub(in crate::mlx5) static RUN: [Key; 9] = [
    Key::choice("driver.mpwqe", &["on", "off"], "the switch: ethtool --set-priv-flags skb_tx_mpwqe").default("on"),
    Key::choice(
        "driver.sizing",
        &["padded", "fit"],
        "sessions padded to their longest (linux 5.10), or fit to what is left of a page",
    )
    .default("padded")
    .when(SESSIONS),
    Key::among("driver.queue", "blocks", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0], "send queue")
        .default("1024"),
    Key::among(
        "driver.cq",
        "CQEs",
        &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0],
        "completion queue",
    )
    .default("1024"),
    Key::among(
        "driver.armed_cqs",
        "CQs",
        &[1.0, 3.0, 5.0],
        "completion queues of a channel, all armed when a poll ends: the send queue's alone; with receive and internal \
         operations (newest Linux); with XDP and asynchronous operations too (linux 5.10)",
    )
    .default("5"),
    crate::bql::KEY,
    Key::steps("driver.moderation_period", "us", (0.0, 4095.0, 1.0), "an event waits for this long").default("16"),
    Key::whole("driver.moderation_count", "CQEs", 0.0, 65535.0, "or for so many completions").default("32"),
    Key::whole("run.cores", "cores", 1.0, MAX_CORES, "cores that send; a capture goes through one")
        .or(&["all"])
        .default("all")
        .when(PKTGEN),
];
