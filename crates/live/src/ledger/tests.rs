use super::*;

#[test]
fn every_count_is_added_and_taken_away() {
    let mut one = Ledger::default();
    CALLS.iter().for_each(|c| one.call(Hcall(c.number)));
    each(&mut one, &Ledger::default(), |a, _| *a = 1);
    one.bus.count_tce(doorbell_bus::tce::Cost { entries: 1, calls: 1, ..Default::default() });
    (one.bus.maps, one.bus.unmaps, one.bus.dma_faults) = (1, 1, 1);
    // The adapter's calls, and the table's.
    assert_eq!(one.entries().iter().find(|e| e.0 == "hcalls").unwrap().2, CALLS.len() as u64 + 1);
    assert!(one.entries().iter().all(|e| e.2 > 0), "none is forgotten");
    let mut two = one.clone();
    two += &one;
    assert!((two - &one).entries().iter().zip(one.entries()).all(|(a, b)| *a == b));
}
