//! The machine on synthetic systems: a batching queue whose answers can be worked out by hand, and
//! toys for each trap.

mod choices;
mod fits;
mod printed;
mod published;
mod refusals;
mod sensitivity;
mod toy;

use super::reproduce::reproduce_on;
use super::*;
use choices::transfer;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use toy::{Toy, queue, run, run_with};

/// The rows as other programs get them.
fn printed(report: &Report) -> String {
    serde_json::to_string_pretty(&report.json_rows()).unwrap()
}

fn outcome<'a>(report: &'a Report, figure: &str) -> &'a Outcome {
    let all = report.systems.iter().flat_map(|s| &s.rows);
    all.into_iter().find(|r| r.row.figure == figure).unwrap_or_else(|| panic!("no row {figure}"))
}

fn measured(report: &Report, figure: &str) -> f64 {
    outcome(report, figure).measured.clone().unwrap()
}

fn swapped() -> Options {
    Options { swap: true, ..Options::default() }
}

fn setting(text: &str) -> Options {
    Options { set: vec![text.parse().unwrap()], ..Options::default() }
}

#[test]
fn every_role_gets_the_verdict_that_it_can_have() {
    let report = run(queue());
    for (figure, holds) in [
        ("queue.rate_off", None),
        ("queue.rate_on", Some(true)),
        ("queue.busy_on", Some(true)),
        ("queue.gain", Some(true)),
        ("queue.line", Some(true)),
        ("queue.calls_on", Some(true)),
        ("queue.latency", None),
    ] {
        assert_eq!(outcome(&report, figure).holds, holds, "{figure}");
    }
    assert_eq!(report.verdict(), Verdict::AllHold);
}

#[test]
fn a_fitted_row_never_counts_as_success() {
    let report = run(queue());
    assert_eq!(outcome(&report, "queue.rate_off").holds, None);
    assert_eq!(outcome(&report, "queue.rate_off").row.role, Role::Fit);
    assert_eq!(
        report.systems[0].freedom,
        DegreesOfFreedom { predicted: 3, derived: 1, looked_at: 0, fitted: 1, choices: 0 }
    );
    assert!(report.to_table().contains(
        "5 of 5 judged rows hold: 3 predictions (1 of them arithmetic on other rows) against 1 fit."
    ));
}

#[test]
fn swap_fits_the_after_and_predicts_the_before_with_its_tolerance() {
    let report = run_with(queue(), &swapped());
    let before = outcome(&report, "queue.rate_off");
    assert_eq!(
        (before.row.role, before.row.tolerance),
        (Role::Predicted, Some(Tolerance::Rel(0.1)))
    );
    assert_eq!(before.holds, Some(true));
    let after = outcome(&report, "queue.rate_on");
    assert_eq!((after.row.role, after.row.tolerance, after.holds), (Role::Fit, None, None));
    assert_eq!(measured(&report, "queue.rate_on"), 4.1);
    // 8 packets in 8 / 4.1 us: less 8 * 0.2 us, the call is left; the packet with a call to itself
    // follows.
    let call = 8.0 / 4.1 - 1.6;
    let expected = 1.0 / (call + 0.2);
    assert!((measured(&report, "queue.rate_off") - expected).abs() < 1e-5);
    assert_ne!(measured(&report, "queue.rate_off"), measured(&run(queue()), "queue.rate_off"));
}

#[test]
fn a_row_whose_partner_is_a_bound_is_not_swapped_and_says_so() {
    let mut system = queue();
    system.row("queue.rate_off").swap = None;
    system.row("queue.rate_on").swap = None;
    system.row("queue.line").swap = Some("queue.rate_off".into());
    let report = run_with(system, &swapped());
    let fitted = outcome(&report, "queue.rate_off");
    assert_eq!(fitted.row.role, Role::Fit);
    assert!(
        fitted.notes.contains(&"not swapped: queue.line is bound, not predicted".to_owned()),
        "{:?}",
        fitted.notes
    );
}

#[test]
fn a_constant_set_by_hand_is_not_fitted_and_says_so() {
    let report = run_with(queue(), &setting("call.time=0.5"));
    let row = outcome(&report, "queue.rate_off");
    assert_eq!((row.row.role, row.holds), (Role::Shown, None));
    assert!(row.notes.contains(&"not fitted: call.time was set to 0.5 by hand".to_owned()));
    assert!((measured(&report, "queue.rate_off") - 1.0 / 0.7).abs() < 1e-5);
    assert_eq!(report.systems[0].freedom.fitted, 0);
    assert!(report.systems[0].fits.is_empty());
    assert!(report.to_table().contains("set by hand; not fitted to queue.rate_off"));
}

#[test]
fn setting_a_constant_twice_keeps_the_source_it_had() {
    let options = Options {
        set: vec!["call.time=0.5".parse().unwrap(), "call.time=0.6".parse().unwrap()],
        ..Options::default()
    };
    let report = run_with(queue(), &options);
    assert_eq!(report.systems[0].constants.get("call.time"), Ok(0.6));
    assert!(report.to_table().contains("set by hand; not fitted to queue.rate_off"));
}

