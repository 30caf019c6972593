//! Who gets a frame: addresses, VLANs, trunks, the uplink.

use super::super::{Adapter, Config, Uplink};
use super::*;
use crate::Addresses;
use doorbell_hal::{DropReason, RxVerdict};
use doorbell_layout::ibmveth::attribute::ACTIVE_TRUNK;
use doorbell_layout::ibmveth::status::*;
use doorbell_packet::vlan;

const OUTSIDE: [u8; 6] = [0x52, 0x54, 0xee, 0, 0, 9];

fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let mut out = vec![0; frame.len() + 4];
    vlan::insert_into(&mut out, frame, tci);
    out
}

/// Returns the adapters that have received something.
fn receivers(b: &mut Bench) -> Vec<usize> {
    (0..b.p.len()).filter(|i| b.received(*i).is_some()).collect()
}

fn lan(change: impl Fn(usize, &mut Adapter)) -> Bench {
    let adapters = (0..4usize).map(|i| {
        let mut a = Adapter::new(i, i as u8);
        change(i, &mut a);
        a
    });
    Bench::new(Config::new(adapters.collect())).open()
}

#[test]
fn a_registered_address_gets_its_frames_and_broadcast_goes_to_all_others() {
    let mut b = Bench::plain(4).open();
    assert_eq!(b.send(0, &plain(b.mac(2), b.mac(0), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [2]);
    assert_eq!(b.send(2, &plain([0xff; 6], b.mac(2), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [0, 1, 3]);
    assert_eq!(b.send(0, &plain(b.mac(0), b.mac(0), 60)), H_DROPPED, "its own");
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_DROPPED, "nobody's, and no trunk");
    assert_eq!((b.d.counters(0).drop_unowned, receivers(&mut b)), (2, vec![]));
}

#[test]
fn a_broadcast_that_one_cannot_take_is_dropped_for_that_one() {
    let mut b = Bench::plain(3).open();
    for _ in 0..4 {
        assert_eq!(b.own(1, H_FREE_LOGICAL_LAN_BUFFER, &[2048]), H_SUCCESS);
        b.received(1);
    }
    assert_eq!(b.send(0, &plain([0xff; 6], b.mac(0), 60)), H_DROPPED, "so the sender knows");
    assert_eq!(receivers(&mut b), [2]);
}

#[test]
fn a_changed_address_is_the_receivers_from_then_on() {
    let mut b = Bench::plain(2).open();
    assert_eq!(b.own(1, H_CHANGE_LOGICAL_LAN_MAC, &[0xffff << 48 | mac(OUTSIDE)]), H_SUCCESS);
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_DROPPED);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_SUCCESS);
}

#[test]
fn the_source_of_a_frame_is_learned_until_the_adapter_closes() {
    let mut b = Bench::plain(3).open();
    b.send(1, &plain([0xff; 6], OUTSIDE, 60));
    receivers(&mut b);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [1]);
    b.send(2, &plain([0xff; 6], OUTSIDE, 60));
    receivers(&mut b);
    b.send(0, &plain(OUTSIDE, b.mac(0), 60));
    assert_eq!(receivers(&mut b), [2], "it moved");
    b.own(2, H_FREE_LOGICAL_LAN, &[]);
    b.register(2);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_DROPPED);
}

#[test]
fn a_registered_address_cannot_be_taken_by_sending_from_it() {
    let mut b = Bench::plain(3).open();
    b.send(2, &plain([0xff; 6], b.mac(1), 60));
    receivers(&mut b);
    b.send(0, &plain(b.mac(1), b.mac(0), 60));
    assert_eq!(receivers(&mut b), [1]);
}

#[test]
fn a_frame_from_the_address_it_is_for_teaches_nothing() {
    let mut b = Bench::plain(3).open();
    assert_eq!(b.send(1, &plain(OUTSIDE, OUTSIDE, 60)), H_DROPPED);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_DROPPED, "nobody's still");
}

