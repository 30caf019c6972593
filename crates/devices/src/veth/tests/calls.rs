//! Registration, buffers, multicast, attributes, interrupts: codes and effects.

use super::super::{Adapter, Config, H_CONSTRAINED};
use super::*;
use doorbell_layout::ibmveth::status::*;
use doorbell_layout::ibmveth::{attribute::*, multicast};

const QUEUE_WORD: u64 = Descriptor::new(0, ENTRIES * ENTRY, QUEUE).0;

fn register(b: &mut Bench, list: u64, queue: u64, filter: u64) -> i64 {
    b.own(0, H_REGISTER_LOGICAL_LAN, &[list, queue, filter, 0])
}

#[test]
fn registration_wants_aligned_mapped_pages_and_a_queue_of_entries() {
    let mut b = Bench::plain(1);
    let (list, filter) = (u64::from(LIST), u64::from(FILTER));
    let q = |len, at| Descriptor::new(0, len, at).0;
    let bad = [
        (list + 8, QUEUE_WORD, filter),
        (list, QUEUE_WORD, filter + 16),
        (MEMORY as u64, QUEUE_WORD, filter),
        (list, QUEUE_WORD, 1 << 32 | filter),
        (u64::MAX - 4095, QUEUE_WORD, filter),
        (list, q(128, QUEUE + 8), filter),
        (list, q(120, QUEUE), filter),
        (list, q(0, QUEUE), filter),
        (list, q(128, MEMORY as u32 - 64), filter),
        (list, q(16, 0xffff_fff0), filter),
        (list, QUEUE_WORD & !Descriptor::VALID, filter),
    ];
    for (l, q, f) in bad {
        assert_eq!(register(&mut b, l, q, f), H_PARAMETER, "{l:#x} {q:#x} {f:#x}");
    }
    b.p[0].writable[FILTER as usize / PAGE] = false;
    assert_eq!(register(&mut b, list, QUEUE_WORD, filter), H_PARAMETER, "read-only");
    assert!(b.p[0].writes.is_empty(), "what is refused is not touched");
    b.p[0].writable[FILTER as usize / PAGE] = true;
    assert_eq!(register(&mut b, list, QUEUE_WORD, filter), H_SUCCESS);
    assert_eq!(register(&mut b, list, QUEUE_WORD, filter), H_RESOURCE, "it is open already");
    assert_eq!(b.d.counters(0).refused, 13);
}

#[test]
fn the_buffer_list_begins_with_queue_and_filter_and_is_otherwise_empty() {
    let mut b = Bench::plain(1);
    b.p[0].memory[LIST as usize..FILTER as usize + PAGE].fill(0xaa);
    b.register(0);
    let list = &b.p[0].memory[LIST as usize..][..PAGE];
    assert_eq!(list[..8], QUEUE_WORD.to_be_bytes());
    assert_eq!(list[8..16], Descriptor::new(0, 4096, FILTER).0.to_be_bytes());
    assert!(list[16..].iter().chain(&b.p[0].memory[FILTER as usize..][..PAGE]).all(|b| *b == 0));
}

#[test]
fn a_unit_address_of_another_partition_is_refused_by_every_call() {
    let mut b = Bench::plain(2).open();
    let (foreign, before) = (b.unit(1), b.p[1].memory.clone());
    let calls = [
        H_VIO_SIGNAL,
        H_REGISTER_LOGICAL_LAN,
        H_FREE_LOGICAL_LAN,
        H_ADD_LOGICAL_LAN_BUFFER,
        H_ADD_LOGICAL_LAN_BUFFERS,
        H_FREE_LOGICAL_LAN_BUFFER,
        H_SEND_LOGICAL_LAN,
        H_MULTICAST_CTRL,
        H_CHANGE_LOGICAL_LAN_MAC,
        H_ILLAN_ATTRIBUTES,
    ];
    for c in calls {
        for unit in [foreign, 0, u64::MAX] {
            let args = [unit, Descriptor::new(0, 64, SEND).0, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(b.call(0, c, &args).status, H_PARAMETER, "{c:#x}");
        }
    }
    assert_eq!(b.d.strangers(), 30);
    assert_eq!(b.p[1].memory, before);
    assert_eq!(b.call(0, 0x7f8, &[b.unit(0)]).status, H_FUNCTION, "no such call");
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_SUCCESS, "and all is as it was");
}

