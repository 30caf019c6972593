use super::*;

#[test]
fn frames_on_their_way_back_fill_their_limit_exactly() {
    let mut l = Loopback::default();
    let push = |l: &mut Loopback, len: usize| l.push(Time::ZERO, &alloc::vec![7; len], 200);
    assert!(push(&mut l, 60) && push(&mut l, 140), "to the last byte");
    assert!(!push(&mut l, 1));
    assert_eq!(l.pop().map(|f| f.1.len()), Some(60));
    assert!(!push(&mut l, 61) && push(&mut l, 60));
    for len in [140, 60] {
        assert_eq!(l.pop().map(|f| f.1.len()), Some(len));
    }
    assert!(l.pop().is_none());
    assert!(!push(&mut l, 201) && push(&mut l, 200), "all of it is free again");
}
