//! Reads the settings of controller and driver from the values of their keys, and refuses values
//! that do not go together.

mod keys;

pub(crate) use keys::CPU;
pub(super) use keys::{DriverKeys, KIND, NicKeys};

use super::{Config, E1000};
use crate::card;
use crate::key::Values;
use crate::settings::take;
use crate::slot::PciKeys;
use crate::system::StackKeys;
use crate::{SettingError, refuse};
use doorbell_devices::e1000::{Config as Nic, Slot as NicSlot};
use doorbell_drivers::e1000::{Bus, Config as DriverConfig, Part, Thresholds, Throttle};
use doorbell_hal::Alignment;
use doorbell_packet::ethernet::HEADER;

/// Reads the settings of device and driver from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub(super) fn config(v: &Values) -> Result<Config, SettingError> {
    let bus = v.word("bus.kind");
    if NicKeys::of(v).part.is_82574() && bus != "pcie" {
        refuse!("`nic.part` is 82574l, a part of PCI Express, and `bus.kind` is {bus}");
    }
    Ok(Config { nic: nic(v, bus), driver: driver(v, bus)? })
}

fn nic(v: &Values, bus: &str) -> Nic {
    let (n, p) = (NicKeys::of(v), PciKeys::of(v));
    let mut nic = match n.part {
        Part::I82540 => Nic::I82540EM,
        Part::I82544 => Nic::I82544GC,
        Part::I82545 => Nic::I82545EM,
        Part::I82574 => Nic::I82574L,
    };
    nic.slot = if n.part.is_82574() {
        NicSlot::Express { msi: sends_messages(v) }
    } else if bus == "pcix" {
        NicSlot::PciX { clock: if p.clock > 100 { 2 } else { u8::from(p.clock > 66) } }
    } else {
        NicSlot::Pci { mhz66: p.clock == 66, wide: p.width == 64 }
    };
    (nic.speed, nic.cache_line) = (n.rate, p.line);
    take!(nic; n: max_read read_across errata);
    nic
}

/// Returns true if the card sends messages, and has no interrupt line.
fn sends_messages(v: &Values) -> bool {
    DriverKeys::of(v).interrupts != "line"
}

fn driver(v: &Values, bus: &str) -> Result<DriverConfig, SettingError> {
    let (d, part) = (DriverKeys::of(v), NicKeys::of(v).part);
    let bus = match bus {
        "pcix" => Bus::PciX,
        _ if part.is_82574() => Bus::Express,
        _ => Bus::Pci,
    };
    let mut c = DriverConfig::new(part, bus);
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
    c.msix = part.is_82574() && d.interrupts == "msix";
    c.queues = card::queues::<E1000>(v);
    if c.queues > 1 && !c.msix {
        refuse!("`run.cores` is {}, and `driver.interrupts` is not msix", c.queues);
    }
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
    let own = d.rx_prefetch.map(|prefetch| Thresholds { prefetch, host, write_back });
    c.rx_thresholds = own.or(c.rx_thresholds);
    Ok(c)
}
