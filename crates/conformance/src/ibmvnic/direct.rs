//! Direct or in an array, and the headers that a server asks for.

use super::harness::{Harness, Model, small};
use super::session::commands;
use crate::frames::{ip, large, partial, tagged};
use doorbell_devices::vnic::{Config, Server};
use doorbell_drivers::Tx;
use doorbell_drivers::ibmvnic::{Config as Driver, Direct};
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::{cmd, hcall, tx};
use doorbell_packet::checksum::Sum;
use doorbell_packet::{OffloadRequest, headers};

const PVM: Config = Config::POWERVM;
const TO: [u8; 6] = [2; 6];

fn with(desc_req: [u8; 8], backing_needs_headers: bool) -> Config {
    let server = Server { desc_req, backing_needs_headers, ..Server::POWERVM };
    Config { servers: [server; 2], ..PVM }
}

/// Sends a plain packet, one with its checksum left, and a large send.
fn send_one_of_each<M: Model>(b: &mut Harness<M>) {
    let whole = ip(TO, true, false, 600);
    let (bytes, todo) = partial(&whole);
    assert_eq!(b.send(&whole, OffloadRequest::NONE), std::slice::from_ref(&whole));
    assert_eq!(b.send(&bytes, todo), std::slice::from_ref(&whole));
    let (bytes, todo) = large(&ip(TO, true, false, 3000), 1400);
    assert_eq!(b.send(&bytes, todo).len(), 3);
}

/// The four states of the driver's history, on a server that asks for headers with checksums and
/// one that asks for none: how many of a plain packet, one with its checksum left, and a large send
/// went directly, with what checksum.
pub fn the_four_states<M: Model>(make: impl Fn(Config) -> M) {
    let asks = with([0, 0, 0xf0, 0, 0xf0, 0, 0, 0], false);
    let plain_too = with([0xf0, 0, 0xf0, 0, 0xf0, 0, 0, 0], false);
    //                          direct, left to the server, made here, header bytes
    let cases = [
        (Direct::Never, asks, (0, 2, 0, 54 * 2)),
        (Direct::IgnoreHeaders, asks, (2, 2, 0, 54)),
        (Direct::SoftwareChecksum, asks, (2, 1, 1, 54)),
        (Direct::Inspect, asks, (2, 1, 1, 54)),
        (Direct::Never, plain_too, (0, 2, 0, 54 * 3)),
        (Direct::IgnoreHeaders, plain_too, (2, 2, 0, 54)),
        (Direct::SoftwareChecksum, plain_too, (2, 1, 1, 54)),
        (Direct::Inspect, plain_too, (0, 2, 0, 54 * 3)),
    ];
    for (direct, cfg, expected) in cases {
        let mut b = Harness::up(&make, cfg, &Driver { direct, ..small() });
        send_one_of_each(&mut b);
        let q = b.nic.totals();
        let found = (q.tx_direct, q.tx_csum, q.tx_csum_direct, q.tx_header_bytes);
        assert_eq!(found, expected, "{direct:?} {:?}", cfg.servers[0].desc_req);
        b.close();
    }
}

/// A direct call is refused to what is not alone: something batched, or more to come.
pub fn direct_only_when_alone<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &Driver { direct: Direct::SoftwareChecksum, ..small() });
    let (bytes, todo) = partial(&ip(TO, true, false, 600));
    assert_eq!(b.transmit(&bytes, todo, true), Tx::Ok);
    assert_eq!(b.transmit(&bytes, todo, false), Tx::Ok);
    let q = b.nic.totals();
    assert_eq!(
        (q.tx_direct, q.tx_batched, q.tx_csum_direct),
        (0, 2, 0),
        "more to come, then something batched"
    );
    assert_eq!(b.transmit(&bytes, todo, false), Tx::Ok);
    let q = b.nic.totals();
    assert_eq!((q.tx_direct, q.tx_batched, q.tx_csum_direct), (1, 2, 1));
    b.settle();
    b.close();
}

/// The checksum is made before the copy to the long-term buffer, and the flag is clear; a direct
/// send is four words, and the hypervisor reads no memory for it.
pub fn a_direct_send_is_four_words<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let (bytes, todo) = partial(&ip(TO, true, false, 600));
    b.send(&bytes, todo);
    let a = b.spy().called(hcall::SEND_SUB_CRQ);
    assert_eq!(a.len(), 1);
    let flags1 = (a[0][2] >> 24) as u8;
    assert_eq!(a[0][2] >> 32, 0x8010_0101, "valid, TX, one element, one piece");
    assert_eq!(flags1, tx::COMP_NEEDED);
    // Its address is the low word of what the server was told of it.
    let map = commands(&mut b).into_iter().find(|c| c.0 == cmd::REQUEST_MAP).unwrap();
    assert_eq!(
        (a[0][4] as u32, a[0][5]),
        (654, map.1 & 0xffff_ffff),
        "length; the first slot of the first buffer"
    );
    // An array is in memory, and the call names it.
    assert_eq!(b.transmit(&bytes, todo, true), Tx::Ok);
    assert_eq!(b.transmit(&bytes, todo, false), Tx::Ok);
    let a = *b.spy().called(hcall::SEND_SUB_CRQ_INDIRECT).last().unwrap();
    assert_eq!(a[3], 8, "twice a packet with 54 header bytes");
    b.settle();
    b.close();
}

