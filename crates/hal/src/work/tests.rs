use super::*;

#[test]
fn kinds_are_numbered_in_order() {
    for (i, k) in WorkKind::ALL.iter().enumerate() {
        assert_eq!(*k as usize, i, "{}", k.name());
    }
}
