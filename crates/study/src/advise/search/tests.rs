use super::*;
use std::convert::Infallible;
use std::sync::Mutex;

fn score(goal: f64) -> Score {
    Score { missed: 0.0, goal, error: 0.0 }
}

/// Searches a space in at most so many runs.
fn searched(sizes: &[usize], most: usize, f: impl Fn(&Design) -> Score + Sync) -> Found {
    let ran = Mutex::new(Vec::new());
    let run = |d: &Design| {
        ran.lock().unwrap().push(d.clone());
        Ok::<_, Infallible>(f(d))
    };
    let space = Space { sizes, distance: &|_, v| v as f64, least: 0.005 };
    let Ok(found) = search(&space, &vec![0; sizes.len()], (7, most), &run, &mut |_| true);
    let mut ran = ran.into_inner().unwrap();
    let all = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!((ran.len(), found.known.len()), (all, all), "no design runs twice");
    assert!(all <= most, "{all} of {most}");
    found
}

/// Searches a space whose goal is `f` in 156 runs. Returns the best design.
fn found(sizes: &[usize], f: impl Fn(&Design) -> f64 + Sync) -> Design {
    searched(sizes, 156, |d| score(f(d))).best
}

#[test]
fn a_small_space_is_tried_whole() {
    // The best is alone among worse ones, where no descent would find it.
    let needle = |d: &Design| if d == &vec![2, 3, 1] { 0.0 } else { 1.0 + d[0] as f64 };
    let found = searched(&[4, 4, 3], 48, |d| score(needle(d)));
    assert_eq!((found.best, found.known.len(), found.ends), (vec![2, 3, 1], 48, 0));
}

#[test]
fn independent_settings_are_found_with_a_share_of_the_runs() {
    let target = [3, 0, 4, 2, 1];
    let bowl = |d: &Design| {
        d.iter().zip(target).map(|(a, b)| (*a as f64 - f64::from(b)).abs()).sum::<f64>()
    };
    assert_eq!(found(&[5; 5], bowl), [3, 0, 4, 2, 1]);
}

#[test]
fn settings_that_hang_together_are_found_in_pairs() {
    // Each of the first two costs something alone; from today's values no step gains.
    let pair = |d: &Design| {
        let alone = (d[0] + d[1]) as f64;
        let both = if d[0] == 7 && d[1] == 9 { -20.0 } else { 0.0 };
        100.0 + alone + both + d[2] as f64
    };
    let found = searched(&[12, 12, 12, 12], 1200, |d| score(pair(d)));
    assert_eq!(&found.best[..3], [7, 9, 0], "after {} runs", found.known.len());
}

/// A bound allows what is below a line through two settings, of which both have to change at once.
#[test]
fn a_ridge_along_a_bound_is_walked() {
    let ridge = |d: &Design| {
        let (a, b) = (d[0] as f64, d[1] as f64);
        Score { missed: (a - b - 1.0).max(0.0), goal: 100.0 - 10.0 * a + b, error: 0.0 }
    };
    let found = searched(&[9, 9, 4, 4], 700, ridge);
    assert_eq!(&found.best[..2], [8, 7], "after {} runs", found.known.len());
}

/// Two valleys: descents end in both.
#[test]
fn starts_that_disagree_are_counted() {
    let valleys = |d: &Design| {
        let low = |c: usize| d.iter().map(|v| v.abs_diff(c) as f64).sum::<f64>();
        score(100.0 + low(1).min(low(7) - 2.0))
    };
    let two = searched(&[9, 9, 9], 400, valleys);
    assert_eq!(two.best, [7, 7, 7]);
    assert_eq!(two.ends, STARTS);
    assert!((1..STARTS).contains(&two.agree), "{}", two.agree);
    let one = searched(&[9, 9, 9], 400, |d| score(100.0 + d.iter().sum::<usize>() as f64));
    assert_eq!((one.ends, one.agree), (STARTS, STARTS));
}

#[test]
fn what_gains_nothing_stays_as_it_is_today() {
    // The first setting gains 0.1 %, which is nothing; of the second all but today's are equal.
    let flat = |d: &Design| 1000.0 - d[0] as f64 * 0.25 - if d[1] > 0 { 100.0 } else { 0.0 };
    assert_eq!(searched(&[5, 5, 5], 100, |d| score(flat(d))).best, [0, 1, 0]);
}

#[test]
fn constraints_come_first_and_what_cannot_run_last() {
    let low = Score { missed: 0.0, goal: 5.0, error: 0.0 };
    let better = Score { missed: 0.1, goal: 1.0, error: 0.0 };
    assert_eq!(low.compare(&better), Ordering::Less);
    assert_eq!(better.compare(&Score::NONE), Ordering::Less);
}

#[test]
fn an_interrupted_search_has_the_best_so_far() {
    let run =
        |d: &Design| Ok::<_, Infallible>(Score { missed: 0.0, goal: d[0] as f64, error: 0.0 });
    let space = Space { sizes: &[100, 100], distance: &|_, v| v as f64, least: 0.0 };
    let Ok(f) = search(&space, &vec![50, 0], (1, 240), &run, &mut |n| n < 5);
    assert!((1..=21).contains(&f.known.len()), "{}", f.known.len());
    assert!(f.known.values().all(|s| s.goal >= f.best[0] as f64));
}
