//! Reads the inputs of an axienet run from the values of its keys.

mod keys;

pub(super) use keys::{ArrivalKeys, BusKeys, CPU, DriverKeys, KIND, NicKeys};

use super::{Load, Setup, controllers::Any};
use crate::host::{self, HostConfig, MAX_MEMORY};
use crate::key::Values;
use crate::open_loop::Limits;
use crate::settings::{Field, take, words};
use crate::system::StackKeys;
use crate::{SettingError, refuse};
use crate::{closed_loop, open_loop};
use doorbell_bus::axi::{Latencies, Protocol, Rules, Settings};
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet as driver;
use doorbell_hal::{Alignment, Span};
use doorbell_packet::ethernet::{HEADER, MIN_FRAME, OVERHEAD};
use doorbell_sim::traffic::Frames;
use doorbell_sim::traffic::arrivals::{Pattern, Phase, Rng};
use std::sync::Arc;

/// The station's address.
const MAC: [u8; 6] = [0x00, 0x0a, 0x35, 0x01, 0x02, 0x03];

/// Reads the [`Setup`] from `v`.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, SettingError> {
    let axi = axi(v);
    Rules::new(axi).map_err(host::refused)?;
    let (b, n, d) = (BusKeys::of(v), NicKeys::of(v), DriverKeys::of(v));
    let latencies = Latencies { read: b.read_latency, write: b.write_latency, cpu: b.cpu_latency };
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

/// Reads the settings of the bus alone.
pub fn axi(v: &Values) -> Settings {
    let b = BusKeys::of(v);
    Settings {
        protocol: if b.protocol == "axi3" { Protocol::Axi3 } else { Protocol::Axi4 },
        mhz: b.clock,
        bits: b.width,
        beats: b.burst,
        reads: b.reads,
        writes: b.writes,
        lite_clocks: b.lite_clocks,
    }
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
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, SettingError> {
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
        "arrivals" => Load::Arrivals(arrivals(v, longest)?),
        _ => {
            let mut load = closed_loop::Load::of(v, setup.driver.mtu - 40)?;
            load.beside = ArrivalKeys::of(v).beside;
            load.merges_backlog = ArrivalKeys::of(v).backlog == "merged";
            Load::Closed(load)
        }
    };
    let advice = "fewer connections (`traffic.connections`), a smaller window (`traffic.window`), \
                  shorter rings";
    setup.host.fits(super::memory_size(setup, &load), MAX_MEMORY, advice)?;
    Ok(load)
}

fn arrivals(v: &Values, longest: u32) -> Result<super::Arrivals, SettingError> {
    let (t, n) = (ArrivalKeys::of(v), NicKeys::of(v));
    let (size, closed_loop::Keys { warmup, duration, .. }) =
        (t.arrival_size, closed_loop::Keys::of(v));
    if size > longest && t.pattern != "random" {
        refuse!("`traffic.arrival_size` is {size} B, but `driver.mtu` allows {longest}");
    }
    let all = warmup + duration;
    // The interval of frames with preamble, FCS and gap at a share of the link.
    let gap = |load: f64, size: u32| {
        let ps =
            f64::from(8 * (size.max(MIN_FRAME as u32) + OVERHEAD as u32)) / f64::from(n.rate) * 1e6;
        Span::from_ps((ps * 100.0 / load).round() as u64)
    };
    let (high, low) = (gap(t.load, size), gap(t.low, size));
    let always = |pattern| vec![Phase { lasts: all, pattern, size }];
    let in_turn = |a: Pattern, b: Pattern| {
        let hold = t.hold.ps().max(1);
        // The load ends with the measured time, also amid a phase.
        let phase = |i: u64| Phase {
            lasts: Span::from_ps(hold.min(all.ps() - i * hold)),
            pattern: if i.is_multiple_of(2) { a } else { b },
            size,
        };
        (0..all.ps().div_ceil(hold)).map(phase).collect()
    };
    let seed = v.number("run.seed") as u64;
    let phases = match t.pattern {
        "poisson" => always(Pattern::Random(high)),
        "bursts" => always(Pattern::Bursts(t.frames, t.every)),
        "steps" => in_turn(Pattern::Random(high), Pattern::Random(low)),
        "on_off" => in_turn(Pattern::Random(high), Pattern::Silence),
        "random" => random(all, longest, &gap, &mut Rng::new(seed)),
        _ => always(Pattern::Even(high)),
    };
    Ok(super::Arrivals { warmup, duration, phases, seed })
}

/// Draws phases: 2 to 40 ms each, of any kind, size and load.
fn random(all: Span, longest: u32, gap: &impl Fn(f64, u32) -> Span, draw: &mut Rng) -> Vec<Phase> {
    let mut phases = Vec::new();
    let mut left = all.ps();
    while left > 0 {
        let lasts = ((draw.between(2.0, 40.0) * 1e9) as u64).min(left);
        left -= lasts;
        let size = [60, 256, 590, longest][draw.one_of(4) as usize].min(longest);
        let load = draw.between(0.05, 100.0);
        let pattern = match draw.one_of(5) {
            0 => Pattern::Silence,
            1 => Pattern::Even(gap(load, size)),
            2 => {
                let frames = draw.between(2.0, 200.0) as u32;
                let every = Span::from_ps(gap(load, size).ps() * u64::from(frames));
                Pattern::Bursts(frames, every)
            }
            _ => Pattern::Random(gap(load, size)),
        };
        phases.push(Phase { lasts: Span::from_ps(lasts), pattern, size });
    }
    phases
}
