//! mlx5's receive queues, driver and device: every frame comes up, in every order of stores, over
//! queues that the hash decides, and again after a queue has failed.

use doorbell_bus::pcie::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity};
use doorbell_conformance::mlx5::SMALL_RQ;
use doorbell_devices::mlx5::Compress;
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::mlx5::{Channel, Config, Hca, Recycling, RqConfig, Sizing, queue_of};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Verdict};
use doorbell_hal::{Buf, Device, Host, Mapped, RxVerdict, Span};
use doorbell_layout::mlx5::{Caps, CompressionLayout};
use doorbell_packet::Packet;
use doorbell_packet::toeplitz::{MICROSOFT, Toeplitz};
use doorbell_sim::traffic::{flow_headers, udp};
use doorbell_systems::mlx5::Board;
use doorbell_testkit::reorder::{Order, Reorder};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

type Cpu = Reorder<Board>;
type Channels = Vec<Channel<Rc<RefCell<Hca>>>>;

/// Keeps the frames that come up. The program, if it is asked, decides by a frame's number.
pub(crate) struct Up {
    packets: Vec<(Packet, bool)>,
    program: fn(u32) -> Verdict,
}

impl Up {
    pub(crate) fn with(program: fn(u32) -> Verdict) -> Up {
        Up { packets: Vec::new(), program }
    }
}

/// Returns what the program does with frame `n`.
fn verdict(n: u32) -> Verdict {
    [Verdict::Pass, Verdict::Drop, Verdict::Send][n as usize % 3]
}

impl Sink for Up {
    fn sent(&mut self, _: Buf, _: u32, _: bool) {
        unreachable!("nothing was sent");
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.packets.push((p, verified));
    }
    fn program<H: Host>(&mut self, h: &mut H, page: &Mapped, at: Range<u32>) -> Verdict {
        h.bytes_mut(page.buf(), at, |frame| {
            let n = u32::from_be_bytes(frame[46..50].try_into().unwrap());
            let verdict = (self.program)(n);
            match verdict {
                Verdict::Send => frame[46] = 0xff,
                Verdict::Redirect => frame[46] = 0xfe,
                Verdict::Pass | Verdict::Drop => {}
            }
            verdict
        })
    }
}

pub(crate) struct Bench {
    pub(crate) h: Cpu,
    hca: Rc<RefCell<Hca>>,
    pub(crate) channels: Channels,
    pub(crate) mac: [u8; 6],
    pub(crate) program: fn(u32) -> Verdict,
}

impl Bench {
    fn new(order: Order, queues: u16) -> Bench {
        Bench::made(Nic::CONNECTX, order, queues)
    }

    fn made(nic: Nic, order: Order, queues: u16) -> Bench {
        Bench::with(nic, order, queues, SMALL_RQ)
    }

    fn with(nic: Nic, order: Order, queues: u16, rq: RqConfig) -> Bench {
        let config = Config { rq: Some(rq), log_sq: 6, ..Config::DEFAULT };
        Bench::on(nic, order, queues, &config)
    }

    pub(crate) fn on(nic: Nic, order: Order, queues: u16, config: &Config) -> Bench {
        let platform = Platform::new(1 << 32, 64 << 20, ProtectionGranularity::Byte);
        let latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
        let rules = Rules::new(Settings::link(3, 16)).unwrap();
        let pcie = Pcie::new(platform, rules, latencies, 0x3c_0000_0000);
        let machine = Machine::new(pcie, Mlx5::new(nic), Costs::FREE, 1);
        let mut h = Reorder::new(machine, order);
        let hca = Rc::new(RefCell::new(Hca::open(&mut h).unwrap()));
        let channels = (0..queues).map(|vector| {
            let second = config.second.map(|first| first + vector);
            let config = Config { vector, second, ..*config };
            Channel::open(&mut h, Rc::clone(&hca), &config).unwrap()
        });
        let channels = channels.collect();
        let mac = hca.borrow().mac();
        Bench { h, hca, channels, mac, program: verdict }
    }

