//! Reads the [`Setup`] and [`Load`] of an mlx5 run from the values of its keys, and refuses values
//! that do not go together.

mod keys;

use keys::RECEIVE_KINDS;
pub(super) use keys::{CPU, KIND, NicKeys, PCIE, QueueKeys, ReceiveKeys, RunKeys};

use super::{Load, Setup};
use crate::arrivals;
use crate::host::{self, HostConfig, MAX_MEMORY};
use crate::key::Values;
use crate::open_loop::Limits;
use crate::settings::{take, words};
use crate::system::StackKeys;
use crate::{SettingError, closed_loop, refuse};
use doorbell_devices::mlx5::{Compress, Config as Nic};
use doorbell_drivers::mlx5::{Config as DriverConfig, Cqs, Recycling, RqConfig, Sizing, queue_of};
use doorbell_hal::Span;
use doorbell_layout::mlx5::{Caps, CompressionLayout};
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_sim::traffic::arrivals::Program;
use doorbell_sim::traffic::{Frames, flow_headers};
use std::sync::Arc;

/// Bytes in front of a received frame (`NET_SKB_PAD`).
const HEADROOM: u32 = 64;
/// The same in a page that a program looks at (`XDP_PACKET_HEADROOM`), and those behind the frame
/// (`struct skb_shared_info`).
const XDP_HEADROOM: u32 = 256;
const XDP_TAIL: u32 = 320;
const PAGE: u32 = 4096;
/// Bytes of an object of DPDK's pool: 64 of the pool, 128 of `struct rte_mbuf`, 128 of headroom
/// (`RTE_PKTMBUF_HEADROOM`), and 2048 for the frame (`RTE_MBUF_DEFAULT_BUF_SIZE`).
const OBJECT: u32 = 2368;
const OBJECT_HEADROOM: u32 = 128;
const OBJECT_FRAME: u32 = 2048;
const REDIRECTS: Option<Program> = Some(Program::Redirect);
/// Cores with a channel of each of two ports: half of the EQs.
const MAX_REDIRECTING: u16 = 126;

/// Reads the [`Setup`] from `v`. It does not depend on the capture.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, SettingError> {
    let there = v.number("cpu.cores") as u16;
    let cores = match v.number_or_word("run.cores") {
        _ if closed_loop::KINDS.contains(&v.word("traffic.kind")) => 1,
        None => there,
        Some(wanted) if wanted as u16 > there => {
            refuse!("`run.cores` is {wanted}, but the platform has {there} (`cpu.cores`)");
        }
        Some(wanted) => wanted as u16,
    };
    let (bar, memory_base) = (
        if v.word("pcie.bar") == "below_4gib" { 0xf000_0000 } else { 0x3800_0000_0000 },
        if v.word("cpu.memory") == "below_4gib" { 64 << 20 } else { 4 << 30 },
    );
    let (d, r, (pcie, latencies)) = (QueueKeys::of(v), RunKeys::of(v), host::pcie(v));
    let rq = receives(v)?;
    let redirects = rq.is_some_and(|rq| rq.xdp) && ReceiveKeys::of(v).xdp == REDIRECTS;
    if redirects && cores > MAX_REDIRECTING {
        refuse!(
            "`run.cores` is {cores}, but a core has a channel of each port with \
             `driver.xdp=redirect`: {MAX_REDIRECTING} at most"
        );
    }
    Ok(Setup {
        host: HostConfig::of(v, Span::from_ms(15_000)),
        cores,
        pcie,
        latencies,
        bar,
        memory_base,
        nic: nic(&NicKeys::of(v), cores, redirects),
        driver: DriverConfig {
            mpwqe: d.mpwqe,
            sizing: d.sizing,
            log_sq: log2(d.queue),
            log_cq: log2(d.cq),
            cq_period_us: r.moderation_period,
            cq_max_count: r.moderation_count,
            cqs: d.armed_cqs,
            rq,
            bql: StackKeys::of(v).bql,
            vector: 0,
            second: redirects.then_some(cores),
        },
    })
}

