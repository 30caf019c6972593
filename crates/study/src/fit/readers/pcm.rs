//! Intel PCM: `pcm-pcie -csv` and `pcm-iio -csv`. A head line stands in front of each sample.
//!
//! `pcm-pcie` counts over each interval, so its samples are added up. `pcm-iio` prints numbers a
//! second, so the mean of its samples is taken. A counter's name is that of its column, for all
//! sockets and parts together; in front of it may stand where it was counted, such as
//! `Socket0/PCIe1/Part0/IB write`.

use super::{Kind, Misfit, Reading, Readings};
use std::collections::BTreeMap;

/// Lines of values below a line of heads.
struct Sheet<'t> {
    heads: Vec<&'t str>,
    /// Line numbers and cells.
    rows: Vec<(usize, Vec<&'t str>)>,
}

/// Reads the lines below the one that starts with `first`. Other lines are messages.
fn sheet<'t>(text: &'t str, first: &str) -> Result<Sheet<'t>, Misfit> {
    let mut sheet = Sheet { heads: Vec::new(), rows: Vec::new() };
    let mut separator = ',';
    for (at, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix(first) {
            separator = rest.chars().next().unwrap_or(',');
            let heads: Vec<&str> = line.trim_end().split(separator).map(str::trim).collect();
            if !sheet.heads.is_empty() && sheet.heads != heads {
                return Err(Misfit::at(at + 1, "the columns are others than above"));
            }
            sheet.heads = heads;
        } else if !sheet.heads.is_empty() && line.starts_with(|c: char| c.is_ascii_digit()) {
            let cells: Vec<&str> = line.trim_end().split(separator).map(str::trim).collect();
            sheet.rows.push((at + 1, cells));
        }
    }
    if sheet.heads.is_empty() {
        let what = format!("no line begins with `{first}`");
        return Err(Misfit { line: None, what });
    }
    Ok(sheet)
}

fn add(to: &mut BTreeMap<String, f64>, name: String, value: f64) {
    *to.entry(name).or_default() += value;
}

fn cell(line: usize, head: &str, text: &str) -> Result<f64, Misfit> {
    text.parse().map_err(|_| {
        let hint = "pcm prints plain numbers without -human-readable";
        Misfit::at(line, format!("`{head}` is `{text}`, which is no number; {hint}"))
    })
}

pub(super) fn read_pcie(text: &str) -> Result<Readings, Misfit> {
    let sheet = sheet(text, "Skt")?;
    let mut sums = BTreeMap::new();
    for (line, cells) in &sheet.rows {
        // With -e the kind of a line stands right behind its last number: `123(Miss)`.
        let kind = cells.last().and_then(|c| c.find('(').map(|at| &c[at..]));
        let kind = kind.filter(|k| *k != "(Total)").unwrap_or("");
        for (head, text) in sheet.heads.iter().zip(cells).skip(1) {
            let text = text.split('(').next().unwrap_or(text);
            let value = cell(*line, head, text)?;
            add(&mut sums, format!("{head}{kind}"), value);
            add(&mut sums, format!("Skt{}/{head}{kind}", cells[0]), value);
        }
    }
    let total = |(name, sum)| (name, Reading::total(sum));
    Ok(Readings { counters: sums.into_iter().map(total).collect(), seconds: None })
}

pub(super) fn read_iio(text: &str) -> Result<Readings, Misfit> {
    const PLACE: [&str; 6] = ["Date", "Time", "Socket", "Root Port", "Name", "Part"];
    let sheet = sheet(text, "Date")?;
    let (mut sums, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for (line, cells) in &sheet.rows {
        let named = |name: &str| {
            let column = sheet.heads.iter().position(|h| *h == name)?;
            cells.get(column).copied()
        };
        let place = ["Socket", "Name", "Part"].map(|name| named(name).unwrap_or_default());
        let place = place.join("/");
        *samples.entry(place.clone()).or_insert(0u32) += 1;
        for (head, text) in sheet.heads.iter().zip(cells).filter(|(h, _)| !PLACE.contains(*h)) {
            let value = cell(*line, head, text)?;
            add(&mut sums, (*head).to_owned(), value);
            add(&mut sums, format!("{place}/{head}"), value);
        }
    }
    let n = f64::from(samples.values().copied().max().unwrap_or(1));
    let mean = |(name, sum): (String, f64)| {
        (name, Reading { value: Some(sum / n), kind: Kind::Rate, spread: None })
    };
    Ok(Readings { counters: sums.into_iter().map(mean).collect(), seconds: None })
}
