//! Reads the [`Setup`] and [`Load`] of an e1000 run from the values of its keys, and refuses values
//! that do not go together.

mod keys;

pub(super) use keys::{BusKeys, CPU, DriverKeys, IommuKeys, KIND, NicKeys, PCIE, PciKeys};

use super::{Load, Setup, Slot};
use crate::host;
use crate::host::{HostConfig, MAX_MEMORY};
use crate::key::Values;
use crate::open_loop::Limits;
use crate::settings::take;
use crate::system::StackKeys;
use crate::{SettingError, refuse};
use crate::{closed_loop, open_loop};
use doorbell_bus::pci::{Protocol, Settings};
use doorbell_bus::tce::{Prices, Window};
use doorbell_bus::{Price, pci::Latencies};
use doorbell_devices::e1000::{Config as Nic, Slot as NicSlot};
use doorbell_drivers::e1000::{Bus, Config as DriverConfig, Part, Thresholds, Throttle};
use doorbell_hal::{Alignment, Span};
use doorbell_packet::ethernet::HEADER;
use doorbell_sim::traffic::Frames;
use std::sync::Arc;

/// Longest frame that these controllers send, without FCS.
const LONGEST_FRAME: (u32, &str) = (16_110, "8254x manual");

/// Reads the [`Setup`] from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, SettingError> {
    let kind = BusKeys::of(v).kind;
    let (p, i) = (PciKeys::of(v), IommuKeys::of(v));
    let latencies =
        Latencies { cpu: p.cpu_latency, memory: p.memory_latency, register: p.register_latency };
    let slot = if kind == "pcie" {
        let (settings, latencies) = host::pcie(v);
        Slot::Express(settings, latencies)
    } else {
        let settings = pci(v);
        doorbell_bus::pci::Rules::new(settings).map_err(host::refused)?;
        Slot::Parallel(settings, latencies)
    };
    let prices = Prices { put: i.call, put_indirect: i.call, stuff: i.call, entry: Span::ZERO };
    let (base, pages, multi) = (1 << 28, 1 << 16, i.multi);
    let tce = (i.kind == "tce").then_some(Window { base, pages, multi, prices });
    Ok(Setup {
        host: HostConfig::of(v, Span::from_ms(5_000)),
        slot,
        tce,
        nic: nic(v, kind),
        driver: driver(v, kind)?,
    })
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

fn nic(v: &Values, bus: &str) -> Nic {
    let (n, p) = (NicKeys::of(v), PciKeys::of(v));
    let mut nic = match n.part {
        Part::I82540 => Nic::I82540EM,
        Part::I82544 => Nic::I82544GC,
        Part::I82545 => Nic::I82545EM,
    };
    nic.slot = if bus == "pcix" {
        NicSlot::PciX { clock: if p.clock > 100 { 2 } else { u8::from(p.clock > 66) } }
    } else {
        NicSlot::Pci { mhz66: p.clock == 66, wide: p.width == 64 }
    };
    (nic.speed, nic.cache_line) = (n.rate, p.line);
    take!(nic; n: max_read read_across errata);
    nic
}

fn driver(v: &Values, bus: &str) -> Result<DriverConfig, SettingError> {
    let d = DriverKeys::of(v);
    let bus = if bus == "pcix" { Bus::PciX } else { Bus::Pci };
    let mut c = DriverConfig::new(NicKeys::of(v).part, bus);
    let (align, offset, rx_align) = (d.rx_buffer_align, d.rx_buffer_offset, d.rx_align);
    if offset + rx_align >= align {
        refuse!(
            "`driver.rx_buffer_offset` is {offset} B; with `driver.rx_align` it is to stay below \
             `driver.rx_buffer_align`, {align}"
        );
    }
    for (key, n) in [("driver.tx_ring", d.tx_ring), ("driver.rx_ring", d.rx_ring)] {
        if n % 8 != 0 {
            refuse!("`{key}` is {n}; allowed: multiples of 8 from 48 to 4096");
        }
    }
    c.rx_place = Alignment { align, offset };
    c.max_frame = d.mtu + HEADER as u32;
    c.throttle = match (d.throttle, v.word("driver.throttle")) {
        (Some(rate), _) => Throttle::Fixed(rate),
        (None, "off") => Throttle::Off,
        (None, "dynamic") => Throttle::Dynamic,
        (None, _) => Throttle::Conservative,
    };
    // Linux writes TDT for each packet of pktgen over the limit (docs/limits.md).
    c.bql = StackKeys::of(v).bql && v.word("traffic.kind") != "pktgen";
    take!(c; d: copy_align rx_align rx_buffer copybreak tx_ring rx_ring);
    take!(c; d: tx_delay tx_absolute rx_delay rx_absolute);
    let write_back = d.tx_write_back.unwrap_or(c.tx_thresholds.write_back);
    c.tx_thresholds = Thresholds { prefetch: d.tx_prefetch, host: d.tx_host, write_back };
    let (host, write_back) = (d.rx_host, d.rx_write_back);
    c.rx_thresholds = d.rx_prefetch.map(|prefetch| Thresholds { prefetch, host, write_back });
    Ok(c)
}

/// Reads the [`Load`] from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// This machine cannot carry the traffic.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, SettingError> {
    let load = match v.word("traffic.kind") {
        "pktgen" | "pcap" => {
            // A large send's total length is that of an IP packet: 16 bits.
            let longest = (setup.driver.longest(), "driver.mtu");
            let frame = if longest.0 <= LONGEST_FRAME.0 { longest } else { LONGEST_FRAME };
            let large_send = (65_535, "8254x manual");
            let limits = Limits { frame, tagged: frame.0, large_send };
            Load::Open(open_loop::Load::of(v, &limits, frames, 1)?)
        }
        _ => {
            // IP and TCP headers without options.
            let mss = setup.driver.max_frame - HEADER as u32 - 40;
            Load::Closed(closed_loop::Load::of(v, mss)?)
        }
    };
    let advice = "fewer connections (`traffic.connections`), a smaller window (`traffic.window`), \
                  shorter rings";
    setup.host.fits(super::memory_size(setup, &load), MAX_MEMORY, advice)?;
    Ok(load)
}
