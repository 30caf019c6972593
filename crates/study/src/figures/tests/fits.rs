//! Fits: found, failed, and joint.

use super::toy::Toy;
use super::*;
use proptest::prelude::*;

fn fit_of<'a>(report: &'a Report, constant: &str) -> &'a Fit {
    report.systems[0].fits.iter().find(|f| f.constant == constant).unwrap()
}

/// Two constants, each with a fit, and two rows.
fn pair(f: fn(f64, f64) -> f64, g: fn(f64, f64) -> f64, published: (f64, f64)) -> Toy {
    let mut toy = Toy::new(
        "toy",
        vec![
            Constant::fitted("x", 1.0, "", "toy.f", (0.0, 100.0)),
            Constant::fitted("y", 1.0, "", "toy.g", (0.0, 100.0)),
        ],
    );
    toy.add(Row::new("toy.f", published.0, "", Role::Fit), move |c| {
        Ok(f(c.get("x")?, c.get("y")?))
    });
    toy.add(Row::new("toy.g", published.1, "", Role::Fit), move |c| {
        Ok(g(c.get("x")?, c.get("y")?))
    });
    toy
}

/// One constant, fitted on one row; a second row rests on it and a third does not.
fn single(f: fn(f64) -> f64, published: f64) -> Toy {
    let mut toy = Toy::new(
        "toy",
        vec![
            Constant::fitted("x", 5.0, "", "toy.f", (0.0, 10.0)),
            Constant::cited("z", 3.0, "", "a data sheet"),
        ],
    );
    toy.add(Row::new("toy.f", published, "", Role::Fit), move |c| Ok(f(c.get("x")?)));
    let predicted = |figure| Row::new(figure, 3.0, "", Role::Predicted).within(Tolerance::Rel(1.0));
    toy.add(predicted("toy.rests").depends_on(&["x"]), |c| Ok(c.get("x")?.clamp(2.0, 3.0)));
    toy.add(predicted("toy.free").depends_on(&["z"]), |c| Ok(c.get("z")?));
    toy.add(predicted("toy.silent"), |c| Ok(c.get("z")?));
    toy
}

#[test]
fn a_fit_recovers_the_constant() {
    let report = run(queue());
    let fit = fit_of(&report, "call.time");
    assert!((fit.value - 0.3).abs() < 1e-6, "{fit:?}");
    assert!(fit.residual.unwrap().abs() <= crate::figures::fit::RESIDUAL);
    assert_eq!(fit.failed, None);
    assert!(fit.evaluations < 40, "{}", fit.evaluations);
    assert_eq!(measured(&report, "queue.rate_off"), 2.0);
}

#[test]
fn a_fit_out_of_reach_is_reported() {
    let report = run(single(|x| x * x, 121.0));
    let fit = fit_of(&report, "x");
    let failed = Unfitted::Unmet { published: 121.0, computed: 100.0, at: 10.0, at_bound: true };
    assert_eq!(fit.failed, Some(failed));
    assert_eq!(fit.value, 10.0, "the closest");
    let Verdict::Misses { failed_fits, .. } = report.verdict() else { panic!() };
    assert_eq!(failed_fits, ["toy.f"]);
    let text = report.to_table();
    assert!(text.contains("FIT FAILED"), "{text}");
    assert!(
        text.contains("published is 121, but computed is 100 at 10, where all fits are met best"),
        "{text}"
    );
}

/// One constant between 0 and 1,000, that begins at 5, and its row.
fn wide(f: fn(f64) -> f64, published: f64) -> Toy {
    let mut toy = Toy::new("toy", vec![Constant::fitted("x", 5.0, "", "toy.f", (0.0, 1000.0))]);
    toy.add(Row::new("toy.f", published, "", Role::Fit), move |c| Ok(f(c.get("x")?)));
    toy
}

#[test]
fn a_search_goes_where_its_values_point() {
    let report = run(wide(|x| 3.0 * x + 1.0, 2101.0));
    let fit = fit_of(&report, "x");
    assert!((fit.value - 700.0).abs() < 1e-3, "{fit:?}");
    assert!(fit.evaluations < 10, "{}", fit.evaluations);
}

#[test]
fn a_constant_that_moves_nothing_is_found_out_at_once() {
    let report = run(wide(|_| 1.0, 2.0));
    let fit = fit_of(&report, "x");
    assert!(matches!(fit.failed, Some(Unfitted::Unmet { .. })), "{fit:?}");
    assert!(fit.evaluations < 12, "{}", fit.evaluations);
}

#[test]
fn what_rests_on_a_failed_fit_does_not_hold() {
    let report = run(single(|x| x * x, 121.0));
    assert_eq!(outcome(&report, "toy.rests").holds, Some(false));
    assert_eq!(outcome(&report, "toy.free").holds, Some(true));
    assert_eq!(
        outcome(&report, "toy.silent").holds,
        Some(false),
        "a row that does not say may rest on it"
    );
}

