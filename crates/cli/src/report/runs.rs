//! One's own runs: what differs and what limits, first as a sentence; then facts, rates and bills.

use super::data::Run;
use super::html::{
    Palette, breakable, change, count, facts, legend, percent, quoted, sentence, table, words,
};
use super::lines::{latency, metric, series};
use super::{Labelled, bill};
use doorbell_console::render::{self, amount, count as grouped};
use doorbell_hal::Unit;
use doorbell_spec::number::Number;
use doorbell_systems::result::Provenance;
use indexmap::IndexSet;
use maud::{Markup, html};

/// A resource at so much of its limit is what limits.
const FULL: f64 = 0.97;
/// Relative changes below this are not told.
const LEAST: f64 = 0.001;

/// Formats a number in the unit that people use.
pub(super) fn told(name: &str, value: f64, plain: Option<&str>) -> String {
    let known = metric(name).map(|m| m.unit).filter(|u| !render::people(*u, 1.0).1.is_empty());
    match (known, plain) {
        (Some(unit), _) => {
            let (text, unit) = render::rate(unit, value);
            format!("{text} {unit}")
        }
        (None, Some(unit)) if unit != name => format!("{} {unit}", amount(value)).trim().to_owned(),
        _ => amount(value),
    }
}

fn packets(run: &Run) -> f64 {
    run.value("rates", "packets_per_s").unwrap_or(0.0)
}

fn speed(run: &Run) -> String {
    told("packets_per_s", packets(run), None)
}

/// Returns the names of results, no two alike.
fn labels<T>(all: &[Labelled<T>]) -> Vec<String> {
    let unique = |(i, r): (usize, &Labelled<T>)| {
        let first = all.iter().position(|o| o.label == r.label);
        if first == Some(i) { r.label.clone() } else { format!("{} ({})", r.label, i + 1) }
    };
    all.iter().enumerate().map(unique).collect()
}

/// Returns a sentence about what limits each of the runs.
fn limits(runs: &[&Run], labels: &[String]) -> String {
    // The resource in a person's words, then what more of it would give.
    let said = |(run, label): (&&Run, &String)| {
        let limit = run.limit.as_ref()?;
        let own = if runs.len() > 1 { format!("{label} is limited") } else { "Limited".to_owned() };
        Some(match &limit.binds {
            None => format!("{own} by {}", limit.said),
            Some(name) => {
                let more = limit.said.strip_prefix(&format!("{name}: ")).unwrap_or(&limit.said);
                format!("{own} by its {}: {more}", words(name).replace("cpu", "CPU"))
            }
        })
    };
    if let Some(said) = runs.iter().zip(labels).map(said).collect::<Option<Vec<_>>>() {
        return format!("{}.", said.join("; "));
    }
    let nearest = |run: &&Run| {
        let Number { name, value, .. } = run.numbers.group("limits").first()?;
        let end = ["_busy_share", "_share"].iter().find_map(|e| name.strip_suffix(e));
        let name = end.unwrap_or(name).replace('_', " ").replace("cpu", "CPU");
        Some((name, *value))
    };
    let Some(all) = runs.iter().map(nearest).collect::<Option<Vec<_>>>() else {
        return String::new();
    };
    let used = |share: f64| format!("{:.0} %", share.min(1.0) * 100.0);
    if let [(name, share)] = &all[..] {
        return if *share >= FULL {
            format!("The limit is the {name}, {} used.", used(*share))
        } else {
            format!("Nothing is at its limit; the nearest is the {name}, {} used.", used(*share))
        };
    }
    let each = labels.iter().zip(&all).map(|(label, (name, share))| {
        let full = if *share >= FULL { ", at its limit" } else { "" };
        format!("{label}: the {name}, {} used{full}", used(*share))
    });
    format!("Nearest to its limit: {}.", each.collect::<Vec<_>>().join("; "))
}

/// Returns whether the packet rates of two runs differ by more than their errors.
fn rates_differ(a: &Run, b: &Run) -> bool {
    let error = |r: &Run| r.numbers.number("rates", "packets_per_s")?.error;
    let error = |r: &Run| error(r).unwrap_or(0.0);
    let (x, y) = (packets(a), packets(b));
    (y - x).abs() > (error(a) + error(b)).max(LEAST * x)
}

