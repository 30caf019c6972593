use super::*;
use proptest::prelude::*;
use std::convert::Infallible;

const FINE: Precision = Precision { residual: 1e-9, width: 0.0 };

fn count(interval: (f64, f64), f: impl Fn(f64) -> f64) -> (Found, u32) {
    let mut evaluations = 0;
    let found = root::<Infallible>(interval, FINE, |x| {
        evaluations += 1;
        Ok(f(x))
    });
    let Ok(found) = found;
    (found, evaluations)
}

#[test]
fn a_line_takes_three_evaluations() {
    let (found, evaluations) = count((0.0, 10.0), |x| 2.0 * x - 5.0);
    assert_eq!((found, evaluations), (Found::Root { at: 2.5 }, 3));
}

#[test]
fn a_smooth_curve_takes_few() {
    let (found, evaluations) = count((0.0, 4.0), |x| x.powi(3) - 2.0);
    let Found::Root { at } = found else { panic!("{found:?}") };
    assert!((at - libm::cbrt(2.0)).abs() < 1e-8);
    assert!(evaluations < 16, "{evaluations}");
}

#[test]
fn a_steep_corner_does_not_creep() {
    let (found, evaluations) =
        count((0.0, 1.0), |x| if x < 0.999 { -1e-6 * (1.0 - x) } else { (x - 0.999) * 1e9 });
    assert!(!matches!(found, Found::NotBracketed { .. }));
    assert!(evaluations < 130, "{evaluations}");
}

#[test]
fn a_jump_is_not_a_root() {
    let (found, _) = count((0.0, 1.0), |x| if x < 0.3 { -1.0 } else { 0.5 });
    let Found::Jump { at, below, above } = found else { panic!("{found:?}") };
    assert!((at - 0.3).abs() < 1e-9);
    assert_eq!((below, above), (-1.0, 0.5));
}

#[test]
fn the_same_sign_at_both_ends_is_said() {
    let (found, evaluations) = count((0.0, 1.0), |x| x + 1.0);
    assert_eq!((found, evaluations), (Found::NotBracketed { at_low: 1.0, at_high: 2.0 }, 2));
}

#[test]
fn a_singular_system_has_no_solution() {
    assert_eq!(linear(vec![vec![1.0, 2.0], vec![2.0, 4.0]], vec![1.0, 1.0]), None);
}

#[test]
fn a_zero_on_the_diagonal_is_pivoted_away() {
    assert_eq!(linear(vec![vec![0.0, 2.0], vec![4.0, 0.0]], vec![6.0, 8.0]), Some(vec![2.0, 3.0]));
}

proptest! {
    #[test]
    fn a_solution_solves(
        rows in prop::array::uniform3(prop::array::uniform3(-1.0f64..1.0)),
        x in prop::array::uniform3(-9.0f64..9.0),
    ) {
        // A heavy diagonal, out of order: solvable, and in need of pivoting.
        let mut matrix = rows.map(Vec::from).to_vec();
        (0..3).for_each(|r| matrix[r][(r + 1) % 3] += 5.0);
        let right = matrix.iter().map(|row| row.iter().zip(x).map(|(m, x)| m * x).sum()).collect();
        let solved = linear(matrix, right).unwrap();
        prop_assert!(solved.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-9), "{solved:?} {x:?}");
    }

    #[test]
    fn any_monotone_curve_is_solved(root_at in 0.01f64..9.99, power in 1i32..6, falls: bool) {
        let sign = if falls { -1.0 } else { 1.0 };
        let (found, evaluations) = count((0.0, 10.0), |x| {
            sign * (x.powi(power) - root_at.powi(power))
        });
        let Found::Root { at } = found else {
            return Err(TestCaseError::fail(format!("{found:?}")));
        };
        prop_assert!((at.powi(power) - root_at.powi(power)).abs() <= 1e-9);
        prop_assert!(evaluations < 140, "{}", evaluations);
    }
}
