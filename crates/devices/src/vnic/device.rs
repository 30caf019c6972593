//! The device: its clients, what is due when, and what happens to a session from outside.

use super::session::{RxQueue, Session, TxQueue};
use super::{Config, queue::Ring, transmit::TxRequest};
use crate::{Addresses, common::SpareFrames};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use doorbell_hal::{
    DmaFault, EventSource, Fact, Hcall, HcallDevice, Port, Reply, RxVerdict, Time, transfer_units,
};
use doorbell_layout::ibmvnic::{
    ERROR_FATAL, ErrorIndication, LinkStateIndication, MAX_INDIRECT, MESSAGE, Message, RxAdd, cmd,
    first,
};
use doorbell_packet::ethernet::Cast;
use zerocopy::byteorder::big_endian::{U16, U32};

counters! {
    /// Counters of the device, over all clients. Each frame taken to be sent ends in one of
    /// `tx_sent`, `tx_errors`, `tx_discarded` and `tx_lost`.
    struct Counters;
    direct_calls: "Direct sends taken.",
    indirect_calls: "Indirect sends taken, receive buffers among them.",
    rx_add_calls: "Indirect sends of receive buffers among them.",
    descriptors: "Descriptors taken.",
    header_bytes in Bytes: "Bytes in header descriptors taken.",
    refused_closed: "Sends refused with H_CLOSED.",
    refused_parameter: "Sends refused with H_PARAMETER.",
    refused_resource: "Sends refused with H_RESOURCE: the queue is full.",
    lso_freezes: "Large sends with an MSS that froze the adapter behind the server.",
    tx_taken: "Frames taken to be sent.",
    wire_bad_checksums: "Frames that left by an offload with a wrong checksum.",
    tx_sent: "Of those, sent.",
    tx_errors: "Of those, given up with an error in the completion.",
    tx_discarded: "Of those, thrown away for want of a link.",
    tx_lost: "Of those, lost with their session.",
    tx_frames: "Frames on the wire: segments of large sends each.",
    tx_bytes in Bytes: "Bytes of those.",
    tx_checksums: "Checksums completed, segments not counted.",
    large_sends: "Large sends.",
    headers_missing: "Packets without the headers that were asked for.",
    headers_bad: "Packets with other headers than were asked for.",
    headers_unasked: "Packets with headers that nobody asked for.",
    completions: "Correlators reported.",
    completion_messages: "Messages they were reported in.",
    completions_lost: "Correlators that were never reported: their session had ended.",
    rx_buffers: "Receive buffers taken.",
    rx_buffers_returned: "Receive buffers given back when the client took its link down.",
    rx_buffers_lost: "Receive buffers that went with their session.",
    rx_offered: "Frames from the wire, for each client that they were for.",
    rx_packets: "Of those, put into memory.",
    rx_bytes in Bytes: "Bytes of those.",
    rx_no_buffer: "Of those, without a buffer.",
    rx_malformed: "Of those, too long or too short.",
    rx_faults: "Of those, with a buffer that could not be reached.",
    rx_off: "Of those, for a client that is not up.",
    rx_lost: "Of those, lost with their session.",
    rx_filtered: "Frames for nobody.",
    commands: "Commands executed.",
    commands_refused: "Commands answered with another code than success.",
    commands_lost: "Commands that their session did not see executed.",
    responses: "Messages that the client sent as responses.",
    queue_faults: "Queue entries that could not be written.",
    entries_lost: "Queue entries that their session did not see written.",
    dma_faults: "Reads of a partition's memory that failed.",
    maps: "Long-term buffers mapped.",
    unmaps: "Long-term buffers unmapped, with their session or before.",
    sessions: "Sessions begun.",
    sessions_ended: "Sessions ended.",
    failovers: "Failovers, those that clients asked for among them.",
    client_failovers: "Failovers that clients asked for.",
    migrations: "Migrations.",
    errors_reported: "Errors reported to clients.",
}

/// Port counters of one adapter, for its client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortCounters {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Unicast, multicast, broadcast.
    pub(super) casts: [u64; 3],
    pub(super) errors: u64,
}

