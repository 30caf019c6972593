use super::*;

fn row(bounds: Bounds, measured: f64) -> (bool, f64, Option<f64>) {
    let line = Line { name: "ledger.x".into(), old: None, at: 1, path: vec![], bounds };
    let row = Row { line: &line, measured };
    (row.holds(), row.against().difference, row.against().percent)
}

#[test]
fn a_ceiling_a_floor_a_range_and_an_exact_number() {
    let most = |n| Bounds::Between { min: None, max: Some(n) };
    let least = |n| Bounds::Between { min: Some(n), max: None };
    let both = Bounds::Between { min: Some(2.0), max: Some(4.0) };
    assert_eq!(row(most(128.0), 128.0), (true, 0.0, Some(0.0)));
    assert_eq!(row(most(128.0), 160.0), (false, 32.0, Some(25.0)));
    assert_eq!(row(most(0.0), 1.0), (false, 1.0, None));
    assert_eq!(row(least(10.0), 9.0), (false, -1.0, Some(-10.0)));
    assert_eq!(row(both, 1.0), (false, -1.0, Some(-50.0)));
    assert_eq!(row(both, 5.0), (false, 1.0, Some(25.0)));
    assert_eq!(row(both, 3.0), (true, -1.0, Some(-25.0)));
    assert_eq!(row(Bounds::Exactly(3.0), 3.0), (true, 0.0, Some(0.0)));
    assert!(!row(Bounds::Exactly(3.0), 2.0).0, "less is not exact either");
}

#[test]
fn nine_digits_decide() {
    assert!(row(Bounds::Exactly(0.333_333_333), 1.0 / 3.0).0);
    assert!(row(Bounds::Between { min: None, max: Some(0.666_666_667) }, 2.0 / 3.0).0);
    assert!(!row(Bounds::Exactly(0.333_333_33), 1.0 / 3.0).0, "eight are another number");
}
