//! A guest at the server: the port of its partition, and its calls.
//!
//! An access goes through the table page by page, and is checked whole before any of it is made. A
//! partition without a guest reaches nothing.
//!
//! [`step`] makes one call of the guest's to the device: first what was posted, then what the CPUs
//! ask. It also keeps the device's own masks open, whose work [`masks`] do here: where the guest
//! would switch an interrupt off the device is told to switch it on, and after a registration it is
//! told so too.

use super::board::{Board, CPUS};
use super::masks::{self, INTERRUPTS, Switch};
use super::posts::{self, Array, POST_QUEUES, POSTS, PostQueue};
use super::table::Table;
use super::{HELLO, INTERRUPT, MEMORY, MESSAGE, VERSION, VNIC, WELCOME, message, parse};
use doorbell_hal::{
    Direction, DmaFault, DmaFaultKind, Hcall, HcallDevice, HcallReturn, Iova, Port, Time,
};
use doorbell_host_io::shared::{EventFd, Window};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall, status, vioctl};
use doorbell_vfio_user::{Gone, Watch, receive};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

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
    socket: UnixStream,
    board: Board,
    table: Table,
    bell: EventFd,
    memory: Option<Window>,
    /// Bytes of a message that has come in part, and descriptors.
    input: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    /// Interrupts that the socket had no room for.
    unsent: VecDeque<u16>,
    /// The array of the posted send that is worked off, and where the guest had it.
    array: Array,
    copied: Option<(Iova, usize)>,
    /// Of each row's handle, how many descriptors of posted sends have been worked off.
    worked: [(u64, u64); POST_QUEUES],
    /// The device has entries that wait for room.
    waits: bool,
    /// Posted sends worked off, and of those refused.
    posted: (u64, u64),
}

impl Guest {
    /// Greets a plug-in that has connected: it has one second.
    ///
    /// # Errors
    /// When it is none, or another version.
    pub fn greet(socket: UnixStream, unit: Unit) -> Result<Guest, Gone> {
        socket.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
        let (mut input, mut fds) = ([0; MESSAGE], Vec::new());
        let n = receive(socket.as_raw_fd(), &mut input, &mut fds)?;
        if n != MESSAGE || parse(&input) != (HELLO, VERSION) {
            return Err(Gone::Protocol(format!("it is no plug-in of version {VERSION}")));
        }
        let mut fds = fds.into_iter();
        let (Some(board), Some(table), Some(bell)) = (fds.next(), fds.next(), fds.next()) else {
            return Err(Gone::Protocol("board, table and bell are missing".into()));
        };
        let (board, table) = (Board::open(&File::from(board))?, Table::open(&File::from(table))?);
        (&socket)
            .write_all(&message(WELCOME, u64::from(unit.kind) << 32 | u64::from(unit.address)))?;
        socket.set_nonblocking(true)?;
        let bell = EventFd::from(bell);
        let (input, fds, unsent) = Default::default();
        let array = [[0; DESCRIPTOR]; MAX_INDIRECT as usize];
        let worked = [(0, 0); POST_QUEUES];
        let (memory, copied, waits, posted) = (None, None, false, (0, 0));
        let g = Guest {
            unit,
            socket,
            board,
            table,
            bell,
            memory,
            input,
            fds,
            unsent,
            array,
            copied,
            worked,
            waits,
            posted,
        };
        if unit.kind != VNIC {
            // It can be switched before anything is registered.
            g.board.arm(0, false);
        }
        Ok(g)
    }

