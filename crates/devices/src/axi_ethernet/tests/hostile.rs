//! Whatever a driver writes: no panic, no access but through the port, bounded work,
//! and a reset brings it back.

use super::*;
use doorbell_layout::axienet::{DMA_LEN, MAC_LEN};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    /// A tail as a driver writes it.
    Tail(bool, u64),
    /// The driver's recovery from an error.
    Recover,
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

/// Control words that run, addresses of descriptors, small numbers, anything.
fn value() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => (0u32..256, 0u32..256).prop_map(|(t, d)| run(t, d)),
        2 => (0..RING).prop_map(|i| Bench::tx(i) as u32),
        2 => (0..RING).prop_map(|i| Bench::rx(i) as u32),
        1 => 0u32..64,
        1 => any::<u32>(),
    ]
}

/// Often with receiver and transmitter on.
fn mac_value() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => any::<u32>().prop_map(|v| v & !rcw1::RESET | rcw1::RX),
        1 => any::<u32>(),
        1 => (0u32..32).prop_map(|b| 1 << b),
    ]
}

/// Often a descriptor that makes some sense.
fn descriptor() -> impl Strategy<Value = Vec<u32>> {
    let buffer = prop_oneof![12 => 0x8000u32..MEMORY as u32, 1 => any::<u32>()];
    let length = prop_oneof![8 => 1u32..2000, 1 => 0u32..0x80_0000];
    let flags = prop_oneof![4 => Just(3u32), 2 => Just(2u32), 2 => Just(1u32), 1 => Just(0u32)];
    let status = prop_oneof![12 => Just(0u32), 1 => any::<u32>()];
    // Around the ring of 64, or anywhere in both.
    let next = prop_oneof![
        12 => Just(None),
        2 => (0..2 * RING).prop_map(|i| Some(TX_RING as u32 + i as u32 * 64)),
        1 => any::<u32>().prop_map(Some),
    ];
    (next, buffer, length, flags, status, prop::collection::vec(any::<u32>(), 5)).prop_map(
        |(n, b, len, f, s, app)| {
            let mut words = vec![n.unwrap_or(NEXT), 0, b, 0, 0, 0, len | f << 26, s];
            words.extend(app);
            words
        },
    )
}

/// The link to the next descriptor stays as it is.
const NEXT: u32 = u32::MAX;

fn act() -> impl Strategy<Value = Act> {
    let size = prop::sample::select(vec![1u8, 2, 4, 8]);
    let frame = prop_oneof![6 => 0u16..1515, 1 => 0u16..10_000];
    prop_oneof![
        6 => (any::<bool>(), 0..RING).prop_map(|(rx, i)| Act::Tail(rx, i)),
        1 => Just(Act::Recover),
        3 => (dma_offset(), value()).prop_map(|(r, v)| Act::Dma(r, v)),
        2 => (mac_offset(), mac_value()).prop_map(|(r, v)| Act::Mac(r, v)),
        1 => (0u8..3, any::<u32>(), any::<u64>(), size)
            .prop_map(|(n, o, v, s)| Act::Wide(n, o, v, s)),
        1 => (0u8..2, mac_offset()).prop_map(|(n, o)| Act::Read(n, o)),
        6 => (0..2 * RING, descriptor()).prop_map(|(i, d)| Act::Memory(i, d)),
        5 => frame.prop_map(Act::Frame),
        6 => (0u32..100_000).prop_map(Act::Time),
        1 => prop::bool::weighted(0.8).prop_map(Act::Cable),
        1 => prop::option::of(0u64..0x1_0000).prop_map(Act::Trap),
    ]
}

