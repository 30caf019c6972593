//! The traffic of a workload under the laboratory's own driver, on the machine that the guest has.

use super::machine::{self, GROUPS};
use super::result::{Run, Timed, series, settings_of};
use crate::plan::of_run;
use doorbell_console::{Error, input};
use doorbell_guest::settings::Settings;
use doorbell_guest::{Device, Workload};
use doorbell_packet::ethernet::{MIN_FRAME, OVERHEAD};
use doorbell_sim::Unwatched;
use doorbell_systems::result::{Count, Group, rounded};
use doorbell_systems::{Plan, Profile, Registry};
use std::collections::BTreeMap;

/// The name of the laboratory in the place of a kernel's.
pub(super) const LABORATORY: &str = "laboratory";

/// The traffic of scenarios whose frames are sent at a pace, and no faster.
const PACED: &str = "paced";

/// Counts that a guest's are not among: nothing tells of its kernel's mappings.
const UNSEEN: [&str; 3] = ["maps", "unmaps", "tce_refused"];
/// Counts that a guest behind a hypervisor has, and one with a card has not: it has no I/O MMU.
const CALLED: [&str; 3] = ["tce_puts", "tce_hcalls", "hcalls"];

/// Key of the laboratory's driver that Linux has off where the link is as fast as the port.
const COMPRESS: &str = "driver.rx_cqe_compress";

const RING: &str = "driver.rx_ring";

/// Keys of the laboratory's driver, by the guest's settings that they stand for.
const DRIVER: [(&str, &str, &str); 16] = [
    ("mlx5", "ethtool.priv.skb_tx_mpwqe", "driver.mpwqe"),
    ("mlx5", "ethtool.priv.rx_striding_rq", "driver.striding"),
    ("mlx5", "ethtool.priv.rx_cqe_compress", COMPRESS),
    ("mlx5", "ethtool.ring.rx", RING),
    ("mlx5", "ethtool.coalesce.adaptive-rx", "driver.adaptive_rx"),
    ("mlx5", "ethtool.coalesce.rx-usecs", "driver.rx_moderation_period"),
    ("mlx5", "ethtool.coalesce.rx-frames", "driver.rx_moderation_count"),
    ("mlx5", "ethtool.coalesce.tx-usecs", "driver.moderation_period"),
    ("mlx5", "ethtool.coalesce.tx-frames", "driver.moderation_count"),
    ("axienet", "ethtool.coalesce.rx-usecs", "driver.rx_usecs"),
    ("axienet", "ethtool.coalesce.rx-frames", "driver.rx_frames"),
    ("axienet", "ethtool.coalesce.tx-usecs", "driver.tx_usecs"),
    ("axienet", "ethtool.coalesce.tx-frames", "driver.tx_frames"),
    ("e1000", "module.RxIntDelay", "driver.rx_delay"),
    ("e1000", "module.RxAbsIntDelay", "driver.rx_absolute"),
    ("e1000", "module.TxIntDelay", "driver.tx_delay"),
];

/// Returns the plan of a run with the traffic of a workload. `None` if the laboratory has none like
/// it.
///
/// # Errors
/// A setting is not the laboratory's.
pub(super) fn plan(
    registry: &Registry,
    device: &Device,
    profile: &Profile,
    settings: &Settings,
    workload: &Workload,
) -> Result<Option<Plan>, Error> {
    // A script of one's own may have the name of another.
    if !Workload::built_in().any(|w| w == *workload) {
        return Ok(None);
    }
    let base = match profile.system.name {
        "mlx5" => "mlx5-single-stream",
        "axienet" => "axienet-paced",
        "ibmvnic" => "ibmvnic-paced",
        "ibmveth" => "ibmveth-paced",
        _ => "e1000-pktgen",
    };
    let mut plan = registry.scenario(base)?.plan_on(profile)?;
    let part = machine::part(device).map(|part| format!("nic.part={part}"));
    // A guest has less than 4 GiB, and its firmware places the card's registers below. Linux has
    // net_dim on.
    let low: &[&str] = match profile.system.name {
        "mlx5" => &[
            "cpu.memory=below_4gib",
            "pcie.bar=below_4gib",
            "run.cores=1",
            "driver.adaptive_rx=on",
        ],
        _ => &[],
    };
    let of_machine = settings.iter().filter(|(key, _)| GROUPS.iter().any(|g| key.starts_with(g)));
    // In the order of the table: what a key needs comes before it.
    let of_driver = DRIVER.iter().filter_map(|(system, key, own)| {
        // The last of several is in force.
        let value = settings.iter().rfind(|(k, _)| k == key)?.1.as_str();
        Some((*own, value)).filter(|_| *system == profile.system.name)
    });
    let all = part.into_iter().chain(of_machine.map(|(k, v)| format!("{k}={v}")));
    let low = low.iter().map(|set| (*set).to_owned());
    for set in low.chain(all) {
        plan.set(&set)?;
    }
    let Some(traffic) = traffic(&plan, settings, workload)? else { return Ok(None) };
    for set in traffic {
        plan.set(&set)?;
    }
    // A guest takes settings that do nothing there.
    for (own, value) in [(COMPRESS, "off")].into_iter().chain(of_driver) {
        let key = plan.system.keys().into_iter().find(|key| key.name == own);
        if key.is_some_and(|key| plan.values.idle(key).is_none()) {
            // Linux rounds the size of a ring up.
            let ring = value.parse().ok().map(u32::next_power_of_two).filter(|_| own == RING);
            let value = ring.map_or_else(|| value.to_owned(), |ring| ring.to_string());
            plan.set(&format!("{own}={value}"))?;
        }
    }
    Ok(Some(plan))
}

