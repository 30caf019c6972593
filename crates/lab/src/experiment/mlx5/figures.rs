//! The published figures of Enhanced TX MPWQE, measured on the models.
//!
//! All rows come from the profile `mlx5-gen2`; Gen3 rows only change `pcie.generation`. One
//! constant is fitted: the usable share of the link, on the full rate with the switch off.
//!
//! * Inbound bytes a packet are TLPs and DLLPs toward the device at the published rate. A
//!   utilization is those bytes at that rate over the raw link.
//! * Rates are those of the steady window at full speed.
//! * Instructions are those of this driver alone, by Callgrind; the source's are of the whole
//!   kernel path, so only the differences compare.

use super::{Board as Machine, Load, Setup, run, settings::setup};
use crate::config::key::Values;
use crate::experiment::figures::{
    Choice, Constant, Constants, Curve, Headline, MeasureError, ProfileRuns, SystemFigures,
};
use doorbell_bus::{Pcie, Platform, pcie::Rules};
use doorbell_devices::mlx5::Mlx5 as Device;
use doorbell_drivers::mlx5::{Channel, Hca};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::{Alignment, Host, Span};
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, Packet};
use doorbell_sim::Unwatched;

/// Packets of a run at a fixed rate: 200 bursts on each of 24 cores.
const PACKETS: u64 = 24 * 32 * 200;
/// Packets of a run at full speed: more, because a fit's result must not depend on which queue
/// happens to stop first.
const PACKETS_AT_FULL_SPEED: u64 = 24 * 32 * 500;
/// The frame size of the published runs, in bytes.
const SIZE: u32 = 64;
const BURST: u32 = 32;

/// Instructions a packet of this driver at that size and burst, by `cargo bench -p doorbell-drivers
/// --bench instructions`.
pub const SEND_INSTRUCTIONS: f64 = 190.1;
/// The same with sessions.
pub const MPWQE_INSTRUCTIONS: f64 = 148.0;

pub(crate) type Figures = ProfileRuns<Seen>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    inbound_bytes: f64,
    mpps: f64,
    raw_bytes_per_s: f64,
}

/// One of the published runs.
#[derive(Clone, Copy, Debug)]
struct Case {
    generation: f64,
    mpwqe: bool,
    cores: Option<f64>,
    /// Packets a second; `None` for full speed.
    rate: Option<f64>,
}

impl Figures {
    fn seen(&mut self, c: &Constants, case: Case) -> Result<Seen, MeasureError> {
        // Without sessions there is none to size.
        let c = &if case.mpwqe { c.clone() } else { c.without(&["driver.sizing"]) };
        let reads: Vec<&str> =
            c.iter().map(|c| c.key.as_str()).filter(|k| !k.starts_with("native.")).collect();
        let values = self.profile.with(c);
        let name = format!("{case:?}");
        self.runs.get(&name, c, &reads, |_| measure(&values, case)).copied()
    }

    /// Returns the sessions opened by packets of a kind: 64 in one batch, or a small one alone.
    fn sessions(&self, c: &Constants, kind: Kind) -> Result<f64, MeasureError> {
        let setup = setup(&self.profile.with(c))?;
        count_sessions(&setup, kind)
            .ok_or_else(|| MeasureError::new("the packets could not be queued"))
    }
}

fn measure(values: &Values, case: Case) -> Result<Seen, MeasureError> {
    let mut values = values.clone();
    let sets = [
        format!("pcie.generation={}", case.generation),
        format!("driver.mpwqe={}", if case.mpwqe { "on" } else { "off" }),
        format!("run.cores={}", case.cores.map_or("all".into(), |n| n.to_string())),
    ];
    for s in sets {
        values.set(&s)?;
    }
    let setup = setup(&values)?;
    let packets = if case.rate.is_some() { PACKETS } else { PACKETS_AT_FULL_SPEED };
    let load = Load::pktgen(SIZE, BURST, packets).at(case.rate);
    let o = run(&setup, &load, &mut Unwatched)?.sound()?;
    let rules = Rules::new(setup.pcie)?;
    let second = Span::from_ms(1000);
    Ok(Seen {
        inbound_bytes: (o.counts.ledger.pcie_down_tlp_bytes + o.counts.ledger.pcie_down_dllp_bytes)
            as f64
            / o.counts.packets as f64,
        mpps: o.window.rate() * 1e-6,
        raw_bytes_per_s: rules.raw_byte_time().capacity(second) as f64,
    })
}

/// The packets that a TCP stream makes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Large sends.
    Tso,
    /// A header in the head, payload in a fragment.
    Nonlinear,
    /// Small and linear: an acknowledgement, a short request.
    SmallLinear,
}

fn count_sessions(setup: &Setup, kind: Kind) -> Option<f64> {
    let rules = Rules::new(setup.pcie).ok()?;
    let platform = Platform::new(setup.memory_base, 16 << 20, setup.host.guard);
    let pcie = Pcie::new(platform, rules, setup.latencies, setup.bar);
    let mut m = Machine::new(pcie, Device::new(setup.nic), setup.host.costs, 1);
    let mut config = setup.driver;
    config.mpwqe = true;
    let hca = Hca::open(&mut m).ok()?;
    let mut channel = Channel::open(&mut m, hca, &config).ok()?;
    let packets = if matches!(kind, Kind::SmallLinear) { 1 } else { 64 };
    for i in 1..=packets {
        let p = tcp_packet(&mut m, kind)?;
        if !matches!(channel.transmit(&mut m, p, i < packets), Tx::Ok) {
            return None;
        }
    }
    Some(channel.stats().mpwqe_blks as f64)
}

