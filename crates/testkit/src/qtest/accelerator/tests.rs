use super::*;

#[test]
fn the_stamp_is_forty_digits_after_its_mark() {
    let digits = "f1b4c2639e440a9f989736fb1ad6d8336564df2e";
    assert_eq!(
        stamp(format!("\0q qemu_stamp_%s\0qemu_stamp_{digits}\0").as_bytes()),
        Some(digits.into())
    );
    assert_eq!(stamp(format!("qemu_stamp_{}", &digits[1..]).as_bytes()), None);
    assert_eq!(stamp(b""), None);
}
