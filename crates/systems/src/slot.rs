//! The slot of a card on PCI, PCI-X, PCI Express or AXI, and the translation of its addresses:
//! keys, rules and latencies.

use crate::SettingError;
use crate::host;
use crate::key::{Key, Needs, Values};
use crate::limits::Resource;
use crate::limits::Wider::{Less, More};
use crate::metrics::Metric;
use crate::run::RunStats;
use crate::settings::{settings, words};
use crate::system::{Transaction, Transferred, pcie_transfer};
use doorbell_bus::pci::{Devsel, Latencies, Protocol, Settings};
use doorbell_bus::pcie::Operation;
use doorbell_bus::tce::{Prices, Window};
use doorbell_bus::{Price, axi, pci, pcie};
use doorbell_hal::Span;

const CLOCKS: &[f64] = &[33.0, 66.0, 100.0, 133.0];
const POWERS: &[f64] = &[16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];
const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

const PARALLEL: &[Needs] = &[Needs::word("bus.kind", &["pci", "pcix"])];
const PCI: &[Needs] = &[Needs::word("bus.kind", &["pci"])];
const PCIX: &[Needs] = &[Needs::word("bus.kind", &["pcix"])];
const AXI_ONLY: &[Needs] = &[Needs::word("bus.kind", &["axi"])];
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

/// The bus of any card: also one in programmable logic.
pub(crate) static KIND: [Key; 1] = [BusKeys::KEYS[0].or(&["pci", "pcix", "pcie", "axi"])];

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
    /// Settings of AXI, for a system that has no other bus.
    pub(crate) struct AxiKeys {
        /// protocol; AXI4 has bursts of up to 256 beats, AXI3 of 16
        protocol: &'static str = "axi.protocol", choice(&["axi4", "axi3"]);
        /// clock of the bus
        clock: u32 = "axi.clock", whole("MHz", 1.0, 1000.0);
        /// data width of the bus
        width: u32 = "axi.width", among("bits", &[32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]);
        /// longest burst of the DMA engine
        burst: u32 = "axi.burst", among("beats", &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        /// maximum number of outstanding reads
        reads: u32 = "axi.reads", whole("bursts", 1.0, 32.0);
        /// maximum number of outstanding writes
        writes: u32 = "axi.writes", whole("bursts", 1.0, 32.0);
        /// time of a register access in its slave
        lite_clocks: u32 = "axi.lite_clocks", whole("clocks", 1.0, 255.0);
        /// latency from the address of a read to its first data
        read_latency: Span = "axi.read_latency", ns();
        /// latency from the last data of a write to its response
        write_latency: Span = "axi.write_latency", ns();
        /// latency between CPU and registers, one way
        cpu_latency: Span = "axi.cpu_latency", ns();
    }
}

/// The same for a system with other buses. Defaults are those of a Zynq UltraScale+
/// ([`axi::Settings::ZYNQMP`]).
pub(crate) static AXI: [Key; 10] = {
    let defaults = ["axi4", "125", "64", "16", "8", "8", "4", "200", "150", "42"];
    let mut keys = [AxiKeys::KEYS[0]; 10];
    let mut i = 0;
    while i < AxiKeys::KEYS.len() {
        keys[i] = AxiKeys::KEYS[i].default(defaults[i]).when(AXI_ONLY);
        i += 1;
    }
    keys
};

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
    /// AXI, in programmable logic.
    Axi(axi::Settings, axi::Latencies),
}