impl PortCounters {
    pub(super) fn count(&mut self, bytes: usize, cast: Cast) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.casts[cast as usize] += 1;
    }
}

/// One partition's adapter.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) crq: Option<Ring<MESSAGE>>,
    /// By number.
    pub(super) sub: Vec<Option<Ring<32>>>,
    /// The CRQ is off since a migration.
    pub(super) migrated: bool,
    /// Index of the active server.
    pub(super) active: usize,
    /// It is up.
    pub(super) ready: bool,
    /// Failovers so far: a server that is not yet up when the next one happens never is.
    pub(super) switches: u64,
    /// Calls that have answered H_BUSY in a row.
    pub(super) busy: u32,
    /// No more queues than this: the servers have not got them any more.
    pub(super) queue_limit: u64,
    pub(super) mac: [u8; 6],
    /// Its guest has taken the address, or was given it.
    pub(super) owns_mac: bool,
    /// The address that the hypervisor has given the partition.
    pub(super) given: Option<[u8; 6]>,
    pub(super) carrier: bool,
    /// The adapters behind the servers that a large send has frozen.
    pub(super) frozen: [bool; 2],
    /// Commands on their way.
    pub(super) commands: u32,
    /// Time at which the server has done the last command.
    pub(super) command_free: Time,
    pub(super) session: Session,
    /// Frames taken and not yet fetched.
    pub(super) tx: VecDeque<TxRequest>,
    /// Frames fetched and not yet on the wire, large sends once.
    pub(super) leaving: u64,
    pub(super) wire_free: Time,
    pub(super) errors: u32,
    pub(super) sent: PortCounters,
    pub(super) received: PortCounters,
    /// Events that are due, by time, then in the order of scheduling.
    due: VecDeque<ScheduledEvent>,
    /// The arrival of the last frame or answer written into the client's memory.
    pub(super) written: Time,
}

impl Client {
    /// Notes the arrival of a write into the client's memory, if it was made.
    pub(super) fn wrote(&mut self, arrival: Result<Time, DmaFault>) -> Option<Time> {
        let at = arrival.ok()?;
        self.written = self.written.max(at);
        Some(at)
    }

    /// Completions that a ring of the client has no room for.
    fn waiting(&self, ring: usize) -> u64 {
        self.sub.get(ring).and_then(Option::as_ref).map_or(0, |r| r.waiting() as u64)
    }

    /// Descriptors that a queue has room for. One whose completion waits counts, so that what waits
    /// for a client that takes no completion has an end.
    pub(super) fn tx_room(&self, q: &TxQueue) -> u64 {
        let most = self.session.granted.tx_entries + MAX_INDIRECT;
        most.saturating_sub(q.outstanding + self.waiting(q.ring))
    }

    /// Receive buffers that a queue has room for, likewise.
    pub(super) fn rx_room(&self, q: &RxQueue) -> u64 {
        let most = self.session.granted.rx_entries;
        most.saturating_sub(q.posted.len() as u64 + self.waiting(q.ring))
    }
}

/// Scheduled events. From outside, whatever the session, come `Failover` to `Error`.
#[derive(Debug)]
pub(super) enum Event {
    Command([u8; MESSAGE]),
    // A map of which so many pages were walked.
    Map([u8; MESSAGE], u32),
    // Receive buffers that go back because the link was taken down.
    ReturnBuffers,
    Respond([u8; MESSAGE]),
    // A frame's first bit leaves; `last`: of its packet.
    Frame { bytes: Vec<u8>, last: bool },
    Done(Completion),
    Report { queue: usize },
    Deliver { queue: usize, buffer: RxAdd, frame: Vec<u8> },
    Failover,
    Ready { switch: u64 },
    Migrate,
    Carrier(bool),
    Error { cause: u16, fatal: bool },
}

impl Event {
    /// Returns true if it is of no session.
    const fn is_from_outside(&self) -> bool {
        use Event::{Carrier, Error, Failover, Migrate, Ready};
        matches!(self, Failover | Ready { .. } | Migrate | Carrier(_) | Error { .. })
    }
}

