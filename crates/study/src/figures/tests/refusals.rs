//! Sheets and settings that are refused before anything runs.

use super::toy::{Toy, refuse};
use super::*;

fn faults(system: Toy) -> Vec<String> {
    match refuse(system, &Options::default()) {
        Err(Refused::FigureSet(e)) => e.faults,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_constants_cannot_consume_one_row() {
    let mut system = queue();
    system.constants.push(Constant::fitted("second", 1.0, "", "queue.rate_off", (0.0, 2.0)));
    assert_eq!(
        faults(system),
        ["the row queue.rate_off is consumed by two fits, one of them that of second"]
    );
}

#[test]
fn one_constant_cannot_serve_two_fits() {
    let mut system = queue();
    system.constants.push(Constant::fitted("call.time", 1.0, "", "queue.latency", (0.0, 2.0)));
    system.row("queue.latency").role = Role::Fit;
    assert_eq!(faults(system), ["the constant call.time is declared twice"]);
}

#[test]
fn a_row_cannot_calibrate_and_count() {
    let mut system = queue();
    system.constants.push(Constant::fitted("second", 1.0, "", "queue.rate_on", (0.0, 2.0)));
    assert_eq!(
        faults(system),
        ["the fit of second consumes queue.rate_on, which says it is predicted: a row cannot \
             calibrate and count"]
    );
}

#[test]
fn a_fit_row_needs_a_constant() {
    let mut system = queue();
    system.row("queue.latency").role = Role::Fit;
    assert_eq!(
        faults(system),
        ["the row queue.latency says it is a fit, but no constant is fitted on it"]
    );
}

#[test]
fn a_fit_names_a_row_that_exists() {
    let mut system = queue();
    system.constants.push(Constant::fitted("second", 1.0, "", "queue.rate_of", (0.0, 2.0)));
    assert_eq!(
        faults(system),
        ["the fit of second names the row queue.rate_of, which does not exist; the nearest is \
             queue.rate_off"]
    );
}

#[test]
fn a_search_starts_inside_its_bounds() {
    let mut system = queue();
    system.constants[1] =
        Constant::fitted("call.time", 20.0, "us/call", "queue.rate_off", (0.01, 10.0));
    assert_eq!(
        faults(system),
        ["the fit of call.time starts at 20 and searches 0.01 to 10: not inside a finite interval"]
    );
}

#[test]
fn a_tolerance_belongs_to_a_claim() {
    let mut system = queue();
    system.row("queue.latency").tolerance = Some(Tolerance::Rel(0.1));
    system.row("queue.rate_on").tolerance = None;
    system.row("queue.calls_on").tolerance = Some(Tolerance::Abs(-1.0));
    assert_eq!(
        faults(system),
        [
            "the row queue.rate_on is predicted but has no tolerance",
            "the row queue.calls_on has the tolerance -1",
            "the row queue.latency is shown: it can have no tolerance",
        ]
    );
}

#[test]
fn names_lead_somewhere() {
    let mut system = queue();
    system.add(Row::new("other.figure", 1.0, "", Role::Shown), |_| Ok(1.0));
    system.row("queue.line").inputs = Some(vec!["line.rat".into()]);
    system.row("queue.latency").swap = Some("queue.latency_on".into());
    system.misses.push(KnownMiss::new("queue.rate_off", "cannot be"));
    system.constants.push(Constant::cited("free", 1.0, "", " "));
    assert_eq!(
        faults(system),
        [
            "the constant free names no source",
            "the row other.figure must be called queue.something",
            "the row queue.line: no constant or choice is called `line.rat`; the nearest is \
             `line.rate`",
            "the row queue.latency names the row queue.latency_on, which does not exist; the \
             nearest is queue.latency",
            "queue.rate_off is fit: it cannot miss",
        ]
    );
}

#[test]
fn a_row_is_not_derived_from_itself() {
    let mut system = Toy::new("toy", vec![]);
    let derived =
        |figure, from| Row::new(figure, 1.0, "", Role::Shown).derived(Rule::Difference, from, from);
    system.add(derived("toy.a", "toy.b"), |_| Ok(1.0));
    system.add(derived("toy.b", "toy.a"), |_| Ok(1.0));
    assert_eq!(
        faults(system),
        ["the row toy.a is derived from itself", "the row toy.b is derived from itself"]
    );
}

#[test]
fn an_unknown_constant_names_the_nearest() {
    let refused = refuse(queue(), &setting("call.tiem=1")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "--set call.tiem: no constant or choice is called `call.tiem`; the nearest is `call.time`"
    );
}

#[test]
fn a_setting_is_a_key_and_a_finite_number() {
    let refusal = |text: &str| text.parse::<Setting>().unwrap_err().to_string();
    assert_eq!(
        refusal("call.time"),
        "--set call.time: expected key=value, such as pcie.memory_latency=90"
    );
    assert_eq!(refusal("=1"), "--set =1: expected key=value, such as pcie.memory_latency=90");
    assert_eq!(refusal("call.time=fast"), "--set call.time: `fast` is not a finite number");
    assert_eq!(refusal("call.time=inf"), "--set call.time: `inf` is not a finite number");
    assert_eq!(
        "call.time = 0.5".parse(),
        Ok(Setting { key: "call.time".into(), value: 0.5.into() })
    );
}
