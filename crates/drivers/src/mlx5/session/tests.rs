use super::*;

#[test]
fn longest_session_is_15_blocks_and_58_packets() {
    assert_eq!(max_wqebbs(1024), 15);
    let mut s = Session::open(EsegKey::NONE, 640, max_wqebbs(1024));
    while !s.is_full() {
        s.next += DS;
    }
    assert_eq!(s.ds(640), 60);
    assert_eq!(s.ds(640) - Session::HEAD_DS, 58);
}

#[test]
fn a_fragment_is_64_blocks() {
    assert_eq!(contiguous(0, 1023), 64);
    assert_eq!(contiguous(63, 1023), 1);
    assert_eq!(contiguous(64, 1023), 64);
    assert_eq!(contiguous(17, 15), 15, "a ring shorter than a page is one fragment");
}
