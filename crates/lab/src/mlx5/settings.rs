//! What an mlx5 run is a function of, by name: how the values of keys become a
//! [`Setup`] and a [`Load`], and which do not go together.

mod keys;

pub(super) use keys::{KIND, PLATFORM, RUN};

use super::{Load, Setup};
use crate::cpu::{costs, span};
use crate::fault;
use crate::key::Values;
use crate::open::Limits;
use crate::traffic::Frames;
use doorbell_bus::pcie::{Completions, DllpRule, Settings};
use doorbell_bus::{Latencies, ProtectionGranularity};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config as DriverConfig, Cqs, Sizing};
use doorbell_hal::Span;
use doorbell_layout::mlx5::Caps;
use std::sync::Arc;

/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 16 << 30;

/// The [`Setup`] of these values. It does not depend on the capture.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, String> {
    let there = v.number("cpu.cores") as u16;
    let cores = match v.number_or_word("run.cores") {
        _ if v.word("traffic.kind") == "pcap" => 1,
        None => there,
        Some(wanted) if wanted as u16 > there => {
            return Err(format!(
                "`run.cores` is {wanted}, but the platform has {there} (`cpu.cores`)"
            ));
        }
        Some(wanted) => wanted as u16,
    };
    let (bar, memory_base) = (
        if v.word("pcie.bar") == "below_4gib" { 0xf000_0000 } else { 0x3800_0000_0000 },
        if v.word("cpu.memory") == "below_4gib" { 64 << 20 } else { 4 << 30 },
    );
    Ok(Setup {
        cores,
        costs: costs(v),
        pcie: pcie(v),
        latencies: Latencies {
            link: span(v, "pcie.link_latency"),
            memory: span(v, "pcie.memory_latency"),
        },
        bar,
        memory_base,
        guard: if v.word("run.guard") == "byte" {
            ProtectionGranularity::Byte
        } else {
            ProtectionGranularity::Page
        },
        nic: nic(v),
        driver: DriverConfig {
            mpwqe: v.is_on("driver.mpwqe"),
            sizing: if v.word("driver.sizing") == "fit" { Sizing::Fit } else { Sizing::Padded },
            log_sq: log2(v.number("driver.queue")),
            log_cq: log2(v.number("driver.cq")),
            cq_period_us: v.number("driver.moderation_period") as u16,
            cq_max_count: v.number("driver.moderation_count") as u16,
            cqs: match v.number("driver.armed_cqs") as u32 {
                1 => Cqs::Send,
                3 => Cqs::Three,
                _ => Cqs::Five,
            },
            bql: v.is_on(crate::bql::KEY.name),
            vector: 0,
        },
        faults: fault::Plan::of(v, Span::from_ms(15_000)),
    })
}

/// The link alone.
pub fn pcie(v: &Values) -> Settings {
    Settings {
        generation: v.number("pcie.generation") as u32,
        lanes: v.number("pcie.lanes") as u32,
        mps: v.number("pcie.mps") as u32,
        mrrs: v.number("pcie.mrrs") as u32,
        completions: match v.word("pcie.completions") {
            "rcb64" => Completions::Rcb(64),
            "rcb128" => Completions::Rcb(128),
            _ => Completions::Merged,
        },
        ecrc: v.is_on("pcie.ecrc"),
        dllp: match v.word("pcie.dllp") {
            "none" => DllpRule::None,
            "timer" => DllpRule::Timer,
            "flat" => DllpRule::Flat,
            _ => DllpRule::PerRequest,
        },
        ack_limit: None,
        fc_limit: None,
        usable_ppm: (v.number("pcie.usable_share") * 1e6).round() as u32,
    }
}

fn nic(v: &Values) -> Nic {
    let lso = v.number("nic.max_lso");
    Nic {
        caps: Caps {
            enhanced_mpw: v.is_on("nic.enhanced_mpw"),
            max_wqe_sz_sq: v.number("nic.max_wqe") as u16,
            min_inline: match v.word("nic.min_inline") {
                "l2" => 1,
                "ip" => 2,
                "tcp_udp" => 3,
                _ => 0,
            },
            log_max_lso: if lso > 0.0 { log2(lso * 1024.0) } else { 0 },
            csum: true,
            vlan: true,
        },
        fetch_chunk: v.number("nic.fetch_chunk") as u32,
        fetch_ahead: v.number("nic.fetch_ahead") as u32,
        refetch: v.is_on("nic.refetch"),
        reads_outstanding: v.number("nic.reads_outstanding") as u16,
        packet_time: span(v, "nic.packet_time"),
        pipeline_delay: span(v, "nic.pipeline_delay"),
        // 8 bits take 8000 ps at 1 Gbit/s.
        wire_byte_1024th_ps: (8000.0 * 1024.0 / v.number("nic.port_rate")).round() as u32,
        max_frame: v.number("nic.max_frame") as u32,
        ..Nic::CONNECTX
    }
}

fn log2(power: f64) -> u8 {
    (power as u64).max(1).ilog2() as u8
}

/// The [`Load`] of these values; `frames` are those of the capture they name.
///
/// # Errors
/// Traffic that this machine cannot send, with the frame where it is one.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let most = if setup.nic.caps.log_max_lso == 0 { 0 } else { 1 << setup.nic.caps.log_max_lso };
    let limits =
        Limits { frame: (setup.nic.max_frame, "nic.max_frame"), large_send: (most, "nic.max_lso") };
    let load = Load::of(v, &limits, frames)?;
    let guard = if setup.guard == ProtectionGranularity::Byte { 5 } else { 1 };
    let needs = super::memory_size(setup, &load) as u64 * guard;
    if needs > MAX_MEMORY {
        return Err(format!(
            "{} GiB of simulated memory would be needed, and {} are the most; take fewer cores (`run.cores`), a shorter queue \
             (`driver.queue`), smaller packets (`traffic.size`) or `run.guard=page`",
            needs >> 30,
            MAX_MEMORY >> 30
        ));
    }
    Ok(load)
}

#[cfg(test)]
mod tests;
