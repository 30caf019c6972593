use super::*;

#[test]
fn buffer_sizes() {
    let size = |sz: u32, bsex: u32| buffer_size(sz << RCTL_SZ_SHIFT | bsex);
    assert_eq!([0, 1, 2, 3].map(|s| size(s, 0)), [2048, 1024, 512, 256]);
    assert_eq!([0, 1, 2, 3].map(|s| size(s, RCTL_BSEX)), [2048, 16384, 8192, 4096]);
}
