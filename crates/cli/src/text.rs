//! Tables of names, numbers and a word about each, within 100 columns.

const WIDTH: usize = 100;
const NAME: usize = 26;
const NUMBER: usize = 15;

/// A title with a line under it.
pub(crate) fn heading(title: &str) -> String {
    format!("\n {title}\n {}\n", "═".repeat(title.chars().count().min(WIDTH - 2)))
}

/// A table in the making; one without rows is nothing.
#[derive(Debug)]
pub(crate) struct Table {
    text: String,
    rows: usize,
    width: usize,
}

impl Table {
    /// With a title above the names, and heads above the numbers. `width`: of each number, if not
    /// as usual.
    pub(crate) fn new(title: &str, heads: &[&str], width: &[usize]) -> Table {
        let width = width.first().copied().unwrap_or(NUMBER);
        let mut text = format!("\n {title:<NAME$}");
        for head in heads {
            text += &format!(" {head:>width$}");
        }
        text.truncate(text.trim_end().len());
        text += "\n ";
        text += &"─".repeat(NAME + heads.len() * (width + 1));
        text.push('\n');
        Table { text, rows: 0, width }
    }

    /// A name, its numbers as text, and a word about it.
    pub(crate) fn row(&mut self, name: &str, numbers: &[String], about: &str) {
        let width = self.width;
        let mut line = format!(" {name:<NAME$}");
        for n in numbers {
            line += &format!(" {n:>width$}");
        }
        line += "  ";
        line += fit(about.trim_end_matches('.'), WIDTH.saturating_sub(line.chars().count()));
        self.text += line.trim_end();
        self.text.push('\n');
        self.rows += 1;
    }

    /// The table, or nothing if it has no rows.
    pub(crate) fn finish(self) -> String {
        if self.rows == 0 { String::new() } else { self.text }
    }
}

/// As much of a sentence as fits: up to its last comma, or its last word.
fn fit(text: &str, room: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(room) else { return text };
    // A break right behind what fits is one too.
    let upto = &text[..end];
    let upto_next = &text[..=end + text[end..].chars().next().map_or(0, char::len_utf8) - 1];
    let at = upto.rfind([',', ':']).or_else(|| upto_next.rfind(' '));
    &text[..at.unwrap_or(0)]
}

/// A list of things after a word, in lines of at most 100 columns.
pub(crate) fn wrapped(first: &str, things: &[String]) -> String {
    let mut text = format!(" {first}");
    let mut column = text.chars().count();
    for (i, thing) in things.iter().enumerate() {
        let comma = if i + 1 < things.len() { "," } else { "" };
        if column + 1 + thing.chars().count() + comma.len() > WIDTH {
            text += "\n   ";
            column = 3;
        }
        text += &format!(" {thing}{comma}");
        column += 1 + thing.chars().count() + comma.len();
    }
    text + "\n"
}

/// A count with its digits in groups of three.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// A quotient: five digits, and not more than three behind the point.
pub(crate) fn amount(x: f64) -> String {
    let size = x.abs();
    match () {
        () if x == 0.0 => "0".to_owned(),
        () if size < 0.001 => format!("{x:.1e}"),
        () if size < 100.0 => format!("{x:.3}"),
        () if size < 1000.0 => format!("{x:.2}"),
        () if size < 100_000.0 => format!("{x:.1}"),
        () => format!("{x:.0}"),
    }
}

/// What people call a rate.
pub(crate) fn rate_name(name: &str) -> String {
    match name {
        "packets_per_s" => "packet rate".to_owned(),
        "frame_bits_per_s" => "frames".to_owned(),
        "cpu_busy_share" => "CPU busy".to_owned(),
        _ => name.trim_end_matches("_share").trim_end_matches("_bits_per_s").replace('_', " "),
    }
}

/// A rate in the unit that people use, by the end of its name.
pub(crate) fn people(name: &str, value: f64) -> (f64, &'static str) {
    match name {
        _ if name.ends_with("_share") => (value * 100.0, "%"),
        _ if name.ends_with("bits_per_s") => (value / 1e9, "Gbit/s"),
        _ if name.starts_with("packets") => (value / 1e6, "Mpps"),
        _ => (value, ""),
    }
}

/// The same as text.
pub(crate) fn rate(name: &str, value: f64) -> (String, &'static str) {
    match people(name, value) {
        (value, "%") => (format!("{value:.2}"), "%"),
        (value, "") => (amount(value), ""),
        (value, unit) => (format!("{value:.3}"), unit),
    }
}

#[cfg(test)]
mod tests;
