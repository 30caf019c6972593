//! The report as text: a section a system, for a terminal of 120 columns.

use super::{
    Combinations, DegreesOfFreedom, Done, MIN_EFFECT, Outcome, Report, Role, Sensitivity,
    SystemReport, Verdict, report::round_significant,
};
use doorbell_spec::table::Table;
use std::fmt::Write as _;

/// Columns of the terminal that the text is made for.
const WIDTH: usize = 120;
/// Number of constants in a block of the sensitivity matrix.
const MATRIX_COLUMNS: usize = 9;

impl Report {
    /// Returns the report as text, without colour. Lines have at most 120 columns unless a single
    /// word is longer.
    #[cfg(test)]
    pub(crate) fn to_table(&self) -> String {
        let mut text = String::new();
        for system in &self.systems {
            text += &(Done::Rows(system).to_table() + &Done::System(system).to_table());
        }
        text + &self.closing()
    }

    /// Returns the last lines of the text, which name what misses.
    pub fn closing(&self) -> String {
        closing(&self.verdict())
    }
}

impl Done<'_> {
    /// Returns this part of the system's section as text. The section is its parts in order.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        match self {
            Done::Rows(system) => rows(&mut text, system),
            Done::System(system) => rest(&mut text, system),
        }
        text
    }
}

/// Writes the rows, and what is known with them.
fn rows(text: &mut String, system: &SystemReport) {
    let swapped = match system.swapped {
        None => "",
        Some(0) => "  (nothing to swap)",
        Some(_) => "  (swapped)",
    };
    let title = format!("{}{swapped}  {}", system.name, system.about);
    heading(text, &title, '═');
    let documents = documents(&system.rows);
    // A row stays one line, even with a long name.
    *text += &figures(system, &documents).text(usize::MAX);
    text.push('\n');
    for line in worth(system) {
        let _ = writeln!(text, " {line}");
    }

    let mut remarks = Table::default();
    for row in &system.rows {
        let said = row.remarks();
        if !said.is_empty() {
            remarks.row([short_name(system, &row.row.figure), &said.join("; ")]);
        }
    }
    block(text, "Remarks", remarks);
    block(text, "Constants", constants(system));
    if !system.constants.choices().is_empty() {
        block(text, "Choices between models", choices(system));
    }
}

/// Writes what is known after a sensitivity run, and the end of the section.
fn rest(text: &mut String, system: &SystemReport) {
    if let Some(found) = &system.sensitivity {
        sensitivity(text, system, found);
    }
    let mut sources = Table::default();
    for (at, document) in documents(&system.rows).iter().enumerate() {
        sources.row([&format!("[{}]", at + 1), *document]);
    }
    block(text, "Published in", sources);
    text.push('\n');
}

/// The rows with their verdicts.
fn figures(system: &SystemReport, documents: &[&str]) -> Table {
    let heads =
        ["figure", "unit", "published", "measured", "off by", "tolerance", "role", "verdict"];
    let mut out = Table::new(heads.into_iter().chain([""])).right(2..5).gap(3);
    let numbers: Vec<(String, String)> = system.rows.iter().map(numbers).collect();
    let published = aligned(numbers.iter().map(|n| n.0.as_str()));
    let measured = aligned(numbers.iter().map(|n| n.1.as_str()));
    for ((row, published), measured) in system.rows.iter().zip(published).zip(measured) {
        let document = documents.iter().position(|d| *d == row.row.source);
        out.row([
            short_name(system, &row.row.figure).to_owned(),
            row.row.unit.clone(),
            published,
            measured,
            off_by(row),
            row.row.allowed("measured"),
            row.row.role.name().to_owned(),
            verdict(system, row).to_owned(),
            document.map_or(String::new(), |at| format!("[{}]", at + 1)),
        ]);
    }
    out
}

/// Formats published and measured value. The measured value has four digits, and at least the
/// decimals of the published one. If it must be equal, a count is whole and a quotient has all
/// digits that results keep.
fn numbers(row: &Outcome) -> (String, String) {
    let published = row.row.value.to_string();
    let measured = match row.measured {
        Err(_) => "?".to_owned(),
        Ok(m) if row.row.role == Role::Definition && m.fract() == 0.0 => m.to_string(),
        Ok(m) if row.row.role == Role::Exact && row.row.tolerance.is_none() => {
            if m.fract() == 0.0 { m } else { round_significant(m, 9) }.to_string()
        }
        Ok(m) => {
            let decimals = published.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let before = if m.abs() < 1.0 { 1 } else { libm::log10(m.abs()).floor() as usize + 1 };
            format!("{m:.*}", decimals.max(4usize.saturating_sub(before)))
        }
    };
    (published, measured)
}

