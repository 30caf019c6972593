//! What an mlx5 run is a function of, by name: how the values of keys become a
//! [`Setup`] and a [`Load`], and which do not go together.

mod keys;

pub(super) use keys::{PLATFORM, RUN};

use super::{Load, Setup};
use crate::key::Values;
use crate::traffic::{Frames, ReplayOptions};
use doorbell_bus::pcie::{Completions, DllpRule, Settings};
use doorbell_bus::{Costs, Guard, Latencies, Price};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config as DriverConfig, Sizing};
use doorbell_layout::mlx5::Caps;
use doorbell_seam::{Span, WorkKind};
use std::sync::Arc;

/// Simulated time that a run may take: 10^18 ps are well inside a `Time`.
const MAX_SECONDS: f64 = 1e6;
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
            return Err(format!("`run.cores` is {wanted}, but the platform has {there} (`cpu.cores`)"));
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
        latencies: Latencies { link: span(v, "pcie.link_latency"), memory: span(v, "pcie.memory_latency") },
        bar,
        memory_base,
        guard: if v.word("run.guard") == "byte" { Guard::Byte } else { Guard::Page },
        nic: nic(v),
        driver: DriverConfig {
            mpwqe: v.is_on("driver.mpwqe"),
            sizing: if v.word("driver.sizing") == "fit" { Sizing::Fit } else { Sizing::Padded },
            log_sq: log2(v.number("driver.queue")),
            log_cq: log2(v.number("driver.cq")),
            cq_period_us: v.number("driver.moderation_period") as u16,
            cq_max_count: v.number("driver.moderation_count") as u16,
            vector: 0,
        },
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

/// The prices of CPU work.
fn costs(v: &Values) -> Costs {
    let ghz = v.number("cpu.frequency");
    let cycles = |key: &str| Span::from_ps((v.number(key) / ghz * 1e3).round() as u64);
    let mut work = Costs::FREE.work;
    let mut price = |kind: WorkKind, each: Option<&str>, per_unit: Option<&str>| {
        let of = |key: Option<&str>| key.map_or(Span::ZERO, &cycles);
        work[kind as usize] = Price { each: of(each), per_unit: of(per_unit) };
    };
    price(WorkKind::Stack, Some("cpu.stack"), None);
    price(WorkKind::Copy, None, Some("cpu.copy"));
    price(WorkKind::Sum, None, Some("cpu.sum"));
    price(WorkKind::TxDescriptor, Some("cpu.tx_descriptor"), Some("cpu.tx_descriptor_entry"));
    price(WorkKind::TxShared, Some("cpu.tx_shared"), None);
    price(WorkKind::TxSession, Some("cpu.tx_session"), None);
    price(WorkKind::TxPad, Some("cpu.tx_pad"), Some("cpu.tx_pad_entry"));
    price(WorkKind::TxNotify, Some("cpu.tx_notify"), None);
    price(WorkKind::TxDone, Some("cpu.tx_done"), Some("cpu.tx_done_packet"));
    price(WorkKind::Completion, Some("cpu.completion"), None);
    price(WorkKind::Interrupt, Some("cpu.interrupt"), None);
    price(WorkKind::Poll, Some("cpu.poll"), None);
    price(WorkKind::Wake, Some("cpu.wake"), None);
    price(WorkKind::Map, Some("cpu.map"), None);
    Costs {
        work,
        mmio_write: cycles("cpu.mmio_write"),
        mmio_write_spacing: span(v, "cpu.mmio_write_spacing"),
        fence: cycles("cpu.fence"),
        relax: cycles("cpu.relax"),
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

/// A key in nanoseconds.
fn span(v: &Values, key: &str) -> Span {
    Span::from_ps((v.number(key) * 1e3).round() as u64)
}

fn log2(power: f64) -> u8 {
    (power as u64).max(1).ilog2() as u8
}

/// The [`Load`] of these values; `frames` are those of the capture they name.
///
/// # Errors
/// Traffic that this machine cannot send, with the frame where it is one.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let load = if v.word("traffic.kind") == "pcap" { replay(v, setup, frames)? } else { pktgen(v, setup)? };
    let guard = if setup.guard == Guard::Byte { 5 } else { 1 };
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

fn pktgen(v: &Values, setup: &Setup) -> Result<Load, String> {
    let size = v.number("traffic.size") as u32;
    if size > setup.nic.max_frame {
        return Err(format!(
            "`traffic.size` is {size} B, but the device sends {} at the most (`nic.max_frame`)",
            setup.nic.max_frame
        ));
    }
    Ok(Load::Pktgen {
        size,
        burst: v.number("traffic.burst") as u32,
        rate: v.number_or_word("traffic.rate").map(|mpps| mpps * 1e6),
        packets: v.number("traffic.packets") as u64,
        checksum: v.is_on("traffic.checksum"),
    })
}

fn replay(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let Some(frames) = frames.filter(|f| !f.is_empty()) else {
        return Err("the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`".to_owned());
    };
    let file = v.text("traffic.file");
    let options = ReplayOptions {
        own_times: v.word("traffic.times") == "own",
        rounds: v.number("traffic.rounds") as u32,
        burst: v.number("traffic.burst") as u32,
        checksum_offload: v.word("traffic.offload") == "csum",
        gso: v.number_or_word("traffic.gso").map(|mss| mss as u16),
        mtu: v.number("traffic.mtu") as u32,
    };
    if options.own_times {
        let seconds = frames.span().as_secs_f64() * f64::from(options.rounds);
        if seconds > MAX_SECONDS {
            return Err(format!(
                "{file}: at its own times it lasts {seconds:.0} s, and {MAX_SECONDS} are the most; send it with --times full"
            ));
        }
    }
    let mut scratch = Vec::new();
    for (i, (_, frame)) in frames.iter().enumerate() {
        sendable(frame, &options, &setup.nic, &mut scratch)
            .map_err(|why| format!("{file}: frame {} has {} bytes, {why}", i + 1, frame.len()))?;
    }
    Ok(Load::Replay { frames: Arc::clone(frames), options })
}

/// Whether driver and device can send a frame; if not, why, and what to do.
fn sendable(frame: &[u8], options: &ReplayOptions, nic: &Nic, scratch: &mut Vec<u8>) -> Result<(), String> {
    let mtu = options.mtu;
    if !options.is_over(frame) {
        if frame.len() > nic.max_frame as usize {
            return Err(format!("more than the device's {} (`nic.max_frame`)", nic.max_frame));
        }
        return Ok(());
    }
    let Some(size) = options.gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows; --gso MSS sends it as a large send, --set traffic.mtu=N allows longer frames"
        ));
    };
    scratch.clear();
    scratch.extend_from_slice(frame);
    let gso = options.prepare(scratch).and_then(|todo| todo.gso);
    let Some(gso) = gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows, and cannot be cut into segments of {size}; only whole TCP and UDP datagrams with \
             more payload than that can, no fragments"
        ));
    };
    let payload = frame.len() - usize::from(gso.header);
    let most = if nic.caps.log_max_lso == 0 { 0 } else { 1usize << nic.caps.log_max_lso };
    if payload > most {
        return Err(format!("and its payload is over the device's limit of {most} for a large send (`nic.max_lso`)"));
    }
    let segment = usize::from(gso.header) + usize::from(size);
    let header = scratch.get(12..14).map_or(14, |t| if matches!(t, [0x81, 0x00] | [0x88, 0xa8]) { 18 } else { 14 });
    if segment > mtu as usize + header {
        return Err(format!(
            "and segments of {size} (--gso) make frames of {segment}, more than an MTU of {mtu} allows"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
