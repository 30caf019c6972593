//! Frames that a program hands to mlx5's second port, driver and device: each leaves once, in
//! order, or is dropped and counted, and its page comes back.

use super::mlx5_received::{Bench, PAGES, Up, frame};
use doorbell_bus::Bus;
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config, Recycling, RqConfig};
use doorbell_drivers::{Driver, Poll, Verdict};
use doorbell_hal::Host;
use doorbell_layout::mlx5::Caps;
use doorbell_testkit::reorder::Order;

/// A card with two ports.
const CARD: Nic = Nic { caps: Caps { second_port: true, ..Nic::CONNECTX.caps }, ..Nic::CONNECTX };
/// A channel, and one of the second port at another vector.
const CHANNEL: Config = Config { rq: Some(PAGES), log_sq: 6, second: Some(1), ..Config::DEFAULT };

fn all(_: u32) -> Verdict {
    Verdict::Redirect
}

fn each(n: u32) -> Verdict {
    [Verdict::Pass, Verdict::Drop, Verdict::Send, Verdict::Redirect][n as usize % 4]
}

/// Takes the frames that left.
fn left(b: &mut Bench) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    let drained = b.h.inner.bus.sink_mut().drain(|_, f| {
        left.push(f.to_vec());
        Ok::<(), ()>(())
    });
    assert_eq!(drained, Ok(()));
    left
}

/// Frames leave at their ports as the program made them, in order at each, and pages go round. What
/// is mapped is unmapped at the end, and nothing is left (`close`).
#[test]
fn each_frame_leaves_once_at_its_port() {
    let orders = [Order::Late, Order::Overtaken].into_iter().chain((0..4).map(Order::Random));
    let kinds = [(true, Recycling::Cache), (false, Recycling::Cache), (false, Recycling::Pool)];
    for (order, (mpwqe, recycling)) in orders.flat_map(|o| kinds.map(|kind| (o, kind))) {
        let rq = Some(RqConfig { recycling, ..PAGES });
        let mut b = Bench::on(CARD, order, 1, &Config { rq, mpwqe, ..CHANNEL });
        b.program = each;
        b.h.inner.bus.sink_mut().start();
        let (mut came, mut passed, mut sent) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for n in 0..24 * 10 {
            let mut f = frame(b.mac, 1, n);
            assert!(b.arrives(&f), "{order:?}: frame {n}");
            match each(n) {
                Verdict::Pass => passed.push(f),
                Verdict::Drop => {}
                Verdict::Send => {
                    f[46] = 0xff;
                    sent[0].push(f);
                }
                Verdict::Redirect => {
                    f[46] = 0xfe;
                    sent[1].push(f);
                }
            }
            if n % 24 == 23 {
                came.extend(b.run().into_iter().map(|c| c.1));
            }
        }
        assert_eq!(came, passed, "{order:?}");
        let (first, second): (Vec<_>, Vec<_>) =
            left(&mut b).into_iter().partition(|f| f[46] == 0xff);
        assert_eq!([first, second], sent, "{order:?}");
        let s = b.close()[0];
        assert_eq!((s.rx_packets, s.rx_xdp_drop, s.rx_xdp_tx_xmit), (60, 60, 60), "{order:?}");
        assert_eq!((s.rx_xdp_redirect, s.tx_xdp_xmit, s.packets), (60, 60, 120), "{order:?}");
        assert_eq!((s.xdp_devmap_drops, s.tx_xdp_full, s.tx_xdp_err, s.cqe_stray), (0, 0, 0, 0));
        assert!(s.tx_xdp_cqes >= 10 && s.rx_xdp_tx_cqe >= 10, "{order:?}: {s:?}");
        assert_eq!(s.tx_xdp_mpwqe > 0, mpwqe, "{order:?}");
        assert_eq!(s.rx_cache_reuse + s.rx_cache_empty, 32 + 240, "{order:?}");
    }
}

