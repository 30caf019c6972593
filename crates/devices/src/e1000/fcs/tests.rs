use super::*;

#[test]
fn the_check_value_of_the_standard() {
    assert_eq!(of(b"123456789"), 0xcbf4_3926u32.to_le_bytes());
}

#[test]
fn eight_at_a_time_is_one_at_a_time() {
    let frame: [u8; 61] = core::array::from_fn(|i| (i * 37) as u8);
    for n in 0..frame.len() {
        let mut c = !0u32;
        for &b in &frame[..n] {
            c = c >> 8 ^ TABLES[0][(c as u8 ^ b) as usize];
        }
        assert_eq!(of(&frame[..n]), (!c).to_le_bytes(), "{n} bytes");
    }
}
