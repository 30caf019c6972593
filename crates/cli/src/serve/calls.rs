//! The loop of a device that guests reach by hypervisor calls: as [`turns`](super::turns), for
//! several guests.
//!
//! A guest's CPU waits while its call is answered, so calls come first, and the loop looks for the
//! next one for some microseconds before it sleeps. All guests, the device and the wire are on this
//! one thread.

use super::bill::Bill;
use super::control::Control;
use super::metrics::Metrics;
use super::report::Report;
use super::turns::{AWAKE, BURST, CATCH_UP, Clock, NAP, RETRY};
use super::uplink::MAX_FRAME;
use super::virtual_io::{Behind, Kind, Name};
use crate::output::print;
use crate::progress::Interrupt;
use crate::render::Format;
use crate::{Error, failed};
use doorbell_bus::Ledger;
use doorbell_hal::{DmaFault, DropReason, Iova, Reg, RxVerdict, Span, Time};
use doorbell_layout::ibmvnic::hcall;
use doorbell_packet::ethernet::{MIN_FRAME, wire_bytes};
use doorbell_papr_io::{Guest, Inside, Look, Partition, Unit, step, tell};
use doorbell_vfio_user::{Listener, Watch, exact_timers, readable};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::flag;
use std::cell::RefCell;
use std::io::{Write, stderr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is around the device.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) socket: Listener,
    pub(super) metrics: Option<Metrics>,
    pub(super) control: Option<Control>,
    pub(super) format: Format,
    pub(super) quiet: bool,
}

/// One bill for all partitions.
#[derive(Clone, Debug)]
pub(super) struct Shared(Rc<RefCell<Bill>>);

/// The port of a partition.
pub(super) type Port = Partition<Shared>;

impl Watch for Shared {
    fn dma_read(&mut self, at: Time, from: Iova, len: u32) {
        self.0.borrow_mut().dma_read(at, from, len);
    }
    fn dma_write(&mut self, at: Time, to: Iova, len: u32) {
        self.0.borrow_mut().dma_write(at, to, len);
    }
    fn fault(&mut self, at: Time, fault: &DmaFault) {
        self.0.borrow_mut().fault(at, fault);
    }
    fn register_read(&mut self, at: Time, r: Reg, size: u8, v: u64) {
        self.0.borrow_mut().register_read(at, r, size, v);
    }
    fn register_write(&mut self, at: Time, r: Reg, size: u8, v: u64, trapped: bool) {
        self.0.borrow_mut().register_write(at, r, size, v, trapped);
    }
    fn line(&mut self, at: Time, high: bool) {
        self.0.borrow_mut().line(at, high);
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.0.borrow_mut().raise_msi(at, vector);
    }
    fn frame(&mut self, at: Time, frame: &[u8]) {
        self.0.borrow_mut().frame(at, frame);
    }
}

/// Turns after which also a busy server looks whether a guest has gone.
const LISTENS: u32 = 256;

/// All that takes turns.
struct Served<'a, D> {
    kind: &'a Kind,
    unit: Unit,
    device: D,
    ports: Vec<Port>,
    bill: Shared,
    clock: Clock,
    /// How often each of the kind's calls was made; the last is any other.
    made: Vec<u64>,
    /// Guests so far.
    guests: u64,
    frame: Box<[u8]>,
    /// A frame of so many bytes is to be offered again.
    held: Option<usize>,
    /// When the wire toward the guests is free.
    free: Time,
}

