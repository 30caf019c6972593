//! The host of a run, by key: prices of CPU work, softirq, checks of memory, link and faults.
//!
//! A system declares the keys it has; a price without a key is free. Prices of work are in cycles,
//! so that a faster core makes all of them shorter.

use super::fault;
use crate::key::{Is, Key, Needs, Values};
use crate::parallel::{Room, Rooms};
use crate::settings::{Field, words};
use crate::{SettingError, refuse};
use doorbell_bus::{
    Costs, Latencies, Ledger, Price, ProtectionGranularity, RulesError, cache, iotlb, pcie,
};
use doorbell_hal::{Span, WorkKind};
use doorbell_sim::{fault::Plan, napi::Rules as Softirq, traffic::tcp};

/// Returns the error of settings that a bus refuses.
pub(crate) fn refused(e: RulesError) -> SettingError {
    SettingError(e.to_string())
}

/// The parts of a setup that all systems have.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Prices of the drivers' work.
    pub costs: Costs,
    /// Prices of TCP, or of handling received frames.
    pub prices: tcp::Prices,
    /// Scheduling of softirq.
    pub softirq: Softirq,
    /// Granularity of the checks of device accesses.
    pub guard: ProtectionGranularity,
    /// The last-level cache, if it is modelled.
    pub cache: Option<cache::Geometry>,
    /// The I/O MMU's cache of translations, if there is one.
    pub iotlb: Option<iotlb::Geometry>,
    /// Rate of the link in bits a second; 0 where the device has it.
    pub link_rate: u64,
    /// Delay of the link, one way.
    pub link_delay: Span,
    /// Faults to inject.
    pub faults: Plan,
}

impl HostConfig {
    /// A host with these prices of drivers' work. TCP is free, and nothing fails.
    pub fn new(costs: Costs) -> HostConfig {
        HostConfig {
            costs,
            prices: tcp::Prices::default(),
            softirq: Softirq::LINUX,
            guard: ProtectionGranularity::Page,
            cache: None,
            iotlb: None,
            link_rate: 0,
            link_delay: Span::ZERO,
            faults: Plan::default(),
        }
    }

    /// Returns the rate of the link in bits a second, and its delay one way.
    pub(crate) const fn link(&self) -> (u64, Span) {
        (self.link_rate, self.link_delay)
    }

    /// Reads the values. `watchdog` is the transmit timeout of the driver in Linux.
    pub fn of(v: &Values, watchdog: Span) -> HostConfig {
        let faults = fault::plan(v, watchdog);
        let budget = v.number_if_any("run.budget").map_or(Softirq::LINUX.budget, |n| n as u32);
        HostConfig {
            costs: costs(v),
            prices: tcp_prices(v),
            softirq: Softirq { budget, watchdog: faults.watchdog(), ..Softirq::LINUX },
            guard: Field::of(v, "run.guard"),
            cache: cache(v),
            iotlb: iotlb(v),
            link_rate: v.bits_per_second("link.rate"),
            link_delay: span(v, "link.delay"),
            faults,
        }
    }

    /// Returns the bytes that memory takes with its guard.
    fn guarded(&self, bytes: usize) -> u64 {
        bytes as u64 * if self.guard == ProtectionGranularity::Byte { 5 } else { 1 }
    }

    /// Waits until a run has room for its simulated memory beside the runs of other threads.
    pub(crate) fn room(&self, bytes: usize) -> Room {
        ROOMS.take(self.guarded(bytes))
    }

    /// Refuses a run whose simulated memory, with its guard, exceeds `most` bytes, with the memory
    /// that it needs. `advice` names what makes it smaller.
    pub(crate) fn fits(&self, bytes: usize, most: u64, advice: &str) -> Result<(), SettingError> {
        let needs = self.guarded(bytes);
        if needs <= most {
            return Ok(());
        }
        let (unit, shift) = if most >> 30 > 3 { ("GiB", 30) } else { ("MiB", 20) };
        refuse!(
            "{} {unit} of simulated memory would be needed, and {} are the most; take {advice} or \
             `run.guard=page`",
            needs.div_ceil(1 << shift),
            most >> shift
        )
    }
}

static ROOMS: Rooms = Rooms::new(MAX_OF_ALL);

words! {
    ProtectionGranularity { "page" => Self::Page, "byte" => Self::Byte }
    cache::Policy { "inclusive" => Self::Inclusive, "victim" => Self::Victim }
    pcie::Completions {
        "merged" => Self::Merged, "rcb64" => Self::Rcb(64), "rcb128" => Self::Rcb(128),
    }
    pcie::Gap {
        "none" => Self::None, "dllp" => Self::Dllp, "completion" => Self::Completion,
        "packed" => Self::Packed,
    }
}

/// Limit of most runs' simulated memory with its guard, in bytes.
pub(crate) const MAX_MEMORY: u64 = 3 << 30;
/// Limit of the simulated memory, with its guard, of all runs at a time.
pub(crate) const MAX_OF_ALL: u64 = 16 << 30;

