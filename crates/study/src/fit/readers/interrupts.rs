//! `/proc/interrupts`: a head of CPUs, then a line for each interrupt.
//!
//! A counter's name is that of the device's handler behind the trigger, as `mlx5_comp0@pci:…`, for
//! all CPUs and all interrupts of that name together; else the interrupt's own: `LOC`, `25`.
//! Format: `show_interrupts` in Linux's kernel/irq/proc.c.

use super::{Misfit, Reading, Readings};

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let mut all = Readings::default();
    let mut cpus = None;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some(cpus) = cpus else {
            let heads: Vec<&str> = line.split_whitespace().collect();
            if !heads.iter().all(|head| head.strip_prefix("CPU").is_some_and(is_number)) {
                let what = "the head, `CPU0 CPU1 …`, is not there: the columns are not known";
                return Err(Misfit::at(at + 1, what));
            }
            cpus = Some(heads.len());
            continue;
        };
        let parts = line.trim().split_once(':');
        let Some((label, rest)) = parts.filter(|(label, _)| !label.contains(' ')) else {
            return Err(Misfit::at(at + 1, "is no line of an interrupt, `NAME: COUNT …`"));
        };
        let (count, counted, rest) = counts(rest, cpus).ok_or_else(|| {
            Misfit::at(at + 1, format!("`{label}` has a count that is no whole number"))
        })?;
        // ERR and MIS are of the whole machine.
        if counted < cpus && !(counted == 1 && rest.is_empty()) {
            let what = format!("`{label}` has {counted} counts, and the head {cpus} CPUs");
            return Err(Misfit::at(at + 1, what));
        }
        let name = match rest.rsplit_once("  ") {
            Some((_, handlers)) if is_number(label) => handlers.trim(),
            _ => label,
        };
        let counter = all.counters.entry(name.to_owned()).or_insert(Reading::total(0.0));
        counter.value = counter.value.map(|sum| sum + count as f64);
    }
    Ok(all)
}

/// Reads at most `most` counts. Returns their sum and number, and what is behind them.
fn counts(mut text: &str, most: usize) -> Option<(u64, usize, &str)> {
    let mut sum = 0u64;
    for n in 0..most {
        text = text.trim_start();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if word.is_empty() {
            return Some((sum, n, ""));
        }
        sum = sum.checked_add(word.parse().ok()?)?;
        text = rest;
    }
    Some((sum, most, text.trim()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