fn configs() -> impl Strategy<Value = Config> {
    (0u32..2, any::<bool>(), 0u32..3).prop_map(|(wide, realign, sums)| {
        let sums = [Checksum::None, Checksum::CsumPartial, Checksum::Full][sums as usize];
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

impl Bench {
    /// All descriptors of both rings: frames in one or two pieces to send, and buffers; no tails.
    fn give(&mut self) {
        for i in 0..RING {
            let flags = [Descriptor::SOF, Descriptor::EOF, Descriptor::SOF | Descriptor::EOF]
                [i as usize % 3];
            self.piece(0x8000 + i * 256, 200, flags);
            let mut d = self.desc(Bench::rx(i));
            d.buffer.set((BUFFERS + i * 2048) as u32);
            d.control.set(512);
            self.set(Bench::rx(i), d);
        }
    }
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
    // Ten clocks a descriptor, and each has a fetch, its data and an update, on two channels; a few
    // for the rest.
    let clocks = span.ps() / 8000;
    let accesses = (b.p.reads.len() + b.p.writes.len() - before) as u64;
    assert!(
        accesses <= clocks + 100 && steps <= clocks * 2 + 1000,
        "{accesses} accesses, {steps} steps in {clocks}"
    );
}

fn play(cfg: Config, acts: &[Act], slow: bool, wraps: bool) {
    let mut b = Bench::up(cfg);
    b.p.wraps = wraps;
    if slow {
        (b.p.read_time, b.p.write_time) = (Span::from_ns(700), Span::from_ns(1200));
    }
    b.give();
    for a in acts {
        match a {
            Act::Tail(rx, i) => b.tail(
                if *rx { S2MM } else { MM2S },
                if *rx { Bench::rx(*i) } else { Bench::tx(*i) },
            ),
            Act::Recover => {
                b.put(S2MM + dma::CR, cr::RESET);
                work(&mut b, Span::from_us(10));
                b.bring_up(run(2, 4), run(3, 5));
                b.give();
            }
            Act::Dma(r, v) => b.put(*r, *v),
            Act::Mac(r, v) => b.put_mac(*r, *v),
            Act::Wide(region, offset, v, size) => {
                let r = Reg { region: *region, offset: *offset };
                b.d.mmio_write(&mut b.p, b.now, r, *size, *v);
                b.d.advance(&mut b.p, b.now);
                b.d.mmio_read(&mut b.p, b.now, r, *size);
            }
            Act::Read(region, offset) => drop(b.read(*region, *offset)),
            Act::Memory(i, words) => {
                let ring = if *i < RING { TX_RING } else { RX_RING };
                let place = i % RING;
                let next = (ring + (place + 1) % RING * 64) as u32;
                let words = words.iter().map(|w| if *w == NEXT { next } else { *w });
                let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
                b.fill(ring + place * 64, &bytes);
            }
            Act::Frame(len) => {
                let _ = b.receive(&frame(usize::from(*len).max(14))[..usize::from(*len)]);
            }
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
    assert_eq!(b.receive(&frame(200)), RxVerdict::Yes);
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

    /// The device sends what was queued, whatever the pieces, and receives what arrived.
    #[test]
    fn bytes_come_through(
        pieces in prop::collection::vec((1usize..900, 0u64..64), 1..12),
        size in 64u32..1600,
        slow: bool,
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
            let flags = if i == 0 { Descriptor::SOF } else { 0 }
                | if last { Descriptor::EOF } else { 0 };
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
            .flat_map(|i| {
                let len = b.status_of(Bench::rx(i)) & Descriptor::LENGTH;
                b.received(i, len as usize).to_vec()
            })
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
fn bits_of_a_length_that_the_engine_lacks_are_ignored() {
    for (bits, long) in [(14, 1 << 14), (16, 1 << 16), (23, 1 << 23), (25, 1 << 25)] {
        let mut b = Bench::up(Config { length_bits: bits, ..Config::ZYNQMP });
        b.fill(0x8000, &frame(74));
        b.piece(0x8000, 74 + long, Descriptor::SOF | Descriptor::EOF);
        b.kick();
        b.settle();
        assert_eq!(b.sent(), [frame(74)], "{bits} bits");
    }
}

#[test]
fn a_descriptor_of_8_megabytes_is_read_in_pages_and_dropped() {
    let mut b = Bench::up(Config { length_bits: 26, ..Config::ZYNQMP });
    b.p.wraps = true;
    b.piece(0x8000, 0x7f_ffff, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!((b.sent().len(), b.d.counters.tx_discarded), (0, 1));
    assert!(b.p.reads.iter().all(|r| r.2 <= 4096));
    assert_eq!(b.d.counters.data_read_bytes, 0x7f_ffff);
}
