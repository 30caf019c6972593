//! Checksums left out and large sends, carried between partitions or done for those who have not
//! agreed.

use super::super::{Adapter, Config, Uplink};
use super::*;
use doorbell_layout::ibmveth::attribute::*;
use doorbell_layout::ibmveth::status::*;
use doorbell_packet::headers::{Check, verify};
use proptest::prelude::*;

const NO: u64 = Descriptor::NO_CSUM;
const GOOD: u64 = Descriptor::CSUM_GOOD;
const CARRIED: u32 = Entry::NO_CSUM | Entry::CSUM_GOOD;

/// Two adapters that have agreed to these, with four large buffers besides.
fn agreed(sender: u64, receiver: u64) -> Bench {
    let mut b = Bench::plain(2);
    assert_eq!(b.own(0, H_ILLAN_ATTRIBUTES, &[0, sender]), H_SUCCESS);
    assert_eq!(b.own(1, H_ILLAN_ATTRIBUTES, &[0, receiver]), H_SUCCESS);
    let mut b = b.open();
    for k in 0..2 {
        b.post(1, 0x10000, BUFFERS + 0x10000 + k * 0x10000);
    }
    b
}

/// A TCP frame whose checksum is left out.
fn bare(b: &Bench, v6: bool, payload: usize) -> Vec<u8> {
    let mut f = tcp(b.mac(1), b.mac(0), v6, payload);
    f[check_at(v6)..check_at(v6) + 2].fill(0);
    f
}

#[test]
fn a_checksum_left_out_is_carried_to_who_has_agreed_and_made_for_who_has_not() {
    for (v6, bit) in [(false, IPV4_TCP_CSUM), (true, IPV6_TCP_CSUM)] {
        let mut b = agreed(bit, bit);
        let f = bare(&b, v6, 100);
        assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
        let got = b.received(1).unwrap();
        assert_eq!((got.flags, got.bytes), (Entry::VALID | CARRIED | 8, f.clone()));

        // The other protocol is another agreement.
        for other in [0, bit ^ (IPV4_TCP_CSUM | IPV6_TCP_CSUM)] {
            let mut b = agreed(bit, other);
            assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
            let got = b.received(1).unwrap();
            assert_eq!(
                (got.flags, got.bytes),
                (Entry::VALID | 8, tcp(b.mac(1), b.mac(0), v6, 100))
            );
            assert_eq!(b.d.counters(1).rx_checksums, 1);
        }
    }
}

#[test]
fn padding_is_not_summed() {
    let mut b = agreed(IPV4_TCP_CSUM, 0);
    let mut f = bare(&b, false, 2);
    f.resize(60, 0xee);
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
    assert_eq!(verify(&b.bytes(1).unwrap()).transport, Check::Good);
}

#[test]
fn a_good_checksum_is_passed_on_as_good_to_who_has_agreed() {
    for (receiver, flags) in [(IPV4_TCP_CSUM, Entry::CSUM_GOOD), (0, 0)] {
        let mut b = agreed(IPV4_TCP_CSUM, receiver);
        let f = tcp(b.mac(1), b.mac(0), false, 100);
        assert_eq!(b.send_marked(0, &f, GOOD, 0), H_SUCCESS);
        let got = b.received(1).unwrap();
        assert_eq!((got.flags, got.bytes), (Entry::VALID | flags | 8, f));
    }
}

#[test]
fn marks_that_were_not_agreed_to_are_refused() {
    let refused = |sender, f: &dyn Fn(&Bench) -> Vec<u8>, flags, mss| {
        let mut b = agreed(sender, sender);
        let f = f(&b);
        assert_eq!(b.send_marked(0, &f, flags, mss), H_PARAMETER);
        assert_eq!((b.received(1), b.d.counters(0).tx_refused), (None, 1));
    };
    let all = IPV4_TCP_CSUM | IPV6_TCP_CSUM | LRG_SR_ENABLED;
    refused(0, &|b| bare(b, false, 10), NO | GOOD, 0);
    refused(IPV4_TCP_CSUM, &|b| bare(b, true, 10), NO | GOOD, 0);
    refused(all, &|b| bare(b, false, 10), NO, 0);
    refused(all, &|b| plain(b.mac(1), b.mac(0), 60), NO | GOOD, 0);
    refused(all, &|b| plain(b.mac(1), b.mac(0), 60), Descriptor::LRG_SND, 1448);
    for mss in [1, 15, 0x1_0000, u64::MAX] {
        refused(all, &|b| bare(b, false, 3000), NO | GOOD | Descriptor::LRG_SND, mss);
    }
}

#[test]
fn a_large_send_without_firmwares_support_is_refused() {
    let a = |i| Adapter { options: Some(IPV4_TCP_CSUM), ..Adapter::new(i, i as u8) };
    let mut b = Bench::new(Config::new(vec![a(0), a(1)])).open();
    let f = tcp(b.mac(1), b.mac(0), false, 100);
    assert_eq!(b.send_marked(0, &f, Descriptor::LRG_SND, 0), H_PARAMETER);
}

