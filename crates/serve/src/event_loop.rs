//! The event loop of `serve`: guests, device, wire and page have their turns, one after another.
//!
//! Everything runs on this thread, so that an unmap or a reset is complete when it is answered. It
//! never waits for a client beyond the bounds of `doorbell_vfio_user` ([`Guard`] ends other waits),
//! and leaves to the [`reaper`] what is slow to close or to free. A turn begins with a wait
//! until a descriptor is readable or a timer expires; a server that has work only looks now and
//! then. A [`Transport`] connects the guests.
//!
//! The wire toward the guests has the device's speed: a frame is taken from the uplink when the
//! previous one would have ended, with up to 128 us of catching up. A frame that the device holds
//! off waits here. Pause frames are obeyed: later frames wait in the queue of the uplink.

use super::context::{Clock, ServeContext, SharedBill};
use super::outlet::Kind;
use super::{control::Control, report::Report, uplink::MAX_FRAME};
use doorbell_console::{DONE, Error, MISSED, failed, output::is_collected};
use doorbell_hal::{DropReason, RxVerdict, Span, Time};
use doorbell_host_io::shared::{Guard, reaper};
use doorbell_packet::ethernet::{MIN_FRAME, wire_bytes};
use doorbell_vfio_user::{exact_timers, readable};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::flag;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, os::unix::net::UnixStream, rc::Rc, sync::Arc};

/// The guests of a device, and their way to it.
pub(super) trait Transport {
    /// True if pause frames of a guest stop the wire.
    const PAUSES: bool;

    /// Pulls the cable, or plugs it in. Returns false if the device has no link.
    fn set_cable(&mut self, at: Time, plugged: bool) -> bool;
    /// Carries out a line of `--control`.
    fn command(&mut self, _at: Time, line: &str) -> Result<(), CommandError> {
        Err(CommandError::NoCommands { line: line.to_owned() })
    }
    /// Returns true if new guests may connect.
    fn listens(&self) -> bool;
    fn connect(&mut self, at: Time, socket: UnixStream, c: &ServeContext) -> io::Result<()>;
    fn connected(&self) -> bool;
    /// Serves requests and advances the device. Returns true if there was any request.
    fn serve(&mut self, clock: &Clock, c: &ServeContext) -> bool;
    /// Offers a frame from the wire.
    fn receive(&mut self, at: Time, frame: &[u8]) -> RxVerdict;
    /// Ends a turn: notifies guests.
    fn finish_turn(&mut self, _clock: &Clock, _busy: bool, _c: &ServeContext) {}
    /// Returns the time of the device's next event.
    fn next_due(&self) -> Option<Time>;
    /// Returns the longest wait without an event, or `None` if a system call is too long.
    fn patience(&self, now: Time, busy: bool) -> Option<Duration>;
    /// Tells guests that the loop sleeps, or wakes. Returns true if a request is pending.
    fn set_sleeping(&mut self, _sleeping: bool) -> bool {
        false
    }
    /// Adds the descriptors of guests to `all`.
    fn fds<'a>(&'a self, all: &mut Vec<BorrowedFd<'a>>);
    /// Returns the work that guests were charged for so far ([`doorbell_hal::Port::charge`]).
    #[cfg(test)]
    fn work(&self) -> u64;
    fn report(&self) -> Report;
    /// Serves the last requests and disconnects guests.
    fn close(&mut self, clock: &Clock);
}

/// A line of `--control` that is not a command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(
        "`{line}` is not a command; there are failover, migrate, error, link up and link down, \
         each with the number of a partition behind it unless it is 0, up to {last}"
    )]
    Unknown { line: String, last: usize },
    #[error("`{line}`: the device has no commands")]
    NoCommands { line: String },
}

