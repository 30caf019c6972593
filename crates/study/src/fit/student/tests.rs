use super::*;

fn near(found: f64, table: f64) {
    assert!((found / table - 1.0).abs() < 3e-4, "{found} {table}");
}

#[test]
fn one_number_has_the_quantiles_of_students_t() {
    for (freedom, t) in [(1, 12.7062), (2, 4.3027), (3, 3.1824), (10, 2.2281), (19, 2.0930)] {
        near(half_width(1, Some(freedom)), t);
    }
    near(half_width(1, None), 1.9600);
    assert_eq!(half_width(1, Some(0)), f64::INFINITY);
}

#[test]
fn several_numbers_have_those_of_chi_square_and_f() {
    for (directions, square) in [(2, 5.9915), (3, 7.8147), (5, 11.0705), (6, 12.5916)] {
        near(half_width(directions, None).powi(2), square);
    }
    for (directions, freedom, f) in
        [(2, 12, 3.8853), (3, 10, 3.7083), (4, 1, 224.583), (5, 7, 3.9715), (6, 4, 6.1631)]
    {
        near(half_width(directions, Some(freedom)).powi(2) / directions as f64, f);
    }
}

#[test]
fn many_degrees_of_freedom_are_the_normal_distribution() {
    for directions in [1, 2, 3] {
        near(half_width(directions, Some(20_000)), half_width(directions, None));
    }
}
