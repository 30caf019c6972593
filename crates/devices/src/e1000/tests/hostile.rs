//! Whatever a driver writes: no panic, bounded work, and a reset brings it back.

use super::super::Config;
use super::{Bench, MEMORY, frame, ns};
use doorbell_hal::{Device, EventSource, Reg, Span};
use doorbell_layout::e1000::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Write(u32, u32),
    Wide(u8, u32, u64, u8),
    Read(u32),
    Memory(u32, [u8; 16]),
    Frame(u16),
    Time(u32),
    Cable(bool),
}

/// Registers that do something, more often than the rest of the region.
fn offset() -> impl Strategy<Value = u32> {
    use reg::*;
    let known = prop::sample::select(alloc::vec![
        CTRL, STATUS, EECD, EERD, CTRL_EXT, MDIC, FCAL, FCT, VET, ICR, ITR, ICS, IMS, IMC, RCTL,
        TCTL, PBA, FCRTL, FCRTH, RDBAL, RDBAH, RDLEN, RDH, RDT, RDT, RDT, RDTR, RXDCTL, RADV,
        RSRPD, TDBAL, TDBAH, TDLEN, TDH, TDT, TDT, TDT, TIDV, TXDCTL, TADV, RXCSUM, MTA, RAL0,
        RAH0, VFTA,
    ]);
    let newest = prop::sample::select(alloc::vec![
        RDBAL1, RDLEN1, RDH1, RDT1, RDT1, RXDCTL1, TDBAL1, TDLEN1, TDH1, TDT1, TDT1, TXDCTL1,
        TARC0, TARC1, MRQC, RETA, RSSRK, PSRCTL, RFCTL, RFCTL, IVAR, EIAC, EITR,
    ]);
    prop_oneof![9 => known, 3 => newest, 1 => (0..REGION_LEN / 4).prop_map(|i| i * 4)]
}

fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0u32..64,
        (0u32..0x2000).prop_map(|v| v * 128),
        Just(!0),
        Just(RCTL_EN | RCTL_UPE),
        Just(RCTL_EN | RCTL_UPE | RCTL_LPE | RCTL_DTYP_SPLIT),
        Just(RFCTL_EXTEN | MRQC_RSS | MRQC_IPV4 | RETA_QUEUE),
    ]
}

