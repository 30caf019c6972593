//! `ethtool -S`: a head line, then `name: value` for each counter; and what `ethtool_stats.pl`
//! makes of it, numbers a second.

use super::{Kind, Misfit, Reading, Readings};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    for (at, line) in text.lines().enumerate() {
        // Heads end in a colon: `NIC statistics:`, `Standard stats for eth0:`.
        let Some((name, value)) = line.trim().rsplit_once(':') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if value.is_empty() {
            continue;
        }
        let value: u64 = value.parse().map_err(|_| {
            Misfit::at(at + 1, format!("`{name}` is `{value}`, which is no whole number"))
        })?;
        all.counters.insert(name.to_owned(), Reading::total(value as f64));
    }
    Ok(all)
}

/// Reads lines `Ethtool(DEV) stat: N (N) <= NAME /sec`, under a head for each interval. A counter
/// that is not in an interval did not move in it. Its name is that of the counter, for all devices
/// together; in front of it may stand the device: `mlx5p1/tx_packets`.
pub(super) fn read_rates(text: &str) -> Result<Readings, Misfit> {
    const HEAD: &str = "Show adapter";
    let (mut sums, mut seen) = (BTreeMap::<String, f64>::new(), BTreeSet::new());
    let (mut intervals, mut headed) = (0u32, false);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if line.starts_with(HEAD) {
            headed = true;
            continue;
        }
        let (device, name, rate) = rate(line).ok_or_else(|| {
            let what = "is no line `Ethtool(DEV) stat: N (N) <= NAME /sec`";
            Misfit::at(at + 1, format!("`{}` {what}", line.chars().take(40).collect::<String>()))
        })?;
        // Without heads, as after grep, an interval ends where a counter comes again.
        if headed || intervals == 0 || seen.contains(&(device, name)) {
            seen.clear();
            intervals += 1;
            headed = false;
        }
        seen.insert((device, name));
        *sums.entry(name.to_owned()).or_default() += rate;
        *sums.entry(format!("{device}/{name}")).or_default() += rate;
    }
    let mean = |(name, sum)| {
        let value = Some(sum / f64::from(intervals.max(1)));
        (name, Reading { value, kind: Kind::Rate, spread: None })
    };
    Ok(Readings { counters: sums.into_iter().map(mean).collect(), seconds: None })
}

/// Returns device, name and rate of a line.
fn rate(line: &str) -> Option<(&str, &str, f64)> {
    let (device, rest) = line.strip_prefix("Ethtool(")?.split_once(')')?;
    let (value, name) = rest.trim().strip_prefix("stat:")?.split_once("<=")?;
    let name = name.trim().strip_suffix("/sec")?.trim();
    // The number stands there twice, the second time with commas.
    let (plain, grouped) = value.trim().split_once('(')?;
    let grouped = grouped.trim().strip_suffix(')')?.trim().replace(',', "");
    let rate = plain.trim().parse().ok()?;
    let same = grouped.parse() == Ok::<f64, std::num::ParseFloatError>(rate);
    let whole = plain.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (same && whole && !name.is_empty()).then_some((device.trim(), name, rate))
}