#[test]
fn without_a_checksum_a_plain_adapter_sends_from_its_own_address_only() {
    let mut b = agreed(IPV4_TCP_CSUM, IPV4_TCP_CSUM);
    let mut f = bare(&b, false, 100);
    f[11] ^= 0x40;
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_DROPPED);
    assert_eq!((b.d.counters(0).drop_source, b.dropped(0)), (1, 1));
    assert_eq!(b.send_marked(0, &f, GOOD, 0), H_SUCCESS);
    // A trunk sends for others.
    let adapters = vec![Adapter { trunk: 1, ..Adapter::new(0, 0) }, Adapter::new(1, 1)];
    let mut b = Bench::new(Config::new(adapters));
    b.own(0, H_ILLAN_ATTRIBUTES, &[0, IPV4_TCP_CSUM]);
    let mut b = b.open();
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
}

const LARGE: u64 = Descriptor::LRG_SND | NO | GOOD;

#[test]
fn a_large_packet_has_its_mss_in_front_and_the_mark() {
    let all = IPV4_TCP_CSUM | LRG_SR_ENABLED;
    let mut b = agreed(all, all);
    let f = bare(&b, false, 60_000);
    assert_eq!(b.send_marked(0, &f, LARGE, 1448), H_SUCCESS);
    let got = b.received(1).unwrap();
    assert_eq!(
        got.flags,
        Entry::VALID | Entry::LRG_PKT | CARRIED | 16,
        "behind correlator and mss"
    );
    assert_eq!((got.mss, got.bytes), (1448, f));
    assert_eq!((b.d.counters(0).tx_large, b.d.counters(1).rx_large), (1, 1));
}

#[test]
fn a_payload_of_one_mss_is_not_cut() {
    for (payload, frames, checksums) in [(1448, 1, 0), (1449, 2, 2)] {
        let mut b = agreed(LRG_SR_ENABLED, 0);
        let f = tcp(b.mac(1), b.mac(0), false, payload);
        assert_eq!(b.send_marked(0, &f, Descriptor::LRG_SND, 1448), H_SUCCESS);
        let c = b.d.counters(1);
        assert_eq!((c.rx_packets, c.rx_checksums), (frames, checksums), "{payload}");
        assert_eq!(b.bytes(1).unwrap() == f, frames == 1);
    }
}

#[test]
fn a_large_packet_needs_room_for_the_mss_too() {
    let all = IPV4_TCP_CSUM | LRG_SR_ENABLED;
    let mut b = agreed(all, all);
    let f = bare(&b, false, 0x10000 - 16 - 54);
    assert_eq!(b.send_marked(0, &f, LARGE, 1448), H_SUCCESS);
    let f = bare(&b, false, 0x10000 - 15 - 54);
    assert_eq!(b.send_marked(0, &f, LARGE, 1448), H_DROPPED);
}

#[test]
fn the_ninth_argument_counts_only_where_large_send_was_agreed() {
    let mut b = agreed(IPV4_TCP_CSUM, IPV4_TCP_CSUM);
    let f = bare(&b, false, 1000);
    // Whatever is left in the register.
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0xdead_beef), H_SUCCESS);
    assert_eq!(b.bytes(1), Some(f));
}

#[test]
fn a_large_packet_without_an_mss_says_so_with_zero() {
    let mut b = agreed(LRG_SR_ENABLED, LRG_SR_ENABLED);
    let f = tcp(b.mac(1), b.mac(0), false, 10_000);
    assert_eq!(b.send_marked(0, &f, Descriptor::LRG_SND, 0), H_SUCCESS);
    let got = b.received(1).unwrap();
    assert_eq!((got.flags, got.mss, got.bytes), (Entry::VALID | Entry::LRG_PKT | 16, 0, f));
}

#[test]
fn the_old_large_send_goes_through_as_it_is() {
    let mut b = agreed(IPV4_TCP_CSUM, IPV4_TCP_CSUM);
    let mut f = bare(&b, false, 20_000);
    f[24..26].copy_from_slice(&OLD_LARGE_SEND.to_be_bytes());
    f[check_at(false)..check_at(false) + 2].copy_from_slice(&1448u16.to_be_bytes());
    assert_eq!(b.send_marked(0, &f, NO | GOOD, 0), H_SUCCESS);
    let got = b.received(1).unwrap();
    assert_eq!((got.flags, got.bytes), (Entry::VALID | CARRIED | 8, f));
}

#[test]
fn a_large_send_to_the_uplink_leaves_in_right_segments() {
    let adapters = vec![Adapter::new(0, 0)];
    let uplink = Some(Uplink { port: 0, pvid: 1 });
    let mut b = Bench::new(Config { uplink, ..Config::new(adapters) });
    b.own(0, H_ILLAN_ATTRIBUTES, &[0, IPV4_TCP_CSUM | LRG_SR_ENABLED]);
    let mut b = b.open();
    let mut f = tcp([10; 6], b.mac(0), false, 10_000);
    f[check_at(false)..check_at(false) + 2].fill(0);
    assert_eq!(b.send_marked(0, &f, LARGE, 1460), H_SUCCESS);
    assert_eq!(b.p[0].frames.len(), 7);
    for s in &b.p[0].frames {
        assert!(s.len() <= 1514);
        assert_eq!((verify(s).ip, verify(s).transport), (Check::Good, Check::Good));
    }
}

