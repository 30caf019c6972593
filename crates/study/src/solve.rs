//! Weighted least squares within bounds: Levenberg-Marquardt steps, cut at the bounds.
//!
//! A simulation has a grain: it reacts a little to any change of a time. Its derivatives are
//! differences over steps of 3 to 6 % of a parameter, or over wider ones where the grain hides the
//! slope ([`Search::tune`]). They are kept while the search stays within such a step. So a search
//! takes few runs, and begins with the same ones whatever the targets are.
//!
//! Rows that have a parameter each can all be met ([`Search::meet`]). Slopes are taken once,
//! corrected by each step, and taken anew where steps do not halve the worst residual.

mod svd;

pub(crate) use svd::{Direction, norm};
use svd::{decompose, dot};

/// A function of parameters, with one value for each row.
pub(crate) trait Model {
    /// The reason why it has no values.
    type Error;
    /// Returns the values of all rows at each point.
    ///
    /// # Errors
    /// A value cannot be computed.
    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Self::Error>;
}

/// A parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Parameter {
    /// The start of the search.
    pub(crate) start: f64,
    /// The bounds.
    pub(crate) range: (f64, f64),
}

/// A value that a row is to have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Target {
    /// The value.
    pub(crate) value: f64,
    /// The size of one standard deviation, or a size that makes rows of different units
    /// comparable.
    pub(crate) spread: f64,
    /// True if the parameters are to follow it. Other rows only get derivatives.
    pub(crate) counts: bool,
}

/// Derivatives of all rows, by parameter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Derivatives {
    /// The parameters at which they were taken.
    pub(crate) at: Vec<f64>,
    /// For each parameter, the derivative of each row.
    pub(crate) columns: Vec<Vec<f64>>,
}

impl Derivatives {
    /// Returns those of some of the parameters, and of rows of the same places.
    pub(crate) fn only(&self, places: &[usize]) -> Derivatives {
        let of = |all: &[f64]| places.iter().map(|at| all[*at]).collect::<Vec<f64>>();
        let columns = places.iter().map(|at| of(&self.columns[*at])).collect();
        Derivatives { at: of(&self.at), columns }
    }

    /// Returns the differences from those over half the width, which are about their errors.
    pub(crate) fn errors(&self, halved: &Derivatives) -> Vec<Vec<f64>> {
        let error = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
        self.columns.iter().zip(&halved.columns).map(error).collect()
    }
}

/// The end of a search.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Solution {
    /// The parameters.
    pub(crate) at: Vec<f64>,
    /// The rows there.
    pub(crate) values: Vec<f64>,
    /// Steps that were tried.
    pub(crate) steps: u32,
}

/// The factors at which searches begin again if a row stays far away.
const RESTARTS: [f64; 2] = [4.0, 0.25];
/// The most steps that are tried.
const STEPS: u32 = 60;
/// The damping at the start, relative to the greatest squared singular value of unit columns, and
/// at least after a step that brought nothing.
const DAMPING: f64 = 1e-3;
/// The damping at which the search gives up.
const MOST_DAMPING: f64 = 1e6;
/// The damping that does not get any less, and that of a search for rows that can be met.
const LEAST_DAMPING: f64 = 1e-9;
/// A singular value of unit columns below which a direction is left as it is.
const SINGULAR: f64 = 1e-4;
/// A relative decrease of the sum of squares that ends the search.
const DECREASE: f64 = 1e-6;
/// A residual, in spreads, that ends the search for the least squares.
const RESIDUAL: f64 = 1e-6;
/// The share of a step over which slopes are taken next if they are no good, and the least.
const FINER: f64 = 0.25;
const FINEST: f64 = 1e-3;

/// Steps in a row that may bring less than half before derivatives are taken anew.
const SLOW: u32 = 1;

/// Widths of the differences that are tried, in steps.
const WIDTHS: [f64; 3] = [1.0, 4.0, 16.0];
/// The error of a derivative, relative to it, at which no wider difference is tried.
const SHARP: f64 = 0.1;

/// A search.
#[derive(Clone, Debug)]
pub(crate) struct Search<'a> {
    parameters: &'a [Parameter],
    targets: &'a [Target],
    /// The width of each parameter's differences, in steps.
    widths: Vec<f64>,
    /// The share of a step that a difference of width 1 is.
    share: f64,
    /// False for parameters whose derivatives are less than their errors.
    visible: Vec<bool>,
}