/// Returns what differs between two runs: the packet rate and what changed most of CPU and bus; and
/// the rest.
fn difference(a: &Run, b: &Run, labels: &[String]) -> (String, String) {
    let [first, second] = [&labels[0], &labels[1]];
    let size = |share: f64| percent(share.abs()).trim_start_matches('+').to_owned();
    let share = packets(b) / packets(a) - 1.0;
    let rate = if rates_differ(a, b) {
        let more = if share > 0.0 { "more" } else { "fewer" };
        format!(
            "{second} sends {} {more} packets than {first}, {} → {}",
            size(share),
            speed(a),
            speed(b)
        )
    } else {
        format!("{second} is as fast as {first}, {}", speed(b))
    };
    let changes = bill::parts_of(a).into_iter().zip(bill::parts_of(b)).filter_map(|(x, y)| {
        let change = if x.1 > 0.0 { Some(y.1 / x.1 - 1.0) } else { None };
        let differs = change.map_or(y.1 > 0.0, |c| c.abs() > LEAST);
        differs.then_some((x.0, change))
    });
    let changes: Vec<_> = changes.collect();
    let tell = |(part, change): &(&doorbell_systems::bill::Part, Option<f64>)| {
        let mut title = part.title.to_owned();
        if !title.starts_with("CPU") {
            title[..1].make_ascii_lowercase();
        }
        match change {
            Some(c) => format!("{} {} {title}", size(*c), if *c > 0.0 { "more" } else { "fewer" }),
            None => format!("{title}, of which {first} has none"),
        }
    };
    let by_size =
        |c: &&(&doorbell_systems::bill::Part, Option<f64>)| c.1.map_or(f64::MAX, f64::abs);
    let main = changes.iter().filter(|c| ["cycles", "bytes"].contains(&c.0.name));
    let main = main.max_by(|x, y| by_size(x).total_cmp(&by_size(y))).or(changes.first());
    let rest = changes.iter().filter(|c| main.is_none_or(|m| m.0.name != c.0.name)).map(tell);
    let rest = rest.collect::<Vec<_>>().join(", ");
    let main = main.map_or("the same".to_owned(), tell);
    let besides = if rest.is_empty() { rest } else { format!("Besides: {rest}.") };
    (format!("{rate}; a packet costs {main}"), besides)
}

/// Returns the conclusion for the head of the page, and what else there is to say.
fn conclusion(runs: &[&Run], labels: &[String]) -> (String, String) {
    let cycles = |r: &Run| r.value("per_packet", "cycles").unwrap_or(0.0);
    match runs {
        [a, b] => difference(a, b, labels),
        [one] => {
            let cycles = amount(cycles(one));
            let title = format!("{}: {}, {cycles} CPU cycles a packet", labels[0], speed(one));
            (title, String::new())
        }
        _ => {
            let all = || runs.iter().zip(labels);
            let fastest = all().max_by(|a, b| packets(a.0).total_cmp(&packets(b.0)));
            let cheapest = all().min_by(|a, b| cycles(a.0).total_cmp(&cycles(b.0)));
            let title = fastest.map_or(String::new(), |(run, label)| {
                let n = count(runs.len(), "run");
                format!("Of {n} {label} is the fastest, {}", speed(run))
            });
            let rest = cheapest.map_or(String::new(), |(run, label)| {
                format!("The fewest CPU cycles a packet: {label}, {}.", amount(cycles(run)))
            });
            (title, rest)
        }
    }
}

/// Returns the head of a page of runs alone, and its title.
pub(super) fn head(all: &[Labelled<Run>]) -> (Markup, String) {
    let labels = labels(all);
    let runs: Vec<&Run> = all.iter().map(|r| &r.of).collect();
    let (title, rest) = conclusion(&runs, &labels);
    let each = runs.iter().zip(&labels).map(|(r, label)| {
        let set: String = r.set.iter().map(|s| format!(", {s}")).collect();
        format!("{label}: {} on {}{set}", r.scenario, r.profile)
    });
    let head = html! {
        h1 { (sentence_keeping(&title, &labels)) }
        p.limit { (limits(&runs, &labels)) }
        @if !rest.is_empty() { p { (rest) } }
        p.soft { (each.collect::<Vec<_>>().join(". ")) }
    };
    (head, labels.join(", "))
}

/// Returns a sentence; a name at its beginning stays as it is.
fn sentence_keeping(text: &str, names: &[String]) -> String {
    if names.iter().any(|n| text.starts_with(n.as_str())) {
        text.to_owned()
    } else {
        sentence(text)
    }
}

/// Draws one's own runs, side by side.
pub(super) fn section(palette: &mut Palette, all: &[Labelled<Run>]) -> Markup {
    let labels = labels(all);
    let runs: Vec<&Run> = all.iter().map(|r| &r.of).collect();
    let latency = latency(palette, &runs, &labels);
    let moving: Vec<_> = runs.iter().map(|run| &run.numbers).collect();
    let series = series(palette, &moving, &labels);
    let colours = palette.sides(&labels);
    html! {
        section id="runs" {
            h2 {
                @if let [one] = &runs[..] { "Run: " (one.scenario) } @else { "Runs" }
            }
            (rates(&runs, &labels))
            h3 { "A packet’s bill" }
            (bill::bill(palette, &runs, &labels))
            @if !latency.0.is_empty() {
                h3 { "Latency" }
                (legend(&labels, &colours))
                (latency)
            }
            @if !series.0.is_empty() {
                h3 { "Over time" }
                (series)
            }
            h3 { "Where it comes from" }
            div.grid {
                @for (r, label) in all.iter().zip(&labels) {
                    @let run = &r.of;
                    @let command = options(&["run", &run.scenario], &[("--set", &run.set)]);
                    @let measured = format!(
                        "{} in {} ms, seed {}",
                        grouped(run.packets), amount(run.seconds * 1e3), run.seed
                    );
                    @let note = run.window.note.clone().unwrap_or_default();
                    (origin(r, label, &[&run.origin()], &command, &run.audit, &[
                        ("packets", html! { (measured) }), ("rates", html! { (note) }),
                    ]))
                }
            }
        }
    }
}

