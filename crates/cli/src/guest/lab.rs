//! The traffic of a workload under the laboratory's own driver, on the machine that the guest has.

use super::machine::{self, GROUPS};
use super::result::{Run, Timed};
use crate::{Error, input};
use doorbell_guest::settings::Settings;
use doorbell_guest::{Device, Workload};
use doorbell_packet::ethernet::{MIN_FRAME, OVERHEAD};
use doorbell_sim::Unwatched;
use doorbell_systems::result::{Count, Group, Measured, rounded};
use doorbell_systems::{Plan, Profile, Registry};
use std::collections::BTreeMap;

/// The name of the laboratory in the place of a kernel's.
const LABORATORY: &str = "laboratory";

/// Counts that a guest's are not among: nothing tells of its kernel's mappings, and it has no I/O
/// MMU.
const UNSEEN: [&str; 6] = ["maps", "unmaps", "tce_puts", "tce_hcalls", "tce_refused", "hcalls"];

/// Keys of the laboratory's driver, by the guest's settings that they stand for.
const DRIVER: [(&str, &str, &str); 8] = [
    ("mlx5", "ethtool.priv.skb_tx_mpwqe", "driver.mpwqe"),
    ("mlx5", "ethtool.coalesce.rx-usecs", "driver.rx_moderation_period"),
    ("mlx5", "ethtool.coalesce.rx-frames", "driver.rx_moderation_count"),
    ("mlx5", "ethtool.coalesce.tx-usecs", "driver.moderation_period"),
    ("mlx5", "ethtool.coalesce.tx-frames", "driver.moderation_count"),
    ("e1000", "module.RxIntDelay", "driver.rx_delay"),
    ("e1000", "module.RxAbsIntDelay", "driver.rx_absolute"),
    ("e1000", "module.TxIntDelay", "driver.tx_delay"),
];

/// Runs the traffic of a workload. `None` if the laboratory has none like it.
pub(super) fn beside(
    registry: &Registry,
    device: &Device,
    profile: &Profile,
    settings: &Settings,
    workload: &Workload,
) -> Result<Option<Run>, Error> {
    let Some(traffic) = traffic(profile, settings, workload)? else { return Ok(None) };
    let base = if profile.system.name == "mlx5" { "mlx5-single-stream" } else { "e1000-pktgen" };
    let mut plan = registry.scenario(base)?.plan_on(profile)?;
    let part = machine::part(device).map(|part| format!("nic.part={part}"));
    // A guest has less than 4 GiB, and its firmware places the card's registers below.
    let low: &[&str] = match profile.system.name {
        "mlx5" => &["cpu.memory=below_4gib", "pcie.bar=below_4gib", "run.cores=1"],
        _ => &[],
    };
    let of_machine = settings.iter().filter(|(key, _)| GROUPS.iter().any(|g| key.starts_with(g)));
    let of_driver = settings.iter().filter_map(|(key, value)| {
        let (.., own) = DRIVER.iter().find(|(s, k, _)| (*s, *k) == (profile.system.name, key))?;
        Some(format!("{own}={value}"))
    });
    let all = part.into_iter().chain(of_machine.map(|(k, v)| format!("{k}={v}")));
    let low = low.iter().map(|set| (*set).to_owned());
    for set in low.chain(all).chain(of_driver).chain(traffic) {
        plan.set(&set)?;
    }
    let measured = plan.system.run(&plan.values, None, &mut Unwatched);
    let measured = measured.map_err(|e| Error::of_run(LABORATORY, e))?;
    Ok(Some(run(&plan, &measured, settings, workload)))
}

