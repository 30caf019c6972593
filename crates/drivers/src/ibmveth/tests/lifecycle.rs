//! Opening, negotiation, changes, closing.

use super::*;
use crate::{Filter, OpenError};

#[test]
fn slots_count_all_five_pools_the_inactive_too() {
    let (mut h, _) = open();
    assert_eq!(firmware(&mut h).queue.len(), (1 + 5 * 8) * 16);
    assert_eq!(Config::new(UNIT, MAC).slots(), 1 + 256 + 512 + 256 + 256 + 256);
    // Linux keeps less mapped where the hypervisor overcommits memory (Cooperative Memory
    // Overcommitment).
    let mut overcommitted = Config::new(UNIT, MAC);
    overcommitted.pools[4].count = 64;
    assert_eq!(overcommitted.slots(), 1 + 256 + 512 + 256 + 256 + 64);
}

#[test]
fn registering_is_tried_again_after_a_free_and_freeing_while_busy() {
    let mut h = host(Some(ALL));
    firmware(&mut h).open = true;
    firmware(&mut h).refuse.push((l::H_FREE_LOGICAL_LAN, status::H_BUSY, 3));
    let nic = Ibmveth::open(&mut h, &config()).unwrap();
    assert_eq!(firmware(&mut h).called(l::H_REGISTER_LOGICAL_LAN).len(), 2);
    assert_eq!(firmware(&mut h).called(l::H_FREE_LOGICAL_LAN).len(), 4);
    nic.close(&mut h);
    assert_eq!(firmware(&mut h).called(l::H_FREE_LOGICAL_LAN).len(), 5);
    let lent = h.bus.ports[0].platform().memory.mapped();
    assert_eq!(lent, (0, 0), "nothing stays lent");
}

#[test]
fn a_refusal_is_an_error_with_its_code_and_leaves_nothing_behind() {
    for (call, name) in [
        (l::H_REGISTER_LOGICAL_LAN, "H_REGISTER_LOGICAL_LAN"),
        (l::H_MULTICAST_CTRL, "H_MULTICAST_CTRL"),
    ] {
        let mut h = host(Some(ALL));
        firmware(&mut h).refuse.push((call, status::H_HARDWARE, 9));
        let e = Ibmveth::open(&mut h, &config()).unwrap_err();
        assert_eq!(e, OpenError::Call(name, status::H_HARDWARE));
        assert_eq!(h.bus.ports[0].platform().memory.mapped(), (0, 0));
        assert!(!firmware(&mut h).open);
    }
}

#[test]
fn the_largest_pool_is_filled_first_eight_at_a_time() {
    let (mut h, nic) = open();
    let many = firmware(&mut h).called(l::H_ADD_LOGICAL_LAN_BUFFERS);
    let sizes: Vec<u32> = many.iter().map(|a| Descriptor(a[1]).len()).collect();
    assert_eq!(sizes, [64 << 10, 2 << 10, 512]);
    assert!(many.iter().all(|a| a[1..].iter().all(|d| Descriptor(*d).is_valid())));
    assert_eq!((nic.stats().replenish_multi_calls, nic.lent()), (3, [8, 8, 0, 0, 8]));
}

#[test]
fn a_single_buffer_goes_by_the_single_call_and_the_correlator_names_its_place() {
    let (mut h, nic) = open_with(Some(ALL), |c| c.pools[1].count = 9);
    let single = firmware(&mut h).called(l::H_ADD_LOGICAL_LAN_BUFFER);
    assert_eq!(single.len(), 1);
    let at = u64::from(Descriptor(single[0][1]).ioba());
    assert_eq!(memory(&mut h, at, 8), [0, 0, 0, 1, 0, 0, 0, 8]);
    assert_eq!(nic.lent()[1], 9);
}

#[test]
fn without_the_attribute_buffers_go_one_at_a_time() {
    let (mut h, _) = open_with(Some(ALL & !attribute::RX_MULTI_BUFF), |_| {});
    assert_eq!(firmware(&mut h).called(l::H_ADD_LOGICAL_LAN_BUFFERS).len(), 0);
    assert_eq!(firmware(&mut h).called(l::H_ADD_LOGICAL_LAN_BUFFER).len(), 24);
}

#[test]
fn h_function_of_the_multiple_call_falls_back_to_single_ones_for_good() {
    let mut h = host(Some(ALL));
    firmware(&mut h).refuse.push((l::H_ADD_LOGICAL_LAN_BUFFERS, status::H_FUNCTION, 99));
    let nic = Ibmveth::open(&mut h, &config()).unwrap();
    assert_eq!(firmware(&mut h).called(l::H_ADD_LOGICAL_LAN_BUFFERS).len(), 1);
    assert_eq!(nic.lent(), [8, 8, 0, 0, 8]);
    assert_eq!(
        (nic.stats().replenish_add_buff_success, nic.stats().replenish_add_buff_failure),
        (24, 0)
    );
}