impl Slot {
    /// Reads the slot, and the window of translation if there is one.
    ///
    /// # Errors
    /// Values that are allowed each, but not together.
    pub(crate) fn of(v: &Values) -> Result<(Slot, Option<Window>), SettingError> {
        let (p, i) = (PciKeys::of(v), IommuKeys::of(v));
        let slot = match BusKeys::of(v).kind {
            "pcie" => {
                let (settings, latencies) = host::pcie(v);
                Slot::Express(settings, latencies)
            }
            "axi" => {
                let (settings, latencies) = axi(v)?;
                Slot::Axi(settings, latencies)
            }
            _ => {
                let settings = pci(v);
                pci::Rules::new(settings).map_err(host::refused)?;
                let (cpu, memory, register) = (p.cpu_latency, p.memory_latency, p.register_latency);
                Slot::Parallel(settings, Latencies { cpu, memory, register })
            }
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

/// Reads the AXI bus, and the latencies around it.
///
/// # Errors
/// Values that are allowed each, but not together.
pub(crate) fn axi(v: &Values) -> Result<(axi::Settings, axi::Latencies), SettingError> {
    let k = AxiKeys::of(v);
    let settings = axi::Settings {
        protocol: if k.protocol == "axi3" { axi::Protocol::Axi3 } else { axi::Protocol::Axi4 },
        mhz: k.clock,
        bits: k.width,
        beats: k.burst,
        reads: k.reads,
        writes: k.writes,
        lite_clocks: k.lite_clocks,
    };
    axi::Rules::new(settings).map_err(host::refused)?;
    let (read, write, cpu) = (k.read_latency, k.write_latency, k.cpu_latency);
    Ok((settings, axi::Latencies { read, write, cpu }))
}

/// Lists the bus transactions of a transfer.
pub(crate) fn transfer(v: &Values, op: Operation, at: u64, bytes: u32) -> Transferred {
    match v.word("bus.kind") {
        "pcie" => return pcie_transfer(v, op, at, bytes),
        "axi" => return axi_transfer(v, op, at, bytes),
        _ => {}
    }
    let rules = pci::Rules::new(pci(v)).map_err(host::refused)?;
    Ok(Box::new(pci::transactions(&rules, op, at, bytes).map(Into::into)))
}

/// Lists the bursts of a transfer over the AXI bus of these values.
pub(crate) fn axi_transfer(v: &Values, op: Operation, at: u64, bytes: u32) -> Transferred {
    let rules = axi::Rules::new(axi(v)?.0).map_err(host::refused)?;
    let command = if op == Operation::Read { "AR" } else { "AW" };
    let row =
        move |b: axi::Burst| Transaction { addr: b.addr, command, bytes: b.bytes, packet: None };
    Ok(Box::new(rules.bursts(at, bytes).map(row)))
}

/// Sets the use of an AXI bus of so many MHz: read data, then write data.
pub(crate) fn use_of_axi<T>(o: &mut RunStats<T>, mhz: u32) {
    let clocks = |time: Span| (u128::from(time.ps()) * u128::from(mhz) / 1_000_000).max(1) as u64;
    // A burst in flight at either end of the measured time counts for the side it began on.
    o.use_of_bus("beats", 4096, clocks, |l| vec![l.axi_read_beats, l.axi_write_beats]);
}

/// The use of a PCI or PCI-X bus.
pub(crate) const BUS_BUSY: Metric = Metric::busy("bus_busy_share", "of the bus's clocks");

/// The use of both directions of an AXI bus.
pub(crate) const AXI_BUSY: [Metric; 2] = [
    Metric::busy("read_bus_busy_share", "of the clocks of read data"),
    Metric::busy("write_bus_busy_share", "of the clocks of write data"),
];

/// The AXI bus of a system that has no other.
pub(crate) const AXI_BUS: Resource = Resource {
    name: "bus",
    shares: &["read_bus_busy_share", "write_bus_busy_share"],
    keys: &[("axi.clock", More)],
};
/// The bursts of it that may be under way.
pub(crate) const AXI_BURSTS: Resource =
    Resource::of("bursts in flight", &[("axi.reads", More), ("axi.writes", More)]);
/// The latencies around it.
pub(crate) const AXI_LATENCY: Resource = Resource::of(
    "latency",
    &[
        ("axi.read_latency", Less),
        ("axi.write_latency", Less),
        ("axi.cpu_latency", Less),
        ("axi.lite_clocks", Less),
    ],
);

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
/// The latencies of all slots but AXI.
pub(crate) const LATENCY: Resource = Resource::of(
    "latency",
    &[
        ("pci.cpu_latency", Less),
        ("pci.memory_latency", Less),
        ("pci.register_latency", Less),
        ("pcie.link_latency", Less),
        ("pcie.memory_latency", Less),
    ],
);
