use super::*;

#[test]
fn numbers_for_people() {
    assert_eq!(
        [count(0), count(999), count(1_000), count(1_234_567)],
        ["0", "999", "1,000", "1,234,567"]
    );
    let shown = [0.0, 0.000_12, 0.031_25, 41.5, 161.0, 1514.0, 123_456.7].map(amount);
    assert_eq!(shown, ["0", "1.2e-4", "0.031", "41.500", "161.00", "1514.0", "123457"]);
}

#[test]
fn a_row_never_leaves_the_page() {
    let mut t = Table::new("x", &["a", "b"], &[]);
    t.row("name", &["1".into(), "2".into()], &"long ".repeat(40));
    assert!(t.finish().lines().all(|l| l.chars().count() <= WIDTH));
    assert_eq!(Table::new("x", &["a"], &[]).finish(), "");
}

#[test]
fn what_does_not_fit_ends_at_a_comma_or_a_word() {
    assert_eq!(fit("bytes of TLPs, framing included", 31), "bytes of TLPs, framing included");
    assert_eq!(fit("bytes of TLPs, framing included", 30), "bytes of TLPs");
    assert_eq!(fit("bytes of TLPs", 12), "bytes of");
    assert_eq!(fit("bytes of TLPs", 8), "bytes of");
    assert_eq!(fit("größe der TLPs", 6), "größe");
    assert_eq!(fit("bytes", 3), "");
    let long = wrapped("the same:", &vec!["maps 1.000".to_owned(); 30]);
    assert!(long.lines().all(|l| l.chars().count() <= WIDTH) && long.lines().count() > 1);
}
