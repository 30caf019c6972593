use super::*;

#[test]
fn the_third_of_two_waits_for_the_first() {
    let t = Time::from_ps;
    let mut s = OutstandingRequests::new(2);
    s.take(t(10));
    assert_eq!(s.free(t(5)), t(5));
    s.take(t(20));
    assert_eq!(s.free(t(5)), t(10));
    assert_eq!(s.free(t(15)), t(15));
    s.take(t(30));
    assert_eq!(s.free(t(5)), t(20));
}
