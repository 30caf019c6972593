//! A guest at the server: the port of its partition.
//!
//! An access goes through the table page by page, and is checked whole before any of it is made. A partition
//! without a guest reaches nothing.

use super::board::{Board, CPUS};
use super::table::Table;
use super::{HELLO, INTERRUPT, MEMORY, MESSAGE, VERSION, WELCOME, message, parse};
use crate::shared::{EventFd, Window};
use crate::vfio_user::{Gone, Watch, receive};
use doorbell_seam::{Direction, DmaFault, DmaFaultKind, Hcall, HcallReturn, Iova, Port, Time};
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
        (&socket).write_all(&message(WELCOME, u64::from(unit.kind) << 32 | u64::from(unit.address)))?;
        socket.set_nonblocking(true)?;
        let bell = EventFd::from(bell);
        let (input, fds, unsent) = Default::default();
        Ok(Guest { socket, board, table, bell, memory: None, input, fds, unsent })
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
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        self.fds.extend(fds);
        while let Some(m) = self.input.first_chunk() {
            let (what, len) = parse(m);
            self.input.drain(..MESSAGE);
            let fd = self.fds.pop_front();
            match (what, fd) {
                (MEMORY, Some(fd)) => {
                    let len = usize::try_from(len).map_err(|_| Gone::Protocol("memory without end".into()))?;
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

    /// The pieces of the guest's memory that an access goes to.
    fn walk(
        &self,
        at: Iova,
        len: usize,
        write: bool,
        mut f: impl FnMut(&Window, usize, std::ops::Range<usize>),
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            let here = at.0.checked_add(done as u64);
            let fault = |kind| DmaFault { at: Iova(at.0.wrapping_add(done as u64)), kind };
            let found = here.and_then(|ioba| self.table.translate(ioba, write));
            let Some((to, on_page)) = found else {
                let readable = here.and_then(|ioba| self.table.translate(ioba, false)).is_some();
                return Err(fault(if readable { DmaFaultKind::Direction } else { DmaFaultKind::Unmapped }));
            };
            let n = on_page.min((len - done) as u64) as usize;
            let memory =
                self.memory.as_ref().filter(|m| to.checked_add(n as u64).is_some_and(|end| end <= m.len() as u64));
            let Some(memory) = memory else { return Err(fault(DmaFaultKind::Unmapped)) };
            f(memory, to as usize, done..done + n);
            done += n;
        }
        Ok(())
    }
}

/// A partition's port: its guest, if there is one, and whoever watches.
#[derive(Debug)]
pub struct Partition<W> {
    guest: Option<Guest>,
    /// Table calls and entries of guests that have gone.
    past: (u64, u64),
    /// Sees everything.
    pub watch: W,
}

impl<W: Watch> Partition<W> {
    /// Without a guest.
    pub const fn new(watch: W) -> Partition<W> {
        Partition { guest: None, past: (0, 0), watch }
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
        self.past = self.table_counts();
        self.guest = None;
    }

    /// Calls that wrote translation entries, and how many entries, of all guests.
    pub fn table_counts(&self) -> (u64, u64) {
        let (calls, entries) = self.guest.as_ref().map_or((0, 0), |g| g.board.table_counts());
        (self.past.0 + calls, self.past.1 + entries)
    }

    /// What to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.guest.iter().flat_map(|g| [g.socket.as_fd(), g.bell.as_fd()])
    }

    /// Reads what the guest's plug-in says.
    ///
    /// # Errors
    /// When it is gone. It is let go then.
    pub fn listen(&mut self) -> Result<(), Gone> {
        self.unless_gone(Guest::listen)
    }

    /// Sends the guest its interrupts.
    ///
    /// # Errors
    /// As [`Partition::listen`].
    pub fn flush(&mut self) -> Result<(), Gone> {
        self.unless_gone(Guest::flush)
    }

    fn unless_gone(&mut self, f: impl FnOnce(&mut Guest) -> Result<(), Gone>) -> Result<(), Gone> {
        let said = self.guest.as_mut().map_or(Ok(()), f);
        if said.is_err() {
            self.disconnect();
        }
        said
    }

    /// Whether its memory is known. The plug-in says so before its first call.
    pub fn has_memory(&self) -> bool {
        self.guest.as_ref().is_some_and(|g| g.memory.is_some())
    }

    /// The guest's next call, of CPU `from` or a later one.
    pub fn call(&self, from: usize) -> Option<(usize, Hcall, [u64; 9])> {
        let board = &self.guest.as_ref()?.board;
        (from..CPUS).find_map(|cpu| board.asked(cpu).map(|(c, a)| (cpu, c, a)))
    }

    /// Answers it.
    pub fn answer(&mut self, cpu: usize, answer: &HcallReturn) {
        if let Some(g) = &self.guest {
            g.board.answer(cpu, answer);
        }
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
        let done = self.access(from, into.len(), false).and_then(|g| {
            g.walk(from, into.len(), false, |memory, offset, bytes| memory.read(offset, &mut into[bytes]))
        });
        match done {
            Ok(()) => self.watch.dma_read(at, from, into.len() as u32),
            Err(fault) => self.watch.fault(at, &fault),
        }
        done.map(|()| at)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let done = self
            .access(to, from.len(), true)
            .and_then(|g| g.walk(to, from.len(), true, |memory, offset, bytes| memory.write(offset, &from[bytes])));
        match done {
            Ok(()) => self.watch.dma_write(at, to, from.len() as u32),
            Err(fault) => self.watch.fault(at, &fault),
        }
        done.map(|()| at)
    }

    fn reaches(&self, at: Iova, len: u32, dir: Direction) -> Result<(), DmaFault> {
        let none = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        let write = dir != Direction::ToDevice;
        self.guest.as_ref().map_or(none, |g| g.walk(at, len as usize, write, |_, _, _| ()))
    }

    /// Partitions have no lines.
    fn set_line(&mut self, _: Time, _: u16, _: bool) {}

    fn message(&mut self, at: Time, vector: u16) {
        self.watch.message(at, vector);
        if let Some(g) = &mut self.guest {
            g.interrupt(vector);
        }
    }

    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.watch.frame(at, frame);
    }
}