/// Names rates by interest: packets, bits, the resources by their use, the rest.
fn rate_names<'a>(runs: &[&'a Run]) -> Vec<&'a str> {
    let rates = runs.iter().flat_map(|r| r.numbers.group("rates")).filter(|n| n.value != 0.0);
    let mut names: IndexSet<&str> = rates.map(|n| n.name.as_str()).collect();
    let limits = runs[0].numbers.group("limits");
    let place = |name: &&str| {
        let unit = metric(name).map(|m| m.unit);
        match limits.iter().position(|limit| limit.name == *name) {
            _ if *name == "packets_per_s" => 0,
            _ if matches!(unit, Some(Unit::PacketsPerSecond | Unit::BitsPerSecond)) => 1,
            Some(at) => 2 + at,
            None => 2 + limits.len(),
        }
    };
    names.sort_by_key(place);
    names.into_iter().collect()
}

fn rates(runs: &[&Run], labels: &[String]) -> Markup {
    let changed = |name: &str, a: &Run, b: &Run| {
        let [x, y] = [a, b].map(|r| r.value("rates", name).unwrap_or(0.0));
        let told = change(x, y).unwrap_or_default();
        // More packets and bits are better; a share or a rate of events may be high for a reason.
        let judged =
            metric(name).filter(|m| m.better != doorbell_systems::metrics::Better::Neither);
        let judged = judged.filter(|_| x != y && rates_differ(a, b));
        match judged.map(|m| (y > x) == m.is_better_high()) {
            None => html! { (told) },
            Some(true) => html! { span.holds { (told) " ▲" span.hide { " better" } } },
            Some(false) => html! { span.miss { (told) " ▼" span.hide { " worse" } } },
        }
    };
    let row = |name: &str| {
        let text = |r: &Run| r.value("rates", name).map_or(String::new(), |v| told(name, v, None));
        let mut cells = vec![breakable(name)];
        cells.extend(runs.iter().map(|r| html! { (text(r)) }));
        if let [a, b] = runs {
            cells.push(changed(name, a, b));
        }
        cells
    };
    let rows: Vec<_> = rate_names(runs).into_iter().map(row).collect();
    let change = (runs.len() == 2).then(|| "change".to_owned());
    let heads = std::iter::once("Rate".to_owned()).chain(labels.iter().cloned()).chain(change);
    html! { div.panel { (table("Rates", &heads.collect::<Vec<_>>(), 1, &rows)) } }
}

/// Returns a command line of words and repeated options.
pub(super) fn options(words: &[&str], repeated: &[(&str, &[String])]) -> String {
    let words = words.iter().map(|w| quoted(w));
    let repeated =
        repeated.iter().flat_map(|(o, all)| all.iter().map(move |v| format!("{o} {}", quoted(v))));
    std::iter::once("doorbell".to_owned())
        .chain(words)
        .chain(repeated)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Draws where a result comes from: all that one needs to make it again.
pub(super) fn origin<T>(
    result: &Labelled<T>,
    label: &str,
    of: &[&Provenance],
    command: &str,
    audit: &[String],
    more: &[(&str, Markup)],
) -> Markup {
    let all = |f: &dyn Fn(&Provenance) -> String| {
        let texts = of.iter().map(|o| f(o)).filter(|t| !t.is_empty());
        html! { (texts.collect::<IndexSet<_>>().into_iter().collect::<Vec<_>>().join("; ")) }
    };
    let short = |hash: &str| format!("SHA-256 {}", &hash[..hash.len().min(12)]);
    let made = result.date.iter().cloned().chain([result.program.to_string()]);
    let mut lines = vec![
        ("is", all(&|o| o.about.clone())),
        ("command", html! { @if !command.is_empty() { code { (command) } } }),
        ("profile", all(&|o| format!("{}, {}", o.profile, short(&o.profile_sha256)))),
        ("capture", all(&|o| o.capture_sha256.as_deref().map_or(String::new(), short))),
    ];
    lines.extend(more.iter().cloned());
    lines.push(("made", html! { (made.collect::<Vec<_>>().join(", ")) }));
    html! {
        div.panel {
            @if !label.is_empty() { h4 { (label) } }
            (facts(&lines))
            @if !audit.is_empty() {
                p.miss-note.bad { strong { "The audit failed. " } (audit.join("; ")) }
            }
        }
    }
}
