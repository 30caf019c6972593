//! Tables of text, for a terminal and as Markdown, and records for programs, as CSV. A column is as
//! wide as its longest cell unless the table has fixed widths or the lines have to be broken.

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

/// Largest width of a line with a note, in columns.
const WIDTH: usize = 100;

/// A change's direction, which a terminal shows as a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Shown in green.
    Better,
    /// Shown in red.
    Worse,
}

/// A cell, with its text and its value as data.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cell {
    shown: String,
    exact: Option<Value>,
    tone: Option<Tone>,
}

impl<S: Into<String>> From<S> for Cell {
    fn from(shown: S) -> Cell {
        Cell { shown: shown.into(), ..Cell::default() }
    }
}

impl Cell {
    /// Creates a cell with `exact` as its value for programs.
    pub fn exact(shown: impl Into<String>, exact: impl Into<Value>) -> Cell {
        Cell { exact: Some(exact.into()), ..shown.into().into() }
    }

    /// Creates a cell with a tone, if there is one.
    pub fn toned(shown: impl Into<String>, tone: Option<Tone>) -> Cell {
        Cell { tone, ..shown.into().into() }
    }

    /// Returns the text that people read.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the tone, if there is one.
    pub fn tone(&self) -> Option<Tone> {
        self.tone
    }

    /// Returns the escape sequences of the tone.
    fn style(&self) -> Style {
        match self.tone {
            None => Style::new(),
            Some(Tone::Better) => AnsiColor::Green.on_default(),
            Some(Tone::Worse) => AnsiColor::Red.on_default(),
        }
    }

    /// Returns the value for programs; null for an empty cell.
    fn value(&self) -> Value {
        let shown = || (!self.shown.is_empty()).then(|| self.shown.clone()).into();
        self.exact.clone().unwrap_or_else(shown)
    }
}

/// A row for programs: values by name.
pub type Record = Map<String, Value>;

/// Returns the names of all records, in the order of their first appearance.
pub fn names<'r>(records: impl IntoIterator<Item = &'r Record>) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        // Most records have the names of the one before, in the same order.
        if !record.keys().eq(names.iter()) {
            let new = record.keys().filter(|k| !names.contains(&k.as_str()));
            names.extend(new.map(String::as_str).collect::<Vec<_>>());
        }
    }
    names
}

/// Renders records as CSV below a line with their names.
pub fn csv(records: &[Record]) -> String {
    let names = names(records);
    csv_heads(&names) + &csv_lines(&names, records)
}

/// Renders the first line of CSV.
pub fn csv_heads(names: &[&str]) -> String {
    csv_line(names.iter().map(|n| (*n).to_owned()))
}

/// Renders what records have of these names as lines of CSV, numbers with all digits. What a record
/// does not have is left empty. Text that a spreadsheet would take for a formula has an apostrophe
/// before it.
pub fn csv_lines(names: &[&str], records: &[Record]) -> String {
    let cell = |record: &Record, name: &str| record.get(name).map_or(String::new(), text);
    records.iter().map(|record| csv_line(names.iter().map(|name| cell(record, name)))).collect()
}

fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |text: String| {
        let runs = text.len() > 1
            && text.starts_with(['=', '+', '-', '@', '\t', '\r'])
            && text.parse::<f64>().is_err();
        match runs || text.contains([',', '"', '\n', '\r']) {
            true => {
                format!("\"{}{}\"", if runs { "'" } else { "" }, text.replace('"', "\"\""))
            }
            false => text,
        }
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// Returns a value as text, empty for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(s) => s.clone(),
        // 3, not 3.0.
        Value::Number(n) if n.is_f64() => n.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// A table. Cells stand at the left of their column unless [`Table::right`] says otherwise.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    heads: Vec<Cell>,
    rows: Vec<(Vec<Cell>, String)>,
    right: Vec<usize>,
    fixed: Option<Vec<usize>>,
    /// Spaces between columns, if not two.
    gap: Option<usize>,
}

impl Table {
    /// Creates an empty table with these column heads. Without heads there is no head line.
    pub fn new(heads: impl IntoIterator<Item = impl Into<Cell>>) -> Table {
        Table { heads: heads.into_iter().map(Into::into).collect(), ..Table::default() }
    }

