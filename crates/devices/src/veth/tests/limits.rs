//! Frames, calls and marks that stand exactly on a limit, and the counts that follow.

use super::super::{Adapter, Config, Counters, Uplink};
use super::*;
use doorbell_hal::RxVerdict;
use doorbell_layout::ibmveth::attribute::*;
use doorbell_layout::ibmveth::status::*;
use doorbell_packet::headers::{Check, verify};

const NO: u64 = Descriptor::NO_CSUM;
const GOOD: u64 = Descriptor::CSUM_GOOD;
const LARGE: u64 = Descriptor::LRG_SND;

/// Adapters that have agreed to these, open, with buffers of 2 KiB.
fn agreed(cfg: Config, attributes: &[u64]) -> Bench {
    let mut b = Bench::new(cfg);
    for (i, a) in attributes.iter().enumerate() {
        assert_eq!(b.own(i, H_ILLAN_ATTRIBUTES, &[0, *a]), H_SUCCESS);
    }
    b.open()
}

fn lan(n: u8) -> Config {
    Config::new((0..n).map(|i| Adapter::new(i.into(), i)).collect())
}

/// A TCP frame from 0 to 1 whose checksum is left out.
fn bare(b: &Bench, payload: usize) -> Vec<u8> {
    let mut f = tcp(b.mac(1), b.mac(0), false, payload);
    f[check_at(false)..check_at(false) + 2].fill(0);
    f
}

#[test]
fn a_send_of_nothing_succeeds_and_counts_nothing() {
    let mut b = Bench::plain(2).open();
    let before = *b.d.counters(0);
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &[]), H_SUCCESS);
    assert_eq!(*b.d.counters(0), before);
}

#[test]
fn a_token_that_was_never_given_is_refused_and_counted() {
    let mut b = Bench::plain(2).open();
    b.put(0, &plain(b.mac(1), b.mac(0), 60));
    for n in 1..=2 {
        let args = [Descriptor::new(0, 60, SEND).0, 0, 0, 0, 0, 0, 7];
        assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &args), H_PARAMETER);
        assert_eq!((b.d.counters(0).tx_refused, b.d.counters(0).tx_packets), (n, 0));
    }
}

/// Memory that has zeros everywhere.
struct Everywhere;

impl Port for Everywhere {
    fn read(&mut self, at: Time, _: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        into.fill(0);
        Ok(at)
    }
    fn write(&mut self, at: Time, _: Iova, _: &[u8]) -> Result<Time, DmaFault> {
        Ok(at)
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}
    fn raise_msi(&mut self, _: Time, _: u16) {}
    fn emit(&mut self, _: Time, _: &[u8]) {}
}

#[test]
fn a_piece_ends_with_the_32_bits_of_its_address() {
    let mut d = Veth::new(lan(2));
    let mut ports = [Everywhere, Everywhere];
    let unit = Adapter::new(0, 0).unit;
    let mut call = |c, a: &[u64]| {
        let mut all = [0; 9];
        all[0] = unit;
        all[1..=a.len()].copy_from_slice(a);
        d.hcall(&mut ports, 0, Time::ZERO, Hcall(c), &all).0.status
    };
    let queue = Descriptor::new(0, ENTRIES * ENTRY, QUEUE).0;
    let registers = [LIST.into(), queue, FILTER.into(), mac(Adapter::new(0, 0).mac)];
    assert_eq!(call(H_REGISTER_LOGICAL_LAN, &registers), H_SUCCESS);
    for (len, code) in [(63, H_DROPPED), (64, H_DROPPED), (65, H_PARAMETER), (66, H_PARAMETER)] {
        let piece = Descriptor::new(0, len, u32::MAX - 63).0;
        assert_eq!(call(H_SEND_LOGICAL_LAN, &[piece]), code, "{len} bytes");
    }
}