#[test]
fn a_buffer_is_aligned_to_four_and_has_sixteen_bytes_and_is_mapped() {
    let mut b = Bench::plain(1);
    let d = |len, at| Descriptor::new(0, len, at).0;
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFER, &[d(2048, BUFFERS)]), H_RESOURCE, "closed");
    b.register(0);
    for bad in [
        d(2048, BUFFERS + 2),
        d(2046, BUFFERS),
        d(12, BUFFERS),
        d(2048, MEMORY as u32 - 1024),
        d(4096, 0xffff_f800),
        d(2048, BUFFERS) & !Descriptor::VALID,
    ] {
        assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFER, &[bad]), H_PARAMETER, "{bad:#x}");
    }
    b.p[0].writable[BUFFERS as usize / PAGE + 1] = false;
    assert_eq!(
        b.own(0, H_ADD_LOGICAL_LAN_BUFFER, &[d(8192, BUFFERS)]),
        H_PARAMETER,
        "its second page"
    );
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFER, &[d(16, BUFFERS)]), H_SUCCESS);
    assert_eq!(b.d.counters(0).buffers_added, 1);
}

#[test]
fn a_full_list_is_a_resource_that_lacks() {
    let mut b = Bench::new(Config { max_buffers: 509, ..Config::new(vec![Adapter::new(0, 0)]) });
    b.register(0);
    for i in 0..509 {
        assert_eq!(b.post(0, 64, BUFFERS + i * 64), H_SUCCESS);
    }
    assert_eq!(b.post(0, 64, BUFFERS), H_RESOURCE);
}

#[test]
fn eight_buffers_are_added_at_once_all_or_none() {
    let mut b = Bench::new(Config { max_buffers: 10, ..Config::new(vec![Adapter::new(0, 0)]) });
    b.register(0);
    let d = |i: u32| Descriptor::new(0, 512, BUFFERS + i * 512).0;
    let eight: Vec<u64> = (0..8).map(d).collect();
    let added = |b: &Bench| b.d.counters(0).buffers_added;
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &eight), H_SUCCESS);
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &eight), H_RESOURCE, "six too many");
    assert_eq!(added(&b), 8);
    // The first that is not valid ends them, so there is room for two.
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &[d(8), d(9), 0, d(10)]), H_SUCCESS);
    assert_eq!(added(&b), 10);
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &[0, d(1)]), H_PARAMETER);
    let mut one_bad = eight.clone();
    one_bad[5] = Descriptor::new(0, 512, 2).0;
    assert_eq!(b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &one_bad), H_PARAMETER);
    // And of those refused none is left behind.
    let given =
        (0..).take_while(|_| b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[512]) == H_SUCCESS).count();
    assert_eq!(given, 10);
}

#[test]
fn adding_several_is_no_function_without_the_attribute() {
    let a = Adapter { options: Some(Adapter::ALL & !RX_MULTI_BUFF), ..Adapter::new(0, 0) };
    let mut b = Bench::new(Config::new(vec![a]));
    b.register(0);
    assert_eq!(
        b.own(0, H_ADD_LOGICAL_LAN_BUFFERS, &[Descriptor::new(0, 64, BUFFERS).0]),
        H_FUNCTION
    );
}

