use super::*;

#[test]
fn every_count_is_described() {
    assert_eq!(Ledger::about().count(), Ledger::default().entries().count());
    for (name, about) in Ledger::about() {
        assert!(about.len() > 10 && !about.starts_with(' '), "{name}: {about:?}");
    }
}