    /// A frame arrives now. Returns whether the device took it.
    pub(crate) fn arrives(&mut self, frame: &[u8]) -> bool {
        self.h.inner.outside(|d, bus, at| d.receive(bus, at, frame)) == RxVerdict::Yes
    }

    /// Runs the queues until nothing is due. Returns the frames that came up, with their queues.
    pub(crate) fn run(&mut self) -> Vec<(usize, Vec<u8>, bool)> {
        let mut all = Vec::new();
        for _ in 0..200 {
            (0..20).for_each(|_| self.h.relax());
            let queues = self.channels.len();
            // Of two ports each channel has a vector.
            for vector in 0..2 * queues as u16 {
                let (i, h) = (usize::from(vector) % queues, &mut self.h);
                let (channel, p) = (&mut self.channels[i], h.inner.bus.platform_mut());
                if p.take_message(vector).is_none() || channel.interrupt(h, vector) != Irq::Poll {
                    continue;
                }
                let mut up = Up::with(self.program);
                let end = loop {
                    match channel.poll(&mut self.h, 4, &mut up) {
                        Poll::Again => {}
                        end => break end,
                    }
                };
                for (p, verified) in up.packets {
                    let (start, len) = (p.head.start, p.head.len);
                    let bytes = self.h.bytes(&p.head.buf, start..start + len, <[u8]>::to_vec);
                    all.push((i, bytes, verified));
                    p.release(&mut self.h);
                }
                if end == Poll::Work {
                    channel.work(&mut self.h);
                }
            }
        }
        all
    }

    pub(crate) fn close(self) -> Vec<doorbell_drivers::mlx5::Stats> {
        let Bench { mut h, hca, channels, .. } = self;
        let stats = channels.into_iter().map(|c| c.close(&mut h)).collect();
        Rc::into_inner(hca).unwrap().into_inner().close(&mut h);
        let platform = h.into_inner().bus.into_platform();
        let l = platform.ledger;
        assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released));
        stats
    }
}

/// The frame of a flow, told from others by its payload.
pub(crate) fn frame(mac: [u8; 6], flow: u16, n: u32) -> Vec<u8> {
    let mut f = udp(mac, [2, 0, 0, 0, 0, 9], 60 + n % 1000, false);
    f[..42][14..].copy_from_slice(&flow_headers(flow)[14..]);
    let len = f.len();
    f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    f[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    f[24..26].fill(0);
    let check = doorbell_packet::checksum::Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f[46..50].copy_from_slice(&n.to_be_bytes());
    f
}

#[test]
fn every_frame_comes_up_in_every_order_of_stores() {
    for order in [Order::Late, Order::Overtaken].into_iter().chain((0..10).map(Order::Random)) {
        let mut b = Bench::new(order, 1);
        let (mut sent, mut came) = (Vec::new(), Vec::new());
        // More than the ring has, in bursts that it holds.
        for burst in 0..12 {
            for i in 0..24 {
                let f = frame(b.mac, 1, burst * 24 + i);
                assert!(b.arrives(&f), "{order:?}: frame {i} of burst {burst}");
                sent.push(f);
            }
            came.extend(b.run());
        }
        assert!(came.iter().all(|(_, _, verified)| *verified), "{order:?}");
        let came: Vec<Vec<u8>> = came.into_iter().map(|c| c.1).collect();
        assert_eq!(came, sent, "{order:?}");
        let stats = b.close();
        assert_eq!((stats[0].rx_packets, stats[0].rx_cqe_stray, stats[0].rx_left), (288, 0, 0));
    }
}

#[test]
fn the_hash_decides_the_queue_and_other_addresses_are_not_ours() {
    let key = Toeplitz::new(&MICROSOFT);
    for queues in [1, 3, 6] {
        let mut b = Bench::new(Order::Late, queues);
        let mut expected = vec![0; usize::from(queues)];
        for flow in 0..20 {
            let f = frame(b.mac, flow, u32::from(flow));
            assert!(b.arrives(&f));
            expected[queue_of(key.flow(&f), usize::from(queues))] += 1;
        }
        assert!(!b.arrives(&frame([2, 1, 1, 1, 1, 1], 0, 0)), "another's address");
        assert!(b.arrives(&frame([0xff; 6], 0, 0)), "broadcast");
        let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9, 8, 6], &[0; 46]].concat();
        assert!(b.arrives(&arp), "what is not IP comes to the first queue");
        let mut came = vec![0; usize::from(queues)];
        let all = b.run();
        all.iter().filter(|c| c.1[..6] == b.mac).for_each(|c| came[c.0] += 1);
        assert_eq!(came, expected);
        assert_eq!(all.len(), 22);
        assert!(all.iter().any(|c| c.0 == 0 && c.1 == arp));
        b.close();
    }
}