    /// Sends interrupts.
    fn flush(&mut self) -> Result<(), Gone> {
        while let Some(vector) = self.unsent.front() {
            match (&self.socket).write(&message(INTERRUPT, (*vector).into())) {
                Ok(MESSAGE) => drop(self.unsent.pop_front()),
                Ok(_) => return Err(Gone::Protocol("a message went in part".into())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Reads what the plug-in says.
    fn listen(&mut self) -> Result<(), Gone> {
        let (mut bytes, mut fds) = ([0; 256], Vec::new());
        match receive(self.socket.as_raw_fd(), &mut bytes, &mut fds) {
            Ok(0) => return Err(Gone::Closed),
            Ok(n) => self.input.extend_from_slice(&bytes[..n]),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        }
        self.fds.extend(fds);
        while let Some(m) = self.input.first_chunk() {
            let (what, len) = parse(m);
            self.input.drain(..MESSAGE);
            let fd = self.fds.pop_front();
            match (what, fd) {
                (MEMORY, Some(fd)) => {
                    let len = usize::try_from(len)
                        .map_err(|_| Gone::Protocol("memory without end".into()))?;
                    self.memory = Some(Window::map(&File::from(fd), 0, len, true)?);
                }
                _ => return Err(Gone::Protocol(format!("message {what} is not known"))),
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        // In order, and each once: an interrupt that is on its way already need not be sent again.
        if !self.unsent.contains(&vector) {
            self.unsent.push_back(vector);
        }
    }

    fn walk(
        &self,
        at: Iova,
        len: usize,
        write: bool,
        f: impl FnMut(&Window, usize, std::ops::Range<usize>),
    ) -> Result<(), DmaFault> {
        self.table.walk(self.memory.as_ref(), at, len, write, f)
    }

    /// What an access finds of the posted array, which was read when it was posted.
    fn copy(&self, at: Iova, len: usize) -> Option<&[u8]> {
        let (start, all) = self.copied?;
        let offset = usize::try_from(at.0.checked_sub(start.0)?).ok()?;
        self.array.as_flattened()[..all].get(offset..offset.checked_add(len)?)
    }

    fn inside(&self) -> Inside {
        let (table_calls, table_entries) = self.board.table_counts();
        let [signal_calls, vioctl_calls, raised, held] = self.board.switch_counts();
        let (posted, posted_refused) = self.posted;
        Inside {
            table_calls,
            table_entries,
            signal_calls,
            vioctl_calls,
            raised,
            held,
            posted,
            posted_refused,
        }
    }

    /// The next call, and the CPU that asks; none: it was posted.
    fn next(&mut self, look: &mut Look) -> Option<(Option<usize>, Hcall, [u64; 9])> {
        let asked = |g: &Guest, from| {
            (from..CPUS).find_map(|cpu| g.board.asked(cpu).map(|(c, a)| (cpu, c, a)))
        };
        let found = if self.board.any_posted() { None } else { asked(self, look.cpu) };
        // What had been posted before that CPU asked is seen now, if it was not before.
        if self.board.any_posted() {
            look.posts = look.posts.checked_sub(1)?;
            let (call, a) = self.board.posted(&mut self.array)?;
            let n = posts::descriptors(call.0, &a).unwrap_or(0);
            if let Some(w) = self.worked.iter_mut().find(|w| w.0 == a[1] && w.0 != 0) {
                w.1 = w.1.wrapping_add(n as u64);
            }
            self.copied =
                (call.0 == hcall::SEND_SUB_CRQ_INDIRECT).then_some((Iova(a[2]), n * DESCRIPTOR));
            return Some((None, call, a));
        }
        let (cpu, call, a) = found?;
        look.cpu = cpu + 1;
        Some((Some(cpu), call, a))
    }

    /// What a call that the device has answered means for the masks; what the device is to be told
    /// then.
    fn registered(
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
            // It is registered when the partner is not up yet, too.
            hcall::REG_CRQ if vnic && (done || answer.status == status::CLOSED) => {
                self.board.arm(0, true);
                on(hcall::VIO_SIGNAL, &[1])
            }
            hcall::FREE_CRQ if vnic && done => {
                (0..INTERRUPTS).for_each(|n| self.board.disarm(n));
                None
            }
            hcall::REG_SUB_CRQ if vnic && done => {
                self.board.arm(1 + answer.ret[0] as usize, true);
                on(hcall::VIOCTL, &[vioctl::ENABLE_VIO_INTERRUPT, answer.ret[1]])
            }
            hcall::FREE_SUB_CRQ if vnic && done => {
                self.board.disarm(1 + a[1] as usize);
                None
            }
            ibmveth::H_REGISTER_LOGICAL_LAN if !vnic && done => {
                self.board.arm(0, false);
                on(ibmveth::H_VIO_SIGNAL, &[ibmveth::SIGNAL_ON])
            }
            _ => None,
        }
    }

    /// A call that switches interrupts: what it switches, and the call that the device is to see.
    fn switch(&self, call: Hcall, a: &[u64; 9]) -> Option<(Switch, [u64; 9])> {
        let what = masks::switch(self.unit.kind, self.unit.address, call.0, a)?;
        let mut seen = *a;
        seen[1] = match what {
            // Nothing comes of this one but what comes of any call: entries that waited are
            // written.
            Switch::AllOff => vioctl::GET_SESSION_TOKEN,
            Switch::One(..) if call.0 == hcall::VIOCTL => vioctl::ENABLE_VIO_INTERRUPT,
            Switch::One(..) => ibmveth::SIGNAL_ON,
        };
        Some((what, seen))
    }

    /// Says what may be posted, and whether entries wait; true: they do, and did not before.
    fn tell<D>(&mut self, d: &D, i: usize, knows: &Knows<D>) -> bool {
        let (mut n, worked, board) = (0, &mut self.worked, &self.board);
        (knows.queues)(d, i, &mut |q: PostQueue| {
            let Some(w) = worked.get_mut(n) else { return };
            if w.0 != q.handle {
                *w = (q.handle, 0);
            }
            board.say_queue(n, Some((q, w.1.saturating_add(q.room))));
            n += 1;
        });
        while let Some(w) = worked.get_mut(n).filter(|w| w.0 != 0) {
            *w = (0, 0);
            board.say_queue(n, None);
            n += 1;
        }
        let waits = (knows.waits)(d, i);
        let before = std::mem::replace(&mut self.waits, waits);
        if waits != before {
            self.board.say_waits(waits);
        }
        waits && !before
    }
}

/// How far one look at a guest's calls has come: each CPU has one turn, and the ring as many as it
/// has places.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    posts: usize,
    cpu: usize,
}

impl Default for Look {
    fn default() -> Look {
        Look { posts: POSTS, cpu: 0 }
    }
}

/// What a device lets the plug-in know, of a partition.
#[derive(Debug)]
pub struct Knows<D> {
    /// The queues that sends are taken for, a row each.
    pub queues: fn(&D, usize, &mut dyn FnMut(PostQueue)),
    /// Whether it has entries for which the guest's queues had no room. Any call makes it try
    /// again.
    pub waits: fn(&D, usize) -> bool,
}

/// Makes the next call of partition `i`'s guest to the device, and answers it; which it was.
pub fn step<W: Watch, D: HcallDevice<Partition<W>>>(
    d: &mut D,
    ports: &mut [Partition<W>],
    i: usize,
    now: Time,
    look: &mut Look,
    knows: &Knows<D>,
) -> Option<Hcall> {
    let g = ports.get_mut(i)?.guest.as_mut()?;
    let (cpu, call, a) = g.next(look)?;
    if g.memory.is_none() {
        // Said before the call, but on another way. If the guest is gone, that is seen later.
        let _ = g.listen();
    }
    let switch = g.switch(call, &a);
    let copied = g.copied.take();
    d.advance(ports, now);
    if let Some(g) = &mut ports[i].guest {
        g.copied = copied;
    }
    let seen = switch.map_or(a, |s| s.1);
    let (mut answer, _) = d.hcall(ports, i, now, call, &seen);
    let g = ports[i].guest.as_mut()?;
    g.copied = None;
    match switch {
        Some((what, _)) => {
            answer = HcallReturn::status(answer.status);
            if answer.status == status::SUCCESS && a[0] == u64::from(g.unit.address) {
                let (unit, mut raised) = (g.unit.address, Vec::new());
                let _ = g.board.switch(what, |n| raised.push(masks::vector(unit, n)));
                raised.into_iter().for_each(|v| g.interrupt(v));
            }
        }
        None => {
            if let Some((call, a)) = g.registered(call, &a, &answer) {
                d.hcall(ports, i, now, call, &a);
            }
        }
    }
    match cpu {
        Some(cpu) => {
            // What it may not post any more it does not post once it has the answer.
            tell(d, ports, i, now, knows);
            let g = ports[i].guest.as_mut()?;
            g.board.answer(cpu, &answer);
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

/// Lets the plug-in of partition `i`'s guest know what the device lets it.
pub fn tell<W: Watch, D: HcallDevice<Partition<W>>>(
    d: &mut D,
    ports: &mut [Partition<W>],
    i: usize,
    now: Time,
    knows: &Knows<D>,
) {
    let Some(g) = ports.get_mut(i).and_then(|p| p.guest.as_mut()) else { return };
    if g.tell(d, i, knows) {
        // Once more, now that it is said.
        let mut a = [0; 9];
        (a[0], a[1]) = (g.unit.address.into(), vioctl::GET_SESSION_TOKEN);
        d.hcall(ports, i, now, Hcall(hcall::VIOCTL), &a);
    }
}

/// What the plug-ins of a partition's guests have answered, and raised, by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Calls that wrote or read translation entries.
    pub table_calls: u64,
    /// Entries written.
    pub table_entries: u64,
    /// H_VIO_SIGNAL.
    pub signal_calls: u64,
    /// H_VIOCTL.
    pub vioctl_calls: u64,
    /// Interrupts that had been kept, raised when they were switched on.
    pub raised: u64,
    /// Interrupts that came when they had been switched off.
    pub held: u64,
    /// Sends posted, as far as they are worked off.
    pub posted: u64,
    /// Of those, refused by the device.
    pub posted_refused: u64,
}

const NOTHING: Inside = Inside {
    table_calls: 0,
    table_entries: 0,
    signal_calls: 0,
    vioctl_calls: 0,
    raised: 0,
    held: 0,
    posted: 0,
    posted_refused: 0,
};

impl std::ops::Add for Inside {
    type Output = Inside;

    fn add(self, o: Inside) -> Inside {
        Inside {
            table_calls: self.table_calls + o.table_calls,
            table_entries: self.table_entries + o.table_entries,
            signal_calls: self.signal_calls + o.signal_calls,
            vioctl_calls: self.vioctl_calls + o.vioctl_calls,
            raised: self.raised + o.raised,
            held: self.held + o.held,
            posted: self.posted + o.posted,
            posted_refused: self.posted_refused + o.posted_refused,
        }
    }
}

/// A partition's port: its guest, if there is one, and whoever watches.
#[derive(Debug)]
pub struct Partition<W> {
    guest: Option<Guest>,
    /// Of guests that have gone.
    past: Inside,
    /// Sees everything.
    pub watch: W,
}

impl<W: Watch> Partition<W> {
    /// Without a guest.
    pub const fn new(watch: W) -> Partition<W> {
        Partition { guest: None, past: NOTHING, watch }
    }

    /// Whether a guest is there.
    pub const fn connected(&self) -> bool {
        self.guest.is_some()
    }

    /// Takes a guest.
    pub fn connect(&mut self, guest: Guest) {
        self.disconnect();
        self.guest = Some(guest);
    }

    /// It is gone: nothing is reached any more.
    pub fn disconnect(&mut self) {
        self.past = self.inside();
        self.guest = None;
    }

    /// What was answered without asking, of all guests.
    pub fn inside(&self) -> Inside {
        self.guest.as_ref().map_or(NOTHING, Guest::inside) + self.past
    }

    /// What to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.guest.iter().flat_map(|g| [g.socket.as_fd(), g.bell.as_fd()])
    }

    /// Reads what the guest's plug-in says.
    ///
    /// # Errors
    /// When it is gone. What it had posted can be worked off yet; then it is to be disconnected.
    pub fn listen(&mut self) -> Result<(), Gone> {
        self.guest.as_mut().map_or(Ok(()), Guest::listen)
    }

    /// Sends the guest its interrupts.
    ///
    /// # Errors
    /// As [`Partition::listen`].
    pub fn flush(&mut self) -> Result<(), Gone> {
        self.guest.as_mut().map_or(Ok(()), Guest::flush)
    }

    /// Whether the guest has made a call that nobody has taken.
    pub fn has_calls(&self) -> bool {
        self.guest.as_ref().is_some_and(|g| {
            g.board.any_posted() || (0..CPUS).any(|cpu| g.board.asked(cpu).is_some())
        })
    }

    /// The server sleeps, or is awake.
    pub fn say_asleep(&self, sleeps: bool) {
        if let Some(g) = &self.guest {
            if !sleeps {
                g.bell.take();
            }
            g.board.say_asleep(sleeps);
        }
    }

    fn access(&mut self, at: Iova, len: usize, write: bool) -> Result<&Guest, DmaFault> {
        let none = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        self.guest.as_ref().map_or(none, |g| g.walk(at, len, write, |_, _, _| ()).map(|()| g))
    }
}

impl<W: Watch> Port for Partition<W> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        if let Some(copy) = self.guest.as_ref().and_then(|g| g.copy(from, into.len())) {
            into.copy_from_slice(copy);
            self.watch.dma_read(at, from, into.len() as u32);
            return Ok(at);
        }
        let done = self.access(from, into.len(), false).and_then(|g| {
            g.walk(from, into.len(), false, |memory, offset, bytes| {
                memory.read(offset, &mut into[bytes]);
            })
        });
        match done {
            Ok(()) => self.watch.dma_read(at, from, into.len() as u32),
            Err(fault) => self.watch.fault(at, &fault),
        }
        done.map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let done = self.access(to, from.len(), true).and_then(|g| {
            g.walk(to, from.len(), true, |memory, offset, bytes| memory.write(offset, &from[bytes]))
        });
        match done {
            Ok(()) => self.watch.dma_write(at, to, from.len() as u32),
            Err(fault) => self.watch.fault(at, &fault),
        }
        done.map(|()| at)
    }

    fn check_access(&self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        let none = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        let write = dir != Direction::ToDevice;
        self.guest.as_ref().map_or(none, |g| g.walk(at, len as usize, write, |_, _, _| ()))
    }

    /// Partitions have no lines.
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {}

    fn raise_msi(&mut self, at: Time, vector: u16) {
        if let Some(g) =
            self.guest.as_mut().filter(|g| g.board.admits(masks::index(g.unit.address, vector)))
        {
            g.interrupt(vector);
            self.watch.raise_msi(at, vector);
        }
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.watch.frame(at, frame);
    }
}

#[cfg(test)]
mod tests;
