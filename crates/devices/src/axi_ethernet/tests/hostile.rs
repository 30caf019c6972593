//! Whatever a driver writes: no panic, no access but through the port, bounded work,
//! and a reset brings it back.

use super::*;
use doorbell_layout::axienet::{DMA_LEN, MAC_LEN};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Dma(u32, u32),
    Mac(u32, u32),
    Wide(u8, u32, u64, u8),
    Read(u8, u32),
    Memory(u64, Vec<u32>),
    Frame(u16),
    Time(u32),
    Cable(bool),
    Trap(Option<u64>),
}

/// Registers that do something, more often than the rest of the region.
fn dma_offset() -> impl Strategy<Value = u32> {
    let known = (
        any::<bool>(),
        prop::sample::select(vec![
            dma::CR,
            dma::CR,
            dma::SR,
            dma::CURDESC,
            dma::CURDESC_MSB,
            dma::TAILDESC,
            dma::TAILDESC,
            dma::TAILDESC_MSB,
        ]),
    );
    prop_oneof![
        9 => known.prop_map(|(rx, r)| if rx { S2MM + r } else { MM2S + r }),
        1 => (0..DMA_LEN / 4).prop_map(|i| i * 4),
    ]
}

fn mac_offset() -> impl Strategy<Value = u32> {
    let known = prop::sample::select(vec![
        mac::RAF,
        mac::IS,
        mac::IE,
        mac::RCW1,
        mac::TC,
        mac::EMMC,
        mac::MDIO_MC,
        mac::MDIO_MCR,
        mac::MDIO_MWD,
        mac::UAW0,
        mac::FMI,
        mac::FFE,
        mac::AF0,
        mac::AM0,
        mac::MULTICAST,
        mac::IFGP,
    ]);
    prop_oneof![9 => known, 1 => (0..MAC_LEN / 4).prop_map(|i| i * 4)]
}

/// Addresses of descriptors, control words, small numbers, anything.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => (0..RING).prop_map(|i| Bench::tx(i) as u32),
        3 => (0..RING).prop_map(|i| Bench::rx(i) as u32),
        3 => (0u32..256, 0u32..256).prop_map(|(t, d)| run(t, d)),
        1 => Just(0),
        1 => 0u32..64,
        1 => any::<u32>(),
        1 => Just(!0),
    ]
}

/// Often a descriptor that makes some sense.
fn descriptor() -> impl Strategy<Value = Vec<u32>> {
    let next = prop_oneof![8 => (0..2 * RING).prop_map(|i| TX_RING as u32 + i as u32 * 64), 1 => any::<u32>()];
    let buffer = prop_oneof![8 => 0u32..MEMORY as u32, 1 => any::<u32>()];
    let control = (prop_oneof![4 => 0u32..3000, 1 => 0u32..0x80_0000], 0u32..4).prop_map(|(n, f)| n | f << 26);
    let status = prop_oneof![9 => Just(0u32), 1 => any::<u32>()];
    (next, buffer, control, status, prop::collection::vec(any::<u32>(), 5)).prop_map(|(n, b, c, s, app)| {
        let mut words = vec![n, 0, b, 0, 0, 0, c, s];
        words.extend(app);
        words
    })
}

fn act() -> impl Strategy<Value = Act> {
    let size = prop::sample::select(vec![1u8, 2, 4, 8]);
    prop_oneof![
        8 => (dma_offset(), value()).prop_map(|(r, v)| Act::Dma(r, v)),
        3 => (mac_offset(), prop_oneof![any::<u32>(), (0u32..32).prop_map(|b| 1 << b)]).prop_map(|(r, v)| Act::Mac(r, v)),
        1 => (0u8..3, any::<u32>(), any::<u64>(), size).prop_map(|(n, o, v, s)| Act::Wide(n, o, v, s)),
        1 => (0u8..2, mac_offset()).prop_map(|(n, o)| Act::Read(n, o)),
        4 => (0..2 * RING, descriptor()).prop_map(|(i, d)| Act::Memory(TX_RING + i * 64, d)),
        3 => (0u16..10_000).prop_map(Act::Frame),
        3 => (0u32..2_000_000).prop_map(Act::Time),
        1 => any::<bool>().prop_map(Act::Cable),
        1 => prop::option::of(0u64..0x8000).prop_map(Act::Trap),
    ]
}