fn tcp_packet(m: &mut Machine, kind: Kind) -> Option<Packet> {
    const HEADER: u32 = 54;
    let payload = match kind {
        Kind::Tso => 9000,
        Kind::Nonlinear => 1000,
        Kind::SmallLinear => 6,
    };
    let in_head = if matches!(kind, Kind::SmallLinear) { HEADER + payload } else { HEADER };
    let head = m.buffer(in_head, Alignment::ANY).ok()?;
    m.bytes_mut(&head, 0..in_head, |b| {
        b.fill(0);
        b[12] = 0x08;
        b[14] = 0x45;
        b[16..18].copy_from_slice(&((HEADER - 14 + payload) as u16).to_be_bytes());
        b[23] = 6;
        b[46] = 0x50;
    });
    let mut p = Packet::linear(Fragment::whole(head));
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    if in_head == HEADER {
        let frag = m.buffer(payload, Alignment::ANY).ok()?;
        p.more = Some(Box::new(NonLinear { frags: vec![Fragment::whole(frag)], list: Vec::new() }));
    }
    if matches!(kind, Kind::Tso) {
        p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 1448, header: HEADER as u16 });
    }
    Some(p)
}

impl SystemFigures for Figures {
    const PROFILE: &str = "mlx5-gen2";
    const ROWS: &str = include_str!("../figures/published/mlx5.toml");
    const HEADLINE: Headline =
        Headline::of("mlx5-pktgen-64", "driver.mpwqe=off", "driver.mpwqe=on")
            .over(Curve {
                title: "bytes toward the device, a packet",
                scenario: "mlx5-pktgen-64",
                key: "traffic.burst",
                values: &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0],
                show: "pcie_down_tlp_bytes+pcie_down_dllp_bytes",
            })
            .waiting("mlx5-pktgen-64");
    /// The generation is each row's own. The longest WQE is a capability without which the driver
    /// does not attach.
    const LEFT_OUT: &[&str] = &["pcie.generation", "nic.max_wqe"];

    fn other_constants(&self) -> Vec<Constant> {
        let callgrind = "Callgrind: cargo bench -p doorbell-drivers --bench instructions, burst 32";
        vec![
            Constant::cited("native.send", SEND_INSTRUCTIONS, "instructions", callgrind),
            Constant::cited("native.mpwqe", MPWQE_INSTRUCTIONS, "instructions", callgrind),
        ]
    }

    /// Returns the rules that nobody published, chosen by the bytes of Gen2 (docs/mlx5.md).
    fn choices(&self) -> Vec<Choice> {
        const ROWS: [&str; 3] =
            ["mlx5.pcie_inbound_gen2_off", "mlx5.pcie_inbound_gen2_on", "mlx5.saved_bytes_gen2"];
        let choice = |key, alternatives: &[&str]| self.profile.choice(key, alternatives, &ROWS);
        let mut sizing = choice("driver.sizing", &["padded", "fit"]);
        sizing.source = "linux v5.10 pads; docs/mlx5.md compares".into();
        vec![
            choice("pcie.dllp", &["none", "timer", "per_request", "flat"]),
            choice("pcie.completions", &["merged", "rcb128", "rcb64"]),
            choice("nic.fetch_chunk", &["64", "256", "512", "1024"]),
            sizing,
            choice("nic.refetch", &["no", "yes"]),
        ]
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        match figure {
            "tso_sessions" => return self.sessions(c, Kind::Tso),
            "nonlinear_sessions" => return self.sessions(c, Kind::Nonlinear),
            "small_linear_tcp_sessions" => return self.sessions(c, Kind::SmallLinear),
            "instructions_off" => return c.get("native.send").map_err(Into::into),
            "instructions_on" => return c.get("native.mpwqe").map_err(Into::into),
            _ => {}
        }
        let unknown = || MeasureError::unknown_figure(figure);
        let (what, switch) = figure.rsplit_once('_').ok_or_else(unknown)?;
        let mpwqe = switch == "on";
        let single = Case { generation: 3.0, mpwqe, cores: Some(1.0), rate: None };
        let fixed = |generation| {
            let rate = if generation == 2.0 { 36.864e6 } else { 56.064e6 };
            Case { generation, mpwqe, cores: None, rate: Some(rate) }
        };
        let full = |generation| Case { generation, mpwqe, cores: None, rate: None };
        let cycles = |mpps: f64| c.get("cpu.frequency").map(|ghz| ghz * 1e3 / mpps);
        Ok(match what {
            "pcie_inbound_gen2" | "pcie_inbound_gen3" => {
                let case = fixed(if what.ends_with('2') { 2.0 } else { 3.0 });
                let s = self.seen(c, case)?;
                s.inbound_bytes * case.rate.unwrap_or(0.0) / s.raw_bytes_per_s * 100.0
            }
            "inbound_bytes_gen2" => self.seen(c, fixed(2.0))?.inbound_bytes,
            "inbound_bytes_gen3" => self.seen(c, fixed(3.0))?.inbound_bytes,
            "rate_gen2" => self.seen(c, full(2.0))?.mpps,
            "rate_gen3" => self.seen(c, full(3.0))?.mpps,
            "single_stream" => self.seen(c, single)?.mpps,
            "cycles" => cycles(self.seen(c, single)?.mpps)?,
            "ipc" => {
                // The source's instructions over the modelled cycles.
                let instructions = if mpwqe { 329.0 } else { 429.0 };
                instructions / cycles(self.seen(c, single)?.mpps)?
            }
            _ => return Err(unknown()),
        })
    }
}
