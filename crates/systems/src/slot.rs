//! The slot of a card on PCI, PCI-X or PCI Express, and the translation of its addresses: keys,
//! rules and latencies.

use crate::SettingError;
use crate::host;
use crate::key::{Key, Needs, Values};
use crate::limits::Resource;
use crate::limits::Wider::{Less, More};
use crate::metrics::Metric;
use crate::settings::{settings, words};
use crate::system::{Transferred, pcie_transfer};
use doorbell_bus::pci::{Devsel, Latencies, Protocol, Settings};
use doorbell_bus::pcie::Operation;
use doorbell_bus::tce::{Prices, Window};
use doorbell_bus::{Price, pci, pcie};
use doorbell_hal::Span;

const CLOCKS: &[f64] = &[33.0, 66.0, 100.0, 133.0];
const POWERS: &[f64] = &[16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PARALLEL: &[Needs] = &[Needs::word("bus.kind", &["pci", "pcix"])];
const PCI: &[Needs] = &[Needs::word("bus.kind", &["pci"])];
const PCIX: &[Needs] = &[Needs::word("bus.kind", &["pcix"])];
const EXPRESS: &[Needs] = &[Needs::word("bus.kind", &["pcie"])];
const TCE: &[Needs] = &[Needs::word("iommu.kind", &["tce"])];

words! {
    Devsel {
        "fast" => Self::Fast, "medium" => Self::Medium, "slow" => Self::Slow,
        "subtractive" => Self::Subtractive,
    }
}

settings! {
    pub(crate) struct BusKeys {
        /// bus of the card
        kind: &'static str = "bus.kind", choice(&["pci", "pcix", "pcie"]);
    }
}

settings! {
    /// Settings of PCI and PCI-X. They have defaults, for other buses.
    pub(crate) struct PciKeys {
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
pub(crate) static PCIE: [Key; 11] = [
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
    pub(crate) struct IommuKeys {
        /// translation of the device's addresses
        kind: &'static str = "iommu.kind", choice(&["identity", "tce"]).default("identity");
        /// TCE: time of a hypervisor call that writes an entry
        call: Span = "iommu.call", ns().default("0").when(TCE);
        /// TCE: one call can write several entries
        multi: bool = "iommu.multi", choice(&["on", "off"]).default("on").when(TCE);
    }
}

/// The slot of the card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slot {
    /// Conventional PCI or PCI-X.
    Parallel(pci::Settings, pci::Latencies),
    /// PCI Express.
    Express(pcie::Settings, pcie::Latencies),
}

impl Slot {
    /// Reads the slot, and the window of translation if there is one.
    ///
    /// # Errors
    /// Values that are allowed each, but not together.
    pub(crate) fn of(v: &Values) -> Result<(Slot, Option<Window>), SettingError> {
        let (p, i) = (PciKeys::of(v), IommuKeys::of(v));
        let slot = if BusKeys::of(v).kind == "pcie" {
            let (settings, latencies) = host::pcie(v);
            Slot::Express(settings, latencies)
        } else {
            let settings = pci(v);
            pci::Rules::new(settings).map_err(host::refused)?;
            let (cpu, memory, register) = (p.cpu_latency, p.memory_latency, p.register_latency);
            Slot::Parallel(settings, Latencies { cpu, memory, register })
        };
        let prices = Prices { put: i.call, put_indirect: i.call, stuff: i.call, entry: Span::ZERO };
        let (base, pages, multi) = (1 << 28, 1 << 16, i.multi);
        Ok((slot, (i.kind == "tce").then_some(Window { base, pages, multi, prices })))
    }
}

/// Reads the settings of the bus alone, if it is PCI or PCI-X.
pub fn pci(v: &Values) -> Settings {
    let p = PciKeys::of(v);
    Settings {
        protocol: if BusKeys::of(v).kind == "pcix" {
            Protocol::X { mmrbc: p.mmrbc, outstanding: p.outstanding }
        } else {
            Protocol::Conventional { delayed: p.delayed_reads }
        },
        mhz: p.clock,
        bits: p.width,
        line: p.line,
        boundary: p.boundary,
        devsel: p.devsel,
        latency_timer: p.latency_timer,
        mwi: p.mwi,
        read: Price { each: p.read_command, per_unit: p.read_byte },
        write: Price { each: p.write_command, per_unit: p.write_byte },
    }
}

/// Lists the bus transactions of a transfer.
pub(crate) fn transfer(v: &Values, op: Operation, at: u64, bytes: u32) -> Transferred {
    if v.word("bus.kind") == "pcie" {
        return pcie_transfer(v, op, at, bytes);
    }
    let rules = pci::Rules::new(pci(v)).map_err(host::refused)?;
    Ok(Box::new(pci::transactions(&rules, op, at, bytes).map(Into::into)))
}

/// The use of a PCI or PCI-X bus.
pub(crate) const BUS_BUSY: Metric = Metric::busy("bus_busy_share", "of the bus's clocks");

/// The bus of a card on PCI or PCI-X.
pub(crate) const BUS: Resource = Resource {
    name: "bus",
    shares: &["bus_busy_share"],
    keys: &[
        ("pci.clock", More),
        ("pci.read_command", Less),
        ("pci.read_byte", Less),
        ("pci.write_command", Less),
        ("pci.write_byte", Less),
    ],
};
/// The latencies of all kinds of slots.
pub(crate) const LATENCY: Resource = Resource {
    name: "latency",
    shares: &[],
    keys: &[
        ("pci.cpu_latency", Less),
        ("pci.memory_latency", Less),
        ("pci.register_latency", Less),
        ("pcie.link_latency", Less),
        ("pcie.memory_latency", Less),
    ],
};