impl<'a> Search<'a> {
    /// Creates the search of the parameters that bring rows closest to their targets.
    pub(crate) fn new(parameters: &'a [Parameter], targets: &'a [Target]) -> Search<'a> {
        let n = parameters.len();
        let (widths, visible) = (vec![WIDTHS[0]; n], vec![true; n]);
        Search { parameters, targets, widths, share: 1.0, visible }
    }

    /// Chooses the width of each parameter's differences near `at`: the least one whose derivatives
    /// differ by little from those over half of it, else the one where they differ least.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn tune<M: Model>(&mut self, model: &mut M, at: &[f64]) -> Result<(), M::Error> {
        let mut best = vec![f64::INFINITY; at.len()];
        let mut chosen = vec![WIDTHS[0]; at.len()];
        for width in WIDTHS {
            let open: Vec<bool> = best.iter().map(|error| *error > SHARP).collect();
            if !open.contains(&true) {
                break;
            }
            let tried = chosen.iter().zip(&open).map(|(c, open)| if *open { width } else { *c });
            self.widths = tried.collect();
            let whole = self.derivatives(model, at, 1.0)?;
            let errors = whole.errors(&self.derivatives(model, at, 0.5)?);
            for i in (0..at.len()).filter(|i| open[*i]) {
                let sizes = [&errors[i], &whole.columns[i]].map(|c| norm(&self.weighted(c)));
                if sizes[1] > 0.0 && sizes[0] / sizes[1] < best[i] {
                    (best[i], chosen[i]) = (sizes[0] / sizes[1], width);
                }
            }
        }
        self.widths = chosen;
        // Without any slope there is no error, and one may show elsewhere.
        self.visible = best.iter().map(|error| *error < 1.0 || error.is_infinite()).collect();
        Ok(())
    }

    /// Returns the scatter of each row between points near `at`, as far as derivatives over the
    /// least width and over half of it differ.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn grain<M: Model>(&self, model: &mut M, at: &[f64]) -> Result<Vec<f64>, M::Error> {
        let n = self.parameters.len();
        let narrow = Search { widths: vec![WIDTHS[0]; n], ..self.clone() };
        let whole = narrow.derivatives(model, at, 1.0)?;
        let errors = whole.errors(&narrow.derivatives(model, at, 0.5)?);
        let steps: Vec<f64> = self.parameters.iter().zip(at).map(|(p, x)| p.step(*x)).collect();
        // Two values over two steps, less two values over one: 2/4 + 2 times the variance of one.
        let scatter = |row: usize| {
            let each = errors.iter().zip(&steps).map(|(e, step)| (e[row] * step).powi(2));
            (each.sum::<f64>() / (2.5 * n as f64)).sqrt()
        };
        Ok((0..self.targets.len()).map(scatter).collect())
    }

    /// Returns whether a derivative of each parameter is more than its error.
    pub(crate) fn visible(&self) -> &[bool] {
        &self.visible
    }

    /// Runs the search for the least sum of squares. If a row stays `far` away, each parameter is
    /// started anew at other sizes: where another part of the machine limits a run, its derivatives
    /// are zero.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn solve<M: Model>(&self, model: &mut M, far: f64) -> Result<Solution, M::Error> {
        self.again(model, far, |search, model| {
            let (mut search, start) = (search.clone(), search.start());
            search.tune(model, &start)?;
            let slopes = search.derivatives(model, &start, 1.0)?;
            search.least(model, start, slopes)
        })
    }

    /// Runs the same search from a solution, with the slopes there.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn solve_again<M: Model>(
        &self,
        model: &mut M,
        from: &Solution,
        slopes: &Derivatives,
    ) -> Result<Solution, M::Error> {
        self.least(model, from.at.clone(), slopes.clone())
    }

    /// Runs the search for the place where all rows that count are within `enough` of their
    /// targets. Leaves the slopes there, if it took any. If a row stays further than `near` away,
    /// begins again as [`solve`](Search::solve) does.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn meet<M: Model>(
        &self,
        model: &mut M,
        (enough, near): (f64, f64),
        slopes: &mut Option<Derivatives>,
    ) -> Result<Solution, M::Error> {
        self.again(model, near, |search, model| {
            *slopes = None;
            search.clone().newton(model, (enough, near), slopes, FINEST)
        })
    }

    /// Runs the same search from a place like one that was found, with the slopes there. Gives up
    /// soon, since most searches at the ends of ranges have nothing to find.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn meet_again<M: Model>(
        &self,
        model: &mut M,
        (enough, near): (f64, f64),
        slopes: &mut Option<Derivatives>,
    ) -> Result<Solution, M::Error> {
        self.clone().newton(model, (enough, near), slopes, 1.0)
    }

    /// Searches once, and as long as a row stays `far` away, again with each parameter at other
    /// sizes.
    fn again<M: Model>(
        &self,
        model: &mut M,
        far: f64,
        mut once: impl FnMut(&Search<'_>, &mut M) -> Result<Solution, M::Error>,
    ) -> Result<Solution, M::Error> {
        let mut best = once(self, model)?;
        let restarts = (0..self.parameters.len()).flat_map(|i| RESTARTS.map(|f| (i, f)));
        for (i, factor) in restarts {
            if self.worst(&best) <= far {
                break;
            }
            let mut others = self.parameters.to_vec();
            for (p, at) in others.iter_mut().zip(&best.at) {
                p.start = *at;
            }
            others[i].start *= factor;
            let found = once(&Search::new(&others, self.targets), model)?;
            if self.squares(&found) < self.squares(&best) {
                best = found;
            }
        }
        Ok(best)
    }

    /// Returns the start of each parameter, within its bounds.
    fn start(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.start.clamp(p.range.0, p.range.1)).collect()
    }

    /// Makes damped steps (Levenberg-Marquardt) as long as the sum of squares gets less.
    fn least<M: Model>(
        &self,
        model: &mut M,
        start: Vec<f64>,
        mut slopes: Derivatives,
    ) -> Result<Solution, M::Error> {
        let mut here = self.look(model, start)?;
        let mut damping = DAMPING;
        let enough = self.targets.len() as f64 * RESIDUAL * RESIDUAL;
        while here.steps < STEPS && damping <= MOST_DAMPING && self.squares(&here) > enough {
            if self.centre(&here.at) != slopes.at {
                slopes = self.derivatives(model, &here.at, 1.0)?;
            }
            let step = self.step(&here, &slopes, damping);
            let next = self.moved(&here.at, &step);
            if next == here.at {
                break;
            }
            let mut there = self.look(model, next)?;
            there.steps = here.steps + 1;
            let (before, after) = (self.squares(&here), self.squares(&there));
            if after < before {
                here = there;
                damping = (damping / 10.0).max(LEAST_DAMPING);
                if before - after <= DECREASE * before {
                    break;
                }
            } else {
                here.steps += 1;
                damping *= 10.0;
            }
        }
        Ok(here)
    }

    /// Makes steps to where all rows would be met by the slopes. Where steps bring too little,
    /// slopes are taken anew, over less if they were of this place, down to the share `finest`.
    fn newton<M: Model>(
        mut self,
        model: &mut M,
        (enough, near): (f64, f64),
        slopes: &mut Option<Derivatives>,
        finest: f64,
    ) -> Result<Solution, M::Error> {
        let mut here = self.look(model, self.start())?;
        let mut damping = LEAST_DAMPING;
        // Steps by these slopes that brought less than half.
        let mut slow = 0;
        // A row that cannot be computed is infinite.
        while here.steps < STEPS && self.worst(&here) > enough && self.worst(&here).is_finite() {
            let fresh = slopes.is_none();
            let mut used = match slopes.take() {
                Some(used) => used,
                None => self.forward(model, &here)?,
            };
            let next = self.moved(&here.at, &self.step(&here, &used, damping));
            let stays = next == here.at;
            if stays && fresh {
                break;
            }
            let mut there = self.look(model, next)?;
            there.steps = here.steps + 1;
            let halves = self.worst(&there) <= self.worst(&here) / 2.0;
            self.follow(&mut used, &here, &there);
            if self.squares(&there) < self.squares(&here) {
                here = there;
                damping = (damping / 10.0).max(LEAST_DAMPING);
            } else {
                here.steps += 1;
                damping = (damping * 10.0).max(DAMPING);
            }
            slow = if halves { 0 } else { slow + 1 };
            if slow <= SLOW && !stays {
                *slopes = Some(used);
                continue;
            }
            if self.worst(&here) <= near || self.share < finest {
                *slopes = Some(used);
                break;
            }
            (slow, self.share) = (0, self.share * FINER);
        }
        Ok(here)
    }

    /// Corrects derivatives by the way from one place to another (Broyden), so that they give the
    /// change of the rows along it.
    fn follow(&self, slopes: &mut Derivatives, from: &Solution, to: &Solution) {
        let way = self.parameters.iter().zip(from.at.iter().zip(&to.at));
        let way: Vec<(f64, f64)> = way.map(|(p, (a, b))| (b - a, p.step(p.start))).collect();
        let length: f64 = way.iter().map(|(by, step)| (by / step).powi(2)).sum();
        if length == 0.0 {
            return;
        }
        for row in 0..self.targets.len() {
            let expected = slopes.columns.iter().zip(&way).map(|(c, (by, _))| c[row] * by);
            let error = to.values[row] - from.values[row] - expected.sum::<f64>();
            if !error.is_finite() {
                continue;
            }
            for (column, (by, step)) in slopes.columns.iter_mut().zip(&way) {
                column[row] += error * by / (step * step * length);
            }
        }
    }

    fn look<M: Model>(&self, model: &mut M, at: Vec<f64>) -> Result<Solution, M::Error> {
        let values = model.values(std::slice::from_ref(&at))?.pop().unwrap_or_default();
        Ok(Solution { at, values, steps: 0 })
    }

    /// Returns the distance of each row from its target, in spreads; 0 for one that does not count.
    pub(crate) fn residuals(&self, s: &Solution) -> Vec<f64> {
        let each = self.targets.iter().zip(&s.values);
        each.map(|(t, v)| if t.counts { (v - t.value) / t.spread } else { 0.0 }).collect()
    }

    /// Returns the sum of squared residuals.
    pub(crate) fn squares(&self, s: &Solution) -> f64 {
        let residuals = self.residuals(s);
        dot(&residuals, &residuals)
    }

    /// Returns the greatest residual.
    pub(crate) fn worst(&self, s: &Solution) -> f64 {
        self.residuals(s).iter().fold(0.0, |worst, r| r.abs().max(worst))
    }

    /// Returns derivatives in spreads of rows that count.
    pub(crate) fn weighted(&self, column: &[f64]) -> Vec<f64> {
        let each = self.targets.iter().zip(column);
        each.map(|(t, d)| if t.counts { d / t.spread } else { 0.0 }).collect()
    }

    /// Returns the parameters that are not at a bound over which the rows would push them.
    pub(crate) fn free(&self, s: &Solution, slopes: &Derivatives) -> Vec<bool> {
        let residuals = self.residuals(s);
        let is_free = |((p, x), column): ((&Parameter, &f64), &Vec<f64>)| {
            let uphill = dot(&self.weighted(column), &residuals);
            !(*x <= p.range.0 && uphill >= 0.0 || *x >= p.range.1 && uphill <= 0.0)
        };
        self.parameters.iter().zip(&s.at).zip(&slopes.columns).map(is_free).collect()
    }

    /// Returns the damped step of each parameter.
    fn step(&self, here: &Solution, slopes: &Derivatives, damping: f64) -> Vec<f64> {
        let residuals = self.residuals(here);
        let free = self.free(here, slopes);
        let free: Vec<bool> = free.iter().zip(&self.visible).map(|(a, b)| *a && *b).collect();
        let scaled = Scaled::new(slopes.columns.iter().map(|c| self.weighted(c)).collect(), &free);
        let mut step = vec![0.0; self.parameters.len()];
        for d in scaled.directions.iter().filter(|d| d.value > SINGULAR) {
            let along = -dot(&d.image, &residuals) / (d.value * d.value + damping);
            for (i, to) in scaled.of.iter().enumerate() {
                step[*to] += along * d.right[i] / scaled.norms[i];
            }
        }
        step
    }

    fn moved(&self, at: &[f64], by: &[f64]) -> Vec<f64> {
        let each = self.parameters.iter().zip(at).zip(by);
        each.map(|((p, x), by)| (x + by).clamp(p.range.0, p.range.1)).collect()
    }

    /// Returns the point of a grid of steps at which derivatives near `at` are taken.
    fn centre(&self, at: &[f64]) -> Vec<f64> {
        let each = self.parameters.iter().zip(at);
        let snapped = |(p, x): (&Parameter, &f64)| {
            let step = p.step(*x);
            ((x / step).round() * step).clamp(p.range.0, p.range.1)
        };
        each.map(snapped).collect()
    }

    /// Returns the slopes of the rows from a place, over a share of a step of each parameter.
    fn forward<M: Model>(&self, model: &mut M, here: &Solution) -> Result<Derivatives, M::Error> {
        let mut steps = Vec::with_capacity(here.at.len());
        let mut points = Vec::with_capacity(here.at.len());
        for (i, (p, x)) in self.parameters.iter().zip(&here.at).enumerate() {
            let step = self.share * p.step(*x);
            steps.push(if x + step <= p.range.1 { step } else { -step });
            let mut point = here.at.clone();
            point[i] += steps[i];
            points.push(point);
        }
        let slope = |(there, step): (&Vec<f64>, &f64)| {
            let rise = there.iter().zip(&here.values).map(|(there, here)| (there - here) / step);
            rise.map(|slope| if slope.is_finite() { slope } else { 0.0 }).collect()
        };
        let columns = model.values(&points)?.iter().zip(&steps).map(slope).collect();
        Ok(Derivatives { at: here.at.clone(), columns })
    }

    /// Returns the derivatives near `at` over a share of their widths.
    ///
    /// # Errors
    /// The first error of the model.
    pub(crate) fn derivatives<M: Model>(
        &self,
        model: &mut M,
        at: &[f64],
        share: f64,
    ) -> Result<Derivatives, M::Error> {
        let centre = self.centre(at);
        let mut points = Vec::with_capacity(2 * centre.len());
        let mut widths = Vec::with_capacity(centre.len());
        for (i, p) in self.parameters.iter().enumerate() {
            let step = share * self.widths[i] * p.step(at[i]);
            let ends = [-step, step].map(|by| (centre[i] + by).clamp(p.range.0, p.range.1));
            widths.push(ends[1] - ends[0]);
            points.extend(ends.map(|end| {
                let mut point = centre.clone();
                point[i] = end;
                point
            }));
        }
        let values = model.values(&points)?;
        let column = |(ends, width): (&[Vec<f64>], &f64)| {
            let slope = |(low, high): (&f64, &f64)| (high - low) / width;
            let slopes = ends[0].iter().zip(&ends[1]).map(slope);
            slopes.map(|slope| if slope.is_finite() { slope } else { 0.0 }).collect()
        };
        let columns = values.chunks(2).zip(&widths).map(column).collect();
        Ok(Derivatives { at: centre, columns })
    }
}

