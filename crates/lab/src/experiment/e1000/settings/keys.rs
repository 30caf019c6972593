//! The keys of an e1000 run.

use crate::config::key::{Is, Key, Needs, settings, words};
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
    Speed { "10" => Self::M10, "100" => Self::M100, "1000" => Self::G1 }
}

/// The CPU keys of a profile that [`crate::config::host::TCP`] does not have.
pub(in crate::experiment::e1000) static CPU: [Key; 19] = [
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

settings! {
    /// The bus of the card.
    pub(in crate::experiment::e1000) struct BusKeys {
        /// what the card is plugged into
        kind: &'static str = "bus.kind", choice(&["pci", "pcix", "pcie"]);
    }
}

settings! {
    /// Settings of PCI and PCI-X. They have defaults, for other buses.
    pub(in crate::experiment::e1000) struct PciKeys {
        /// PCI: 33 or 66; PCI-X: 66, 100 or 133
        clock: u32 = "pci.clock", among("MHz", CLOCKS).default("66").when(PARALLEL);
        /// data in a clock
        width: u32 = "pci.width", among("bits", &[32.0, 64.0]).default("64").when(PARALLEL);
        /// cache line, as configured
        line: u32 = "pci.line", among("B", &[16.0, 32.0, 64.0, 128.0, 256.0]).default("128");
        /// the bridge ends a burst at multiples of this: how far it reads ahead
        boundary: u32 = "pci.boundary", among("B", POWERS).default("512").when(PARALLEL);
        /// how soon a target decodes
        devsel: Devsel = "pci.devsel",
            choice(&["medium", "fast", "slow", "subtractive"]).default("medium").when(PARALLEL);
        /// clocks of a tenure when others want the bus
        latency_timer: Option<u32> = "pci.latency_timer",
            whole("clocks", 16.0, 255.0).or(&["alone"]).default("alone").when(PARALLEL);
        /// Memory Write and Invalidate allowed
        mwi: bool = "pci.mwi", choice(&["on", "off"]).default("on").when(PCI);
        /// PCI: a read is answered with Retry until its data are there
        delayed_reads: bool = "pci.delayed_reads", choice(&["yes", "no"]).default("yes").when(PCI);
        /// PCI-X: maximum memory read byte count
        mmrbc: u32 = "pci.mmrbc",
            among("B", &[512.0, 1024.0, 2048.0, 4096.0]).default("2048").when(PCIX);
        /// PCI-X: split reads under way
        outstanding: u32 = "pci.outstanding",
            among("reads", &[1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0, 32.0]).default("1").when(PCIX);
        /// a read command, beside its clocks
        read_command: Span = "pci.read_command", ns().default("0").when(PARALLEL);
        /// each byte read, beside its clocks
        read_byte: Span = "pci.read_byte", number("ns/B", 0.0, 100.0).default("0").when(PARALLEL);
        /// a write command, beside its clocks
        write_command: Span = "pci.write_command", ns().default("0").when(PARALLEL);
        /// each byte written, beside its clocks
        write_byte: Span = "pci.write_byte", number("ns/B", 0.0, 100.0).default("0").when(PARALLEL);
        /// between CPU and bus, one way
        cpu_latency: Span = "pci.cpu_latency", ns().default("0").when(PARALLEL);
        /// from a write's last data on the bus to memory
        memory_latency: Span = "pci.memory_latency", ns().default("0").when(PARALLEL);
        /// of the device, to answer a register read
        register_latency: Span = "pci.register_latency", ns().default("0").when(PARALLEL);
    }
}

/// Settings of PCI Express.
pub(in crate::experiment::e1000) static PCIE: [Key; 10] = [
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
];

settings! {
    /// Translation of the addresses of the device.
    pub(in crate::experiment::e1000) struct IommuKeys {
        /// how the device's addresses are translated
        kind: &'static str = "iommu.kind", choice(&["identity", "tce"]).default("identity");
        /// TCE: a hypervisor call that writes an entry
        call: Span = "iommu.call", ns().default("0").when(TCE);
        /// TCE: whether a call takes several entries
        multi: bool = "iommu.multi", choice(&["on", "off"]).default("on").when(TCE);
    }
}

settings! {
    /// The controller and its link.
    pub(in crate::experiment::e1000) struct NicKeys {
        /// which controller
        part: Part = "nic.part", choice(&["82545em", "82544gc", "82540em"]);
        /// most packet data that it reads at a time
        max_read: u32 = "nic.max_read", whole("B", 64.0, 16384.0).default("16384");
        /// whether one read of a large send's data goes beyond a segment's end
        read_across: bool = "nic.read_across", choice(&["yes", "no"]).default("yes");
        /// from the end of a packet's data to the next read
        packet_gap: Span = "nic.packet_gap", ns().default("0");
        /// the parts' faults that touch buffers
        errata: bool = "nic.errata", choice(&["on", "off"]).default("on");
        /// what the link partner agrees to
        rate: Speed = "link.rate", among("Mbit/s", &[10.0, 100.0, 1000.0]).default("1000");
        /// of the cable and what is behind it, one way
        delay: Span = "link.delay", ns().default("5000");
    }
}

/// The traffic's kinds.
pub(in crate::experiment::e1000) static KIND: [Key; 1] = [Key::choice(
    "traffic.kind",
    &["send", "receive", "transactions", "pktgen", "pcap"],
    "TCP in bulk, either way; TCP transactions that the machine serves; the packet generator; a \
     capture",
)];

settings! {
    /// Settings of the driver. Defaults are those of Linux.
    pub(in crate::experiment::e1000) struct DriverKeys {
        /// the switch: frames of up to 2 KiB copied to aligned slots
        copy_align: bool = "driver.copy_align", choice(&["off", "on"]);
        /// bytes before a received frame: 2 align its IP header
        rx_align: u32 = "driver.rx_align", among("B", &[0.0, 2.0]).default("2");
        /// receive buffers start at a multiple of this
        rx_buffer_align: u32 = "driver.rx_buffer_align",
            among("B", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]).default("128");
        /// and this many bytes after it
        rx_buffer_offset: u32 = "driver.rx_buffer_offset", whole("B", 0.0, 4095.0).default("0");
        /// receive buffer
        rx_buffer: u32 = "driver.rx_buffer",
            among("B", &[256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0]).default("2048");
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9216.0).default("1500");
        /// shorter frames are copied out of their buffers
        copybreak: u32 = "driver.copybreak", whole("B", 0.0, 256.0).default("256");
        /// InterruptThrottleRate: interrupts a second
        throttle: Option<u32> = "driver.throttle",
            whole("/s", 100.0, 100_000.0)
                .or(&["off", "dynamic", "conservative"])
                .default("conservative");
        /// TX ring, a multiple of 8
        tx_ring: u32 = "driver.tx_ring", whole("descriptors", 48.0, 4096.0).default("256");
        /// RX ring, a multiple of 8
        rx_ring: u32 = "driver.rx_ring", whole("descriptors", 48.0, 4096.0).default("256");
        /// TIDV, in 1.024 us
        tx_delay: u16 = "driver.tx_delay", whole("ticks", 0.0, 65535.0).default("8");
        /// TADV, in 1.024 us
        tx_absolute: u16 = "driver.tx_absolute", whole("ticks", 0.0, 65535.0).default("32");
        /// RDTR, in 1.024 us
        rx_delay: u16 = "driver.rx_delay", whole("ticks", 0.0, 65535.0).default("0");
        /// RADV, in 1.024 us
        rx_absolute: u16 = "driver.rx_absolute", whole("ticks", 0.0, 65535.0).default("8");
        /// TXDCTL.PTHRESH: fetch when fewer are on the chip
        tx_prefetch: u8 = "driver.tx_prefetch", whole("descriptors", 0.0, 63.0).default("0");
        /// TXDCTL.HTHRESH: and so many are in memory
        tx_host: u8 = "driver.tx_host", whole("descriptors", 0.0, 63.0).default("0");
        /// TXDCTL.WTHRESH: write back when so many are done
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
