//! The loop: client, device, wire and page have their turns, one after another.
//!
//! Everything happens on this thread, so an unmap or a reset is complete when it has been
//! answered. Between turns the loop waits, until something can be read or the device's
//! next timer ends; with polled pages it looks at them without waiting as long as anything
//! happens, and now and then when nothing does.
//!
//! **The wire** has the device's speed toward the guest too: a frame is taken from the
//! uplink when the one before would have ended, some 128 us of catching up allowed.
//! A frame that the device holds off waits here, and pause frames of the device are obeyed:
//! what comes meanwhile waits in the uplink's own queue.

use super::bill::Bill;
use super::devices::{Entry, Served};
use super::metrics::Metrics;
use super::report::Report;
use super::uplink::MAX_FRAME;
use crate::output::print;
use crate::progress::Interrupt;
use crate::render::Format;
use crate::{Error, failed};
use doorbell_bus::Ledger;
use doorbell_hal::{DropReason, EventSource, RxVerdict, Span, Time};
use doorbell_packet::ethernet::{MIN_FRAME, wire_bytes};
use doorbell_vfio_user::{Function, Listener, exact_timers, readable};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::flag;
use std::io::{Write, stderr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is around the device.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) socket: Listener,
    pub(super) metrics: Option<Metrics>,
    /// By which rules it is counted.
    pub(super) bus: &'static str,
    pub(super) format: Format,
    pub(super) quiet: bool,
    /// Doorbell pages are registers like any other, and each ring leaves the guest's CPU.
    pub(super) trap_doorbells: bool,
    /// One WQE in so many fails; 0: none.
    pub(super) fail_every: u32,
}

/// How far the wire may lag behind.
pub(super) const CATCH_UP: Span = Span::from_us(128);
/// Frames that arrive before anybody else has a turn.
pub(super) const BURST: usize = 32;
/// The longest wait: signals are looked at so often.
pub(super) const NAP: Duration = Duration::from_millis(200);
/// How soon a frame is offered again that was not taken.
pub(super) const RETRY: Span = Span::from_us(500);
/// Polled pages: how long after the last doorbell the loop looks without waiting, and how long it
/// then waits.
pub(super) const AWAKE: Span = Span::from_us(50);
const GLANCE: Duration = Duration::from_micros(50);

/// Time since the server began.
pub(super) struct Clock(pub(super) Instant);

