use super::super::Config;
use super::{Bench, frame};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_layout::e1000::tx_word::{DEXT, DTYP_DATA, EOP, IFCS, IP, RS, TCP, TSE};
use doorbell_layout::e1000::*;
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, prepare_partial, verify};
use doorbell_packet::segment::{Segments, prepare_gso};
use proptest::prelude::*;

const AT: u64 = 0x8000;

/// An IP frame with right checksums.
pub(super) fn ip(v6: bool, udp: bool, payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let l4 = if udp { 8 } else { 20 };
    let len = (l4 + payload) as u16;
    let proto = if udp { 17 } else { 6 };
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(len.to_be_bytes());
        f.extend([proto, 64]);
        f.extend([0x20; 16]);
        f.extend([0x30; 16]);
    } else {
        f.extend([0x08, 0, 0x45, 0]);
        f.extend((len + 20).to_be_bytes());
        f.extend([0xff, 0xfe, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = Sum::of(&f[14..34]).checksum();
        f[24..26].copy_from_slice(&check.to_be_bytes());
    }
    let start = f.len();
    f.extend([0x12, 0x34, 0x56, 0x78]);
    if udp {
        f.extend(len.to_be_bytes());
        f.extend([0, 0]);
    } else {
        // FIN, PSH, ACK.
        f.extend([0xff, 0xff, 0xff, 0, 1, 2, 3, 4, 0x50, 0x19, 0x20, 0, 0, 0, 0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 13 + i / 251) as u8));
    let field = start + if udp { 6 } else { 16 };
    let l = Layers::of(&f).unwrap();
    let sum = l.pseudo_header(&f, len.into()).plus(Sum::of(&f[start..]));
    let check = if udp { sum.udp_checksum() } else { sum.checksum() };
    f[field..field + 2].copy_from_slice(&check.to_be_bytes());
    assert_eq!(verify(&f).transport, Check::Good);
    f
}

/// A context: (low, high) quadwords.
pub(super) fn context(c: ContextTx) -> (u64, u64) {
    use zerocopy::IntoBytes;
    let b: [u8; 16] = c.as_bytes().try_into().unwrap();
    let v = u128::from_le_bytes(b);
    (v as u64, (v >> 64) as u64)
}

pub(super) fn data(len: usize, word: u32, popts: u8) -> u64 {
    u64::from(len as u32 | DEXT | DTYP_DATA | word) | u64::from(popts) << 40
}

/// The context and the frame that Linux's e1000_tso prepares.
pub(super) fn large_send(f: &[u8], mss: u16) -> ((u64, u64), Vec<u8>, u8) {
    let mut f = f.to_vec();
    let l = Layers::of(&f).unwrap();
    let (l3, l4) = (l.l3 as usize, l.l4 as usize);
    let v4 = f[12] == 8;
    let tcp = l.protocol == 6;
    if v4 {
        f[l3 + 2..l3 + 4].fill(0);
        f[l3 + 10..l3 + 12].fill(0);
    } else {
        f[l3 + 4..l3 + 6].fill(0);
    }
    // The pseudo-header without length.
    let pseudo = l.pseudo_header(&f, 0).value();
    let field = l4 + if tcp { 16 } else { 6 };
    f[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    let payload = (f.len() - l.end as usize) as u32;
    let word = payload | DEXT | TSE | if tcp { TCP } else { 0 } | if v4 { IP } else { 0 };
    let c = ContextTx {
        ipcss: l3 as u8,
        ipcso: if v4 { l3 as u8 + 10 } else { 0 },
        ipcse: if v4 { l4 as u16 - 1 } else { 0 }.into(),
        tucss: l4 as u8,
        tucso: field as u8,
        tucse: 0.into(),
        word: word.into(),
        status: 0,
        hdrlen: l.end as u8,
        mss: mss.into(),
    };
    (context(c), f, DataTx::TXSM | if v4 { DataTx::IXSM } else { 0 })
}

/// Segments it with the software of `packet`.
fn software(f: &[u8], mss: u16) -> Vec<Vec<u8>> {
    let mut f = f.to_vec();
    let gso = prepare_gso(&mut f, mss).unwrap().gso.unwrap();
    let mut s = Segments::new(&f, gso).unwrap();
    let mut out = vec![0; s.plan().longest()];
    let mut all = vec![];
    while let Some(n) = s.next_into(&mut out) {
        let mut one = out[..n].to_vec();
        one.resize(n.max(60), 0);
        all.push(one);
    }
    all
}

/// Sends it in pieces of these lengths, the last taking the rest.
fn send_large(b: &mut Bench, f: &[u8], mss: u16, pieces: &[usize]) {
    let (c, f, popts) = large_send(f, mss);
    b.desc(c.0, c.1);
    b.put(0x20000, &f);
    let mut at = 0;
    for &n in pieces.iter().chain([&usize::MAX]) {
        let n = n.min(f.len() - at);
        if n == 0 {
            continue;
        }
        let end = if at + n == f.len() { EOP | IFCS | RS } else { 0 };
        b.desc(0x20000 + at as u64, data(n, TSE | end, popts));
        at += n;
    }
    b.kick();
    b.settle();
}

#[test]
fn legacy_checksums_go_from_css_to_the_end() {
    let mut b = Bench::up(Config::I82540EM);
    let mut f = ip(false, false, 101);
    let good = f.clone();
    prepare_partial(&mut f).unwrap();
    b.put(AT, &f);
    let word = f.len() as u32 | 50 << 16 | EOP | IFCS | TSE | RS;
    b.desc(AT, u64::from(word) | 34 << 40);
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [good]);
}

#[test]
fn the_audit_is_of_the_checksums_that_were_asked_for() {
    // Where the frame is wrong: its IP checksum, which is the sender's, or the pseudo-header's sum.
    for (at, counted) in [(24, 0), (50, 1)] {
        for legacy in [true, false] {
            let mut b = Bench::up(Config::I82540EM);
            let mut f = ip(false, false, 101);
            let partial = prepare_partial(&mut f).unwrap();
            f[at] ^= 1;
            b.put(AT, &f);
            if legacy {
                let word = f.len() as u32 | 50 << 16 | EOP | IFCS | TSE | RS;
                b.desc(AT, u64::from(word) | 34 << 40);
            } else {
                let (tucss, tucso) = (partial.start as u8, partial.field() as u8);
                let word = (DEXT | TCP).into();
                let c = context(ContextTx { tucss, tucso, word, ..ContextTx::default() });
                b.desc(c.0, c.1);
                b.desc(AT, data(f.len(), EOP | IFCS | RS, DataTx::TXSM));
            }
            b.kick();
            b.settle();
            assert_eq!(b.sent().len(), 1);
            assert_eq!(b.d.counters.wire_bad_checksums, counted, "{at} {legacy}");
        }
    }
}

#[test]
fn a_checksum_context_serves_many_packets() {
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut b = Bench::up(Config::I82540EM);
        let good = ip(v6, udp, 333);
        let mut f = good.clone();
        let partial = prepare_partial(&mut f).unwrap();
        // e1000_tx_csum: only where to start and where to store.
        let word = DEXT | if udp { 0 } else { TCP };
        let c = ContextTx {
            tucss: partial.start as u8,
            tucso: partial.field() as u8,
            word: word.into(),
            ..ContextTx::default()
        };
        let (low, high) = context(c);
        b.desc(low, high);
        for i in 0..3 {
            b.put(AT + i * 2048, &f);
            b.desc(AT + i * 2048, data(f.len(), EOP | IFCS | RS, DataTx::TXSM));
        }
        b.kick();
        b.settle();
        assert_eq!(b.sent(), [good.clone(), good.clone(), good]);
        assert_eq!(b.d.counters.contexts, 1);
    }
}

