//! The socket: messages with file descriptors, in both directions.
//!
//! The server waits for a client only until it reads its replies and answers a DMA by message, for
//! [`Limits::reply`] in one turn of the server. A client that takes longer is disconnected.
//!
//! Descriptors come with the bytes of the `sendmsg` that they were attached to, and `recvmsg` never
//! reads past such bytes. So they belong to the message of the last byte of a read.

use super::message::{
    self, Dma, Errno, HEADER, Header, MAX_DATA, MAX_FDS, MAX_MESSAGE, command, flag,
};
use super::wait::poll;
use doorbell_hal::fail_if;
use doorbell_host_io::shared::reaper::{self, Reaped};
use doorbell_host_io::shared::{Received, keep_harmless};
use rustix::event::PollFlags;
use rustix::io::Errno as SystemError;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, mem::MaybeUninit, os::unix::net::UnixStream};
use zerocopy::{FromBytes, IntoBytes};

/// The limits of a client's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The time in which a client has to introduce itself.
    pub hello: Duration,
    /// The longest wait for a client in one turn of the server, for all its replies together.
    pub reply: Duration,
}

impl Default for Limits {
    /// Returns 5 s for both, as QEMU's `x-msg-timeout`.
    fn default() -> Limits {
        Limits { hello: Duration::from_secs(5), reply: Duration::from_secs(5) }
    }
}

/// Bytes asked for in one read.
const CHUNK: usize = 1 << 16;
/// The most bytes of requests queued during a DMA by message. A descriptor counts as so many.
const MAX_WAITING: usize = 8 * MAX_MESSAGE;
const DESCRIPTOR: usize = MAX_WAITING / 64;

/// The reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The client closed it.
    #[error("closed by the client")]
    Closed,
    /// The client violated the protocol in this way.
    #[error("the client broke the protocol: {0}")]
    Protocol(String),
    /// The system refused, or the client kept the server waiting.
    #[error("{0}")]
    Io(io::Error),
    /// The client did not introduce itself in time.
    #[error("it has not introduced itself in time")]
    Silent,
    /// A page of the client's memory could not be accessed (SIGBUS).
    #[error("its memory is gone: a file was truncated, or the system has no memory left for it")]
    Memory,
}

impl ConnectionError {
    /// Returns the error of a client that violated the protocol.
    pub fn protocol(how: impl Into<String>) -> ConnectionError {
        ConnectionError::Protocol(how.into())
    }
}

impl From<io::Error> for ConnectionError {
    fn from(e: io::Error) -> ConnectionError {
        match e.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => ConnectionError::Closed,
            _ => ConnectionError::Io(e),
        }
    }
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<Received>,
}

impl Message {
    /// Returns what it counts while it waits, in bytes.
    fn weight(&self) -> usize {
        HEADER + self.body.len() + self.fds.len() * DESCRIPTOR
    }
}

/// One client's connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Reaped<UnixStream>,
    /// Bytes read; those from `start` to `end` are not yet parsed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Descriptors, each with the buffer index of the last byte of the read that brought it.
    fds: VecDeque<(usize, Received)>,
    /// Descriptors of the current read.
    new_fds: Vec<Received>,
    /// The last read left room in the buffer, so that the next is likely to find nothing.
    drained: bool,
    /// Requests that arrived while a reply was awaited.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    out: Vec<u8>,
    next_id: u16,
    /// The most data bytes that the client accepts in one message.
    pub(super) max_data: u32,
    /// Requests received.
    pub(super) messages: u64,
    /// DMA requests sent.
    pub(super) remote_accesses: u64,
    /// A message body for reuse.
    spare: Vec<u8>,
    /// An error found during DMA, reported by the next [`Channel::request`].
    pub(super) broken: Option<ConnectionError>,
    /// The longest wait in one turn, and the time waited in this one.
    pub(super) patience: Duration,
    waited: Duration,
}