/// Pads numbers on the right, so that decimal points of right-aligned numbers line up.
fn aligned<'a>(numbers: impl Iterator<Item = &'a str> + Clone) -> impl Iterator<Item = String> {
    let after = |n: &str| n.find('.').map_or(0, |point| n.len() - point);
    let widest = numbers.clone().map(after).max().unwrap_or(0);
    numbers.map(move |n| format!("{n}{:pad$}", "", pad = widest - after(n)))
}

fn off_by(row: &Outcome) -> String {
    match row.off_by() {
        Some(0.0) => "=".into(),
        Some(off) => percent(off, 1),
        None if row.measured == Ok(0.0) => "=".into(),
        None => String::new(),
    }
}

fn percent(share: f64, decimals: usize) -> String {
    let text = format!("{:+.decimals$}", share * 100.0);
    // A value that rounds to zero has no sign.
    let zero = text.bytes().all(|b| !(b'1'..=b'9').contains(&b));
    format!("{} %", if zero { &text[1..] } else { &text })
}

fn verdict(system: &SystemReport, row: &Outcome) -> &'static str {
    match (row.holds, row.row.role) {
        (Some(true), _) => "holds",
        (Some(false), _) if row.known_miss.is_some() => "MISS (known)",
        (Some(false), _) => "MISS",
        (None, Role::Fit)
            if system.fits.iter().any(|f| f.row == row.row.figure && f.failed.is_some()) =>
        {
            "FIT FAILED"
        }
        (None, Role::Fit) => "(fitted)",
        (None, Role::Definition) if row.is_broken() => "BROKEN",
        (None, _) => "",
    }
}

/// Describes what the rows are worth: how many hold against which degrees of freedom, those without
/// a claim, and the combinations of choices that do as well.
fn worth(system: &SystemReport) -> Vec<String> {
    let rows = &system.rows;
    let judged: Vec<bool> = rows.iter().filter_map(|r| r.holds).collect();
    let held = judged.iter().filter(|h| **h).count();
    let defined = rows.iter().filter(|r| r.row.role == Role::Definition);
    let (definitions, broken) =
        (defined.clone().count(), defined.filter(|r| r.is_broken()).count());
    let unjudged = rows.len() - judged.len() - definitions;
    let mut lines = vec![
        format!("{held} of {} judged rows hold: {}.", judged.len(), freedom(&system.freedom)),
        format!("{} fitted or shown and claim nothing.", rows_are(unjudged)),
    ];
    if definitions > 0 {
        let how = match broken {
            0 => "which cannot come out otherwise: not judged".to_owned(),
            n => format!("of which {n} came out otherwise: a fault of the model"),
        };
        lines.push(format!("{}, {how}.", count(definitions, "definition")));
    }
    if let Some(Combinations { hold, of }) = system.combinations {
        lines.push(format!(
            "{hold} of {of} combinations hold, the chosen one included: every row that it holds."
        ));
    }
    lines
}

/// Describes the degrees of freedom. With as many of them as predictions there is no evidence.
fn freedom(f: &DegreesOfFreedom) -> String {
    let DegreesOfFreedom { predicted, derived, looked_at, fitted, choices } = *f;
    let parts = [(derived, "arithmetic on other rows"), (looked_at, "looked at to choose a model")];
    let of_them =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} of them {what}"));
    let of_them = of_them.collect::<Vec<_>>().join(", ");
    let of_them = if of_them.is_empty() { of_them } else { format!(" ({of_them})") };
    let between = if choices == 0 {
        String::new()
    } else {
        format!(" and {} between models", count(choices, "choice"))
    };
    let verdict = if fitted + choices >= predicted { ": believe nothing" } else { "" };
    format!(
        "{}{of_them} against {}{between}{verdict}",
        count(predicted, "prediction"),
        count(fitted, "fit"),
    )
}