impl<D: Behind> Served<'_, D> {
    /// Answers the calls that are there; whether there were any.
    fn calls(&mut self) -> bool {
        let mut any = false;
        for i in 0..self.ports.len() {
            any |= self.calls_of(i);
        }
        any
    }

    /// Those of one partition, once each CPU's.
    fn calls_of(&mut self, i: usize) -> bool {
        let (mut any, mut look) = (false, Look::default());
        loop {
            let now = self.clock.now();
            let Some(call) = step(&mut self.device, &mut self.ports, i, now, &mut look, &D::KNOWS)
            else {
                return any;
            };
            any = true;
            let n = self
                .kind
                .calls
                .iter()
                .position(|(c, _)| *c == call.0)
                .unwrap_or(self.kind.calls.len());
            self.made[n] += 1;
        }
    }

    /// A guest has gone: what it had posted is worked off, and then it reaches nothing.
    fn let_go(&mut self, i: usize) {
        self.calls_of(i);
        self.ports[i].disconnect();
        let (now, unit) = (self.clock.now(), self.unit.address);
        self.device.let_go(&mut self.ports, i, now, unit);
    }

    /// Frames from the uplink, as the wire brings them; whether there were any.
    fn arrive(&mut self) -> bool {
        if !self.ports.iter().any(Port::connected) {
            return false;
        }
        for n in 0..BURST {
            let now = self.clock.now();
            if self.free > now {
                return n > 0;
            }
            let held = self.held.take();
            let Some(len) =
                held.or_else(|| self.bill.0.borrow_mut().uplink.receive(now, &mut self.frame))
            else {
                return n > 0;
            };
            let frame = &self.frame[..len];
            self.device.advance(&mut self.ports, now);
            let taken = self.device.receive(&mut self.ports, now, frame);
            self.device.advance(&mut self.ports, now);
            let mut bill = self.bill.0.borrow_mut();
            let (waits, off) =
                (bill.uplink.waits_for_receiver(), taken == RxVerdict::Dropped(DropReason::Off));
            if waits {
                bill.uplink.told(now, !off);
            }
            if taken == RxVerdict::Hold || (off && waits) {
                self.held = (taken == RxVerdict::Hold).then_some(len);
                self.free = now + if off { RETRY * 20 } else { RETRY };
                return n > 0;
            }
            bill.arrives(now, frame);
            let least = Time::from_ps(now.ps().saturating_sub(CATCH_UP.ps()));
            let byte = Span::from_ps(8_000_000_000_000 / self.kind.bits_per_second);
            self.free = self.free.max(least) + byte * wire_bytes(1, len.max(MIN_FRAME) as u64);
        }
        true
    }

    /// When something is due without anybody saying so.
    fn due(&self) -> Option<Time> {
        let frame = if self.held.is_some() || self.free > self.clock.now() {
            Some(self.free)
        } else {
            self.bill.0.borrow().uplink.due()
        };
        let frame = frame.filter(|_| self.ports.iter().any(Port::connected));
        [self.device.next_due(), frame].into_iter().flatten().min()
    }

    fn report(&self) -> Report {
        let bill = self.bill.0.borrow();
        let mut l = bill.ledger.clone();
        let inside = self.ports.iter().map(Port::inside).fold(Inside::default(), |a, b| a + b);
        (l.tce_hcalls, l.tce_puts) = (inside.table_calls, inside.table_entries);
        // Those that are on their way yet are counted.
        l.messages = (l.messages + inside.raised).saturating_sub(inside.held);
        let mut made = self.made.clone();
        for (n, (call, _)) in self.kind.calls.iter().enumerate() {
            made[n] += match *call {
                hcall::VIO_SIGNAL => inside.signal_calls,
                hcall::VIOCTL => inside.vioctl_calls,
                _ => 0,
            };
        }
        l.hcalls = made.iter().sum::<u64>() + l.tce_hcalls;
        let mut ledger: Vec<_> =
            Ledger::about().zip(l.entries()).map(|((n, about), (_, v))| (n, about, v)).collect();
        let names = self
            .kind
            .calls
            .iter()
            .map(|c| c.1)
            .chain([Name("hcall_other", "Calls that the device does not know.")]);
        ledger.extend(names.zip(&made).map(|(Name(name, about), v)| (name, about, *v)));
        ledger.push((
            "posted",
            "Sends among those that the guest did not wait for.",
            inside.posted,
        ));
        ledger.push((
            "posted_refused",
            "Of those, refused after all: their session had ended.",
            inside.posted_refused,
        ));
        let switches = inside.signal_calls + inside.vioctl_calls;
        ledger.push((
            "switches",
            "H_VIO_SIGNAL and H_VIOCTL that were answered in the plug-in.",
            switches,
        ));
        ledger.push(("arrived_frames", "Frames that arrived from the wire.", bill.arrived.0));
        ledger.push(("arrived_bytes", "Bytes of those, without FCS.", bill.arrived.1));
        ledger.push((
            "uplink_dropped",
            "Frames that the uplink did not take.",
            bill.uplink.dropped,
        ));
        Report {
            device: self.kind.name,
            bus: "hypervisor calls",
            connected: self.ports.iter().any(Port::connected),
            clients: self.guests,
            ledger,
            counters: self.device.counters(self.ports.len()),
        }
    }
}