fn configs() -> impl Strategy<Value = Config> {
    (0u32..2, any::<bool>(), 0u32..3).prop_map(|(wide, realign, sums)| {
        let sums = [Checksum::None, Checksum::Partial, Checksum::Full][sums as usize];
        Config {
            address_bits: 32 + wide * 8,
            realign,
            tx_memory: 4096,
            rx_memory: 8192,
            tx_checksum: sums,
            rx_checksum: sums,
            phy_reset: Span::from_us(3),
            negotiation: Span::from_us(2),
            extended_multicast: true,
            ..Config::ZYNQMP
        }
    })
}

/// Lets it work for a while, in which there is only so much that it can do.
fn work(b: &mut Bench, span: Span) {
    let until = b.now + span;
    let before = b.p.reads.len() + b.p.writes.len();
    let mut steps = 0u64;
    while let Some(due) = b.d.next_due().filter(|t| *t <= until) {
        b.now = b.now.max(due);
        b.d.advance(&mut b.p, b.now);
        assert!(b.d.next_due().is_none_or(|t| t > b.now), "what was due has been done");
        steps += 1;
    }
    b.at(until);
    // Ten clocks a descriptor, and each has a fetch, its data and an update, on two channels; a few for the rest.
    let clocks = span.ps() / 8000;
    let accesses = (b.p.reads.len() + b.p.writes.len() - before) as u64;
    assert!(accesses <= clocks + 100 && steps <= clocks * 2 + 1000, "{accesses} accesses, {steps} steps in {clocks}");
}

