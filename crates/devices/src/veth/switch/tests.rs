mod replaced;

use super::*;

#[test]
fn the_table_is_bounded_and_the_newest_is_in_it() {
    let mut l = Learned::new();
    for i in 0..100_000u32 {
        let [_, a, b, c] = i.to_be_bytes();
        let mac = [2, 0, 0, a, b, c];
        l.learn(1, mac, i as usize % 7);
        assert_eq!(l.find(1, mac), Some(i as usize % 7));
        assert_eq!(l.find(2, mac), None, "each VLAN by itself");
    }
    assert_eq!(l.sets.iter().flatten().flatten().count(), SETS * WAYS);
    l.purge(3);
    assert!(l.sets.iter().flatten().flatten().all(|s| s.adapter != 3));
}