impl Channel {
    /// Takes a connection, with the longest wait for it in one turn.
    pub(super) fn new(socket: UnixStream, patience: Duration) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        Ok(Channel {
            socket: Reaped::connection(socket),
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            fds: VecDeque::new(),
            new_fds: Vec::new(),
            drained: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            out: Vec::new(),
            next_id: 0,
            max_data: MAX_DATA,
            messages: 0,
            remote_accesses: 0,
            spare: Vec::new(),
            broken: None,
            patience,
            waited: Duration::ZERO,
        })
    }

    /// Begins a turn of the server, in which the client may keep it waiting.
    pub(super) const fn begin_turn(&mut self) {
        self.waited = Duration::ZERO;
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the next request, if one has arrived.
    pub(super) fn request(&mut self) -> Result<Option<Message>, ConnectionError> {
        if let Some(gone) = self.broken.take() {
            return Err(gone);
        }
        if let Some(m) = self.waiting.pop_front() {
            self.waiting_bytes -= m.weight();
            return Ok(Some(m));
        }
        let Some(m) = self.message()? else { return Ok(None) };
        if m.header.flags.get() & flag::TYPE != 0 {
            return Err(ConnectionError::protocol("a reply that nobody asked for"));
        }
        self.messages += 1;
        Ok(Some(m))
    }

    /// Keeps a message's memory for reuse.
    pub(super) fn recycle(&mut self, m: Message) {
        if m.body.capacity() <= CHUNK {
            self.spare = m.body;
        }
    }

    /// Returns the next message of any kind, if it is complete. `None` tells the caller to wait for
    /// the socket, which may be readable.
    fn message(&mut self) -> Result<Option<Message>, ConnectionError> {
        loop {
            if let Some(m) = self.take()? {
                return Ok(Some(m));
            }
            if std::mem::take(&mut self.drained) && self.start == self.end {
                return Ok(None);
            }
            match self.receive() {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(_) => {}
                Err(e) if is_later(&e) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Takes a complete message out of the buffer.
    fn take(&mut self) -> Result<Option<Message>, ConnectionError> {
        let there = &self.buffer[self.start..self.end];
        let Ok((header, _)) = Header::read_from_prefix(there) else { return Ok(None) };
        let size = header.size.get() as usize;
        if !(HEADER..=MAX_MESSAGE).contains(&size) {
            let how = format!("a message of {size} bytes; allowed are {HEADER} to {MAX_MESSAGE}");
            return Err(ConnectionError::Protocol(how));
        }
        let Some(bytes) = there.get(..size) else { return Ok(None) };
        let mut body = std::mem::take(&mut self.spare);
        body.clear();
        body.extend_from_slice(&bytes[HEADER..]);
        self.start += size;
        // Few messages have any.
        let fds = if self.fds.is_empty() { Vec::new() } else { self.take_fds() };
        Ok(Some(Message { header, body, fds }))
    }

    /// Takes the descriptors of the messages up to `start`.
    #[cold]
    fn take_fds(&mut self) -> Vec<Received> {
        let ours = self.fds.partition_point(|(place, _)| *place < self.start);
        self.fds.drain(..ours).map(|(_, fd)| fd).collect()
    }

    /// Reads from the socket into the buffer. Returns the number of bytes, 0 at its end.
    fn receive(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        for (place, _) in &mut self.fds {
            *place -= self.start;
        }
        (self.start, self.end) = (0, self.end - self.start);
        // Only a long message makes the buffer grow.
        if self.end + CHUNK / 2 > self.buffer.len() {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        let got = receive_with_fds(&*self.socket, &mut self.buffer[self.end..], &mut self.new_fds);
        self.end += got.as_ref().copied().unwrap_or(0);
        self.drained = got.is_ok() && self.end < self.buffer.len();
        let place = self.end.saturating_sub(1);
        self.fds.extend(self.new_fds.drain(..).map(|fd| (place, fd)));
        if self.fds.len() > MAX_FDS {
            return Err(too_many_fds());
        }
        got
    }

    /// Answers a request.
    pub(super) fn reply(
        &mut self,
        to: &Header,
        answer: Result<&[u8], Errno>,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(), ConnectionError> {
        let (flags, error, body) = match answer {
            Ok(body) => (flag::REPLY, 0, body),
            Err(errno) => (flag::REPLY | flag::ERROR, errno, &[][..]),
        };
        let mut out = std::mem::take(&mut self.out);
        message::write(&mut out, to.id.get(), to.command.get(), flags, error, &[body]);
        let sent = self.send(&out, fd);
        self.out = out;
        sent
    }

    fn send(&mut self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), ConnectionError> {
        let mut done = 0;
        while done < bytes.len() {
            // The descriptor goes with the first bytes.
            let with = fd.filter(|_| done == 0);
            match send_with_fds(&*self.socket, &bytes[done..], with.as_slice()) {
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready or a signal comes; `TimedOut` if this turn has waited
    /// enough.
    fn wait(&mut self, events: PollFlags) -> Result<(), ConnectionError> {
        let left = self.patience.saturating_sub(self.waited);
        fail_if(left.is_zero(), ConnectionError::Io(io::ErrorKind::TimedOut.into()))?;
        let since = Instant::now();
        poll([self.socket.as_fd()], events, Some(left))?;
        self.waited += since.elapsed();
        Ok(())
    }

    // ---- DMA by message ----

    /// Reads client memory that has no descriptor. Returns true if it succeeded.
    pub(super) fn dma_read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let step = self.max_data.min(MAX_DATA) as usize;
        into.chunks_mut(step).enumerate().all(|(i, part)| {
            let ask = Dma::new(at, i * step, part.len());
            match self.ask(command::DMA_READ, &[ask.as_bytes()]) {
                Some(m) if m.body.len() == size_of::<Dma>() + part.len() => {
                    part.copy_from_slice(&m.body[size_of::<Dma>()..]);
                    true
                }
                _ => false,
            }
        })
    }

    /// Writes client memory that has no descriptor. Returns true if it succeeded.
    pub(super) fn dma_write(&mut self, at: u64, from: &[u8]) -> bool {
        let step = self.max_data.min(MAX_DATA) as usize;
        from.chunks(step).enumerate().all(|(i, part)| {
            let ask = Dma::new(at, i * step, part.len());
            self.ask(command::DMA_WRITE, &[ask.as_bytes(), part]).is_some()
        })
    }

    /// Sends a request and waits for its reply. Returns `None` on an error reply or a lost client.
    fn ask(&mut self, command: u16, body: &[&[u8]]) -> Option<Message> {
        if self.broken.is_some() {
            return None;
        }
        self.remote_accesses += 1;
        match self.exchange(command, body) {
            Ok(m) if m.header.flags.get() & flag::ERROR == 0 => Some(m),
            Ok(_) => None,
            Err(gone) => {
                self.broken = Some(gone);
                None
            }
        }
    }

    fn exchange(&mut self, command: u16, body: &[&[u8]]) -> Result<Message, ConnectionError> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let mut out = std::mem::take(&mut self.out);
        message::write(&mut out, id, command, 0, 0, body);
        self.send(&out, None)?;
        self.out = out;
        loop {
            let Some(m) = self.message()? else {
                self.wait(PollFlags::IN)?;
                continue;
            };
            let is_reply = m.header.flags.get() & flag::TYPE == flag::REPLY;
            if is_reply && m.header.id.get() == id && m.header.command.get() == command {
                return Ok(m);
            }
            if is_reply {
                return Err(ConnectionError::protocol("a reply to another request than was made"));
            }
            self.messages += 1;
            self.waiting_bytes += m.weight();
            if self.waiting_bytes > MAX_WAITING {
                return Err(ConnectionError::protocol(
                    "too many requests while a DMA is under way",
                ));
            }
            self.waiting.push_back(m);
        }
    }
}

/// The most descriptors of a message in Linux (SCM_MAX_FD). The kernel would close those that find
/// no room, on this thread.
const SCM_MAX_FD: usize = 253;
/// Bytes of the control data of one message.
const CONTROL: usize = rustix::cmsg_space!(ScmRights(SCM_MAX_FD));

fn too_many_fds() -> io::Error {
    io::Error::other("more file descriptors than allowed in one message")
}

/// Returns true if a later attempt to receive may succeed.
pub fn is_later(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy)
}

/// Receives bytes into `into` and appends file descriptors to `fds`. Returns the number of bytes.
///
/// # Errors
/// As recvmsg(2); also if there are more descriptors than one message may have, or one that is
/// neither an eventfd nor memory; EMFILE if this process may open no more. `ResourceBusy` if there
/// are any while the [`reaper`] has no room for them; they wait in the socket.
pub fn receive_with_fds(
    socket: impl AsFd,
    into: &mut [u8],
    fds: &mut Vec<Received>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); CONTROL];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let (before, mut most) = (fds.len(), into.len());
    if !reaper::has_room() {
        let mut none = RecvAncillaryBuffer::default();
        let peeked = recvmsg(&socket, &mut [IoSliceMut::new(into)], &mut none, RecvFlags::PEEK)?;
        fail_if(peeked.flags.contains(ReturnFlags::CTRUNC), io::ErrorKind::ResourceBusy)?;
        // Those that have come meanwhile stay behind.
        most = peeked.bytes;
    }
    let into = &mut [IoSliceMut::new(&mut into[..most])];
    let got = recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(new) = message {
            keep_harmless(new, fds)?;
        }
    }
    fail_if(fds.len() - before > MAX_FDS, too_many_fds())?;
    // There was space for all that a message may have.
    fail_if(got.flags.contains(ReturnFlags::CTRUNC), io::Error::from(SystemError::MFILE))?;
    Ok(got.bytes)
}

/// Sends bytes with at most 253 file descriptors. Returns the number of bytes taken.
///
/// # Errors
/// As sendmsg(2): `WouldBlock` on a full non-blocking socket.
pub fn send_with_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); CONTROL];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds[..fds.len().min(SCM_MAX_FD)]));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}
