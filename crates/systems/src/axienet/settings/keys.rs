//! The keys of an axienet run.

use crate::key::{Key, Needs};
use crate::settings::settings;
use doorbell_devices::axi_ethernet::Checksum;
use doorbell_hal::Span;

const TCP: &[Needs] = &[Needs::kind(&["send", "receive", "transactions"])];
const FIXED: &[Needs] = &[Needs::word("driver.controller", &["fixed"])];
const TIMED: &[Needs] = &[Needs::word("driver.controller", &["fixed", "dim", "classes"])];

/// The CPU keys of a profile that [`crate::host::TCP`] does not have.
pub(in crate::axienet) static CPU: [Key; 21] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::whole("cpu.cores", "cores", 2.0, 64.0, "cores of the platform; a run uses two"),
    Key::cycles("cpu.stack", "one packet passed to the driver: qdisc and the path to it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by the driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed where the device has not"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, without the price of each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "a write of TAILDESC, without the register write itself"),
    Key::cycles("cpu.tx_done", "completed packets found, without the price of each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each completed packet"),
    Key::cycles("cpu.rx_post", "a receive buffer given to the device"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and passed up"),
    Key::cycles(
        "cpu.interrupt",
        "an interrupt: handler and path to the poll routine, without register accesses",
    ),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles(
        "cpu.tcp_sleep",
        "an application goes to sleep and its core idles; as much again when it wakes up",
    ),
    Key::cycles("cpu.map", "a buffer mapped: cache maintenance where memory is not coherent"),
    Key::cycles("cpu.mmio_write", "a register write"),
    Key::ns("cpu.mmio_write_spacing", "minimum time between two register writes"),
    Key::cycles("cpu.fence", "a fence"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one iteration of a polling loop"),
];

settings! {
    /// The cores and the link.
    pub(in crate::axienet) struct NicKeys {
        /// clock of the DMA engine and its delay timers
        clock: u32 = "nic.clock", whole("MHz", 1.0, 1000.0);
        /// clocks in a unit of the delay timer; the driver assumes 125
        delay_clocks: u32 = "nic.delay_clocks", whole("clocks", 1.0, 100_000.0);
        /// receive memory of the MAC
        rx_memory: u32 = "nic.rx_memory", whole("KiB", 2.0, 32.0);
        /// transmit memory of the MAC
        tx_memory: u32 = "nic.tx_memory", whole("KiB", 2.0, 32.0);
        /// checksum offload of the core on receive
        rx_checksum: Checksum = "nic.rx_checksum", choice(&["partial", "full", "none"]);
        /// checksum offload of the core on transmit
        tx_checksum: Checksum = "nic.tx_checksum", choice(&["partial", "full", "none"]);
        /// a partial checksum of 0 leaves as 0, which UDP reserves, and not as 0xffff; assumed: no
        /// document says
        tx_zero: bool = "nic.tx_zero", choice(&["on", "off"]).default("off");
        /// rate of the link
        rate: u32 = "link.rate", among("Mbit/s", &[10.0, 100.0, 1000.0]);
        /// delay of the cable and what is behind it, one way
        delay: Span = "link.delay", ns().default("5000");
    }
}

/// The traffic's kinds.
pub(in crate::axienet) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["receive", "send", "transactions", "arrivals", "pktgen", "pcap", "paced"],
    "TCP in bulk, either way; TCP transactions that the machine serves; frames that arrive in a \
     pattern; frames sent; frames at a fixed rate",
)];

settings! {
    /// TCP beside other TCP.
    pub(in crate::axienet) struct BesideKeys {
        /// receive: additional connections with transactions that the machine serves
        beside: u16 = "traffic.beside", whole("connections", 0.0, 64.0).default("0").when(TCP);
        /// TCP: segments that arrive while the application owns the socket are merged (Linux 5.0)
        /// or kept single
        backlog: &'static str = "traffic.backlog",
            choice(&["merged", "single"]).default("merged").when(TCP);
    }
}

settings! {
    /// Settings of the driver. Defaults are those of Linux.
    pub(in crate::axienet) struct DriverKeys {
        /// the switch: net_dim over 4^i packets; `ethtool -C`; net_dim over Linux's CQE table, or
        /// times from link and MTU; e1000's classes; this project's controller
        controller: &'static str = "driver.controller",
            choice(&["dim", "fixed", "dim_cqe", "dim_link", "classes", "trains"]);
        /// fixed: received packets per interrupt
        rx_frames: u32 = "driver.rx_frames", whole("packets", 1.0, 255.0).default("1").when(FIXED);
        /// fixed, dim and classes: idle time after which received packets are signalled
        rx_usecs: u32 = "driver.rx_usecs", whole("us", 0.0, 1000.0).default("16").when(TIMED);
        /// sent packets per interrupt
        tx_frames: u32 = "driver.tx_frames", whole("packets", 1.0, 255.0).default("24");
        /// idle time after which sent packets are signalled
        tx_usecs: u32 = "driver.tx_usecs", whole("us", 0.0, 1000.0).default("50");
        /// size of the RX ring
        rx_ring: u32 = "driver.rx_ring", whole("descriptors", 1.0, 4096.0).default("1024");
        /// size of the TX ring
        tx_ring: u32 = "driver.tx_ring", whole("descriptors", 18.0, 4096.0).default("128");
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9000.0).default("1500");
        /// TAILDESC is written once per batch
        batch: bool = "driver.batch", choice(&["off", "on"]).default("off");
        /// received IP headers are aligned to four bytes
        rx_align: bool = "driver.rx_align", choice(&["on", "off"]).default("on");
    }
}
