//! Common parts of a page: text, tables, captions and colours.

use doorbell_console::render::{Table, Tone, amount};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Formats a relative change in percent, with its sign.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.1}", (share * 100.0).abs());
    match text.as_str() {
        "0.0" => "0 %".to_owned(),
        _ => format!("{}{text} %", if share > 0.0 { "+" } else { "−" }),
    }
}

/// Returns the change from one number to another in percent, if there is one.
pub(super) fn change(from: f64, to: f64) -> Option<String> {
    (from != 0.0).then(|| percent(to / from - 1.0))
}

/// Returns a name in words.
pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Returns what a setting chooses: of `driver.mpwqe=on` "mpwqe on".
pub(super) fn setting(text: &str) -> String {
    let key = text.split('=').next().unwrap_or_default().len();
    let own = text[..key].rfind('.').map_or(text, |dot| &text[dot + 1..]);
    own.replacen('=', " ", 1).replace('_', " ")
}

/// Returns a count with its noun.
pub(super) fn count(n: usize, what: &str) -> String {
    let ending = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{n} {what}{ending}")
}

/// Returns a text with its first letter large.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

/// Returns a word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,=:/@+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Makes a table that may be wider than its place.
pub(super) fn table(name: &str, heads: &[String], left: usize, rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label=(name) {
            table {
                thead { tr {
                    @for (i, head) in heads.iter().enumerate() {
                        th scope="col" class=[(i >= left).then_some("n")] { (head) }
                    }
                } }
                tbody {
                    @for row in rows { tr {
                        @for (i, cell) in row.iter().enumerate() {
                            @if i == 0 { th scope="row" { (cell) } }
                            @else if i < left { td { (cell) } }
                            @else { td.n { (cell) } }
                        }
                    } }
                }
            }
        }
    }
}

/// Makes a table of a terminal, with its tones and notes.
pub(super) fn of_terminal(name: &str, table: &Table) -> Markup {
    let noted = table.rows().iter().any(|(_, note)| !note.is_empty());
    let right = |i| table.is_right(i).then_some("n");
    html! {
        div.wide tabindex="0" role="group" aria-label=(name) {
            table {
                thead { tr {
                    @for (i, head) in table.heads().iter().enumerate() {
                        th scope="col" class=[right(i)] { (head.shown()) }
                    }
                    @if noted { th scope="col" { "is" } }
                } }
                tbody {
                    @for (cells, note) in table.rows() { tr {
                        @for (i, cell) in cells.iter().enumerate() {
                            @if i == 0 { th scope="row" { (breakable(cell.shown())) } }
                            @else { td class=[right(i)] { (toned(cell.shown(), cell.tone())) } }
                        }
                        @if noted { td.soft { (note) } }
                    } }
                }
            }
        }
    }
}

/// Marks a text as better or worse, also for those who do not see colours.
pub(super) fn toned(text: &str, tone: Option<Tone>) -> Markup {
    match tone {
        None => html! { (text) },
        Some(Tone::Better) => html! { span.holds { (text) " ▼" } },
        Some(Tone::Worse) => html! { span.miss { (text) " ▲" } },
    }
}

/// Makes a name that may be broken behind its underscores.
pub(super) fn breakable(name: &str) -> Markup {
    html! {
        code.name {
            @for (i, part) in name.split('_').enumerate() {
                @if i > 0 { "_" wbr; }
                (part)
            }
        }
    }
}

/// Makes a chart's frame: what it shows, the drawing, and its numbers to read.
pub(super) fn figure(
    (title, change, about): (&str, Markup, &str),
    drawing: &Markup,
    numbers: &Markup,
) -> Markup {
    html! {
        figure.panel {
            figcaption {
                h4 { (title) }
                span.change { (change) }
                @if !about.is_empty() { p.soft.small { (about) } }
            }
            (drawing)
            details {
                summary { "As a table" span.hide { ": " (title) } }
                div.scroll { (numbers) }
            }
        }
    }
}

/// Makes a list of names and values; those without a value are left out.
pub(super) fn facts(all: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in all.iter().filter(|(_, v)| !v.0.is_empty()) {
                dt { (name) }
                dd { (value) }
            }
        }
    }
}

