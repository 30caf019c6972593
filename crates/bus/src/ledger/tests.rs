use super::*;

#[test]
fn every_count_is_described() {
    assert_eq!(Ledger::ABOUT.len(), Ledger::default().entries().count());
    for (name, about) in Ledger::ABOUT {
        assert!(about.len() > 10 && !about.starts_with(' '), "{name}: {about:?}");
    }
}
