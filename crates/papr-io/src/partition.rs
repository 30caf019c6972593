//! The server's side of a guest: the port of its partition, and its calls.
//!
//! A DMA goes through the table page by page and is checked whole before any of it is made. A
//! partition without a guest reaches nothing.
//!
//! [`step`] passes one call to the device: the sends posted before the CPUs' calls, then those. The
//! device always sees its interrupts enabled: masks are applied here ([`irq_masks`]), so a guest's
//! "disable" becomes an "enable", and a registration is followed by one.

use super::call_area::CallArea;
use super::irq_masks::{self, INTERRUPTS, MaskChange};
use super::send_ring::{self, Array, SEND_QUEUES, SENDS, SendQueue};
use super::table::{PAGE, Table};
use super::{HELLO, INTERRUPT, MEMORY, MESSAGE, VERSION, VNIC, WELCOME, message, parse};
use doorbell_hal::{
    Direction, DmaFault, DmaFaultKind, Hcall, HcallDevice, HcallReturn, Iova, Port, Span, Time,
    counters, fail_if, transfer_units,
};
use doorbell_host_io::shared::reaper::{Reaped, free};
use doorbell_host_io::shared::{EventFd, Received, Window};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall, status, vioctl};
use doorbell_vfio_user::{ConnectionError, Crossing, Observer, Share, is_later, receive_with_fds};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, atomic::AtomicBool};
use std::thread::JoinHandle;
use std::{collections::VecDeque, fs::File, net::Shutdown, os::unix::net::UnixStream};

/// The most bytes of a guest's memory: 16 guests together leave the process most of its addresses.
/// Sparse memory of any length costs its owner nothing.
const MAX_MEMORY: usize = 1 << 38;
/// Units of [`Port::charge`] of a call, beside what the device does for it.
const CALL: u64 = 64;
/// Units of an entry of the table that is looked up.
const ENTRY: u64 = 2;

/// The adapter of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Unit address, `reg` in the device tree.
    pub address: u32,
    /// [`VNIC`](super::VNIC) or [`VETH`](super::VETH).
    pub kind: u32,
}

/// A connected guest.
#[derive(Debug)]
pub struct Guest {
    unit: Unit,
    socket: Reaped<UnixStream>,
    area: CallArea,
    table: Table,
    bell: EventFd,
    memory: Option<Window>,
    /// Allocates the memory, which may take long. No call is answered meanwhile.
    mapping: Option<JoinHandle<io::Result<Window>>>,
    /// The guest's memory is allocated when it is announced.
    populate: bool,
    /// Bytes of an incomplete message, and its descriptor.
    input: Vec<u8>,
    fd: Option<Received>,
    /// A message with a descriptor waits until it can be received.
    held_back: bool,
    /// The end of the connection, found at a call and reported later.
    broken: Option<ConnectionError>,
    /// Interrupts that the full socket did not take.
    unsent: VecDeque<u16>,
    /// The array of the posted send in progress, and its address and length in the guest.
    array: Array,
    copied: Option<(Iova, usize)>,
    /// Handle of each row with the number of its descriptors that are done.
    done: [(u64, u64); SEND_QUEUES],
    /// A bit for each CPU whose call comes next, and the end of the sends that come before.
    callers: u64,
    earlier: u64,
    /// The device has entries for which a queue had no room.
    entries_pending: bool,
    /// Posted sends that are done, and of those refused.
    posted: (u64, u64),
}

/// A connection whose `HELLO` has not arrived. It is never waited for.
#[derive(Debug)]
pub struct Newcomer {
    socket: Reaped<UnixStream>,
    since: Time,
    patience: Span,
}

/// The state of a handshake.
#[derive(Debug)]
pub enum Greeted {
    /// It is complete.
    Guest(Box<Guest>),
    /// The message has not arrived.
    Waits(Newcomer),
    /// It is not a plug-in, is of another version, or has not introduced itself in time.
    Refused(ConnectionError),
}

impl Newcomer {
    /// Takes a connection that came at `since`, with the time in which it has to introduce itself.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
    pub fn new(socket: UnixStream, since: Time, patience: Span) -> io::Result<Newcomer> {
        socket.set_nonblocking(true)?;
        Ok(Newcomer { socket: Reaped::connection(socket), since, patience })
    }