#[test]
fn a_jump_across_the_published_figure_is_reported() {
    let report = run(single(|x| if x < 4.0 { 1.0 } else { 2.0 }, 1.5));
    let Some(Unfitted::Unmet { computed, .. }) = fit_of(&report, "x").failed else { panic!() };
    assert!([1.0, 2.0].contains(&computed), "{computed}");
}

#[test]
fn the_steps_of_a_simulation_are_a_fit_within_their_grain() {
    // Counts in steps of 0.1 around 100: half a step is 0.05 %.
    let report = run(single(|x| (x * 1000.0).floor() / 10.0, 100.05));
    let fit = fit_of(&report, "x");
    assert_eq!(fit.failed, None);
    let residual = fit.residual.unwrap().abs();
    assert!(residual > 1e-4 && residual < 1e-3, "{residual}");
    let note = &outcome(&report, "toy.f").notes[0];
    assert!(note.contains("as close as its steps allow"), "{note}");
}

/// Jitter is no reason to search again from other places.
#[test]
fn jitter_ends_a_search() {
    // As above, but with steps of 0.3.
    let mut toy = single(|x| (x * 1000.0 / 3.0).floor() * 0.3, 100.05);
    toy.jitter = 2e-3;
    let report = run(toy);
    let fit = fit_of(&report, "x");
    assert_eq!(fit.failed, None);
    let residual = fit.residual.unwrap().abs();
    assert!(residual > 1e-3 && residual < 2e-3, "{residual}");
    assert!(fit.evaluations < 40, "{}", fit.evaluations);
}

#[test]
fn a_fit_as_near_as_its_sheet_asks_is_kept() {
    // Counts in steps of 0.3 around 100.05: half a step is 0.15 %.
    let mut toy = single(|x| (x * 1000.0 / 3.0).floor() * 0.3, 100.05);
    toy.precision = 2e-3;
    let report = run(toy);
    let fit = fit_of(&report, "x");
    let residual = fit.residual.unwrap().abs();
    assert!(residual > 1e-3 && residual < 2e-3, "{residual}");
    assert!(fit.evaluations < 20, "{}", fit.evaluations);
    let note = &outcome(&report, "toy.f").notes[0];
    assert!(note.contains("close enough: "), "{note}");
}

#[test]
fn a_figure_that_cannot_be_measured_fails_its_fit() {
    let mut toy = Toy::new("toy", vec![Constant::fitted("x", 1.0, "", "toy.f", (0.0, 2.0))]);
    toy.add(Row::new("toy.f", 1.0, "", Role::Fit), |_| Err(MeasureError::new("no power")));
    let report = run(toy);
    assert_eq!(fit_of(&report, "x").failed, Some(Unfitted::Measure(MeasureError::new("no power"))));
}

#[test]
fn one_set_of_constants_has_to_serve() {
    // 2x + y = 14, x + 3y = 17: x = 5, y = 4.
    let report = run(pair(|x, y| 2.0 * x + y, |x, y| x + 3.0 * y, (14.0, 17.0)));
    let (x, y) = (fit_of(&report, "x"), fit_of(&report, "y"));
    assert!((x.value - 5.0).abs() < 1e-5 && (y.value - 4.0).abs() < 1e-5, "{x:?} {y:?}");
    assert_eq!((&x.failed, &y.failed), (&None, &None));
    assert!(x.evaluations < 8, "{}", x.evaluations);
}

#[test]
fn rows_that_contradict_each_other_fail() {
    // The same figure twice, published differently: no constants serve both.
    let report = run(pair(|x, y| x + y, |x, y| x + y, (10.0, 11.0)));
    assert!(fit_of(&report, "x").failed.is_some() || fit_of(&report, "y").failed.is_some());
    assert_ne!(report.verdict(), Verdict::AllHold);
}

#[test]
fn rows_that_follow_each_other_s_constant_are_fitted_together() {
    // One after the other, each fit undoes more than it mends.
    let f = |x: f64, y: f64| x - 1.5 * (y - 50.0);
    let g = |x: f64, y: f64| y + 1.5 * (x - 50.0);
    let report = run(pair(f, g, (f(40.0, 70.0), g(40.0, 70.0))));
    let (x, y) = (fit_of(&report, "x"), fit_of(&report, "y"));
    assert_eq!((&x.failed, &y.failed), (&None, &None));
    assert!((x.value - 40.0).abs() < 1e-3 && (y.value - 70.0).abs() < 1e-3, "{x:?} {y:?}");
}

#[test]
fn curved_rows_are_fitted_together() {
    let f = |x: f64, y: f64| x * x - y * 30.0;
    let g = |x: f64, y: f64| x * y + y;
    let report = run(pair(f, g, (f(20.0, 30.0), g(20.0, 30.0))));
    let (x, y) = (fit_of(&report, "x"), fit_of(&report, "y"));
    assert!((x.value - 20.0).abs() < 1e-3 && (y.value - 30.0).abs() < 1e-3, "{x:?} {y:?}");
    assert!(x.evaluations < 80, "{}", x.evaluations);
}

