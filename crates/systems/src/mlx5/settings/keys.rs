//! The keys of an mlx5 run.
//!
//! Prices of CPU work are in cycles, so that a faster core shortens all of them. Prices of a bus or
//! a device are in ns.

use crate::arrivals;
use crate::closed_loop;
use crate::key::{Key, Needs};
use crate::settings::settings;
use doorbell_drivers::mlx5::{Cqs, Recycling, Sizing};
use doorbell_hal::Span;
use doorbell_layout::mlx5::CompressionLayout;
use doorbell_sim::traffic::arrivals::Program;

/// Each core has an EQ; EQ numbers have 8 bits, and the device keeps the first four.
const MAX_CORES: f64 = 252.0;

const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const CQ_SIZES: &[f64] =
    &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0];

/// The kinds of traffic whose frames come in.
pub(super) const RECEIVE_KINDS: [&str; 4] = [arrivals::KIND, "send", "receive", "transactions"];
const RECEIVE: &[Needs] = &[Needs::kind(&RECEIVE_KINDS)];
const FIXED: &[Needs] = &[Needs::kind(&RECEIVE_KINDS), Needs::word("driver.adaptive_rx", &["off"])];
const BASIC: &[Needs] = &[Needs::word("nic.cqe_compression", &["basic"])];
const COMPRESSED: &[Needs] = &[Needs::word("nic.cqe_compression", &["basic", "enhanced"])];
const STRIDES: &[Needs] = &[Needs::kind(&RECEIVE_KINDS), Needs::word("nic.striding", &["on"])];
const PAGES: &[Needs] = &[
    Needs::kind(&[arrivals::KIND]),
    Needs::word("driver.xdp", &["drop", "read", "tx", "redirect"]),
];
const REDIRECT: &[Needs] =
    &[Needs::kind(&[arrivals::KIND]), Needs::word("driver.xdp", &["redirect"])];
const ARRIVE: &[Needs] = &[Needs::kind(&[arrivals::KIND])];
const LINKED: &[Needs] = &[Needs::kind(&closed_loop::KINDS)];
/// TCP has one channel.
const SPREAD: &[Needs] = &[Needs::kind(&["pktgen", "pcap", arrivals::KIND])];

/// Needs a setup in which packets share a WQE.
const SESSIONS: &[Needs] =
    &[Needs::word("driver.mpwqe", &["on"]), Needs::word("nic.enhanced_mpw", &["on"])];