#[test]
fn headers_have_4_kib() {
    // Options of IPv6 before TCP: two headers, the second one of this many units of eight.
    for (units, code) in [(246, H_SUCCESS), (247, H_PARAMETER), (248, H_PARAMETER)] {
        let mut b = agreed(lan(2), &[IPV6_TCP_CSUM, IPV6_TCP_CSUM]);
        assert_eq!(b.post(1, 0x4000, BUFFERS + 0x8000), H_SUCCESS);
        let whole = tcp(b.mac(1), b.mac(0), true, 100);
        let option = |next: u8, units: usize| {
            let mut o = vec![0; units * 8];
            (o[0], o[1]) = (next, (units - 1) as u8);
            o
        };
        let options = [option(60, 256), option(6, units)].concat();
        let mut f = [&whole[..54], &options, &whole[54..]].concat();
        let len = (f.len() - 54) as u16;
        f[18..20].copy_from_slice(&len.to_be_bytes());
        f[20] = 0;
        assert_eq!(14 + 40 + options.len() + 20 <= 4096, code == H_SUCCESS);
        assert_eq!(b.send_marked(0, &f, GOOD, 0), code, "{units}");
    }
}

#[test]
fn each_kind_of_large_send_is_counted() {
    let mut b = agreed(lan(2), &[IPV4_TCP_CSUM | LRG_SR_ENABLED, IPV4_TCP_CSUM]);
    // Two of them are cut in two.
    (4..6).for_each(|k| assert_eq!(b.post(1, 2048, BUFFERS + k * 2048), H_SUCCESS));
    let f = bare(&b, 1000);
    let mut sent = 0;
    for (flags, mss) in [(LARGE, 0), (0, 600), (LARGE, 600), (0, 0)] {
        assert_eq!(b.send_marked(0, &f, flags | NO | GOOD, mss), H_SUCCESS);
        sent += u64::from(flags != 0 || mss != 0);
        assert_eq!(b.d.counters(0).tx_large, sent);
    }
    // Without a segment size the mark is passed on, also to one that takes no large sends.
    let got = b.received(1).unwrap();
    assert_eq!((got.flags & Entry::LRG_PKT, got.mss), (Entry::LRG_PKT, 0));
    assert_eq!(b.d.counters(1).rx_large, 1);
}

#[test]
fn segments_for_one_that_has_agreed_have_no_checksum() {
    let mut b = agreed(lan(2), &[IPV4_TCP_CSUM | LRG_SR_ENABLED, IPV4_TCP_CSUM]);
    let mut f = bare(&b, 2500);
    // The urgent pointer is behind the checksum.
    f[52..54].copy_from_slice(&[0xab, 0xcd]);
    assert_eq!(b.send_marked(0, &f, LARGE | NO | GOOD, 1000), H_SUCCESS);
    for len in [1054, 1054, 554] {
        let got = b.received(1).unwrap();
        assert_eq!((got.bytes.len(), &got.bytes[50..54]), (len, &[0, 0, 0xab, 0xcd][..]));
        assert_eq!(got.flags & Entry::NO_CSUM, Entry::NO_CSUM);
        assert_eq!(verify(&got.bytes).ip, Check::Good);
    }
    let c = b.d.counters(1);
    assert_eq!((c.rx_segments, c.rx_checksums, c.rx_packets), (3, 0, 3));
}

#[test]
fn a_large_send_that_cannot_be_cut_is_dropped_and_counted() {
    let mut b = agreed(lan(2), &[IPV6_TCP_CSUM | LRG_SR_ENABLED, IPV6_TCP_CSUM]);
    // A routing header with a segment left: the checksum's pseudo-header has another address.
    let whole = tcp(b.mac(1), b.mac(0), true, 2500);
    let route = [&[6, 2, 0, 1, 0, 0, 0, 0][..], &[0x55; 16]].concat();
    let mut f = [&whole[..54], &route, &whole[54..]].concat();
    let len = (f.len() - 54) as u16;
    f[18..20].copy_from_slice(&len.to_be_bytes());
    f[20] = 43;
    for n in 1..=2 {
        assert_eq!(b.send_marked(0, &f, LARGE | NO | GOOD, 1000), H_DROPPED);
        assert_eq!((b.d.counters(0).drop_uncut, b.d.counters(0).tx_dropped), (n, n));
    }
    assert_eq!(b.received(1), None);
}