#[test]
fn a_known_miss_is_a_miss_with_its_explanation() {
    let mut system = queue();
    system.row("queue.busy_on").value = 70.0;
    system.misses.push(KnownMiss::new("queue.busy_on", "the queue also serves its neighbour"));
    let report = run(system);
    let row = outcome(&report, "queue.busy_on");
    assert_eq!(row.holds, Some(false));
    assert_eq!(row.known_miss.as_deref(), Some("the queue also serves its neighbour"));
    let known = vec!["queue.busy_on".to_owned()];
    assert_eq!(
        report.verdict(),
        Verdict::Misses { known, unknown: vec![], broken: vec![], failed_fits: vec![] }
    );
    assert!(report.to_table().contains("MISS (known)"));
    assert!(printed(&report).contains("known miss: the queue also serves its neighbour"));
}

#[test]
fn a_miss_without_explanation_is_unknown() {
    let mut system = queue();
    system.row("queue.calls_on").value = 0.25;
    let report = run(system);
    let unknown = vec!["queue.calls_on".to_owned()];
    assert_eq!(
        report.verdict(),
        Verdict::Misses { known: vec![], unknown, broken: vec![], failed_fits: vec![] }
    );
}

#[test]
fn an_explanation_whose_row_holds_is_stale() {
    let mut system = queue();
    system.misses.push(KnownMiss::new("queue.rate_on", "for some reason"));
    let report = run(system);
    let row = outcome(&report, "queue.rate_on");
    assert_eq!((row.holds, &row.known_miss), (Some(true), &None));
    assert!(row.notes.iter().any(|n| n.contains("stale")));
}

#[test]
fn a_figure_that_cannot_be_measured_is_reported_and_misses_if_it_was_claimed() {
    let mut system = queue();
    system.add(Row::new("queue.missing", 1.0, "", Role::Exact), |_| {
        Err(MeasureError::new("the queue is closed"))
    });
    system.add(Row::new("queue.infinite", 1.0, "", Role::Shown), |_| Ok(1.0 / 0.0));
    let report = run(system);
    assert_eq!(outcome(&report, "queue.missing").holds, Some(false));
    assert_eq!(outcome(&report, "queue.infinite").holds, None);
    assert!(outcome(&report, "queue.infinite").measured.is_err());
    assert!(printed(&report).contains("not measured: the queue is closed"));
    assert!(printed(&report).contains("\"measured\": null"));
}

#[test]
fn a_bound_has_two_sides() {
    let below = Row::new("x.a", 9.4, "", Role::AtOrBelow);
    assert_eq!(
        (below.judge(9.41), below.judge(9.4), below.judge(9.39)),
        (Some(true), Some(true), Some(false))
    );
    let above = Row::new("x.a", 9.4, "", Role::AtOrAbove);
    assert_eq!(
        (above.judge(9.41), above.judge(9.4), above.judge(9.39)),
        (Some(false), Some(true), Some(true))
    );
}

#[test]
fn the_edge_of_a_tolerance_belongs_to_it() {
    assert!(Tolerance::Abs(0.1).admits(0.2, 0.3));
    assert!(Tolerance::Rel(0.05).admits(100.0, 95.0));
    assert!(!Tolerance::Rel(0.05).admits(100.0, 94.99));
    assert!(Tolerance::Rel(0.05).admits(-100.0, -105.0));
}

#[test]
fn no_figure_is_measured_twice_at_the_same_constants() {
    for system in [queue(), transfer()] {
        let asked = system.asked.clone();
        run_with(system, &Options { sensitivity: true, ..Options::default() });
        let mut asked = asked.lock().unwrap().clone();
        let all = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), all);
    }
}

#[test]
fn a_report_does_not_depend_on_the_number_of_cores() {
    let options = Options { sensitivity: true, ..Options::default() };
    let on = |cores: usize| {
        let systems = [transfer().set(), queue().set()];
        reproduce_on(cores, &systems, &options, &mut |_| true, &mut |_| ()).unwrap()
    };
    let alone = on(1);
    for cores in [2, 3, 16] {
        let report = on(cores);
        assert_eq!(report, alone, "{cores} cores");
        assert_eq!((printed(&report), report.to_table()), (printed(&alone), alone.to_table()));
    }
}

#[test]
fn a_system_is_told_of_when_it_and_those_before_it_are_done() {
    let (slow, fast) = (transfer(), queue());
    let (last, begun) = (slow.asked.clone(), fast.asked.clone());
    let mut told = Vec::new();
    let mut tell = |part: Done<'_>| {
        if let Done::System(system) = part {
            told.push((system.name.clone(), last.lock().unwrap().len()));
        }
    };
    let systems = [slow.set(), fast.set()];
    let report = reproduce(&systems, &Options::default(), &mut |_| true, &mut tell).unwrap();
    let all = last.lock().unwrap().len();
    assert_eq!(told, [("toy".to_owned(), all), ("queue".to_owned(), all)]);
    assert!(!begun.lock().unwrap().is_empty());
    let text = |s| Done::Rows(s).to_table() + &Done::System(s).to_table();
    let parts: String = report.systems.iter().map(text).collect();
    assert_eq!(report.to_table(), parts + &report.closing());
}

