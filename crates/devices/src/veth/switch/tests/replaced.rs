//! The order in which a full set forgets.

use super::*;
use alloc::vec::Vec;

#[test]
fn the_address_learned_first_is_replaced_first() {
    let macs = (0..=u16::MAX).map(|n| [2, 0, 0, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
    let set = Learned::set(1, [2, 0, 0, 0, 0, 0]);
    let same: Vec<_> = macs.filter(|m| Learned::set(1, *m) == set).take(3 * WAYS).collect();
    assert_eq!(same.len(), 3 * WAYS);
    let mut l = Learned::new();
    for (n, mac) in same.iter().enumerate() {
        l.learn(1, *mac, n);
        let kept = (n + 1).saturating_sub(WAYS)..n + 1;
        let known: Vec<usize> =
            (0..same.len()).filter(|i| l.find(1, same[*i]) == Some(*i)).collect();
        assert_eq!(known, kept.collect::<Vec<_>>());
    }
    // Learned again, an address keeps its place.
    l.learn(1, same[9], 5);
    l.learn(1, same[0], 6);
    assert_eq!(
        [8, 9, 10, 11, 0].map(|i| l.find(1, same[i])),
        [None, Some(5), Some(10), Some(11), Some(6)]
    );
}
