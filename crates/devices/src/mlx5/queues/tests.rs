use super::*;
use alloc::vec::Vec;

#[test]
fn objects_have_numbers_from_their_kinds_base() {
    let mut t = Table::new(0x1000);
    let numbers: Vec<u32> = (0..4).map(|i| t.insert(i, 4).unwrap()).collect();
    assert_eq!(numbers, [0x1000, 0x1001, 0x1002, 0x1003]);
    assert_eq!(t.insert(9, 4), Err(CmdStatus::NoResources));
    assert_eq!(t.destroy(0x1001, true), Err(CmdStatus::BadResourceState));
    assert_eq!(t.destroy(0x1001, false), Ok(()));
    let changed: Vec<(u32, i32)> =
        t.iter_mut().map(|(n, v)| (n, core::mem::replace(v, 7))).collect();
    assert_eq!(changed, [(0x1000, 0), (0x1002, 2), (0x1003, 3)]);
    assert!(t.iter().eq([(0x1000, &7), (0x1002, &7), (0x1003, &7)]));
}
