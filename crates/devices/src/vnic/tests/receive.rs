//! Receiving.

use super::super::{Config, Server};
use super::*;
use doorbell_hal::DropReason;

fn up() -> Bench {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.rx[0];
    assert_eq!(b.post(handle, 0, 16), status::SUCCESS);
    b
}

fn arrived(b: &mut Bench, frame: &[u8]) -> RxComp {
    assert_eq!(b.receive(frame), RxVerdict::Yes);
    b.settle();
    RxComp::of(b.entry(1).unwrap())
}

#[test]
fn a_frame_lies_in_the_next_buffer_with_its_correlator() {
    let server = Server { rx_offset: 64, ..Server::POWERVM };
    let mut b = Bench::up(Config { servers: [server; 2], ..Config::POWERVM }, 1);
    let handle = b.rx[0];
    b.post(handle, 4, 2);
    b.p[0].messages.clear();
    for slot in 4..6u64 {
        let c = arrived(&mut b, &tcp(500));
        assert_eq!(
            (c.correlator.get(), c.len.get(), c.off_frame_data.get(), c.rc.get()),
            (slot, 554, 64, 0)
        );
        assert_eq!(b.p[0].memory[(LTB + slot * 2048 + 64) as usize..][..554], tcp(500));
    }
    assert_eq!(b.p[0].messages.len(), 2);
    assert_eq!(b.receive(&tcp(500)), RxVerdict::Dropped(DropReason::NoBuffer));
    assert_eq!(
        (b.d.counters.rx_add_calls, b.d.counters.indirect_calls),
        (1, 1),
        "one call for them all"
    );
}

#[test]
fn freeing_a_queue_waits_for_what_was_written() {
    for (call, arguments) in [(hcall::FREE_SUB_CRQ, &[1][..]), (hcall::FREE_CRQ, &[])] {
        let mut b = up();
        b.p[0].price = Span::from_us(10);
        arrived(&mut b, &tcp(500));
        let written = b.now;
        assert_eq!(b.call(call, arguments).status, status::SUCCESS);
        // The frame, the entry, and its first byte.
        assert_eq!(b.now, written + Span::from_us(30));

        // The frame, whose entry's memory is gone.
        b = up();
        b.p[0].price = Span::from_us(10);
        b.p[0].holes.push(RINGS + 4096);
        assert_eq!(b.receive(&tcp(500)), RxVerdict::Yes);
        b.settle();
        let written = b.now;
        assert_eq!(b.call(call, arguments).status, status::SUCCESS);
        assert_eq!(b.now, written + Span::from_us(10));
    }
}

#[test]
fn checksum_flags_say_what_was_found_right() {
    let mut b = up();
    let both = rx::IP_CHKSUM_GOOD | rx::TCP_UDP_CHKSUM_GOOD;
    assert_eq!(arrived(&mut b, &tcp(100)).flags, rx::END_FRAME | both);
    let mut bad = tcp(100);
    bad[60] ^= 1;
    assert_eq!(arrived(&mut b, &bad).flags, rx::END_FRAME | rx::IP_CHKSUM_GOOD);
    assert_eq!(b.control_offload([0; 8]), rc::SUCCESS);
    assert_eq!(arrived(&mut b, &tcp(100)).flags, rx::END_FRAME);
}

#[test]
fn a_tag_is_taken_out_and_told() {
    let mut b = up();
    let plain = tcp(100);
    let mut tagged = vec![0; plain.len() + 4];
    doorbell_packet::vlan::insert_into(&mut tagged, &plain, 0x2007);
    let c = arrived(&mut b, &tagged);
    assert_ne!(c.flags & rx::VLAN_STRIPPED, 0);
    assert_eq!((c.vlan_tci.get(), c.len.get() as usize), (0x2007, plain.len()));
    assert_eq!(b.p[0].memory[LTB as usize..][..plain.len()], plain);
}

