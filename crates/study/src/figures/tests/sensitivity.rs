//! The sensitivity run.

use super::toy::Toy;
use super::*;

fn moved(system: Toy) -> Sensitivity {
    let report = run_with(system, &Options { sensitivity: true, ..Options::default() });
    report.systems[0].sensitivity.clone().unwrap()
}

fn cell(found: &Sensitivity, figure: &str, key: &str, refitted: bool) -> f64 {
    let at = found.figures.iter().position(|f| f == figure).unwrap();
    let constant = found.constants.iter().find(|c| c.key == key).unwrap();
    let column = if refitted { &constant.refitted } else { &constant.alone };
    column[at].unwrap()
}

#[test]
fn a_cited_constant_is_moved_alone_and_with_the_fits_rerun() {
    let found = moved(queue());
    // 0.202 us a packet and the call still 0.3: 1 / 0.2395 against 1 / 0.2375.
    let alone = cell(&found, "queue.rate_on", "packet.time", false);
    assert!((alone - (0.2375 / 0.2395 - 1.0)).abs() < 1e-6, "{alone}");
    // Refitted on 2 Mpps the call becomes 0.298: 1 / (0.298 / 8 + 0.202).
    let refitted = cell(&found, "queue.rate_on", "packet.time", true);
    assert!((refitted - (0.2375 / (0.298 / 8.0 + 0.202) - 1.0)).abs() < 1e-6, "{refitted}");
    // The consumed row stays put when the fit follows, and only then.
    assert!(cell(&found, "queue.rate_off", "packet.time", false).abs() > 1e-3);
    let at = found.figures.iter().position(|f| f == "queue.rate_off").unwrap();
    let packet = found.constants.iter().find(|c| c.key == "packet.time").unwrap();
    assert_eq!(packet.rests(at), Some(true));
}

#[test]
fn a_fitted_constant_is_moved_alone() {
    let found = moved(queue());
    let call = found.constants.iter().find(|c| c.key == "call.time").unwrap();
    assert!(call.fitted);
    assert_eq!(call.alone, call.refitted);
    assert!((cell(&found, "queue.rate_off", "call.time", true) - (0.5 / 0.503 - 1.0)).abs() < 1e-6);
}

#[test]
fn a_step_may_be_declared() {
    let found = moved(queue());
    assert!((cell(&found, "queue.calls_on", "batch.size", false) - (8.0 / 9.0 - 1.0)).abs() < 1e-9);
}

#[test]
fn a_constant_in_disguise_is_flagged() {
    let mut system = queue();
    let claim = |figure| Row::new(figure, 7.0, "", Role::Predicted).within(Tolerance::Rel(0.1));
    system.add(claim("queue.disguised"), |_| Ok(7.0));
    system.add(claim("queue.denied").depends_on(&[]), |_| Ok(7.0));
    system.add(Row::new("queue.counted", 7.0, "", Role::Exact), |_| Ok(7.0));
    system.add(Row::new("queue.native", 7.0, "", Role::Shown).depends_on(&[]), |_| Ok(7.1));
    system.add(Row::new("queue.unexplained", 7.0, "", Role::Shown), |_| Ok(7.1));
    let found = moved(system);
    assert_eq!(found.disguised, ["queue.disguised", "queue.denied", "queue.unexplained"]);
}

#[test]
fn declared_inputs_are_the_ones_found() {
    assert_eq!(moved(queue()).disagreements(), []);
}

#[test]
fn wrong_inputs_are_found_out() {
    let mut system = queue();
    system.row("queue.line").inputs = Some(vec!["batch.size".into()]);
    let disagreement = crate::figures::sensitivity::Disagreement {
        figure: "queue.line".into(),
        idle: vec!["batch.size".into()],
        undeclared: vec!["line.rate".into()],
    };
    assert_eq!(moved(system).disagreements(), [disagreement]);
}

#[test]
fn found_inputs_replace_declared_ones_in_the_report() {
    let mut system = queue();
    system.row("queue.line").inputs = None;
    let report = run_with(system, &Options { sensitivity: true, ..Options::default() });
    assert_eq!(outcome(&report, "queue.line").inputs, ["line.rate"]);
}

#[test]
fn a_derived_row_inherits_the_inputs_of_the_rows_it_is_made_of() {
    assert_eq!(
        outcome(&run(queue()), "queue.gain").inputs,
        ["packet.time", "call.time", "batch.size"]
    );
}

#[test]
fn a_constant_that_loses_the_fit_is_marked_so() {
    let mut system = queue();
    // At 0.5 us a packet no call is short enough for 2 Mpps.
    system.constants[0] = system.constants[0].clone().nudged(Perturbation::Abs(0.3));
    let found = moved(system);
    assert!(found.constants[0].refitted.iter().all(Option::is_none));
    assert!(found.constants[0].alone.iter().all(Option::is_some));
}

#[test]
fn a_coarse_fit_does_not_hide_what_does_not_rest_on_it() {
    let constants = vec![
        Constant::fitted("x", 1.0, "", "toy.steps", (0.5, 2.0)),
        Constant::cited("y", 1.0, "", "a data sheet"),
        Constant::cited("z", 3.0, "", "a data sheet"),
    ];
    let mut toy = Toy::new("toy", constants);
    // Steps of 0.0015, and what is published lies between two of them: the fit leaves some 0.05 %.
    let steps = |c: &Constants| Ok((c.get("x")? * c.get("y")? / 0.0015).round() * 0.0015);
    let shown = |figure| Row::new(figure, 1.0, "", Role::Shown);
    toy.add(Row::new("toy.steps", 1.0, "", Role::Fit), steps);
    toy.add(shown("toy.same"), move |c| Ok(2.0 * steps(c)?));
    toy.add(shown("toy.free"), |c| Ok(c.get("z")?));
    let found = moved(toy);
    let of = |key: &str| found.constants.iter().find(|c| c.key == key).unwrap();
    assert_eq!(
        (0..3).map(|at| of("z").rests(at)).collect::<Vec<_>>(),
        [Some(true), Some(true), Some(false)]
    );
    assert_eq!((0..3).map(|at| of("y").rests(at)).collect::<Vec<_>>(), [Some(true); 3]);
    assert!(of("z").noise[1] > 1e-3 && of("z").noise[2] < 1e-5, "{:?}", of("z").noise);
}