    /// Completes the handshake if the message has arrived.
    pub fn greet(self, now: Time, unit: Unit, populate: bool) -> Greeted {
        let (mut input, mut fds) = ([0; MESSAGE], Vec::new());
        let n = match receive_with_fds(&*self.socket, &mut input, &mut fds) {
            Ok(n) => n,
            Err(e) if is_later(&e) => {
                return if now.since(self.since) < self.patience {
                    Greeted::Waits(self)
                } else {
                    Greeted::Refused(ConnectionError::Silent)
                };
            }
            Err(e) => return Greeted::Refused(e.into()),
        };
        if n != MESSAGE || parse(&input) != (HELLO, VERSION) {
            let how = format!("it is no plug-in of version {VERSION}");
            return Greeted::Refused(ConnectionError::Protocol(how));
        }
        match Guest::new(self.socket, fds, unit, populate) {
            Ok(guest) => Greeted::Guest(Box::new(guest)),
            Err(e) => Greeted::Refused(e),
        }
    }
}

impl AsFd for Newcomer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Guest {
    /// Opens the shared memory of a plug-in and answers it.
    fn new(
        socket: Reaped<UnixStream>,
        fds: Vec<Received>,
        unit: Unit,
        populate: bool,
    ) -> Result<Guest, ConnectionError> {
        let Ok([area, table, bell]) = <[Received; 3]>::try_from(fds) else {
            return Err(ConnectionError::protocol("call area, table and doorbell are missing"));
        };
        let (bell, area, table) = (bell.eventfd()?, area.memory()?, table.memory()?);
        // Their files may be large.
        let area = Reaped::memory(CallArea::open(&area)?);
        let table = Reaped::memory(Table::open(&table)?);
        let welcome = u64::from(unit.kind) << 32 | u64::from(unit.address);
        (&*socket).write_all(&message(WELCOME, welcome))?;
        let g = Guest {
            unit,
            socket,
            area: area.into_inner(),
            table: table.into_inner(),
            bell,
            memory: None,
            mapping: None,
            populate,
            input: Vec::new(),
            fd: None,
            held_back: false,
            broken: None,
            unsent: VecDeque::new(),
            array: [[0; DESCRIPTOR]; MAX_INDIRECT as usize],
            copied: None,
            done: [(0, 0); SEND_QUEUES],
            callers: 0,
            earlier: 0,
            entries_pending: false,
            posted: (0, 0),
        };
        if unit.kind != VNIC {
            // A logical LAN's can be unmasked before anything is registered.
            g.area.register(0, false);
        }
        Ok(g)
    }