#[test]
fn vlans_stay_apart() {
    let mut b = lan(|i, a| a.pvid = [1, 1, 2, 2][i]);
    assert_eq!(b.send(0, &plain([0xff; 6], b.mac(0), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [1]);
    assert_eq!(b.send(0, &plain(b.mac(2), b.mac(0), 60)), H_DROPPED);
    b.send(0, &plain([0xff; 6], OUTSIDE, 60));
    receivers(&mut b);
    assert_eq!(b.send(2, &plain(OUTSIDE, b.mac(2), 60)), H_DROPPED, "learned on the other one");
}

#[test]
fn a_tag_is_put_in_and_taken_out_by_the_ports() {
    // 0 on VLAN 5 without tags; 1 has it tagged; 2 has it as its own and others tagged.
    let mut b = lan(|i, a| {
        a.pvid = [5, 1, 5, 7][i];
        a.tagged = [vec![], vec![5, 6], vec![6], vec![]][i].clone();
    });
    let f = plain([0xff; 6], b.mac(0), 60);
    assert_eq!(b.send(0, &f), H_SUCCESS);
    assert_eq!([b.bytes(1), b.bytes(2), b.bytes(3)], [Some(tagged(&f, 5)), Some(f.clone()), None]);
    // Priority stays where there is a tag.
    let f = plain([0xff; 6], b.mac(1), 60);
    assert_eq!(b.send(1, &tagged(&f, 0x6005)), H_SUCCESS);
    assert_eq!([b.bytes(0), b.bytes(2)], [Some(f.clone()), Some(f.clone())]);
    assert_eq!(b.send(1, &tagged(&f, 0x6006)), H_SUCCESS);
    assert_eq!([b.bytes(0), b.bytes(2)], [None, Some(tagged(&f, 0x6006))]);
    // A tag of priority alone is on the port's own.
    let f = plain([0xff; 6], b.mac(0), 60);
    assert_eq!(b.send(0, &tagged(&f, 0xe000)), H_SUCCESS);
    assert_eq!([b.bytes(1), b.bytes(2)], [Some(tagged(&f, 0xe005)), Some(f)]);
}

#[test]
fn a_vlan_that_the_port_does_not_have_is_refused() {
    let mut b = lan(|i, a| a.tagged = [vec![5], vec![]][i % 2].clone());
    let f = plain([0xff; 6], b.mac(0), 60);
    assert_eq!(b.send(0, &tagged(&f, 6)), H_PARAMETER);
    assert_eq!(b.send(1, &tagged(&f, 5)), H_PARAMETER, "it has no tags at all");
    assert_eq!((b.send(0, &tagged(&f, 5)), b.send(0, &tagged(&f, 1))), (H_SUCCESS, H_SUCCESS));
}

#[test]
fn what_has_no_local_owner_goes_to_the_active_trunk() {
    let mut b = lan(|i, a| a.trunk = u8::from(i == 3));
    assert_eq!(b.d.attributes(3) & (ACTIVE_TRUNK | 0xf00), 0x101);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [3]);
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [1], "what has one does not");
    // From outside: to the owner, and if there is none it does not go back.
    assert_eq!(b.send(3, &plain(b.mac(1), OUTSIDE, 60)), H_SUCCESS);
    assert_eq!(b.send(3, &plain([10; 6], OUTSIDE, 60)), H_DROPPED);
    assert_eq!(receivers(&mut b), [1]);
    // The trunk's stations are not learned; those seen there are no longer inside.
    b.send(1, &plain([0xff; 6], [8; 6], 60));
    b.send(3, &plain(b.mac(0), [8; 6], 60));
    receivers(&mut b);
    receivers(&mut b);
    b.send(0, &plain([8; 6], b.mac(0), 60));
    assert_eq!(receivers(&mut b), [3]);
    assert_eq!(b.own(3, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(b.send(0, &plain(OUTSIDE, b.mac(0), 60)), H_DROPPED, "a closed one takes nothing");
}

#[test]
fn one_trunk_of_a_vlan_is_active_the_last_that_asked() {
    let mut b = lan(|i, a| {
        a.trunk = [0, 2, 1, 3][i];
        a.pvid = [1, 1, 1, 9][i];
    });
    let active =
        |b: &Bench| (0..4).filter(|i| b.d.attributes(*i) & ACTIVE_TRUNK != 0).collect::<Vec<_>>();
    assert_eq!(active(&b), [2, 3], "the first by priority, of each VLAN");
    b.send(0, &plain(OUTSIDE, b.mac(0), 60));
    assert_eq!(receivers(&mut b), [2]);
    assert_eq!(b.own(1, H_ILLAN_ATTRIBUTES, &[0, ACTIVE_TRUNK]), H_SUCCESS);
    assert_eq!(active(&b), [1, 3]);
    b.send(0, &plain(OUTSIDE, b.mac(0), 60));
    assert_eq!(receivers(&mut b), [1]);
    assert_eq!(b.own(1, H_ILLAN_ATTRIBUTES, &[ACTIVE_TRUNK, 0]), H_PARAMETER);
}

#[test]
fn the_uplink_gets_what_has_no_owner_and_gives_what_arrives() {
    let adapters = vec![Adapter::new(0, 0), Adapter { pvid: 5, ..Adapter::new(1, 1) }];
    let uplink = Some(Uplink { port: 1, pvid: 1 });
    let mut b = Bench::new(Config { uplink, ..Config::new(adapters) }).open();
    let f = plain(OUTSIDE, b.mac(0), 60);
    assert_eq!(b.send(0, &f), H_SUCCESS);
    let g = plain([0xff; 6], b.mac(1), 60);
    assert_eq!(b.send(1, &g), H_SUCCESS);
    assert_eq!(b.p[1].frames, [f, tagged(&g, 5)]);
    for (i, vid) in [(0, 1), (1, 5)] {
        let f = plain(b.mac(i), OUTSIDE, 100);
        let at = b.now + Span::from_us(1);
        assert_eq!(b.d.receive(&mut b.p, at, &tagged(&f, vid)), RxVerdict::Yes);
        assert_eq!((b.received(i), b.d.next_due()), (None, Some(at)), "at its time");
        b.settle();
        assert_eq!(b.bytes(i), Some(f));
    }
    let stranger = plain([10; 6], OUTSIDE, 60);
    b.d.receive(&mut b.p, b.now, &stranger);
    b.settle();
    assert_eq!(b.d.parts.uplink.drop_unowned, 1);
    assert_eq!(
        b.d.receive(&mut b.p, b.now, &stranger[..13]),
        RxVerdict::Dropped(DropReason::Malformed)
    );
    assert_eq!(
        Bench::plain(1).d.receive(&mut b.p, b.now, &stranger),
        RxVerdict::Dropped(DropReason::Off)
    );
}

#[test]
fn two_adapters_of_one_partition_are_two() {
    let mut b = Bench::new(Config::new(vec![Adapter::new(0, 0), Adapter::new(0, 1)]));
    b.register(0);
    let args = [0x40000, Descriptor::new(0, 128, 0x41000).0, 0x42000, mac(b.mac(1))];
    assert_eq!(b.own(1, H_REGISTER_LOGICAL_LAN, &args), H_SUCCESS);
    assert_eq!(
        b.own(1, H_ADD_LOGICAL_LAN_BUFFER, &[Descriptor::new(0, 2048, 0x43000).0]),
        H_SUCCESS
    );
    let f = plain(b.mac(1), b.mac(0), 60);
    assert_eq!(b.send(0, &f), H_SUCCESS);
    assert_eq!(b.p[0].memory[0x43008..][..60], f);
}

#[test]
fn a_reset_closes_everything_and_keeps_the_counts() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    b.d.reset(&mut b.p, b.now);
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!((b.d.counters(0).tx_packets, b.d.counters(0).drop_closed), (1, 1));
    b.register(0);
}

#[test]
fn a_tag_from_the_uplink_keeps_its_priority() {
    let adapters = vec![Adapter { pvid: 1, tagged: vec![5], ..Adapter::new(0, 0) }];
    let uplink = Some(Uplink { port: 1, pvid: 1 });
    let mut b = Bench::new(Config { uplink, ..Config::new(adapters) });
    b.p.push(Part::new());
    let mut b = b.open();
    let f = tagged(&plain(b.mac(0), [2, 0, 0, 9, 9, 9], 60), 3 << 13 | 5);
    let now = b.now;
    assert_eq!(b.d.receive(&mut b.p, now, &f), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.bytes(0), Some(f));
}

/// A LAN of guests that do not trust each other.
fn strangers(addresses: Addresses) -> Bench {
    let adapters = (0..3usize).map(|i| Adapter::new(i, i as u8)).collect();
    let mut b = Bench::new(Config { addresses, learns: false, ..Config::new(adapters) }).open();
    // Its address goes with the guest.
    assert_eq!(b.own(2, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    b.d.release_addresses(2);
    b
}

fn register(b: &mut Bench, i: usize, address: [u8; 6]) -> i64 {
    let queue = Descriptor::new(0, ENTRIES * ENTRY, QUEUE).0;
    b.own(i, H_REGISTER_LOGICAL_LAN, &[LIST.into(), queue, FILTER.into(), mac(address)])
}

#[test]
fn an_address_that_a_guest_has_taken_is_refused_to_others() {
    for addresses in [Addresses::Exclusive, Addresses::Fixed] {
        let mut b = strangers(addresses);
        let victim = b.mac(1);
        assert_eq!(register(&mut b, 2, victim), H_RESOURCE);
        assert_ne!(b.own(0, H_CHANGE_LOGICAL_LAN_MAC, &[mac(victim)]), H_SUCCESS);
        // Not even while it is closed.
        assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
        assert_eq!(register(&mut b, 2, victim), H_RESOURCE);
        b.d.release_addresses(1);
        assert_eq!(register(&mut b, 2, victim), H_SUCCESS);
    }
}

#[test]
fn a_guest_keeps_its_address_until_it_has_gone() {
    let mut b = strangers(Addresses::Fixed);
    assert_eq!(b.own(1, H_CHANGE_LOGICAL_LAN_MAC, &[mac(OUTSIDE)]), H_PARAMETER);
    assert_eq!(b.own(1, H_CHANGE_LOGICAL_LAN_MAC, &[mac(b.mac(1))]), H_SUCCESS);
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(register(&mut b, 1, OUTSIDE), H_PARAMETER);
    b.d.release_addresses(1);
    assert_eq!(register(&mut b, 1, OUTSIDE), H_SUCCESS);
    let mut b = strangers(Addresses::Exclusive);
    assert_eq!(b.own(1, H_CHANGE_LOGICAL_LAN_MAC, &[mac(OUTSIDE)]), H_SUCCESS);
}

#[test]
fn an_address_that_was_given_is_its_adapters_alone() {
    for addresses in [Addresses::Exclusive, Addresses::Fixed] {
        let given = |i: usize| Adapter::new(i, i as u8).mac;
        let adapters = (0..2usize).map(|i| {
            let adapter = Adapter::new(i, i as u8);
            Adapter { given: Some(adapter.mac), ..adapter }
        });
        let mut b = Bench::new(Config { addresses, ..Config::new(adapters.collect()) });
        let may_change = addresses == Addresses::Exclusive;
        for _ in 0..2 {
            // Whose guest has not come yet.
            assert_ne!(register(&mut b, 0, given(1)), H_SUCCESS);
            assert_eq!(register(&mut b, 0, OUTSIDE) == H_SUCCESS, may_change);
            assert_ne!(b.own(0, H_CHANGE_LOGICAL_LAN_MAC, &[mac(given(1))]), H_SUCCESS);
            if may_change {
                // The other is not there for the first, even while its guest has another.
                assert_ne!(register(&mut b, 1, given(0)), H_SUCCESS);
                assert_eq!(b.own(0, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
            }
            assert_eq!(register(&mut b, 0, given(0)), H_SUCCESS);
            assert_eq!(b.own(0, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
            // The next guest has the same.
            b.d.release_addresses(0);
        }
        assert_eq!(register(&mut b, 1, given(1)), H_SUCCESS);
    }
}

#[test]
fn an_address_on_another_vlan_is_another() {
    let adapters = (0..2usize).map(|i| Adapter { pvid: 1 + i as u16, ..Adapter::new(i, i as u8) });
    let cfg = Config { addresses: Addresses::Fixed, ..Config::new(adapters.collect()) };
    let mut b = Bench::new(cfg);
    assert_eq!([0, 1].map(|i| register(&mut b, i, OUTSIDE)), [H_SUCCESS; 2]);
}

#[test]
fn a_stranger_does_not_get_frames_for_an_address_from_which_it_sends() {
    let mut b = strangers(Addresses::Fixed);
    assert_eq!(b.send(0, &plain(b.mac(1), OUTSIDE, 60)), H_SUCCESS);
    assert_eq!(receivers(&mut b), [1]);
    assert_eq!(b.send(1, &plain(OUTSIDE, b.mac(1), 60)), H_DROPPED, "nobody has it");
    assert_eq!(receivers(&mut b), []);
}
