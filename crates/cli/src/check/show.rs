//! A verdict for people, for a CI run's summary, and for programs.

use super::budget::Bounds;
use super::{Row, Verdict};
use crate::sweep::render;
use crate::text::{amount, heading};
use serde_json::{Value, json};

/// `≤ 128`, as it is written in the file.
fn allowed(b: &Bounds) -> String {
    match *b {
        Bounds::Exactly(n) => format!("= {n}"),
        Bounds::Between { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        Bounds::Between { min: Some(n), .. } => format!("≥ {n}"),
        Bounds::Between { max, .. } => format!("≤ {}", max.unwrap_or_default()),
    }
}

/// Six digits, or all before the point: close to how numbers are written in budgets.
fn measured(x: f64) -> String {
    if x.abs() >= 1e5 {
        format!("{x:.0}")
    } else {
        format!("{x:.5e}").parse().unwrap_or(x).to_string()
    }
}

/// With its sign; nothing if it is none.
fn signed(x: f64) -> String {
    if x == 0.0 {
        "0".to_owned()
    } else {
        format!("{}{}", if x > 0.0 { "+" } else { "" }, amount(x))
    }
}

/// What is allowed, what was measured, and by how much they differ; then what is broken, with its
/// line.
pub(super) fn table(v: &Verdict<'_>, markdown: bool) -> String {
    let mut text = if markdown { format!("### {}\n\n", v.title) } else { heading(&v.title) };
    for set in &v.set {
        text += &format!("{} with {set}\n", if markdown { "-" } else { "" });
    }
    if markdown && !v.set.is_empty() {
        text.push('\n');
    }
    let heads = ["", "allowed", "measured", "difference", "percent", ""].map(str::to_owned);
    let row = |r: &Row<'_>| {
        let against = r.against();
        let percent = against.percent.filter(|p| *p != 0.0).map_or(String::new(), signed);
        let broken = if r.holds() { "" } else { "BROKEN" };
        let cells = [
            &r.line.name,
            &allowed(&r.line.bounds),
            &measured(r.measured),
            &signed(against.difference),
            &percent,
        ];
        cells.into_iter().cloned().chain([broken.to_owned()]).collect()
    };
    text += if markdown { "" } else { "\n" };
    text += &render(&heads, 1, v.rows.iter().map(row).collect(), markdown);
    let (all, broken) = (v.rows.len(), v.broken());
    text += &format!("\n{}{}: ", if markdown { "" } else { " " }, v.file);
    text += &match (broken, v.unsound.is_empty()) {
        (0, true) => format!("{all} of {all} hold\n"),
        (0, false) => "NOTHING HOLDS, since the audit failed\n".to_owned(),
        _ => format!("BROKEN, {broken} of {all}\n"),
    };
    text += if markdown && !v.holds() { "\n```\n" } else { "" };
    for why in &v.unsound {
        text += &format!("{}: audit: {why}\n", v.file);
    }
    for r in v.rows.iter().filter(|r| !r.holds()) {
        text += &format!("{}:{}: {}\n", v.file, r.line.at, said(r));
    }
    text += if markdown && !v.holds() { "```\n" } else { "" };
    text
}

/// What is broken, in words.
fn said(r: &Row<'_>) -> String {
    let against = r.against();
    let over = if against.difference > 0.0 { "more than" } else { "less than" };
    let percent = against.percent.map_or(String::new(), |p| format!(" ({} %)", amount(p.abs())));
    let by = amount(against.difference.abs());
    format!("{} is {}: {by}{percent} {over} {}", r.line.name, measured(r.measured), against.bound)
}

/// The same, whole numbers and all digits.
pub(super) fn json(v: &Verdict<'_>) -> String {
    let row = |r: &Row<'_>| -> Value {
        let against = r.against();
        let allowed = match r.line.bounds {
            Bounds::Exactly(n) => json!({ "exact": n }),
            Bounds::Between { min, max } => {
                let parts = [("min", min), ("max", max)]
                    .into_iter()
                    .filter_map(|(k, v)| Some((k.to_owned(), json!(v?))));
                Value::Object(parts.collect())
            }
        };
        json!({
            "name": r.line.name,
            "line": r.line.at,
            "allowed": allowed,
            "measured": r.measured,
            "difference": against.difference,
            "percent": against.percent,
            "holds": r.holds(),
        })
    };
    let all = json!({
        "budget": v.file,
        "of": v.title,
        "set": v.set,
        "holds": v.holds(),
        "broken": v.broken(),
        "audit": if v.unsound.is_empty() { json!("ok") } else { json!(v.unsound) },
        "rows": v.rows.iter().map(row).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&all)
        .unwrap_or_else(|e| unreachable!("plain numbers serialise: {e}"))
        + "\n"
}