#[test]
fn a_buffer_outside_its_long_term_buffer_comes_back_with_a_code() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.rx[0];
    let base = LTB as u32;
    // The second is an offset, where an address belongs.
    let bad = [(1, base + LTB_LEN - 2047), (1, 0), (1, base - 1), (1, u32::MAX), (9, base)];
    for (map, ioba) in bad {
        b.indirect(handle, &[RxAdd::new(7, map, ioba, 2048).bytes()]);
        let c = arrived(&mut b, &tcp(100));
        assert_eq!((c.correlator.get(), c.rc.get()), (7, rc::INVALID_IOBA.into()));
    }
    assert_eq!(b.d.counters.rx_faults, 5);
    let end = (LTB + u64::from(LTB_LEN)) as usize;
    assert!(b.p[0].memory[end - 4096..].iter().all(|x| *x == 0));
}

#[test]
fn a_queue_takes_as_many_buffers_as_were_granted() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.rx[0];
    for i in 0..4 {
        assert_eq!(b.post(handle, i * 16, 16), status::SUCCESS);
    }
    assert_eq!(b.post(handle, 64, 1), status::RESOURCE);
}

#[test]
fn the_filter_lets_through_what_was_asked_for() {
    let mut b = up();
    let to = |a: [u8; 6]| [&a[..], &tcp(100)[6..]].concat();
    let group = [1, 0, 0x5e, 0, 0, 1];
    assert_eq!(b.receive(&to([2, 0, 0, 0, 0, 9])), RxVerdict::Dropped(DropReason::Filter));
    assert_eq!(b.receive(&to(group)), RxVerdict::Dropped(DropReason::Filter));
    let m = |flags| MulticastCtrl {
        first: 0x80,
        cmd: cmd::MULTICAST_CTRL,
        mac_addr: group,
        flags,
        ..MulticastCtrl::default()
    };
    assert_eq!(code(b.ask(m(multicast::ENABLE).bytes())), rc::SUCCESS);
    assert_ne!(arrived(&mut b, &to(group)).flags & rx::EXACT_MC, 0);
    assert_eq!(code(b.ask(m(multicast::DISABLE).bytes())), rc::SUCCESS);
    assert_eq!(b.receive(&to(group)), RxVerdict::Dropped(DropReason::Filter));
    assert_eq!(code(b.ask(m(multicast::ENABLE_ALL).bytes())), rc::SUCCESS);
    assert_eq!(arrived(&mut b, &to(group)).flags & rx::EXACT_MC, 0);
    assert_eq!(code(b.ask(m(0).bytes())), rc::PARAMETER);
    arrived(&mut b, &to([0xff; 6]));
    b.d.set_link(0, b.now, false);
    b.settle();
    assert_eq!(b.receive(&to([0xff; 6])), RxVerdict::Dropped(DropReason::Off));
}

#[test]
fn one_flow_stays_on_one_queue() {
    let mut b = Bench::up(Config::POWERVM, 4);
    for i in 0..4 {
        let handle = b.rx[i];
        b.post(handle, i as u32 * 16, 16);
    }
    let mut used = vec![];
    for port in 0..16u8 {
        let mut f = tcp(100);
        f[35] = port;
        for _ in 0..2 {
            assert_eq!(b.receive(&f), RxVerdict::Yes);
            b.settle();
            let here: Vec<usize> = (4..8).filter(|n| b.entry(*n).is_some()).collect();
            used.push(here);
        }
    }
    assert!(used.chunks(2).all(|u| u[0].len() == 1 && u[0] == u[1]));
    used.sort();
    used.dedup();
    assert!(used.len() > 1);
}

#[test]
fn buffers_come_back_when_the_client_takes_its_link_down() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let handle = b.rx[0];
    b.post(handle, 0, 3);
    b.ask(b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::DOWN));
    // The indication of it.
    b.message();
    for i in 0..3 {
        let c = RxComp::of(b.entry(1).unwrap());
        assert_eq!((c.correlator.get(), c.rc.get()), (i, rc::ABORTED.into()));
    }
    assert!(b.entry(1).is_none());
    assert_eq!(b.d.counters.rx_buffers_returned, 3);
    b.ask(b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::UP));
    b.post(handle, 3, 1);
    assert_eq!(arrived(&mut b, &tcp(100)).correlator.get(), 3, "the old ones are forgotten");
}
