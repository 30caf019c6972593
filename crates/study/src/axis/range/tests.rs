use super::values;

fn of(text: &str) -> Vec<String> {
    values(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn both_ends_are_in() {
    assert_eq!(of("1..4"), ["1", "2", "3", "4"]);
    assert_eq!(of("7..7"), ["7"]);
    assert_eq!(of("64..200:64"), ["64", "128", "192"]);
}

#[test]
fn a_factor_makes_each_a_multiple_of_the_one_before() {
    assert_eq!(of("1..64:x2"), ["1", "2", "4", "8", "16", "32", "64"]);
    assert_eq!(of("1..1000:x10"), ["1", "10", "100", "1000"]);
    assert_eq!(of("0.5..8:x4"), ["0.5", "2", "8"]);
}

#[test]
fn fractions_have_no_rounding_error() {
    assert_eq!(of("0.1..0.7:0.2"), ["0.1", "0.3", "0.5", "0.7"]);
    assert_eq!(of("1..1.3:0.1"), ["1", "1.1", "1.2", "1.3"]);
}

#[test]
fn the_unit_of_the_end_is_that_of_all() {
    assert_eq!(of("1..3us"), ["1us", "2us", "3us"]);
    assert_eq!(of("64 B..128 B:64"), ["64 B", "128 B"]);
}

#[test]
fn other_values_stay_what_they_are() {
    for text in ["on", "1", "full", "a:b", "64 B"] {
        assert_eq!(of(text), [text]);
    }
}

#[test]
fn a_wrong_range_says_what_is_wrong() {
    let wrong = |text| values(text).unwrap_err().0;
    assert_eq!(wrong("a..b"), "a range is of numbers, such as 1..8 or 64..1500:64");
    assert_eq!(wrong("8..1"), "the first is more than the last");
    assert_eq!(wrong("1..8:0"), "the step `0` is not a number over 0, nor x and a number over 1");
    assert_eq!(wrong("1..8:x1"), "the step `x1` is not a number over 0, nor x and a number over 1");
    assert_eq!(wrong("0..8:x2"), "the step `x2` is not a number over 0, nor x and a number over 1");
    assert_eq!(wrong("1us..8ms"), "the unit of one end is `us`, that of the other `ms`");
    assert_eq!(wrong("1..20000"), "more than 10000 values");
    for text in ["1..inf", "1..1e3", "1e1..20", "0..1us..2us"] {
        assert_eq!(wrong(text), "a range is of numbers, such as 1..8 or 64..1500:64", "{text}");
    }
}
