use super::*;

#[test]
fn every_count_is_described() {
    assert_eq!(Ledger::COUNTERS.len(), Ledger::default().entries().count());
    for Counter { name, about, .. } in Ledger::COUNTERS {
        assert!(about.len() > 10 && !about.starts_with(' '), "{name}: {about:?}");
    }
}
