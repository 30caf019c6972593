//! The keys of an e1000 run.

use crate::key::{Is, Key, Needs};
use crate::settings::{settings, words};
use doorbell_bus::pci::Devsel;
use doorbell_devices::e1000::Speed;
use doorbell_drivers::e1000::Part;
use doorbell_hal::Span;

const CLOCKS: &[f64] = &[33.0, 66.0, 100.0, 133.0];
const POWERS: &[f64] = &[16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PARALLEL: &[Needs] = &[Needs::word("bus.kind", &["pci", "pcix"])];
const PCI: &[Needs] = &[Needs::word("bus.kind", &["pci"])];
const PCIX: &[Needs] = &[Needs::word("bus.kind", &["pcix"])];
const EXPRESS: &[Needs] = &[Needs::word("bus.kind", &["pcie"])];
const TCE: &[Needs] = &[Needs::word("iommu.kind", &["tce"])];
const OWN_RX: &[Needs] = &[Needs::new("driver.rx_prefetch", Is::Number)];

words! {
    Devsel {
        "fast" => Self::Fast, "medium" => Self::Medium, "slow" => Self::Slow,
        "subtractive" => Self::Subtractive,
    }
    Part { "82544gc" => Self::I82544, "82540em" => Self::I82540, "82545em" => Self::I82545 }
    Speed { "10" => Self::M10, "100" => Self::M100, "1000" => Self::M1000 }
}

/// The CPU keys of a profile that [`crate::host::TCP`] does not have.
pub(in crate::e1000) static CPU: [Key; 19] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles("cpu.stack", "one packet passed to the driver: qdisc and the path to it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by the driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed where the device has not"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, without the price of each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "a write of TDT, without the register write itself"),
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
    pub(in crate::e1000) struct BusKeys {
        /// bus of the card
        kind: &'static str = "bus.kind", choice(&["pci", "pcix", "pcie"]);
    }
}

settings! {
    /// Settings of PCI and PCI-X. They have defaults, for other buses.
    pub(in crate::e1000) struct PciKeys {
        /// bus clock; PCI: 33 or 66, PCI-X: 66, 100 or 133
        clock: u32 = "pci.clock", among("MHz", CLOCKS).default("66").when(PARALLEL);
        /// data width of the bus
        width: u32 = "pci.width", among("bits", &[32.0, 64.0]).default("64").when(PARALLEL);
        /// size of a cache line, as configured
        line: u32 = "pci.line", among("B", &[16.0, 32.0, 64.0, 128.0, 256.0]).default("128");
        /// the bridge ends bursts at multiples of this, and reads ahead up to there
        boundary: u32 = "pci.boundary", among("B", POWERS).default("512").when(PARALLEL);
        /// DEVSEL timing of the targets
        devsel: Devsel = "pci.devsel",
            choice(&["medium", "fast", "slow", "subtractive"]).default("medium").when(PARALLEL);
        /// latency timer: clocks that a master keeps the bus when others request it
        latency_timer: Option<u32> = "pci.latency_timer",
            whole("clocks", 16.0, 255.0).or(&["alone"]).default("alone").when(PARALLEL);
        /// masters may use Memory Write and Invalidate
        mwi: bool = "pci.mwi", choice(&["on", "off"]).default("on").when(PCI);
        /// PCI: the bridge answers a read with Retry until its data have arrived
        delayed_reads: bool = "pci.delayed_reads", choice(&["yes", "no"]).default("yes").when(PCI);
        /// PCI-X: maximum memory read byte count
        mmrbc: u32 = "pci.mmrbc",
            among("B", &[512.0, 1024.0, 2048.0, 4096.0]).default("2048").when(PCIX);
        /// PCI-X: maximum number of outstanding split reads
        outstanding: u32 = "pci.outstanding",
            among("reads", &[1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0, 32.0]).default("1").when(PCIX);
        /// time of a read command, in addition to its clocks
        read_command: Span = "pci.read_command", ns().default("0").when(PARALLEL);
        /// time of each byte read, in addition to its clocks
        read_byte: Span = "pci.read_byte", number("ns/B", 0.0, 100.0).default("0").when(PARALLEL);
        /// time of a write command, in addition to its clocks
        write_command: Span = "pci.write_command", ns().default("0").when(PARALLEL);
        /// time of each byte written, in addition to its clocks
        write_byte: Span = "pci.write_byte", number("ns/B", 0.0, 100.0).default("0").when(PARALLEL);
        /// latency between CPU and bus, one way
        cpu_latency: Span = "pci.cpu_latency", ns().default("0").when(PARALLEL);
        /// latency from the last data of a write on the bus to memory
        memory_latency: Span = "pci.memory_latency", ns().default("0").when(PARALLEL);
        /// latency of the device for a register read
        register_latency: Span = "pci.register_latency", ns().default("0").when(PARALLEL);
    }
}

/// Settings of PCI Express.
pub(in crate::e1000) static PCIE: [Key; 11] = [
    Key::whole("pcie.generation", "", 1.0, 5.0, "PCIe: generation").default("1").when(EXPRESS),
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
        "PCIe: where the host splits completions",
    )
    .default("rcb64")
    .when(EXPRESS),
    Key::choice(
        "pcie.gap",
        &["dllp", "completion", "none"],
        "PCIe: symbol times without a TLP: an Ack's and an UpdateFC's for each TLP against it, two \
         behind each completion, or none",
    )
    .default("dllp")
    .when(EXPRESS),
    Key::whole("pcie.tags", "tags", 1.0, 4096.0, "PCIe: read requests of the device under way")
        .default("32")
        .when(EXPRESS),
    Key::choice("pcie.ecrc", &["off", "on"], "PCIe: TLPs carry the optional digest")
        .default("off")
        .when(EXPRESS),
    Key::number("pcie.speed", "", 0.01, 10.0, "PCIe: speed relative to the generation's")
        .default("1")
        .when(EXPRESS),
    Key::ns("pcie.link_latency", "PCIe: latency from the last bit sent to a usable packet")
        .default("150")
        .when(EXPRESS),
    Key::ns("pcie.memory_latency", "PCIe: latency from a read at the root complex to its data")
        .default("250")
        .when(EXPRESS),
];

settings! {
    /// Translation of the addresses of the device.
    pub(in crate::e1000) struct IommuKeys {
        /// translation of the device's addresses
        kind: &'static str = "iommu.kind", choice(&["identity", "tce"]).default("identity");
        /// TCE: time of a hypervisor call that writes an entry
        call: Span = "iommu.call", ns().default("0").when(TCE);
        /// TCE: one call can write several entries
        multi: bool = "iommu.multi", choice(&["on", "off"]).default("on").when(TCE);
    }
}

settings! {
    /// The controller and its link.
    pub(in crate::e1000) struct NicKeys {
        /// model of the controller
        part: Part = "nic.part", choice(&["82545em", "82544gc", "82540em"]);
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
    &["send", "receive", "transactions", "pktgen", "pcap"],
    "TCP in bulk, either way; TCP transactions that the machine serves; the packet generator; a \
     capture",
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
    }
}
