use super::*;

#[test]
fn a_frame_arrives_with_its_fcs_and_frees_the_wire_after_the_gap() {
    let mut w = Wire::new(1_000_000_000, Span::from_us(5));
    // 8 + 1514 + 4 bytes of 8 ns, then 12 more.
    assert_eq!(
        w.send(Time::ZERO, &[0; 1514]),
        Time::ZERO + Span::from_ns(12_208) + Span::from_us(5)
    );
    assert_eq!(w.free(), Time::ZERO + Span::from_ns(12_304));
    assert_eq!(w.send(Time::ZERO, &[0; 14]), w.next_arrival() + Span::from_ns(96 + 72 * 8));
}

#[test]
fn remainders_are_carried() {
    let mut w = Wire::new(3_000_000_000, Span::ZERO);
    for _ in 0..3_000 {
        w.send(Time::ZERO, &[0; 1001]);
    }
    // 3000 frames of 1025 bytes at 3 Gbit/s.
    assert_eq!(w.free(), Time::ZERO + Span::from_us(8200));
}