/// Each kind of work with the keys of its price: of an occurrence, and of a unit.
const WORK: [(WorkKind, &str, &str); WorkKind::ALL.len()] = [
    (WorkKind::Stack, "cpu.stack", ""),
    (WorkKind::Copy, "", "cpu.copy"),
    (WorkKind::Sum, "", "cpu.sum"),
    (WorkKind::TxDescriptor, "cpu.tx_descriptor", "cpu.tx_descriptor_entry"),
    (WorkKind::TxShared, "cpu.tx_shared", ""),
    (WorkKind::TxSession, "cpu.tx_session", ""),
    (WorkKind::TxPad, "cpu.tx_pad", "cpu.tx_pad_entry"),
    (WorkKind::TxNotify, "cpu.tx_notify", ""),
    (WorkKind::TxDone, "cpu.tx_done", "cpu.tx_done_packet"),
    (WorkKind::Completion, "cpu.completion", ""),
    (WorkKind::RxPost, "cpu.rx_post", ""),
    (WorkKind::RxPacket, "cpu.rx_packet", ""),
    (WorkKind::Interrupt, "cpu.interrupt", ""),
    (WorkKind::Poll, "cpu.poll", ""),
    (WorkKind::Wake, "cpu.wake", ""),
    (WorkKind::Map, "cpu.map", ""),
    (WorkKind::Unwritten, "cpu.cqe_unwritten", ""),
    (WorkKind::Redirect, "cpu.redirect", ""),
];

/// Returns the prices of drivers' work.
fn costs(v: &Values) -> Costs {
    let mut work = Costs::FREE.work;
    for (kind, each, per_unit) in WORK {
        work[kind as usize] = Price { each: cycles(v, each), per_unit: cycles(v, per_unit) };
    }
    Costs {
        work,
        mmio_write: cycles(v, "cpu.mmio_write"),
        mmio_write_spacing: span(v, "cpu.mmio_write_spacing"),
        fence: cycles(v, "cpu.fence"),
        relax: cycles(v, "cpu.relax"),
    }
}

fn tcp_prices(v: &Values) -> tcp::Prices {
    let cycles = |key: &str| cycles(v, key);
    tcp::Prices {
        gro: cycles("cpu.tcp_gro"),
        receive: cycles("cpu.tcp_receive"),
        acknowledgment: cycles("cpu.tcp_ack"),
        send: cycles("cpu.tcp_send"),
        sum: cycles("cpu.sum"),
        wake: cycles("cpu.tcp_wake"),
        sleep: cycles("cpu.tcp_sleep"),
        call: Price { each: cycles("cpu.call"), per_unit: cycles("cpu.call_byte") },
        switch: cycles("cpu.switch"),
    }
}

const CACHED: &[Needs] = &[Needs::new("memory.ways", Is::Positive)];
const TRANSLATED: &[Needs] = &[Needs::new("iommu.entries", Is::Positive)];

/// The keys of an I/O MMU that translates a device's accesses by page.
pub static IOMMU: [Key; 4] = [
    Key::whole(
        "iommu.entries",
        "pages",
        0.0,
        65536.0,
        "translations that the I/O MMU's cache holds; 0: there is no I/O MMU; Intel: 64 \
         (pcie-bench, SIGCOMM 2018)",
    )
    .default("0"),
    Key::among("iommu.page", "KiB", &[4.0, 2048.0, 1_048_576.0], "size of its pages")
        .default("4")
        .when(TRANSLATED),
    Key::ns("iommu.walk", "time of a translation that is not in that cache; Intel: some 330")
        .default("330")
        .when(TRANSLATED),
    Key::whole("iommu.walkers", "walks", 1.0, 64.0, "such translations at a time")
        .default("6")
        .when(TRANSLATED),
];

/// Returns the I/O MMU of these values, if there is one.
fn iotlb(v: &Values) -> Option<iotlb::Geometry> {
    Some(iotlb::Geometry {
        entries: v.number_if_any("iommu.entries").filter(|n| *n > 0.0)? as u32,
        page: log2_of_page(v, "iommu.page"),
        walk: span(v, "iommu.walk"),
        walkers: Field::of(v, "iommu.walkers"),
    })
}

/// Returns log2 of the bytes of a page.
fn log2_of_page(v: &Values, key: &str) -> u8 {
    (v.number(key) as u32 * 1024).ilog2() as u8
}

/// The key of the way between two sockets.
pub(crate) const SOCKET_LATENCY: &str = "memory.socket_latency";

