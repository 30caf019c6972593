//! What an ibmveth run is a function of, by name: how the values of keys become a
//! [`Setup`] and a [`Load`], and which do not go together.

mod keys;

pub(super) use keys::{CALLS, CPU, DRIVER, PORT, TRAFFIC};

use super::lan::{CLIENT, SERVER};
use super::{BridgePrices, Form, Load, PacketsLoad, PortConfig, Setup};
use crate::clock::napi::Rules as Softirq;
use crate::closed;
use crate::cpu::{costs, span, tcp_prices};
use crate::fault;
use crate::key::Values;
use crate::papr::Papr;
use doorbell_bus::ProtectionGranularity;
use doorbell_devices::veth::{Adapter, Config as LanConfig};
use doorbell_drivers::ibmveth::{Config as DriverConfig, LargeSend, Transmit};
use doorbell_layout::ibmveth::attribute;
use doorbell_packet::ethernet;

/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 3 << 30;
/// IP packets on the physical network; the adapters' own.
const MTU: u32 = ethernet::MTU as u32;

/// The [`Setup`] of these values.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, String> {
    let papr = Papr::of(v, &super::CALLS);
    let cycles = |key| span_of_cycles(v, key);
    let multi = v.is_on("driver.multi_buffer");
    let adapters: Vec<Adapter> = [CLIENT, SERVER].map(|i| adapter(i, multi)).into();
    let drivers = [CLIENT, SERVER].map(|i| driver(v, &adapters[i], i));
    let lan = LanConfig {
        slice: v.number_or_word("hypervisor.slice").map_or(u32::MAX, |kib| (kib * 1024.0) as u32),
        sum_per_kib: span(v, "hypervisor.sum"),
        interrupt: papr.interrupt,
        ..LanConfig::new(adapters)
    };
    let faults = fault::Plan::of(v, doorbell_hal::Span::from_ms(5_000));
    if !faults.is_empty() && v.word("traffic.kind") == "packets" {
        return Err(
            "`run.fault` is for connections, which send again what is lost; `traffic.kind` is packets".to_owned()
        );
    }
    Ok(Setup {
        costs: costs(v),
        prices: tcp_prices(v),
        bridge: BridgePrices { forward: cycles("cpu.bridge"), gro: cycles("cpu.tcp_gro") },
        softirq: Softirq {
            budget: v.number("run.budget") as u32,
            watchdog: faults.watchdog(),
            ..Softirq::LINUX
        },
        papr,
        guard: if v.word("run.guard") == "byte" {
            ProtectionGranularity::Byte
        } else {
            ProtectionGranularity::Page
        },
        lan,
        port: PortConfig {
            tso: v.is_on("port.tso"),
            checksum: v.is_on("port.checksum"),
            ring: v.number("port.ring") as usize,
            interrupt_gap: span(v, "port.interrupt_gap"),
            longest: ethernet::MAX_FRAME,
        },
        gro: v.is_on("port.gro"),
        drivers,
        network_gro: Some(span(v, "network.gro")).filter(|t| *t > doorbell_hal::Span::ZERO),
        link_rate: (v.number("link.rate") * 1e9) as u64,
        link_delay: span(v, "link.delay"),
        faults,
    })
}

fn span_of_cycles(v: &Values, key: &str) -> doorbell_hal::Span {
    doorbell_hal::Span::from_ps((v.number(key) / v.number("cpu.frequency") * 1e3).round() as u64)
}

/// The adapter of partition `i`; the server's is the trunk.
fn adapter(i: usize, multi_buffer: bool) -> Adapter {
    let a = Adapter::new(i, i as u8);
    let multi = if multi_buffer { attribute::RX_MULTI_BUFF } else { 0 };
    Adapter {
        trunk: u8::from(i == SERVER),
        options: Some(Adapter::ALL & !attribute::RX_MULTI_BUFF | multi),
        ..a
    }
}

fn driver(v: &Values, a: &Adapter, i: usize) -> DriverConfig {
    let mut c = DriverConfig::new(a.unit as u32, a.mac);
    c.vector = a.vector;
    c.mtu = MTU;
    c.pools[1].count = v.number("driver.pool_2k") as u32;
    c.pools[4].count = v.number("driver.pool_64k") as u32;
    c.rx_copybreak = v.number("driver.rx_copybreak") as u32;
    c.fraglist = v.is_on("driver.fraglist");
    c.transmit = match v.word("driver.transmit") {
        "copy" => Transmit::Copy,
        _ => Transmit::Map { copybreak: v.number("driver.copybreak") as u32 },
    };
    if i == SERVER {
        let on = v.is_on("driver.trunk_offload");
        c.trunk_checksum = on;
        c.large_send = if on { LargeSend::Firmware } else { LargeSend::Off };
    } else {
        c.checksum = v.is_on("driver.checksum");
        c.large_send = match v.word("driver.large_send") {
            "old" => LargeSend::Old,
            "off" => LargeSend::Off,
            _ => LargeSend::Firmware,
        };
    }
    c
}

/// The [`Load`] of these values.
///
/// # Errors
/// Traffic that this machine cannot carry.
pub fn load(v: &Values, setup: &Setup) -> Result<Load, String> {
    if v.word("traffic.kind") == "packets" {
        let size = v.number("traffic.size") as u32;
        let pieces = v.number("traffic.pieces") as u32;
        if pieces > size {
            return Err(format!(
                "`traffic.pieces` is {pieces}, but there are only {size} bytes (`traffic.size`)"
            ));
        }
        let form = match v.word("traffic.form") {
            "scatter" => Form::Scatter,
            "segment" => Form::Segment,
            "copy" => Form::Copy,
            _ => Form::Linearise,
        };
        let (mss, packets) = (v.number("traffic.mss") as u16, v.number("traffic.packets") as u64);
        return Ok(Load::Packets(PacketsLoad { size, pieces, form, mss, packets }));
    }
    let load = closed::Load::of(v, MTU - 40)?;
    let guard = if setup.guard == ProtectionGranularity::Byte { 5 } else { 1 };
    let needs = super::memory(setup, Some(&load)).iter().sum::<usize>() as u64 * guard;
    if needs > MAX_MEMORY {
        return Err(format!(
            "{} MiB of simulated memory would be needed, and {} are the most; take fewer connections \
             (`traffic.connections`), a smaller window (`traffic.window`), smaller pools or `run.guard=page`",
            needs >> 20,
            MAX_MEMORY >> 20
        ));
    }
    Ok(Load::Closed(load))
}
