//! The looks of a report: golden.

use super::toy::Toy;
use super::*;

/// A run with one of everything: a known miss, a miss, a disguise.
fn eventful() -> Toy {
    let mut system = queue();
    system.row("queue.busy_on").value = 70.0;
    system.misses.push(KnownMiss::new(
        "queue.busy_on",
        "the queue also serves its neighbour, whom nobody measured",
    ));
    system.add(
        Row::new("queue.disguised", 8.5, "Mpps", Role::Predicted)
            .within(Tolerance::Rel(0.07))
            .note("from memory"),
        |_| Ok(7.0),
    );
    system
}

#[test]
fn json_is_as_other_programs_read_it() {
    insta::assert_snapshot!(printed(&run(queue())));
}

#[test]
fn the_table_of_a_good_run() {
    insta::assert_snapshot!(run(queue()).to_table());
}

#[test]
fn the_table_of_an_eventful_run() {
    let options =
        Options { sensitivity: true, swap: true, set: vec!["line.rate=4.8".parse().unwrap()] };
    insta::assert_snapshot!(run_with(eventful(), &options).to_table());
}

#[test]
fn json_after_a_sensitivity_run_has_each_row_s_changes() {
    let report = run_with(queue(), &Options { sensitivity: true, ..Options::default() });
    let json: serde_json::Value = serde_json::to_value(report.json_rows()).unwrap();
    assert_eq!(json[5]["sensitivity"]["batch.size"], -0.1111);
    assert_eq!(json[5]["sensitivity"]["line.rate"], 0.0);
}

#[test]
fn lines_fit_the_terminal() {
    let options = Options { sensitivity: true, ..Options::default() };
    let mut system = eventful();
    for n in 0..12 {
        let key = format!("spare.constant_number_{n}");
        system.constants.push(Constant::cited(
            &key,
            1.0,
            "cycles/packet",
            &"a source of many words ".repeat(12),
        ));
    }
    let text = run_with(system, &options).to_table();
    assert_eq!(text.lines().find(|line| line.chars().count() > 120), None);
}

#[test]
fn the_same_sheet_gives_the_same_bytes() {
    let options = Options { sensitivity: true, swap: true, ..Options::default() };
    let print = || {
        let report = run_with(eventful(), &options);
        (report.to_table(), printed(&report))
    };
    assert_eq!(print(), print());
}