#[test]
fn a_fit_does_not_leave_its_surroundings_for_an_overloaded_machine() {
    // From 50 on, neither constant has any effect, and a search over the whole range finds the same
    // sign at both ends.
    let f = |x: f64, y: f64| if x + y < 50.0 { x + 0.1 * y } else { 90.0 };
    let g = |x: f64, y: f64| if x + y < 50.0 { (y - 8.0).powi(2) + x } else { 0.0 };
    let report = run(pair(f, g, (f(12.0, 5.0), g(12.0, 5.0))));
    let (x, y) = (fit_of(&report, "x"), fit_of(&report, "y"));
    assert_eq!((&x.failed, &y.failed), (&None, &None));
    assert!((x.value - 12.0).abs() < 1e-3 && (y.value - 5.0).abs() < 1e-3, "{x:?} {y:?}");
}

#[test]
fn fits_that_chase_each_other_are_not_converged() {
    // Whichever side of 50 one constant is on sends the other to the side that sends the first
    // away.
    let f = |x: f64, y: f64| x - if y < 50.0 { 80.0 } else { 20.0 };
    let g = |x: f64, y: f64| y - if x < 50.0 { 20.0 } else { 80.0 };
    let report = run(pair(f, g, (10.0, 5.0)));
    let failed = report.systems[0].fits.iter().filter_map(|f| f.failed.as_ref());
    let all: Vec<String> = failed.map(ToString::to_string).collect();
    assert!(all.iter().any(|why| why.contains("where all fits are met best")), "{all:?}");
}

#[test]
fn a_fit_that_another_must_first_make_possible_is_found() {
    // At y = 1 no x below 100 gives f = 3000; with the y that g wants, one does.
    let report = run(pair(|x, y| x * y, |_, y| y * y, (3000.0, 2500.0)));
    assert_eq!(fit_of(&report, "x").failed, None);
    assert!((fit_of(&report, "x").value - 60.0).abs() < 1e-4);
}

proptest! {
    #[test]
    fn a_fit_of_a_monotone_row_reproduces_it(
        slope in prop_oneof![-50.0f64..-0.1, 0.1f64..50.0],
        power in 1u8..5,
        offset in -20.0f64..20.0,
        hidden in 0.01f64..9.99,
    ) {
        let f = move |x: f64| offset + slope * x.powi(i32::from(power));
        let published = f(hidden);
        prop_assume!(published.abs() > 0.1);
        let mut toy = Toy::new("toy", vec![Constant::fitted("x", 5.0, "", "toy.f", (0.0, 10.0))]);
        toy.add(Row::new("toy.f", published, "", Role::Fit), move |c| Ok(f(c.get("x")?)));
        let report = run(toy);
        let fit = fit_of(&report, "x");
        prop_assert_eq!(&fit.failed, &None);
        let residual = crate::figures::fit::RESIDUAL * published.abs();
        prop_assert!((f(fit.value) - published).abs() <= residual);
        prop_assert_eq!(outcome(&report, "toy.f").holds, None);
    }

    #[test]
    fn joint_fits_of_a_dominant_linear_system_reproduce_their_rows(
        diagonal in prop::array::uniform3(3.0f64..9.0),
        beside in prop::array::uniform6(-1.0f64..1.0),
        hidden in prop::array::uniform3(1.0f64..99.0),
    ) {
        let [a, b, c, d, e, g] = beside;
        let matrix = [[diagonal[0], a, b], [c, diagonal[1], d], [e, g, diagonal[2]]];
        let row = move |at: usize, v: [f64; 3]| -> f64 {
            matrix[at].iter().zip(v).map(|(m, v)| m * v).sum()
        };
        let keys = ["x", "y", "z"];
        let figures = ["toy.f", "toy.g", "toy.h"];
        prop_assume!((0..3).all(|at| row(at, hidden).abs() > 1.0));
        let fitted = |at: usize| Constant::fitted(keys[at], 50.0, "", figures[at], (-400.0, 400.0));
        let mut toy = Toy::new("toy", (0..3).map(fitted).collect());
        for (at, figure) in figures.into_iter().enumerate() {
            toy.add(Row::new(figure, row(at, hidden), "", Role::Fit), move |c| {
                Ok(row(at, [c.get("x")?, c.get("y")?, c.get("z")?]))
            });
        }
        let report = run(toy);
        for (key, expected) in keys.into_iter().zip(hidden) {
            let fit = fit_of(&report, key);
            prop_assert_eq!(&fit.failed, &None);
            prop_assert!((fit.value - expected).abs() < 1e-3, "{} {}", fit.value, expected);
        }
    }
}