/// Makes a list of colours and what they stand for.
pub(super) fn legend(names: &[String], colours: &[&str]) -> Markup {
    html! {
        ul.keys {
            @for (name, colour) in names.iter().zip(colours) {
                li { span.swatch aria-hidden="true" style={ "--swatch:" (colour) } {} (name) }
            }
        }
    }
}

/// Formats a number of a table, or nothing.
pub(super) fn cell(number: Option<f64>) -> Markup {
    html! { @if let Some(n) = number { (amount(n)) } }
}

/// The colours of names, the same in each chart of a page.
#[derive(Default)]
pub(super) struct Palette(BTreeMap<&'static str, Vec<(String, &'static str)>>);

const COLOURS: [&str; 8] = [
    "var(--c0)",
    "var(--c1)",
    "var(--c2)",
    "var(--c3)",
    "var(--c4)",
    "var(--c5)",
    "var(--c6)",
    "var(--c7)",
];
/// The colours of the old and the new side, before the others.
const SIDES: [&str; 2] = ["var(--before)", "var(--after)"];
/// The colour of what has none of its own.
pub(super) const REST: &str = "var(--rest)";

impl Palette {
    /// Returns the colours of items of a kind, no two of them alike.
    pub(super) fn items(&mut self, kind: &'static str, names: &[String]) -> Vec<&'static str> {
        self.of(kind, names, &COLOURS)
    }

    /// Returns the colours of runs or sides: of two the first is the old one, one alone is new.
    pub(super) fn sides(&mut self, labels: &[String]) -> Vec<&'static str> {
        if labels.len() == 1 {
            vec![SIDES[1]]
        } else {
            self.of("sides", labels, &[&SIDES, &COLOURS[2..]].concat())
        }
    }

    fn of(
        &mut self,
        kind: &'static str,
        names: &[String],
        all: &[&'static str],
    ) -> Vec<&'static str> {
        let known = self.0.entry(kind).or_default();
        let mut taken: Vec<Option<&str>> = Vec::new();
        for name in names {
            let colour = known.iter().find(|(n, _)| n == name).map(|(_, colour)| *colour);
            taken.push(colour.filter(|c| !taken.contains(&Some(*c))));
        }
        let mut given = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let colour = taken[i].unwrap_or_else(|| {
                let free = all.iter().filter(|c| !taken.contains(&Some(**c)));
                // Of the free ones the first that no other name has.
                let used = |c: &&&'static str| known.iter().any(|(_, k)| *k == **c);
                let colour = free.min_by_key(used).copied().unwrap_or(REST);
                if !known.iter().any(|(n, _)| n == name) {
                    known.push((name.clone(), colour));
                }
                colour
            });
            taken[i] = Some(colour);
            given.push(colour);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|n| (*n).to_owned()).collect()
    }

    #[test]
    fn a_name_keeps_its_colour_and_no_two_in_a_chart_are_alike() {
        let mut palette = Palette::default();
        let first = palette.items("bytes", &names(&["a", "b", "c"]));
        let again = palette.items("bytes", &names(&["c", "d", "a"]));
        assert_eq!((again[0], again[2]), (first[2], first[0]));
        assert!(!first.contains(&again[1]));
        let many: Vec<String> = (0..8).map(|i| format!("n{i}")).collect();
        let mut colours = palette.items("bytes", &many);
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 8);
    }

    #[test]
    fn one_side_alone_is_the_new_one() {
        let mut palette = Palette::default();
        assert_eq!(palette.sides(&names(&["mine"])), ["var(--after)"]);
        assert_eq!(palette.sides(&names(&["off", "on"])), ["var(--before)", "var(--after)"]);
    }

    #[test]
    fn text_is_what_people_write() {
        assert_eq!([0.1234, -0.05, 0.0, 0.0001].map(percent), ["+12.3 %", "−5.0 %", "0 %", "0 %"]);
        assert_eq!(setting("driver.mpwqe=on"), "mpwqe on");
        assert_eq!(setting("run.fault=loss@1.5%"), "fault loss@1.5%");
        assert_eq!(
            [count(1, "miss"), count(2, "miss"), count(3, "row")],
            ["1 miss", "2 misses", "3 rows"]
        );
        assert_eq!([quoted("a=b"), quoted("it's 10 ms")], ["a=b", r"'it'\''s 10 ms'"]);
    }
}
