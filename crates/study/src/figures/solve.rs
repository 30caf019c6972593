//! Solvers: a bracketing root finder, and linear equations.
//!
//! The root finder is the Illinois variant of false position (Dowell and Jarratt, BIT 11, 1971). It
//! converges faster than linearly and never leaves its bracket. A simulation may jump or have
//! corners, where false position creeps, so if three steps have not halved the bracket, the next
//! one bisects. On smooth functions it needs a third of bisection's evaluations or fewer.

/// The conditions to stop a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Precision {
    /// The largest residual of a root.
    pub residual: f64,
    /// The width of a closed bracket. It holds a jump if its ends have not come closer for a
    /// while; those of a steep function do.
    pub width: f64,
}

/// The end of a search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Found {
    /// The function is zero at `at`, within the precision.
    Root {
        /// The argument.
        at: f64,
    },
    /// The function jumps across zero: it is `below` and `above` zero at two arguments that are
    /// equal within the precision.
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
        /// The value at the lower end.
        at_low: f64,
        /// The value at the upper end.
        at_high: f64,
    },
}

/// The factor by which a bracket gets narrower, with more than half of the difference between its
/// ends left, around a jump.
const JUMP: f64 = 1024.0;

/// Searches `low..=high` for a zero of `f`.
///
/// # Errors
/// The first error of `f`. Its values must be finite otherwise.
pub(crate) fn root<E>(
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
    // The width at which the ends were at most twice as far apart as now.
    let mut since = (high - low, (at_high - at_low).abs());
    let mut last_moved_left = None;
    for step in 1u64.. {
        let width = right.x - left.x;
        let middle = left.x + width / 2.0;
        // Halving ends at neighbouring floats, whatever the precision.
        let gap = (right.f - left.f).abs();
        if gap <= since.1 / 2.0 {
            since = (width, gap);
        }
        let jumps = width <= precision.width && width <= since.0 / JUMP;
        if jumps || middle <= left.x || middle >= right.x {
            break;
        }
        let mut x = middle;
        if step % 3 != 0 || width <= three_ago / 2.0 {
            let secant =
                (left.x * right.weight - right.x * left.weight) / (right.weight - left.weight);
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
        let (moved, kept) =
            if moves_left { (&mut left, &mut right) } else { (&mut right, &mut left) };
        *moved = End { x, f: fx, weight: fx };
        // Illinois: an end that stays twice gets half the weight, so that the next step overshoots
        // the root.
        if last_moved_left == Some(moves_left) {
            kept.weight /= 2.0;
        }
        last_moved_left = Some(moves_left);
    }

    let (negative, positive) = if left.f < 0.0 { (left, right) } else { (right, left) };
    let closer = if -negative.f <= positive.f { negative } else { positive };
    Ok(Found::Jump { at: closer.x, below: negative.f, above: positive.f })
}

/// Solves a square system of linear equations by elimination with row pivoting. Returns `None` if
/// it is singular.
pub(crate) fn linear(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
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
mod tests;