/// The keys of the card's place, and of a last-level cache in front of memory.
pub static MEMORY: [Key; 8] = [
    Key::ns(
        SOCKET_LATENCY,
        "time that data take, one way, to a card on another socket than cores and memory, of which \
         a device's write takes no way of their cache; 0: all on one socket; Intel: some 50",
    )
    .default("0"),
    Key::whole(
        "memory.ways",
        "ways",
        0.0,
        64.0,
        "lines of a set of the last-level cache; 0: no cache is modelled, and all memory is alike",
    )
    .default("0"),
    Key::whole("memory.sets", "sets", 1.0, 65536.0, "sets of a slice of that cache")
        .default("2048")
        .when(CACHED),
    Key::whole("memory.slices", "slices", 1.0, 128.0, "slices of that cache")
        .default("1")
        .when(CACHED),
    Key::whole(
        "memory.dma_ways",
        "ways",
        1.0,
        64.0,
        "ways that a device's write takes for a line that is not there; Intel: 2",
    )
    .default("2")
    .when(CACHED),
    Key::choice(
        "memory.policy",
        &["inclusive", "victim"],
        "where a line is that a core uses: where it was (Intel up to Broadwell), or in a way that \
         is not for DMA (Intel since Skylake)",
    )
    .default("inclusive")
    .when(CACHED),
    Key::among(
        "memory.page",
        "KiB",
        &[4.0, 2048.0, 1_048_576.0],
        "size of the pages that buffers lie in, each anywhere in memory by the seed",
    )
    .default("4")
    .when(CACHED),
    Key::ns(
        "memory.latency",
        "time that a load or a device's read takes longer from memory than from that cache",
    )
    .default("0")
    .when(CACHED),
];

/// Returns the last-level cache of these values, if there is one.
fn cache(v: &Values) -> Option<cache::Geometry> {
    let ways = v.number_if_any("memory.ways").filter(|n| *n > 0.0)? as u8;
    Some(cache::Geometry {
        ways,
        sets: Field::of(v, "memory.sets"),
        slices: Field::of(v, "memory.slices"),
        dma_ways: match v.number(SOCKET_LATENCY) > 0.0 {
            true => 0,
            false => u8::of(v, "memory.dma_ways").min(ways),
        },
        policy: Field::of(v, "memory.policy"),
        page: log2_of_page(v, "memory.page"),
        seed: v.number("run.seed") as u64,
        latency: span(v, "memory.latency"),
    })
}

const CARRIED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions"])];
/// Frames that arrive go up to an application, too.
const RECEIVED: &[Needs] = &[Needs::kind(&["send", "receive", "transactions", "arrivals"])];

/// The keys of the TCP above a driver.
pub static TCP: [Key; 8] = [
    Key::cycles("cpu.tcp_gro", "a received frame in GRO").when(RECEIVED),
    Key::cycles("cpu.tcp_receive", "a received segment, merged or not, in IP and TCP")
        .when(RECEIVED),
    Key::cycles("cpu.tcp_ack", "a received acknowledgment without data").when(CARRIED),
    Key::cycles("cpu.tcp_send", "a segment or large send made by TCP and IP").when(CARRIED),
    Key::cycles("cpu.tcp_wake", "an application woken").when(RECEIVED),
    Key::cycles("cpu.call", "a system call").when(RECEIVED),
    Key::number("cpu.call_byte", "cycles/B", 0.0, 1e3, "each byte that a system call copies")
        .when(RECEIVED),
    Key::cycles("cpu.switch", "a switch from one application to another").when(CARRIED),
];

/// Returns a price in cycles as a time; zero where the system has no such key.
pub(crate) fn cycles(v: &Values, key: &str) -> Span {
    let cycles = v.number_if_any(key).unwrap_or(0.0);
    Span::from_ps((cycles / v.number("cpu.frequency") * 1e3).round() as u64)
}

/// Returns a key in nanoseconds; zero where the system has no such key.
pub(crate) fn span(v: &Values, key: &str) -> Span {
    Span::from_ps((v.number_if_any(key).unwrap_or(0.0) * 1e3).round() as u64)
}

/// Returns the PCI Express link of these values, and the latencies around it.
pub(crate) fn pcie(v: &Values) -> (pcie::Settings, Latencies) {
    let settings = pcie::Settings {
        generation: v.number("pcie.generation") as u32,
        lanes: v.number("pcie.lanes") as u32,
        mps: v.number("pcie.mps") as u32,
        mrrs: v.number("pcie.mrrs") as u32,
        completions: Field::of(v, "pcie.completions"),
        ecrc: v.is_on("pcie.ecrc"),
        gap: Field::of(v, "pcie.gap"),
        tags: v.number("pcie.tags") as u32,
        speed_ppm: (v.number("pcie.speed") * 1e6).round() as u32,
    };
    let link = span(v, "pcie.link_latency") + span(v, SOCKET_LATENCY);
    (settings, Latencies { link, memory: span(v, "pcie.memory_latency") })
}

/// Returns the bytes of symbol times on a PCI Express link: with a TLP toward the device and toward
/// the host, then all that are busy.
pub(crate) fn link_bytes(l: &Ledger) -> Vec<u64> {
    let (down, up) =
        (l.pcie_down_tlp_bytes + l.pcie_down_pad_bytes, l.pcie_up_tlp_bytes + l.pcie_up_pad_bytes);
    vec![down, up, down + l.pcie_down_gap_bytes, up + l.pcie_up_gap_bytes]
}
