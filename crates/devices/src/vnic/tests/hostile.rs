//! Whatever a client does: an answer, no panic, no access outside what it has mapped, bounded work.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Call(u64, Vec<u64>),
    Message([u8; 16]),
    Init,
    Login,
    Map(u8, u32, u32),
    Tx(bool, Vec<(u8, u8, u8, u16, u32, u32)>),
    Post(u8, u32, u32),
    Memory(u16, [u8; 32]),
    Frame(u16),
    Outside(u8),
    Time(u32),
}

fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..64,
        Just(CRQ),
        Just(4096),
        Just(SCRATCH),
        (0u64..512).prop_map(|p| p * 4096)
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let calls =
        vec![0x64, 0xfc, 0x100, 0x104, 0x108, 0x2a8, 0x2b0, 0x2dc, 0x2e0, 0x2e4, 0x2e8, 0x123];
    let descriptor = (any::<u8>(), any::<u8>(), 0u8..6, 0u16..4, 0u32..12_000, 0u32..300_000);
    prop_oneof![
        4 => (prop::sample::select(calls), prop::collection::vec(argument(), 0..7))
            .prop_map(|(c, a)| Act::Call(c, a)),
        4 => (0u8..0x24, any::<[u8; 14]>()).prop_map(|(c, rest)| {
            let mut m = [0x80; 16];
            m[1] = c;
            m[2..].copy_from_slice(&rest);
            Act::Message(m)
        }),
        1 => any::<[u8; 16]>().prop_map(Act::Message),
        1 => Just(Act::Init),
        1 => Just(Act::Login),
        1 => (any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(i, a, l)| Act::Map(i, a, l)),
        6 => (any::<bool>(), prop::collection::vec(descriptor, 1..16))
            .prop_map(|(d, v)| Act::Tx(d, v)),
        2 => (1u8..17, 0u32..200, any::<u32>()).prop_map(|(n, slot, len)| Act::Post(n, slot, len)),
        1 => (any::<u16>(), any::<[u8; 32]>()).prop_map(|(i, b)| Act::Memory(i, b)),
        3 => (0u16..9100).prop_map(Act::Frame),
        1 => (0u8..6).prop_map(Act::Outside),
        3 => (0u32..2_000_000).prop_map(Act::Time),
    ]
}

fn word(b: &[u8]) -> u64 {
    u64::from_be_bytes(b.try_into().unwrap())
}

fn play(b: &mut Bench, a: Act) {
    let handle = |v: &[u64]| v.first().copied().unwrap_or(0);
    match a {
        Act::Call(c, mut args) => {
            if c == hcall::REG_SUB_CRQ {
                args.truncate(2);
            }
            b.call(c, &args);
        }
        Act::Message(m) => _ = b.call(hcall::SEND_CRQ, &[word(&m[..8]), word(&m[8..])]),
        Act::Init => _ = b.init(),
        Act::Login => {
            b.call(hcall::SEND_CRQ, &[0x8004_0000_0000_0000, SCRATCH << 32 | 100]);
        }
        Act::Map(id, ioba, len) => {
            let m = RequestMap {
                first: 0x80,
                cmd: cmd::REQUEST_MAP,
                map_id: id,
                ioba: U32::new(ioba),
                len: U32::new(len),
                ..RequestMap::default()
            };
            let m = m.bytes();
            b.call(hcall::SEND_CRQ, &[word(&m[..8]), word(&m[8..])]);
        }
        Act::Tx(direct, v) => {
            let frame = partial(3000);
            let entries: Vec<_> = v
                .iter()
                .map(|&(flags1, flags2, n, mss, len, ioba)| {
                    let d = b.desc(0, &frame, flags1);
                    let n_crq_elem = if n < 4 { 1 } else { n };
                    let kind = if n == 5 { desc::HDR } else { desc::TX };
                    let (mss, sge_len, ioba) =
                        (U16::new(mss * 700), U32::new(len), U64::new(LTB + u64::from(ioba)));
                    Tx { kind, flags2, n_crq_elem, mss, sge_len, ioba, ..d }.bytes()
                })
                .collect();
            let to = handle(&b.tx);
            if direct {
                b.direct(to, entries[0]);
            } else {
                b.indirect(to, &entries);
            }
        }
        Act::Post(n, slot, len) => {
            let to = handle(&b.rx);
            let entry = RxAdd::new(len.into(), 1, LTB as u32 + slot * 2048, len).bytes();
            b.indirect(to, &vec![entry; n.into()]);
        }
        Act::Memory(i, bytes) => b.put(u64::from(i) * 16, &bytes),
        Act::Frame(n) => _ = b.receive(&tcp(n.into())[..usize::from(n).max(3)]),
        Act::Outside(n) => match n {
            0 => b.d.fail_over(0, b.now + Span::from_us(3)),
            1 => b.d.migrate(0, b.now),
            2 => b.d.set_link(0, b.now, false),
            3 => b.d.set_link(0, b.now, true),
            4 => b.d.report_error(0, b.now, cause::FW, true),
            _ => b.d.limit_queues(0, 1),
        },
        Act::Time(ns) => b.at(b.now + Span::from_ns(ns.into())),
    }
    b.audit();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn any_message_length_and_order_is_answered(
        acts in prop::collection::vec(act(), 1..60),
        fresh in any::<bool>(),
    ) {
        let mut b = if fresh { Bench::new(Config::POWERVM) } else { Bench::up(Config::POWERVM, 2) };
        // A page that nobody has mapped, in the middle of a buffer: any access is a fault.
        b.p[0].holes.push(LTB + 5 * 4096);
        b.p[0].touched.clear();
        for a in acts {
            play(&mut b, a);
        }
        b.settle();
        b.audit();
        prop_assert_eq!(b.d.in_flight(0), 0);
        let hole = LTB + 5 * 4096;
        prop_assert!(b.p[0].touched.iter().all(|t| t.0 >= hole + 4096 || t.0 + t.1 as u64 <= hole));
        // And it can be brought up again.
        b.p[0].holes.clear();
        b.call(hcall::FREE_CRQ, &[]);
        b.d.limit_queues(0, 16);
        b.d.set_link(0, b.now, true);
        b.settle();
        let fine = b.reg_crq();
        prop_assert_eq!(fine, status::SUCCESS);
        b.call(hcall::FREE_CRQ, &[]);
        b.bring_up(1);
    }

    /// Sends and completions by any mixture of calls: what is taken is reported once, in order.
    #[test]
    fn every_frame_is_reported_once(
        sends in prop::collection::vec((any::<bool>(), 1usize..16), 1..20),
    ) {
        let mut b = Bench::up(Config::POWERVM, 1);
        let handle = b.tx[0];
        let mut n = 0;
        for (direct, count) in sends {
            let count = if direct { 1 } else { count };
            let frame = tcp(100);
            let entries: Vec<_> = (0..count as u32)
                .map(|i| Tx { correlator: U32::new(n + i), ..b.desc(0, &frame, 0) }.bytes())
                .collect();
            let sent =
                if direct { b.direct(handle, entries[0]) } else { b.indirect(handle, &entries) };
            prop_assert_eq!(sent, status::SUCCESS);
            b.settle();
            let expected: Vec<_> = (n..n + count as u32).map(|c| (c, 0)).collect();
            prop_assert_eq!(b.completions(0), expected);
            n += count as u32;
        }
        b.audit();
        prop_assert_eq!(b.p[0].frames.len(), n as usize);
    }
}

