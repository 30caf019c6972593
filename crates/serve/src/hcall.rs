//! A device that guests reach by hypervisor calls, one partition each.
//!
//! A guest's CPU waits while its call is answered, so the loop looks for the next call for some
//! microseconds before it sleeps. All guests share the device and its one thread.

use super::context::{Clock, ServeContext, SharedBill, span};
use super::event_loop::{AWAKE, CommandError, NAP, Transport, run};
use super::outlet::Kind;
use super::report::{Report, counters, entries};
use doorbell_console::Error;
use doorbell_hal::{HcallDevice, Port as _, RxVerdict, Span, Time};
use doorbell_layout::Call;
use doorbell_layout::ibmvnic::hcall;
use doorbell_papr_io::{
    DeviceCallbacks, Greeted, Newcomer, Partition, PluginStats, PollCursor, Unit, publish_credits,
    step,
};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::{io, mem, time::Duration};

/// The description of the way to the device in a report.
pub(super) const BUS: &str = "hypervisor calls";

/// Turns after which a busy server also checks the sockets of its guests.
const LISTENS: u32 = 256;
/// A check of the sockets that took longer than this is followed by a rest, so many times as long
/// but not longer than the most, in which no newcomer is greeted. Most of the time is the guests'.
const SLOW: Span = Span::from_ms(2);
const REST: u64 = 4;
const LONGEST_REST: Span = Span::from_ms(2000);

pub(super) type Port = Partition<SharedBill>;

/// A device model that partitions reach by hypervisor calls.
pub(super) trait Backend: HcallDevice<Port> + Sized {
    /// Queries whose answers are shared with the plug-in.
    const CALLBACKS: DeviceCallbacks<Self>;
    /// A counter that the device cannot keep, because the plug-in does its work.
    const UNCOUNTED: Option<&'static str> = None;
    /// Pulls the cable, or plugs it in. Returns false if the device has no link.
    fn set_cable(&mut self, partitions: usize, at: Time, plugged: bool) -> bool;
    /// Takes back the registrations of a partition whose guest has gone, as a hypervisor does.
    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32);
    /// Carries out a line of `--control`.
    fn command(&mut self, partitions: usize, at: Time, line: &str) -> Result<(), CommandError>;
}

/// The description of a kind of adapter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adapter {
    pub(super) name: &'static str,
    pub(super) bits_per_second: u64,
    pub(super) unit: Unit,
    /// Its calls.
    pub(super) calls: &'static [Call],
}

/// A device with its partitions.
pub(super) struct Hcalls<D> {
    adapter: Adapter,
    device: D,
    ports: Vec<Port>,
    /// Connections that have not introduced themselves, the oldest first.
    newcomers: Vec<Newcomer>,
    /// The end of the rest after a slow check.
    greets_from: Time,
    /// One has come in this turn.
    came: bool,
    bill: SharedBill,
    /// The count of each of the adapter's calls; the last is of any other.
    made: Vec<u64>,
    /// Guests so far.
    guests: u64,
    called: Time,
    turns: u32,
}

/// Serves a device until a signal stops it.
pub(super) fn serve<D: Backend>(
    adapter: Adapter,
    device: D,
    partitions: usize,
    bill: SharedBill,
    c: ServeContext,
) -> Result<u8, Error> {
    let hcalls = Hcalls::new(adapter, device, partitions, &bill, &c);
    run(hcalls, adapter.bits_per_second, bill, c)
}

impl<D: Backend> Hcalls<D> {
    pub(super) fn new(
        adapter: Adapter,
        device: D,
        partitions: usize,
        bill: &SharedBill,
        c: &ServeContext,
    ) -> Hcalls<D> {
        let port = || Partition::new(bill.clone()).with_stop(c.stop.flag());
        Hcalls {
            adapter,
            device,
            ports: (0..partitions).map(|_| port()).collect(),
            newcomers: Vec::new(),
            greets_from: Time::ZERO,
            came: false,
            bill: bill.clone(),
            made: vec![0; adapter.calls.len() + 1],
            guests: 0,
            called: Time::ZERO,
            turns: 0,
        }
    }