/// A sent frame's completion.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) queue: usize,
    pub(super) correlator: u32,
    pub(super) rc: u16,
    /// Descriptors of the frame.
    pub(super) entries: u64,
    /// It is wanted.
    pub(super) report: bool,
}

#[derive(Debug)]
struct ScheduledEvent {
    at: Time,
    /// Among the events of all clients, in the order of scheduling.
    number: u64,
    session: u64,
    event: Event,
}

/// A queue that a client's sends are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQueue {
    /// Its handle.
    pub handle: u64,
    /// It takes receive buffers; otherwise frames.
    pub buffers: bool,
    /// Descriptors that it has room for.
    pub room: u64,
}

/// The hypervisor's part and both servers.
#[derive(Debug)]
pub struct VnicServer {
    pub(super) cfg: Config,
    /// Counters since it was made.
    pub counters: Counters,
    pub(super) clients: Vec<Client>,
    /// Events scheduled so far.
    events: u64,
    sessions: u64,
    /// Time at which the time line behind the calls is free.
    pub(super) serial_free: Time,
    /// Up to when everything has been done.
    now: Time,
    next_due: Time,
    /// Frames' memory, to be used again.
    pub(super) spare: SpareFrames,
}

impl VnicServer {
    /// An adapter for each of `partitions` partitions. Values out of range are rounded into it.
    pub fn new(cfg: Config, partitions: usize) -> VnicServer {
        let cfg = cfg.clamped();
        let mut d = VnicServer {
            cfg,
            counters: Counters::default(),
            clients: Vec::new(),
            events: 0,
            sessions: 0,
            serial_free: Time::ZERO,
            now: Time::ZERO,
            next_due: Time::NEVER,
            spare: SpareFrames::new(),
        };
        d.clients = (0..partitions).map(|i| d.client(i)).collect();
        d
    }

    fn client(&mut self, i: usize) -> Client {
        let mac = self.first_mac(i);
        self.sessions += 1;
        let session = Session::new(self.sessions, &self.cfg.servers[0]);
        let queue_limit = u64::MAX;
        Client { ready: true, queue_limit, mac, carrier: true, session, ..Client::default() }
    }

    fn first_mac(&self, i: usize) -> [u8; 6] {
        let mut mac = self.cfg.mac;
        mac[5] = mac[5].wrapping_add(i as u8);
        mac
    }

    /// Takes an address for a client. Returns false if it has no right to it.
    pub(super) fn take_mac(&mut self, client: usize, mac: [u8; 6]) -> bool {
        let (rights, c) = (self.cfg.addresses, &self.clients[client]);
        if rights != Addresses::Any {
            if rights == Addresses::Fixed && c.owns_mac && c.mac != mac {
                return false;
            }
            let others = self.clients.iter_mut().enumerate().filter(|(i, _)| *i != client);
            for (_, other) in others {
                // An address that is in use is taken, too.
                let has = other.mac == mac;
                let uses = other.owns_mac || other.session.queues.is_some();
                if other.given == Some(mac) || has && uses {
                    return false;
                }
                if has {
                    other.mac = [0; 6];
                }
            }
        }
        let c = &mut self.clients[client];
        (c.mac, c.owns_mac) = (mac, true);
        true
    }

    // ---- from outside ----

    /// Gives partition `client` an address of its own. No guest of another partition takes it, and
    /// its own takes another only with [`Addresses::Exclusive`].
    ///
    /// # Panics
    /// Panics, here and below, if there is no such partition.
    pub fn give_address(&mut self, client: usize, mac: [u8; 6]) {
        let c = &mut self.clients[client];
        (c.mac, c.owns_mac, c.given) = (mac, true, Some(mac));
    }

