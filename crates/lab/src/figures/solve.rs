//! Solvers: a bracketing root finder, and linear equations.
//!
//! The root finder is the Illinois variant of false position, with bisection as a safeguard.
//!
//! Illinois (Dowell and Jarratt, BIT 11, 1971) converges faster than linearly and never leaves its bracket. A simulation
//! is not smooth, though: a count jumps, a `min` has a corner, and false position may then creep. So whenever three
//! steps have not halved the bracket, the next one bisects. An evaluation may be a whole simulation, so this beats plain
//! bisection by a factor of three or more on the smooth functions that are the rule.

/// When to stop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Precision {
    /// A residual of this size or below is a root.
    pub residual: f64,
    /// A bracket of this share of the interval is closed: what remains is a jump.
    pub width: f64,
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Found {
    /// The function is as good as zero at `at`.
    Root {
        /// The argument.
        at: f64,
    },
    /// The function jumps across zero: it is `below` and `above` zero at two arguments that are as good as equal.
    Jump {
        /// The argument of the smaller of the two residuals.
        at: f64,
        /// The negative residual.
        below: f64,
        /// The positive residual.
        above: f64,
    },
    /// The function has the same sign at both ends.
    NotBracketed {
        /// Its value at the lower end.
        at_low: f64,
        /// Its value at the upper end.
        at_high: f64,
    },
}

/// Searches `low..=high` for a zero of `f`.
///
/// # Errors
/// The first error of `f`, which is expected to be finite otherwise.
pub fn root<E>(
    (low, high): (f64, f64),
    precision: Precision,
    mut f: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Found, E> {
    let (at_low, at_high) = (f(low)?, f(high)?);
    for (x, fx) in [(low, at_low), (high, at_high)] {
        if fx.abs() <= precision.residual {
            return Ok(Found::Root { at: x });
        }
    }
    if (at_low < 0.0) == (at_high < 0.0) {
        return Ok(Found::NotBracketed { at_low, at_high });
    }

    let mut left = End { x: low, f: at_low, weight: at_low };
    let mut right = End { x: high, f: at_high, weight: at_high };
    let mut three_ago = high - low;
    let mut last_moved_left = None;
    for step in 1u64.. {
        let width = right.x - left.x;
        let middle = left.x + width / 2.0;
        // Halving ends at neighbouring floats, whatever the precision asked for.
        if width <= precision.width * (high - low) || middle <= left.x || middle >= right.x {
            break;
        }
        let mut x = middle;
        if step % 3 != 0 || width <= three_ago / 2.0 {
            let secant = (left.x * right.weight - right.x * left.weight) / (right.weight - left.weight);
            if left.x < secant && secant < right.x {
                x = secant;
            }
        }
        if step % 3 == 0 {
            three_ago = width;
        }
        let fx = f(x)?;
        if fx.abs() <= precision.residual {
            return Ok(Found::Root { at: x });
        }
        let moves_left = (fx < 0.0) == (left.f < 0.0);
        let (moved, kept) = if moves_left { (&mut left, &mut right) } else { (&mut right, &mut left) };
        *moved = End { x, f: fx, weight: fx };
        // Illinois: an end that stays twice pulls half as hard, so that the next step overshoots the root.
        if last_moved_left == Some(moves_left) {
            kept.weight /= 2.0;
        }
        last_moved_left = Some(moves_left);
    }

    let (negative, positive) = if left.f < 0.0 { (left, right) } else { (right, left) };
    let closer = if -negative.f <= positive.f { negative } else { positive };
    Ok(Found::Jump { at: closer.x, below: negative.f, above: positive.f })
}

/// Solves a square system of linear equations by elimination with row pivoting; `None` if it is singular.
pub fn linear(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let head = matrix[column].clone();
        for row in column + 1..n {
            let factor = matrix[row][column] / head[column];
            for (cell, above) in matrix[row].iter_mut().zip(&head) {
                *cell -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|column| matrix[row][column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    // A zero pivot has left infinities or worse.
    right.iter().all(|x| x.is_finite()).then_some(right)
}

/// One end of the bracket: the function there, and its weight in the next step.
#[derive(Clone, Copy)]
struct End {
    x: f64,
    f: f64,
    weight: f64,
}

#[cfg(test)]
mod tests {
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
        assert!((at - 2.0f64.cbrt()).abs() < 1e-8);
        assert!(evaluations < 16, "{evaluations}");
    }

    #[test]
    fn a_steep_corner_does_not_creep() {
        let (found, evaluations) = count((0.0, 1.0), |x| if x < 0.999 { -1e-6 * (1.0 - x) } else { (x - 0.999) * 1e9 });
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
            let matrix: Vec<Vec<f64>> =
                (0..3).map(|r| (0..3).map(|c| rows[r][c] + if (r + 1) % 3 == c { 5.0 } else { 0.0 }).collect()).collect();
            let right = matrix.iter().map(|row| row.iter().zip(x).map(|(m, x)| m * x).sum()).collect();
            let solved = linear(matrix, right).unwrap();
            prop_assert!(solved.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-9), "{:?} {:?}", solved, x);
        }

        #[test]
        fn any_monotone_curve_is_solved(root_at in 0.01f64..9.99, power in 1i32..6, falls: bool) {
            let sign = if falls { -1.0 } else { 1.0 };
            let (found, evaluations) = count((0.0, 10.0), |x| sign * (x.powi(power) - root_at.powi(power)));
            let Found::Root { at } = found else { return Err(TestCaseError::fail(format!("{found:?}"))) };
            prop_assert!((at.powi(power) - root_at.powi(power)).abs() <= 1e-9);
            prop_assert!(evaluations < 140, "{}", evaluations);
        }
    }
}