/// Returns the length that the headers of IPv4 and TCP give themselves.
fn header_len(frame: &[u8]) -> usize {
    let tcp = 14 + 4 * usize::from(frame[14] & 15);
    tcp + 4 * usize::from(frame[tcp + 12] >> 4)
}

/// Sends one large send and returns its code and its segments, which fit the port, whose payload
/// is that of the large send, and which are not more than 64 bytes each allow.
fn large_send(b: &mut Bench, d: Tx) -> (u16, usize) {
    b.p[0].frames.clear();
    let handle = b.tx[0];
    assert_eq!(b.direct(handle, d.bytes()), status::SUCCESS);
    b.settle();
    b.audit();
    let [(_, code)] = b.completions(0)[..] else { panic!("one completion") };
    let frames = &b.p[0].frames;
    assert!(frames.iter().all(|f| f.1.len() <= 9014 + 14 + 4), "{d:?}");
    if code == u16::from(rc::SUCCESS) {
        let payload: usize = frames.iter().map(|f| f.1.len() - header_len(&f.1)).sum();
        let header = header_len(&frames[0].1);
        assert_eq!(header + payload, d.sge_len.get() as usize, "{d:?}");
        assert!(frames.len() <= payload.div_ceil(64), "{d:?}");
    } else {
        assert!(frames.is_empty(), "{d:?}");
    }
    (code, frames.len())
}

#[test]
fn a_large_send_that_lies_is_refused_whole() {
    const LSO: u8 = tx::LSO | tx::PROT_IPV4 | tx::PROT_TCP;
    const SIZES: [u16; 9] = [0, 1, 63, 64, 65, 1448, 8960, 9000, 65_535];
    let mut b = Bench::up(Config::POWERVM, 1);
    let good = partial(3000);
    let mut sent = 0;
    // All lengths that the headers can give.
    for (ihl, offset) in (0..16u8).flat_map(|i| (0..16u8).map(move |o| (i, o))) {
        let mut frame = good.clone();
        (frame[14], frame[46]) = (0x40 | ihl, offset << 4);
        for mss in SIZES {
            let d = Tx { mss: U16::new(mss), ..b.desc(0, &frame, LSO) };
            let (code, _) = large_send(&mut b, d);
            let tcp = header_len(&frame) - 14 - 4 * usize::from(ihl);
            let fits = ihl >= 5 && tcp >= 20 && (64..=8960).contains(&mss);
            let ok = code == u16::from(rc::SUCCESS);
            assert!(fits || !ok, "{ihl} {offset} {mss}");
            sent += usize::from(ok);
        }
    }
    assert!(sent >= 11, "{sent}");
    // All protocols that the descriptor can claim.
    for flags in 0..=u8::MAX {
        let d = Tx { mss: U16::new(1448), ..b.desc(0, &good, flags | tx::LSO) };
        let said = tx::PROT_IPV4 | tx::PROT_IPV6 | tx::PROT_TCP | tx::PROT_UDP;
        if flags & said != tx::PROT_IPV4 | tx::PROT_TCP {
            assert_ne!(large_send(&mut b, d).0, u16::from(rc::SUCCESS), "{flags:#x}");
        }
    }
    // Lengths up to and beyond the longest large send, the buffer and 32 bits.
    let ends = [0, 1, 13, 14, 33, 53, 54, 55, 117, 118, 119, 65_535, 65_536, 1 << 20, u32::MAX];
    for (len, mss) in ends.into_iter().flat_map(|l| SIZES.map(|m| (l, m))) {
        let d = b.desc(0, &good, LSO);
        let d = Tx { mss: U16::new(mss), sge_len: U32::new(len), ..d };
        let (code, segments) = large_send(&mut b, d);
        assert!(segments <= 1024, "{len} {mss}");
        assert!((55..=65_535).contains(&len) || code != u16::from(rc::SUCCESS), "{len} {mss}");
    }
}