#[test]
fn a_buffer_given_back_is_an_entry_without_a_frame() {
    let mut b = Bench::plain(1);
    b.register(0);
    b.post(0, 2048, BUFFERS);
    assert_eq!(b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[512]), H_NOT_FOUND);
    assert_eq!(b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[2048]), H_SUCCESS);
    let got = b.received(0).unwrap();
    assert_eq!((got.flags, got.correlator, got.bytes.len()), (0, 1, 0), "not VALID");
    assert_eq!(b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[2048]), H_NOT_FOUND);
}

#[test]
fn freeing_waits_for_entries_under_way() {
    let mut b = Bench::plain(2).open();
    b.p[1].price = Span::from_us(10);
    let began = b.now;
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_SUCCESS);
    let arrived = b.now;
    assert!(arrived > began);
    // The core of the receiver is behind.
    b.now = began;
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(b.now, arrived);
}

#[test]
fn freeing_is_repeated_while_busy_and_nothing_comes_in_meanwhile() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let mut b = Bench::new(Config { release: 3, ..Config::new(adapters) }).open();
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_BUSY);
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_DROPPED);
    assert_eq!(b.received(1), None);
    assert_eq!(register(&mut b, 0, 0, 0), H_RESOURCE, "of the open one");
    assert_eq!(b.post(1, 2048, BUFFERS), H_RESOURCE);
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_RESOURCE, "closed");
    b.register(1);
    b.post(1, 2048, BUFFERS);
    assert_eq!(b.send(0, &plain(b.mac(1), b.mac(0), 60)), H_SUCCESS);
    assert!(b.received(1).is_some());
}

#[test]
fn multicast_is_off_then_all_then_what_the_table_has() {
    let group = [0x01, 0, 0x5e, 0, 0, 7];
    let mut b = Bench::plain(2).open();
    let send = |b: &mut Bench| {
        let f = plain(group, b.mac(0), 60);
        assert_eq!(b.send(0, &f), H_SUCCESS, "not asked for is not dropped");
        b.received(1).is_some()
    };
    let control = |b: &mut Bench, c, m| {
        let r = b.full(1, H_MULTICAST_CTRL, &[c, m]);
        (r.status, r.ret[0])
    };
    use multicast::*;
    assert!(!send(&mut b));
    assert_eq!(b.d.counters(1).rx_filtered, 1);
    assert_eq!(control(&mut b, RECEIVE_MODIFY | RECEIVE_ENABLE, 0), (H_SUCCESS, RECEIVE_ENABLE));
    assert!(send(&mut b));
    let both = RECEIVE_ENABLE | FILTER_ENABLE;
    assert_eq!(control(&mut b, FILTER_MODIFY | FILTER_ENABLE, 0), (H_SUCCESS, both));
    assert!(!send(&mut b));
    assert_eq!(control(&mut b, ADD, mac(group)), (H_SUCCESS, both | 1));
    assert_eq!(control(&mut b, ADD, mac(group)), (H_SUCCESS, both | 1), "twice is once");
    assert!(send(&mut b));
    assert_eq!(b.p[1].memory[FILTER as usize..][..8], mac(group).to_be_bytes());
    assert_eq!(control(&mut b, REMOVE, mac(group)), (H_SUCCESS, both));
    assert_eq!(control(&mut b, REMOVE, mac(group)), (H_NOT_FOUND, both));
    assert!(!send(&mut b));
    assert_eq!(control(&mut b, 4, 0).0, H_PARAMETER);
    assert_eq!(control(&mut b, ADD, 1 << 48).0, H_PARAMETER);
}

#[test]
fn the_filter_table_is_limited_and_cleared() {
    let a = Adapter { filters: 2, ..Adapter::new(0, 0) };
    let mut b = Bench::new(Config::new(vec![a])).open();
    let mut control = |c, m| b.full(0, H_MULTICAST_CTRL, &[c, m]);
    for m in 1..3 {
        assert_eq!(control(multicast::ADD, m).status, H_SUCCESS);
    }
    assert_eq!(control(multicast::ADD, 3).status, H_CONSTRAINED);
    assert_eq!(control(multicast::CLEAR, 0).ret[0], 0);
    assert_eq!(control(multicast::ADD, 3).ret[0], 1);
}