    /// Returns the number of partitions that have a guest.
    fn connected_guests(&self) -> usize {
        self.ports.iter().filter(|p| p.connected()).count()
    }

    /// Answers the pending calls of one of `guests` partitions, and carries out posted sends, for a
    /// share of a turn; with `all` whatever of it is spent. Returns true if there was any.
    fn answer(&mut self, i: usize, guests: usize, clock: &Clock, all: bool) -> bool {
        let (mut any, mut cursor) = (false, PollCursor::among(guests));
        let (device, ports) = (&mut self.device, &mut self.ports);
        while all || !ports[i].is_spent() {
            let call = step(device, ports, i, clock.now(), &mut cursor, &D::CALLBACKS);
            let Some(call) = call else { break };
            any = true;
            let known = self.adapter.calls.iter().position(|c| c.number == call.0);
            self.made[known.unwrap_or(self.adapter.calls.len())] += 1;
        }
        any
    }

    fn answer_each(&mut self, guests: usize, clock: &Clock, all: bool) -> bool {
        (0..self.ports.len()).fold(false, |any, i| self.answer(i, guests, clock, all) | any)
    }

    /// Connects the newcomers that have introduced themselves, each to a partition without a guest.
    fn greet(&mut self, now: Time, c: &ServeContext) {
        for newcomer in mem::take(&mut self.newcomers) {
            let Some(i) = self.ports.iter().position(Port::is_free) else {
                c.notice(
                    Kind::Refused,
                    format_args!("rejected connection: every partition has a guest"),
                );
                continue;
            };
            match newcomer.greet(now, self.adapter.unit, c.populate) {
                Greeted::Waits(newcomer) => self.newcomers.push(newcomer),
                Greeted::Refused(gone) => {
                    c.notice(
                        Kind::Refused,
                        format_args!("rejected connection: not a guest: {gone}"),
                    );
                }
                Greeted::Guest(guest) => {
                    self.guests += 1;
                    self.ports[i].connect(*guest);
                    c.notice(Kind::Guest, format_args!("partition {i} has a guest"));
                }
            }
        }
    }
}

impl<D: Backend> Transport for Hcalls<D> {
    const PAUSES: bool = false;

    fn set_cable(&mut self, at: Time, plugged: bool) -> bool {
        self.device.set_cable(self.ports.len(), at, plugged)
    }

    fn command(&mut self, at: Time, line: &str) -> Result<(), CommandError> {
        self.device.command(self.ports.len(), at, line)
    }

    fn listens(&self) -> bool {
        true
    }

    fn connect(&mut self, at: Time, socket: UnixStream, c: &ServeContext) -> io::Result<()> {
        // The oldest has had the most time.
        if self.newcomers.len() == usize::from(c.limits.newcomers) {
            self.newcomers.remove(0);
        }
        self.newcomers.push(Newcomer::new(socket, at, span(c.limits.hello()))?);
        self.came = true;
        Ok(())
    }

    fn connected(&self) -> bool {
        self.ports.iter().any(Port::connected)
    }

    fn serve(&mut self, clock: &Clock, _: &ServeContext) -> bool {
        let guests = self.connected_guests();
        self.ports.iter_mut().for_each(|p| p.begin_turn(guests));
        let any = self.answer_each(guests, clock, false);
        let now = clock.now();
        if any {
            self.called = now;
        }
        self.device.advance(&mut self.ports, now);
        any
    }

    fn receive(&mut self, at: Time, frame: &[u8]) -> RxVerdict {
        self.device.advance(&mut self.ports, at);
        let verdict = self.device.receive(&mut self.ports, at, frame);
        self.device.advance(&mut self.ports, at);
        verdict
    }

