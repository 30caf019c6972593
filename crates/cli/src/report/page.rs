//! The page: one self-contained HTML file without a script.
//!
//! Text of results never is markup: all of it goes through `maud`, which escapes it. The content
//! security policy allows styles alone, and no network.

use super::data::Other;
use super::html::{Palette, breakable, count, facts, of_terminal, table};
use super::lines::series;
use super::systems::Held;
use super::{Labelled, Results, figures, runs, sweeps, systems};
use crate::guest::{self, GuestResult};
use doorbell_console::render::amount;
use doorbell_spec::table::names;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

const STYLE: &str = include_str!("style.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Makes the page of all results.
pub(super) fn page(all: &Results) -> String {
    let mut palette = Palette::default();
    let mut nav: Vec<(String, String)> = Vec::new();
    let mut body: Vec<Markup> = Vec::new();
    let mut put = |id: &str, name: &str, section: Markup| {
        nav.push((id.to_owned(), name.to_owned()));
        body.push(section);
    };
    let mut title = String::new();
    let mut head = None;
    if let Some(all) = &all.reproduced {
        head = Some(reproduced(&all.systems));
        put("figures", "figures", figures::section(&all.systems));
        for s in &all.systems {
            put(&s.name, &s.name, systems::section(&mut palette, s));
        }
    }
    if !all.runs.is_empty() {
        if head.is_none() {
            let (said, named) = runs::head(&all.runs);
            (head, title) = (Some(said), named);
        }
        put("runs", "runs", runs::section(&mut palette, &all.runs));
    }
    // Of other results the sentence of the first is the head.
    let mut first = |label: &str, sentence: String| {
        let is_head = head.is_none();
        if is_head {
            head = Some(html! { h1 { (sentence) } });
        }
        if all.reproduced.is_none() && all.runs.is_empty() {
            title += if title.is_empty() { "" } else { ", " };
            title += label;
        }
        is_head
    };
    for (i, g) in all.guests.iter().enumerate() {
        let (id, is_head) =
            (format!("guest-{}", i + 1), first(&g.label, guest::sentence(&g.label, &g.of)));
        put(&id, &g.label, guest_section(&mut palette, g, &id, is_head));
    }
    for (i, s) in all.sweeps.iter().enumerate() {
        let (id, is_head) = (format!("sweep-{}", i + 1), first(&s.label, sweeps::title(s)));
        put(&id, &s.label, sweeps::swept(&mut palette, s, &id, is_head));
    }
    for (i, r) in all.ranks.iter().enumerate() {
        let (id, is_head) = (format!("rank-{}", i + 1), first(&r.label, sweeps::rank_title(r)));
        put(&id, &r.label, sweeps::ranked(&mut palette, r, &id, is_head));
    }
    for (i, o) in all.others.iter().enumerate() {
        let id = format!("other-{}", i + 1);
        first(&o.label, format!("{}: a result of {}", o.label, o.of.kind));
        put(&id, &o.label, other(o, &id));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { @if !title.is_empty() { (title) " · " } "Doorbell" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the results" }
                header.top {
                    div.inner {
                        a.brand href="#main" { "Doorbell" }
                        nav aria-label="Sections" {
                            @for (id, name) in &nav { a href={ "#" (id) } { (name) } }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    (head.unwrap_or_default())
                    @for section in &body { (section) }
                    footer {
                        p {
                            "Made by doorbell " (env!("CARGO_PKG_VERSION"))
                            ". This file is all of it: it opens offline, fetches nothing and runs \
                             nothing."
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Returns the head of a page with published figures.
fn reproduced(all: &[super::data::System]) -> Markup {
    let Held { judged, held, known, missed } = Held::of(all);
    let title = if missed > 0 {
        format!("{missed} of {judged} judged figures missed")
    } else {
        format!("{held} of {judged} judged figures hold")
    };
    let mut said = Vec::new();
    if missed > 0 {
        said.push(format!("{held} hold"));
    }
    if known > 0 {
        said.push(format!("{} with an explanation", count(known, "miss")));
    }
    if missed > 0 {
        said.push(format!("{missed} without"));
    }
    let rows: usize = all.iter().map(|s| s.rows.len()).sum();
    said.push(format!(
        "{} more are definitions, fitted or shown, and claim nothing",
        rows - judged
    ));
    html! {
        h1 { (title) }
        p.soft { (said.join("; ")) ". Every number says where it comes from." }
        ul.tiles { @for s in all { (systems::tile(s)) } }
    }
}

/// Draws a result of `guest`: for each workload the tables of the command.
fn guest_section(
    palette: &mut Palette,
    result: &Labelled<GuestResult>,
    id: &str,
    head: bool,
) -> Markup {
    let (bus, parts) = guest::parts(&result.of);
    let workloads = result.of.workloads().into_iter();
    let moving: Vec<Markup> = workloads
        .map(|workload| {
            let (names, all) = guest::over_time(&result.of, workload);
            series(palette, &all.iter().collect::<Vec<_>>(), &names)
        })
        .collect();
    let words = guest::command_of(&result.of).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = if words.is_empty() { String::new() } else { runs::options(&words, &[]) };
    html! {
        section id=(id) {
            h2 { "Guest: " (result.label) }
            @if !head { p { (guest::sentence(&result.label, &result.of)) "." } }
            p.soft { (bus) }
            @for ((title, tables), moving) in parts.iter().zip(&moving) {
                h3 { (title) }
                @for table in tables.iter().filter(|t| !t.is_empty()) {
                    div.panel { (of_terminal(title, table)) }
                }
                (moving)
            }
            p.soft.small { @for line in guest::LEGEND { (line) " " } }
            h3 { "Where it comes from" }
            div.panel {
                @let made = result.date.iter().cloned().chain([result.program.to_string()]);
                (facts(&[
                    ("command", html! { @if !command.is_empty() { code { (command) } } }),
                    ("made", html! { (made.collect::<Vec<_>>().join(", ")) }),
                ]))
            }
        }
    }
}

/// Draws any other result: its plain members as facts, and its lists of objects as tables.
fn other(result: &Labelled<Other>, id: &str) -> Markup {
    let of = &result.of;
    let plain = |v: &Value| match v {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => {
            Some(n.as_f64().filter(|x| x.fract() != 0.0).map_or(n.to_string(), amount))
        }
        Value::Bool(b) => Some(b.to_string()),
    };
    // The origin's members, without all settings, and what a member says in words.
    let lines = of.members.iter().flat_map(|(name, v)| match v {
        Value::Object(own) if name == "of" => {
            own.iter().map(|(n, v)| (n.clone(), v)).collect::<Vec<_>>()
        }
        Value::Object(own) => {
            own.iter().map(|(n, v)| (format!("{name}: {n}"), v)).collect::<Vec<_>>()
        }
        v => vec![(name.clone(), v)],
    });
    let lines: Vec<(String, Markup)> =
        lines.filter_map(|(n, v)| Some((n.replace('_', " "), html! { (plain(v)?) }))).collect();
    let lines: Vec<_> = lines.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
    let lists = of.members.iter().filter_map(|(name, v)| {
        let rows: Vec<_> = v.as_array()?.iter().filter_map(Value::as_object).collect();
        (!rows.is_empty()).then_some((name.replace('_', " "), rows))
    });
    let cell = |v: Option<&Value>| match v {
        Some(Value::Array(all)) => all.iter().filter_map(plain).collect::<Vec<_>>().join(", "),
        Some(v) => plain(v).unwrap_or_default(),
        None => String::new(),
    };
    html! {
        section id=(id) {
            h2 { (super::html::sentence(&of.kind)) ": " (result.label) }
            div.panel { (facts(&lines)) }
            @for (name, rows) in lists {
                h3 { (super::html::sentence(&name)) }
                @let heads: Vec<String> =
                    names(rows.iter().copied()).into_iter().map(str::to_owned).collect();
                @let body: Vec<Vec<Markup>> = rows.iter().map(|r| {
                    heads.iter().enumerate().map(|(i, h)| {
                        let text = cell(r.get(h));
                        if i == 0 { breakable(&text) } else { html! { (text) } }
                    }).collect()
                }).collect();
                div.panel { (table(&name, &heads, heads.len(), &body)) }
            }
            p.soft.small { "Made by " (of.doorbell.to_string()) "." }
        }
    }
}

#[cfg(test)]
mod tests;
