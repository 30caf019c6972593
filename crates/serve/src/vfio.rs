//! A device on a bus of its guest, over vfio-user: one client at a time.
//!
//! Polled doorbell pages are checked without waiting while doorbells come, and now and then
//! otherwise.

use super::context::{Clock, ServeContext, SharedBill};
use super::event_loop::{AWAKE, NAP, Transport, run};
use super::outlet::Kind;
use super::report::{Report, counters, entries};
use doorbell_console::{Error, input};
use doorbell_hal::{Device, EventSource, RxVerdict, Time};
use doorbell_vfio_user::{Bar, Function, GuestPort, Limits};
use std::os::unix::net::UnixStream;
use std::{io, os::fd::BorrowedFd, time::Duration};

/// The time between looks at polled pages when no doorbell comes.
const GLANCE: Duration = Duration::from_micros(50);

/// The rule that a driver breaks whose device is told to do DMA too early.
const WITHOUT_MASTER: &str = "the driver has started DMA while bus mastering is off, or the \
    device is not in D0: PCI Local Bus Specification 3.0, section 6.2.2, command register, bit 2";

/// The description of a device, and the user's options for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub(super) name: &'static str,
    /// The bus by whose rules it is counted.
    pub(super) bus: &'static str,
    pub(super) bits_per_second: u64,
    pub(super) mac: Option<[u8; 6]>,
    /// Doorbell pages are ordinary registers, and each doorbell leaves the guest's CPU.
    pub(super) trap_doorbells: bool,
    /// One WQE in this many fails; 0: none.
    pub(super) fail_every: u32,
}

/// A device with its client.
pub(super) struct Vfio<D> {
    card: Card,
    function: Function<D, SharedBill>,
    bill: SharedBill,
    /// Clients so far.
    clients: u64,
    /// The last doorbell in a polled page.
    rang: Time,
    /// Reported unknown requests.
    unknown: usize,
    /// Reported accesses without bus mastering.
    without_master: u64,
}

/// Fills a list of BARs up with empty ones.
pub(super) fn bars<const N: usize>(first: [Bar; N]) -> [Bar; 6] {
    std::array::from_fn(|i| first.get(i).copied().unwrap_or(Bar::None))
}

/// Serves a device until a signal stops it.
pub(super) fn serve<D: Device<GuestPort<SharedBill>>>(
    card: Card,
    function: io::Result<Function<D, SharedBill>>,
    bill: SharedBill,
    c: ServeContext,
) -> Result<u8, Error> {
    let function = function.map_err(|e| input!("{e}"))?;
    run(Vfio::new(card, function, &bill, &c), card.bits_per_second, bill, c)
}

impl<D: Device<GuestPort<SharedBill>>> Vfio<D> {
    pub(super) fn new(
        card: Card,
        function: Function<D, SharedBill>,
        bill: &SharedBill,
        c: &ServeContext,
    ) -> Vfio<D> {
        let reply = Duration::from_secs(c.limits.reply_timeout.into());
        let limits = Limits { hello: c.limits.hello(), reply };
        let mut function = function.with_limits(limits).with_stop(c.stop.flag());
        if c.populate {
            function = function.with_populated_memory();
        }
        Vfio {
            card,
            function,
            bill: bill.clone(),
            clients: 0,
            rang: Time::ZERO,
            unknown: 0,
            without_master: 0,
        }
    }
}

impl<D: Device<GuestPort<SharedBill>>> Transport for Vfio<D> {
    const PAUSES: bool = true;

    fn set_cable(&mut self, at: Time, plugged: bool) -> bool {
        self.function.with_device(|d, port| d.cable(port, at, plugged));
        true
    }

    fn listens(&self) -> bool {
        !self.function.connected()
    }

    fn connect(&mut self, at: Time, socket: UnixStream, c: &ServeContext) -> io::Result<()> {
        self.clients += 1;
        self.function.connect(at, socket)?;
        c.notice(Kind::Guest, format_args!("client {} has connected", self.clients));
        Ok(())
    }

    fn connected(&self) -> bool {
        self.function.connected()
    }

    fn serve(&mut self, clock: &Clock, c: &ServeContext) -> bool {
        let served = self.function.serve(|| clock.now());
        if let Err(gone) = &served {
            c.notice(Kind::Guest, format_args!("client {}: {gone}", self.clients));
        }
        if let Some(request) = self.function.device().unknown(self.unknown) {
            self.unknown += 1;
            let what = format_args!("the device does not know a request of the driver: {request}");
            c.notice(Kind::Driver, what);
        }
        let now = clock.now();
        let rung = self.function.poll_pages(now);
        if rung {
            self.rang = now;
        }
        self.function.advance(now);
        let without_master = self.function.accesses_without_master();
        if without_master > self.without_master {
            self.without_master = without_master;
            c.notice(Kind::Driver, format_args!("{WITHOUT_MASTER}"));
        }
        rung || served.is_ok_and(|n| n > 0)
    }

    fn receive(&mut self, at: Time, frame: &[u8]) -> RxVerdict {
        self.function.receive(at, frame)
    }

    fn next_due(&self) -> Option<Time> {
        self.function.next_due()
    }

    fn patience(&self, now: Time, busy: bool) -> Option<Duration> {
        match (self.function.polls(), busy) {
            (true, true) => None,
            (true, false) if now.since(self.rang) >= AWAKE => Some(GLANCE),
            (false, false) => Some(NAP),
            _ => Some(Duration::ZERO),
        }
    }

    fn fds<'a>(&'a self, all: &mut Vec<BorrowedFd<'a>>) {
        if self.function.connected() {
            all.extend(self.function.fds());
        }
    }

    #[cfg(test)]
    fn work(&self) -> u64 {
        self.function.port().work()
    }

    fn report(&self) -> Report {
        let bill = self.bill.borrow();
        let mut ledger = entries(&bill.ledger);
        let (trapped, missed) = (bill.trapped, bill.missed_after_pause);
        let lost = self.function.lost_interrupts();
        let without_master = self.function.accesses_without_master();
        ledger.extend([
            ("trapped_writes", "Of the register writes, those that left the guest's CPU.", trapped),
            ("arrived_frames", "Frames that arrived from the wire.", bill.arrived.0),
            ("arrived_bytes", "Bytes of those, without FCS.", bill.arrived.1),
            (
                "missed_after_pause",
                "Frames that the device had no room for after the end of its pause.",
                missed,
            ),
            ("uplink_dropped", "Frames that the uplink did not take.", bill.uplink.dropped),
            ("lost_interrupts", "Interrupts that the guest had not asked for.", lost),
            (
                "dma_without_master",
                "DMA faults of accesses that the device tried without bus mastering.",
                without_master,
            ),
        ]);
        Report {
            device: self.card.name,
            bus: self.card.bus,
            connected: self.function.connected(),
            clients: self.clients,
            ledger,
            counters: counters(self.function.device()),
        }
    }

    fn close(&mut self, clock: &Clock) {
        self.function.disconnect(clock.now());
    }
}