/// Returns true if the device is behind hypervisor calls.
fn called(plan: &Plan) -> bool {
    matches!(plan.system.name, "ibmvnic" | "ibmveth")
}

/// Returns the settings of the laboratory's traffic that is a workload's, on the machine of a plan;
/// `None` if it has none.
fn traffic(
    plan: &Plan,
    settings: &Settings,
    workload: &Workload,
) -> Result<Option<Vec<String>>, Error> {
    let text = |name: &str| {
        let variable = workload.variables.iter().find(|v| v.name == name);
        variable.map_or("", |v| v.value(settings))
    };
    let number = |name: &str| -> Result<f64, Error> {
        let text = text(name);
        text.parse().map_err(|_| input!("--set {name}={text}: expected a number"))
    };
    let name = workload.name.as_str();
    let program = match name {
        "pktgen" | "receive" | "arrivals" => None,
        // The laboratory's mlx5 alone runs a program at the driver.
        "xdp-drop" | "xdp-tx" if plan.system.name == "mlx5" => name.strip_prefix("xdp-"),
        _ => return Ok(None),
    };
    let other = ["on_off", "capture"].contains(&text("pattern"));
    if other || text("size").contains(':') {
        return Ok(None);
    }
    let (size, packets) = (number("size")?, number("packets")?);
    if name == "pktgen" {
        let (burst, gap) = (number("burst")?, number("gap")?);
        if plan.values.word("traffic.kind") == PACED {
            let all =
                [("size", size), ("burst", burst), ("every", gap), ("bursts", packets / burst)];
            let sets = all.map(|(key, n)| format!("paced.{key}={n}"));
            return Ok((gap > 0.0).then(|| sets.into()));
        }
        let rate = if gap > 0.0 { (burst / gap).to_string() } else { "full".to_owned() };
        return Ok(Some(vec![
            format!("traffic.size={size}"),
            format!("traffic.burst={burst}"),
            format!("traffic.packets={packets}"),
            format!("traffic.rate={rate}"),
        ]));
    }
    let (interval_us, pattern) = match name {
        "arrivals" => (number("interval")? / 1e3, text("pattern")),
        _ => (number("gap")?, "bursts"),
    };
    let mut all = vec![
        "traffic.kind=arrivals".to_owned(),
        "traffic.warmup=10".to_owned(),
        format!("traffic.pattern={pattern}"),
        format!("traffic.arrival_size={size}"),
    ];
    all.extend(program.map(|p| format!("driver.xdp={p}")));
    let intervals = if pattern == "bursts" {
        let burst = number("burst")?;
        all.extend([format!("traffic.frames={burst}"), format!("traffic.every={interval_us}")]);
        packets / burst
    } else {
        let rate = plan.values.bits_per_second(plan.system.port_rate) as f64;
        let bits = 8.0 * (size.max(MIN_FRAME as f64) + OVERHEAD as f64);
        all.push(format!("traffic.load={}", bits / (interval_us * 1e-6) / rate * 100.0));
        packets
    };
    all.push(format!("traffic.duration={}", intervals * interval_us * 1e-3));
    Ok(Some(all))
}

/// Runs a plan of a workload's traffic. Returns what was measured in the form of a guest's run.
///
/// # Errors
/// The run fails.
pub(super) fn run(plan: &Plan, settings: &Settings, workload: &Workload) -> Result<Run, Error> {
    let measured = plan.system.run(&plan.values, None, &mut Unwatched);
    let m = measured.map_err(|e| of_run(LABORATORY, e))?;
    let seen = |c: &&Count| {
        let name = c.name.as_str();
        let own = matches!(c.group, Group::Bus | Group::Wire) && !UNSEEN.contains(&name);
        own && (called(plan) || !CALLED.contains(&name))
    };
    let counts: BTreeMap<String, u64> =
        m.counts.iter().filter(seen).map(|c| (c.name.clone(), c.value)).collect();
    let each = |(name, n): (&String, &u64)| (name.clone(), rounded(*n as f64 / m.packets as f64));
    let received = plan.values.word("traffic.kind") == "arrivals";
    let rate = Some(rounded(m.packets_per_s()));
    Ok(Run {
        kernel: LABORATORY.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        settings: settings_of(workload, settings),
        packets: m.packets,
        frames: m.packets,
        per_packet: counts.iter().map(each).collect(),
        ledger: counts,
        elapsed_s: rounded(m.packets as f64 / m.packets_per_s()),
        timed: Some(Timed {
            sent_per_s: rate.filter(|_| !received),
            offered_per_s: rate.filter(|_| received),
            dropped: 0,
            answers: 0,
        }),
        series: series(&m.series),
        ..Run::default()
    })
}
