//! Shares of runs.

use super::share;

/// Wilson's interval, worked out by hand: of none in a hundred, and of seven in a thousand.
#[test]
fn a_share_has_an_interval() {
    let near = |[share, low, high]: [f64; 3], of: [f64; 3]| {
        for (a, b) in [share, low, high].into_iter().zip(of) {
            assert!((a - b).abs() < 5e-5, "{a} {b}");
        }
    };
    near(share(0, 100), [0.0, 0.0, 0.0370]);
    near(share(7, 1000), [0.007, 0.0034, 0.0144]);
    near(share(60, 60), [1.0, 0.9398, 1.0]);
}
