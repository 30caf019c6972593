//! Fields of the IP header that share bytes.

use super::*;

#[test]
fn traffic_class_and_flow_label_of_ipv6_are_apart() {
    let mut f = Frame::v6(tcp(10)).build();
    // Version 6, traffic class 0xab, flow label 0x5ccdd.
    f[14..18].copy_from_slice(&[0x6a, 0xb5, 0xcc, 0xdd]);
    let fields = Fields::of(&f);
    assert_eq!(fields.outer.dscp_ecn, 0xab);
    assert_eq!(fields.misc.outer_ipv6_flow_label.get(), 0x5_ccdd);
    f[14..18].copy_from_slice(&[0x65, 0x4a, 0x33, 0x22]);
    let fields = Fields::of(&f);
    assert_eq!(fields.outer.dscp_ecn, 0x54);
    assert_eq!(fields.misc.outer_ipv6_flow_label.get(), 0xa_3322);
}
