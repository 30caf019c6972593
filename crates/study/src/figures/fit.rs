//! Fits: constants solved for so that rows equal their published values, one row each.
//!
//! All are solved for together ([`crate::solve`]), from the profile's values. A fit is done when
//! its row is within [`precision`](super::FigureSet::precision) of the published value. A
//! simulation has steps: within its [grain](FigureSet::grain), a search ends where it comes no
//! closer, and its residual is reported. If no set of constants serves all rows, the fit has
//! failed. If several do, narrower bounds should leave one.

use super::bench::{Bench, Rows};
use super::{Constants, FigureSet, MeasureError, Row, Source};
use crate::solve::{Derivatives, Parameter, Search, Solution, Target};
use std::convert::Infallible;

/// The residual at which a fit is done, relative to the published value, unless the system sets
/// [`precision`](super::FigureSet::precision).
pub(crate) const RESIDUAL: f64 = 1e-7;
/// The largest residual, relative to the published value, that the steps of a simulation may leave,
/// unless the system sets a larger [`jitter`](super::FigureSet::jitter).
const GRAIN: f64 = 1e-3;

/// The result of fitting one constant.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The constant.
    pub constant: String,
    /// The row that it consumed.
    pub row: String,
    /// The value found; for a failed fit, the one at which all rows are met best.
    pub value: f64,
    /// The remaining difference from the published value, relative to it. `None` if the row could
    /// not be measured.
    pub residual: Option<f64>,
    /// Places at which the rows of all fits were evaluated.
    pub evaluations: u32,
    /// The reason for a failure.
    pub failed: Option<Unfitted>,
}

/// The reasons for a failed fit.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unfitted {
    /// No values within the bounds reach the published figures.
    #[error(
        "published is {published}, but computed is {} at {}, where all fits are met best{}",
        short(*computed), short(*at), if *at_bound { ": its bound" } else { "" }
    )]
    Unmet {
        /// The published figure.
        published: f64,
        /// The row's value.
        computed: f64,
        /// The constant.
        at: f64,
        /// It is at the end of its range.
        at_bound: bool,
    },
    /// The row could not be measured.
    #[error("not measured: {0}")]
    Measure(MeasureError),
}

/// Rounds to four significant digits, for a message.
fn short(x: f64) -> f64 {
    super::report::round_significant(x, 4)
}

impl FigureSet {
    /// Returns the residual, relative to the published value, within which a search may end.
    pub(super) fn grain(&self) -> f64 {
        GRAIN.max(self.jitter)
    }
}

/// The slopes of all fits' rows, at a place like those that are searched.
pub(super) type Slopes = Option<Derivatives>;

/// Solves all fits of the bench's sheet. `constants` are left at the values found. Returns the
/// slopes there, if the search took any.
pub(super) fn solve(bench: &Bench<'_>, constants: &mut Constants) -> (Vec<Fit>, Slopes) {
    let (mut slopes, precision) = (None, bench.sheet.precision);
    let fits = search(bench, constants, &bench.sheet.fits(), precision, |search, rows, ends| {
        search.meet(rows, ends, &mut slopes)
    });
    (fits, slopes)
}

/// Solves the fits on the rows that `wanted` takes, to a residual of `enough`, near a place with
/// these slopes. The others' constants stay where they are. `constants` are left at the values
/// found, and `slopes` at those there if they are of all fits.
pub(super) fn solve_again(
    bench: &Bench<'_>,
    constants: &mut Constants,
    enough: f64,
    slopes: &mut Slopes,
    wanted: impl Fn(&Row) -> bool,
) -> Vec<Fit> {
    let all = bench.sheet.fits();
    let those = all.iter().copied().enumerate();
    let those = those.filter(|(_, (_, row))| wanted(&bench.sheet.rows[*row]));
    let (places, fits): (Vec<usize>, Vec<_>) = those.unzip();
    let mut some = slopes.as_ref().map(|all| all.only(&places));
    let found = search(bench, constants, &fits, enough, |search, rows, ends| {
        search.meet_again(rows, ends, &mut some)
    });
    if places.len() == all.len() {
        *slopes = some;
    }
    found
}

/// Searches the constants of these fits, and leaves them at the values found. A row that cannot be
/// computed is infinite. `once` gets the residual that ends the search, and that within which its
/// steps may be too coarse.
fn search<'b>(
    bench: &'b Bench<'b>,
    constants: &mut Constants,
    fits: &[(usize, usize)],
    enough: f64,
    once: impl FnOnce(
        &Search<'_>,
        &mut Rows<'b, fn(usize, MeasureError) -> Result<f64, Infallible>>,
        (f64, f64),
    ) -> Result<Solution, Infallible>,
) -> Vec<Fit> {
    let parameter = |(constant, _): &(usize, usize)| {
        let c = &constants.numbers[*constant];
        let Source::Fit { range, .. } = c.source else { return None };
        Some(Parameter { start: c.value, range })
    };
    let target = |(_, row): &(usize, usize)| {
        let row = &bench.sheet.rows[*row];
        Target { value: row.value, spread: row.scale(), counts: true }
    };
    let parameters: Vec<Parameter> = fits.iter().filter_map(parameter).collect();
    let targets: Vec<Target> = fits.iter().map(target).collect();
    let (of, rows) = fits.iter().copied().unzip();
    let lost: fn(usize, MeasureError) -> _ = |_, _| Ok(f64::INFINITY);
    let base = constants.clone();
    let mut rows = Rows { bench, base, constants: of, rows, lost, evaluations: 0 };
    let near = bench.sheet.grain().max(enough);
    let Ok(found) = once(&Search::new(&parameters, &targets), &mut rows, (enough, near));
    *constants = rows.at(&found.at);
    let fit = |((constant, row), parameter): (&(usize, usize), &Parameter)| {
        let computed = bench.measure(constants, *row);
        let (constant, row) = (&constants.numbers[*constant], &bench.sheet.rows[*row]);
        let residual = computed.clone().map(|value| (value - row.value) / row.scale());
        let failed = match (&residual, computed) {
            (Ok(left), _) if left.abs() <= near => None,
            (_, Err(why)) => Some(Unfitted::Measure(why)),
            (_, Ok(computed)) => Some(Unfitted::Unmet {
                published: row.value,
                computed,
                at: constant.value,
                at_bound: [parameter.range.0, parameter.range.1].contains(&constant.value),
            }),
        };
        Fit {
            constant: constant.key.clone(),
            row: row.figure.clone(),
            value: constant.value,
            residual: residual.ok(),
            evaluations: rows.evaluations,
            failed,
        }
    };
    fits.iter().zip(&parameters).map(fit).collect()
}