    /// Gives back the address of partition `client`, whose guest has gone.
    pub fn release_address(&mut self, client: usize) {
        if let Some(given) = self.clients[client].given {
            return self.give_address(client, given);
        }
        let mac = self.first_mac(client);
        let is_free = self.clients.iter().all(|c| c.mac != mac);
        let c = &mut self.clients[client];
        if c.mac != mac {
            c.mac = if is_free { mac } else { [0; 6] };
        }
        c.owns_mac = false;
    }

    /// At `at`, the other server takes over partition `client`'s adapter.
    pub fn fail_over(&mut self, client: usize, at: Time) {
        self.later(client, at, Event::Failover);
    }
    /// At `at`, the partition is on another machine.
    pub fn migrate(&mut self, client: usize, at: Time) {
        self.later(client, at, Event::Migrate);
    }
    /// At `at`, the port's link goes up or down.
    pub fn set_link(&mut self, client: usize, at: Time, up: bool) {
        self.later(client, at, Event::Carrier(up));
    }
    /// At `at`, an error is reported: see [`doorbell_layout::ibmvnic::cause`]. A fatal one ends the
    /// session.
    pub fn report_error(&mut self, client: usize, at: Time, cause: u16, fatal: bool) {
        self.later(client, at, Event::Error { cause, fatal });
    }
    /// From now on the servers have only so many queues for the adapter. A login with
    /// more, granted before, is a partial success.
    pub fn limit_queues(&mut self, client: usize, most: u64) {
        self.clients[client].queue_limit = most.max(1);
    }
    /// Frames taken to be sent of which nothing is decided yet.
    pub fn in_flight(&self, client: usize) -> u64 {
        self.clients[client].tx.len() as u64 + self.clients[client].leaving
    }
    /// Returns the frames taken from the wire that are not yet written, of all clients.
    pub fn in_hand(&self) -> u64 {
        let events = self.clients.iter().flat_map(|c| &c.due);
        events.filter(|d| matches!(d.event, Event::Deliver { .. })).count() as u64
    }
    /// Long-term buffers that the adapter's client has.
    pub fn live_maps(&self, client: usize) -> usize {
        self.clients[client].session.maps.len()
    }

    /// Queues that sends are taken for now: a client's session that is up has them.
    pub fn open_queues(&self, client: usize) -> impl Iterator<Item = OpenQueue> {
        let c = &self.clients[client];
        let up = c.crq.is_some() && !c.migrated && c.ready && !c.session.failed;
        let (s, queues) = (&c.session, c.session.queues.as_ref().filter(|_| up));
        let tx = queues.into_iter().flat_map(|q| q.tx.iter().enumerate()).map(|(i, q)| OpenQueue {
            handle: s.tx_handle(i),
            buffers: false,
            room: c.tx_room(q),
        });
        let rx = queues.into_iter().flat_map(|q| q.rx.iter().enumerate()).map(|(i, q)| OpenQueue {
            handle: s.rx_handle(i),
            buffers: true,
            room: c.rx_room(q),
        });
        tx.chain(rx)
    }

    /// Returns true if entries wait for room in the client's queues. They are written at its next
    /// call.
    pub fn has_waiting(&self, client: usize) -> bool {
        let c = &self.clients[client];
        c.crq.as_ref().is_some_and(|r| r.waiting() > 0)
            || c.sub.iter().flatten().any(|r| r.waiting() > 0)
    }

    // ---- what is due ----

    pub(super) fn later(&mut self, client: usize, at: Time, event: Event) {
        let at = at.max(self.now);
        self.next_due = self.next_due.min(at);
        self.events += 1;
        let number = self.events;
        let c = &mut self.clients[client];
        let place = c.due.partition_point(|d| d.at <= at);
        let session = c.session.number;
        c.due.insert(place, ScheduledEvent { at, number, session, event });
    }

    /// Puts what is left of an event before all else of its client, whose share is spent.
    pub(super) fn go_on(&mut self, client: usize, event: Event) {
        self.events += 1;
        let number = self.events;
        let c = &mut self.clients[client];
        let at = c.due.front().map_or(self.now, |d| d.at.min(self.now));
        let session = c.session.number;
        c.due.push_front(ScheduledEvent { at, number, session, event });
    }