#[test]
fn each_receiver_gets_the_frame_as_its_sender_left_it() {
    // To all: the first has a checksum made, the second has agreed to do without.
    let both = [IPV4_TCP_CSUM, 0, IPV4_TCP_CSUM];
    let cfg = Config { sum_per_kib: Span::from_us(1024), ..lan(3) };
    let mut b = agreed(cfg, &both);
    let mut f = bare(&b, 100);
    f[..6].fill(0xff);
    let before = b.now;
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
    assert_eq!(b.now.since(before), Span::from_us(120), "a microsecond for each byte summed");
    assert_eq!(verify(&b.bytes(1).unwrap()).transport, Check::Good);
    assert_eq!(b.bytes(2), Some(f));
    assert_eq!([1, 2].map(|i| b.d.counters(i).rx_checksums), [1, 0]);
}

#[test]
fn the_number_of_buffers_follows_those_given_back() {
    let mut b = Bench::new(Config { max_buffers: 3, ..lan(1) });
    b.register(0);
    let lend = |b: &mut Bench, n: u32| b.post(0, 2048, BUFFERS + 2048 * n);
    for n in 0..3 {
        assert_eq!(lend(&mut b, n), H_SUCCESS);
    }
    for _ in 0..5 {
        assert_eq!(lend(&mut b, 3), H_RESOURCE, "three are lent");
        assert_eq!(b.own(0, H_FREE_LOGICAL_LAN_BUFFER, &[2048]), H_SUCCESS);
        assert_eq!(lend(&mut b, 3), H_SUCCESS);
    }
}

#[test]
fn a_buffer_that_fails_is_counted_and_comes_back_empty() {
    let frame = |b: &Bench| plain(b.mac(1), b.mac(0), 600);
    let fates = |b: &Bench| {
        let c: &Counters = b.d.counters(1);
        (c.rx_packets, c.rx_bad_buffer, c.rx_lost_entry)
    };
    // The platform reports a fault when the frame was written.
    let mut b = Bench::plain(2).open();
    let f = frame(&b);
    b.p[1].poisoned = true;
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!((fates(&b), b.received(1).unwrap().flags), ((0, 1, 0), 0));
    // It can be written, and not be read.
    let mut b = Bench::plain(2).open();
    b.p[1].mapped[BUFFERS as usize / PAGE] = false;
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!(fates(&b), (0, 1, 0));
    let entry = QUEUE as usize;
    assert_eq!(b.p[1].memory[entry..entry + 8], [0x80, 0, 0, 0, 0, 0, 0, 0], "not valid");
    assert_eq!(b.p[1].memory[entry + 8..entry + 16], [0xff; 8], "nobody's correlator");
    // The entry cannot be written: the buffer is not bad.
    let mut b = Bench::plain(2).open();
    b.p[1].writable[QUEUE as usize / PAGE] = false;
    assert_eq!(b.send(0, &f), H_DROPPED);
    assert_eq!(fates(&b), (0, 0, 1));
}

#[test]
fn a_receiver_that_is_gone_meanwhile_gets_nothing() {
    let mut b = Bench::new(Config { slice: 1024, ..lan(2) }).open();
    b.put(0, &plain(b.mac(1), b.mac(0), 1500));
    let mut args = [Descriptor::new(0, 1500, SEND).0, 0, 0, 0, 0, 0, 0];
    let answer = b.full(0, H_SEND_LOGICAL_LAN, &args);
    assert_eq!(answer.status, H_BUSY);
    assert_eq!(b.own(1, H_FREE_LOGICAL_LAN, &[]), H_SUCCESS);
    args[6] = answer.ret[0];
    assert_eq!(b.own(0, H_SEND_LOGICAL_LAN, &args), H_DROPPED);
    let c = b.d.counters(0);
    assert_eq!((c.drop_gone, c.tx_dropped, c.tx_packets), (1, 1, 1));
}

