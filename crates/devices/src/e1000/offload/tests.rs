use super::*;

#[test]
fn the_end_byte_is_inclusive_and_zero_is_the_packet() {
    let mut p = [0, 0, 1, 2, 3, 4];
    let c = Context { ip_start: 2, ip_offset: 0, ip_end: 3, ..Context::default() };
    c.insert_ip(&mut p);
    assert_eq!(p[..2], (!0x0102u16).to_be_bytes());
    Context { ip_end: 0, ..c }.insert_ip(&mut p);
    assert_eq!(p[..2], (!0x0406u16).to_be_bytes());
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones_and_a_tcp_one_as_it_is() {
    let mut p = [0xff, 0xff, 0, 0];
    let c = Context { offset: 2, ..Context::default() };
    c.insert_transport(&mut p, 0);
    assert_eq!(p[2..], [0xff, 0xff]);
    p[2..].fill(0);
    Context { tcp: true, ..c }.insert_transport(&mut p, 0);
    assert_eq!(p[2..], [0, 0]);
}

#[test]
fn offsets_outside_the_packet_do_nothing() {
    let before: [u8; 20] = core::array::from_fn(|i| i as u8);
    let mut p = before;
    let far = Context {
        ip_start: 200,
        ip_offset: 201,
        start: 250,
        offset: 19,
        tcp: true,
        ipv4: true,
        ..Context::default()
    };
    far.insert_ip(&mut p);
    far.insert_transport(&mut p, 5);
    far.patch(&mut p, 3, 9, false);
    legacy(&mut p, 20, 0);
    legacy(&mut p, 0, 19);
    assert_eq!(p, before);
}
