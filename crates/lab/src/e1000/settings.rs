//! What an e1000 run is a function of, by name: how the values of keys become a
//! [`Setup`] and a [`Load`], and which do not go together.

mod keys;

pub(super) use keys::{BUS, CPU, DRIVER, KIND, NIC};

use super::{Load, Setup, Slot};
use crate::clock::napi::Rules as Softirq;
use crate::cpu::{costs, span, tcp_prices};
use crate::fault;
use crate::key::Values;
use crate::open::Limits;
use crate::traffic::Frames;
use crate::{closed, mlx5, open};
use doorbell_bus::pci::{Devsel, Protocol, Settings};
use doorbell_bus::tce::{Prices, Window};
use doorbell_bus::{Price, ProtectionGranularity, pci, pcie};
use doorbell_devices::e1000::{Config as Nic, Slot as NicSlot, Speed};
use doorbell_drivers::e1000::{Bus, Config as DriverConfig, Part, Thresholds, Throttle};
use doorbell_hal::{Alignment, Span};
use doorbell_packet::ethernet::HEADER;
use std::sync::Arc;

/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 3 << 30;
/// Longest frame that these controllers send, without FCS.
const LONGEST_FRAME: u32 = 16_110;

/// The [`Setup`] of these values.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, String> {
    let kind = v.word("bus.kind");
    let latencies = pci::Latencies {
        cpu: span(v, "pci.cpu_latency"),
        memory: span(v, "pci.memory_latency"),
        register: span(v, "pci.register_latency"),
    };
    let slot = if kind == "pcie" {
        let latencies = pcie::Latencies {
            link: span(v, "pcie.link_latency"),
            memory: span(v, "pcie.memory_latency"),
        };
        Slot::Express(mlx5::settings::pcie(v), latencies)
    } else {
        let settings = pci(v);
        doorbell_bus::pci::Rules::new(settings).map_err(|e| e.to_string())?;
        Slot::Parallel(settings, latencies)
    };
    let call = span(v, "iommu.call");
    let prices = Prices { put: call, put_indirect: call, stuff: call, entry: Span::ZERO };
    let tce = (v.word("iommu.kind") == "tce").then(|| Window {
        base: 1 << 28,
        pages: 1 << 16,
        multi: v.is_on("iommu.multi"),
        prices,
    });
    let nic = nic(v, kind);
    let faults = fault::Plan::of(v, Span::from_ms(5_000));
    Ok(Setup {
        costs: costs(v),
        prices: tcp_prices(v),
        softirq: Softirq {
            budget: v.number("run.budget") as u32,
            watchdog: faults.watchdog(),
            ..Softirq::LINUX
        },
        slot,
        tce,
        guard: if v.word("run.guard") == "byte" {
            ProtectionGranularity::Byte
        } else {
            ProtectionGranularity::Page
        },
        nic,
        driver: driver(v, kind)?,
        link_rate: (v.number("link.rate") * 1e6) as u64,
        link_delay: span(v, "link.delay"),
        faults,
    })
}

/// The bus alone, where it is PCI or PCI-X.
pub fn pci(v: &Values) -> Settings {
    let ps = |key| Span::from_ps((v.number(key) * 1e3).round() as u64);
    let price = |each, byte| Price { each: span(v, each), per_unit: ps(byte) };
    Settings {
        protocol: if v.word("bus.kind") == "pcix" {
            Protocol::X {
                mmrbc: v.number("pci.mmrbc") as u32,
                outstanding: v.number("pci.outstanding") as u32,
            }
        } else {
            Protocol::Conventional { delayed: v.is_on("pci.delayed_reads") }
        },
        mhz: v.number("pci.clock") as u32,
        bits: v.number("pci.width") as u32,
        line: v.number("pci.line") as u32,
        boundary: v.number("pci.boundary") as u32,
        devsel: match v.word("pci.devsel") {
            "fast" => Devsel::Fast,
            "slow" => Devsel::Slow,
            "subtractive" => Devsel::Subtractive,
            _ => Devsel::Medium,
        },
        latency_timer: v.number_or_word("pci.latency_timer").map(|clocks| clocks as u32),
        mwi: v.is_on("pci.mwi"),
        read: price("pci.read_command", "pci.read_byte"),
        write: price("pci.write_command", "pci.write_byte"),
    }
}

fn part(v: &Values) -> Part {
    match v.word("nic.part") {
        "82544gc" => Part::I82544,
        "82540em" => Part::I82540,
        _ => Part::I82545,
    }
}

