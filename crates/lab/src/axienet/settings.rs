//! What an axienet run is a function of, by name.

mod keys;

pub(super) use keys::{ARRIVALS, BUS, CPU, DRIVER, KIND, NIC};

use super::controllers::Any;
use super::{Load, Setup};
use crate::clock::napi::Rules as Softirq;
use crate::cpu::{costs, span, tcp_prices};
use crate::fault;
use crate::key::Values;
use crate::open::Limits;
use crate::traffic::Frames;
use crate::traffic::arrivals::{Draw, Pattern, Phase};
use crate::{closed, open};
use doorbell_bus::ProtectionGranularity;
use doorbell_bus::axi::{Latencies, Protocol, Rules, Settings};
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet as driver;
use doorbell_drivers::axienet::Coalesce;
use doorbell_hal::{Alignment, Span};
use doorbell_packet::ethernet::{HEADER, MIN_FRAME, OVERHEAD};
use std::sync::Arc;

/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 3 << 30;
/// The station's address.
const MAC: [u8; 6] = [0x00, 0x0a, 0x35, 0x01, 0x02, 0x03];

/// The [`Setup`] of these values.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, String> {
    let axi = axi(v);
    Rules::new(axi).map_err(|e| e.to_string())?;
    let latencies = Latencies {
        read: span(v, "axi.read_latency"),
        write: span(v, "axi.write_latency"),
        cpu: span(v, "axi.cpu_latency"),
    };
    let (controller, adaptive_rx) = Any::of(v);
    let whole = |key: &str| v.number(key) as u32;
    let coalesce = Coalesce {
        rx_frames: whole("driver.rx_frames"),
        rx_usecs: whole("driver.rx_usecs"),
        tx_frames: whole("driver.tx_frames"),
        tx_usecs: whole("driver.tx_usecs"),
        adaptive_rx,
    };
    let rate = whole("link.rate");
    let faults = fault::Plan::of(v, Span::from_ms(5_000));
    Ok(Setup {
        costs: costs(v),
        prices: tcp_prices(v),
        softirq: Softirq {
            budget: whole("run.budget"),
            watchdog: faults.watchdog(),
            ..Softirq::LINUX
        },
        axi,
        latencies,
        guard: if v.word("run.guard") == "byte" {
            ProtectionGranularity::Byte
        } else {
            ProtectionGranularity::Page
        },
        nic: device::Config {
            tx_memory: whole("nic.tx_memory") << 10,
            rx_memory: whole("nic.rx_memory") << 10,
            tx_checksum: checksum(v.word("nic.tx_checksum")).0,
            rx_checksum: checksum(v.word("nic.rx_checksum")).0,
            clock_mhz: whole("nic.clock"),
            delay_clocks: whole("nic.delay_clocks"),
            speed: match rate {
                10 => device::Speed::M10,
                100 => device::Speed::M100,
                _ => device::Speed::G1,
            },
            phy: None,
            ..device::Config::ZYNQMP
        },
        driver: driver::Config {
            tx_ring: whole("driver.tx_ring"),
            rx_ring: whole("driver.rx_ring"),
            mtu: whole("driver.mtu"),
            rx_memory: whole("nic.rx_memory") << 10,
            tx_checksum: checksum(v.word("nic.tx_checksum")).1,
            rx_checksum: checksum(v.word("nic.rx_checksum")).1,
            address_bits: device::Config::ZYNQMP.address_bits as u8,
            rx_place: Alignment {
                align: 64,
                offset: if v.is_on("driver.rx_align") { 2 } else { 0 },
            },
            clock_hz: whole("nic.clock") * 1_000_000,
            speed: match rate {
                10 => driver::Speed::M10,
                100 => driver::Speed::M100,
                _ => driver::Speed::M1000,
            },
            batch: v.is_on("driver.batch"),
            coalesce,
            ..driver::Config::new(MAC)
        },
        controller,
        link_rate: u64::from(rate) * 1_000_000,
        link_delay: span(v, "link.delay"),
        faults,
        cores: v.number("cpu.cores") as usize,
    })
}

