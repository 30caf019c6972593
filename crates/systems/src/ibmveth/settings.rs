//! Reads the [`Setup`] and [`Load`] of an ibmveth run from the values of its keys, and refuses
//! values that do not go together.

mod keys;

pub(super) use keys::{CPU, DriverKeys, HypervisorKeys, PRICES, PortKeys, TrafficKeys};

use super::lan::{CLIENT, SERVER};
use super::{BridgePrices, Form, Load, PacketsLoad, PortConfig, Setup};
use crate::arrivals;
use crate::closed_loop;
use crate::host::{HostConfig, MAX_MEMORY, cycles, span};
use crate::key::Values;
use crate::papr::Papr;
use crate::settings::{take, words};
use crate::{SettingError, refuse};
use doorbell_devices::veth::{Adapter, Config as LanConfig};
use doorbell_drivers::ibmveth::{Config as DriverConfig, LargeSend, Transmit};
use doorbell_hal::Span;
use doorbell_layout::ibmveth::{CALLS, H_SEND_LOGICAL_LAN, PAGE, attribute};
use doorbell_packet::ethernet;
use doorbell_sim::traffic::Frames;
use std::sync::Arc;

/// The longest IP packet on the physical network. The adapters have their own.
const MTU: u32 = ethernet::MTU as u32;

/// Reads the [`Setup`] from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, SettingError> {
    let mut papr = Papr::of(v, &CALLS);
    if let Some(send) = papr.price_mut(H_SEND_LOGICAL_LAN) {
        send.serial = span(v, "hcall.send_serial");
    }
    let (h, p, d) = (HypervisorKeys::of(v), PortKeys::of(v), DriverKeys::of(v));
    let multi = d.multi_buffer;
    let adapters: Vec<Adapter> = [CLIENT, SERVER].map(|i| adapter(i, multi)).into();
    let drivers = [CLIENT, SERVER].map(|i| driver(&d, &adapters[i], i));
    let lan = LanConfig {
        slice: h.slice.map_or(u32::MAX, |kib| (kib * 1024.0) as u32),
        sum_per_kib: h.sum,
        interrupt: papr.interrupt,
        ..LanConfig::new(adapters)
    };
    let host = HostConfig::of(v, Span::from_ms(5_000));
    if !host.faults.is_empty() && v.word("traffic.kind") == "packets" {
        refuse!(
            "`run.fault` is for connections, which send again what is lost; `traffic.kind` is \
             packets"
        );
    }
    if d.large_send == LargeSend::Old && !d.trunk_offload {
        refuse!(
            "`driver.large_send` is old, which asks nobody: the trunk has to take large sends; set \
             `driver.trunk_offload` on"
        );
    }
    let pools = || drivers[CLIENT].pools.iter().filter(|p| p.active);
    let (buffers, most) = (pools().map(|p| p.count).sum::<u32>(), lan.max_buffers);
    if buffers > most {
        let others = buffers - d.pool_2k - d.pool_64k;
        refuse!(
            "`driver.pool_2k` and `driver.pool_64k` are {} and {} buffers, and the LAN takes {} \
             beside the {others} of other sizes",
            d.pool_2k,
            d.pool_64k,
            most - others
        );
    }
    let pages: u32 = pools().map(|p| p.count * (p.size.div_ceil(PAGE) + 1)).sum();
    if pages > papr.window.pages {
        refuse!(
            "`tce.pages` is {}, and the receive buffers alone take up to {pages}: fewer of them \
             (`driver.pool_2k`, `driver.pool_64k`), or more pages",
            papr.window.pages
        );
    }
    Ok(Setup {
        host,
        bridge: BridgePrices { forward: cycles(v, "cpu.bridge"), gro: cycles(v, "cpu.tcp_gro") },
        papr,
        lan,
        port: PortConfig {
            tso: p.tso,
            checksum: p.checksum,
            ring: p.ring,
            interrupt_gap: p.interrupt_gap,
            longest: ethernet::MAX_FRAME,
        },
        gro: p.gro,
        drivers,
        network_gro: Some(p.network_gro).filter(|t| *t > Span::ZERO),
    })
}

words! {
    Form {
        "scatter" => Self::Scatter, "linearise" => Self::Linearise, "segment" => Self::Segment,
        "copy" => Self::Copy,
    }
    LargeSend { "firmware" => Self::Firmware, "old" => Self::Old, "off" => Self::Off }
}

/// Returns the adapter of partition `i`. The server's is the trunk.
fn adapter(i: usize, multi_buffer: bool) -> Adapter {
    let a = Adapter::new(i, i as u8);
    let multi = if multi_buffer { attribute::RX_MULTI_BUFF } else { 0 };
    Adapter {
        trunk: u8::from(i == SERVER),
        options: Some(Adapter::ALL & !attribute::RX_MULTI_BUFF | multi),
        ..a
    }
}

fn driver(d: &DriverKeys, a: &Adapter, i: usize) -> DriverConfig {
    let mut c = DriverConfig::new(a.unit as u32, a.mac);
    c.vector = a.vector;
    c.mtu = MTU;
    c.pools[1].count = d.pool_2k;
    c.pools[4].count = d.pool_64k;
    take!(c; d: rx_copybreak fraglist);
    c.transmit = match d.transmit {
        "copy" => Transmit::Copy,
        _ => Transmit::Map { copybreak: d.copybreak },
    };
    if i == SERVER {
        let on = d.trunk_offload;
        c.trunk_checksum = on;
        c.large_send = if on { LargeSend::Firmware } else { LargeSend::Off };
    } else {
        c.checksum = d.checksum;
        // Without checksums Linux has no large send (`netdev_fix_features`).
        c.large_send = if d.checksum { d.large_send } else { LargeSend::Off };
    }
    c
}

/// Reads frames that arrive from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// A frame is too long.
pub(crate) fn arriving(
    v: &Values,
    setup: &Setup,
    frames: Option<&Arc<Frames>>,
) -> Result<arrivals::Load, SettingError> {
    let longest = MTU + ethernet::HEADER as u32;
    let mbit_per_s = setup.host.link_rate as f64 / 1e6;
    let load = arrivals::Load::of(v, (longest, "the adapter's MTU"), mbit_per_s, frames)?;
    let advice = "smaller pools (`driver.pool_2k`, `driver.pool_64k`)";
    setup.host.fits(super::memory_of_arrivals(setup), MAX_MEMORY, advice)?;
    Ok(load)
}

/// Reads the [`Load`] from `v`.
///
/// # Errors
/// This machine cannot carry the traffic.
pub(crate) fn load(v: &Values, setup: &Setup) -> Result<Load, SettingError> {
    let t = TrafficKeys::of(v);
    if t.kind == "packets" {
        let TrafficKeys { size, pieces, form, packets, .. } = t;
        if pieces > size {
            refuse!(
                "`traffic.pieces` is {pieces}, but there are only {size} bytes (`traffic.size`)"
            );
        }
        let mss = closed_loop::Keys::of(v).mss as u16;
        return Ok(Load::Packets(PacketsLoad { size, pieces, form, mss, packets }));
    }
    let load = closed_loop::Load::of(v, MTU - 40)?;
    let advice = "fewer connections (`traffic.connections`), a smaller window (`traffic.window`), \
                  smaller pools";
    setup.host.fits(super::memory(setup, Some(&load)).iter().sum(), MAX_MEMORY, advice)?;
    Ok(Load::Closed(load))
}
