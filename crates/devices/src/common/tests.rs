use super::*;
use alloc::vec::Vec;

/// Link status in STATUS.
const LINK: u16 = 1 << 2;

#[test]
fn a_link_that_was_down_reads_as_down_once() {
    let mut link = LinkStatus::new(true);
    assert_eq!([link.read(false), link.read(true)], [0x7949 | LINK, 0x7969 | LINK]);
    link.set(false);
    assert_eq!([link.read(true) & LINK, link.read(true) & LINK], [0; 2]);
    link.set(true);
    assert_eq!([link.read(true) & LINK, link.read(true) & LINK], [0, LINK], "up since that read");
    link.set(false);
    link.set(true);
    assert_eq!([link.read(true) & LINK, link.read(true) & LINK], [0, LINK], "it latches");
    link.set(true);
    assert_eq!(link.read(true) & LINK, LINK, "nothing has changed");
    let mut link = link.after_reset();
    assert_eq!([link.read(true) & LINK, link.read(true) & LINK], [0, LINK], "a reset is a loss");
}

#[test]
fn memory_of_frames_is_used_again_and_only_so_much_is_kept() {
    let mut spare = SpareFrames::new();
    assert_eq!(spare.take().capacity(), 0);
    let mut frame = Vec::with_capacity(3000);
    frame.extend([1, 2, 3]);
    spare.push(frame);
    let again = spare.reuse();
    assert_eq!((again.as_slice(), again.capacity() >= 3000), (&[1, 2, 3][..], true));
    spare.push(again);
    let again = spare.take();
    assert_eq!((again.len(), again.capacity() >= 3000), (0, true));
    // What has no memory is not kept: it takes no place of what has.
    (0..2 * SPARE_FRAMES).for_each(|_| spare.push(Vec::new()));
    (0..SPARE_FRAMES + 10).for_each(|_| spare.push(Vec::with_capacity(100)));
    let kept = (0..2 * SPARE_FRAMES).filter(|_| spare.reuse().capacity() > 0).count();
    assert_eq!(kept, SPARE_FRAMES);
}
