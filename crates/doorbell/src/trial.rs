//! Trials of a card, for its tests: a CPU that reorders stores, and a device that lies.
//!
//! Each returns what is wrong, a sentence a line; a sound driver has none. Runs of the command find
//! the rest: `run --fault` has faults, and the audit of any run names leaks.
//!
//! ```no_run
//! # use doorbell::prelude::*;
//! # fn test<MyCard: Card<Config = ()>>() {
//! use doorbell::trial::{self, Order};
//! assert_eq!(trial::reordered::<MyCard>(&(), Order::Late, None), [""; 0]);
//! assert_eq!(trial::lied_to::<MyCard>(&(), 1), [""; 0]);
//! # }
//! ```

use crate::card::Card;
use crate::custom;
use crate::packet::ethernet::LOCAL_TYPE;
use crate::packet::{Fragment, Packet};
use crate::prelude::*;
use doorbell_bus::random::splitmix;
use doorbell_bus::{Bus, Machine, Pcie};
use doorbell_drivers::Alarm;
use doorbell_hal::{Alignment, Buf};
use doorbell_sim::standstill;
use doorbell_testkit::Hostile;
use doorbell_testkit::hostile::{Crossing, Form, Lie};
use std::collections::VecDeque;

pub use doorbell_testkit::reorder::{Order, Reorder};

type On<C> = Machine<Pcie, <C as Card>::Device<Pcie>>;

/// A machine with something around it.
trait Around<C: Card>: Host {
    fn machine(&mut self) -> &mut On<C>;
    /// Begins a call of the driver.
    fn begin(&mut self) {}
    fn is_live(&self, _: &Buf) -> bool {
        true
    }
}

impl<C: Card> Around<C> for Reorder<On<C>> {
    fn machine(&mut self) -> &mut On<C> {
        &mut self.inner
    }
}

impl<C: Card> Around<C> for Hostile<On<C>> {
    fn machine(&mut self) -> &mut On<C> {
        &mut self.inner
    }
    fn begin(&mut self) {
        Hostile::begin(self);
    }
    fn is_live(&self, b: &Buf) -> bool {
        Hostile::is_live(self, b)
    }
}

/// Buffers that a driver has handed back, and packets handed up.
#[derive(Default)]
struct Up {
    sent: Vec<(Buf, u32)>,
    received: Vec<Packet>,
}

impl Sink for Up {
    fn sent(&mut self, b: Buf, cookie: u32, _: bool) {
        self.sent.push((b, cookie));
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.received.push(p);
    }
}

/// The traffic of a trial.
#[derive(Default)]
struct Traffic {
    /// Frames handed to the driver, and frames sent to it, which have not come out.
    out: VecDeque<Vec<u8>>,
    back: VecDeque<Vec<u8>>,
    cookies: VecDeque<u32>,
    made: u32,
    wrong: Vec<String>,
}

impl Traffic {
    fn frame(&mut self, to: [u8; 6]) -> Vec<u8> {
        self.made += 1;
        let mut frame = vec![0; 60 + (self.made as usize * 97) % 1400];
        (0..).zip(&mut frame).for_each(|(i, b)| *b = (self.made + i) as u8);
        frame[..6].copy_from_slice(&to);
        frame[12..14].copy_from_slice(&LOCAL_TYPE);
        frame
    }

    fn tell(&mut self, what: &str) {
        if !self.wrong.iter().any(|w| w == what) {
            self.wrong.push(what.to_owned());
        }
    }

    /// Hands `n` frames to the driver, and as many to the device.
    fn begin<C: Card, H: Around<C>>(
        &mut self,
        (h, driver): (&mut H, &mut C::Driver<H>),
        c: &C::Config,
        n: u32,
    ) {
        for i in 1..=n {
            let frame = self.frame([0x02, 0, 0, 0, 0, 0xee]);
            let Ok(buf) = h.buffer(frame.len() as u32, Alignment::ANY) else { continue };
            h.bytes_mut(&buf, 0..frame.len() as u32, |b| b.copy_from_slice(&frame));
            let packet = Packet { cookie: self.made, ..Packet::linear(Fragment::whole(buf)) };
            h.begin();
            if driver.stopped() {
                packet.release(h);
                continue;
            }
            match driver.transmit(h, packet, i < n) {
                Tx::Ok => {
                    self.cookies.push_back(self.made);
                    self.out.push_back(frame);
                }
                Tx::Busy(p) | Tx::Dropped(p) => p.release(h),
            }
        }
        for _ in 0..n {
            let frame = self.frame(C::mac(c));
            h.machine().outside(|d, bus, at| _ = d.receive(bus, at, &frame));
            self.back.push_back(frame);
        }
    }