    /// Sets the columns whose cells and head stand at the right.
    pub fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Table {
        self.right = columns.into_iter().collect();
        self
    }

    /// Sets the width of each column, with one space between columns.
    pub fn fixed(mut self, widths: Vec<usize>) -> Table {
        self.fixed = Some(widths);
        self
    }

    /// Sets the number of spaces between columns.
    pub fn gap(mut self, spaces: usize) -> Table {
        self.gap = Some(spaces);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.noted(cells, "");
    }

    /// Adds a row with a note behind its last column, which a terminal shows as far as it fits.
    pub fn noted(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>, note: &str) {
        self.rows.push((cells.into_iter().map(Into::into).collect(), note.to_owned()));
    }

    /// Returns the column heads.
    pub fn heads(&self) -> &[Cell] {
        &self.heads
    }

    /// Returns the rows, each with its note.
    pub fn rows(&self) -> &[(Vec<Cell>, String)] {
        &self.rows
    }

    /// Returns true if this column stands at the right.
    pub fn is_right(&self, column: usize) -> bool {
        self.right.contains(&column)
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table for a terminal, with escape sequences for tones. Cells are broken into
    /// several lines, and fixed widths given up, where a line would be longer than `room` columns.
    pub fn text(&self, room: usize) -> String {
        let gap = self.gap.unwrap_or(if self.fixed.is_some() { 1 } else { 2 });
        let wide = |w: &[usize]| w.iter().sum::<usize>() + gap * (w.len() - 1);
        // A name that is too long widens the first column of all rows.
        let longest = self.rows.iter().filter_map(|r| Some(r.0.first()?.shown.chars().count()));
        let fixed = self.fixed.clone().map(|mut w| {
            w[0] = longest.fold(w[0], usize::max);
            w
        });
        let fixed = fixed.filter(|w| wide(w) < room);
        let widths = fixed.clone().unwrap_or_else(|| self.widths(room, gap));
        let line = |cells: Vec<(&str, Style)>| {
            let padded = cells.into_iter().zip(&widths).enumerate().map(|(i, ((c, style), w))| {
                let right = self.right.contains(&i);
                let padded = if right { format!("{c:>w$}") } else { format!("{c:<w$}") };
                format!("{style}{padded}{style:#}")
            });
            format!(" {}", padded.collect::<Vec<_>>().join(&" ".repeat(gap)))
        };
        let plain =
            |cells: &[Cell]| line(cells.iter().map(|c| (c.shown.as_str(), c.style())).collect());
        let mut text = String::new();
        let mut put = |line: &str| text += &format!("{}\n", line.trim_end());
        if !self.heads.is_empty() {
            put(&plain(&self.heads));
            put(&format!(" {}", "─".repeat(wide(&widths))));
        }
        for (cells, note) in &self.rows {
            if fixed.is_some() {
                let room = WIDTH.min(room).saturating_sub(wide(&widths) + 3);
                put(&format!("{}  {}", plain(cells), fit(note.trim_end_matches('.'), room)));
                continue;
            }
            let parts = cells.iter().zip(&widths).map(|(c, w)| broken(&c.shown, *w));
            let parts: Vec<Vec<String>> = parts.collect();
            for n in 0..parts.iter().map(Vec::len).max().unwrap_or(0) {
                let part = |(p, c): (&'_ Vec<String>, &Cell)| (p.get(n).cloned(), c.style());
                let parts: Vec<_> = parts.iter().zip(cells).map(part).collect();
                let parts = parts.iter().map(|(p, s)| (p.as_deref().unwrap_or_default(), *s));
                put(&line(parts.collect()));
            }
        }
        text
    }

    /// Renders the table as Markdown. Notes are a column of their own.
    pub fn markdown(&self) -> String {
        let noted = self.rows.iter().any(|(_, note)| !note.is_empty());
        let line = |cells: &[Cell], note: &str| -> Vec<String> {
            let cells = cells.iter().map(|c| c.shown.clone());
            cells.chain(noted.then(|| note.trim_end_matches('.').to_owned())).collect()
        };
        let heads = line(&self.heads, "");
        let rows = self.rows.iter().map(|(cells, note)| line(cells, note));
        let rows: Vec<Vec<String>> = rows.collect();
        let longest = |i: usize| rows.iter().chain([&heads]).map(|r| r[i].chars().count()).max();
        let is_right = |i: &usize| self.right.contains(i);
        // The rule of a right column has two characters at least.
        let width = |i| longest(i).unwrap_or(0).max(if is_right(&i) { 2 } else { 1 });
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let rule = widths.iter().enumerate().map(|(i, w)| match is_right(&i) {
            true => "-".repeat(w - 1) + ":",
            false => "-".repeat(*w),
        });
        let all = [heads, rule.collect()].into_iter().chain(rows);
        let all = all.map(|cells| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(i, (c, w))| {
                if is_right(&i) { format!("{c:>w$}") } else { format!("{c:<w$}") }
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        });
        all.collect()
    }

    /// Returns the rows for programs, by the names of the columns; without notes.
    pub fn records(&self) -> Vec<Record> {
        let named = |cells: &[Cell]| {
            let each = self.heads.iter().zip(cells);
            each.map(|(head, cell)| (text(&head.value()), cell.value())).collect()
        };
        self.rows.iter().map(|(cells, _)| named(cells)).collect()
    }

    /// Returns the width of each column in a line of `room` columns. Columns that need less than
    /// an equal share get what they need; the others share the rest.
    fn widths(&self, room: usize, gap: usize) -> Vec<usize> {
        let columns = self.rows.iter().map(|r| r.0.len()).chain([self.heads.len()]).max();
        let columns = columns.unwrap_or(0).max(1);
        let cells = |i: usize| {
            let all = self.rows.iter().map(|r| &r.0).chain([&self.heads]);
            all.filter_map(move |r| Some(r.get(i)?.shown.as_str()))
        };
        let longest = |i: usize| cells(i).map(|c| c.chars().count()).max().unwrap_or(0);
        let mut widths: Vec<Option<usize>> = vec![None; columns];
        let mut rest = room.saturating_sub(gap * (columns - 1) + 2);
        // First whole columns; then those that a line break makes shorter than their share.
        let after_break = |i: usize, share: usize| {
            let lines = cells(i).flat_map(|c| broken(c, share));
            lines.map(|l| l.chars().count()).max().filter(|n| n + 3 <= share)
        };
        for breaks in [false, true] {
            let mut found = true;
            while found {
                found = false;
                for i in 0..columns {
                    let open = widths.iter().filter(|w| w.is_none()).count();
                    let share = rest / open.max(1);
                    let needs = match breaks {
                        false => Some(longest(i)).filter(|n| *n <= share),
                        true => after_break(i, share),
                    };
                    if let (None, Some(n)) = (widths[i], needs) {
                        (widths[i], found) = (Some(n), true);
                        rest -= n;
                    }
                }
            }
        }
        let open = widths.iter().filter(|w| w.is_none()).count().max(1);
        let (share, mut more) = (rest / open, rest % open);
        let shared = |w: Option<usize>| {
            w.unwrap_or_else(|| {
                let extra = usize::from(more > 0);
                more -= extra;
                share + extra
            })
        };
        widths.into_iter().map(shared).collect()
    }
}

/// Breaks a text into lines of `width` columns: between words, and within those that are longer.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let line = lines.last_mut().unwrap_or_else(|| unreachable!("there is a line"));
            let used = line.chars().count() + usize::from(!line.is_empty());
            if used + word.len() <= width || width == 0 {
                line.extend((!line.is_empty()).then_some(' ').into_iter().chain(word));
                break;
            }
            if word.len() > width && used + 2 < width {
                let part = word.drain(..width - used);
                line.extend((used > 0).then_some(' ').into_iter().chain(part));
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Returns as much of a sentence as fits: up to its last comma or colon, or its last word.
fn fit(text: &str, room: usize) -> &str {
    let Some((end, next)) = text.char_indices().nth(room) else { return text };
    // A space right behind the last character that fits ends a word, too.
    let at = text[..end].rfind([',', ':']);
    &text[..at.or_else(|| text[..end + next.len_utf8()].rfind(' ')).unwrap_or(0)]
}

#[cfg(test)]
mod tests;