    /// Sends queued interrupts.
    fn flush(&mut self) -> Result<(), ConnectionError> {
        while let Some(vector) = self.unsent.front() {
            match (&*self.socket).write(&message(INTERRUPT, (*vector).into())) {
                Ok(MESSAGE) => drop(self.unsent.pop_front()),
                Ok(_) => return Err(ConnectionError::protocol("a message was sent in part")),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Reads and handles messages of the plug-in.
    fn listen(&mut self) -> Result<(), ConnectionError> {
        let (mut bytes, mut fds) = ([0; 256], Vec::new());
        match receive_with_fds(&*self.socket, &mut bytes, &mut fds) {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(n) => self.input.extend_from_slice(&bytes[..n]),
            Err(e) if is_later(&e) || e.kind() == io::ErrorKind::Interrupted => {
                self.held_back = e.kind() == io::ErrorKind::ResourceBusy;
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        }
        self.held_back = false;
        let had = usize::from(self.fd.is_some());
        let surplus = ConnectionError::protocol("more than one descriptor with a message");
        fail_if(had + fds.len() > 1, surplus)?;
        self.fd = self.fd.take().or_else(|| fds.pop());
        while let Some(m) = self.input.first_chunk() {
            let (what, len) = parse(m);
            self.input.drain(..MESSAGE);
            match (what, self.fd.take()) {
                (MEMORY, Some(fd)) => self.take_memory(fd.memory()?, len)?,
                _ => return Err(ConnectionError::Protocol(format!("message {what} is not known"))),
            }
        }
        Ok(())
    }

    /// Maps the guest's memory, which is announced once.
    fn take_memory(&mut self, file: Reaped<File>, len: u64) -> Result<(), ConnectionError> {
        let again = ConnectionError::protocol("memory for the second time");
        fail_if(self.memory.is_some() || self.mapping.is_some(), again)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let most = ConnectionError::protocol("memory of more than 256 GiB");
        fail_if(len > MAX_MEMORY, most)?;
        if !self.populate {
            self.memory = Some(Window::map(&file, 0, len, true)?);
            return Ok(());
        }
        let map = move || {
            let window = Window::map(&file, 0, len, true)?;
            window.populate().map(|()| window)
        };
        self.mapping = Some(std::thread::Builder::new().spawn(map)?);
        Ok(())
    }

    /// Takes the guest's memory if its allocation is complete, and checks that the connection has
    /// not ended and no memory is lost.
    fn check(&mut self) -> Result<(), ConnectionError> {
        if let Some(gone) = self.broken.take() {
            return Err(gone);
        }
        if let Some(mapping) = self.mapping.take_if(|m| m.is_finished()) {
            let failed = |_| ConnectionError::protocol("memory that could not be mapped");
            self.memory = Some(mapping.join().map_err(failed)??);
        }
        let memory = self.memory.as_ref();
        let lost = self.area.lost() || self.table.lost() || memory.is_some_and(Window::lost);
        fail_if(lost, ConnectionError::Memory)
    }

    fn interrupt(&mut self, vector: u16) {
        // An interrupt that is queued already need not be sent again.
        if !self.unsent.contains(&vector) {
            self.unsent.push_back(vector);
        }
    }

    fn walk(
        &self,
        at: Iova,
        len: usize,
        write: bool,
        f: impl FnMut(&Window, usize, std::ops::Range<usize>) -> bool,
    ) -> Result<(), DmaFault> {
        self.table.walk(self.memory.as_ref(), at, len, write, f)
    }

    /// Returns the bytes of an access to the array of a posted send, which the plug-in copied.
    fn posted_bytes(&self, at: Iova, len: usize) -> Option<&[u8]> {
        let (start, all) = self.copied?;
        let offset = usize::try_from(at.0.checked_sub(start.0)?).ok()?;
        self.array.as_flattened()[..all].get(offset..offset.checked_add(len)?)
    }

    fn stats(&self) -> PluginStats {
        let (posted, posted_refused) = self.posted;
        PluginStats { posted, posted_refused, ..self.area.counts() }
    }

    /// Returns the next call and its CPU, or no CPU for a posted send.
    fn next(&mut self, cursor: &mut PollCursor) -> Option<(Option<usize>, Hcall, [u64; 9])> {
        if self.mapping.is_some() {
            return None;
        }
        if self.callers == 0 && !std::mem::replace(&mut cursor.noted, true) {
            self.callers = self.area.callers();
            // Sends posted before those calls are visible now at the latest.
            self.earlier = self.area.end_of_sends();
        }
        while self.callers != 0 && !self.area.has_sends_before(self.earlier) {
            let cpu = self.callers.trailing_zeros() as usize;
            self.callers &= self.callers - 1;
            if let Some((call, a)) = self.area.pending_call(cpu) {
                return Some((Some(cpu), call, a));
            }
        }
        if !self.area.has_sends() {
            return None;
        }
        cursor.sends = cursor.sends.checked_sub(1)?;
        let (call, a) = self.area.next_send(&mut self.array)?;
        let n = send_ring::descriptors(call.0, &a).unwrap_or(0);
        if let Some(row) = self.done.iter_mut().find(|row| row.0 == a[1] && row.0 != 0) {
            row.1 = row.1.wrapping_add(n as u64);
        }
        self.copied =
            (call.0 == hcall::SEND_SUB_CRQ_INDIRECT).then_some((Iova(a[2]), n * DESCRIPTOR));
        Some((None, call, a))
    }

    /// Updates the masks after a registration. Returns the call that enables the interrupt in the
    /// device.
    fn follow_registration(
        &self,
        call: Hcall,
        a: &[u64; 9],
        answer: &HcallReturn,
    ) -> Option<(Hcall, [u64; 9])> {
        let done = answer.status == status::SUCCESS;
        let unit = u64::from(self.unit.address);
        let on = |call, what: &[u64]| {
            let mut a = [0; 9];
            a[0] = unit;
            a[1..=what.len()].copy_from_slice(what);
            Some((Hcall(call), a))
        };
        if a[0] != unit {
            return None;
        }
        let vnic = self.unit.kind == VNIC;
        match call.0 {
            // H_CLOSED registers too: the partner is not up yet.
            hcall::REG_CRQ if vnic && (done || answer.status == status::CLOSED) => {
                self.area.register(0, true);
                on(hcall::VIO_SIGNAL, &[1])
            }
            hcall::FREE_CRQ if vnic && done => {
                (0..INTERRUPTS).for_each(|n| self.area.unregister(n));
                None
            }
            hcall::REG_SUB_CRQ if vnic && done => {
                self.area.register(1 + answer.ret[0] as usize, true);
                on(hcall::VIOCTL, &[vioctl::ENABLE_VIO_INTERRUPT, answer.ret[1]])
            }
            hcall::FREE_SUB_CRQ if vnic && done => {
                self.area.unregister(1 + a[1] as usize);
                None
            }
            ibmveth::H_REGISTER_LOGICAL_LAN if !vnic && done => {
                self.area.register(0, false);
                on(ibmveth::H_VIO_SIGNAL, &[ibmveth::SIGNAL_ON])
            }
            _ => None,
        }
    }

    /// Returns the mask change that a call requests, and the arguments that the device gets
    /// instead.
    fn mask_change(&self, call: Hcall, a: &[u64; 9]) -> Option<(MaskChange, [u64; 9])> {
        let change = irq_masks::mask_change(self.unit.kind, self.unit.address, call.0, a)?;
        let mut seen = *a;
        seen[1] = match change {
            // Without effect, but any call makes the device retry its pending entries.
            MaskChange::AllOff => vioctl::GET_SESSION_TOKEN,
            MaskChange::One(..) if call.0 == hcall::VIOCTL => vioctl::ENABLE_VIO_INTERRUPT,
            MaskChange::One(..) => ibmveth::SIGNAL_ON,
        };
        Some((change, seen))
    }

    /// Publishes credits and whether entries are pending. Returns true if they newly are.
    fn publish<D>(&mut self, d: &D, i: usize, callbacks: &DeviceCallbacks<D>) -> bool {
        let (mut n, done, area) = (0, &mut self.done, &self.area);
        (callbacks.queues)(d, i, &mut |q: SendQueue| {
            let Some(row) = done.get_mut(n) else { return };
            if row.0 != q.handle {
                *row = (q.handle, 0);
            }
            area.publish_row(n, Some((q, row.1.saturating_add(q.room))));
            n += 1;
        });
        while let Some(row) = done.get_mut(n).filter(|row| row.0 != 0) {
            *row = (0, 0);
            area.publish_row(n, None);
            n += 1;
        }
        let pending = (callbacks.has_waiting)(d, i);
        let before = std::mem::replace(&mut self.entries_pending, pending);
        if pending != before {
            self.area.set_entries_pending(pending);
        }
        pending && !before
    }
}

/// The rest of one pass over a guest's calls: a share of the posted sends that a ring holds, and
/// the calls that an earlier pass left, then one of each CPU.
#[derive(Clone, Copy, Debug)]
pub struct PollCursor {
    sends: usize,
    /// The CPUs that wait have been noted in this pass.
    noted: bool,
}

impl PollCursor {
    /// Begins a pass over one of `guests` guests, which share a ring's worth of sends.
    pub fn among(guests: usize) -> PollCursor {
        PollCursor { sends: (SENDS / guests.max(1)).max(1), noted: false }
    }
}

/// Queries of a device about a partition, whose answers are shared with the plug-in.
#[derive(Debug)]
pub struct DeviceCallbacks<D> {
    /// Passes each queue that accepts sends to the callback.
    pub queues: fn(&D, usize, &mut dyn FnMut(SendQueue)),
    /// Returns true if the device has entries for which the guest's queues had no room. Any call
    /// makes it retry.
    pub has_waiting: fn(&D, usize) -> bool,
}

/// Passes the next call of partition `i`'s guest to the device and answers it. Returns the call.
pub fn step<W: Observer, D: HcallDevice<Partition<W>>>(
    d: &mut D,
    ports: &mut [Partition<W>],
    i: usize,
    now: Time,
    cursor: &mut PollCursor,
    callbacks: &DeviceCallbacks<D>,
) -> Option<Hcall> {
    let g = ports.get_mut(i)?.guest.as_mut()?;
    let (cpu, call, a) = g.next(cursor)?;
    if g.memory.is_none() {
        // Its announcement was sent before the call.
        if let Err(gone) = g.listen() {
            g.broken = Some(gone);
        }
        if g.mapping.is_some() || g.held_back {
            return None;
        }
    }
    let change = g.mask_change(call, &a);
    let copied = g.copied.take();
    ports[i].share.charge(CALL);
    d.advance(ports, now);
    if let Some(g) = &mut ports[i].guest {
        g.copied = copied;
    }
    let seen = change.map_or(a, |c| c.1);
    let (mut answer, _) = d.hcall(ports, i, now, call, &seen);
    let g = ports[i].guest.as_mut()?;
    g.copied = None;
    match change {
        Some((change, _)) => {
            answer = HcallReturn::status(answer.status);
            if answer.status == status::SUCCESS && a[0] == u64::from(g.unit.address) {
                let (unit, mut raised) = (g.unit.address, Vec::new());
                let _ = g.area.change_masks(change, |n| raised.push(irq_masks::vector(unit, n)));
                raised.into_iter().for_each(|v| g.interrupt(v));
            }
        }
        None => {
            if let Some((call, a)) = g.follow_registration(call, &a, &answer) {
                d.hcall(ports, i, now, call, &a);
            }
        }
    }
    match cpu {
        Some(cpu) => {
            // Reduced credits come before the answer, so that the guest cannot over-post.
            publish_credits(d, ports, i, now, callbacks);
            let g = ports[i].guest.as_mut()?;
            g.area.answer(cpu, &answer);
        }
        None => {
            let g = ports[i].guest.as_mut()?;
            g.posted.0 += 1;
            g.posted.1 += u64::from(answer.status != status::SUCCESS);
        }
    }
    d.advance(ports, now);
    Some(call)
}

/// Publishes the device's send credits, and whether entries are pending, to the plug-in of
/// partition `i`'s guest.
pub fn publish_credits<W: Observer, D: HcallDevice<Partition<W>>>(
    d: &mut D,
    ports: &mut [Partition<W>],
    i: usize,
    now: Time,
    callbacks: &DeviceCallbacks<D>,
) {
    let Some(g) = ports.get_mut(i).and_then(|p| p.guest.as_mut()) else { return };
    if g.publish(d, i, callbacks) {
        // Retry: the plug-in now knows that entries are pending.
        let mut a = [0; 9];
        (a[0], a[1]) = (g.unit.address.into(), vioctl::GET_SESSION_TOKEN);
        d.hcall(ports, i, now, Hcall(hcall::VIOCTL), &a);
    }
}

counters! {
    /// Counts of calls and interrupts that the plug-ins of a partition handled without the server.
    struct PluginStats;
    /// Calls that read or wrote translation entries.
    table_calls,
    /// Translation entries written.
    table_entries,
    /// H_VIO_SIGNAL calls.
    signal_calls,
    /// H_VIOCTL calls.
    vioctl_calls,
    /// Latched interrupts that were raised when unmasked.
    raised,
    /// Interrupts that arrived masked.
    held,
    /// Posted sends that are done.
    posted,
    /// Posted sends that the device refused.
    posted_refused,
}

/// A partition's port: its guest, if there is one, and an observer.
#[derive(Debug)]
pub struct Partition<W> {
    guest: Option<Guest>,
    /// The allocation of a former guest's memory, which goes on.
    leaving: Option<JoinHandle<io::Result<Window>>>,
    /// Counts of former guests.
    past: PluginStats,
    share: Share,
    /// Observes every access.
    pub observer: W,
}

impl<W: Observer> Partition<W> {
    /// Without a guest.
    pub fn new(observer: W) -> Partition<W> {
        let (past, share) = (PluginStats::default(), Share::new(Arc::default()));
        Partition { guest: None, leaving: None, past, share, observer }
    }

    /// Makes `stop` end every turn of the device at once.
    #[must_use]
    pub fn with_stop(mut self, stop: Arc<AtomicBool>) -> Partition<W> {
        self.share = Share::new(stop);
        self
    }

    /// Returns the work that was charged so far, in the units of [`Port::charge`].
    pub fn work(&self) -> u64 {
        self.share.work()
    }

    /// Begins a turn of the device, whose guests are so many.
    pub fn begin_turn(&mut self, guests: usize) {
        self.share.begin_turn_among(guests);
    }

    /// Returns true with a guest.
    pub const fn connected(&self) -> bool {
        self.guest.is_some()
    }

    /// Returns true if a guest may connect: there is none, and nothing of the last one goes on.
    pub const fn is_free(&self) -> bool {
        self.guest.is_none() && self.leaving.is_none()
    }

    /// Connects a guest and drops the present one.
    pub fn connect(&mut self, guest: Guest) {
        self.disconnect();
        self.guest = Some(guest);
    }

    /// Drops the guest and its memory, which is freed later.
    pub fn disconnect(&mut self) {
        self.past = self.stats();
        self.leaving.take().into_iter().for_each(free);
        if let Some(mut guest) = self.guest.take() {
            self.leaving = guest.mapping.take();
            // The plug-in is told before; an error means that it has gone.
            let _ = guest.socket.shutdown(Shutdown::Both);
            free(guest);
        }
    }

    /// Returns the counts of all guests so far.
    pub fn stats(&self) -> PluginStats {
        self.past.plus(&self.guest.as_ref().map(Guest::stats).unwrap_or_default())
    }

    /// Returns the descriptors to wait for: socket and doorbell.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.guest.iter().flat_map(|g| [g.socket.as_fd(), g.bell.as_fd()])
    }

    /// Reads and handles messages of the guest's plug-in.
    ///
    /// # Errors
    /// If the connection has ended. The caller may still carry out posted sends, then must
    /// disconnect.
    pub fn listen(&mut self) -> Result<(), ConnectionError> {
        self.guest.as_mut().map_or(Ok(()), Guest::listen)
    }

    /// Sends queued interrupts to the guest, and checks its memory. Frees that of a former guest
    /// whose allocation is complete.
    ///
    /// # Errors
    /// As [`Partition::listen`]; also if the memory is gone.
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        self.leaving.take_if(|l| l.is_finished()).into_iter().for_each(free);
        let Some(g) = &mut self.guest else { return Ok(()) };
        g.check().and_then(|()| g.flush())
    }

    /// Returns true if the guest has pending calls that can be answered.
    pub fn has_calls(&self) -> bool {
        self.guest
            .as_ref()
            .filter(|g| g.mapping.is_none())
            .is_some_and(|g| g.area.has_sends() || g.area.callers() != 0)
    }

    /// Announces that the server is about to sleep, or is awake.
    pub fn set_sleeping(&self, sleeps: bool) {
        if let Some(g) = &self.guest {
            if !sleeps {
                g.bell.take();
            }
            g.area.set_sleeping(sleeps);
        }
    }

    fn access(&mut self, at: Iova, len: usize, write: bool) -> Result<&Guest, DmaFault> {
        let none = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        self.guest.as_ref().map_or(none, |g| g.walk(at, len, write, |_, _, _| true).map(|()| g))
    }
}

impl<W: Observer> Port for Partition<W> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.share.charge(transfer_units(into.len()));
        let read = Crossing::DmaRead(from, into.len() as u32);
        if let Some(copy) = self.guest.as_ref().and_then(|g| g.posted_bytes(from, into.len())) {
            into.copy_from_slice(copy);
            self.observer.crossed(at, read);
            return Ok(at);
        }
        let done = self.access(from, into.len(), false).and_then(|g| {
            g.walk(from, into.len(), false, |memory, offset, bytes| {
                memory.read(offset, &mut into[bytes])
            })
        });
        self.observer.crossed(at, done.map_or_else(Crossing::Fault, |()| read));
        done.map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let done = self.access(to, from.len(), true).and_then(|g| {
            g.walk(to, from.len(), true, |memory, offset, bytes| memory.write(offset, &from[bytes]))
        });
        let written = |()| Crossing::DmaWrite(to, from.len() as u32);
        self.observer.crossed(at, done.map_or_else(Crossing::Fault, written));
        done.map(|()| at)
    }

    fn check_access(&mut self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        let none = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        let write = dir.is_written();
        self.share.charge(transfer_units(0) + u64::from(len) / PAGE * ENTRY);
        self.guest.as_ref().map_or(none, |g| g.walk(at, len as usize, write, |_, _, _| true))
    }

    fn charge(&mut self, units: u64) {
        self.share.charge(units);
    }

    fn is_spent(&self) -> bool {
        self.share.is_spent()
    }

    /// Does nothing: partitions have no interrupt lines.
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}

    fn raise_msi(&mut self, at: Time, vector: u16) {
        if let Some(g) =
            self.guest.as_mut().filter(|g| g.area.admit(irq_masks::index(g.unit.address, vector)))
        {
            g.interrupt(vector);
            self.observer.crossed(at, Crossing::Message(vector));
        }
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.observer.crossed(at, Crossing::Frame(frame));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