#[test]
fn attributes_are_negotiated_while_closed() {
    let mut b = Bench::plain(1);
    let fixed = RX_MULTI_BUFF | LRG_SND_SUPPORT | PADDED_PKT_CSUM;
    let mut ask = |reset, set| {
        let r = b.full(0, H_ILLAN_ATTRIBUTES, &[reset, set]);
        (r.status, r.ret[0])
    };
    assert_eq!(ask(0, 0), (H_SUCCESS, fixed));
    assert_eq!(ask(0, IPV4_TCP_CSUM), (H_SUCCESS, fixed | IPV4_TCP_CSUM));
    assert_eq!(ask(IPV4_TCP_CSUM, LRG_SR_ENABLED), (H_SUCCESS, fixed | LRG_SR_ENABLED));
    b.register(0);
    let r = b.full(0, H_ILLAN_ATTRIBUTES, &[LRG_SR_ENABLED, 0]);
    assert_eq!(
        (r.status, r.ret[0]),
        (H_CONSTRAINED, fixed | LRG_SR_ENABLED),
        "not while it is open"
    );
    assert_eq!(b.own(0, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(b.d.attributes(0), fixed | LRG_SR_ENABLED, "closing keeps them");
}

#[test]
fn firmware_without_options_has_no_such_call() {
    let mut b = Bench::new(Config::new(vec![Adapter { options: None, ..Adapter::new(0, 0) }]));
    assert_eq!(b.own(0, H_ILLAN_ATTRIBUTES, &[0, 0]), H_FUNCTION);
}

/// The toggle is the hypervisor's: a driver that gives one with its queue, or writes one into the
/// buffer list, turns nothing and reaches nothing.
#[test]
fn a_toggle_from_the_driver_turns_nothing() {
    let mut b = Bench::plain(2).open();
    while b.own(1, H_FREE_LOGICAL_LAN, &[]) == H_BUSY {}
    let m = mac(b.mac(1));
    let queue = Descriptor::new(Descriptor::TOGGLE, ENTRIES * ENTRY, QUEUE).0;
    b.p[1].memory[QUEUE as usize..(QUEUE + ENTRIES * ENTRY) as usize].fill(0);
    assert_eq!(
        b.own(1, H_REGISTER_LOGICAL_LAN, &[LIST.into(), queue, FILTER.into(), m]),
        H_SUCCESS
    );
    for i in 0..ENTRIES {
        assert_eq!(b.post(1, 2048, BUFFERS + 2048 * i), H_SUCCESS);
    }
    b.p[1].memory[LIST as usize] |= 0x40;
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    let first = b.p[1].memory[QUEUE as usize];
    assert_eq!(first & 0x80, 0x80, "the first lap's toggle is 1");
    // A buffer with the queue's bit is a buffer.
    let d = Descriptor::new(Descriptor::TOGGLE, 2048, BUFFERS + 2048 * ENTRIES).0;
    assert_eq!(b.own(1, H_ADD_LOGICAL_LAN_BUFFER, &[d]), H_SUCCESS);
}

#[test]
fn an_interrupt_comes_for_each_frame_while_enabled() {
    let mut b = Bench::plain(2).open();
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    assert!(b.p[1].messages.is_empty(), "registration disables it");
    assert_eq!(b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]), H_SUCCESS);
    assert!(
        b.p[1].messages.is_empty(),
        "an enqueue is a pulse: what is there already does not interrupt"
    );
    b.send(0, &f);
    b.send(0, &f);
    assert_eq!(b.p[1].messages, [(Time::ZERO, 1); 2]);
    assert_eq!(b.own(1, H_VIO_SIGNAL, &[SIGNAL_OFF]), H_SUCCESS);
    b.send(0, &f);
    assert_eq!((b.p[1].messages.len(), b.p[0].messages.len()), (2, 0));
    assert_eq!(b.own(1, H_VIO_SIGNAL, &[2]), H_PARAMETER);
}