/// Often a descriptor that makes some sense.
fn bytes() -> impl Strategy<Value = [u8; 16]> {
    prop_oneof![
        any::<[u8; 16]>(),
        (0u64..MEMORY as u64, 0u32..20_000, any::<u8>(), any::<u32>()).prop_map(
            |(low, len, command, high)| {
                let word =
                    u64::from(len & 0xf_ffff | u32::from(command) << 24) | u64::from(high) << 32;
                (u128::from(word) << 64 | u128::from(low)).to_le_bytes()
            }
        ),
        (0u64..MEMORY as u64, 0u32..20_000, any::<u8>(), any::<u32>()).prop_map(
            |(low, len, command, high)| {
                let word =
                    u64::from(len | tx_word::DTYP_DATA | tx_word::DEXT | u32::from(command) << 24);
                (u128::from(word | u64::from(high) << 32) << 64 | u128::from(low)).to_le_bytes()
            }
        ),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let size = prop::sample::select(alloc::vec![1u8, 2, 4, 8]);
    prop_oneof![
        6 => (offset(), value()).prop_map(|(r, v)| Act::Write(r, v)),
        1 => (any::<u8>(), any::<u32>(), any::<u64>(), size)
            .prop_map(|(n, o, v, s)| Act::Wide(n % 3, o, v, s)),
        2 => offset().prop_map(Act::Read),
        3 => (0u32..64, bytes()).prop_map(|(i, b)| Act::Memory(i * 16, b)),
        2 => (0u16..10_000).prop_map(Act::Frame),
        3 => (0u32..2_000_000).prop_map(Act::Time),
        1 => any::<bool>().prop_map(Act::Cable),
    ]
}

/// Lets it do all it has to do, which must come to an end.
fn drain(b: &mut Bench) {
    let mut steps = 0u64;
    while let Some(due) = b.d.next_due() {
        b.now = b.now.max(due);
        b.d.advance(&mut b.p, b.now);
        steps += 1;
        // Two rings of 65528 descriptors with up to 64 pieces of data each.
        assert!(steps < 10_000_000, "it goes on for ever");
        assert!(b.d.next_due().is_none_or(|t| t > b.now), "what was due has been done");
    }
}

fn play(cfg: Config, acts: &[Act], slow: bool, wraps: bool) {
    let mut b = Bench::up(cfg);
    b.p.wraps = wraps;
    if slow {
        (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
    }
    for i in 0..64 {
        b.put(0x1000 + i * 16, &(0x8000 + i * 256).to_le_bytes());
        b.put(0x4000 + i * 16, &(0x20000 + i * 2048).to_le_bytes());
    }
    for a in acts {
        match *a {
            Act::Write(r, v) => b.write(r, v),
            Act::Wide(region, offset, v, size) => {
                b.d.mmio_write(&mut b.p, b.now, Reg { region, offset }, size, v);
                b.d.advance(&mut b.p, b.now);
                b.d.mmio_read(&mut b.p, b.now, Reg { region, offset }, size);
            }
            Act::Read(r) => drop(b.read(r)),
            Act::Memory(at, bytes) => {
                b.put(0x1000 + u64::from(at), &bytes);
                b.put(0x4000 + u64::from(at), &bytes);
            }
            Act::Frame(len) => {
                let _ = b.receive(&frame(usize::from(len).max(14))[..usize::from(len)]);
            }
            Act::Time(ns) => {
                let t = b.now + Span::from_ns(ns.into());
                b.at(t);
            }
            Act::Cable(plugged) => b.d.set_cable(b.now, plugged),
        }
        assert!(b.d.next_due().is_none_or(|t| t >= b.now), "nothing is overdue");
    }
    drain(&mut b);
    // Back to life.
    b.d.set_cable(b.now, true);
    let phy = |r: u32, v: u32| MDIC_OP_WRITE | 1 << MDIC_PHY_SHIFT | r << MDIC_REG_SHIFT | v;
    b.write(reg::CTRL, CTRL_RST);
    b.write(reg::MDIC, phy(0, 0x1140));
    assert!(!b.d.line());
    drain(&mut b);
    b.bring_up();
    b.p.memory.fill(0);
    let (sent, got) = (b.p.frames.len(), b.d.counters.rx_packets);
    b.post(8);
    b.send(0x8000, &frame(100), tx_word::RS);
    b.kick();
    b.receive(&frame(200));
    drain(&mut b);
    assert!(b.tx_done(0) && b.p.frames.len() == sent + 1 && b.p.frames[sent].1 == frame(100));
    assert_eq!((b.d.counters.rx_packets, b.rx(0).length.get()), (got + 1, 200));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_goes_and_reset_recovers(
        acts in prop::collection::vec(act(), 0..120), variant in 0usize..4,
        slow: bool, wraps: bool,
    ) {
        let cards = [Config::I82540EM, Config::I82544GC, Config::I82545EM, Config::I82574L];
        play(cards[variant], &acts, slow, wraps);
    }

    #[test]
    fn advancing_more_often_changes_nothing(
        lengths in prop::collection::vec((60usize..1514, 0u64..30_000), 1..20), steps in 1u64..7,
    ) {
        let run = |steps: u64| {
            let mut b = Bench::up(Config::I82540EM);
            (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
            let moderation =
                [(reg::TIDV, 4), (reg::RDTR, 3), (reg::RADV, 9), (reg::ITR, 90), (reg::IMS, 0xd7)];
            for (r, v) in moderation {
                b.write(r, v);
            }
            b.post(40);
            let mut t = 0;
            for (i, &(len, gap)) in lengths.iter().enumerate() {
                b.send(0x8000 + i as u64 * 2048, &frame(len), tx_word::RS | tx_word::IDE);
                b.kick();
                b.receive(&frame(len));
                for s in 1..=steps {
                    b.at(ns(t + gap * s / steps));
                }
                t += gap;
            }
            b.at(ns(t + 2_000_000));
            (b.p.reads, b.p.writes, b.p.frames, b.p.lines, b.d.counters)
        };
        prop_assert_eq!(run(1), run(steps));
    }
}

#[test]
fn an_outside_reset_leaves_nothing_pending() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.write(reg::IMS, !0);
    b.send(0x8000, &frame(1000), tx_word::RS | tx_word::IDE);
    b.kick();
    b.receive(&frame(60));
    b.d.reset(&mut b.p, ns(0));
    assert_eq!((b.d.next_due(), b.d.line()), (None, false));
    let before = (b.p.reads.len(), b.p.writes.len(), b.p.frames.len());
    b.d.advance(&mut b.p, ns(1_000_000));
    assert_eq!((b.p.reads.len(), b.p.writes.len(), b.p.frames.len()), before);
}

#[test]
fn a_ring_of_nulls_is_bounded_work() {
    let mut b = Bench::up(Config::I82540EM);
    for (r, v) in [(reg::TDBAL, 0), (reg::TDLEN, !0), (reg::RDBAL, 0), (reg::RDLEN, !0)] {
        b.write(r, v);
    }
    b.write(reg::RDT, 65527);
    b.write(reg::TDT, 65527);
    b.receive(&frame(60));
    drain(&mut b);
    let c = b.d.counters;
    assert_eq!((c.tx_descriptors, c.rx_descriptors, c.rx_packets), (65527, 65527, 0));
}
