//! The bill of a packet: stacked bars, one for each run, a chart for each part.

use super::data::Run;
use super::html::{self, Palette, REST, change, figure, legend, table};
use doorbell_bus::Ledger;
use doorbell_console::render::amount;
use doorbell_spec::number::Number;
use doorbell_systems::bill::{PARTS, Part};
use indexmap::IndexSet;
use maud::{Markup, html};

/// The items with a colour of their own; what is left stands together.
const MOST: usize = 7;

/// An item of a bill, with its number of each run.
struct Item {
    name: String,
    title: String,
    values: Vec<f64>,
}

impl Item {
    fn about(&self) -> &'static str {
        Ledger::COUNTERS.iter().find(|c| c.name == self.name).map_or("", |c| c.about)
    }
}

/// Returns the items of a part that any run has, the largest first.
fn items(part: &Part, runs: &[&Run]) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    for Number { name, .. } in runs.iter().flat_map(|r| r.numbers.group("per_packet")) {
        if let Some(title) = part.item(name)
            && !all.iter().any(|i| i.name == *name)
        {
            let value = |r: &&Run| r.value("per_packet", name).unwrap_or(0.0);
            let values = runs.iter().map(value).collect();
            all.push(Item { name: name.clone(), title, values });
        }
    }
    let most = |i: &Item| i.values.iter().copied().fold(0.0, f64::max);
    all.retain(|i| most(i) > 0.0);
    all.sort_by(|a, b| most(b).total_cmp(&most(a)));
    all
}

fn sums(items: &[Item], runs: usize) -> Vec<f64> {
    (0..runs).map(|r| items.iter().map(|i| i.values[r]).sum()).collect()
}

/// Returns the parts with the sum of a run's packet.
pub(super) fn parts_of(run: &Run) -> Vec<(&'static Part, f64)> {
    PARTS.iter().map(|part| (part, sums(&items(part, &[run]), 1)[0])).collect()
}

/// Draws all parts of the bill of these runs.
pub(super) fn bill(palette: &mut Palette, runs: &[&Run], labels: &[String]) -> Markup {
    html! {
        div.grid.bill {
            @for part in &PARTS { (drawn(palette, part, runs, labels)) }
        }
        (all(runs, labels))
    }
}

/// Lists every count a packet that any of these runs has.
fn all(runs: &[&Run], labels: &[String]) -> Markup {
    let counts = runs.iter().flat_map(|r| r.numbers.group("per_packet"));
    let names: IndexSet<&String> = counts.filter(|n| n.value != 0.0).map(|n| &n.name).collect();
    let row = |name: &String| {
        let cells = runs.iter().map(|r| html::cell(r.value("per_packet", name)));
        std::iter::once(html! { (name) }).chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<_> = names.into_iter().map(row).collect();
    let heads: Vec<String> = [&["count".to_owned()], labels].concat();
    let title = "Every count a packet";
    html! {
        details { summary { (title) } (table(title, &heads, 1, &rows)) }
    }
}

fn drawn(palette: &mut Palette, part: &Part, runs: &[&Run], labels: &[String]) -> Markup {
    let mut own = items(part, runs);
    if own.is_empty() {
        return html! {};
    }
    let sums = sums(&own, runs.len());
    let row = |title: &str, values: &[f64]| {
        let cells = values.iter().map(|v| html::cell(Some(*v)));
        std::iter::once(html! { (title) }).chain(cells).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = own.iter().map(|i| row(&i.title, &i.values)).collect();
    rows.push(row("all", &sums));
    let heads: Vec<String> =
        std::iter::once("item".to_owned()).chain(labels.iter().cloned()).collect();

    let rest = if own.len() > MOST + 1 { own.split_off(MOST) } else { Vec::new() };
    let names: Vec<String> = own.iter().map(|i| i.name.clone()).collect();
    let mut colours = palette.items(part.name, &names);
    if !rest.is_empty() {
        let values = (0..runs.len()).map(|r| rest.iter().map(|i| i.values[r]).sum()).collect();
        own.push(Item { name: String::new(), title: format!("{} others", rest.len()), values });
        colours.push(REST);
    }
    let most = sums.iter().copied().fold(0.0, f64::max);
    let share = |v: f64| format!("{:.2}%", 100.0 * v / most);
    let told = |i: &Item, r: usize| {
        let of = format!("{}: {} {} a packet", i.title, amount(i.values[r]), part.unit);
        if i.about().is_empty() { of } else { format!("{of}\n{}", i.about()) }
    };
    let of = |r: usize| own.iter().zip(&colours).filter(move |(i, _)| i.values[r] > 0.0);
    let drawing = html! {
        div.bars {
            @for (r, label) in labels.iter().enumerate() {
                @let said = format!("{label}: {} {}", amount(sums[r]), part.unit);
                span { (label) }
                div.track {
                    div.bar role="img" aria-label=(said) style={ "width:" (share(sums[r])) } {
                        @for (item, colour) in of(r) {
                            @let share = format!("{:.4}", item.values[r] / sums[r]);
                            i title=(told(item, r))
                                style={ "flex:" (share) ";background:" (colour) } {}
                        }
                    }
                    b { (amount(sums[r])) }
                }
            }
        }
        (legend(&own.iter().map(|i| i.title.clone()).collect::<Vec<_>>(), &colours))
    };
    let said = match &sums[..] {
        [a, b] => html! {
            (amount(*a)) " → " strong { (amount(*b)) } " " (change(*a, *b).unwrap_or_default())
        },
        [a] => html! { strong { (amount(*a)) } },
        _ => html! {},
    };
    let title = format!("{} a packet", part.title);
    let modelled = "Modelled: what the driver did, at the profile’s prices.";
    let about = if part.name == "cycles" { modelled } else { "" };
    figure((&title, said, about), &drawing, &table(&title, &heads, 1, &rows))
}