/// Returns the receive queue of each channel, if frames come in.
fn receives(v: &Values) -> Result<Option<RqConfig>, SettingError> {
    if !RECEIVE_KINDS.contains(&v.word("traffic.kind")) {
        return Ok(None);
    }
    let (r, ring) = (ReceiveKeys::of(v), v.number("driver.rx_ring"));
    if f64::from(r.bulk) > ring {
        refuse!("`driver.rx_bulk` is {}, more than the queue's {ring} (`driver.rx_ring`)", r.bulk);
    }
    if v.number("driver.armed_cqs") < 3.0 {
        refuse!("`driver.armed_cqs` is 1, but frames that come in need the receive queue's CQ");
    }
    let arrive = v.word("traffic.kind") == arrivals::KIND;
    let (buffer, xdp) = (longest(&r).next_multiple_of(64), arrive && r.xdp.is_some());
    let mempool = xdp && r.recycling == Recycling::Mempool;
    let (headroom, align) = match (xdp, mempool) {
        (_, true) => (OBJECT_HEADROOM, OBJECT),
        (true, _) => (XDP_HEADROOM, PAGE),
        _ => (HEADROOM, (buffer + HEADROOM).next_power_of_two()),
    };
    if mempool && buffer > OBJECT_FRAME {
        let most = OBJECT_FRAME - HEADER as u32;
        refuse!(
            "`driver.rx_recycling=mempool` has buffers of {OBJECT_FRAME} B: `driver.mtu` is at \
             most {most} then"
        );
    }
    if xdp && !mempool && buffer + XDP_HEADROOM + XDP_TAIL > PAGE {
        let most = PAGE - XDP_HEADROOM - XDP_TAIL - HEADER as u32;
        refuse!("`driver.xdp` has a page for each frame: `driver.mtu` is at most {most} then");
    }
    if xdp && v.number("driver.armed_cqs") < 5.0 {
        refuse!("`driver.xdp` needs the CQ of XDP's send queue: `driver.armed_cqs=5`");
    }
    if xdp && v.word("nic.min_inline") != "none" {
        refuse!("`driver.xdp` needs a device that wants no headers inline: `nic.min_inline=none`");
    }
    if mempool && r.xdp == REDIRECTS {
        refuse!("`driver.xdp=redirect` is Linux's: `driver.rx_recycling` is cache or pool then");
    }
    let strides = v.word("nic.striding") == "on" && r.striding;
    if mempool && strides {
        refuse!("`driver.rx_recycling=mempool` has a buffer for each frame: `driver.striding=off`");
    }
    // Linux builds the packet in the stride (`mlx5e_rx_get_linear_stride_sz`).
    let linear = (buffer + headroom + XDP_TAIL).next_power_of_two();
    if strides && linear > PAGE {
        let most = PAGE - headroom - XDP_TAIL - HEADER as u32;
        refuse!(
            "`driver.striding` has each frame in one page: `driver.mtu` is at most {most} then"
        );
    }
    let log_stride = if xdp { PAGE.ilog2() } else { linear.ilog2() } as u8;
    Ok(Some(RqConfig {
        log_size: log2(r.ring),
        log_stride: strides.then_some(log_stride),
        recycling: r.recycling,
        compression: r.compression,
        buffer,
        align,
        headroom,
        bulk: r.bulk,
        padding: r.padding,
        xdp,
        adaptive: r.adaptive,
        cq_period_us: r.period,
        cq_max_count: r.count,
    }))
}

/// Returns the longest frame received, without FCS.
fn longest(r: &ReceiveKeys) -> u32 {
    r.mtu + HEADER as u32
}

/// Reads frames that arrive from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// A frame is too long.
pub fn arriving(
    v: &Values,
    setup: &Setup,
    frames: Option<&Arc<Frames>>,
) -> Result<arrivals::Load, SettingError> {
    let mbit_per_s = v.number("nic.port_rate") * 1e3;
    let longest = HEADER as u32 + mtu(v, setup)?;
    let mut load = arrivals::Load::of(v, (longest, "driver.mtu"), mbit_per_s, frames)?;
    load.program = ReceiveKeys::of(v).xdp;
    if v.number_or_word("traffic.flows").is_none() {
        let (key, cores) = (Toeplitz::new(&MICROSOFT), usize::from(setup.cores));
        let comes_to = |flow| queue_of(key.flow(&flow_headers(flow)), cores);
        load.flows = arrivals::flow_on_each(cores, comes_to);
    }
    let advice = "fewer cores (`run.cores`), a shorter queue (`driver.rx_ring`)";
    setup.host.fits(super::memory_of_arrivals(setup), host::MAX_OF_ALL, advice)?;
    Ok(load)
}

