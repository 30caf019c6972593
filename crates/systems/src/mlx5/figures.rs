//! The published figures of Enhanced TX MPWQE, measured on the models.
//!
//! All rows come from the profile `mlx5-gen2`; Gen3 rows only change `pcie.generation`. One
//! constant is fitted: the latency of memory, on the sum of Gen3's full rates.
//!
//! Instructions are those of this driver alone, by Callgrind; the source's are of the whole kernel
//! path, so only the differences compare.

use super::{Board as Machine, Setup, settings::setup};
use crate::published::{
    Curve, Headline, MeasureError, Measuring, ModelChoice, OtherConstant, SystemFigures,
};
use doorbell_bus::{Pcie, Platform, pcie::Rules};
use doorbell_devices::mlx5::Mlx5 as Device;
use doorbell_drivers::mlx5::{Channel, Hca};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::{Alignment, Host};
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, Packet};

/// Instructions a packet of this driver, 64-byte packets in bursts of 32, by `cargo bench -p
/// doorbell-drivers --bench instructions`.
pub const SEND_INSTRUCTIONS: f64 = 192.9;
/// The same with sessions.
pub const MPWQE_INSTRUCTIONS: f64 = 141.3;

pub(super) static FIGURES: SystemFigures = SystemFigures {
    name: "mlx5",
    profile: "mlx5-gen2",
    rows: include_str!("../../published/mlx5.toml"),
    headline: Some(
        Headline::of("mlx5-pktgen-64", "driver.mpwqe=off", "driver.mpwqe=on")
            .over(Curve {
                title: "bytes toward the device, a packet",
                scenario: "mlx5-pktgen-64",
                key: "traffic.burst",
                values: &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0],
                show: "pcie_down_tlp_bytes+pcie_down_pad_bytes",
            })
            .waiting("mlx5-pktgen-64"),
    ),
    // The generation is each row's own. The longest WQE is a capability without which the driver
    // does not attach.
    left_out: &["pcie.generation", "nic.max_wqe"],
    constants: &[
        counted("native.send", SEND_INSTRUCTIONS),
        counted("native.mpwqe", MPWQE_INSTRUCTIONS),
    ],
    // The rules that nobody published, chosen by rows (docs/mlx5.md).
    choices: &[
        ModelChoice::of_profile(
            "pcie.gap",
            &["none", "dllp", "completion"],
            &["mlx5.rate_gen2_off", "mlx5.rate_gen2_on"],
        ),
        ModelChoice::of_profile("pcie.tags", &["32", "64", "128", "256"], &["mlx5.rate_gen3_off"]),
        ModelChoice::of_profile(
            "nic.fetch_chunk",
            &["64", "256", "512", "1024"],
            &["mlx5.pcie_inbound_gen2_on", "mlx5.saved_bytes_gen2", "mlx5.saved_bytes_gen3"],
        ),
    ],
    measure,
};

/// Receive, measured by others on other machines.
pub(super) static HARDWARE: SystemFigures = SystemFigures {
    name: "hardware",
    profile: "mlx5-xdp-paper",
    rows: include_str!("../../published/hardware.toml"),
    headline: None,
    // Bursts come to another card, at another rate, under a whole stack.
    left_out: &["nic.port_rate", "cpu.rx_post", "memory.ways"],
    constants: &[],
    choices: &[
        ModelChoice::of_profile(
            "pcie.gap",
            &["none", "dllp", "completion", "packed"],
            &["hardware.drop_4", "hardware.drop_5", "hardware.drop_6", "hardware.tx_256_4"],
        ),
        ModelChoice::of_profile("nic.rx_fetch_chunk", &["64", "128", "256"], FULL_LINK),
        ModelChoice::of_profile("pcie.tags", &["32", "256"], &["hardware.tx_256_4"]),
        ModelChoice::of_profile(
            "nic.rx_writes",
            &["64", "256"],
            &["hardware.tx_256_5", "hardware.tx_256_6"],
        ),
    ],
    measure: |_, figure| Err(MeasureError::unknown_figure(figure)),
};

/// The rows in which the link is full to the last byte.
const FULL_LINK: &[&str] = &["hardware.drop_4", "hardware.drop_5", "hardware.drop_6"];

const fn counted(key: &'static str, value: f64) -> OtherConstant {
    let source = "Callgrind: cargo bench -p doorbell-drivers --bench instructions, burst 32";
    OtherConstant { key, value, unit: "instructions", source }
}

fn measure(f: &dyn Measuring, figure: &str) -> Result<f64, MeasureError> {
    // The source's instructions over the modelled cycles.
    let ipc = |instructions: f64, run| Ok(instructions / f.number(run, "cycles")?);
    match figure {
        "ipc_off" => ipc(429.0, "single_off"),
        "ipc_on" => ipc(329.0, "single_on"),
        "tso_sessions" => sessions(f, Kind::Tso),
        "nonlinear_sessions" => sessions(f, Kind::Nonlinear),
        "small_linear_tcp_sessions" => sessions(f, Kind::SmallLinear),
        "instructions_off" => f.constant("native.send"),
        "instructions_on" => f.constant("native.mpwqe"),
        _ => Err(MeasureError::unknown_figure(figure)),
    }
}

/// Returns the sessions opened by packets of a kind: 64 in one batch, or a small one alone.
fn sessions(f: &dyn Measuring, kind: Kind) -> Result<f64, MeasureError> {
    let setup = setup(&f.values())?;
    count_sessions(&setup, kind).ok_or_else(|| MeasureError::new("the packets could not be queued"))
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