/// A poll of 64 frames by hand. Bulks of 16 are sent when the next frame comes, and the last at the
/// end of the poll; only then the doorbell is rung, and the last WQE asks for a CQE. The driver of
/// 5.10 unmaps a frame from the receive queue, maps it for the second port, unmaps it when it has
/// left, and maps its page again: two of each for a frame, of which one is the second port's.
#[test]
fn a_poll_of_64_frames_has_one_doorbell() {
    // 58 frames have room in a session.
    for (mpwqe, wqes, sessions) in [(false, 64, 0), (true, 2, 2)] {
        let rq = RqConfig { log_size: 7, ..PAGES };
        let config = Config { rq: Some(rq), mpwqe, log_sq: 10, ..CHANNEL };
        let mut b = Bench::on(CARD, Order::Late, 1, &config);
        (0..64).for_each(|n| assert!(b.arrives(&frame(b.mac, 1, n % 8))));
        (0..40).for_each(|_| b.h.relax());
        let (ledger, before) = (*b.h.inner.ledger(), b.channels[0].stats());
        let mut up = Up::with(all);
        assert_eq!(b.channels[0].poll(&mut b.h, 64, &mut up), Poll::Again, "the weight is used up");
        let (l, s) = (*b.h.inner.ledger(), b.channels[0].stats());
        assert_eq!((s.rx_xdp_redirect, s.tx_xdp_xmit), (64, 64));
        assert_eq!(s.doorbells - before.doorbells, 1);
        assert_eq!((s.wqes - before.wqes, s.tx_xdp_mpwqe), (wqes, sessions));
        // 64 frames were unmapped and mapped again, and 64 new pages were mapped for the ring.
        assert_eq!((l.unmaps - ledger.unmaps, l.maps - ledger.maps), (64, 128));
        assert_eq!(s.rx_cache_empty - before.rx_cache_empty, 64);
        b.run();
        let (l2, s) = (*b.h.inner.ledger(), b.channels[0].stats());
        assert_eq!(s.tx_xdp_cqes, 1);
        assert_eq!((l2.unmaps - l.unmaps, l2.maps - l.maps), (64, 64), "all pages came back");
        b.close();
    }
}

/// Holds what is sent at the second port against a slow wire there. A bulk of which a frame has no
/// room is dropped from there on, and every frame is accounted for.
#[test]
fn what_the_second_port_has_no_room_for_is_dropped() {
    let nic = Nic { wire_byte_1024th_ps: 1024 * 4_000_000, ..CARD };
    for mpwqe in [true, false] {
        let mut b = Bench::on(nic, Order::Late, 1, &Config { mpwqe, ..CHANNEL });
        b.program = all;
        for burst in 0..5 {
            (0..24).for_each(|n| assert!(b.arrives(&frame(b.mac, 1, 24 * burst + n))));
            b.run();
        }
        let s = b.close()[0];
        assert_eq!((s.rx_xdp_redirect, s.tx_xdp_xmit + s.xdp_devmap_drops), (120, 120), "{s:?}");
        assert!(s.tx_xdp_full > 0 && s.xdp_devmap_drops > s.tx_xdp_full, "{s:?}");
        assert!(mpwqe || s.tx_xdp_xmit >= 64, "a queue of 64 blocks: {s:?}");
        assert_eq!((s.tx_xdp_err, s.rx_xdp_drop), (0, 0), "{s:?}");
    }
}

/// A WQE of the second port that fails stops its queue until it is made ready again, and the frames
/// behind it are dropped. The first port goes on.
#[test]
fn a_queue_of_the_second_port_that_failed_is_started_again() {
    let mut b = Bench::on(Nic { fail_every: 50, ..CARD }, Order::Overtaken, 1, &CHANNEL);
    b.program = each;
    let mut came = 0;
    for burst in 0..60 {
        (0..24).for_each(|n| assert!(b.arrives(&frame(b.mac, 1, 24 * burst + n))));
        came += b.run().len();
    }
    let s = b.close()[0];
    assert_eq!((came, s.rx_xdp_redirect), (360, 360));
    assert_eq!(s.rx_xdp_redirect, s.tx_xdp_xmit + s.xdp_devmap_drops);
    assert!(s.recover > 0 && s.cqe_err > 0 && s.tx_xdp_xmit > 200, "{s:?}");
}

/// Without a channel of the second port the program's verdict drops the frame.
#[test]
fn a_frame_without_a_second_port_is_dropped() {
    let mut b = Bench::on(CARD, Order::Late, 1, &Config { second: None, ..CHANNEL });
    b.program = all;
    (0..20).for_each(|n| assert!(b.arrives(&frame(b.mac, 1, n))));
    assert!(b.run().is_empty());
    let s = b.close()[0];
    assert_eq!((s.rx_xdp_drop, s.rx_xdp_redirect, s.packets), (20, 0, 0));
}