#[test]
fn segments_are_those_of_the_software() {
    for (v6, udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut b = Bench::up(Config::I82540EM);
        let f = ip(v6, udp, 14_700);
        send_large(&mut b, &f, 1448, &[]);
        assert_eq!(b.sent(), software(&f, 1448), "v6 {v6} udp {udp}");
        assert_eq!(b.read(reg::stat::TSCTC), 1);
        assert_eq!(b.d.counters.large_sends, 1);
    }
}

#[test]
fn the_device_adds_the_length_that_the_pseudo_header_lacks() {
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &ip(false, false, 3000), 1000, &[]);
    for f in b.sent() {
        assert_eq!(verify(&f).transport, Check::Good);
        assert_eq!(verify(&f).ip, Check::Good);
    }
}

#[test]
fn the_last_bytes_in_a_descriptor_of_their_own_change_nothing() {
    // The sentinel of the premature write-back erratum.
    let f = ip(false, false, 5000);
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &f, 1448, &[f.len() - 4]);
    assert_eq!(b.sent(), software(&f, 1448));
}

#[test]
fn cwr_is_repeated_on_every_segment() {
    let mut f = ip(false, false, 3000);
    f[47] |= 0x80;
    let mut b = Bench::up(Config::I82540EM);
    send_large(&mut b, &f, 1000, &[]);
    assert!(b.sent().iter().all(|s| s[47] & 0x80 != 0));
    assert!(software(&f, 1000)[1..].iter().all(|s| s[47] & 0x80 == 0), "which is wrong");
}

#[test]
fn what_comes_after_paylen_is_not_sent() {
    let f = ip(false, false, 3000);
    let (c, g, popts) = large_send(&f, 1000);
    let mut b = Bench::up(Config::I82540EM);
    b.desc(c.0, c.1 - 1000);
    b.put(AT, &g);
    b.desc(AT, data(g.len(), TSE | EOP | IFCS | RS, popts));
    b.kick();
    b.settle();
    let sent = b.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!([sent[0][47], sent[1][47]], [0x10, 0x19], "and the last of PAYLEN is the last");
}

#[test]
fn a_context_that_cannot_be_fails_and_the_next_packet_is_sent() {
    let mut b = Bench::up(Config::I82540EM);
    let f = ip(false, false, 3000);
    let (c, g, popts) = large_send(&f, 0);
    b.desc(c.0, c.1);
    b.put(AT, &g);
    b.desc(AT, data(g.len(), TSE | EOP | IFCS | RS, popts));
    b.send(0x20000, &frame(60), RS);
    b.kick();
    b.settle();
    assert_eq!(b.sent(), [frame(60)]);
    assert!(b.tx_done(1));
    assert_eq!(b.read(reg::stat::TSCTFC), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_large_send_in_any_pieces_is_cut_as_software_cuts_it(
        v6: bool, udp: bool, payload in 200usize..20_000, mss in 64u16..4000,
        pieces in prop::collection::vec(1usize..5000, 0..8),
    ) {
        prop_assume!(payload > usize::from(mss));
        let f = ip(v6, udp, payload);
        let mut b = Bench::up(Config { errata: false, ..Config::I82545EM });
        send_large(&mut b, &f, mss, &pieces);
        prop_assert_eq!(b.sent(), software(&f, mss));
    }
}
