//! The mlx5 driver, function and channel, on a NIC that lies: with and without sessions and a
//! receive queue, short rings, and events of all its queues.

use super::kind::{ALARM, POLL, RECEIVE, WAIT};
use super::{Seen, Subject, step};
use crate::fuzz::Seed;
use doorbell_bus::{Machine, Pcie, ProtectionGranularity};
use doorbell_conformance::mlx5::{Backend, SMALL_RQ, machine};
use doorbell_devices::mlx5::{Compress, Config as Nic, Mlx5};
use doorbell_drivers::mlx5::{Channel, Config, Cqs, Hca, Recycling, RqConfig, Sizing};
use doorbell_drivers::{Alarm, Driver, Irq, OpenError, Poll, Sink, Tx};
use doorbell_hal::Span;
use doorbell_layout::mlx5::{Caps, CompressionLayout};
use doorbell_packet::Packet;
use doorbell_testkit::Hostile;
use std::cell::RefCell;
use std::rc::Rc;

type System = Machine<Pcie, Mlx5>;

/// A function with one channel.
#[derive(Debug)]
pub struct Adapter {
    hca: Rc<RefCell<Hca>>,
    channel: Channel<Rc<RefCell<Hca>>>,
    /// It receives.
    receives: bool,
}

/// Bit of a shape without which frames share WQEs, and completions come in blocks.
const SHARED: u8 = 0x80;
const SHARED_RQ: RqConfig =
    RqConfig { log_size: 9, log_stride: Some(11), compression: true, ..SMALL_RQ };

/// Bits of a shape with a program, which also hands frames to a second port.
const PROGRAM: u8 = 0x18;

fn has_program(shape: u8) -> bool {
    shape & PROGRAM == PROGRAM
}

fn config(shape: u8) -> Config {
    let cqs = [Cqs::Send, Cqs::Three, Cqs::Five, Cqs::Five][usize::from(shape >> 3 & 3)];
    let mut rq = if shape & SHARED == 0 { SHARED_RQ } else { SMALL_RQ };
    if has_program(shape) {
        let recycling = if shape & 0x40 == 0 { Recycling::Cache } else { Recycling::Pool };
        // A stride is a page, which a frame may fill.
        let (log_stride, buffer) = match rq.log_stride {
            Some(_) => (Some(12), 4096 - 256),
            None => (None, rq.buffer),
        };
        rq =
            RqConfig { buffer, log_stride, recycling, align: 4096, headroom: 256, xdp: true, ..rq };
    }
    Config {
        mpwqe: shape & 1 == 0,
        sizing: if shape & 2 == 0 { Sizing::Padded } else { Sizing::Fit },
        log_sq: 6,
        log_cq: if shape & 4 == 0 { 6 } else { 2 },
        cqs,
        rq: (cqs != Cqs::Send).then_some(rq),
        vector: 1,
        second: has_program(shape).then_some(2),
        ..Config::DEFAULT
    }
}

impl Driver<Hostile<System>> for Adapter {
    fn transmit(&mut self, h: &mut Hostile<System>, p: Packet, more: bool) -> Tx {
        self.channel.transmit(h, p, more)
    }
    fn poll<S: Sink>(&mut self, h: &mut Hostile<System>, budget: u32, up: &mut S) -> Poll {
        self.channel.poll(h, budget, up)
    }
    fn interrupt(&mut self, h: &mut Hostile<System>, vector: u16) -> Irq {
        self.channel.interrupt(h, vector)
    }
    fn work(&mut self, h: &mut Hostile<System>) {
        self.channel.work(h);
    }
    fn stopped(&self) -> bool {
        Driver::<Hostile<System>>::stopped(&self.channel)
    }
    fn alarm(&mut self, h: &mut Hostile<System>, why: Alarm) -> Irq {
        self.channel.alarm(h, why)
    }
}

impl Subject<System> for Adapter {
    fn machine(shape: u8) -> System {
        let layout =
            if shape & 4 == 0 { CompressionLayout::Basic } else { CompressionLayout::Enhanced };
        let shared = shape & SHARED == 0;
        let caps = Caps {
            min_inline: if has_program(shape) { 0 } else { shape >> 5 & 3 },
            second_port: has_program(shape),
            striding: shared,
            compression: shared.then_some(layout),
            ..Nic::CONNECTX.caps
        };
        let compress = Compress { pressure: 0, wait: Span::from_us(1), most: 9 };
        let mut h = machine(Nic { caps, compress, ..Nic::CONNECTX }, ProtectionGranularity::Byte);
        h.keep_frames();
        h
    }
    fn open_on(h: &mut Hostile<System>, shape: u8) -> Result<Adapter, OpenError> {
        let hca = Rc::new(RefCell::new(Hca::open(h)?));
        let config = config(shape);
        match Channel::open(h, hca.clone(), &config) {
            Ok(channel) => Ok(Adapter { hca, channel, receives: config.rq.is_some() }),
            Err(e) => {
                close(hca, h);
                Err(e)
            }
        }
    }
    fn shut(self, h: &mut Hostile<System>) {
        self.channel.close(h);
        close(self.hca, h);
    }
    /// A hang has the queues created again, once a poll has passed up their buffers.
    fn reset(&mut self, h: &mut Hostile<System>) -> Result<(), OpenError> {
        self.channel.alarm(h, Alarm::TxTimeout);
        Ok(())
    }
    fn change(&mut self, h: &mut Hostile<System>, _what: u8) {
        self.channel.alarm(h, Alarm::Tick);
    }
    fn station(&self) -> Option<[u8; 6]> {
        self.receives.then(|| self.hca.borrow().mac())
    }
    fn check(&self, seen: &Seen) {
        let s = self.channel.stats();
        assert!(s.packets >= seen.taken, "each packet is one segment at least");
        assert!(seen.returned <= seen.taken);
        assert_eq!((s.rx_packets, s.rx_bytes), (seen.received, seen.received_bytes));
    }
    const LEAVES_AREAS: bool = true;
    fn settling() -> Span {
        Span::from_us(100)
    }
}

fn close(hca: Rc<RefCell<Hca>>, h: &mut Hostile<System>) {
    Rc::into_inner(hca).expect("no channel is left").into_inner().close(h);
}

/// Attacks the driver as `bytes` say.
pub fn attack(bytes: &[u8]) -> Seen {
    super::attack::<System, Adapter>(bytes)
}

/// Returns its seeds.
pub fn seeds() -> Vec<Seed> {
    // Frames of all lengths to a program, from queues of both kinds.
    let redirected = |shape: u8| {
        let burst = (0..10).flat_map(|n| [step(RECEIVE, 0, 100 + n, 0)]);
        let burst: Vec<[u8; 8]> = burst.chain([step(WAIT, 10, 500, 0)]).collect();
        let poll = [step(POLL, 63, 0, 0), step(WAIT, 10, 500, 0)];
        let steps = [&burst[..], &burst, &poll, &[step(ALARM, 0, 0, 0)], &burst].concat();
        [&[shape, 0][..], steps.as_flattened()].concat()
    };
    let mut all = super::seeds([0x88, 0x2f]);
    all.push(("redirected", redirected(PROGRAM | SHARED)));
    all.push(("redirected_from_strides", redirected(PROGRAM | 0x41)));
    all
}