/// Prices of CPU work, and the cores.
pub(in crate::mlx5) static CPU: [Key; 28] = [
    Key::number("cpu.frequency", "GHz", 0.1, 10.0, "clock of every core"),
    Key::whole("cpu.cores", "cores", 1.0, MAX_CORES, "cores of the platform"),
    Key::choice(
        "cpu.memory",
        &["above_4gib", "below_4gib"],
        "address of host memory; above 4 GiB, the header of a read request is 4 bytes longer",
    ),
    Key::cycles("cpu.stack", "one packet passed to the driver by the layer above it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed").default("0"),
    Key::cycles("cpu.tx_descriptor", "a send WQE for one packet, without its entries"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each data segment of it"),
    Key::cycles("cpu.tx_shared", "a packet added to a session").when(SESSIONS),
    Key::cycles("cpu.tx_session", "a session opened and closed").when(SESSIONS),
    Key::cycles("cpu.tx_pad", "ring space filled with NOPs, without the price of each block"),
    Key::number("cpu.tx_pad_entry", "cycles/entry", 0.0, 1e6, "each block filled with NOPs"),
    Key::cycles("cpu.tx_notify", "a doorbell, without the register write itself"),
    Key::cycles("cpu.tx_done", "completed packets found, without the price of each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each completed packet"),
    Key::cycles("cpu.completion", "a CQE examined"),
    Key::cycles("cpu.rx_post", "a receive buffer given to the device").when(RECEIVE),
    Key::cycles("cpu.rx_packet", "a received packet prepared and passed up").when(RECEIVE),
    Key::cycles("cpu.interrupt", "an interrupt handler entered"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.map", "a buffer mapped for the device"),
    Key::cycles(
        "cpu.cqe_unwritten",
        "the owner bit set in the place of an entry that stands in a block, its first excepted",
    )
    .default("0")
    .when(BASIC),
    Key::cycles(
        "cpu.redirect",
        "a received frame handed to another port; not public: set by hardware.redirect_1024_1",
    )
    .default("191")
    .when(REDIRECT),
    Key::cycles("cpu.mmio_write", "a register write, on the core that makes it"),
    Key::ns("cpu.mmio_write_spacing", "the minimum time between two register writes of one core"),
    Key::cycles("cpu.fence", "a memory barrier"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one iteration of a polling loop"),
];

pub(in crate::mlx5) static PCIE: [Key; 12] = [
    Key::among("pcie.generation", "", &[1.0, 2.0, 3.0, 4.0, 5.0], "PCI Express generation"),
    Key::among("pcie.lanes", "lanes", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "width of the link"),
    Key::among("pcie.mps", "B", PCIE_SIZES, "Max_Payload_Size"),
    Key::among("pcie.mrrs", "B", PCIE_SIZES, "Max_Read_Request_Size"),
    Key::choice(
        "pcie.completions",
        &["merged", "rcb64", "rcb128"],
        "where the host splits the completions of a read: at MPS, or at each 64 or 128 bytes",
    ),
    Key::choice(
        "pcie.gap",
        &["none", "dllp", "completion", "packed"],
        "symbol times without a TLP: none, an Ack's and an UpdateFC's for each TLP against it, two \
         behind each completion, or the former in 8 B each, one for all TLPs between two against \
         them, where the device packs its TLPs, too, with SKP ordered sets",
    ),
    Key::whole("pcie.tags", "tags", 1.0, 4096.0, "read requests of the device under way at once"),
    Key::choice("pcie.ecrc", &["on", "off"], "TLPs carry the optional digest"),
    Key::number("pcie.speed", "", 0.01, 10.0, "speed of the link relative to its generation's")
        .default("1"),
    Key::ns("pcie.link_latency", "latency from the last bit sent to a usable packet, one way"),
    Key::ns("pcie.memory_latency", "latency from a read request at the root complex to its data"),
    Key::choice(
        "pcie.bar",
        &["above_4gib", "below_4gib"],
        "address of the registers; above 4 GiB, the header of a doorbell is 4 bytes longer",
    ),
];

settings! {
    pub(in crate::mlx5) struct NicKeys {
        /// maximum size of a read of WQEs
        fetch_chunk: u32 = "nic.fetch_chunk", steps("B", (64.0, 4096.0, 64.0));
        /// maximum size of WQEs fetched and not yet executed, over all queues
        fetch_ahead: u32 = "nic.fetch_ahead", steps("B", (64.0, 1_048_576.0, 64.0));
        /// a WQE that crosses the end of a chunk is read again from its start
        refetch: bool = "nic.refetch", choice(&["no", "yes"]);
        /// minimum time between the starts of two packets
        packet_time: Span = "nic.packet_time", ns();
        /// time from a packet's last byte on the chip to its first bit on the wire
        pipeline_delay: Span = "nic.pipeline_delay", ns();
        /// rate of the Ethernet port
        port_rate: f64 = "nic.port_rate", number("Gbit/s", 0.01, 1000.0);
        /// largest frame, without FCS
        max_frame: u32 = "nic.max_frame", steps("B", (60.0, 16384.0, 1.0));
        /// capability: multi-packet WQEs
        enhanced_mpw: bool = "nic.enhanced_mpw", choice(&["on", "off"]);
        /// headers that a WQE must carry inline
        min_inline: &'static str = "nic.min_inline", choice(&["none", "l2", "ip", "tcp_udp"]);
        /// capabilities striding_rq, umr_ptr_rlky and reg_umr_sq: receive WQEs that frames share
        striding: bool = "nic.striding", choice(&["off", "on"]).default("off");
        /// capability cqe_compression, and the layout of its blocks
        compression: Option<CompressionLayout> = "nic.cqe_compression",
            choice(&["off", "basic", "enhanced"]).default("off");
        /// writes of received data on their way from which CQEs are compressed; not public: chosen
        /// by hardware.block_share
        cqe_pressure: u16 = "nic.cqe_pressure",
            whole("writes", 0.0, 4096.0).default("32").when(COMPRESSED);
        /// maximum time that the first CQE of a block waits; assumed: not public
        cqe_wait: Span = "nic.cqe_wait", ns().default("1000").when(COMPRESSED);
        /// maximum size of a block of compressed CQEs; not public: chosen by hardware.block_length
        cqe_most: u16 = "nic.cqe_most", whole("CQEs", 2.0, 64.0).default("6").when(COMPRESSED);
        /// capability max_wqe_sz_sq: the longest send WQE
        max_wqe: u16 = "nic.max_wqe", among("B", &[64.0, 128.0, 256.0, 512.0, 1024.0]);
        /// capability max_lso_cap: the largest large send's payload; 0: no LSO
        max_lso: f64 = "nic.max_lso", among("KiB", &[0.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        /// received frames on the chip, of all queues; assumed: not public
        rx_fifo: u32 = "nic.rx_fifo", whole("KiB", 16.0, 65536.0).default("512").when(RECEIVE);
        /// maximum size of a read of receive WQEs; assumed: not public
        rx_fetch_chunk: u32 = "nic.rx_fetch_chunk",
            steps("B", (64.0, 4096.0, 64.0)).default("256").when(RECEIVE);
        /// delay of the cable and what is behind it, one way
        delay: Span = "link.delay", ns().default("5000").when(LINKED);
        /// maximum number of writes of received data that have not arrived, behind which reads
        /// wait; not public: chosen by hardware.tx_256_5 and tx_256_6
        writes_outstanding: u16 = "nic.rx_writes",
            whole("writes", 1.0, 4096.0).default("64").when(RECEIVE);
    }
}

/// The traffic's kinds.
pub(in crate::mlx5) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["pktgen", "pcap", arrivals::KIND, "send", "receive", "transactions"],
    "the packet generator; a capture; frames that arrive in a pattern and are dropped where the \
     driver hands them up; TCP in bulk, either way; TCP transactions that the machine serves",
)];

settings! {
    /// Settings of the receive queues. Defaults are those of Linux.
    pub(in crate::mlx5) struct ReceiveKeys {
        /// size of a receive queue
        ring: f64 = "driver.rx_ring",
            among("WQEs", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])
                .default("1024")
                .when(RECEIVE);
        /// receive WQEs that frames share, where the device has them
        striding: bool = "driver.striding", choice(&["on", "off"]).default("on").when(STRIDES);
        /// the device compresses CQEs, where it can
        compression: bool = "driver.rx_cqe_compress",
            choice(&["on", "off"]).default("on").when(COMPRESSED);
        /// order in which pages are received into again: that in which they came back (Linux 5.10),
        /// or the latest first (page_pool, Linux since 6.4); or buffers of DPDK, the latest first,
        /// 2368 B from each other
        recycling: Recycling = "driver.rx_recycling",
            choice(&["cache", "pool", "mempool"]).default("cache").when(PAGES);
        /// receive WQEs posted at a time; Linux 5.10 has 8, since 6.4 up to a quarter of the queue
        bulk: u16 = "driver.rx_bulk", whole("WQEs", 1.0, 2048.0).default("8").when(RECEIVE);
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9216.0).default("1500").when(RECEIVE);
        /// the last write of a frame goes on to the end of its cache line, which Linux asks for
        padding: bool = "driver.rx_padding", choice(&["on", "off"]).default("on").when(RECEIVE);
        /// arrivals: a program at the driver (XDP), which has a page for each frame: it drops
        /// frames (XDP_DROP), reads their addresses first, sends them back (XDP_TX), or has them
        /// leave at the second port of the card (XDP_REDIRECT)
        xdp: Option<Program> = "driver.xdp",
            choice(&["off", "drop", "read", "tx", "redirect"]).default("off").when(ARRIVE);
        /// receive, event moderation: net_dim chooses it (ethtool -C adaptive-rx, on in Linux), for
        /// a period that begins with an event's first CQE
        adaptive: bool = "driver.adaptive_rx", choice(&["off", "on"]).default("off").when(RECEIVE);
        /// receive, event moderation: maximum time until an event
        period: u16 = "driver.rx_moderation_period",
            steps("us", (0.0, 4095.0, 1.0)).default("16").when(FIXED);
        /// receive, event moderation: number of completions until an event
        count: u16 = "driver.rx_moderation_count",
            whole("CQEs", 0.0, 65535.0).default("32").when(FIXED);
    }
}

settings! {
    /// Settings of the driver's queues. Defaults are those of Linux, where it has them.
    pub(in crate::mlx5) struct QueueKeys {
        /// the switch: ethtool --set-priv-flags skb_tx_mpwqe, or xdp_tx_mpwqe for frames that a
        /// program sends
        mpwqe: bool = "driver.mpwqe", choice(&["on", "off"]).default("on");
        /// size of a session: padded to the maximum (Linux 5.10), or fit to the rest of a page
        sizing: Sizing = "driver.sizing",
            choice(&["padded", "fit"]).default("padded").when(SESSIONS);
        /// size of the send queue
        queue: f64 = "driver.queue",
            among("blocks", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0])
                .default("1024");
        /// size of the completion queue
        cq: f64 = "driver.cq",
            among("CQEs", CQ_SIZES)
                .default("1024");
        /// completion queues that a channel arms at the end of a poll: the send queue's alone; with
        /// receive and internal operations (newest Linux); with XDP and asynchronous operations too
        /// (Linux 5.10)
        armed_cqs: Cqs = "driver.armed_cqs", among("CQs", &[1.0, 3.0, 5.0]).default("5");
    }
}

settings! {
    /// Settings of the driver's events and of the run. Defaults are those of Linux.
    pub(in crate::mlx5) struct RunKeys {
        /// event moderation: maximum time until an event
        moderation_period: u16 = "driver.moderation_period",
            steps("us", (0.0, 4095.0, 1.0)).default("16");
        /// event moderation: number of completions until an event
        moderation_count: u16 = "driver.moderation_count",
            whole("CQEs", 0.0, 65535.0).default("32");
        /// number of cores that send, or receive; the frames of a capture are spread over them by
        /// flow
        cores: Option<u16> = "run.cores",
            whole("cores", 1.0, MAX_CORES).or(&["all"]).default("all").when(SPREAD);
    }
}
