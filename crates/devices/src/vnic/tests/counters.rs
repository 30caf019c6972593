//! The counters of the server: which ones an event raises, and by how much.

use super::super::Config;
use super::*;

/// Returns the counters that `act` and what follows raise, each with its difference.
fn raised(b: &mut Bench, act: impl FnOnce(&mut Bench)) -> Vec<(&'static str, u64)> {
    let before: Vec<_> = b.d.counters.entries().collect();
    act(b);
    b.settle();
    let pairs = before.into_iter().zip(b.d.counters.entries());
    pairs.filter(|(was, is)| was != is).map(|((name, was), (_, is))| (name, is - was)).collect()
}

#[test]
fn a_session_begins_with_twelve_commands() {
    let mut b = Bench::new(Config::POWERVM);
    // Version, seven capabilities, offloads, login, map, link.
    let seen = raised(&mut b, |b| b.bring_up(1));
    assert_eq!(seen, [("commands", 12), ("maps", 1), ("sessions", 1)]);
}

#[test]
fn responses_are_counted_and_not_answered() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let mut complete = [0; 16];
    (complete[0], complete[1]) = (first::HANDSHAKE, first::INIT_COMPLETE);
    for m in [b.plain(cmd::ERROR_INDICATION | RESPONSE, |_| ()), complete] {
        assert_eq!(raised(&mut b, |b| assert_eq!(b.send(m), status::SUCCESS)), [("responses", 1)]);
        assert_eq!(b.message(), None);
    }
    let refused = b.plain(0x7f, |_| ());
    let seen = raised(&mut b, |b| assert_eq!(b.send(refused), status::SUCCESS));
    assert_eq!(seen, [("commands", 1), ("commands_refused", 1)]);
}

#[test]
fn direct_and_indirect_sends_are_counted_apart() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let tx = b.tx[0];
    let one = b.desc(0, &tcp(46), 0).bytes();
    let seen = raised(&mut b, |b| assert_eq!(b.direct(tx, one), status::SUCCESS));
    assert_eq!(
        seen,
        [
            ("direct_calls", 1),
            ("descriptors", 1),
            ("tx_taken", 1),
            ("tx_sent", 1),
            ("tx_frames", 1),
            ("tx_bytes", 100),
            ("completions", 1),
            ("completion_messages", 1),
        ]
    );
    let two = [b.desc(1, &tcp(46), 0).bytes(), b.desc(2, &tcp(146), 0).bytes()];
    let seen = raised(&mut b, |b| assert_eq!(b.indirect(tx, &two), status::SUCCESS));
    let bytes = [("descriptors", 2), ("tx_taken", 2), ("tx_sent", 2), ("tx_bytes", 300)];
    assert!(seen.contains(&("indirect_calls", 1)), "{seen:?}");
    assert!(bytes.iter().all(|count| seen.contains(count)), "{seen:?}");
}

#[test]
fn a_refused_send_counts_its_reason() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let (tx, rx) = (b.tx[0], b.rx[0]);
    let d = b.desc(0, &tcp(46), 0).bytes();
    let (refused, parameter) = (status::PARAMETER, [("refused_parameter", 1)]);
    assert_eq!(raised(&mut b, |b| assert_eq!(b.direct(0x77, d), refused)), parameter);
    assert_eq!(raised(&mut b, |b| assert_eq!(b.indirect(tx, &[]), refused)), parameter);
    let many = [d; MAX_INDIRECT as usize + 1];
    assert_eq!(raised(&mut b, |b| assert_eq!(b.indirect(tx, &many), refused)), parameter);
    let nowhere = [tx, MEMORY, 1];
    let seen = raised(&mut b, |b| {
        assert_eq!(b.call(hcall::SEND_SUB_CRQ_INDIRECT, &nowhere).status, refused);
    });
    assert_eq!(seen, [("refused_parameter", 1), ("dma_faults", 1)]);
    // 64 buffers were granted.
    let seen = raised(&mut b, |b| {
        (0..4).for_each(|i| assert_eq!(b.post(rx, 16 * i, 16), status::SUCCESS));
    });
    let taken =
        [("indirect_calls", 4), ("rx_add_calls", 4), ("descriptors", 64), ("rx_buffers", 64)];
    assert_eq!(seen, taken);
    let seen = raised(&mut b, |b| assert_eq!(b.post(rx, 64, 1), status::RESOURCE));
    assert_eq!(seen, [("refused_resource", 1)]);
    b.d.fail_over(0, b.now);
    b.at(b.now);
    let seen = raised(&mut b, |b| assert_eq!(b.direct(tx, d), status::CLOSED));
    assert_eq!(seen, [("refused_closed", 1)]);
}

#[test]
fn each_received_frame_counts_its_fate() {
    let mut b = Bench::up(Config::POWERVM, 1);
    let rx = b.rx[0];
    let receive = |b: &mut Bench, f: &[u8]| {
        raised(b, |b| {
            b.receive(f);
        })
    };
    let fate = |name| [("rx_offered", 1), (name, 1)];
    assert_eq!(receive(&mut b, &tcp(46)), fate("rx_no_buffer"));
    b.post(rx, 0, 2);
    let mut longest = tcp(2048 - 54);
    assert_eq!(
        receive(&mut b, &longest),
        [("rx_offered", 1), ("rx_packets", 1), ("rx_bytes", 2048)]
    );
    longest.push(0);
    assert_eq!(receive(&mut b, &longest), fate("rx_no_buffer"));
    assert_eq!(receive(&mut b, &tcp(9014 - 54 + 1)), fate("rx_malformed"));
    let mut other = tcp(46);
    other[5] ^= 1;
    assert_eq!(receive(&mut b, &other), [("rx_filtered", 1)]);
    let header = &tcp(46)[..14];
    assert_eq!(receive(&mut b, header), [("rx_offered", 1), ("rx_packets", 1), ("rx_bytes", 14)]);
    assert_eq!(receive(&mut b, &header[..13]), []);
    b.post(rx, 2, 3);
    let down = b.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::DOWN);
    let seen = raised(&mut b, |b| assert_eq!(b.send(down), status::SUCCESS));
    assert_eq!(seen, [("rx_buffers_returned", 3), ("commands", 1)]);
    assert_eq!(receive(&mut b, &tcp(46)), fate("rx_off"));
}

#[test]
fn a_failover_counts_what_its_session_loses() {
    let mut b = Bench::up(Config { command: Span::from_us(1), ..Config::POWERVM }, 1);
    let (tx, rx) = (b.tx[0], b.rx[0]);
    b.post(rx, 0, 5);
    for i in 0..3 {
        let d = b.desc(i, &tcp(46), 0).bytes();
        assert_eq!(b.direct(tx, d), status::SUCCESS);
    }
    let query = b.plain(cmd::QUERY_MAP, |_| ());
    assert_eq!(b.send(query), status::SUCCESS);
    let seen = raised(&mut b, |b| b.d.fail_over(0, b.now));
    // The first frame is on the wire already.
    for count in [
        ("tx_lost", 2),
        ("completions_lost", 3),
        ("rx_buffers_lost", 5),
        ("commands_lost", 1),
        ("unmaps", 1),
        ("sessions_ended", 1),
        ("failovers", 1),
    ] {
        assert!(seen.contains(&count), "{count:?} of {seen:?}");
    }
    b.audit();
    let seen = raised(&mut b, |b| b.d.migrate(0, b.now));
    assert_eq!(seen, [("migrations", 1)]);
}
