//! The size of joint confidence regions: quantiles of Student's t, of F and of chi square.

use std::f64::consts::{FRAC_2_PI, PI, TAU};

/// Returns the half-width, in standard errors, of 95 % intervals of `directions` independent
/// numbers and of all their linear combinations together (H. Scheffé, Biometrika 40, 1953). For a
/// single one it is Student's t. `freedom` is the number of degrees of freedom that the errors come
/// from, or `None` if they are known. Without any it is infinite.
pub(super) fn half_width(directions: usize, freedom: Option<usize>) -> f64 {
    let all = directions.max(1);
    if freedom == Some(0) {
        return f64::INFINITY;
    }
    let inside = |x: f64| freedom.map_or_else(|| normal(x, all), |n| student(x, all, n));
    let mut high = 2.0;
    while inside(high) < 0.95 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if inside(middle) < 0.95 { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability that `all` normal deviates lie within a sphere of radius `x`.
fn normal(x: f64, all: usize) -> f64 {
    let half = x * x / 2.0;
    let (a, first, term) = if all % 2 == 1 {
        (0.5, one_normal(x), (half / PI).sqrt() * 2.0 * libm::exp(-half))
    } else {
        (1.0, 1.0 - libm::exp(-half), half * libm::exp(-half))
    };
    up(first, term, a, all, |a| half / (a + 1.0))
}

/// Returns the probability of a normal deviate from -x to x, by its series (G. Marsaglia).
fn one_normal(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for k in 1..200 {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    if x > 8.0 { 1.0 } else { 2.0 * sum * libm::exp(-x * x / 2.0) / TAU.sqrt() }
}

/// Returns the probability that `all` deviates, divided by one estimate of their spread of `n`
/// degrees of freedom, lie within a sphere of radius `x`: the incomplete beta function of
/// parameters `all` / 2 and `n` / 2.
fn student(x: f64, all: usize, n: usize) -> f64 {
    let (freedom, b) = (n as f64, n as f64 / 2.0);
    let share = x * x / (x * x + freedom);
    let rest = libm::pow(1.0 - share, b);
    let (a, first, term) = if all % 2 == 1 {
        (0.5, one_student(x, n), gammas(n) / (PI.sqrt() / 2.0) * share.sqrt() * rest)
    } else {
        (1.0, 1.0 - rest, b * share * rest)
    };
    up(first, term, a, all, |a| share * (a + b) / (a + 1.0))
}

/// Raises a parameter from `a` to `all` / 2 by ones: each takes a term away, and `next` is the
/// ratio of two terms.
fn up(first: f64, mut term: f64, mut a: f64, all: usize, next: impl Fn(f64) -> f64) -> f64 {
    let mut inside = first;
    while 2.0 * a < all as f64 {
        inside -= term;
        term *= next(a);
        a += 1.0;
    }
    inside
}

/// Returns the quotient of the gamma functions of (n + 1) / 2 and n / 2.
fn gammas(n: usize) -> f64 {
    let (mut b, mut ratio) =
        if n % 2 == 1 { (0.5, 1.0 / PI.sqrt()) } else { (1.0, PI.sqrt() / 2.0) };
    while 2.0 * b < n as f64 {
        ratio *= (b + 0.5) / b;
        b += 1.0;
    }
    ratio
}

/// Returns the probability of Student's t from -x to x with `n` degrees of freedom (Abramowitz and
/// Stegun 26.7.3 and 26.7.4).
fn one_student(x: f64, n: usize) -> f64 {
    let angle = libm::atan(x / (n as f64).sqrt());
    let (sine, cosine) = libm::sincos(angle);
    let odd = n % 2;
    let (mut term, mut sum) = (if odd == 1 { cosine } else { 1.0 }, 0.0);
    for power in (odd..n.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
    }
    if odd == 1 { (angle + sine * sum) * FRAC_2_PI } else { sine * sum }
}

#[cfg(test)]
mod tests;
