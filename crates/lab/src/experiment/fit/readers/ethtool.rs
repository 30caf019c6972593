//! `ethtool -S`: a head line, then `name: value` for each counter.

use super::{Misfit, Reading, Readings};

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
