use super::*;
use std::convert::Infallible;
use std::sync::Mutex;

/// Searches a space whose goal is `f`. Returns the best design, and how many were tried.
fn found(sizes: &[usize], f: impl Fn(&Design) -> f64 + Sync) -> (Design, usize) {
    let ran = Mutex::new(Vec::new());
    let run = |d: &Design| {
        ran.lock().unwrap().push(d.clone());
        Ok::<_, Infallible>(Score { missed: 0.0, goal: f(d), error: 0.0 })
    };
    let space = Space { sizes, distance: &|_, v| v as f64, least: 0.005 };
    let Ok((best, known)) = search(&space, &vec![0; sizes.len()], 7, &run, &mut |_| true);
    let mut ran = ran.into_inner().unwrap();
    let all = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!((ran.len(), known.len()), (all, all), "no design runs twice");
    (best, all)
}

#[test]
fn a_small_space_is_tried_whole() {
    // The best is alone among worse ones, where no descent would find it.
    let needle = |d: &Design| if d == &vec![2, 3, 1] { 0.0 } else { 1.0 + d[0] as f64 };
    assert_eq!(found(&[4, 4, 3], needle), (vec![2, 3, 1], 48));
}

#[test]
fn independent_settings_are_found_with_a_share_of_the_runs() {
    let target = [3, 0, 4, 2, 1];
    let bowl = |d: &Design| {
        d.iter().zip(target).map(|(a, b)| (*a as f64 - f64::from(b)).abs()).sum::<f64>()
    };
    let (best, runs) = found(&[5; 5], bowl);
    assert_eq!(best, [3, 0, 4, 2, 1]);
    assert!(runs <= 156, "{runs} of 3125");
}

#[test]
fn settings_that_hang_together_are_found_from_another_start() {
    // Each of the first two costs something alone; from today's values no step gains.
    let pair = |d: &Design| {
        let alone = (d[0] + d[1]) as f64;
        let both = if d[0] >= 3 && d[1] >= 3 { -20.0 } else { 0.0 };
        alone + both + d[2] as f64
    };
    let (best, runs) = found(&[6, 6, 6, 6], pair);
    assert_eq!(&best[..3], [3, 3, 0], "after {runs} runs");
}

#[test]
fn what_gains_nothing_stays_as_it_is_today() {
    // The first setting gains 0.1 %, which is nothing; of the second all but today's are equal.
    let flat = |d: &Design| 1000.0 - d[0] as f64 * 0.25 - if d[1] > 0 { 100.0 } else { 0.0 };
    assert_eq!(found(&[5, 5, 5], flat).0, [0, 1, 0]);
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
    let Ok((best, known)) = search(&space, &vec![50, 0], 1, &run, &mut |n| n < 5);
    assert!((1..=21).contains(&known.len()), "{}", known.len());
    assert!(known.values().all(|s| s.goal >= best[0] as f64));
}