fn rows_are(n: usize) -> String {
    format!("{} {}", count(n, "row"), if n == 1 { "is" } else { "are" })
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn constants(system: &SystemReport) -> Table {
    let mut out = Table::new(["constant", "value", "unit", "from"]).right([1]).gap(3);
    let values: Vec<String> =
        system.constants.iter().map(|c| round_significant(c.value, 6).to_string()).collect();
    for (constant, value) in system.constants.iter().zip(aligned(values.iter().map(String::as_str)))
    {
        out.row([&constant.key, &value, &constant.unit, &constant.from()]);
    }
    out
}

fn choices(system: &SystemReport) -> Table {
    let mut out = Table::new(["choice", "chosen", "unit", "or", "looking at", "from"]).gap(3);
    for choice in system.constants.choices() {
        let rows: Vec<&str> = choice.rows.iter().map(|row| short_name(system, row)).collect();
        out.row([
            choice.key.clone(),
            choice.value().to_owned(),
            choice.unit.clone(),
            choice.others().collect::<Vec<_>>().join(", "),
            rows.join(", "),
            choice.from(),
        ]);
    }
    out
}

/// Writes the matrix, a block of columns at a time, with a legend of the columns.
fn sensitivity(text: &mut String, system: &SystemReport, found: &Sensitivity) {
    heading(text, "Sensitivity: change of each row in % when one constant is moved", '─');
    let mut legend = Table::default();
    for (at, c) in found.constants.iter().enumerate() {
        let how = if c.fitted { "fitted: moved alone" } else { "fits re-run" };
        legend.row([&format!("[{}]", at + 1), &c.key, &c.nudge.to_string(), how]);
    }
    *text += &legend.text(WIDTH);
    let constants = found.constants.iter().map(|c| {
        let cell = |at: usize| match c.rests(at) {
            Some(true) => "·".to_owned(),
            _ => change(c.refitted[at], 0.0),
        };
        (0..found.figures.len()).map(cell).collect()
    });
    matrix(text, system, found, &constants.collect::<Vec<_>>());
    if !found.choices.is_empty() {
        heading(text, "Choices: change of each row in % when another alternative is taken", '─');
        let mut legend = Table::default();
        for (at, c) in found.choices.iter().enumerate() {
            legend.row([&format!("[{}]", at + 1), &c.key, &c.alternative, "alone"]);
        }
        *text += &legend.text(WIDTH);
        let choices = found.choices.iter();
        let choices = choices.map(|c| c.alone.iter().map(|m| change(*m, MIN_EFFECT)).collect());
        matrix(text, system, found, &choices.collect::<Vec<_>>());
    }
    for figure in &found.disguised {
        let name = short_name(system, figure);
        let _ = writeln!(text, "\n {name} moves with nothing: a constant in disguise.");
    }
    for d in found.disagreements() {
        let name = short_name(system, &d.figure);
        if !d.idle.is_empty() {
            let _ = writeln!(
                text,
                "\n {name} is said to depend on {}, but does not move with it.",
                d.idle.join(", ")
            );
        }
        if !d.undeclared.is_empty() {
            let keys = d.undeclared.join(", ");
            let _ = writeln!(text, "\n {name} moves with {keys}, but does not say so.");
        }
    }
}

/// Formats a change in percent, or a dot if it is `still` or below.
fn change(moved: Option<f64>, still: f64) -> String {
    match moved {
        None => "lost".to_owned(),
        Some(change) if change.abs() <= still && still > 0.0 => "·".to_owned(),
        Some(change) => format!("{:+.3}", change * 100.0),
    }
}

/// Writes columns of cells, a block at a time, a line for each figure.
fn matrix(text: &mut String, system: &SystemReport, found: &Sensitivity, cells: &[Vec<String>]) {
    for (block, columns) in cells.chunks(MATRIX_COLUMNS).enumerate() {
        let numbers = (1..=columns.len()).map(|n| format!("[{}]", block * MATRIX_COLUMNS + n));
        let heads = std::iter::once(String::new()).chain(numbers);
        let mut matrix = Table::new(heads).right(1..=columns.len()).gap(3);
        for (at, figure) in found.figures.iter().enumerate() {
            let cells = columns.iter().map(|column| column[at].clone());
            matrix.row(std::iter::once(short_name(system, figure).to_owned()).chain(cells));
        }
        text.push('\n');
        *text += &matrix.text(WIDTH);
    }
}

fn closing(verdict: &Verdict) -> String {
    let Verdict::Misses { known, unknown, broken, failed_fits } = verdict else {
        return "Everything that was claimed holds.\n".into();
    };
    let mut text = String::new();
    let lines = [
        ("Missed", unknown),
        ("Missed, with an explanation", known),
        ("Definitions that came out otherwise", broken),
        ("Fits that failed", failed_fits),
    ];
    for (what, figures) in lines.into_iter().filter(|(_, figures)| !figures.is_empty()) {
        let _ = writeln!(text, "{what}: {}.", figures.join(", "));
    }
    text
}

fn documents(rows: &[Outcome]) -> Vec<&str> {
    let mut documents: Vec<&str> = Vec::new();
    for row in rows {
        let document = row.row.source.as_str();
        if !document.is_empty() && !documents.contains(&document) {
            documents.push(document);
        }
    }
    documents
}

/// Returns a figure's name without its system's.
fn short_name<'a>(system: &SystemReport, figure: &'a str) -> &'a str {
    figure.strip_prefix(&system.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(figure)
}

fn heading(text: &mut String, title: &str, line: char) {
    let rule: String = std::iter::repeat_n(line, title.chars().count().min(WIDTH - 2)).collect();
    let _ = writeln!(text, "\n {title}\n {rule}");
}

fn block(text: &mut String, title: &str, table: Table) {
    if !table.is_empty() {
        heading(text, title, '─');
        *text += &table.text(WIDTH);
    }
}
