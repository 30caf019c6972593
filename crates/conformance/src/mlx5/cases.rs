//! Cases of driver and device together, for every backend.

use super::Backend;
use super::traffic::Spec;
use crate::packets::TestSink;
use doorbell_devices::mlx5::Counters;
use doorbell_drivers::mlx5::{Channel, Config, Hca, Stats};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_testkit::LeakCheckHost;
use std::cell::RefCell;
use std::rc::Rc;

/// The result of traffic.
#[derive(Debug)]
pub struct Came {
    /// The frames on the wire, in order.
    pub frames: Vec<Vec<u8>>,
    /// The driver's counters.
    pub driver: Stats,
    /// The device's.
    pub device: Counters,
}

/// A channel on a backend with leak checks.
#[derive(Debug)]
pub struct Running<A> {
    /// The backend.
    pub host: LeakCheckHost<A>,
    /// The driver.
    pub channel: Channel<Rc<RefCell<Hca>>>,
    hca: Rc<RefCell<Hca>>,
    /// Returned buffers.
    pub returned: TestSink,
    vector: u16,
}

impl<A: Backend> Running<A> {
    /// Opens a channel.
    pub fn open(host: A, config: Config) -> Running<A> {
        let mut host = LeakCheckHost::new(host);
        host.keep_frames();
        let hca = Rc::new(RefCell::new(Hca::open(&mut host).expect("a function")));
        let channel = Channel::open(&mut host, Rc::clone(&hca), &config).expect("a channel");
        Running { host, channel, hca, returned: TestSink::default(), vector: config.vector }
    }

    /// Interrupts, polls and deferred work, until nothing moves any more.
    pub fn service(&mut self) {
        loop {
            self.host.settle();
            if !self.host.interrupted(self.vector) {
                return;
            }
            if self.channel.interrupt(&mut self.host, self.vector) != Irq::Poll {
                continue;
            }
            loop {
                match self.channel.poll(&mut self.host, 64, &mut self.returned) {
                    Poll::Again => {}
                    Poll::Idle => break,
                    Poll::Work => {
                        self.channel.work(&mut self.host);
                        break;
                    }
                }
            }
        }
    }

    /// Returns true if the driver's queue is stopped.
    pub fn stopped(&self) -> bool {
        Driver::<LeakCheckHost<A>>::stopped(&self.channel)
    }

    /// Closes the channel; nothing is left behind.
    pub fn close(self) {
        let Running { mut host, channel, hca, mut returned, .. } = self;
        channel.close(&mut host);
        Rc::into_inner(hca).expect("no other channel").into_inner().close(&mut host);
        returned.release_sent(&mut host);
        assert!(returned.received.is_empty(), "nothing was sent to us");
        assert_eq!(
            (host.mapped.len(), host.buffers, host.coherent),
            (0, 0, 0),
            "maps, buffers, rings"
        );
        assert_eq!(host.guard(), (0, 0), "still lent; refused");
        host.settle();
        assert_eq!(host.guard(), (0, 0), "the device touches what was given back");
    }
}

/// Sends packets one after the other, and holds both sides' books against each
/// other.
pub fn sends<A: Backend>(host: A, config: Config, specs: &[Spec]) -> Came {
    let mut r = Running::open(host, config);
    for (i, spec) in specs.iter().enumerate() {
        let more = spec.more && i + 1 < specs.len();
        if r.stopped() {
            r.service();
            assert!(!r.stopped(), "a stopped queue woke");
        }
        let p = spec.packet(&mut r.host, i as u32);
        assert_eq!(r.channel.transmit(&mut r.host, p, more), Tx::Ok);
        if i % 97 == 96 {
            r.service();
        }
    }
    r.service();
    assert!(r.channel.is_drained());
    assert_eq!(
        r.returned.packets(),
        (0..specs.len() as u32).collect::<Vec<_>>(),
        "each came back once, in order"
    );
    let (frames, driver, device) = (r.host.frames(), r.channel.stats(), r.host.device().counters);
    let same = [
        ("packets", driver.packets, device.packets),
        ("bytes", driver.bytes, device.bytes),
        ("packets in sessions", driver.mpwqe_pkts, device.mpwqe_packets),
        ("sessions", driver.mpwqe_blks, device.mpwqes),
        ("large sends", driver.tso_packets, device.lso),
        ("NOPs", driver.nop, device.nops),
        ("WQEs", driver.wqes, device.wqes),
        ("doorbells", driver.doorbells, device.doorbells),
        ("CQEs", driver.cqes, device.cqes),
        ("events", driver.eqes, device.eqes),
        ("frames", driver.packets, frames.len() as u64),
        (
            "errors",
            0,
            device.errors + device.discarded + device.bad_doorbells + device.lost_entries,
        ),
        (
            "strays and drops",
            0,
            driver.cqe_err + driver.cqe_stray + driver.dropped + driver.recover,
        ),
    ];
    for (what, driver, device) in same {
        assert_eq!(driver, device, "{what}: driver, device");
    }
    r.close();
    Came { frames, driver, device }
}

/// A packet that the device refuses in the middle of others: everything comes
/// back, the queue recovers, traffic goes on.
pub fn recovers<A: Backend>(host: A, config: Config, specs: &[Spec]) {
    let mut r = Running::open(host, config);
    let all = specs.len() as u32;
    for (i, spec) in specs.iter().enumerate() {
        if r.stopped() {
            r.service();
        }
        let mut p = spec.packet(&mut r.host, i as u32);
        if i == specs.len() / 2 {
            // Longer than any frame: the buffer is there, the device refuses it.
            let long = r.host.device().config().caps.max_wqe_sz_sq;
            p.release(&mut r.host);
            p = Spec { payload: u16::MAX - 2 * long, ..spec.clone() }
                .oversized(&mut r.host, i as u32);
        }
        match r.channel.transmit(&mut r.host, p, spec.more && i + 1 < specs.len()) {
            Tx::Ok => {}
            other => panic!("{other:?}"),
        }
    }
    r.service();
    let s = r.channel.stats();
    assert_eq!(s.recover, 1);
    assert!(s.cqe_err >= 1);
    assert_eq!(r.returned.packets(), (0..all).collect::<Vec<_>>());
    let device = r.host.device().counters;
    assert_eq!(
        s.packets,
        device.packets + device.discarded + s.dropped,
        "none is lost from the books"
    );
    r.host.frames();
    let good = Spec { more: false, ..specs[0].clone() };
    let p = good.packet(&mut r.host, all);
    assert_eq!(r.channel.transmit(&mut r.host, p, false), Tx::Ok);
    r.service();
    assert_eq!(r.host.frames(), good.expected());
    r.close();
}