    /// Serves interrupts until there are none, and compares what came out with what went in.
    fn end<C: Card, H: Around<C>>(&mut self, (h, driver): (&mut H, &mut C::Driver<H>)) {
        h.delay(Span::from_us(300));
        for _ in 0..8 {
            let m = h.machine();
            m.catch_up();
            let now = m.now();
            let p = m.bus.platform_mut();
            let message = p.message_pending(0).is_some_and(|at| at <= now);
            if message {
                p.take_message(0);
            } else if p.line(0).is_none_or(|since| since > now) {
                break;
            }
            h.begin();
            if driver.interrupt(h, 0) == Irq::Poll {
                self.poll::<C, H>((h, driver));
            }
            h.delay(Span::from_us(20));
        }
        let (out, sink) = (&mut self.out, h.machine().bus.sink_mut());
        let mut unlike = 0;
        let drained = sink.drain(|_, f| {
            unlike += u32::from(out.pop_front().as_deref() != Some(f));
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = drained;
        if unlike > 0 {
            self.tell("a frame on the wire is not the next handed over");
        }
    }

    fn poll<C: Card, H: Around<C>>(&mut self, (h, driver): (&mut H, &mut C::Driver<H>)) {
        for _ in 0..64 {
            let mut up = Up::default();
            h.begin();
            let polled = driver.poll(h, 16, &mut up);
            for (buf, cookie) in up.sent {
                if self.cookies.pop_front() != Some(cookie) {
                    self.tell("a packet that came back is not the next handed over");
                }
                match h.is_live(&buf) {
                    true => h.release(buf),
                    false => self.tell("a buffer came back twice"),
                }
            }
            for p in up.received {
                let Fragment { buf, start, len } = &p.head;
                let range = *start..start.saturating_add(*len);
                if !h.is_live(buf) || range.end > buf.len() {
                    self.tell("a frame handed up is outside its buffer");
                    continue;
                }
                let expected = self.back.pop_front();
                if !h.bytes(buf, range, |b| expected.as_deref() == Some(b)) {
                    self.tell("a frame handed up is not the next that arrived");
                }
                p.release(h);
            }
            match polled {
                Poll::Again => continue,
                Poll::Work => driver.work(h),
                Poll::Idle => {}
            }
            break;
        }
    }

    /// Exchanges frames in bursts of different lengths, and judges.
    fn exchange<C: Card, H: Around<C>>(
        &mut self,
        (h, driver): (&mut H, &mut C::Driver<H>),
        c: &C::Config,
    ) {
        for burst in (1..=8).chain(1..=8).chain([16, 1]) {
            self.begin::<C, H>((h, driver), c, burst);
            self.end::<C, H>((h, driver));
        }
        let left = [
            ("handed over, and not on the wire", self.out.len()),
            ("handed over, and not given back", self.cookies.len()),
            ("arrived, and not handed up", self.back.len()),
        ];
        let left = left.into_iter().filter(|(_, n)| *n > 0);
        self.wrong.extend(left.map(|(what, n)| format!("{what}: {n}")));
    }
}

fn machine<C: Card>(c: &C::Config) -> On<C> {
    let mut m = custom::on_pcie(1, 4, C::device::<Pcie>(c)).expect("there is PCIe 1.0 x4");
    m.bus.sink_mut().start();
    m
}

/// Returns what has not come back. `faults` were there before.
fn leaks<C: Card>(m: &mut On<C>, faults: u64) -> Vec<String> {
    m.flush_posted();
    let (l, p) = (m.ledger(), m.bus.platform());
    let mut wrong: Vec<String> = standstill::of_coherent(p).collect();
    for (what, made, ended) in [
        ("mappings", l.maps, l.unmaps),
        ("buffers", l.buffers_taken, l.buffers_released),
        ("DMA faults", l.dma_faults, faults),
    ] {
        if made != ended {
            wrong.push(format!("{what}: {made} and {ended}"));
        }
    }
    wrong
}

/// Exchanges frames on a CPU that reorders stores and loads as far as the driver's fences allow. A
/// fence of the kind `ignored` does nothing, so that a test can show that the driver needs it.
pub fn reordered<C: Card>(c: &C::Config, order: Order, ignored: Option<Fence>) -> Vec<String> {
    let mut h = Reorder::new(machine::<C>(c), order);
    h.ignored = ignored;
    let mut driver = match C::open(&mut h, c) {
        Ok(driver) => driver,
        Err(e) => return vec![format!("the driver does not open: {e}")],
    };
    let mut traffic = Traffic::default();
    traffic.exchange::<C, _>((&mut h, &mut driver), c);
    C::close(driver, &mut h);
    let mut wrong = traffic.wrong;
    wrong.extend(leaks::<C>(&mut h.into_inner(), 0));
    wrong
}

/// Exchanges frames while the device lies: registers and memory that read wrong, writes that are
/// lost, memory and mappings that are refused, descriptors that come twice. `seed` chooses lies.
/// The driver may lose packets then, but it must end, and keep to its memory. After a reset of the
/// device a new one has to work.
///
/// # Panics
/// Panics where the driver does, and if one call of it does not end.
pub fn lied_to<C: Card>(c: &C::Config, seed: u64) -> Vec<String> {
    let mut h = Hostile::new(machine::<C>(c));
    let mut state = seed;
    let mut draw = |below: u64| splitmix(&mut state) % below;
    let mut traffic = Traffic::default();
    h.begin();
    // Every other driver is lied to from its opening on.
    if seed % 2 == 1 {
        h.arm(lie(&mut draw));
    }
    if let Ok(mut driver) = C::open(&mut h, c) {
        for step in 0..64 {
            h.arm(lie(&mut draw));
            let bytes = splitmix(&mut (seed ^ step)).to_le_bytes();
            match draw(4) {
                0 => h.poke(None, draw(32) as u32, &bytes),
                1 => h.poke(Some(draw(64) as usize), draw(4096) as u32, &bytes),
                2 => h.replay(16, draw(4) as u32),
                _ => {}
            }
            let on = (&mut h, &mut driver);
            traffic.begin::<C, _>(on, c, 1 + draw(8) as u32);
            traffic.end::<C, _>((&mut h, &mut driver));
            let why = [Alarm::Tick, Alarm::TxTimeout][usize::from(driver.stopped())];
            h.begin();
            if driver.alarm(&mut h, why) == Irq::Poll {
                traffic.poll::<C, _>((&mut h, &mut driver));
            }
        }
        h.disarm();
        h.begin();
        C::close(driver, &mut h);
    }
    h.disarm();
    let mut wrong: Vec<String> = traffic
        .wrong
        .into_iter()
        .filter(|w| w.contains("twice") || w.contains("outside"))
        .collect();
    let (buffers, mappings, areas) = h.held();
    if (buffers, mappings, areas) != (0, 0, 0) {
        wrong.push(format!(
            "still held: {buffers} buffers, {mappings} mappings, {areas} coherent areas"
        ));
    }
    let m = &mut h.inner;
    m.outside(|d, bus, at| d.reset(bus, at));
    m.flush_posted();
    let p = m.bus.platform_mut();
    if p.message_pending(0).is_some() {
        p.take_message(0);
    }
    let mut again = Traffic::default();
    let Ok(()) = m.bus.sink_mut().drain(|_, _| Ok::<(), std::convert::Infallible>(()));
    let faults = m.ledger().dma_faults;
    h.begin();
    match C::open(&mut h, c) {
        Err(e) => wrong.push(format!("after a reset it does not open: {e}")),
        Ok(mut driver) => {
            again.exchange::<C, _>((&mut h, &mut driver), c);
            C::close(driver, &mut h);
            wrong.extend(again.wrong.iter().map(|w| format!("after a reset: {w}")));
            wrong.extend(leaks::<C>(&mut h.inner, faults));
        }
    }
    wrong
}

/// Writes and reads registers at random, over memory and frames at random, as a broken or hostile
/// driver would. The device must not panic, has to end, and makes no access to memory after its
/// reset. `seed` chooses the input.
///
/// # Panics
/// Panics where the device does.
pub fn attacked<C: Card>(c: &C::Config, seed: u64) -> Vec<String> {
    const AREA: u64 = 1 << 16;
    let mut m = machine::<C>(c);
    let mut state = seed;
    let mut draw = |below: u64| splitmix(&mut state) % below;
    let Ok(area) = m.coherent(AREA as u32, 4096) else {
        return vec!["there is no memory".to_owned()];
    };
    // Addresses that are good, lengths and offsets, single bits, and anything.
    let value = |draw: &mut dyn FnMut(u64) -> u64| match draw(8) {
        0..4 => area.iova().0 + draw(AREA) / 16 * 16,
        4..6 => draw(2048),
        6 => 1 << draw(64),
        _ => draw(u64::MAX),
    };
    for at in (0..AREA as u32).step_by(8) {
        m.store(&area, at, value(&mut draw));
    }
    let mut quiet = true;
    for _ in 0..32 {
        for _ in 0..64 {
            let v = value(&mut draw);
            // Most registers that matter stand in front.
            let last = [16, 64, 2048][draw(3) as usize];
            let reg = Reg::at((draw(last) * 4) as u32);
            match draw(8) {
                0..2 => m.write32(reg, v as u32),
                2..4 => m.write64(reg, v),
                4 => drop(m.read32(reg)),
                5 => m.store(&area, (draw(AREA) / 8 * 8) as u32, v),
                6 => {
                    let frame: Vec<u8> = (0..draw(2000)).map(|i| (v ^ i) as u8).collect();
                    m.outside(|d, bus, at| _ = d.receive(bus, at, &frame));
                }
                _ => m.delay(Span::from_ns(draw(2_000))),
            }
        }
        m.outside(|d, bus, at| d.reset(bus, at));
        m.flush_posted();
        let before = format!("{:?}", m.ledger());
        m.delay(Span::from_ms(1));
        m.flush_posted();
        quiet &= before == format!("{:?}", m.ledger());
    }
    m.release_coherent(area);
    if quiet { Vec::new() } else { vec!["it goes on after a reset".to_owned()] }
}

/// Draws a lie.
fn lie(draw: &mut impl FnMut(u64) -> u64) -> Lie {
    use Crossing::{Load, Memory, Read, Write};
    Lie {
        at: [Read, Write, Load, Memory][draw(4) as usize],
        after: draw(16) as u32,
        times: 1 + draw(4) as u32,
        form: [Form::Flip, Form::Set, Form::Random][draw(3) as usize],
        value: draw(u64::MAX),
    }
}