impl Clock {
    pub(super) fn now(&self) -> Time {
        Time::ZERO + Span::from_ns(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The wire toward the guest.
struct Inbound {
    frame: Box<[u8]>,
    /// A frame of so many bytes is to be offered again.
    held: Option<usize>,
    /// When the next may arrive.
    free: Time,
    /// The guest's last pause frame said to wait, and not yet to go on. A frame that arrives
    /// nevertheless does so because the pause has run out.
    paused: bool,
    byte: Span,
}

/// Serves until a signal says to stop; then prints the ledger.
pub(super) fn run<D: Served>(
    entry: &Entry,
    mut f: Function<D, Bill>,
    mut around: Around,
) -> Result<(), Error> {
    let system = |e: std::io::Error| failed!("{e}");
    exact_timers();
    let stop = Interrupt::watched().map_err(system)?;
    let (show, cable) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    flag::register(SIGUSR1, Arc::clone(&show)).map_err(system)?;
    flag::register(SIGUSR2, Arc::clone(&cable)).map_err(system)?;
    let say = |what: std::fmt::Arguments<'_>| {
        if !around.quiet {
            // Where even stderr is gone, nobody is told.
            let _ = writeln!(stderr(), "doorbell: {what}");
        }
    };
    let clock = Clock(Instant::now());
    let mut inbound = Inbound {
        frame: vec![0; MAX_FRAME].into(),
        held: None,
        free: Time::ZERO,
        paused: false,
        byte: Span::from_ps(8_000_000_000_000 / entry.bits_per_second),
    };
    let mut clients = 0;
    let mut plugged = true;
    let mut rang = Time::ZERO;
    let mut told = 0;
    let mut ready: Vec<bool> = Vec::new();
    say(format_args!("{} is ready", entry.name));
    while !stop.came() {
        if show.swap(false, Ordering::Relaxed) {
            print(&snapshot(entry.name, around.bus, &f, clients).show(around.format))?;
        }
        if cable.swap(false, Ordering::Relaxed) {
            plugged = !plugged;
            f.with_device(|d, port| d.set_cable(port, clock.now(), plugged));
            say(format_args!("the cable is {}", if plugged { "in" } else { "pulled" }));
        }
        let mut busy = false;
        if f.connected() {
            match f.serve(|| clock.now()) {
                Ok(n) => busy |= n > 0,
                Err(gone) => {
                    say(format_args!("client {clients}: {gone}"));
                    (inbound.held, inbound.paused) = (None, false);
                }
            }
        } else if let Some(client) = around.socket.accept().map_err(system)? {
            clients += 1;
            f.watch().uplink.restart();
            f.connect(clock.now(), client).map_err(system)?;
            say(format_args!("client {clients} has connected"));
            busy = true;
        }
        if let Some(what) = f.device().unknown(told) {
            told += 1;
            say(format_args!("the driver asks what the device does not know: {what}"));
        }
        let now = clock.now();
        if f.poll_pages(now) {
            rang = now;
            busy = true;
        }
        f.advance(now);
        f.watch().uplink.flush();
        busy |= arrive(&mut f, &clock, &mut inbound);
        f.watch().uplink.flush();
        if let Some(why) = f.watch().broken.take() {
            return Err(Error::Failed(why));
        }
        if let Some(why) = f.watch().uplink.lost.take() {
            say(format_args!("the uplink is gone: {why}"));
        }
        // With polled pages every system call delays a doorbell; whoever was busy goes on first.
        if busy && f.polls() && around.metrics.is_none() {
            continue;
        }
        // What to wait for, and how long.
        let now = clock.now();
        let mut wait = if busy { Duration::ZERO } else { NAP };
        let due = [f.next_due(), next_frame(&f, &inbound, now)].into_iter().flatten().min();
        if let Some(due) = due {
            wait = wait.min(Duration::from_nanos(due.since(now).ps().div_ceil(1000)));
        }
        if f.polls() {
            wait = wait.min(if now.since(rang) < AWAKE { Duration::ZERO } else { GLANCE });
        }
        let takes_frames = inbound.free <= now && inbound.held.is_none() && f.connected();
        let mut fds: Vec<_> = Vec::with_capacity(8);
        if let Some(m) = &around.metrics {
            fds.extend(m.fds());
        }
        let metrics = fds.len();
        if f.connected() {
            fds.extend(f.fds());
        } else {
            fds.push(around.socket.as_fd());
        }
        if takes_frames {
            fds.extend(f.port().watch.uplink.fd());
        }
        readable(&fds, Some(wait), &mut ready).map_err(system)?;
        drop(fds);
        if let Some(m) = &mut around.metrics
            && (ready[..metrics].contains(&true) || metrics > 1)
        {
            m.serve(|| snapshot(entry.name, around.bus, &f, clients));
        }
    }
    f.disconnect(clock.now());
    print(&snapshot(entry.name, around.bus, &f, clients).show(around.format))?;
    f.watch().finish()
}

/// When a frame may arrive without a descriptor becoming readable.
fn next_frame<D: Served>(f: &Function<D, Bill>, inbound: &Inbound, now: Time) -> Option<Time> {
    if !f.connected() {
        return None;
    }
    if inbound.held.is_some() || inbound.free > now {
        return Some(inbound.free);
    }
    f.port().watch.uplink.due().map(|t| t.max(inbound.free))
}

/// Frames from the uplink, as the wire brings them. Whether there were any.
fn arrive<D: Served>(f: &mut Function<D, Bill>, clock: &Clock, inbound: &mut Inbound) -> bool {
    if !f.connected() {
        return false;
    }
    for n in 0..BURST {
        let now = clock.now();
        if let Some(quanta) = f.watch().pause.take() {
            inbound.free = now + inbound.byte * (u64::from(quanta) * 64);
            inbound.paused = quanta > 0;
        }
        if inbound.free > now {
            return n > 0;
        }
        let again = inbound.held.take();
        let len = match again {
            Some(len) => len,
            None => match f.watch().uplink.receive(now, &mut inbound.frame) {
                Some(len) => len,
                None => return n > 0,
            },
        };
        let frame = &inbound.frame[..len];
        let taken = f.receive(now, frame);
        let waits = f.watch().uplink.waits_for_receiver();
        let off = taken == RxVerdict::Dropped(DropReason::Off);
        if inbound.paused && taken == RxVerdict::Dropped(DropReason::Fifo) {
            f.watch().missed_after_pause += 1;
        }
        if waits {
            f.watch().uplink.told(now, !off);
        }
        if taken == RxVerdict::Hold || (off && waits) {
            if taken == RxVerdict::Hold {
                inbound.held = Some(len);
            }
            inbound.free = now + if off { RETRY * 20 } else { RETRY };
            return n > 0;
        }
        f.watch().arrives(now, frame);
        let least = Time::from_ps(now.ps().saturating_sub(CATCH_UP.ps()));
        inbound.free =
            inbound.free.max(least) + inbound.byte * wire_bytes(1, len.max(MIN_FRAME) as u64);
    }
    true
}

/// The counts, as they are.
fn snapshot<D: Served>(
    device: &'static str,
    bus: &'static str,
    f: &Function<D, Bill>,
    clients: u64,
) -> Report {
    let bill = &f.port().watch;
    let mut ledger: Vec<_> = Ledger::about()
        .zip(bill.ledger.entries())
        .map(|((n, about), (_, v))| (n, about, v))
        .collect();
    ledger.push((
        "trapped_writes",
        "Of the register writes, those that left the guest's CPU.",
        bill.trapped,
    ));
    ledger.push(("arrived_frames", "Frames that arrived from the wire.", bill.arrived.0));
    ledger.push(("arrived_bytes", "Bytes of those, without FCS.", bill.arrived.1));
    ledger.push((
        "missed_after_pause",
        "Frames that the device had no room for, its pause having run out.",
        bill.missed_after_pause,
    ));
    ledger.push(("uplink_dropped", "Frames that the uplink did not take.", bill.uplink.dropped));
    ledger.push((
        "lost_interrupts",
        "Interrupts that the guest had not asked for.",
        f.lost_interrupts(),
    ));
    Report {
        device,
        bus,
        connected: f.connected(),
        clients,
        ledger,
        counters: f.device().counters(),
    }
}
