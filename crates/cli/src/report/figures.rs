//! The published figures beside ours, in one table.

use super::data::{Row, System};
use super::html::{count, facts, percent, words};
use doorbell_console::render::amount;
use doorbell_study::figures::Tolerance;
use maud::{Markup, html};

const ROLES: [(&str, &str); 6] = [
    ("exact", "must come out equal"),
    (
        "predicted",
        "computed from constants that other rows or data sheets fixed; within a tolerance",
    ),
    ("bound", "the published figure must lie on this side of ours"),
    (
        "definition",
        "cannot come out otherwise: it restates a switch, another figure, or what was fed in",
    ),
    ("fit", "one constant was fitted on it, so that it comes out says nothing"),
    ("shown", "side by side; nothing is claimed"),
];

/// Verdicts: class and name of a filter.
const VERDICTS: [(&str, &str); 4] =
    [("holds", "holds"), ("known", "known miss"), ("miss", "miss"), ("none", "not judged")];

/// Returns class and words of a row's verdict.
fn verdict(row: &Row) -> (&'static str, &'static str) {
    match row.holds {
        Some(true) => ("holds", "✓ holds"),
        Some(false) if row.known => ("known", "! known miss"),
        Some(false) => ("miss", "✗ miss"),
        None if row.broken => ("miss", "✗ came out otherwise"),
        None => ("none", if row.role == "fit" { "fitted" } else { "not judged" }),
    }
}

fn tolerance(row: &Row) -> String {
    match (&row.tolerance_text, row.role.as_str(), row.side.as_deref()) {
        (Some(text), _, _) => text.clone(),
        (None, "exact", _) => "none".to_owned(),
        (None, "bound", Some("AtOrBelow")) => "≤ ours".to_owned(),
        (None, "bound", _) => "≥ ours".to_owned(),
        _ => String::new(),
    }
}

/// Returns ours with at least as many decimals as were published.
fn ours(row: &Row) -> String {
    let Some(measured) = row.measured else { return "not measured".to_owned() };
    let published = row.published.to_string();
    let decimals = published.split_once('.').map_or(0, |(_, d)| d.len());
    let whole = libm::log10(measured.abs().max(1.0)) as usize + 1;
    let text = format!("{measured:.*}", decimals.max(4usize.saturating_sub(whole)));
    // Zeros behind what was published say nothing.
    let (units, rest) = text.split_once('.').unwrap_or((&text, ""));
    let end = rest.trim_end_matches('0').len().max(decimals);
    if end == 0 { units.to_owned() } else { format!("{units}.{}", &rest[..end]) }
}

/// Draws how far off, against what is allowed. It ends at twice the tolerance, or at 10 %.
fn gauge(row: &Row) -> Markup {
    let Some(off) = row.off_by else { return html! {} };
    let allowed = row.tolerance.and_then(|t| match t {
        Tolerance::Rel(share) => Some(share),
        Tolerance::Abs(by) => (row.published != 0.0).then(|| by / row.published.abs()),
    });
    let end = allowed.filter(|a| *a > 0.0).map_or(0.1, |a| a * 2.0);
    let at = |share: f64| format!("{:.1}%", 50.0 + 50.0 * (share / end).clamp(-1.0, 1.0));
    html! {
        span class={ "gauge " (verdict(row).0) } aria-hidden="true" {
            @if let Some(a) = allowed.filter(|a| *a > 0.0) {
                i style={ "left:" (at(-a)) ";right:" (at(-a)) } {}
            }
            u {}
            s class=[(off.abs() > end).then_some("far")] style={ "left:" (at(off)) } {}
        }
    }
}

fn off_by(row: &Row) -> String {
    match row.off_by {
        Some(0.0) => "=".to_owned(),
        Some(off) => percent(off),
        None if row.measured == Some(row.published) => "=".to_owned(),
        None => String::new(),
    }
}