fn play(cfg: Config, acts: &[Act], slow: bool, wraps: bool) {
    let mut b = Bench::up(cfg);
    b.p.wraps = wraps;
    if slow {
        (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
    }
    for i in 0..RING {
        b.piece(0x8000 + i * 256, 200, (i as u32 % 4) << 26);
    }
    b.post(0, 40, 512);
    for a in acts {
        match a {
            Act::Dma(r, v) => b.put(*r, *v),
            Act::Mac(r, v) => b.put_mac(*r, *v),
            Act::Wide(region, offset, v, size) => {
                let r = Reg { region: *region, offset: *offset };
                b.d.mmio_write(&mut b.p, b.now, r, *size, *v);
                b.d.advance(&mut b.p, b.now);
                b.d.mmio_read(&mut b.p, b.now, r, *size);
            }
            Act::Read(region, offset) => drop(b.read(*region, *offset)),
            Act::Memory(at, words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                b.fill(*at, &bytes);
            }
            Act::Frame(len) => drop(b.receive(&frame(usize::from(*len).max(14))[..usize::from(*len)])),
            Act::Time(ns) => work(&mut b, Span::from_ns((*ns).into())),
            Act::Cable(plugged) => b.d.set_cable(b.now, *plugged),
            Act::Trap(at) => b.p.trap = at.map(|at| (at, DmaFaultKind::Injected)),
        }
        assert!(b.d.next_due().is_none_or(|t| t >= b.now), "nothing is overdue");
        assert!(b.d.rx_memory_used() <= cfg.rx_memory as usize);
    }
    work(&mut b, Span::from_ms(1));
    // Back to life.
    b.d.set_cable(b.now, true);
    b.p.trap = None;
    b.p.wraps = false;
    b.put(MM2S + dma::CR, cr::RESET);
    assert!((0..3).all(|n| !b.d.line(n)));
    let before = b.p.reads.len() + b.p.writes.len();
    work(&mut b, Span::from_ms(1));
    assert_eq!(b.p.reads.len() + b.p.writes.len(), before, "no DMA after a reset");
    b.p.memory.fill(0);
    b.bring_up(run(1, 0), run(1, 0));
    let (sent, got) = (b.p.frames.len(), b.d.counters.rx_packets);
    b.post(0, 8, 512);
    b.send(&frame(100));
    assert_eq!(b.receive(&frame(200)), Taken::Yes);
    b.settle();
    assert_eq!(b.sent()[sent..], [frame(100)]);
    assert_eq!((b.d.counters.rx_packets, b.received(0, 200)), (got + 1, &frame(200)[..]));
    assert_eq!(b.d.rx_memory_used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_goes_and_reset_recovers(
        acts in prop::collection::vec(act(), 0..120), cfg in configs(), slow: bool, wraps: bool,
    ) {
        play(cfg, &acts, slow, wraps);
    }

    #[test]
    fn advancing_more_often_changes_nothing(
        lengths in prop::collection::vec((60usize..1514, 0u64..30_000), 1..20), steps in 1u64..7,
    ) {
        let play = |steps: u64| {
            let mut b = Bench::new(Config::ZYNQMP);
            (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
            b.bring_up(run(5, 3), run(4, 6));
            b.put_mac(mac::IE, int::TX_COMPLETE | int::RX_COMPLETE);
            b.post(0, 60, 700);
            let mut t = b.now;
            for (i, &(len, gap)) in lengths.iter().enumerate() {
                b.queue_frame(0x8000 + i as u64 * 2048, &frame(len), [0; 3]);
                b.kick();
                b.receive(&frame(len));
                for s in 1..=steps {
                    b.at(t + Span::from_ns(gap * s / steps));
                }
                t = b.now;
            }
            b.after(Span::from_ms(2));
            (b.p.reads, b.p.writes, b.p.frames, b.p.lines, b.d.counters)
        };
        prop_assert_eq!(play(1), play(steps));
    }

    /// What is sent is what was queued, whatever the pieces; and what is received is what arrived.
    #[test]
    fn bytes_come_through(
        pieces in prop::collection::vec((1usize..900, 0u64..64), 1..12), size in 64u32..1600, slow: bool,
    ) {
        let mut b = Bench::up(Config { tx_checksum: Checksum::None, ..Config::ZYNQMP });
        if slow {
            (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
        }
        b.put_mac(mac::TC, tc::TX | tc::JUMBO);
        b.put_mac(mac::RCW1, rcw1::RX | rcw1::JUMBO);
        let len: usize = pieces.iter().map(|p| p.0).sum();
        let f = frame(len.max(60));
        let (mut at, mut start) = (0x2_0000, 0);
        for (i, &(n, skew)) in pieces.iter().enumerate() {
            let last = i + 1 == pieces.len();
            let n = if last { f.len() - start } else { n };
            at += skew;
            b.fill(at, &f[start..start + n]);
            let flags = if i == 0 { Descriptor::SOF } else { 0 } | if last { Descriptor::EOF } else { 0 };
            b.piece(at, n, flags);
            (at, start) = (at + n as u64, start + n);
        }
        b.kick();
        b.settle();
        prop_assert_eq!(b.sent(), vec![f.clone()]);
        let needed = f.len().div_ceil(size as usize) as u64;
        prop_assume!(needed < RING);
        b.post(0, needed, size);
        b.receive(&f);
        b.settle();
        let got: Vec<u8> = (0..needed)
            .flat_map(|i| b.received(i, (b.status_of(Bench::rx(i)) & Descriptor::LENGTH) as usize).to_vec())
            .collect();
        prop_assert_eq!(&got, &f);
        prop_assert_eq!(b.desc(Bench::rx(needed - 1)).app[4].get() as usize, f.len());
    }
}

#[test]
fn an_outside_reset_leaves_nothing_pending() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.post(0, 8, 1600);
    b.put_mac(mac::IE, !0);
    b.send(&frame(1000));
    b.receive(&frame(60));
    b.after(Span::from_us(1));
    b.d.reset(&mut b.p, b.now);
    assert_eq!(b.d.next_due(), None);
    assert!((0..3).all(|n| !b.d.line(n)));
    let before = (b.p.reads.len(), b.p.writes.len(), b.p.frames.len());
    b.after(Span::from_ms(100));
    assert_eq!((b.p.reads.len(), b.p.writes.len(), b.p.frames.len()), before);
    b.bring_up(run(1, 0), run(1, 0));
    b.send(&frame(60));
    b.settle();
    assert_eq!(b.sent().last(), Some(&frame(60)));
}

#[test]
fn a_descriptor_of_8_megabytes_is_read_in_pages_and_dropped() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.p.wraps = true;
    b.piece(0x8000, 0x7f_ffff, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (0, 1));
    assert!(b.p.reads.iter().all(|r| r.2 <= 4096));
    assert_eq!(b.d.counters.data_read_bytes, 0x7f_ffff);
}