#[test]
fn frames_that_find_no_buffer_are_lost_and_the_rest_comes_up() {
    let mut b = Bench::new(Order::Late, 1);
    let taken = (0..40).filter(|n| b.arrives(&frame(b.mac, 0, *n))).count();
    assert_eq!(taken, 32, "the WQEs of the ring");
    assert_eq!(b.run().len(), 32);
    let lost = b.h.inner.device.received().out_of_buffer;
    assert_eq!(lost, 8);
    assert_eq!(b.close()[0].rx_packets, 32);
}

/// A queue whose frame was too long for its buffer is in error, and is started again.
#[test]
fn a_queue_that_failed_is_started_again() {
    let mut b = Bench::new(Order::Overtaken, 2);
    let long = udp(b.mac, [2, 0, 0, 0, 0, 9], 3000, false);
    assert!(b.arrives(&long));
    assert_eq!(b.run().len(), 0);
    for n in 0..30 {
        assert!(b.arrives(&frame(b.mac, n as u16, n)), "frame {n}");
    }
    assert_eq!(b.run().len(), 30);
    let stats = b.close();
    let sum = |f: fn(&doorbell_drivers::mlx5::Stats) -> u64| stats.iter().map(f).sum::<u64>();
    assert_eq!((sum(|s| s.rx_recover), sum(|s| s.rx_packets)), (1, 30));
    assert!(sum(|s| s.rx_wqe_err) >= 1);
}

/// Frames beyond those that may have a WQE wait in the FIFO, and are lost there.
#[test]
fn what_the_bus_does_not_take_away_is_lost_in_the_fifo() {
    let nic = Nic { writes_outstanding: 8, rx_fifo: 24 * 60, ..Nic::CONNECTX };
    let mut b = Bench::made(nic, Order::Late, 1);
    // Nothing runs between them, so none goes to memory.
    let frames: Vec<Vec<u8>> = (0..32).map(|n| frame(b.mac, 0, n * 1000)).collect();
    let taken = frames.iter().filter(|f| b.arrives(f)).count();
    assert_eq!(taken, 24, "those that the FIFO holds");
    let came: Vec<Vec<u8>> = b.run().into_iter().map(|c| c.1).collect();
    assert_eq!(came, frames[..24]);
    let n = b.h.inner.device.received();
    assert_eq!((n.fifo_full, n.out_of_buffer), (8, 0));
    b.close();
}

/// A page a frame, for a program.
pub(crate) const PAGES: RqConfig = RqConfig { align: 4096, headroom: 256, xdp: true, ..SMALL_RQ };

