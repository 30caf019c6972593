use super::*;

#[test]
fn a_batch_ends_with_the_bytes_it_began_with() {
    let mut b = Batch::default();
    assert!(b.may_go(3000));
    assert!(b.goes(1500, true));
    assert!(b.may_go(-1), "it has begun");
    assert!(!b.goes(1500, true), "nothing is left of 3000");
    assert!(!b.may_go(-1));
}

#[test]
fn a_packet_longer_than_the_room_goes_alone() {
    let mut b = Batch::default();
    assert!(b.may_go(0));
    assert!(!b.goes(65_000, true));
}

#[test]
fn a_batch_without_a_packet_is_none() {
    let mut b = Batch::default();
    assert!(b.may_go(0));
    b.end();
    assert!(!b.may_go(-1));
}

#[test]
fn a_batch_ends_with_the_last_packet_that_waits() {
    let mut b = Batch::default();
    assert!(b.may_go(i32::MAX));
    assert!(!b.goes(60, false));
    assert!(!b.may_go(-1));
}