    /// Returns the time at which the next frame of a client can be fetched.
    fn fetch_due(&self, c: &Client) -> Option<Time> {
        let ahead = Time::from_ps(c.wire_free.ps().saturating_sub(self.cfg.fetch_ahead.ps()));
        c.tx.front().map(|j| j.ready.max(ahead).max(self.now))
    }

    /// Returns the time of what is next, its client, and true if that is to fetch a frame. Clients
    /// that `wait` are left out.
    fn next(&self, wait: impl Fn(usize) -> bool) -> Option<(Time, usize, bool)> {
        let mut next: Option<((Time, Time, u64), usize, bool)> = None;
        for (i, c) in self.clients.iter().enumerate() {
            if (c.due.is_empty() && c.tx.is_empty()) || wait(i) {
                continue;
            }
            let event = c.due.front().map(|d| ((d.at, Time::ZERO, d.number), i, false));
            // Where clients wait for the device, that whose wire has been free for the longest is
            // next.
            let fetch = self.fetch_due(c).map(|at| ((at, c.wire_free, u64::MAX), i, true));
            for one in [event, fetch].into_iter().flatten() {
                if next.is_none_or(|n| one.0 < n.0) {
                    next = Some(one);
                }
            }
        }
        next.map(|n| (n.0.0, n.1, n.2))
    }

    /// Finds the time of the next event: a client has other frames to be fetched.
    fn update_next_due(&mut self) {
        self.next_due = self.next(|_| false).map_or(Time::NEVER, |n| n.0);
    }

    fn run<P: Port>(&mut self, ports: &mut [P], until: Time) {
        if self.next_due > until {
            self.now = self.now.max(until);
            return;
        }
        loop {
            // What is due for a client that has spent its share holds up no other client.
            let spent = |i: usize| ports.get(i).is_some_and(P::is_spent);
            let next = self.next(spent).filter(|n| n.0 <= until);
            let Some((at, client, fetch)) = next else { break };
            self.now = self.now.max(at);
            if fetch {
                self.fetch(ports, client, at);
            } else if let Some(mut d) = self.clients[client].due.pop_front() {
                // It may be late.
                d.at = self.now;
                if let Some(port) = ports.get_mut(client) {
                    self.handle(port, client, d);
                }
            }
        }
        self.now = self.now.max(until);
        self.update_next_due();
    }

    fn handle<P: Port>(&mut self, p: &mut P, client: usize, d: ScheduledEvent) {
        let ScheduledEvent { at, session, event, .. } = d;
        if self.clients[client].session.number != session && !event.is_from_outside() {
            return self.lose(client, event);
        }
        match event {
            Event::Command(m) => {
                self.clients[client].commands -= 1;
                self.command(p, client, at, m);
            }
            Event::Map(m, walked) => self.map_on(p, client, at, m, walked),
            Event::ReturnBuffers => self.return_buffers(p, client, at),
            Event::Respond(m) => self.tell(p, client, at, m),
            Event::Frame { mut bytes, last } => {
                self.clients[client].leaving -= u64::from(last);
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += bytes.len() as u64;
                self.clients[client].sent.count(bytes.len(), Cast::of(&bytes));
                p.charge(transfer_units(bytes.len()));
                p.emit_buffer(at, &mut bytes);
                self.counters.tx_sent += u64::from(last);
                self.spare.push(bytes);
            }
            Event::Done(c) => self.done(p, client, at, &c),
            Event::Report { queue } => self.report(p, client, at, queue),
            Event::Deliver { queue, buffer, mut frame } => {
                self.deliver(p, client, at, queue, buffer, &mut frame);
                self.spare.push(frame);
            }
            Event::Failover => self.fail_over_now(p, client, at),
            Event::Ready { switch } => self.ready(p, client, at, switch),
            Event::Migrate => self.migrate_now(p, client, at),
            Event::Carrier(up) => self.carrier(p, client, at, up),
            Event::Error { cause, fatal } => self.error(p, client, at, (cause, fatal)),
        }
    }