impl Parameter {
    /// Returns the step of derivatives at `x`: a power of two, 3 to 6 % of it, or of its start.
    fn step(&self, x: f64) -> f64 {
        let width = self.range.1 - self.range.0;
        let least =
            if self.start == 0.0 { (width / 16.0).min(8.0) } else { self.start.abs() / 8.0 };
        power_of_two(x.abs().max(least)).min(width) / 16.0
    }
}

/// Returns the greatest power of two that is not above `x`.
fn power_of_two(x: f64) -> f64 {
    // The exponent alone; a logarithm may differ in its last bit from machine to machine.
    f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000)
}

/// Columns of unit length, without those of zero, and their singular directions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scaled {
    /// The place of each column among all.
    pub(crate) of: Vec<usize>,
    /// The length that each had.
    pub(crate) norms: Vec<f64>,
    /// The singular directions.
    pub(crate) directions: Vec<Direction>,
}

impl Scaled {
    /// Decomposes the columns that are `taken` and not zero.
    pub(crate) fn new(columns: Vec<Vec<f64>>, taken: &[bool]) -> Scaled {
        let (mut of, mut norms, mut unit) = (Vec::new(), Vec::new(), Vec::new());
        for (i, mut column) in columns.into_iter().enumerate() {
            let length = norm(&column);
            if taken[i] && length > 0.0 {
                column.iter_mut().for_each(|x| *x /= length);
                of.push(i);
                norms.push(length);
                unit.push(column);
            }
        }
        Scaled { of, norms, directions: decompose(&unit) }
    }
}

#[cfg(test)]
mod tests;