/// A checksum that cannot be made here is left to the server, and the packet goes in an array.
pub fn a_checksum_that_fails_goes_in_an_array<M: Model>(make: impl Fn(Config) -> M) {
    let mut b = Harness::up(make, PVM, &small());
    let whole = ip(TO, true, false, 100);
    let (bytes, todo) = partial(&whole);
    // The field is not in the head, where it is looked for here; the server finds it.
    let p = b.packet(&bytes, &[40], todo, 1);
    use doorbell_drivers::Driver as _;
    assert_eq!(b.nic.transmit(&mut b.h, p, false), Tx::Ok);
    b.settle();
    assert_eq!(b.wire(), [whole]);
    let q = b.nic.totals();
    assert_eq!((q.tx_direct, q.tx_csum, q.tx_batched), (0, 1, 1));
    b.close();
}

/// Servers that mean it: each of the three bytes of the request is for its own kind of packet, and
/// each selection of headers is built as it is compared, byte for byte.
pub fn headers_byte_for_byte<M: Model>(make: impl Fn(Config) -> M) {
    for selection in (0x80..=0xf0).step_by(0x10) {
        for kind in [0, 2, 4] {
            let mut desc_req = [0; 8];
            desc_req[kind] = selection;
            // What is asked for in bytes that are nobody's changes nothing.
            desc_req[7 - kind] |= 0xf0;
            for direct in [Direct::Never, Direct::Inspect, Direct::Adaptive] {
                let mut b = Harness::up(&make, with(desc_req, true), &Driver { direct, ..small() });
                let mut sent = 0;
                for (v4, udp) in [(true, false), (true, true), (false, false), (false, true)] {
                    let whole = ip(TO, v4, udp, 300);
                    for f in [whole.clone(), tagged(&whole, 7)] {
                        let (bytes, todo) = partial(&f);
                        assert_eq!(b.send(&bytes, todo), std::slice::from_ref(&f));
                        assert_eq!(b.send(&f, OffloadRequest::NONE), std::slice::from_ref(&f));
                        sent += 2;
                    }
                    let inserted =
                        b.send(&whole, OffloadRequest { vlan: Some(9), ..OffloadRequest::NONE });
                    assert_eq!(inserted, [tagged(&whole, 9)], "headers of the frame in the buffer");
                    sent += 1;
                    if !udp {
                        let (bytes, todo) = large(&ip(TO, v4, false, 3000), 1400);
                        assert_eq!(b.send(&bytes, todo).len(), 3);
                        sent += 1;
                    }
                }
                let arp =
                    [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[7; 38]]
                        .concat();
                assert_eq!(b.send(&arp, OffloadRequest::NONE), [arp]);
                sent += 1;
                let d = b.counters();
                assert_eq!(
                    (d.tx_sent, d.headers_missing, d.headers_bad),
                    (sent, 0, 0),
                    "{selection:#x} {kind} {direct:?}"
                );
                assert_eq!(d.errors_reported, 0);
                b.close();
            }
        }
    }
}

/// Without bit 7 no headers are wanted, whichever are named.
pub fn without_bit_7_there_are_no_headers<M: Model>(make: impl Fn(Config) -> M) {
    for (direct, directly) in
        [(Direct::Never, 0), (Direct::Inspect, 0), (Direct::SoftwareChecksum, 2)]
    {
        let mut b = Harness::up(&make, with([0x70; 8], true), &Driver { direct, ..small() });
        send_one_of_each(&mut b);
        let (q, d) = (b.nic.totals(), b.counters());
        assert_eq!(
            (q.tx_direct, q.tx_header_descriptors, d.headers_unasked),
            (directly, 0, 0),
            "{direct:?}"
        );
        b.close();
    }
}