fn nic(v: &Values, bus: &str) -> Nic {
    let base = match part(v) {
        Part::I82540 => Nic::I82540EM,
        Part::I82544 => Nic::I82544GC,
        Part::I82545 => Nic::I82545EM,
    };
    let (clock, wide) = (v.number("pci.clock"), v.number("pci.width") == 64.0);
    Nic {
        slot: if bus == "pcix" {
            NicSlot::PciX { clock: if clock > 100.0 { 2 } else { u8::from(clock > 66.0) } }
        } else {
            NicSlot::Pci { mhz66: clock == 66.0, wide }
        },
        speed: match v.number("link.rate") as u32 {
            10 => Speed::M10,
            100 => Speed::M100,
            _ => Speed::G1,
        },
        cache_line: v.number("pci.line") as u32,
        max_read: v.number("nic.max_read") as u32,
        read_across: v.is_on("nic.read_across"),
        packet_gap: span(v, "nic.packet_gap"),
        errata: v.is_on("nic.errata"),
        ..base
    }
}

fn driver(v: &Values, bus: &str) -> Result<DriverConfig, String> {
    let base = DriverConfig::new(part(v), if bus == "pcix" { Bus::PciX } else { Bus::Pci });
    let (align, offset) =
        (v.number("driver.rx_buffer_align") as u32, v.number("driver.rx_buffer_offset") as u32);
    let rx_align = v.number("driver.rx_align") as u32;
    if offset + rx_align >= align {
        return Err(format!(
            "`driver.rx_buffer_offset` is {offset} B; with `driver.rx_align` it is to stay below `driver.rx_buffer_align`, {align}"
        ));
    }
    for key in ["driver.tx_ring", "driver.rx_ring"] {
        let n = v.number(key);
        if n % 8.0 != 0.0 {
            return Err(format!("`{key}` is {n}; allowed: multiples of 8 from 48 to 4096"));
        }
    }
    let count = |key: &str| v.number(key) as u8;
    let ticks = |key: &str| v.number(key) as u16;
    Ok(DriverConfig {
        copy_align: v.is_on("driver.copy_align"),
        rx_align,
        rx_place: Alignment { align, offset },
        rx_buffer: v.number("driver.rx_buffer") as u32,
        max_frame: v.number("driver.mtu") as u32 + HEADER as u32,
        copybreak: v.number("driver.copybreak") as u32,
        throttle: match (v.number_or_word("driver.throttle"), v.word("driver.throttle")) {
            (Some(rate), _) => Throttle::Fixed(rate as u32),
            (None, "off") => Throttle::Off,
            (None, "dynamic") => Throttle::Dynamic,
            (None, _) => Throttle::Conservative,
        },
        tx_ring: v.number("driver.tx_ring") as u32,
        rx_ring: v.number("driver.rx_ring") as u32,
        tx_delay: ticks("driver.tx_delay"),
        tx_absolute: ticks("driver.tx_absolute"),
        rx_delay: ticks("driver.rx_delay"),
        rx_absolute: ticks("driver.rx_absolute"),
        tx_thresholds: Thresholds {
            prefetch: count("driver.tx_prefetch"),
            host: count("driver.tx_host"),
            write_back: v
                .number_or_word("driver.tx_write_back")
                .map_or(base.tx_thresholds.write_back, |n| n as u8),
        },
        rx_thresholds: v.number_or_word("driver.rx_prefetch").map(|n| Thresholds {
            prefetch: n as u8,
            host: count("driver.rx_host"),
            write_back: count("driver.rx_write_back"),
        }),
        ..base
    })
}

/// The [`Load`] of these values; `frames` are those of the capture they name.
///
/// # Errors
/// Traffic that this machine cannot carry.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let load = match v.word("traffic.kind") {
        "pktgen" | "pcap" => {
            // A large send's total length is an IP packet's: 16 bits.
            let limits = Limits {
                frame: (LONGEST_FRAME, "8254x manual"),
                large_send: (65_535, "8254x manual"),
            };
            Load::Open(open::Load::of(v, &limits, frames)?)
        }
        _ => {
            // IP and TCP headers without options.
            let mss = setup.driver.max_frame - HEADER as u32 - 40;
            Load::Closed(closed::Load::of(v, mss)?)
        }
    };
    let guard = if setup.guard == ProtectionGranularity::Byte { 5 } else { 1 };
    let needs = super::memory_size(setup, &load) as u64 * guard;
    if needs > MAX_MEMORY {
        return Err(format!(
            "{} MiB of simulated memory would be needed, and {} are the most; take fewer connections \
             (`traffic.connections`), a smaller window (`traffic.window`), shorter rings or `run.guard=page`",
            needs >> 20,
            MAX_MEMORY >> 20
        ));
    }
    Ok(load)
}