/// The bus alone.
pub fn axi(v: &Values) -> Settings {
    let whole = |key: &str| v.number(key) as u32;
    Settings {
        protocol: if v.word("axi.protocol") == "axi3" { Protocol::Axi3 } else { Protocol::Axi4 },
        mhz: whole("axi.clock"),
        bits: whole("axi.width"),
        beats: whole("axi.burst"),
        reads: whole("axi.reads"),
        writes: whole("axi.writes"),
        lite_clocks: whole("axi.lite_clocks"),
    }
}

fn checksum(word: &str) -> (device::Checksum, driver::Checksum) {
    match word {
        "full" => (device::Checksum::Full, driver::Checksum::Full),
        "none" => (device::Checksum::None, driver::Checksum::None),
        _ => (device::Checksum::CsumPartial, driver::Checksum::CsumPartial),
    }
}

/// The [`Load`] of these values; `frames` are those of the capture they name.
///
/// # Errors
/// Traffic that this machine cannot carry.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let longest = setup.driver.mtu + HEADER as u32;
    let load = match v.word("traffic.kind") {
        "pktgen" | "pcap" => {
            let limits =
                Limits { frame: (longest, "driver.mtu"), large_send: (0, "AXI Ethernet has none") };
            Load::Open(open::Load::of(v, &limits, frames)?)
        }
        "arrivals" => Load::Arrivals(arrivals(v, longest)?),
        _ => {
            let mut load = closed::Load::of(v, setup.driver.mtu - 40)?;
            if load.socket.large_send != crate::traffic::tcp::LargeSend::Off {
                return Err(
                    "AXI Ethernet cannot cut large sends; set `traffic.large_send` off".to_owned()
                );
            }
            load.beside = v.number("traffic.beside") as u16;
            load.merges_backlog = v.word("traffic.backlog") == "merged";
            Load::Closed(load)
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

fn arrivals(v: &Values, longest: u32) -> Result<super::Arrivals, String> {
    let size = v.number("traffic.arrival_size") as u32;
    if size > longest {
        return Err(format!(
            "`traffic.arrival_size` is {size} B, but `driver.mtu` allows {longest}"
        ));
    }
    let ms = |key: &str| Span::from_ps((v.number(key) * 1e9).round() as u64);
    let (warmup, duration, hold) =
        (ms("traffic.warmup"), ms("traffic.duration"), ms("traffic.hold"));
    let all = warmup + duration;
    // A frame with preamble, FCS and gap, at this share of the link.
    let gap = |load: f64, size: u32| {
        let ps = f64::from(8 * (size.max(MIN_FRAME as u32) + OVERHEAD as u32))
            / v.number("link.rate")
            * 1e6;
        Span::from_ps((ps * 100.0 / load).round() as u64)
    };
    let (high, low) = (gap(v.number("traffic.load"), size), gap(v.number("traffic.low"), size));
    let always = |pattern| vec![Phase { lasts: all, pattern, size }];
    let in_turn = |a: Pattern, b: Pattern| {
        let turns = all.ps().div_ceil(hold.ps().max(1));
        (0..turns)
            .map(|i| Phase { lasts: hold, pattern: if i % 2 == 0 { a } else { b }, size })
            .collect()
    };
    let seed = v.number("run.seed") as u64;
    let phases = match v.word("traffic.pattern") {
        "poisson" => always(Pattern::Random(high)),
        "bursts" => {
            let every = Span::from_ps((v.number("traffic.every") * 1e6).round() as u64);
            always(Pattern::Bursts(v.number("traffic.frames") as u32, every))
        }
        "steps" => in_turn(Pattern::Random(high), Pattern::Random(low)),
        "on_off" => in_turn(Pattern::Random(high), Pattern::Silence),
        "random" => random(all, longest, &gap, &mut Draw::new(seed)),
        _ => always(Pattern::Even(high)),
    };
    Ok(super::Arrivals { warmup, duration, phases, seed })
}

/// Phases by the seed: 2 to 40 ms each, of any kind, size and load.
fn random(all: Span, longest: u32, gap: &impl Fn(f64, u32) -> Span, draw: &mut Draw) -> Vec<Phase> {
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
