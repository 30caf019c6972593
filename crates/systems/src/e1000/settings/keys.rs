//! The keys of an e1000 run.

use crate::key::{Is, Key, Needs};
use crate::settings::{settings, words};
use crate::{arrivals, card};
use doorbell_devices::e1000::Speed;
use doorbell_drivers::e1000::Part;
use doorbell_hal::Span;

const OWN_RX: &[Needs] = &[Needs::new("driver.rx_prefetch", Is::Number)];
const NEWEST: Needs = Needs::word("nic.part", &["82574l"]);
const MESSAGES: &[Needs] = &[NEWEST];
const QUEUES: &[Needs] = &[NEWEST, Needs::kind(&card::SPREAD_KINDS)];

words! {
    Part {
        "82544gc" => Self::I82544, "82540em" => Self::I82540, "82545em" => Self::I82545,
        "82574l" => Self::I82574,
    }
    Speed { "10" => Self::M10, "100" => Self::M100, "1000" => Self::M1000 }
}

/// The CPU keys of a profile that [`crate::host::TCP`] does not have.
pub(crate) static CPU: [Key; 19] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles("cpu.stack", "one packet passed to the driver: qdisc and the path to it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by the driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed where the device has not"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, without the price of each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "a doorbell, without the register write itself"),
    Key::cycles("cpu.tx_done", "completed packets found, without the price of each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each completed packet"),
    Key::cycles("cpu.rx_post", "a receive buffer given to the device"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and passed up"),
    Key::cycles("cpu.interrupt", "an interrupt handler entered, without its register accesses"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.map", "a buffer mapped, without the cost of the IOMMU"),
    Key::cycles("cpu.mmio_write", "a register write"),
    Key::ns("cpu.mmio_write_spacing", "minimum time between two register writes"),
    Key::cycles("cpu.fence", "a fence"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one iteration of a polling loop"),
];

settings! {
    /// The controller and its link.
    pub(in crate::e1000) struct NicKeys {
        /// model of the controller
        part: Part = "nic.part", choice(&["82545em", "82544gc", "82540em", "82574l"]);
        /// maximum packet data of one read
        max_read: u32 = "nic.max_read", whole("B", 64.0, 16384.0).default("16384");
        /// one read of a large send's data may go beyond the end of a segment
        read_across: bool = "nic.read_across", choice(&["yes", "no"]).default("yes");
        /// the controller has the errata that affect buffers
        errata: bool = "nic.errata", choice(&["on", "off"]).default("on");
        /// rate of the link, as agreed with the partner
        rate: Speed = "link.rate", among("Mbit/s", &[10.0, 100.0, 1000.0]).default("1000");
        /// delay of the cable and what is behind it, one way
        delay: Span = "link.delay", ns().default("5000");
    }
}

/// The traffic's kinds.
pub(in crate::e1000) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["send", "receive", "transactions", arrivals::KIND, "pktgen", "pcap"],
    "TCP in bulk, either way; TCP transactions that the machine serves; frames that arrive in a \
     pattern; the packet generator; a capture",
)];

settings! {
    /// Settings of the driver. Defaults are those of Linux.
    pub(in crate::e1000) struct DriverKeys {
        /// the switch: copy frames of up to 2 KiB to aligned slots
        copy_align: bool = "driver.copy_align", choice(&["off", "on"]);
        /// bytes before a received frame; 2 align its IP header
        rx_align: u32 = "driver.rx_align", among("B", &[0.0, 2.0]).default("2");
        /// alignment of receive buffers
        rx_buffer_align: u32 = "driver.rx_buffer_align",
            among("B", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]).default("128");
        /// offset of receive buffers from that alignment
        rx_buffer_offset: u32 = "driver.rx_buffer_offset", whole("B", 0.0, 4095.0).default("0");
        /// size of a receive buffer
        rx_buffer: u32 = "driver.rx_buffer",
            among("B", &[256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0]).default("2048");
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9216.0).default("1500");
        /// received frames up to this length are copied out of their buffers
        copybreak: u32 = "driver.copybreak", whole("B", 0.0, 256.0).default("256");
        /// InterruptThrottleRate: interrupts a second
        throttle: Option<u32> = "driver.throttle",
            whole("/s", 100.0, 100_000.0)
                .or(&["off", "dynamic", "conservative"])
                .default("conservative");
        /// size of the TX ring, a multiple of 8
        tx_ring: u32 = "driver.tx_ring", whole("descriptors", 48.0, 4096.0).default("256");
        /// size of the RX ring, a multiple of 8
        rx_ring: u32 = "driver.rx_ring", whole("descriptors", 48.0, 4096.0).default("256");
        /// TIDV, in 1.024 us
        tx_delay: u16 = "driver.tx_delay", whole("ticks", 0.0, 65535.0).default("8");
        /// TADV, in 1.024 us
        tx_absolute: u16 = "driver.tx_absolute", whole("ticks", 0.0, 65535.0).default("32");
        /// RDTR, in 1.024 us
        rx_delay: u16 = "driver.rx_delay", whole("ticks", 0.0, 65535.0).default("0");
        /// RADV, in 1.024 us
        rx_absolute: u16 = "driver.rx_absolute", whole("ticks", 0.0, 65535.0).default("8");
        /// TXDCTL.PTHRESH: fetch descriptors when fewer than this are on the chip
        tx_prefetch: u8 = "driver.tx_prefetch", whole("descriptors", 0.0, 63.0).default("0");
        /// TXDCTL.HTHRESH: and at least this many are ready in memory
        tx_host: u8 = "driver.tx_host", whole("descriptors", 0.0, 63.0).default("0");
        /// TXDCTL.WTHRESH: write descriptors back when this many are done
        tx_write_back: Option<u8> = "driver.tx_write_back",
            whole("descriptors", 0.0, 63.0).or(&["part"]).default("part");
        /// RXDCTL.PTHRESH
        rx_prefetch: Option<u8> = "driver.rx_prefetch",
            whole("descriptors", 0.0, 63.0).or(&["part"]).default("part");
        /// RXDCTL.HTHRESH, where rx_prefetch is given
        rx_host: u8 = "driver.rx_host", whole("descriptors", 0.0, 63.0).default("0").when(OWN_RX);
        /// RXDCTL.WTHRESH, where rx_prefetch is given
        rx_write_back: u8 = "driver.rx_write_back",
            whole("descriptors", 0.0, 63.0).default("1").when(OWN_RX);
        /// IntMode of e1000e: messages for frames received, for those sent and for the link; one
        /// message; or the interrupt line
        interrupts: &'static str = "driver.interrupts",
            choice(&["msix", "msi", "line"]).default("msix").when(MESSAGES);
        /// queues, each on a core of its own, for frames that are spread by flow: by the hash of
        /// addresses, and of the ports of TCP
        queues: u16 = "run.cores", whole("cores", 1.0, 2.0).default("1").when(QUEUES);
    }
}