/// A TCP frame with so many bytes of IP options and of TCP options, all of them padding.
fn with_options(f: &[u8], ip: usize, tcp: usize) -> Vec<u8> {
    let mut f = f.to_vec();
    f.splice(54..54, std::iter::repeat_n(1, tcp));
    f.splice(34..34, std::iter::repeat_n(1, ip));
    f[14] += (ip / 4) as u8;
    f[46 + ip] += (tcp as u8 / 4) << 4;
    let total = (f.len() - 14) as u16;
    f[16..18].copy_from_slice(&total.to_be_bytes());
    f[24..26].fill(0);
    let check = Sum::of(&f[14..34 + ip]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    headers::prepare_partial(&mut f).unwrap().complete(&mut f).unwrap();
    f
}

/// Lengths of headers are those of the frame: IHL and data offset count. Descriptors that are just
/// full have none behind them.
pub fn header_lengths_follow_ihl_and_data_offset<M: Model>(make: impl Fn(Config) -> M) {
    //  options of IP and TCP, selection, header bytes, descriptors: 24 bytes in the first, 29 in
    // others
    for (ip_options, tcp_options, selection, bytes, descriptors) in [
        (8, 20, 0xf0, 14 + 28 + 40, 3),
        (4, 0, 0xa0, 24, 1),
        (0, 12, 0x90, 32, 2),
        (40, 40, 0xf0, 14 + 60 + 60, 5),
    ] {
        let cfg = with([0, 0, selection, 0, 0, 0, 0, 0], true);
        let mut b = Harness::up(&make, cfg, &Driver { direct: Direct::Never, ..small() });
        let whole = with_options(&ip(TO, true, false, 300), ip_options, tcp_options);
        let (f, todo) = partial(&whole);
        assert_eq!(b.send(&f, todo), [whole]);
        let (q, d) = (b.nic.totals(), b.counters());
        assert_eq!(
            (q.tx_csum, q.tx_header_bytes, q.tx_header_descriptors),
            (1, bytes, descriptors)
        );
        assert_eq!((d.headers_missing, d.headers_bad), (0, 0));
        b.close();
    }
}

/// A direct send without headers ends the session of a server that needs them, which `inspect`
/// avoids.
pub fn ignoring_headers_ends_the_session_where_they_are_needed<M: Model>(
    make: impl Fn(Config) -> M,
) {
    let (bytes, todo) = partial(&ip(TO, true, false, 300));
    let plain = ip(TO, true, false, 300);
    for (direct, plain_wanted, errors) in [
        (Direct::IgnoreHeaders, 0, 1),
        (Direct::SoftwareChecksum, 0, 0),
        (Direct::SoftwareChecksum, 0xf0, 2),
        (Direct::Inspect, 0xf0, 0),
        (Direct::Adaptive, 0xf0, 0),
        (Direct::Never, 0xf0, 0),
    ] {
        let cfg = with([plain_wanted, 0, 0xf0, 0, 0xf0, 0, 0, 0], true);
        let mut b = Harness::up(&make, cfg, &Driver { direct, ..small() });
        for (f, todo) in [(&bytes, todo), (&plain, OffloadRequest::NONE)] {
            assert_eq!(b.transmit(f, todo, false), Tx::Ok);
            b.wait(Span::from_ms(3));
        }
        assert_eq!(b.nic.stats().fatal_errors, errors, "{direct:?} {plain_wanted:#x}");
        assert_eq!(b.nic.totals().tx_lost, errors, "the packet goes with its session");
        assert!(b.nic.is_running(), "and there is another");
        b.close();
    }
}

/// `adaptive` takes the free way where the server's request leaves it: a checksum left to it
/// without headers.
pub fn adaptive_reads_the_request<M: Model>(make: impl Fn(Config) -> M) {
    let c = Driver { direct: Direct::Adaptive, ..small() };
    let mut b = Harness::up(make, with([0, 0, 0x70, 0, 0xf0, 0, 0, 0], true), &c);
    let whole = ip(TO, true, false, 600);
    let (bytes, todo) = partial(&whole);
    assert_eq!(b.send(&bytes, todo), [whole]);
    let q = b.nic.totals();
    assert_eq!((q.tx_direct, q.tx_csum, q.tx_csum_direct), (1, 1, 0));
    b.close();
}

/// A byte for plain packets that names layers without bit 7 makes no headers, and forbids a direct
/// send as in Linux.
pub fn inspect_wants_a_byte_of_nothing<M: Model>(make: impl Fn(Config) -> M) {
    for (byte, direct, headers) in [(0, 1, false), (0x70, 0, false), (0xf0, 0, true)] {
        let c = Driver { direct: Direct::Inspect, ..small() };
        let mut b = Harness::up(&make, with([byte, 0, 0, 0, 0, 0, 0, 0], true), &c);
        let whole = ip(TO, true, false, 600);
        assert_eq!(b.send(&whole, OffloadRequest::NONE), [whole]);
        let q = b.nic.totals();
        assert_eq!((q.tx_direct, q.tx_header_descriptors > 0), (direct, headers), "{byte:#x}");
        b.close();
    }
}
