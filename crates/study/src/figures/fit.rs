//! Fits: constants solved for so that rows equal their published values, one row each.
//!
//! All are solved for together ([`crate::solve`]), from the profile's values. A fit is done when
//! its row is within [`precision`](super::FigureSet::precision) of the published value. A
//! simulation has steps: within [`GRAIN`] of it, a search ends where it comes no closer, and its
//! residual is reported. If no set of constants serves all rows, the fit has failed. If several do,
//! narrower bounds should leave one.

use super::bench::{Bench, Stage};
use super::{Constants, MeasureError, Row, Source};
use crate::solve::{Derivatives, Model, Parameter, Search, Target};
use std::convert::Infallible;

/// The residual at which a fit is done, relative to the published value, unless the system sets
/// [`precision`](super::FigureSet::precision).
pub(crate) const RESIDUAL: f64 = 1e-7;
/// The largest residual, relative to the published value, that the steps of a simulation may leave.
pub(crate) const GRAIN: f64 = 1e-3;

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
    pub failed: Option<FitError>,
}

/// The reasons for a failed fit.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FitError {
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

/// The slopes of all fits' rows, at a place like those that are searched.
pub(super) type Slopes = Option<Derivatives>;

/// The rows of some fits, as functions of their constants.
struct Rows<'a> {
    bench: &'a Bench<'a>,
    /// The values of the other constants.
    constants: &'a Constants,
    /// Constants and rows, by index.
    fits: Vec<(usize, usize)>,
    parameters: Vec<Parameter>,
    targets: Vec<Target>,
    evaluations: u32,
}

impl<'a> Rows<'a> {
    fn new(bench: &'a Bench<'a>, constants: &'a Constants, fits: Vec<(usize, usize)>) -> Rows<'a> {
        let parameter = |(constant, _): &(usize, usize)| {
            let c = &constants.numbers[*constant];
            let Source::Fit { range, .. } = c.source else { return None };
            Some(Parameter { start: c.value, range })
        };
        let target = |(_, row): &(usize, usize)| {
            let row = &bench.sheet.rows[*row];
            Target { value: row.published, spread: row.scale(), counts: true }
        };
        let parameters = fits.iter().filter_map(parameter).collect();
        let targets = fits.iter().map(target).collect();
        Rows { bench, constants, fits, parameters, targets, evaluations: 0 }
    }

    /// Returns the constants with those of the fits at a point.
    fn at(&self, point: &[f64]) -> Constants {
        let mut place = self.constants.clone();
        for ((constant, _), value) in self.fits.iter().zip(point) {
            place.numbers[*constant].value = *value;
        }
        place
    }

    /// Returns the result at a place. A fit within `near` is done.
    fn finish(&self, point: &[f64], near: f64) -> (Vec<Fit>, Constants) {
        let place = self.at(point);
        let fit = |((constant, row), parameter): (&(usize, usize), &Parameter)| {
            let computed = self.bench.measure(&place, *row);
            let (constant, row) = (&place.numbers[*constant], &self.bench.sheet.rows[*row]);
            let residual = computed.clone().map(|value| (value - row.published) / row.scale());
            let failed = match (&residual, computed) {
                (Ok(left), _) if left.abs() <= near => None,
                (_, Err(why)) => Some(FitError::Measure(why)),
                (_, Ok(computed)) => Some(FitError::Unmet {
                    published: row.published,
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
                evaluations: self.evaluations,
                failed,
            }
        };
        let fits = self.fits.iter().zip(&self.parameters).map(fit).collect();
        (fits, place)
    }
}

impl Model for Rows<'_> {
    type Error = Infallible;

    /// A row that cannot be measured is infinite.
    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Infallible> {
        let places: Vec<Constants> = points.iter().map(|point| self.at(point)).collect();
        let of_place =
            |(n, c)| self.fits.iter().map(move |(constant, row)| (n, c, *constant, *row));
        let all: Vec<_> = (1u32..).zip(&places).flat_map(of_place).collect();
        let values = self.bench.each(&all, |_, (n, c, constant, row)| {
            let constant = &c.numbers[*constant].key;
            self.bench.tell(Stage::Fit { constant, evaluations: self.evaluations + n });
            self.bench.measure(c, *row).unwrap_or(f64::INFINITY)
        });
        self.evaluations += points.len() as u32;
        Ok(values.chunks(self.fits.len().max(1)).map(<[_]>::to_vec).collect())
    }
}

/// Solves all fits of the bench's sheet. `constants` are left at the values found. Returns the
/// slopes there, if the search took any.
pub(super) fn solve(bench: &Bench<'_>, constants: &mut Constants) -> (Vec<Fit>, Slopes) {
    let mut rows = Rows::new(bench, constants, bench.sheet.fits());
    let (parameters, targets) = (rows.parameters.clone(), rows.targets.clone());
    let (enough, near) = ends(bench.sheet.precision);
    let mut slopes = None;
    let search = Search::new(&parameters, &targets);
    let Ok(found) = search.meet(&mut rows, (enough, near), &mut slopes);
    let (fits, place) = rows.finish(&found.at, near);
    *constants = place;
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
    let mut rows = Rows::new(bench, constants, fits);
    let (parameters, targets) = (rows.parameters.clone(), rows.targets.clone());
    let (enough, near) = ends(enough);
    let search = Search::new(&parameters, &targets);
    let Ok(found) = search.meet_again(&mut rows, (enough, near), &mut some);
    if places.len() == all.len() {
        *slopes = some;
    }
    let (fits, place) = rows.finish(&found.at, near);
    *constants = place;
    fits
}

/// Returns the residual that ends a search, and that within which its steps may be too coarse.
fn ends(enough: f64) -> (f64, f64) {
    (enough, GRAIN.max(enough))
}
