mod limits;

use super::*;

#[test]
fn map_ids_are_1_to_254_and_come_back() {
    let mut ids = MapIds::new();
    let all: Vec<u8> = core::iter::from_fn(|| ids.take()).collect();
    assert_eq!(all, (1..=254).collect::<Vec<u8>>());
    ids.free(200);
    assert_eq!((ids.take(), ids.take()), (Some(200), None));
}