/// Returns the settings of the laboratory's traffic that is a workload's; `None` if it has none.
fn traffic(
    profile: &Profile,
    settings: &Settings,
    workload: &Workload,
) -> Result<Option<Vec<String>>, Error> {
    let text = |name: &str| {
        let set = settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value);
        let default = workload.variables.iter().find(|v| v.name == name).map(|v| &v.default);
        set.or(default).map_or("", String::as_str)
    };
    let number = |name: &str| -> Result<f64, Error> {
        let text = text(name);
        text.parse().map_err(|_| input!("--set {name}={text}: expected a number"))
    };
    let arrivals = |pattern: String, milliseconds: f64, program: Option<&str>| {
        let mut all = vec!["traffic.kind=arrivals".to_owned(), pattern];
        all.push("traffic.warmup=10".to_owned());
        all.push(format!("traffic.duration={milliseconds}"));
        all.extend(program.map(|p| format!("driver.xdp={p}")));
        all
    };
    let program = match workload.name.as_str() {
        "pktgen" => {
            let (burst, gap) = (number("burst")?, number("gap")?);
            let rate = if gap > 0.0 { (burst / gap).to_string() } else { "full".to_owned() };
            let [size, packets] = ["size", "packets"].map(text);
            return Ok(Some(vec![
                format!("traffic.size={size}"),
                format!("traffic.burst={burst}"),
                format!("traffic.packets={packets}"),
                format!("traffic.rate={rate}"),
            ]));
        }
        "xdp-drop" => Some("drop"),
        "xdp-tx" => Some("tx"),
        "receive" | "arrivals" => None,
        _ => return Ok(None),
    };
    // An XDP program is run by the laboratory's mlx5 alone.
    if program.is_some() && profile.system.name != "mlx5" {
        return Ok(None);
    }
    let [size, packets] = [number("size")?, number("packets")?];
    let mut all = match (workload.name.as_str(), text("pattern")) {
        ("arrivals", pattern @ ("even" | "poisson")) => {
            let interval = number("interval")?;
            let rate = profile.all_values().bits_per_second(profile.system.port_rate) as f64;
            let bits = 8.0 * (size.max(MIN_FRAME as f64) + OVERHEAD as f64);
            let load = bits / (interval * 1e-9) / rate * 100.0;
            let pattern = format!("traffic.pattern={pattern}");
            let mut all = arrivals(pattern, packets * interval * 1e-6, program);
            all.push(format!("traffic.load={load}"));
            all
        }
        (name, _) => {
            let us = if name == "arrivals" { number("interval")? / 1e3 } else { number("gap")? };
            let burst = number("burst")?;
            let milliseconds = packets / burst * us / 1e3;
            let mut all = arrivals("traffic.pattern=bursts".to_owned(), milliseconds, program);
            all.extend([format!("traffic.frames={burst}"), format!("traffic.every={us}")]);
            all
        }
    };
    all.push(format!("traffic.arrival_size={size}"));
    Ok(Some(all))
}

/// Returns what was measured in the form of a guest's run.
fn run(plan: &Plan, m: &Measured, settings: &Settings, workload: &Workload) -> Run {
    let variables = workload.variables.iter().map(|v| (v.name.clone(), v.default.clone()));
    let seen = |c: &&Count| {
        matches!(c.group, Group::Bus | Group::Wire) && !UNSEEN.contains(&c.name.as_str())
    };
    let counts: BTreeMap<String, u64> =
        m.counts.iter().filter(seen).map(|c| (c.name.clone(), c.value)).collect();
    let each = |(name, n): (&String, &u64)| (name.clone(), rounded(*n as f64 / m.packets as f64));
    let received = plan.values.word("traffic.kind") == "arrivals";
    let rate = Some(rounded(m.packets_per_s()));
    Run {
        kernel: LABORATORY.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        settings: variables.chain(settings.iter().cloned()).collect(),
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
        side: None,
        origin: None,
        device_counters: BTreeMap::new(),
        instructions: None,
        modules: BTreeMap::new(),
        calls: BTreeMap::new(),
        per_transmit: BTreeMap::new(),
        per_poll: BTreeMap::new(),
        functions: Vec::new(),
        latency_ns: BTreeMap::new(),
        output: String::new(),
    }
}
