use super::*;
use crate::tests::{Frame, any_frame};
use alloc::vec;
use proptest::prelude::*;

#[test]
fn the_tag_goes_behind_the_addresses() {
    let untagged = Frame::tcp4(3).build();
    let mut out = vec![0; untagged.len() + TAG];
    assert_eq!(insert_into(&mut out, &untagged, 0x2000), untagged.len() + TAG);
    assert_eq!(out[12..18], [0x81, 0, 0x20, 0, 0x08, 0]);
    // TCI 0x2001 is what `build` writes for a single tag.
    insert_into(&mut out, &untagged, 0x2001);
    assert_eq!(out, Frame { tags: 1, ..Frame::tcp4(3) }.build());
}

#[test]
fn a_service_tag_or_half_a_tag_is_left_alone() {
    let mut f = Frame { tags: 2, ..Frame::tcp4(3) }.build();
    assert_eq!(strip(&mut f), None);
    let mut f = Frame { tags: 1, ..Frame::tcp4(3) }.build();
    assert_eq!(strip(&mut f[..16]), None);
}

#[test]
fn a_tag_and_a_type_are_enough() {
    let frame = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x00, 0x20, 0x05, 0x08, 0x00];
    assert_eq!(tag(&frame), Some(0x2005));
    assert_eq!(tag(&frame[..17]), None);
}

proptest! {
    #[test]
    fn stripping_undoes_inserting(frame in any_frame(0..50), tci in any::<u16>()) {
        let f = frame.build();
        let mut out = vec![0; f.len() + TAG];
        insert_into(&mut out, &f, tci);
        prop_assert_eq!(strip(&mut out), Some(tci));
        prop_assert_eq!(&out[TAG..], &f);
    }
}
