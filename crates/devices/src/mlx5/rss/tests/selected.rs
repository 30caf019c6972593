//! Hashes of one field alone, and the exclusive-or of eight bits.

use super::*;

#[test]
fn one_field_of_a_pair_is_enough() {
    let f = Frame::v4(tcp(10));
    for (fields, kind) in [
        (SRC_IP, rss_type::IPV4),
        (DST_IP, rss_type::IPV4),
        (L4_SPORT, rss_type::TCP),
        (L4_DPORT, rss_type::TCP),
        (SRC_IP | L4_DPORT, rss_type::IPV4 | rss_type::TCP),
    ] {
        let found = hash(&f, &tir(fields, false));
        assert_eq!(found.kind, kind, "{fields:#x}");
        assert_ne!(found.value, 0);
    }
}

#[test]
fn ports_are_those_of_the_transport_that_was_asked_for() {
    for (transport, fields, kind) in [
        (tcp(10), ADDRESSES | PORTS, rss_type::IPV4 | rss_type::TCP),
        (tcp(10), ADDRESSES | PORTS | UDP, rss_type::IPV4),
        (udp(10), ADDRESSES | PORTS | UDP, rss_type::IPV4 | rss_type::UDP),
        (udp(10), ADDRESSES | PORTS, rss_type::IPV4),
    ] {
        let f = Frame::v4(transport);
        let found = hash(&f, &tir(fields, false));
        assert_eq!(found.kind, kind, "{fields:#x}");
        let addresses = hash(&f, &tir(ADDRESSES | fields & UDP, false)).value;
        assert_eq!(found.value == addresses, kind == rss_type::IPV4);
    }
}

#[test]
fn the_xor_of_eight_bits_is_over_every_byte() {
    let t = Tir::new(TirContext {
        function: HashFn::InvertedXor8,
        fields: ADDRESSES,
        symmetric: false,
        key: MICROSOFT,
        dispatch: Dispatch::Indirect(0),
        self_lb_block: 0,
        transport_domain: 0,
    });
    let (from, to) = ([0x81, 0x42, 0x24, 0x18], [0xff, 0x0f, 0xf0, 0x55]);
    let f = Frame::ip(&from, &to, tcp(1));
    let expected = from.iter().chain(&to).fold(0, |all, byte| all ^ u32::from(*byte));
    assert_eq!(hash(&f, &t).value, expected);
}