/// Says where both numbers of a row come from.
fn source(row: &Row, system: &System) -> Markup {
    let role = ROLES.iter().find(|(name, _)| *name == row.role).map_or("", |(_, about)| about);
    let spread = row.spread.map_or(String::new(), |s| format!(" ±{s}"));
    let constant = |key: &String| {
        let of = |value: String, unit: &str| format!("{key} {value} {unit}").trim().to_owned();
        let constants = system.constants.iter().find(|c| c.key == *key);
        let choices = system.choices.iter().find(|c| c.key == *key);
        constants
            .map(|c| of(amount(c.value), &c.unit))
            .or_else(|| choices.map(|c| of(c.value.clone(), &c.unit)))
    };
    let rests: Vec<String> = row.inputs.iter().filter_map(constant).collect();
    let published = format!("{}{spread} {}", row.published, row.unit);
    facts(&[
        ("figure", html! { code { (row.figure) } }),
        ("published", html! { (published) ": " (row.document) ", " (row.passage) }),
        ("ours", html! { "computed by this run’s models" }),
        ("role", html! { (row.role) ": " (role) }),
        ("rests on", html! { (rests.join(", ")) }),
        ("note", html! { (row.remarks.join("; ")) }),
    ])
}

/// A filter: a group of buttons of which one is chosen, that hides rows by their classes.
struct Filter<'a> {
    name: &'a str,
    /// Class and name of each value.
    values: Vec<(&'a str, &'a str)>,
}

impl Filter<'_> {
    fn buttons(&self) -> Markup {
        html! {
            fieldset {
                legend { (self.name) }
                label.chip {
                    input type="radio" name={ "only-" (self.name) } checked;
                    "all"
                }
                @for (class, name) in &self.values {
                    label.chip {
                        input type="radio" name={ "only-" (self.name) } id={ "only-" (class) };
                        (name)
                    }
                }
            }
        }
    }

    /// Returns the rules that hide the other rows, without a script.
    fn rules(&self) -> String {
        let rule = |class: &str| {
            format!(
                "#figures:has(#only-{class}:checked) .rows tbody tr:not(.group, .of-{class})\
                 {{display:none}}\n"
            )
        };
        self.values.iter().map(|(class, _)| rule(class)).collect()
    }
}

/// Draws the table of all systems.
pub(super) fn section(systems: &[System]) -> Markup {
    let rows = || systems.iter().flat_map(|s| &s.rows);
    let there = |all: &[(&'static str, &'static str)], has: &dyn Fn(&Row, &str) -> bool| {
        let all = all.iter().filter(|(class, _)| rows().any(|r| has(r, class)));
        all.map(|(class, name)| (*class, *name)).collect::<Vec<_>>()
    };
    let roles = ROLES.map(|(name, _)| (name, name));
    let mut filters = vec![
        Filter { name: "verdict", values: there(&VERDICTS, &|r, class| verdict(r).0 == class) },
        Filter { name: "role", values: there(&roles, &|r, class| r.role == class) },
    ];
    if systems.len() > 1 {
        let values = systems.iter().map(|s| (s.name.as_str(), s.name.as_str())).collect();
        filters.insert(0, Filter { name: "system", values });
    }
    html! {
        section id="figures" {
            h2 { "Published figures" }
            p.soft {
                (count(rows().count(), "figure"))
                ". The bar is the tolerance, the point is ours; a diamond lies beyond the scale. \
                 Each figure opens to its source, its role and what it rests on."
            }
            style { @for filter in &filters { (maud::PreEscaped(filter.rules())) } }
            div.filters role="group" aria-label="Show only" {
                @for filter in &filters { (filter.buttons()) }
            }
            table.rows {
                thead { tr {
                    th scope="col" { "Figure" }
                    th.n scope="col" { "Published" }
                    th.n scope="col" { "Ours" }
                    th scope="col" { "Unit" }
                    th scope="col" { "Off by" }
                    th scope="col" { "Tolerance" }
                    th scope="col" { "Role" }
                    th scope="col" { "Verdict" }
                } }
                @for s in systems {
                    tbody {
                        tr.group {
                            th colspan="8" scope="colgroup" {
                                (s.name)
                                span {
                                    @if s.swapped { "swapped: fitted on the other state · " }
                                    (s.about)
                                }
                            }
                        }
                        @for r in &s.rows { (row(r, s)) }
                    }
                }
            }
        }
    }
}

fn row(r: &Row, system: &System) -> Markup {
    let (class, said) = verdict(r);
    html! {
        tr class={ "of-" (class) " of-" (r.role) " of-" (system.name) } {
            th scope="row" { details { summary { (words(&r.name)) } (source(r, system)) } }
            td.n.p data-head="published" { (r.published) }
            td.n.o data-head="ours" { (ours(r)) }
            td.u.soft { (r.unit) }
            td.d { span.off { b { (off_by(r)) } (gauge(r)) } }
            td.t { (tolerance(r)) }
            td.r { (r.role) }
            td.v { span class={ "verdict " (class) } { (said) } }
        }
    }
}