/// The longest lag of the wire.
const CATCH_UP: Span = Span::from_us(128);
/// Frames that arrive in one turn.
const BURST: usize = 32;
/// The longest wait, after which signals are checked.
pub(super) const NAP: Duration = Duration::from_millis(200);
/// Time after which a refused frame is offered again.
const RETRY: Span = Span::from_us(500);
/// Turns of a busy server after which it looks at descriptors.
const LOOKS: u32 = 16;
/// Time after a client that could not be accepted during which no other is.
const REST: Span = Span::from_ms(100);
/// Time after the last request or doorbell during which the loop does not sleep.
pub(super) const AWAKE: Span = Span::from_us(50);

/// The wire toward the guests.
struct Wire {
    frame: Box<[u8]>,
    /// Length of a frame to offer again.
    held: Option<usize>,
    /// Time at which the next frame may arrive.
    free: Time,
    /// The guest's last pause frame is in effect. A frame that arrives meanwhile does so because
    /// its time has run out.
    paused: bool,
    byte: Span,
}

impl Wire {
    /// Passes frames from the uplink to the device. Returns true if there was any.
    fn deliver<T: Transport>(&mut self, t: &mut T, bill: &SharedBill, clock: &Clock) -> bool {
        if !t.connected() {
            return false;
        }
        for n in 0..BURST {
            let now = clock.now();
            let pause = bill.borrow_mut().pause.take().filter(|_| T::PAUSES);
            if let Some(quanta) = pause {
                self.free = now + self.byte * (u64::from(quanta) * 64);
                self.paused = quanta > 0;
            }
            if self.free > now {
                return n > 0;
            }
            let next = || bill.borrow_mut().uplink.receive(now, &mut self.frame);
            let Some(len) = self.held.take().or_else(next) else { return n > 0 };
            let frame = &self.frame[..len];
            let verdict = t.receive(now, frame);
            let mut bill = bill.borrow_mut();
            let waits = bill.uplink.waits_for_receiver();
            let off = verdict == RxVerdict::Dropped(DropReason::Off);
            if self.paused && verdict == RxVerdict::Dropped(DropReason::Fifo) {
                bill.missed_after_pause += 1;
            }
            if waits {
                bill.uplink.told(now, !off);
            }
            if verdict == RxVerdict::Hold || (off && waits) {
                self.held = (verdict == RxVerdict::Hold).then_some(len);
                self.free = now + if off { RETRY * 20 } else { RETRY };
                return n > 0;
            }
            bill.arrives(now, frame);
            let least = Time::from_ps(now.ps().saturating_sub(CATCH_UP.ps()));
            self.free = self.free.max(least) + self.byte * wire_bytes(1, len.max(MIN_FRAME) as u64);
        }
        true
    }

    /// Returns the time at which a frame may arrive without a readable descriptor.
    fn next_due(&self, bill: &SharedBill, now: Time) -> Option<Time> {
        if self.held.is_some() || self.free > now {
            return Some(self.free);
        }
        bill.borrow().uplink.due().map(|t| t.max(self.free))
    }
}

/// A served device with all that has a turn.
pub(super) struct Server<T> {
    pub(super) t: T,
    pub(super) c: ServeContext,
    pub(super) clock: Clock,
    bill: SharedBill,
    wire: Wire,
    /// The time until which no client is accepted, after the system had no descriptor for one.
    rests_until: Option<Time>,
    ready: Vec<bool>,
    /// There was work in the last turn.
    busy: bool,
    /// Turns since the descriptors were looked at.
    unlooked: u32,
}

/// Returns true if a client may be accepted, which none is before `rests_until`.
fn may_accept<T: Transport>(t: &T, rests_until: Option<Time>, clock: &Clock) -> bool {
    rests_until.is_none_or(|then| clock.now() >= then) && t.listens() && reaper::may_accept()
}

impl<T: Transport> Server<T> {
    /// Takes a device with a wire of this rate.
    pub(super) fn new(
        t: T,
        bits_per_second: u64,
        bill: SharedBill,
        c: ServeContext,
        clock: Clock,
    ) -> Server<T> {
        let wire = Wire {
            frame: vec![0; MAX_FRAME].into(),
            held: None,
            free: Time::ZERO,
            paused: false,
            byte: Span::from_ps(8_000_000_000_000 / bits_per_second),
        };
        let (rests_until, ready) = (None, Vec::new());
        Server { t, c, clock, bill, wire, rests_until, ready, busy: false, unlooked: 0 }
    }

