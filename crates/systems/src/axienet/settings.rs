//! Reads the inputs of an axienet run from the values of its keys.

mod keys;

pub(super) use keys::{BesideKeys, CPU, DriverKeys, KIND, NicKeys};

use super::{Load, Setup, controllers::Any};
use crate::host::{HostConfig, MAX_MEMORY};
use crate::key::Values;
use crate::open_loop::Limits;
use crate::settings::{Field, take, words};
use crate::system::StackKeys;
use crate::{SettingError, arrivals, closed_loop, open_loop, slot};
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet as driver;
use doorbell_hal::{Alignment, Span};
use doorbell_packet::ethernet::HEADER;
use doorbell_sim::traffic::Frames;
use std::sync::Arc;

/// The station's address.
const MAC: [u8; 6] = [0x00, 0x0a, 0x35, 0x01, 0x02, 0x03];

/// Reads the [`Setup`] from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, SettingError> {
    let (axi, latencies) = slot::axi(v)?;
    let (n, d) = (NicKeys::of(v), DriverKeys::of(v));
    let (controller, adaptive_rx) = Any::of(&d, &n);
    let mut nic = device::Config::ZYNQMP;
    (nic.tx_memory, nic.rx_memory) = (n.tx_memory << 10, n.rx_memory << 10);
    (nic.clock_mhz, nic.speed, nic.phy) = (n.clock, Field::of(v, "link.rate"), None);
    take!(nic; n: tx_checksum rx_checksum delay_clocks);
    nic.zero_checksum = n.tx_zero;
    let mut c = driver::Config::new(MAC);
    take!(c; d: tx_ring rx_ring mtu batch);
    c.rx_memory = nic.rx_memory;
    (c.tx_checksum, c.rx_checksum) = (nic.tx_checksum, nic.rx_checksum);
    c.address_bits = nic.address_bits as u8;
    c.rx_place = Alignment { align: 64, offset: if d.rx_align { 2 } else { 0 } };
    (c.clock_hz, c.speed) = (n.clock * 1_000_000, Field::of(v, "link.rate"));
    take!(c.coalesce; d: rx_frames rx_usecs tx_frames tx_usecs);
    c.coalesce.adaptive_rx = adaptive_rx;
    c.bql = StackKeys::of(v).bql;
    Ok(Setup {
        host: HostConfig::of(v, Span::from_ms(5_000)),
        axi,
        latencies,
        nic,
        driver: c,
        controller,
        cores: v.number("cpu.cores") as usize,
    })
}

words! {
    device::Checksum {
        "partial" => Self::CsumPartial, "full" => Self::Full, "none" => Self::None,
    }
}

/// Reads the [`Load`] from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// This machine cannot carry the traffic.
pub(crate) fn load(
    v: &Values,
    setup: &Setup,
    frames: Option<&Arc<Frames>>,
) -> Result<Load, SettingError> {
    let longest = setup.driver.mtu + HEADER as u32;
    let load = match v.word("traffic.kind") {
        "pktgen" | "pcap" => {
            let limits = Limits {
                frame: (longest, "driver.mtu"),
                tagged: setup.driver.longest(),
                // The driver cuts them.
                large_send: (65_535, "linux GSO_LEGACY_MAX_SIZE"),
            };
            Load::Open(open_loop::Load::of(v, &limits, frames, 1)?)
        }
        arrivals::KIND => {
            let rate = f64::from(NicKeys::of(v).rate);
            Load::Arrivals(arrivals::Load::of(v, (longest, "driver.mtu"), rate, frames)?)
        }
        _ => {
            let mut load = closed_loop::Load::of(v, setup.driver.mtu - 40)?;
            load.beside = BesideKeys::of(v).beside;
            load.merges_backlog = BesideKeys::of(v).backlog == "merged";
            Load::Closed(load)
        }
    };
    let advice = "fewer connections (`traffic.connections`), a smaller window (`traffic.window`), \
                  shorter rings";
    setup.host.fits(super::memory_size(setup, &load), MAX_MEMORY, advice)?;
    Ok(load)
}
