//! The byte limit.

use super::*;

#[test]
fn bytes_count_from_transmit_to_completion() {
    let mut d = DriverHarness::default_channel();
    assert_eq!(d.byte_room(), 0, "one packet may go");
    d.batch(1);
    assert_eq!(d.byte_room(), -60);
    d.complete_all();
    assert_eq!(d.byte_room(), 60, "it ran dry with 60");
    d.batch(5);
    assert_eq!(d.byte_room(), 60 - 300);
    d.close();
}

#[test]
fn a_packet_counts_as_long_as_linux_counts_it() {
    // en_tx.c: in a session as it is, else no less than a frame, a large send with all its headers.
    let room = |d: &mut DriverHarness, p| {
        d.send(p, false);
        d.byte_room()
    };
    let mut d = DriverHarness::default_channel();
    let short = d.packet(50);
    assert_eq!(room(&mut d, short), -50);
    let mut d = DriverHarness::without_mpwqe();
    let short = d.packet(50);
    assert_eq!(room(&mut d, short), -60);
    let large = d.large(54 + 3000, 1460);
    assert_eq!(room(&mut d, large), -60 - (3054 + 2 * 54));
    let mut tagged = d.packet(100);
    tagged.todo.vlan = Some(5);
    assert_eq!(room(&mut d, tagged), -60 - 3162 - 100);
    d.complete_all();
    assert_eq!(d.byte_room(), 60 + 3162 + 100);
}

#[test]
fn the_byte_limit_ends_no_batch_of_the_drivers() {
    // netdevice.h __netdev_tx_sent_queue: with more to come only the driver's own stop rings.
    for mut d in [DriverHarness::default_channel(), DriverHarness::without_mpwqe()] {
        d.batch(32);
        assert!(d.byte_room() < 0);
        assert_eq!(d.doorbells().len(), 1);
        d.close();
    }
}

#[test]
fn only_what_was_retired_is_given_back() {
    let mut d = DriverHarness::without_mpwqe();
    d.batch(2);
    d.batch(3);
    let wqes = d.announced();
    d.complete(wqes[1].pc, 0);
    d.poll();
    // Not dry: the limit stays, and two of five packets are gone.
    assert_eq!(d.byte_room(), -180);
    d.complete(wqes[4].pc, 0);
    d.poll();
    assert!(d.byte_room() > 0);
    d.close();
}

#[test]
fn a_queue_that_recovered_owes_no_bytes() {
    let mut d = DriverHarness::default_channel();
    d.batch(3);
    let open = d.packet(60);
    d.send(open, true);
    let wqes = d.announced();
    d.set_state(SqState::Error);
    d.complete(wqes[0].pc, 4);
    assert_eq!(d.poll(), Poll::Work);
    d.work();
    assert_eq!((d.stats().recover, d.byte_room()), (1, 0));
    d.close();
}

#[test]
fn without_a_limit_there_is_always_room() {
    let mut d = DriverHarness::new(Config { bql: false, ..Config::DEFAULT }, CAPS);
    d.batch(100);
    d.complete_all();
    d.batch(100);
    assert!(d.byte_room() > 1 << 30);
}