/// Returns the longest IP packet.
///
/// # Errors
/// The port does not take it.
fn mtu(v: &Values, setup: &Setup) -> Result<u32, SettingError> {
    let (r, most) = (ReceiveKeys::of(v), setup.nic.max_frame);
    if longest(&r) > most {
        refuse!("`driver.mtu` is {}, but `nic.max_frame` allows frames of {most} B", r.mtu);
    }
    Ok(r.mtu)
}

/// Reads TCP from `v`.
///
/// # Errors
/// This machine cannot carry it.
pub fn connected(v: &Values, setup: &Setup) -> Result<closed_loop::Load, SettingError> {
    // IP and TCP headers without options.
    let load = closed_loop::Load::of(v, mtu(v, setup)? - 40)?;
    if load.cores() > v.number("cpu.cores") as usize {
        refuse!("`run.application` is own_core, but the platform has one core (`cpu.cores`)");
    }
    let advice = "fewer connections (`traffic.connections`), a smaller window (`traffic.window`), \
                  a shorter queue (`driver.rx_ring`)";
    setup.host.fits(super::memory_of_tcp(setup, &load), MAX_MEMORY, advice)?;
    Ok(load)
}

words! {
    Option<CompressionLayout> {
        "off" => None, "basic" => Some(CompressionLayout::Basic),
        "enhanced" => Some(CompressionLayout::Enhanced),
    }
    Recycling { "cache" => Self::Cache, "pool" => Self::Pool, "mempool" => Self::Mempool }
    Sizing { "padded" => Self::Padded, "fit" => Self::Fit }
    Option<Program> {
        "off" => None, "drop" => Some(Program::Drop), "read" => Some(Program::Read),
        "tx" => Some(Program::Send), "redirect" => Some(Program::Redirect),
    }
    Cqs { "1" => Self::Send, "3" => Self::Three, "5" => Self::Five }
}

fn nic(n: &NicKeys, cores: u16, second_port: bool) -> Nic {
    let mut nic = Nic {
        caps: Caps {
            enhanced_mpw: n.enhanced_mpw,
            max_wqe_sz_sq: n.max_wqe,
            min_inline: match n.min_inline {
                "l2" => 1,
                "ip" => 2,
                "tcp_udp" => 3,
                _ => 0,
            },
            log_max_lso: if n.max_lso > 0.0 { log2(n.max_lso * 1024.0) } else { 0 },
            csum: true,
            vlan: true,
            swp: true,
            striding: n.striding,
            compression: n.compression,
            second_port,
        },
        // 8 bits take 8000 ps at 1 Gbit/s.
        wire_byte_1024th_ps: (8000.0 * 1024.0 / n.port_rate).round() as u32,
        // One for each core's queue, of each port.
        vectors: (cores << u16::from(second_port)).max(Nic::CONNECTX.vectors),
        ..Nic::CONNECTX
    };
    take!(nic; n: fetch_chunk fetch_ahead refetch);
    take!(nic; n: packet_time pipeline_delay max_frame writes_outstanding);
    nic.compress = Compress { pressure: n.cqe_pressure, wait: n.cqe_wait, most: n.cqe_most };
    (nic.rx_fifo, nic.rx_fetch_chunk) = (n.rx_fifo << 10, n.rx_fetch_chunk);
    nic
}

fn log2(power: f64) -> u8 {
    (power as u64).max(1).ilog2() as u8
}

/// Reads the [`Load`] from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// This machine cannot send the traffic. The error names the frame, if it is one.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, SettingError> {
    let most = if setup.nic.caps.log_max_lso == 0 { 0 } else { 1 << setup.nic.caps.log_max_lso };
    let longest = setup.nic.max_frame;
    let limits = Limits {
        frame: (longest, "nic.max_frame"),
        tagged: longest,
        large_send: (most, "nic.max_lso"),
    };
    let load = Load::of(v, &limits, frames, setup.cores)?;
    let advice = "fewer cores (`run.cores`), a shorter queue (`driver.queue`), smaller packets \
                  (`traffic.size`)";
    setup.host.fits(super::memory_size(setup, &load), host::MAX_OF_ALL, advice)?;
    Ok(load)
}

#[cfg(test)]
mod tests;
