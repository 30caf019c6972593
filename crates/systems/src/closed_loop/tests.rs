use super::*;
use crate::system::PlacementKeys;

#[test]
fn values_that_do_not_go_together_are_refused() {
    let keys: Vec<&'static Key> =
        Keys::KEYS.iter().chain(PlacementKeys::KEYS).chain(&KIND).collect();
    let with = |sets: &[&str]| {
        let mut v = Values::defaults(&keys);
        sets.iter().for_each(|s| v.set(s).unwrap());
        Load::of(&v, 1460)
    };
    assert!(with(&[]).is_ok());
    insta::assert_snapshot!(
        with(&["traffic.mss=1460"]).unwrap_err(),
        @"`traffic.mss` is 1460 B, but the device's longest frame holds 1448"
    );
    insta::assert_snapshot!(
        with(&["traffic.offset=64"]).unwrap_err(),
        @"`traffic.offset` is 64 B, which is not below `traffic.align`, 64"
    );
    insta::assert_snapshot!(
        with(&["traffic.large_send=auto", "traffic.tx_checksum=off"]).unwrap_err(),
        @"a large send leaves its checksums to the device; set `traffic.tx_checksum` on"
    );
    static KIND: [Key; 1] = [Key::choice("traffic.kind", &["send", "receive", "transactions"], "")];
}