/// Frames that pass come up, those that are sent back leave as the program made them, in order, and
/// pages go round: none is mapped for a frame but those that pass.
#[test]
fn a_program_passes_drops_and_sends_frames_from_their_pages() {
    let orders = [Order::Late, Order::Overtaken].into_iter().chain((0..6).map(Order::Random));
    for (order, mpwqe) in orders.flat_map(|order| [(order, true), (order, false)]) {
        let config = Config { rq: Some(PAGES), log_sq: 6, mpwqe, ..Config::DEFAULT };
        let mut b = Bench::on(Nic::CONNECTX, order, 1, &config);
        b.h.inner.bus.sink_mut().start();
        let (mut came, mut passed, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..24 * 9 {
            let mut f = frame(b.mac, 1, n);
            assert!(b.arrives(&f), "{order:?}: frame {n}");
            match verdict(n) {
                Verdict::Pass => passed.push(f),
                Verdict::Drop => {}
                _ => {
                    f[46] = 0xff;
                    sent.push(f);
                }
            }
            if n % 24 == 23 {
                came.extend(b.run().into_iter().map(|c| c.1));
            }
        }
        assert_eq!(came, passed, "{order:?}");
        let mut left = Vec::new();
        let drained = b.h.inner.bus.sink_mut().drain(|_, f| {
            left.push(f.to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!((drained, left), (Ok(()), sent), "{order:?}");
        let s = b.close()[0];
        assert_eq!((s.rx_packets, s.rx_xdp_drop, s.rx_xdp_tx_xmit), (72, 72, 72), "{order:?}");
        assert_eq!((s.rx_xdp_tx_full, s.packets, s.cqe_stray), (0, 72, 0), "{order:?}");
        assert_eq!((s.mpwqe_pkts, s.xmit_more), (72 * u64::from(mpwqe), 0), "{order:?}");
        // Those of the ring at first, those that a burst sends, and one for each that left with its
        // frame.
        assert!(s.rx_cache_empty <= 32 + 8 + 72, "{order:?}: {}", s.rx_cache_empty);
        assert_eq!(s.rx_cache_reuse + s.rx_cache_empty, 32 + 216, "{order:?}");
    }
}

/// Holds what is sent against a slow wire. Frames beyond the queue's room are dropped, and counted.
#[test]
fn what_the_send_queue_has_no_room_for_is_dropped() {
    // 4 us a byte: a frame takes about as long as all that is done for a burst.
    let nic = Nic { wire_byte_1024th_ps: 1024 * 4_000_000, ..Nic::CONNECTX };
    for mpwqe in [true, false] {
        let config = Config { rq: Some(PAGES), log_sq: 6, mpwqe, ..Config::DEFAULT };
        let mut b = Bench::on(nic, Order::Late, 1, &config);
        for burst in 0..5 {
            for n in 0..24 {
                assert!(b.arrives(&frame(b.mac, 1, 3 * (24 * burst + n) + 2)));
            }
            b.run();
        }
        let s = b.close()[0];
        assert!(s.rx_xdp_tx_full > 0, "{s:?}");
        assert_eq!(s.rx_xdp_tx_xmit + s.rx_xdp_tx_full, 120, "{s:?}");
        assert!(mpwqe || s.rx_xdp_tx_xmit >= 64, "a queue of 64 blocks: {s:?}");
    }
}

/// From 128 frames under way on, sessions hold short frames themselves. All leave whole, and in
/// order.
#[test]
fn short_frames_are_copied_into_sessions_while_many_are_under_way() {
    let orders = [Order::Late, Order::Overtaken, Order::Random(1)];
    let sizes = [(Sizing::Padded, 1024), (Sizing::Fit, 1024), (Sizing::Fit, 256)];
    for (order, (sizing, max_wqe_sz_sq)) in
        orders.into_iter().flat_map(|order| sizes.map(|sizes| (order, sizes)))
    {
        let caps = Caps { max_wqe_sz_sq, ..Nic::CONNECTX.caps };
        let nic = Nic { wire_byte_1024th_ps: 1024 * 120_000, caps, ..Nic::CONNECTX };
        let config = Config { rq: Some(PAGES), sizing, ..Config::DEFAULT };
        let mut b = Bench::on(nic, order, 1, &config);
        b.h.inner.bus.sink_mut().start();
        let mut sent = Vec::new();
        for n in 0..24 * 40 {
            let mut f = frame(b.mac, 1, 3 * (n % 80) + 2);
            assert!(b.arrives(&f), "{order:?} {sizing:?} {max_wqe_sz_sq}: frame {n}");
            f[46] = 0xff;
            sent.push(f);
            if n % 24 == 23 {
                b.run();
            }
        }
        let mut left = Vec::new();
        for _ in 0..100 {
            b.run();
            let drained = b.h.inner.bus.sink_mut().drain(|_, f| {
                left.push(f.to_vec());
                Ok::<(), ()>(())
            });
            assert_eq!(drained, Ok(()), "{order:?} {sizing:?} {max_wqe_sz_sq}");
        }
        assert!(
            left == sent,
            "{order:?} {sizing:?} {max_wqe_sz_sq}: {} of {}",
            left.len(),
            sent.len()
        );
        let short = sent.iter().filter(|f| f.len() <= 252).count() as u64;
        let s = b.close()[0];
        assert_eq!(
            (s.rx_xdp_tx_xmit, s.mpwqe_pkts, s.cqe_stray),
            (960, 960, 0),
            "{order:?} {sizing:?} {max_wqe_sz_sq}"
        );
        let copied = s.rx_xdp_tx_inlnw;
        assert!(
            copied > 0 && copied <= short,
            "{order:?} {sizing:?} {max_wqe_sz_sq}: {copied} of {short} short ones"
        );
    }
}

/// Four WQEs of 128 strides of 2 KiB, of which one stays free.
const SHARED: RqConfig =
    RqConfig { log_size: 9, log_stride: Some(11), compression: true, ..SMALL_RQ };
const LAYOUTS: [Option<CompressionLayout>; 3] =
    [None, Some(CompressionLayout::Basic), Some(CompressionLayout::Enhanced)];

/// A device that compresses whenever it can.
fn sharing(compression: Option<CompressionLayout>) -> Nic {
    let caps = Caps { striding: true, compression, ..Nic::CONNECTX.caps };
    let compress = Compress { pressure: 0, wait: Span::from_us(2), most: 20 };
    Nic { caps, compress, ..Nic::CONNECTX }
}

/// Frames that share WQEs come up whole, and in order, over many laps of the list.
#[test]
fn every_frame_comes_up_from_shared_wqes() {
    for (layout, order) in LAYOUTS.into_iter().flat_map(|l| {
        [Order::Late, Order::Overtaken, Order::Random(1)].into_iter().map(move |o| (l, o))
    }) {
        let mut b = Bench::with(sharing(layout), order, 1, SHARED);
        b.run();
        let (mut sent, mut came) = (Vec::new(), Vec::new());
        for burst in 0..40 {
            for i in 0..60 {
                let f = frame(b.mac, 1, burst * 60 + i);
                assert!(b.arrives(&f), "{layout:?} {order:?}: frame {i} of burst {burst}");
                sent.push(f);
            }
            came.extend(b.run());
        }
        assert!(came.iter().all(|(_, _, verified)| *verified), "{layout:?} {order:?}");
        let came: Vec<Vec<u8>> = came.into_iter().map(|c| c.1).collect();
        assert!(came == sent, "{layout:?} {order:?}: {} of {}", came.len(), sent.len());
        let (blocks, frames) =
            (b.h.inner.device.received().blocks, b.h.inner.device.received().block_packets);
        assert_eq!(blocks > 0, layout.is_some(), "{layout:?} {order:?}");
        let s = b.close()[0];
        assert_eq!((s.rx_packets, s.rx_cqe_stray, s.rx_malformed), (2400, 0, 0));
        assert_eq!(s.rx_cqe_compress_blks, blocks, "{layout:?} {order:?}");
        // The title of the enhanced layout is an entry as others are.
        let titles = if layout == Some(CompressionLayout::Enhanced) { blocks } else { 0 };
        assert_eq!(s.rx_cqe_compress_pkts, frames - titles, "{layout:?} {order:?}");
        // 2400 frames are 18 WQEs of 128 and one that is begun; three were there before.
        assert_eq!((s.rx_umrs, s.rx_umr_err), (3 + 18, 0), "{layout:?} {order:?}");
    }
}

/// A cyclic queue's entries are compressed, too.
#[test]
fn a_cyclic_queue_takes_compressed_entries() {
    for layout in LAYOUTS {
        let rq = RqConfig { compression: true, ..SMALL_RQ };
        let mut b = Bench::with(sharing(layout), Order::Late, 2, rq);
        let mut came = 0;
        for burst in 0..30 {
            (0..24).for_each(|n| assert!(b.arrives(&frame(b.mac, 1, burst * 24 + n))));
            came += b.run().len();
        }
        assert_eq!(came, 720, "{layout:?}");
        let s = b.close();
        assert_eq!(s.iter().map(|s| s.rx_cqe_stray).sum::<u64>(), 0, "{layout:?}");
    }
}

/// All WQEs but one are posted, and each has all of its strides.
#[test]
fn a_shared_queue_holds_its_strides() {
    for log_size in [9, 10, 11] {
        let rq = RqConfig { log_size, ..SHARED };
        let nic = Nic { rx_fifo: 1 << 30, writes_outstanding: 4096, ..sharing(None) };
        let mut b = Bench::with(nic, Order::Late, 1, rq);
        b.run();
        let f = frame(b.mac, 1, 0);
        let taken = (0..4000).filter(|_| b.arrives(&f)).count();
        assert_eq!(taken, ((1 << (log_size - 7)) - 1) * 128, "{log_size}");
        b.run();
        b.close();
    }
}

/// A program has a page for each frame, and pages that it drops stay in their WQE until that is
/// used up, by either order of recycling.
#[test]
fn a_program_has_pages_of_shared_wqes() {
    for recycling in [Recycling::Cache, Recycling::Pool] {
        let rq = RqConfig { log_size: 8, log_stride: Some(12), recycling, ..PAGES };
        let mut b = Bench::with(sharing(None), Order::Overtaken, 1, rq);
        b.run();
        b.h.inner.bus.sink_mut().start();
        let (mut came, mut passed, mut sent) = (Vec::new(), Vec::new(), 0);
        for n in 0..24 * 40 {
            let f = frame(b.mac, 1, n);
            assert!(b.arrives(&f), "{recycling:?}: frame {n}");
            match verdict(n) {
                Verdict::Pass => passed.push(f),
                Verdict::Drop => {}
                _ => sent += 1,
            }
            if n % 24 == 23 {
                came.extend(b.run().into_iter().map(|c| c.1));
            }
        }
        assert_eq!(came, passed, "{recycling:?}");
        let s = b.close()[0];
        assert_eq!((s.rx_packets, s.rx_xdp_drop, s.rx_xdp_tx_xmit), (320, 320, sent));
        // 960 frames are 15 WQEs of 64.
        assert_eq!((s.rx_umrs, s.rx_umr_err), (3 + 15, 0), "{recycling:?}");
        assert!(s.rx_cache_empty <= 4 * 64 + 8, "{recycling:?}: {}", s.rx_cache_empty);
    }
}

/// A frame longer than a WQE puts the queue in error; the list and the queue of UMRs begin anew.
#[test]
fn a_shared_queue_that_failed_is_started_again() {
    for layout in LAYOUTS {
        let nic = Nic { fail_every: 5, ..sharing(layout) };
        let mut b = Bench::with(nic, Order::Overtaken, 1, SHARED);
        let mut came = 0;
        for burst in 0..40 {
            (0..30).for_each(|n| _ = b.arrives(&frame(b.mac, 1, burst * 30 + n)));
            came += b.run().len();
        }
        let s = b.close()[0];
        assert!(came > 300 && s.rx_umr_err > 1 && s.rx_recover > 1, "{layout:?} {came} {s:?}");
    }
}
