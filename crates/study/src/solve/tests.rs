use super::*;
use proptest::prelude::*;
use std::convert::Infallible;

/// A model of a closure, which counts its evaluations.
struct Counted<F>(F, usize);

impl<F: Fn(&[f64]) -> Vec<f64>> Model for Counted<F> {
    type Error = Infallible;
    fn values(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Infallible> {
        self.1 += points.len();
        Ok(points.iter().map(|p| (self.0)(p)).collect())
    }
}

const WIDE: (f64, f64) = (0.0, 1e6);

fn solved(
    f: impl Fn(&[f64]) -> Vec<f64>,
    parameters: &[(f64, (f64, f64))],
    targets: &[f64],
) -> (Solution, usize) {
    let parameter = |(start, range): &(f64, _)| Parameter { start: *start, range: *range };
    let parameters: Vec<Parameter> = parameters.iter().map(parameter).collect();
    let target = |v: &f64| Target { value: *v, spread: 0.01 * v.abs(), counts: true };
    let targets: Vec<Target> = targets.iter().map(target).collect();
    let mut model = Counted(f, 0);
    let Ok(s) = Search::new(&parameters, &targets).solve(&mut model, f64::INFINITY);
    (s, model.1)
}

/// Searches for the place where all rows are met, from `start` in 0 to 100. Returns it, and the
/// evaluations.
fn met<const N: usize>(
    f: impl Fn(&[f64]) -> Vec<f64>,
    start: [f64; N],
    targets: [f64; N],
    slopes: &mut Option<Derivatives>,
) -> (Solution, usize) {
    let parameters = start.map(|start| Parameter { start, range: (0.0, 100.0) });
    let targets = targets.map(|value| Target { value, spread: 1.0, counts: true });
    let (search, mut model) = (Search::new(&parameters, &targets), Counted(f, 0));
    let Ok(found) = match slopes {
        None => search.meet(&mut model, (1e-6, 1e-3), slopes),
        Some(_) => search.meet_again(&mut model, (1e-6, 1e-3), slopes),
    };
    (found, model.1)
}

#[test]
fn lines_are_met_by_one_step() {
    let lines = |p: &[f64]| vec![2.0 * p[0] + p[1], p[0] - 3.0 * p[1]];
    let mut slopes = None;
    let (s, evaluations) = met(lines, [8.0, 8.0], [11.0, -19.0], &mut slopes);
    assert!((s.at[0] - 2.0).abs() < 1e-6 && (s.at[1] - 7.0).abs() < 1e-6, "{s:?}");
    // The start, a step of each, and the place.
    assert_eq!(evaluations, 4);
    let (_, again) = met(lines, [8.0, 8.0], [13.0, -18.0], &mut slopes);
    assert_eq!(again, 2, "the slopes are known");
}

#[test]
fn slopes_follow_a_curve() {
    let (s, evaluations) = met(|p| vec![p[0] * p[0]], [3.0], [49.0], &mut None);
    assert!((s.at[0] - 7.0).abs() < 1e-6, "{s:?}");
    assert!(evaluations < 10, "{evaluations}");
}

#[test]
fn a_search_for_what_is_out_of_reach_ends_at_the_bound() {
    let mut slopes = None;
    met(|p| vec![p[0]], [8.0], [9.0], &mut slopes);
    let (s, evaluations) = met(|p| vec![p[0]], [8.0], [200.0], &mut slopes);
    assert_eq!(s.at, [100.0]);
    assert!(evaluations < 6, "{evaluations}");
}

#[test]
fn a_row_that_nothing_moves_ends_the_search() {
    let (s, evaluations) = met(|_| vec![1.0], [8.0], [2.0], &mut None);
    assert_eq!(s.values, [1.0]);
    // The start and a step of each of three searches.
    assert_eq!(evaluations, 6);
}

/// Cycles of a packet and of a batch, over batches.
fn batches(p: &[f64]) -> Vec<f64> {
    [1.0, 4.0, 32.0].map(|n| 2500.0 / (p[0] + p[1] / n)).into()
}

#[test]
fn a_curve_is_met_in_few_evaluations() {
    let (s, evaluations) = solved(batches, &[(90.0, WIDE), (60.0, WIDE)], &batches(&[61.0, 210.0]));
    assert!((s.at[0] - 61.0).abs() < 1e-3 && (s.at[1] - 210.0).abs() < 1e-2, "{s:?}");
    assert!(evaluations < 60, "{evaluations}");
}

#[test]
fn derivatives_are_taken_again_only_after_a_step() {
    // A target so near that the search never leaves the first grid point.
    let (_, evaluations) = solved(batches, &[(90.0, WIDE), (60.0, WIDE)], &batches(&[90.2, 60.1]));
    // Those of two widths, those of the search, and its points.
    assert!(evaluations < 8 + 4 + 8, "{evaluations}");
}

#[test]
fn a_parameter_stops_at_its_bound() {
    let narrow = [(90.0, (80.0, 100.0)), (60.0, WIDE)];
    let (s, _) = solved(batches, &narrow, &batches(&[61.0, 210.0]));
    assert_eq!(s.at[0], 80.0);
    // The other then serves the rows alone.
    let alone = |p: &[f64]| batches(&[80.0, p[0]]);
    let (best, _) = solved(alone, &[(60.0, WIDE)], &batches(&[61.0, 210.0]));
    assert!((s.at[1] - best.at[0]).abs() < 0.1, "{s:?} {best:?}");
}

#[test]
fn a_start_at_zero_moves() {
    let (s, _) = solved(batches, &[(90.0, WIDE), (0.0, WIDE)], &batches(&[61.0, 30.0]));
    assert!((s.at[1] - 30.0).abs() < 1e-2, "{s:?}");
}

#[test]
fn what_cannot_be_told_apart_stays_where_it_is() {
    let sum = |p: &[f64]| vec![p[0] + p[1], 2.0 * (p[0] + p[1])];
    let (s, _) = solved(sum, &[(30.0, WIDE), (10.0, WIDE)], &[50.0, 100.0]);
    assert!((s.at[0] + s.at[1] - 50.0).abs() < 1e-3, "{s:?}");
    assert!((0.0..50.0).contains(&s.at[0]), "{s:?}");
}

#[test]
fn a_grain_does_not_hide_the_slope() {
    // Steps of 1e-4 of the value, as a simulation of some thousand packets has.
    let grained = |p: &[f64]| -> Vec<f64> {
        batches(p).iter().map(|v| (v / (v * 1e-4)).floor() * v * 1e-4).collect()
    };
    let coarse = |p: &[f64]| batches(p).iter().map(|v| (v * 100.0).round() / 100.0).collect();
    for truth in [[61.0, 210.0], [400.0, 20.0]] {
        let (s, _) = solved(grained, &[(90.0, WIDE), (60.0, WIDE)], &batches(&truth));
        assert!((s.at[0] / truth[0] - 1.0).abs() < 0.01, "{s:?}");
        let (s, _) = solved(coarse, &[(90.0, WIDE), (60.0, WIDE)], &batches(&truth));
        assert!((s.at[0] / truth[0] - 1.0).abs() < 0.01, "{s:?}");
    }
}

proptest! {
    #[test]
    fn any_truth_is_found(
        a in 5.0f64..900.0, b in 5.0f64..900.0, x in 20.0f64..400.0, y in 20.0f64..400.0,
    ) {
        let (s, _) = solved(batches, &[(x, WIDE), (y, WIDE)], &batches(&[a, b]));
        let search = |s: &Solution| s.values.iter().zip(batches(&[a, b]))
            .map(|(v, t)| (v / t - 1.0).abs()).fold(0.0, f64::max);
        prop_assert!(search(&s) < 1e-4, "{s:?}");
    }

    #[test]
    fn powers_of_two_are_below(x in 1e-9f64..1e9) {
        let p = power_of_two(x);
        prop_assert!(p <= x && x < 2.0 * p && libm::log2(p).fract() == 0.0, "{}", p);
    }
}