    fn finish_turn(&mut self, clock: &Clock, busy: bool, c: &ServeContext) {
        let now = clock.now();
        // Announcements of memory and of a guest's end can wait for a while, but not for ever.
        self.turns = self.turns.wrapping_add(1);
        let came = mem::take(&mut self.came);
        let listens = came || !busy || self.turns.is_multiple_of(LISTENS);
        for i in 0..self.ports.len() {
            publish_credits(&mut self.device, &mut self.ports, i, now, &D::CALLBACKS);
            let port = &mut self.ports[i];
            let heard = port.flush().and_then(|()| if listens { port.listen() } else { Ok(()) });
            if let Err(gone) = heard {
                c.notice(Kind::Guest, format_args!("partition {i}: {gone}"));
                // What was posted goes first, a share of it: the rest is lost with the guest.
                self.answer(i, self.connected_guests(), clock, true);
                self.ports[i].disconnect();
                self.device.let_go(&mut self.ports, i, now, self.adapter.unit.address);
            }
        }
        // A guest that left before a newcomer came has made room for it.
        if listens {
            if now >= self.greets_from {
                self.greet(now, c);
            }
            // To map memory, the kernel may wait for whoever else has mapped it.
            let ended = clock.now();
            let took = ended.since(now);
            if took > SLOW {
                self.greets_from = ended + (took * REST).min(LONGEST_REST);
            }
        }
    }

    fn next_due(&self) -> Option<Time> {
        self.device.next_due()
    }

    fn patience(&self, now: Time, busy: bool) -> Option<Duration> {
        let awake = now.since(self.called) < AWAKE;
        (!busy).then_some(if awake { Duration::ZERO } else { NAP })
    }

    fn set_sleeping(&mut self, sleeping: bool) -> bool {
        self.ports.iter().for_each(|p| p.set_sleeping(sleeping));
        self.ports.iter().any(Port::has_calls)
    }

    fn fds<'a>(&'a self, all: &mut Vec<BorrowedFd<'a>>) {
        all.extend(self.ports.iter().flat_map(Port::fds));
        all.extend(self.newcomers.iter().map(AsFd::as_fd));
    }

    #[cfg(test)]
    fn work(&self) -> u64 {
        self.ports.iter().map(Port::work).sum()
    }

    fn report(&self) -> Report {
        let bill = self.bill.borrow();
        let mut l = bill.ledger;
        let stats =
            self.ports.iter().map(Port::stats).fold(PluginStats::default(), |a, b| a.plus(&b));
        (l.tce_hcalls, l.tce_puts) = (stats.table_calls, stats.table_entries);
        // Messages that are still under way are included.
        l.messages = (l.messages + stats.raised).saturating_sub(stats.held);
        let mut made = self.made.clone();
        for (n, call) in self.adapter.calls.iter().enumerate() {
            made[n] += match call.number {
                hcall::VIO_SIGNAL => stats.signal_calls,
                hcall::VIOCTL => stats.vioctl_calls,
                _ => 0,
            };
        }
        l.hcalls = made.iter().sum::<u64>() + l.tce_hcalls;
        let other = ("hcall_other", "Calls that the device does not know.");
        let names = self.adapter.calls.iter().map(|c| (c.name, c.about)).chain([other]);
        let mut ledger = entries(&l);
        ledger.extend(names.zip(&made).map(|((name, about), v)| (name, about, *v)));
        let (refused, switches) = (stats.posted_refused, stats.signal_calls + stats.vioctl_calls);
        ledger.extend([
            ("posted", "Sends among those that the guest did not wait for.", stats.posted),
            ("posted_refused", "Of those, refused because their session had ended.", refused),
            ("switches", "H_VIO_SIGNAL and H_VIOCTL that were answered in the plug-in.", switches),
            ("arrived_frames", "Frames that arrived from the wire.", bill.arrived.0),
            ("arrived_bytes", "Bytes of those, without FCS.", bill.arrived.1),
            ("uplink_dropped", "Frames that the uplink did not take.", bill.uplink.dropped),
        ]);
        let mut all = counters(&self.device);
        all.retain(|(name, _)| Some(*name) != D::UNCOUNTED);
        Report {
            device: self.adapter.name,
            bus: BUS,
            connected: self.connected(),
            clients: self.guests,
            ledger,
            counters: all,
        }
    }

    fn close(&mut self, clock: &Clock) {
        self.answer_each(self.connected_guests(), clock, true);
    }
}