#[test]
fn a_refused_buffer_is_counted_and_given_back() {
    let mut h = host(Some(ALL));
    firmware(&mut h).refuse.push((l::H_ADD_LOGICAL_LAN_BUFFERS, status::H_RESOURCE, 1));
    let mut nic = Ibmveth::open(&mut h, &config()).unwrap();
    assert_eq!((nic.lent(), nic.stats().replenish_add_buff_failure), ([8, 8, 0, 0, 0], 8));
    poll(&mut h, &mut nic);
    assert_eq!(nic.lent(), [8, 8, 0, 0, 8], "the next walk tries again");
}

#[test]
fn want_of_memory_asks_for_work_and_work_mends_it() {
    let mut h = host(Some(ALL));
    let mut hold = Vec::new();
    let mut nic = Ibmveth::open(&mut h, &config()).unwrap();
    while let Ok(b) = h.buffer(64 << 10, Alignment::ANY) {
        hold.push(b);
    }
    (0..2).for_each(|_| arrive(&mut h, &[1; 9000], 0, None));
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 16, &mut up), Poll::Work);
    assert_eq!((nic.lent()[4], nic.stats().replenish_no_mem), (6, 1));
    hold.into_iter().for_each(|b| h.release(b));
    Driver::work(&mut nic, &mut h);
    assert_eq!(nic.lent()[4], 8);
}

// ---- negotiation ----

#[test]
fn ipv4_and_ipv6_checksums_are_set_by_two_calls() {
    let (mut h, nic) = open();
    let calls: Vec<(u64, u64)> =
        firmware(&mut h).called(l::H_ILLAN_ATTRIBUTES).iter().map(|a| (a[1], a[2])).collect();
    assert_eq!(
        calls,
        [
            (0, 0),
            (0, attribute::IPV4_TCP_CSUM),
            (0, attribute::IPV6_TCP_CSUM),
            (0, attribute::LRG_SR_ENABLED)
        ]
    );
    let n = nic.negotiated();
    assert!(
        n.ipv4_checksum
            && n.ipv6_checksum
            && n.large_send
            && n.tso(true)
            && n.tso(false)
            && !n.old_large_send
    );
}

#[test]
fn a_refused_attribute_is_rolled_back_and_the_other_stays() {
    let mut h = host(Some(ALL));
    firmware(&mut h).frozen = attribute::IPV6_TCP_CSUM;
    let nic = Ibmveth::open(&mut h, &config()).unwrap();
    let calls: Vec<(u64, u64)> =
        firmware(&mut h).called(l::H_ILLAN_ATTRIBUTES).iter().map(|a| (a[1], a[2])).collect();
    assert_eq!(calls[2..4], [(0, attribute::IPV6_TCP_CSUM), (attribute::IPV6_TCP_CSUM, 0)]);
    assert!(nic.negotiated().ipv4_checksum && !nic.negotiated().ipv6_checksum);
    assert!(
        nic.negotiated().tso(true) && !nic.negotiated().tso(false),
        "a large send needs its checksum left out"
    );
}

#[test]
fn checksums_need_padded_packets_to_be_right() {
    let (_, nic) = open_with(Some(ALL & !attribute::PADDED_PKT_CSUM), |_| {});
    assert!(!nic.negotiated().ipv4_checksum && !nic.negotiated().ipv6_checksum);
}

#[test]
fn until_4_12_a_trunk_did_not_ask_for_checksums() {
    for trunk in [attribute::ACTIVE_TRUNK, 1 << attribute::TRUNK_PRI_SHIFT] {
        let (_, nic) = open_with(Some(ALL | trunk), |c| c.trunk_checksum = false);
        assert!(!nic.negotiated().ipv4_checksum && !nic.negotiated().tso(true));
        let (_, nic) = open_with(Some(ALL | trunk), |_| {});
        assert!(nic.negotiated().ipv4_checksum && nic.negotiated().tso(true));
    }
}

#[test]
fn without_firmware_support_large_sends_go_the_old_way_over_ipv4_only() {
    for (attributes, large_send) in
        [(ALL & !attribute::LRG_SND_SUPPORT, LargeSend::Firmware), (ALL, LargeSend::Old)]
    {
        let (_, nic) = open_with(Some(attributes), |c| c.large_send = large_send);
        let n = nic.negotiated();
        assert!(n.old_large_send && !n.large_send && n.tso(true) && !n.tso(false));
    }
}

#[test]
fn without_illan_options_nothing_is_asked() {
    let (mut h, nic) = open_with(Some(ALL), |c| c.illan = false);
    assert!(firmware(&mut h).called(l::H_ILLAN_ATTRIBUTES).is_empty());
    assert_eq!(*nic.negotiated(), Negotiated::default());
}

#[test]
fn a_change_of_offloads_closes_and_reopens() {
    let (mut h, mut nic) = open();
    let n = nic.set_offloads(&mut h, false, LargeSend::Off).unwrap();
    assert!(!n.ipv4_checksum && !n.ipv6_checksum && !n.large_send && !n.old_large_send);
    assert_eq!(firmware(&mut h).attributes, Some(ALL));
    assert_eq!(firmware(&mut h).called(l::H_REGISTER_LOGICAL_LAN).len(), 2);
    assert_eq!((nic.stats().reopened, nic.lent()), (1, [8, 8, 0, 0, 8]));
}