#[test]
fn an_interrupt_takes_its_time_and_is_called_off() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let mut b = Bench::new(Config { interrupt: Span::from_us(3), ..Config::new(adapters) }).open();
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    b.send(0, &f);
    assert_eq!(b.d.next_due(), Some(Time::ZERO + Span::from_us(3)));
    b.settle();
    assert_eq!(
        b.p[1].messages,
        [(Time::ZERO + Span::from_us(3), 1)],
        "one is outstanding at a time"
    );
    b.send(0, &f);
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_OFF]);
    b.settle();
    assert_eq!(b.p[1].messages.len(), 1);
}

/// A copy takes time on the sender's CPU, and the receiver's goes on meanwhile.
#[test]
fn an_entry_that_is_not_there_yet_interrupts_when_it_is() {
    for interrupt in [Span::ZERO, Span::from_us(1)] {
        let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
        let mut b = Bench::new(Config { interrupt, ..Config::new(adapters) }).open();
        b.p[1].price = Span::from_us(10);
        let f = plain(b.mac(1), b.mac(0), 60);
        b.send(0, &f);
        let there = b.d.next_due().unwrap();
        assert!(there > Time::ZERO, "it is on its way, and interrupts are off");
        // The receiver looks, finds nothing, and enables them: too early for a look, in time for
        // the entry.
        b.now = Time::ZERO + Span::from_us(5);
        b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
        b.settle();
        assert_eq!(b.p[1].messages, [(there + interrupt, 1)]);
    }
}

#[test]
fn an_interrupt_of_an_entry_to_come_is_not_called_off() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let mut b = Bench::new(Config { interrupt: Span::from_us(1), ..Config::new(adapters) }).open();
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
    b.p[1].price = Span::from_us(10);
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    let due = b.d.next_due().unwrap();
    // The receiver is busy with something else, off and on again, before the entry is there.
    b.now = Time::ZERO + Span::from_us(5);
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_OFF]);
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
    b.settle();
    assert_eq!(b.p[1].messages, [(due, 1)]);
}

/// Two entries, one interrupt on its way: the driver is polling already when the first is there,
/// and done before the second.
#[test]
fn an_interrupt_that_is_called_off_was_for_one_entry_only() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let mut b = Bench::new(Config { interrupt: Span::from_us(50), ..Config::new(adapters) }).open();
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
    b.p[1].price = Span::from_us(10);
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    let first = Time::from_ps(b.d.next_due().unwrap().ps() - 50_000_000);
    b.send(0, &f);
    let second = b.now;
    assert!(second < first + Span::from_us(50), "within the first one's interrupt");
    for mode in [SIGNAL_OFF, SIGNAL_ON] {
        b.now = first + Span::from_us(1);
        b.own(1, H_VIO_SIGNAL, &[mode]);
    }
    b.settle();
    assert_eq!(b.p[1].messages, [(second + Span::from_us(50), 1)]);
}

#[test]
fn an_entry_behind_an_interrupt_on_its_way_has_one_of_its_own() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let mut b = Bench::new(Config { interrupt: Span::from_us(1), ..Config::new(adapters) }).open();
    b.own(1, H_VIO_SIGNAL, &[SIGNAL_ON]);
    b.p[1].price = Span::from_us(10);
    let f = plain(b.mac(1), b.mac(0), 60);
    b.send(0, &f);
    let first = b.d.next_due().unwrap();
    // Sent before the first one's interrupt, it is there after it.
    b.now = Time::from_ps(first.ps() - 5_000_000);
    b.send(0, &f);
    b.settle();
    assert_eq!(b.p[1].messages.len(), 2);
}
