use super::*;

#[test]
fn every_count_is_added_and_taken_away() {
    let mut one = Ledger::default();
    each(&mut one, &Ledger::default(), |a, _| *a = 1);
    // Two adapters' calls, and the table's.
    assert_eq!(one.entries().iter().find(|e| e.0 == "hcalls").unwrap().2, CALLS.len() as u64 + 1);
    assert!(one.entries().iter().all(|e| e.2 > 0), "none is forgotten");
    let mut two = one;
    two += &one;
    assert!((two - &one).entries().iter().zip(one.entries()).all(|(a, b)| *a == b));
}