#[test]
fn a_trunk_that_is_not_active_is_not_learned_from() {
    // The first trunk carries what is outside; the second one waits.
    let trunk = |i: u8, priority| Adapter { trunk: priority, ..Adapter::new(i.into(), i) };
    let adapters = vec![trunk(0, 1), trunk(1, 2), Adapter::new(2, 2), Adapter::new(3, 3)];
    let mut b = Bench::new(Config::new(adapters)).open();
    let outside = [2, 0, 0, 9, 9, 9];
    let f = plain(b.mac(3), outside, 60);
    assert_eq!(b.send(1, &f), H_SUCCESS);
    assert_eq!(b.bytes(3), Some(f));
    let answer = plain(outside, b.mac(3), 60);
    assert_eq!(b.send(3, &answer), H_SUCCESS);
    assert_eq!((b.bytes(0), b.bytes(1)), (Some(answer), None));
}

#[test]
fn a_small_mss_freezes_what_is_behind_the_uplink() {
    let adapters = vec![Adapter { pvid: 1, ..Adapter::new(0, 0) }];
    let uplink = Some(Uplink { port: 1, pvid: 1 });
    let mut b = Bench::new(Config { uplink, min_lso_mss: 224, ..Config::new(adapters) });
    b.p.push(Part::new());
    assert_eq!(b.own(0, H_ILLAN_ATTRIBUTES, &[0, IPV4_TCP_CSUM | LRG_SR_ENABLED]), H_SUCCESS);
    let mut b = b.open();
    let mac = b.mac(0);
    let mut f = tcp([2, 0, 0, 9, 9, 9], mac, false, 500);
    f[50..52].fill(0);
    let answers = [224, 223, 224].map(|mss| b.send_marked(0, &f, LARGE | NO | GOOD, mss));
    assert_eq!(answers, [H_SUCCESS, H_DROPPED, H_DROPPED]);
    assert_eq!((b.p[1].frames.len(), b.d.counters(0).lso_freezes), (3, 1));
}

#[test]
fn the_uplink_counts_frames_in_both_directions() {
    let adapters = vec![Adapter { pvid: 1, ..Adapter::new(0, 0) }];
    let uplink = Some(Uplink { port: 1, pvid: 1 });
    let mut b = Bench::new(Config { uplink, ..Config::new(adapters) });
    b.p.push(Part::new());
    assert_eq!(b.own(0, H_ILLAN_ATTRIBUTES, &[0, IPV4_TCP_CSUM | LRG_SR_ENABLED]), H_SUCCESS);
    let mut b = b.open();
    // In: two for the adapter, and one for nobody.
    let outside = [2, 0, 0, 9, 9, 9];
    for (to, len) in [(b.mac(0), 60), (b.mac(0), 100), ([2, 0, 0, 8, 8, 8], 200)] {
        let now = b.now;
        assert_eq!(b.d.receive(&mut b.p, now, &plain(to, outside, len)), RxVerdict::Yes);
        b.settle();
    }
    let c = b.d.parts.uplink;
    assert_eq!((c.tx_packets, c.tx_bytes, c.tx_dropped, c.drop_unowned), (3, 360, 1, 1));
    assert_eq!(b.d.counters(0).rx_packets, 2);
    // Out: a plain frame, one without a checksum, and a large send in three segments.
    let mac = b.mac(0);
    assert_eq!(b.send(0, &plain(outside, mac, 60)), H_SUCCESS);
    let mut f = tcp(outside, mac, false, 100);
    f[50..52].fill(0);
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
    let mut f = tcp(outside, mac, false, 2500);
    f[50..52].fill(0);
    assert_eq!(b.send_marked(0, &f, LARGE | NO | GOOD, 1000), H_SUCCESS);
    let out = &b.p[1].frames;
    let lens: Vec<usize> = out.iter().map(Vec::len).collect();
    assert_eq!(lens, [60, 154, 1054, 1054, 554]);
    assert!(out[1..].iter().all(|f| verify(f).transport == Check::Good));
    let c = &b.d.parts.uplink;
    assert_eq!((c.rx_packets, c.rx_bytes), (5, lens.iter().sum::<usize>() as u64));
    assert_eq!((c.rx_checksums, c.rx_segments), (4, 3));
}
