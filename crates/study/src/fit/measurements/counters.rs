//! Rows made of the counters of other tools.

use crate::figures::file::{Reader, SpreadEntry};
use crate::figures::{Number, Role, Row};
use crate::fit::readers::{Format, Kind, Reading, Readings, read};
use crate::paths::beside;
use doorbell_host_io::files;
use doorbell_spec::InputError;
use doorbell_systems::metrics::Sum;
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};
use toml::Spanned;

/// Files of counters, and their metrics.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountersEntry {
    run: Option<Spanned<String>>,
    scenario: Option<Spanned<String>>,
    #[serde(default)]
    set: Vec<Spanned<String>>,
    format: Format,
    file: Option<Spanned<String>>,
    before: Option<Spanned<String>>,
    after: Option<Spanned<String>>,
    packets: Option<Spanned<Amount>>,
    seconds: Option<Spanned<f64>>,
    spread: Option<Spanned<SpreadEntry>>,
    role: Option<Role>,
    metrics: Spanned<BTreeMap<Spanned<String>, Spanned<Mapped>>>,
}

/// A number, or the counter that has it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(f64),
    Counter(String),
}

/// The metric of a counter, which may be a multiple of it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Mapped {
    Metric(String),
    Multiple { metric: String, factor: f64 },
}

/// The counters of an entry, and what they are divided by.
struct Counted {
    readings: Readings,
    packets: Option<f64>,
    seconds: Option<f64>,
}

/// Makes the rows of an entry.
pub(super) fn rows(
    r: &mut Reader<'_>,
    entry: &Spanned<CountersEntry>,
) -> Result<Vec<Row>, InputError> {
    let (place, e) = (r.place(entry), entry.get_ref());
    let run = r.run_of(entry, e.run.as_ref(), e.scenario.as_ref(), &e.set)?;
    let lacks = || InputError::new(&*place, "missing field `run` or `scenario`");
    let run = run.ok_or_else(lacks)?;
    let counted = counted(r, e, &place)?;
    let files = [&e.file, &e.before, &e.after].into_iter().flatten();
    let files: Vec<&str> = files.map(|f| f.get_ref().as_str()).collect();
    let mut all: Vec<_> = e.metrics.get_ref().iter().collect();
    all.sort_by_key(|(name, _)| name.span().start);
    if all.is_empty() {
        return Err(InputError::new(place, "`[counters.metrics]` names no counter"));
    }
    let mut rows = Vec::new();
    for (counter, mapped) in all {
        let wrong = |what: String| r.error(counter, what);
        let (metric, factor) = match mapped.get_ref() {
            Mapped::Metric(name) => (name, 1.0),
            Mapped::Multiple { metric, factor } => (metric, *factor),
        };
        if !factor.is_finite() || factor == 0.0 {
            return Err(wrong(format!("`factor` cannot be {factor}; allowed: any number but 0")));
        }
        let metric = r.profile.system.sum(metric).map_err(wrong)?;
        let name = counter.get_ref();
        let (value, reading) = counted.readings.get(name).map_err(wrong)?;
        let size = factor / counted.divisor(&metric, reading).map_err(wrong)?;
        let told = r.spread(e.spread.as_ref(), value * size)?;
        let row = Row::new("", value * size, metric.unit().name(), e.role.unwrap_or_default());
        rows.push(Row {
            place: r.place(counter),
            spread: told.or(reading.spread.map(|s| s * size)),
            source: format!("{} {name}", files.join(" to ")),
            number: Some(Number { run, metric, per: None, factor: 1.0 }),
            ..row
        });
    }
    Ok(rows)
}

/// Reads the files of an entry.
fn counted(r: &Reader<'_>, entry: &CountersEntry, place: &str) -> Result<Counted, InputError> {
    let wrong = |what: String| InputError::new(place, what);
    let readings = match (&entry.before, &entry.after, &entry.file) {
        (Some(before), Some(after), None) if entry.format.has_snapshots() => {
            let early = readings(r, entry.format, before)?;
            early.until(&readings(r, entry.format, after)?).map_err(wrong)?
        }
        (None, None, Some(file)) => readings(r, entry.format, file)?,
        _ => {
            let (_, name, _) = Format::ALL[entry.format as usize];
            let files = if entry.format.has_snapshots() {
                "`before` and `after`, two snapshots, or `file`, one since the start"
            } else {
                "`file`"
            };
            return Err(wrong(format!("format `{name}` needs {files}, and no other file")));
        }
    };
    let packets = match entry.packets.as_ref().map(|p| (p, p.get_ref())) {
        None => None,
        Some((_, Amount::Number(n))) => Some(*n),
        Some((at, Amount::Counter(name))) => {
            Some(readings.get(name).map_err(|what| r.error(at, what))?.0)
        }
    };
    if let (Some(at), true) = (&entry.packets, packets.is_some_and(|n| !(n.is_finite() && n > 0.0)))
    {
        return Err(r.error(at, "no packets were counted"));
    }
    let seconds = entry.seconds.as_ref().map(|s| *s.get_ref()).or(readings.seconds);
    if let (Some(at), true) = (&entry.seconds, seconds.is_some_and(|s| !(s.is_finite() && s > 0.0)))
    {
        return Err(r.error(at, "the time must be above 0 s"));
    }
    Ok(Counted { readings, packets, seconds })
}

fn readings(
    r: &Reader<'_>,
    format: Format,
    file: &Spanned<String>,
) -> Result<Readings, InputError> {
    let path = beside(r.file, file.get_ref());
    let text = files::text(Path::new(&path));
    let text = text.map_err(|e| r.error(file, format!("{path}: {e}")))?;
    read(format, &path, &text)
}

impl Counted {
    /// Returns the number that a reading is divided by to be a metric.
    fn divisor(&self, metric: &Sum, reading: Reading) -> Result<f64, String> {
        let name = &metric.name;
        let packets = || {
            let lacks = format!("`{name}` is by packet: `packets = …`, a number or a counter");
            self.packets.ok_or(lacks)
        };
        let seconds = || {
            let lacks = format!("the time is not told by the file: `seconds = …` for `{name}`");
            self.seconds.ok_or(lacks)
        };
        match reading.kind {
            Kind::Total if metric.is_by_packet() => packets(),
            Kind::Total if metric.is_rate() => seconds(),
            Kind::Rate if metric.is_by_packet() => Ok(packets()? / seconds()?),
            Kind::Rate if metric.is_rate() => Ok(1.0),
            Kind::Plain if !metric.is_by_packet() && !metric.is_rate() => Ok(1.0),
            kind => {
                let kind = match kind {
                    Kind::Total => "a total",
                    Kind::Rate => "a rate",
                    Kind::Plain => "neither a total nor a rate",
                };
                Err(format!("the counter is {kind}, from which `{name}` does not follow"))
            }
        }
    }
}