    /// Counts an event whose session has ended.
    fn lose(&mut self, client: usize, event: Event) {
        match event {
            Event::Command(_) => {
                self.clients[client].commands -= 1;
                self.counters.commands_lost += 1;
            }
            Event::Map(..) | Event::Respond(_) => self.counters.commands_lost += 1,
            Event::Frame { bytes, last } => {
                self.clients[client].leaving -= u64::from(last);
                self.counters.tx_lost += u64::from(last);
                self.spare.push(bytes);
            }
            Event::Done(c) => self.counters.completions_lost += u64::from(c.report),
            Event::Deliver { frame, .. } => {
                self.counters.rx_lost += 1;
                self.counters.rx_buffers_lost += 1;
                self.spare.push(frame);
            }
            // Reports nothing of its own, was counted with its session, or is of none.
            Event::Report { .. }
            | Event::ReturnBuffers
            | Event::Failover
            | Event::Ready { .. }
            | Event::Migrate
            | Event::Carrier(_)
            | Event::Error { .. } => {}
        }
    }

    // ---- messages of its own ----

    /// Writes a message to the CRQ, if the client has one and it works.
    pub(super) fn tell<P: Port>(&mut self, p: &mut P, client: usize, at: Time, m: [u8; MESSAGE]) {
        let c = &mut self.clients[client];
        match &mut c.crq {
            Some(ring) if !c.migrated => self.counters.queue_faults += ring.put(p, at, m),
            _ => self.counters.entries_lost += 1,
        }
    }

    /// Writes a message that is only its first byte and its command.
    pub(super) fn signal<P: Port>(&mut self, p: &mut P, client: usize, at: Time, m: (u8, u8)) {
        let m = Message { first: m.0, cmd: m.1, ..Message::default() };
        self.tell(p, client, at, m.bytes());
    }

    /// Ends the session: everything that it had is gone, and counted.
    pub(super) fn end_session(&mut self, client: usize) {
        self.sessions += 1;
        let c = &mut self.clients[client];
        let new = Session::new(self.sessions, &self.cfg.servers[c.active]);
        let old = core::mem::replace(&mut c.session, new);
        let lost: u64 = c.sub.iter_mut().flatten().map(|r| r.purge() as u64).sum();
        self.counters.entries_lost += lost + c.crq.as_mut().map_or(0, |r| r.purge() as u64);
        self.counters.tx_lost += c.tx.len() as u64;
        self.counters.unmaps += old.maps.len() as u64;
        self.counters.sessions_ended += u64::from(old.initialised);
        if let Some(q) = old.queues {
            let unreported: usize = q.tx.iter().map(|t| t.done.len()).sum();
            let posted: usize = q.rx.iter().map(|r| r.posted.len()).sum();
            self.counters.completions_lost += unreported as u64;
            self.counters.rx_buffers_lost += posted as u64;
        }
        while let Some(job) = self.clients[client].tx.pop_front() {
            self.counters.completions_lost += u64::from(job.wants_report());
            self.spare.push(job.headers.data);
        }
    }

    pub(super) fn fail_over_now<P: Port>(&mut self, p: &mut P, client: usize, at: Time) {
        self.counters.failovers += 1;
        self.clients[client].active ^= 1;
        self.end_session(client);
        let c = &mut self.clients[client];
        c.ready = false;
        c.switches += 1;
        let switch = c.switches;
        self.signal(p, client, at, (first::TRANSPORT, first::FAILOVER));
        self.later(client, at + self.cfg.failover, Event::Ready { switch });
    }

    /// The server is up, and says so to a client that waits for it.
    fn ready<P: Port>(&mut self, p: &mut P, client: usize, at: Time, switch: u64) {
        let c = &mut self.clients[client];
        if c.switches != switch {
            return;
        }
        c.ready = true;
        if c.crq.is_some() && !c.migrated && !c.session.initialised {
            self.signal(p, client, at, (first::HANDSHAKE, first::INIT));
        }
    }

