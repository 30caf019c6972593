use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn pieces_are_placed_as_asked_never_overlap_and_all_come_back(
        wants in proptest::collection::vec(
            (1..5000u64, 0..13u32, any::<u64>(), any::<bool>()),
            1..80,
        ),
    ) {
        let whole = 0x10_0000..0x14_0000;
        let mut heap = Heap::new(whole.clone());
        let mut live: Vec<(u64, u64)> = Vec::new();
        for (len, shift, offset, gives) in wants {
            let align = 1 << shift;
            if let Some(at) = heap.take(len, align, offset % align) {
                prop_assert_eq!(at % align, offset % align);
                prop_assert!(whole.start <= at && at + len <= whole.end);
                prop_assert!(live.iter().all(|(a, n)| at + len <= *a || a + n <= at));
                live.push((at, len));
            }
            if gives && !live.is_empty() {
                let (at, len) = live.swap_remove(offset as usize % live.len());
                heap.give(at, len);
            }
        }
        for (at, len) in live {
            heap.give(at, len);
        }
        prop_assert_eq!(heap.free, BTreeMap::from([(whole.start, whole.end - whole.start)]));
    }
}