/// The rows of the second system are done early, and told of behind the whole first one.
#[test]
fn rows_are_told_of_before_any_constant_is_moved() {
    let told = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    let waits = |what: &'static str| {
        let told = Arc::clone(&told);
        move |c: &Constants| {
            let (names, more) = &*told;
            let size = c.get("batch.size")?;
            if size != 8.0 {
                let names = names.lock().unwrap();
                let missing = |names: &mut Vec<String>| !names.iter().any(|n| n == what);
                let wait = more.wait_timeout_while(names, Duration::from_secs(60), missing);
                assert!(!wait.unwrap().1.timed_out(), "{what} is not told of");
            }
            Ok(size)
        }
    };
    let toy = |name: &'static str, what| {
        let constants = vec![Constant::cited("batch.size", 8.0, "packets", "the paper")];
        let mut toy = Toy::new(name, constants);
        toy.add(Row::new(&format!("{name}.size"), 8.0, "", Role::Exact), waits(what));
        toy
    };
    let systems = [toy("first", "first rows").set(), toy("second", "first whole").set()];
    let mut parts = Vec::new();
    let mut tell = |part: Done<'_>| {
        parts.push(part.to_table());
        let name = match part {
            Done::Rows(s) => format!("{} rows", s.name),
            Done::System(s) => format!("{} whole", s.name),
        };
        told.0.lock().unwrap().push(name);
        told.1.notify_all();
    };
    let options = Options { sensitivity: true, ..Options::default() };
    let report = reproduce(&systems, &options, &mut |_| true, &mut tell).unwrap();
    let order = ["first rows", "first whole", "second rows", "second whole"];
    assert_eq!(*told.0.lock().unwrap(), order);
    assert!(parts[0].contains("8") && parts[1].contains("Sensitivity"));
    assert_eq!(report.to_table(), parts.concat() + &report.closing());
}

#[test]
fn the_last_bits_of_a_computation_do_not_show() {
    let mut system = queue();
    system.add(Row::new("queue.sum", 0.3, "", Role::Shown), |_| Ok(0.1 + 0.2));
    system.add(Row::new("queue.count", 7_526_072.0, "", Role::Exact), |_| Ok(7_526_072.0));
    system.add(Row::new("queue.miscount", 7_526_072.0, "", Role::Exact), |_| Ok(7_526_071.0));
    let report = run(system);
    assert_eq!(measured(&report, "queue.sum"), 0.3);
    assert_eq!(
        (measured(&report, "queue.count"), outcome(&report, "queue.count").holds),
        (7_526_072.0, Some(true))
    );
    assert_eq!(
        outcome(&report, "queue.miscount").holds,
        Some(false),
        "an exact count is not rounded"
    );
}

#[test]
fn a_table_shows_the_digits_that_a_reader_can_use() {
    let mut system = queue();
    system.add(Row::new("queue.near", 15.9, "", Role::Exact).within(Tolerance::Rel(0.02)), |_| {
        Ok(15.9493670886)
    });
    system.add(Row::new("queue.third", 0.333, "", Role::Exact), |_| Ok(1.0 / 3.0));
    system.add(Row::new("queue.many", 1_234_567_890_123.0, "", Role::Exact), |_| {
        Ok(1_234_567_890_123.0)
    });
    let report = run(system);
    let table = report.to_table();
    let ours = |name: &str| {
        let row = table.lines().find(|l| l.trim_start().starts_with(name)).unwrap();
        row.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(
        [ours("near"), ours("third"), ours("many")],
        ["15.95", "0.333333333", "1234567890123"]
    );
}

#[test]
fn progress_names_every_stage() {
    let mut heard = Vec::new();
    let systems = [queue().set()];
    let options = Options { sensitivity: true, ..Options::default() };
    let mut hear = |p: Progress<'_>| {
        heard.push(p.to_string());
        true
    };
    reproduce(&systems, &options, &mut hear, &mut |_| ()).unwrap();
    for line in [
        "queue: fitting, evaluation 1",
        "queue: measuring queue.rate_off (1 of 7)",
        "queue: moving packet.time (1 of 4)",
    ] {
        assert!(heard.iter().any(|h| h == line), "{heard:#?}");
    }
}

#[test]
fn who_hears_of_the_progress_can_end_it() {
    let system = queue();
    let asked = system.asked.clone();
    let mut rows = 0;
    let mut third = |p: Progress<'_>| {
        rows += u32::from(matches!(p.doing, Stage::Row { .. }));
        rows < 3
    };
    let ended = reproduce(&[system.set()], &Options::default(), &mut third, &mut |_| ());
    assert_eq!(ended.unwrap_err(), Refused::Stopped);
    // The first two rows were measured, and those that were fitted.
    let asked: BTreeSet<String> = asked.lock().unwrap().iter().map(|(f, _)| f.clone()).collect();
    assert!(asked.len() <= 3, "{asked:?}");
}