#[test]
fn an_mtu_activates_pools_up_to_the_first_that_holds_it() {
    let (mut h, mut nic) = open();
    nic.set_mtu(&mut h, 9000).unwrap();
    assert_eq!(nic.lent(), [8, 8, 8, 0, 8]);
    nic.set_mtu(&mut h, (32 << 10) - 22).unwrap();
    assert_eq!(nic.lent(), [8; 5]);
    assert_eq!(firmware(&mut h).queue.len(), (1 + 5 * 8) * 16, "as before");
    assert!(matches!(nic.set_mtu(&mut h, (64 << 10) - 21), Err(OpenError::Setting(_))));
    assert_eq!(nic.config().mtu, (32 << 10) - 22);
}

#[test]
fn the_table_is_filled_while_nothing_is_filtered_and_survives_a_reopening() {
    let (mut h, mut nic) = open();
    let groups = [[1, 0, 0x5e, 0, 0, 1], [1, 0, 0x5e, 0, 0, 2]];
    let before = firmware(&mut h).called(l::H_MULTICAST_CTRL).len();
    nic.set_filter(&mut h, &Filter { multicast: groups.to_vec(), ..Filter::default() }).unwrap();
    let expected = [(0xe0003, 0), (1, l::mac(groups[0])), (1, l::mac(groups[1])), (0x50000, 0)];
    let calls = |h: &mut Host, from: usize| -> Vec<(u64, u64)> {
        firmware(h).called(l::H_MULTICAST_CTRL)[from..].iter().map(|a| (a[1], a[2])).collect()
    };
    assert_eq!(calls(&mut h, before), expected);
    nic.set_mtu(&mut h, 1400).unwrap();
    assert_eq!(calls(&mut h, before + 4), expected);
    let many = [[3; 6]; 9];
    nic.set_filter(&mut h, &Filter { multicast: many.to_vec(), ..Filter::default() }).unwrap();
    assert_eq!(calls(&mut h, before + 8), [(0xe0000, 0)], "more than it holds are all");
}

#[test]
fn settings_out_of_range_are_refused_and_nothing_is_called() {
    let c = config();
    let mut bad = vec![Config { mtu: 67, ..c }, Config { mtu: 65_515, ..c }, c, c, c, c];
    bad[2].pools[0].size = 510;
    bad[3].pools[4].count = 0;
    bad[4].pools.swap(0, 4);
    bad[5].pools[1].active = false;
    bad[5].pools[4].active = false;
    for c in bad {
        let mut h = host(Some(ALL));
        assert!(matches!(Ibmveth::open(&mut h, &c), Err(OpenError::Setting(_))), "{c:?}");
        assert!(firmware(&mut h).calls.is_empty());
    }
}

// ---- interrupt and poll ----

#[test]
fn interrupts_are_off_until_the_poll_has_ended_and_the_queue_is_looked_at_again() {
    let (mut h, mut nic) = open();
    let signals =
        |h: &mut Host| firmware(h).called(l::H_VIO_SIGNAL).iter().map(|a| a[1]).collect::<Vec<_>>();
    assert_eq!(signals(&mut h), [0, 1]);
    assert_eq!(nic.interrupt(&mut h, 5), Irq::None);
    assert_eq!(nic.interrupt(&mut h, 0), Irq::Poll);
    assert_eq!(nic.interrupt(&mut h, 0), Irq::Handled);
    assert_eq!(signals(&mut h), [0, 1, 0]);
    arrive(&mut h, &[1; 300], 0, None);
    let mut up = Up::default();
    assert_eq!(nic.poll(&mut h, 1, &mut up), Poll::Again);
    assert_eq!(signals(&mut h), [0, 1, 0], "the budget is used up: they stay off");
    assert_eq!(nic.poll(&mut h, 1, &mut up), Poll::Idle);
    assert_eq!(signals(&mut h), [0, 1, 0, 1]);
    assert_eq!(nic.poll(&mut h, 1, &mut up), Poll::Idle);
    assert_eq!(signals(&mut h), [0, 1, 0, 1], "they are on already");
}

#[test]
fn a_frame_between_the_last_look_and_the_enabling_call_is_found_by_the_second_look() {
    let (mut h, mut nic) = open();
    assert_eq!(nic.interrupt(&mut h, 0), Irq::Poll);
    firmware(&mut h).late = true;
    let up = poll(&mut h, &mut nic);
    assert_eq!((up.received.len(), nic.stats().poll_rechecks), (1, 1));
    let signals: Vec<u64> = firmware(&mut h).called(l::H_VIO_SIGNAL).iter().map(|a| a[1]).collect();
    assert_eq!(signals, [0, 1, 0, 1, 0, 1], "on, off for the second look, and on");
}