#[test]
fn a_busy_large_send_goes_on_at_the_next_segment() {
    let adapters = vec![Adapter::new(0, 0), Adapter::new(1, 1)];
    let cfg = Config { slice: 3000, sum_per_kib: Span::from_ns(1024), ..Config::new(adapters) };
    let mut b = Bench::new(cfg);
    b.own(0, H_ILLAN_ATTRIBUTES, &[0, IPV4_TCP_CSUM | LRG_SR_ENABLED]);
    let mut b = b.open();
    let f = bare(&b, false, 5000);
    b.put(0, &f);
    let d = Descriptor::new(LARGE, f.len() as u32, SEND).0;
    let before = b.now;
    let (mut token, mut payload, mut calls) = (0, vec![], 0);
    loop {
        let r = b.full(0, H_SEND_LOGICAL_LAN, &[d, 0, 0, 0, 0, 0, token, 1448]);
        calls += 1;
        while let Some(s) = b.bytes(1) {
            assert_eq!((verify(&s).ip, verify(&s).transport), (Check::Good, Check::Good));
            payload.extend_from_slice(&s[54..]);
        }
        if r.status != H_BUSY {
            assert_eq!(r.status, H_SUCCESS);
            break;
        }
        token = r.ret[0];
    }
    assert_eq!((calls, &payload[..]), (3, &f[54..]));
    assert_eq!(b.now.since(before), Span::from_ns(5000), "the summing");
}

proptest! {
    /// Whatever the agreement: what a receiver can make of what it gets is the sender's data.
    #[test]
    fn every_agreement_carries_the_same_data(
        v6: bool, checksum: bool, large: bool, receiver_checksum: bool, receiver_large: bool,
        payload in 1usize..20_000, mss in 16u64..9000,
    ) {
        let csum = IPV4_TCP_CSUM | IPV6_TCP_CSUM;
        let bits = |c: bool, l: bool| (u64::from(c) * csum) | (u64::from(l) * LRG_SR_ENABLED);
        let mut b = Bench::plain(2);
        b.own(0, H_ILLAN_ATTRIBUTES, &[0, bits(checksum, large)]);
        b.own(1, H_ILLAN_ATTRIBUTES, &[0, bits(receiver_checksum, receiver_large)]);
        b.register(0);
        let queue = 0x50000;
        let descriptor = Descriptor::new(0, 2048 * 16, queue).0;
        let args = [u64::from(LIST), descriptor, FILTER.into(), mac(b.mac(1))];
        prop_assert_eq!(b.own(1, H_REGISTER_LOGICAL_LAN, &args), H_SUCCESS);
        let buffer = BUFFERS;
        let f = if checksum { bare(&b, v6, payload) } else { tcp(b.mac(1), b.mac(0), v6, payload) };
        b.put(0, &f);
        let flags = if checksum { NO | GOOD } else { 0 }
            | if large { Descriptor::LRG_SND } else { 0 };
        let d = Descriptor::new(flags, f.len() as u32, SEND).0;
        // All buffers are one place, where the last segment stays.
        for _ in 0..1500 {
            b.own(1, H_ADD_LOGICAL_LAN_BUFFER, &[Descriptor::new(0, 0x8000, buffer).0]);
        }
        b.p[1].writes.clear();
        let code = b.own(0, H_SEND_LOGICAL_LAN, &[d, 0, 0, 0, 0, 0, 0, mss]);
        prop_assert_eq!(code, H_SUCCESS);
        let header = f.len() - payload;
        let cut = large && !receiver_large && payload > mss as usize;
        let n = if cut { payload.div_ceil(mss as usize) } else { 1 };
        prop_assert_eq!(b.d.counters(1).rx_packets, n as u64);
        prop_assert_eq!(b.d.counters(1).rx_bytes, (n * header + payload) as u64);
        let entry = &b.p[1].memory[queue as usize + 16 * (n - 1)..][..16];
        let word = u32::from_be_bytes(entry[..4].try_into().unwrap());
        let len = u32::from_be_bytes(entry[4..8].try_into().unwrap()) as usize;
        let start = buffer as usize + (word & Entry::OFFSET) as usize;
        let mut last = b.p[1].memory[start..start + len].to_vec();
        let marked = word & Entry::NO_CSUM != 0;
        prop_assert_eq!(marked, checksum && receiver_checksum);
        prop_assert_eq!(word & Entry::LRG_PKT != 0, large && receiver_large);
        prop_assert_eq!(&last[header..], &f[f.len() - (len - header)..]);
        if marked {
            prop_assert_eq!(&last[check_at(v6)..check_at(v6) + 2], &[0, 0]);
            let l = doorbell_packet::headers::Layers::of(&last).unwrap();
            super::super::offload::complete(&mut last, &l).unwrap();
        }
        prop_assert_eq!(verify(&last).transport, Check::Good);
        prop_assert!(v6 || verify(&last).ip == Check::Good);
    }
}