    fn migrate_now<P: Port>(&mut self, p: &mut P, client: usize, at: Time) {
        self.counters.migrations += 1;
        self.end_session(client);
        if self.clients[client].crq.is_some() {
            self.signal(p, client, at, (first::TRANSPORT, first::MIGRATED));
            self.clients[client].migrated = true;
        }
    }

    fn carrier<P: Port>(&mut self, p: &mut P, client: usize, at: Time, up: bool) {
        let changed = core::mem::replace(&mut self.clients[client].carrier, up) != up;
        if changed && self.clients[client].session.queues.is_some() {
            self.indicate_link(p, client, at);
        }
    }

    pub(super) fn indicate_link<P: Port>(&mut self, p: &mut P, client: usize, at: Time) {
        let c = &self.clients[client];
        let m = LinkStateIndication {
            first: first::VALID,
            cmd: cmd::LINK_STATE_INDICATION,
            phys_link_state: c.carrier.into(),
            logical_link_state: c.session.link_up.into(),
            ..LinkStateIndication::default()
        };
        self.tell(p, client, at, m.bytes());
    }

    /// Reports an error; a fatal one is the end of the session, whose queues answer H_CLOSED until
    /// the client begins another.
    pub(super) fn error<P: Port>(&mut self, p: &mut P, client: usize, at: Time, e: (u16, bool)) {
        let (cause, fatal) = e;
        if !self.clients[client].session.initialised {
            return;
        }
        if fatal {
            self.end_session(client);
            self.clients[client].session.failed = true;
        }
        self.counters.errors_reported += 1;
        self.clients[client].errors += 1;
        let m = ErrorIndication {
            first: first::VALID,
            cmd: cmd::ERROR_INDICATION,
            flags: if fatal { ERROR_FATAL } else { 0 },
            error_id: U32::new(self.clients[client].errors),
            error_cause: U16::new(cause),
            ..ErrorIndication::default()
        };
        self.tell(p, client, at, m.bytes());
    }
}

impl EventSource for VnicServer {
    fn next_due(&self) -> Option<Time> {
        (self.next_due < Time::NEVER).then_some(self.next_due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        let c = &self.counters;
        for client in &self.clients {
            tell("server ready", Fact::State(client.ready));
            tell("carrier", Fact::State(client.carrier));
            tell("commands under way", Fact::Number(client.commands.into()));
            tell("frames taken and not fetched", Fact::Number(client.tx.len() as u64));
            tell("frames leaving", Fact::Number(client.leaving));
        }
        tell("receive buffers given", Fact::Number(c.rx_buffers));
        tell("frames without a buffer", Fact::Number(c.rx_no_buffer));
        tell("queue entries not written", Fact::Number(c.queue_faults + c.entries_lost));
        let refused = c.refused_parameter + c.refused_closed + c.refused_resource;
        tell("calls refused", Fact::Number(refused));
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.counters.entries().for_each(|(name, n)| tell(name, n));
    }
}

impl<P: Port> HcallDevice<P> for VnicServer {
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        HcallDevice::<P>::advance(self, ports, at);
        let answer = self.call(ports, from, at, c, a);
        self.update_next_due();
        answer
    }
    fn receive(&mut self, ports: &mut [P], at: Time, frame: &[u8]) -> RxVerdict {
        let mut copy = self.spare.copy(frame);
        let taken = HcallDevice::<P>::receive_buffer(self, ports, at, &mut copy);
        self.spare.push(copy);
        taken
    }
    fn receive_buffer(&mut self, ports: &mut [P], at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        self.run(ports, at);
        self.arrive(at, frame)
    }
    fn advance(&mut self, ports: &mut [P], until: Time) {
        self.run(ports, until);
    }
    fn reset(&mut self, _: &mut [P], _: Time) {
        for c in 0..self.clients.len() {
            self.end_session(c);
            // Frames that were fetched are lost, too, with all else that was to come.
            while let Some(d) = self.clients[c].due.pop_front() {
                self.lose(c, d.event);
            }
            self.clients[c] = self.client(c);
        }
        self.update_next_due();
        self.serial_free = Time::ZERO;
    }
}