/// Serves until a signal says to stop; then prints the ledger.
pub(super) fn run<D: Behind>(
    kind: &Kind,
    unit: Unit,
    device: D,
    partitions: usize,
    bill: Bill,
    mut around: Around,
) -> Result<(), Error> {
    let system = |e: std::io::Error| failed!("{e}");
    exact_timers();
    let stop = Interrupt::watched().map_err(system)?;
    let (show, cable) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    flag::register(SIGUSR1, Arc::clone(&show)).map_err(system)?;
    flag::register(SIGUSR2, Arc::clone(&cable)).map_err(system)?;
    let quiet = around.quiet;
    let say = |what: std::fmt::Arguments<'_>| {
        if !quiet {
            // Where even stderr is gone, nobody is told.
            let _ = writeln!(stderr(), "doorbell: {what}");
        }
    };
    let bill = Shared(Rc::new(RefCell::new(bill)));
    let mut s = Served {
        kind,
        unit,
        device,
        ports: (0..partitions).map(|_| Partition::new(bill.clone())).collect(),
        bill,
        clock: Clock(Instant::now()),
        made: vec![0; kind.calls.len() + 1],
        guests: 0,
        frame: vec![0; MAX_FRAME].into(),
        held: None,
        free: Time::ZERO,
    };
    let (mut plugged, mut called, mut turns) = (true, Time::ZERO, 0u32);
    let mut ready = Vec::new();
    say(format_args!(
        "{} is ready, for {partitions} partition{}",
        kind.name,
        if partitions == 1 { "" } else { "s" }
    ));
    while !stop.came() {
        if show.swap(false, Ordering::Relaxed) {
            print(&s.report().show(around.format))?;
        }
        if cable.swap(false, Ordering::Relaxed) {
            plugged = !plugged;
            s.device.set_cable(partitions, s.clock.now(), plugged);
            say(format_args!("the cable is {}", if plugged { "in" } else { "pulled" }));
        }
        while let Some(line) = around.control.as_mut().and_then(Control::line) {
            let now = s.clock.now();
            match s.device.command(partitions, now, &line) {
                Ok(()) => say(format_args!("{line}")),
                Err(why) => say(format_args!("{why}")),
            }
        }
        if let Some(socket) = around.socket.accept().map_err(system)? {
            match s.ports.iter().position(|p| !p.connected()) {
                None => say(format_args!("a guest more than there are partitions is turned away")),
                Some(i) => match Guest::greet(socket, unit) {
                    Err(gone) => say(format_args!("a guest that is none: {gone}")),
                    Ok(guest) => {
                        s.guests += 1;
                        if !s.ports.iter().any(Port::connected) {
                            s.bill.0.borrow_mut().uplink.restart();
                        }
                        s.ports[i].connect(guest);
                        say(format_args!("partition {i} has a guest"));
                    }
                },
            }
        }
        let mut busy = s.calls();
        let now = s.clock.now();
        if busy {
            called = now;
        }
        s.device.advance(&mut s.ports, now);
        busy |= s.arrive();
        s.bill.0.borrow_mut().uplink.flush();
        // A guest says where its memory is, and that it goes: that can wait while others are busy,
        // but not for ever.
        turns = turns.wrapping_add(1);
        let listens = !busy || turns.is_multiple_of(LISTENS);
        for i in 0..s.ports.len() {
            tell(&mut s.device, &mut s.ports, i, now, &D::KNOWS);
            if let Err(gone) =
                s.ports[i].flush().and_then(|()| if listens { s.ports[i].listen() } else { Ok(()) })
            {
                say(format_args!("partition {i}: {gone}"));
                s.let_go(i);
            }
        }
        if let Some(why) = s.bill.0.borrow_mut().broken.take() {
            return Err(Error::Failed(why));
        }
        if let Some(why) = s.bill.0.borrow_mut().uplink.lost.take() {
            say(format_args!("the uplink is gone: {why}"));
        }
        if busy && around.metrics.is_none() {
            continue;
        }
        let now = s.clock.now();
        let awake = busy || now.since(called) < AWAKE;
        let mut wait = if awake { Duration::ZERO } else { NAP };
        if let Some(due) = s.due() {
            wait = wait.min(Duration::from_nanos(due.since(now).ps().div_ceil(1000)));
        }
        let sleeps = wait > Duration::ZERO;
        if sleeps {
            s.ports.iter().for_each(|p| p.say_asleep(true));
            // One may have come before it was told.
            if s.ports.iter().any(Partition::has_calls) {
                wait = Duration::ZERO;
            }
        }
        let takes_frames = s.free <= now && s.held.is_none() && s.ports.iter().any(Port::connected);
        let bill = s.bill.0.borrow();
        let mut fds: Vec<_> = around.metrics.iter().flat_map(Metrics::fds).collect();
        let metrics = fds.len();
        fds.push(around.socket.as_fd());
        fds.extend(s.ports.iter().flat_map(Port::fds));
        fds.extend(around.control.iter().map(Control::fd));
        if takes_frames {
            fds.extend(bill.uplink.fd());
        }
        readable(&fds, Some(wait), &mut ready).map_err(system)?;
        drop(fds);
        drop(bill);
        if sleeps {
            s.ports.iter().for_each(|p| p.say_asleep(false));
        }
        if let Some(m) = &mut around.metrics
            && (ready[..metrics].contains(&true) || metrics > 1)
        {
            m.serve(|| s.report());
        }
    }
    s.calls();
    print(&s.report().show(around.format))?;
    s.bill.0.borrow_mut().finish()
}
