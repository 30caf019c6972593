//! `mpstat -o JSON`: the mean over its samples of each share of time, in per cent, and of the
//! interrupts a second. Names are those of its members behind that of the CPU: `all.soft`,
//! `3.idle`, `all.intr`, and with `-I CPU` or `-I SCPU` `0.intr.NET_RX`.
//!
//! Format: `write_json_cpu_stats` and its neighbours in sysstat's mpstat.c.

use super::{Kind, Misfit, Reading, Readings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Members of a sample, the meaning of their numbers, and the members of an entry that are names.
const PARTS: [(&str, Kind); 4] = [
    ("cpu-load", Kind::Plain),
    ("sum-interrupts", Kind::Rate),
    ("individual-interrupts", Kind::Rate),
    ("soft-interrupts", Kind::Rate),
];

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let whole: Value = serde_json::from_str(text)
        .map_err(|e| Misfit::at(e.line(), format!("it is not JSON: {e}")))?;
    let misfit = |what: &str| Misfit { line: None, what: what.to_owned() };
    let Some([host]) = whole["sysstat"]["hosts"].as_array().map(Vec::as_slice) else {
        return Err(misfit("`sysstat.hosts` is not there, or has not one host"));
    };
    let samples = host["statistics"].as_array().filter(|all| !all.is_empty());
    let samples = samples.ok_or_else(|| misfit("`statistics` of the host has no sample"))?;
    let mut sums: BTreeMap<String, (f64, u32, Kind)> = BTreeMap::new();
    for sample in samples {
        for (part, kind) in PARTS {
            let Some(entries) = sample.get(part) else { continue };
            let entries =
                entries.as_array().ok_or_else(|| misfit(&format!("`{part}` is no list")))?;
            for entry in entries {
                let cpu = entry["cpu"].as_str();
                let cpu =
                    cpu.ok_or_else(|| misfit(&format!("an entry of `{part}` has no `cpu`")))?;
                for (name, value) in numbers(entry) {
                    let (sum, n, _) = sums.entry(format!("{cpu}.{name}")).or_insert((0.0, 0, kind));
                    *sum += value;
                    *n += 1;
                }
            }
        }
    }
    let mean = |(name, (sum, n, kind)): (String, (f64, u32, Kind))| {
        (name, Reading { value: Some(sum / f64::from(n)), kind, spread: None })
    };
    Ok(Readings { counters: sums.into_iter().map(mean).collect(), seconds: None })
}

/// Returns the numbers of an entry, and of the list of interrupts in it.
fn numbers(entry: &Value) -> Vec<(String, f64)> {
    let members = entry.as_object().into_iter().flatten();
    let mut all = Vec::new();
    for (name, value) in members {
        match value {
            Value::Number(n) => all.extend(n.as_f64().map(|n| (name.clone(), n))),
            Value::Array(each) => all.extend(each.iter().filter_map(|of| {
                Some((format!("{name}.{}", of["name"].as_str()?), of["value"].as_f64()?))
            })),
            _ => {}
        }
    }
    all
}
