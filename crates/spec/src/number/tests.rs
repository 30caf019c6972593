use super::*;
use proptest::prelude::*;
use proptest::sample::select;

const DIGITS: [u32; 6] = [1, 2, 4, 6, 9, 12];

fn is_that_of_text(x: f64, digits: u32) {
    let (fast, text) = (significant(x, digits), significant_by_text(x, digits));
    assert_eq!(fast.to_bits(), text.to_bits(), "{x:?} to {digits} digits");
}

#[test]
fn rounding_of_edges_is_that_of_text() {
    for x in [0.0, -0.0, 1.0, 0.1, 9.5, 99.999_999_95, 2.5e8, 1e-30, 1e300, f64::INFINITY] {
        for digits in DIGITS {
            is_that_of_text(x, digits);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60_000))]

    #[test]
    fn rounding_is_that_of_text(
        x in prop_oneof![
            any::<i32>().prop_map(|n| f64::from(n) / 1024.0),
            any::<u64>().prop_map(f64::from_bits).prop_filter("a number", |x| !x.is_nan()),
            1e-12..1e21,
        ],
        digits in select(&DIGITS[..]),
    ) {
        is_that_of_text(x, digits);
    }
}