    /// Accepts a client, if one waits. Returns true if one did.
    fn accept(&mut self) -> bool {
        match self.c.socket.accept() {
            Ok(Some(socket)) => {
                if !self.t.connected() {
                    self.bill.borrow_mut().uplink.restart();
                    (self.wire.held, self.wire.paused) = (None, false);
                }
                if let Err(e) = self.t.connect(self.clock.now(), socket, &self.c) {
                    self.c.notice(Kind::Refused, format_args!("rejected connection: {e}"));
                }
                true
            }
            Ok(None) => false,
            Err(e) => {
                self.c.notice(Kind::Refused, format_args!("rejected connection: {e}"));
                self.rests_until = Some(self.clock.now() + REST);
                false
            }
        }
    }

    /// Lets `wait` wait for descriptors, as [`readable`](doorbell_vfio_user::readable) does, and
    /// accepts a client that waits. Returns true if there was one.
    fn look<W>(&mut self, wait: W) -> Result<bool, Error>
    where
        W: FnOnce(&Clock, &[BorrowedFd<'_>], Duration, &mut Vec<bool>) -> io::Result<()>,
    {
        let Server { t, bill, c, clock, wire, rests_until, ready, busy, unlooked } = self;
        let now = clock.now();
        let patience = t.patience(now, *busy);
        *unlooked += 1;
        if patience.is_none() && c.metrics.is_none() && *unlooked < LOOKS {
            return Ok(false);
        }
        *unlooked = 0;
        let mut longest = patience.unwrap_or_default();
        let frame = wire.next_due(bill, now).filter(|_| t.connected());
        if let Some(due) = [t.next_due(), frame].into_iter().flatten().min() {
            longest = longest.min(Duration::from_nanos(due.since(now).ps().div_ceil(1000)));
        }
        let sleeps = longest > Duration::ZERO;
        // A request may have come before the guests knew.
        if sleeps && t.set_sleeping(true) {
            longest = Duration::ZERO;
        }
        let held = bill.borrow();
        let mut fds: Vec<_> = c.metrics.iter().flat_map(|m| m.fds(now)).collect();
        let metrics = fds.len();
        let accepts = may_accept(t, *rests_until, clock);
        fds.extend(accepts.then(|| c.socket.as_fd()));
        t.fds(&mut fds);
        fds.extend(c.control.iter().map(Control::fd));
        if wire.free <= now && wire.held.is_none() && t.connected() {
            fds.extend(held.uplink.fd());
        }
        wait(clock, &fds, longest, ready).map_err(|e| failed!("{e}"))?;
        drop(fds);
        drop(held);
        if sleeps {
            t.set_sleeping(false);
        }
        if let Some(m) = &mut c.metrics {
            m.serve(clock.now(), &ready[..metrics], || t.report());
        }
        Ok(accepts && ready[metrics] && self.accept())
    }

    /// Waits for descriptors by `wait`, and gives everybody a turn.
    pub(super) fn turn<W>(&mut self, wait: W) -> Result<(), Error>
    where
        W: FnOnce(&Clock, &[BorrowedFd<'_>], Duration, &mut Vec<bool>) -> io::Result<()>,
    {
        let mut busy = self.look(wait)?;
        while let Some(line) = self.c.control.as_mut().and_then(|c| c.line(self.clock.now())) {
            match self.t.command(self.clock.now(), &line) {
                Ok(()) => self.c.notice(Kind::Control, format_args!("{line}")),
                Err(e) => self.c.notice(Kind::Control, format_args!("{e}")),
            }
        }
        let Server { t, bill, c, clock, wire, .. } = self;
        busy |= t.serve(clock, c);
        let now = clock.now();
        bill.borrow_mut().uplink.look(now);
        bill.borrow_mut().uplink.flush();
        busy |= wire.deliver(t, bill, clock);
        bill.borrow_mut().uplink.flush();
        t.finish_turn(clock, busy, c);
        for why in bill.borrow_mut().failures.drain(..) {
            c.error(format_args!("{why}"));
        }
        if let Some(why) = bill.borrow_mut().uplink.lost.take() {
            c.notice(Kind::Uplink, format_args!("the uplink is gone: {why}"));
        }
        if let Some(what) = bill.borrow_mut().uplink.notice() {
            c.notice(Kind::Uplink, format_args!("{what}"));
        }
        c.notices.borrow_mut().at(now);
        self.busy = busy;
        Ok(())
    }
}

/// Serves a device with a wire of this rate until a signal stops it, then prints the ledger.
pub(super) fn run<T: Transport>(
    t: T,
    bits_per_second: u64,
    bill: SharedBill,
    mut c: ServeContext,
) -> Result<u8, Error> {
    let system = |e: io::Error| failed!("{e}");
    exact_timers();
    // Before any thread is made, so that all are confined.
    if let Some(sandbox) = &c.sandbox {
        let refused = |e| failed!("the sandbox: {e}; --no-sandbox leaves it out");
        let confined = sandbox.enter().map_err(refused)?;
        c.notice(Kind::Server, format_args!("sandbox: {confined}"));
    }
    c.start().map_err(system)?;
    bill.borrow_mut().start().map_err(system)?;
    reaper::start().map_err(system)?;
    let _guard = Guard::new().map_err(system)?;
    c.stop.lose_patience().map_err(system)?;
    let (show, cable) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    flag::register(SIGUSR1, Arc::clone(&show)).map_err(system)?;
    flag::register(SIGUSR2, Arc::clone(&cable)).map_err(system)?;
    let clock = Clock::Since(Instant::now());
    let mut server = Server::new(t, bits_per_second, Rc::clone(&bill), c, clock);
    let mut plugged = true;
    if let Some(m) = &server.c.metrics {
        server
            .c
            .notice(Kind::Server, format_args!("the counts are at http://{}/metrics", m.address));
    }
    server.c.notice(Kind::Server, format_args!("{} is ready", server.t.report().device));
    while !server.c.stop.came() {
        if show.swap(false, Ordering::Relaxed) {
            server.c.show(server.t.report().show(server.c.format));
        }
        if cable.swap(false, Ordering::Relaxed) {
            plugged = !plugged;
            let how = if plugged { "in" } else { "pulled" };
            if server.t.set_cable(server.clock.now(), plugged) {
                server.c.notice(Kind::Control, format_args!("the cable is {how}"));
            } else {
                let device = server.t.report().device;
                server.c.notice(Kind::Control, format_args!("{device} has no link"));
            }
        }
        server.turn(|_, fds, longest, ready| readable(fds, Some(longest), ready))?;
    }
    let ended = end(&mut server, &bill);
    // What else there is to say is said here: a reader of stderr that stopped stops no end.
    let code = match ended {
        Err(e) if !is_collected() => {
            server.c.error(format_args!("{e}"));
            Ok(e.code())
        }
        ended => ended,
    };
    server.c.notices.get_mut().finish();
    code
}

/// Ends a server: puts the files in their places, and shows the last report.
fn end<T: Transport>(server: &mut Server<T>, bill: &SharedBill) -> Result<u8, Error> {
    server.t.close(&server.clock);
    // The files are put in their places even if stdout is gone.
    let complete = bill.borrow_mut().finish();
    for why in bill.borrow_mut().failures.drain(..) {
        server.c.error(format_args!("{why}"));
    }
    let report = server.t.report();
    server.c.show_last(report.show(server.c.format))?;
    let wrong = if server.c.check_wire { report.wrong_on_the_wire() } else { 0 };
    if wrong > 0 {
        let why = format_args!("{wrong} frames left by an offload with a wrong checksum");
        server.c.error(why);
    }
    Ok(if complete? && wrong == 0 { DONE } else { MISSED })
}
