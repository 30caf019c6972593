//! Counters as other tools print them: `ethtool -S`, `perf stat`, `pcm-pcie`, `pcm-iio`, iperf3,
//! mpstat, and `/proc/interrupts`.
//!
//! A reader keeps each number under the tool's own name for it, and knows whether it is a total, a
//! rate, or neither. Formats are those that the tools' sources print: `print_counter_value_std` and
//! `_csv` in Linux's tools/perf, `LegacyPlatform` and `build_csv` in Intel PCM.

mod ethtool;
mod interrupts;
mod iperf3;
mod mpstat;
mod pcm;
mod perf;

use doorbell_spec::{InputError, hint};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The format of a file of counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    /// Snapshots of `ethtool -S`.
    Ethtool,
    /// The rates of `ethtool_stats.pl`.
    EthtoolRates,
    /// Snapshots of `/proc/interrupts`.
    Interrupts,
    /// The table of `perf stat`.
    Perf,
    /// The lines of `perf stat -x`.
    PerfCsv,
    /// The lines of `perf stat -j`.
    PerfJson,
    /// `pcm-pcie -csv`.
    PcmPcie,
    /// `pcm-iio -csv`.
    PcmIio,
    /// `iperf3 --json`.
    Iperf3,
    /// `mpstat -o JSON`.
    Mpstat,
}

impl Format {
    /// All formats with their names in files and their descriptions.
    pub(crate) const ALL: [(Format, &str, &str); 10] = [
        (Format::Ethtool, "ethtool", "ethtool -S, in `before` and `after`, or one in `file`"),
        (Format::EthtoolRates, "ethtool-rates", "the rates of ethtool_stats.pl"),
        (Format::Interrupts, "interrupts", "/proc/interrupts, likewise"),
        (Format::Perf, "perf", "the table of perf stat"),
        (Format::PerfCsv, "perf-csv", "the lines of perf stat -x"),
        (Format::PerfJson, "perf-json", "the lines of perf stat -j"),
        (Format::PcmPcie, "pcm-pcie", "pcm-pcie -csv"),
        (Format::PcmIio, "pcm-iio", "pcm-iio -csv"),
        (Format::Iperf3, "iperf3", "iperf3 --json"),
        (Format::Mpstat, "mpstat", "mpstat -o JSON"),
    ];

    /// Returns whether two snapshots may be compared. One by itself counts from the start.
    pub(crate) fn has_snapshots(self) -> bool {
        matches!(self, Format::Ethtool | Format::Interrupts)
    }
}

/// The meaning of a counter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A number of things over the time of the measurement.
    Total,
    /// A number of things in a second.
    Rate,
    /// A value by itself: a share, a time.
    Plain,
}

/// The value of a counter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Reading {
    /// The value, or `None` if the tool could not count it.
    pub value: Option<f64>,
    /// Its meaning.
    pub kind: Kind,
    /// One standard deviation, if the tool tells it.
    pub spread: Option<f64>,
}

impl Reading {
    fn total(value: f64) -> Reading {
        Reading { value: Some(value), kind: Kind::Total, spread: None }
    }
}

/// The counters of a measurement.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Readings {
    /// The readings by the tool's names.
    pub counters: BTreeMap<String, Reading>,
    /// The time of the measurement in seconds, if the tool tells it.
    pub seconds: Option<f64>,
}

/// Reads a file of this format. `file` is its name for messages.
///
/// # Errors
/// The first line that does not fit the format.
pub(crate) fn read(format: Format, file: &str, text: &str) -> Result<Readings, InputError> {
    let readings = match format {
        Format::Ethtool => ethtool::read(text),
        Format::EthtoolRates => ethtool::read_rates(text),
        Format::Interrupts => interrupts::read(text),
        Format::Mpstat => mpstat::read(text),
        Format::PerfJson => perf::read_json(text),
        Format::Perf => perf::read(text),
        Format::PerfCsv => perf::read_csv(text),
        Format::PcmPcie => pcm::read_pcie(text),
        Format::PcmIio => pcm::read_iio(text),
        Format::Iperf3 => iperf3::read(text),
    };
    let readings = readings.map_err(|Misfit { line, what }| {
        let place = line.map_or(file.to_owned(), |line| format!("{file}:{line}"));
        InputError::new(place, what)
    })?;
    if readings.counters.is_empty() {
        let (_, _, about) = Format::ALL[format as usize];
        return Err(InputError::new(file, format!("no counter in it; expected is {about}")));
    }
    Ok(readings)
}

/// A part of a file that does not fit its format.
#[derive(Debug)]
struct Misfit {
    /// The line, from 1 on.
    line: Option<usize>,
    what: String,
}

impl Misfit {
    fn at(line: usize, what: impl Into<String>) -> Misfit {
        Misfit { line: Some(line), what: what.into() }
    }
}

impl Readings {
    /// Returns the counter called `name`, or the sum of those whose names it fits with a `*` for
    /// any text.
    ///
    /// # Errors
    /// There is none, or the tool did not count it.
    pub(crate) fn get(&self, name: &str) -> Result<(f64, Reading), String> {
        let found = match self.counters.get(name) {
            Some(reading) => Some(*reading),
            None => self.sum(name)?,
        };
        let Some(reading) = found else {
            let near = hint(name, self.counters.keys().map(String::as_str));
            return Err(format!("no counter is called `{name}`{near}"));
        };
        let value = reading.value.ok_or_else(|| format!("`{name}` was not counted"))?;
        Ok((value, reading))
    }

    /// Returns the sum of the counters that a pattern fits.
    ///
    /// # Errors
    /// Some are totals and others are not.
    fn sum(&self, pattern: &str) -> Result<Option<Reading>, String> {
        let mut all = self.counters.iter().filter(|(name, _)| fits(name, pattern));
        let Some((_, first)) = all.next() else { return Ok(None) };
        let mut sum = *first;
        for (name, reading) in all {
            if reading.kind != sum.kind || reading.kind == Kind::Plain {
                return Err(format!(
                    "`{pattern}` fits counters that have no sum, such as `{name}`"
                ));
            }
            sum.value = sum.value.zip(reading.value).map(|(a, b)| a + b);
            sum.spread = sum.spread.zip(reading.spread).map(|(a, b)| libm::hypot(a, b));
        }
        Ok(Some(sum))
    }

    /// Returns what was counted from this snapshot to `after`.
    ///
    /// # Errors
    /// A counter went back.
    pub(crate) fn until(&self, after: &Readings) -> Result<Readings, String> {
        let mut counters = BTreeMap::new();
        for (name, late) in &after.counters {
            let Some(early) = self.counters.get(name) else { continue };
            let (Some(a), Some(b)) = (early.value, late.value) else { continue };
            if b < a {
                return Err(format!(
                    "`{name}` went back from {a} to {b}: the interface was reset in between, or \
                     the two files are exchanged"
                ));
            }
            counters.insert(name.clone(), Reading::total(b - a));
        }
        Ok(Readings { counters, seconds: None })
    }
}

/// Returns whether a pattern fits a name. It has one `*` at least.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return false };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return name.ends_with(piece);
        }
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
