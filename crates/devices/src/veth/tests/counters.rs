//! The counters of the adapters: which ones an event raises, and by how much.

use super::*;
use doorbell_layout::ibmveth::multicast::*;

/// Returns the counters of adapter `i` that `act` raises, each with its difference.
fn raised(b: &mut Bench, i: usize, act: impl FnOnce(&mut Bench)) -> Vec<(&'static str, u64)> {
    let before = *b.d.counters(i);
    act(b);
    let pairs = before.entries().zip(b.d.counters(i).entries());
    pairs.filter(|(was, is)| was != is).map(|((name, was), (_, is))| (name, is - was)).collect()
}

#[test]
fn a_frame_counts_on_both_sides() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 600);
    b.put(0, &f);
    let pieces = [Descriptor::new(0, 100, SEND).0, Descriptor::new(0, 500, SEND + 100).0];
    let send = |b: &mut Bench| assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &pieces), status::H_SUCCESS);
    let sent = [("tx_packets", 1), ("tx_bytes", 600), ("tx_descriptors", 2)];
    assert_eq!(raised(&mut b, 0, send), sent);
    assert_eq!(raised(&mut b, 1, send), [("rx_packets", 1), ("rx_bytes", 600)]);
    assert_eq!(b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]), status::H_SUCCESS);
    let received = raised(&mut b, 1, |b| {
        send(b);
        b.settle();
    });
    assert_eq!(received, [("rx_packets", 1), ("rx_bytes", 600), ("interrupts", 1)]);
}

#[test]
fn a_frame_without_buffer_or_owner_counts_as_dropped() {
    let mut b = Bench::plain(2).open();
    let mut f = plain(b.mac(1), b.mac(0), 60);
    (0..4).for_each(|_| assert_eq!(b.send(0, &f), status::H_SUCCESS));
    let lost = |b: &mut Bench| assert_eq!(b.send(0, &f), status::H_DROPPED);
    assert_eq!(raised(&mut b, 1, lost), [("rx_no_buffer", 1)]);
    let sent = [("tx_packets", 1), ("tx_bytes", 60), ("tx_descriptors", 1), ("tx_dropped", 1)];
    assert_eq!(raised(&mut b, 0, lost), sent);
    f[5] ^= 0x40;
    let seen = raised(&mut b, 0, |b| assert_eq!(b.send(0, &f), status::H_DROPPED));
    assert!(seen.contains(&("drop_unowned", 1)) && seen.contains(&("tx_dropped", 1)), "{seen:?}");
    let mut b = Bench::plain(2);
    let seen = raised(&mut b, 0, |b| assert_eq!(b.send(0, &f), status::H_DROPPED));
    assert_eq!(seen, [("tx_dropped", 1), ("drop_closed", 1)]);
}

#[test]
fn a_frame_has_a_header_and_fits_the_longest() {
    let mut b = Bench::plain(2).open();
    let longest = Config::new(vec![]).max_frame as usize;
    for (len, code) in [
        (13, status::H_PARAMETER),
        (14, status::H_SUCCESS),
        (longest, status::H_DROPPED),
        (longest + 1, status::H_RESOURCE),
    ] {
        let f = plain(b.mac(1), b.mac(0), len.max(14));
        let refused = [status::H_PARAMETER, status::H_RESOURCE].contains(&code);
        let seen = raised(&mut b, 0, |b| assert_eq!(b.send(0, &f[..len]), code, "{len}"));
        assert_eq!(seen == [("tx_refused", 1)], refused, "{len}: {seen:?}");
    }
}

#[test]
fn buffers_lent_and_given_back_are_counted() {
    let mut b = Bench::plain(1);
    b.register(0);
    let at = |n: u32| BUFFERS + 2048 * n;
    let lend = |b: &mut Bench| assert_eq!(b.post(0, 2048, at(0)), status::H_SUCCESS);
    assert_eq!(raised(&mut b, 0, lend), [("buffers_added", 1)]);
    let back = |b: &mut Bench| b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[2048]);
    let seen = raised(&mut b, 0, |b| assert_eq!(back(b), status::H_SUCCESS));
    assert_eq!(seen, [("buffers_returned", 1)]);
    assert_eq!(back(&mut b), status::H_NOT_FOUND);
}

#[test]
fn multicast_enables_change_only_with_their_modify_bits() {
    let mut b = Bench::plain(1).open();
    let mut control = |command| {
        let answer = b.full(0, H_MULTICAST_CTRL, &[command, 0]);
        (answer.status, answer.ret[0])
    };
    let ok = status::H_SUCCESS;
    assert_eq!(control(RECEIVE_ENABLE | FILTER_ENABLE), (ok, 0));
    assert_eq!(control(RECEIVE_MODIFY | RECEIVE_ENABLE), (ok, RECEIVE_ENABLE));
    let both = RECEIVE_ENABLE | FILTER_ENABLE;
    assert_eq!(control(FILTER_MODIFY | FILTER_ENABLE), (ok, both));
    assert_eq!(control(0), (ok, both));
    assert_eq!(control(RECEIVE_MODIFY), (ok, FILTER_ENABLE));
    assert_eq!(control(FILTER_MODIFY | RECEIVE_ENABLE), (ok, 0));
}

#[test]
fn the_filter_list_is_written_when_the_table_changes() {
    let mut b = Bench::plain(1).open();
    let group = 0x0100_5e00_0001;
    b.p[0].writes.clear();
    assert_eq!(b.own(0, H_MULTICAST_CTRL, &[ADD, group]), status::H_SUCCESS);
    let page = FILTER as usize;
    assert_eq!(b.p[0].memory[page..page + 8], group.to_be_bytes());
    b.p[0].writes.clear();
    assert_eq!(b.own(0, H_MULTICAST_CTRL, &[RECEIVE_MODIFY, 0]), status::H_SUCCESS);
    assert_eq!(b.own(0, H_MULTICAST_CTRL, &[REMOVE, group + 1]), status::H_NOT_FOUND);
    assert!(b.p[0].writes.is_empty());
    let mut b = Bench::plain(1);
    assert_eq!(b.own(0, H_MULTICAST_CTRL, &[ADD, group]), status::H_SUCCESS);
    assert!(b.p[0].writes.is_empty(), "a closed adapter has no list");
}
