//! The socket: messages with file descriptors, in both directions.
//!
//! Nothing here waits for a client, but for two things, each for at most five
//! seconds (what QEMU's own `x-msg-timeout` is): that it reads its replies, and that
//! it answers a DMA by message. A client that does not is treated as gone.
//!
//! Descriptors come with the bytes of the `sendmsg` that they were attached to, and
//! `recvmsg` never reads past such bytes. So they belong to the message that the last
//! byte of a read belongs to.

use super::message::{
    self, Dma, Errno, HEADER, Header, MAX_DATA, MAX_FDS, MAX_MESSAGE, command, flag,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// How long a client may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes asked for in one read.
const CHUNK: usize = 1 << 16;
/// Bytes of requests that may wait while a DMA by message is under way.
const MAX_WAITING: usize = 8 * MAX_MESSAGE;

/// Why a connection is at its end.
#[derive(Debug)]
pub enum Gone {
    /// The client closed it.
    Closed,
    /// The client broke the protocol: how.
    Protocol(String),
    /// The system says so, or the client kept us waiting.
    Io(io::Error),
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Gone::Closed => f.write_str("closed by the client"),
            Gone::Protocol(what) => write!(f, "the client broke the protocol: {what}"),
            Gone::Io(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Gone {}

impl From<io::Error> for Gone {
    fn from(e: io::Error) -> Gone {
        match e.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => Gone::Closed,
            _ => Gone::Io(e),
        }
    }
}

/// A message as it came.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// One client's connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    /// Bytes read, of which those from `start` to `end` have not been taken.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Descriptors, each with the last byte of the read that brought it, as a place in the buffer.
    fds: VecDeque<(usize, OwnedFd)>,
    /// Descriptors of one read.
    new_fds: Vec<OwnedFd>,
    /// Requests that came while a reply was waited for.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    out: Vec<u8>,
    next_id: u16,
    /// The most data that the client takes in one message.
    pub(super) max_data: u32,
    /// Messages answered or not, and DMA by message.
    pub(super) messages: u64,
    pub(super) remote_accesses: u64,
    /// A body to be used again.
    spare: Vec<u8>,
    /// What ended it, found where nobody could be told.
    pub(super) broken: Option<Gone>,
}

impl Channel {
    pub(super) fn new(socket: UnixStream) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        Ok(Channel {
            socket,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            fds: VecDeque::new(),
            new_fds: Vec::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            out: Vec::new(),
            next_id: 0,
            max_data: MAX_DATA,
            messages: 0,
            remote_accesses: 0,
            spare: Vec::new(),
            broken: None,
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next request, if one is there.
    pub(super) fn request(&mut self) -> Result<Option<Message>, Gone> {
        if let Some(gone) = self.broken.take() {
            return Err(gone);
        }
        if let Some(m) = self.waiting.pop_front() {
            self.waiting_bytes -= HEADER + m.body.len();
            return Ok(Some(m));
        }
        let Some(m) = self.message()? else { return Ok(None) };
        if m.header.flags.get() & flag::TYPE != 0 {
            return Err(Gone::Protocol("a reply that nobody asked for".into()));
        }
        self.messages += 1;
        Ok(Some(m))
    }

    /// Gives a message's memory back.
    pub(super) fn recycle(&mut self, m: Message) {
        if m.body.capacity() <= CHUNK {
            self.spare = m.body;
        }
    }

    /// The next message of any kind, if it is there whole.
    fn message(&mut self) -> Result<Option<Message>, Gone> {
        loop {
            if let Some(m) = self.take()? {
                return Ok(Some(m));
            }
            match self.receive() {
                Ok(0) => return Err(Gone::Closed),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// A whole message out of the buffer.
    fn take(&mut self) -> Result<Option<Message>, Gone> {
        let there = &self.buffer[self.start..self.end];
        let Ok((header, _)) = Header::read_from_prefix(there) else { return Ok(None) };
        let size = header.size.get() as usize;
        if !(HEADER..=MAX_MESSAGE).contains(&size) {
            return Err(Gone::Protocol(format!(
                "a message of {size} bytes; allowed are {HEADER} to {MAX_MESSAGE}"
            )));
        }
        let Some(bytes) = there.get(..size) else { return Ok(None) };
        let mut body = std::mem::take(&mut self.spare);
        body.clear();
        body.extend_from_slice(&bytes[HEADER..]);
        self.start += size;
        let ours = self.fds.partition_point(|(place, _)| *place < self.start);
        let fds = self.fds.drain(..ours).map(|(_, fd)| fd).collect();
        Ok(Some(Message { header, body, fds }))
    }

    /// Reads what is there; 0 is the end.
    fn receive(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        for (place, _) in &mut self.fds {
            *place -= self.start;
        }
        (self.start, self.end) = (0, self.end - self.start);
        // More room for a long message only.
        if self.end + CHUNK / 2 > self.buffer.len() {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        let got = receive(self.socket.as_raw_fd(), &mut self.buffer[self.end..], &mut self.new_fds);
        self.end += got.as_ref().copied().unwrap_or(0);
        let place = self.end.saturating_sub(1);
        self.fds.extend(self.new_fds.drain(..).map(|fd| (place, fd)));
        if self.fds.len() > MAX_FDS {
            return Err(io::Error::other("more file descriptors than allowed in one message"));
        }
        got
    }

    /// Answers a request.
    pub(super) fn reply(
        &mut self,
        to: &Header,
        answer: Result<&[u8], Errno>,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(), Gone> {
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

    fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Gone> {
        let mut done = 0;
        let until = Instant::now() + PATIENCE;
        while done < bytes.len() {
            // The descriptor goes with the first bytes.
            let with = fd.filter(|_| done == 0);
            match send_with(&self.socket, &bytes[done..], with.as_slice()) {
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(libc::POLLOUT, until)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Waits until the socket is ready.
    fn wait(&self, events: libc::c_short, until: Instant) -> Result<(), Gone> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Gone::Io(io::ErrorKind::TimedOut.into()));
        }
        let mut fds = [libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 }];
        super::wait::poll(&mut fds, Some(left))?;
        Ok(())
    }

    // ---- DMA by message ----

    /// Reads client memory that has no descriptor.
    pub(super) fn dma_read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let step = self.max_data.min(MAX_DATA) as usize;
        let mut address = at;
        for part in into.chunks_mut(step) {
            let ask = Dma { address: address.into(), count: (part.len() as u64).into() };
            match self.ask(command::DMA_READ, &[ask.as_bytes()]) {
                Some(m) if m.body.len() == size_of::<Dma>() + part.len() => {
                    part.copy_from_slice(&m.body[size_of::<Dma>()..]);
                }
                _ => return false,
            }
            address = address.wrapping_add(part.len() as u64);
        }
        true
    }

    /// Writes client memory that has no descriptor.
    pub(super) fn dma_write(&mut self, at: u64, from: &[u8]) -> bool {
        let step = self.max_data.min(MAX_DATA) as usize;
        let mut address = at;
        for part in from.chunks(step) {
            let ask = Dma { address: address.into(), count: (part.len() as u64).into() };
            if self.ask(command::DMA_WRITE, &[ask.as_bytes(), part]).is_none() {
                return false;
            }
            address = address.wrapping_add(part.len() as u64);
        }
        true
    }

    /// Sends a request and waits for its reply; `None` for an error, and when the client is gone.
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

    fn exchange(&mut self, command: u16, body: &[&[u8]]) -> Result<Message, Gone> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let mut out = std::mem::take(&mut self.out);
        message::write(&mut out, id, command, 0, 0, body);
        self.send(&out, None)?;
        self.out = out;
        let until = Instant::now() + PATIENCE;
        loop {
            let Some(m) = self.message()? else {
                self.wait(libc::POLLIN, until)?;
                continue;
            };
            let is_reply = m.header.flags.get() & flag::TYPE == flag::REPLY;
            if is_reply && m.header.id.get() == id && m.header.command.get() == command {
                return Ok(m);
            }
            if is_reply {
                return Err(Gone::Protocol("a reply to another request than was made".into()));
            }
            self.messages += 1;
            self.waiting_bytes += HEADER + m.body.len();
            if self.waiting_bytes > MAX_WAITING {
                return Err(Gone::Protocol("too many requests while a DMA is under way".into()));
            }
            self.waiting.push_back(m);
        }
    }
}

/// Room for the descriptors of one `recvmsg`, aligned as a control message has to be.
#[repr(C, align(8))]
struct Control([u8; 256]);

const _: () = assert!(size_of::<Control>() >= 16 + 4 * (MAX_FDS + 1));

/// `recvmsg`: bytes into `into`, descriptors onto `fds`.
pub fn receive(socket: RawFd, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = Control([0; 256]);
    let mut io = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all zeros is a valid `msghdr`: no name, no buffers.
    let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
    m.msg_iov = &raw mut io;
    m.msg_iovlen = 1;
    m.msg_control = (&raw mut control).cast();
    m.msg_controllen = size_of::<Control>();
    // SAFETY: `m` points to one buffer and to control space that both live past the call.
    let n = unsafe { libc::recvmsg(socket, &raw mut m, libc::MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the macros walk the control space that the kernel has just filled, inside
    // `msg_controllen`; descriptors in it are new and nobody else's. They may be unaligned for
    // a pointer read.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(&raw const m);
        while !c.is_null() {
            if (*c).cmsg_level == libc::SOL_SOCKET && (*c).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*c).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(c).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            c = libc::CMSG_NXTHDR(&raw const m, c);
        }
    }
    if m.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(io::Error::other("more file descriptors than allowed in one message"));
    }
    Ok(n as usize)
}

/// Sends bytes with file descriptors, as a client does; of those, as many as fit one message.
/// How many bytes were taken.
///
/// # Errors
/// What the system says (`WouldBlock` on a full non-blocking socket).
pub fn send_with(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let socket = socket.as_raw_fd();
    let mut control = Control([0; 256]);
    let mut io = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros is a valid `msghdr`.
    let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
    m.msg_iov = &raw mut io;
    m.msg_iovlen = 1;
    let fds = &fds[..fds.len().min(MAX_FDS + 1)];
    if !fds.is_empty() {
        let len = size_of_val(fds) as u32;
        m.msg_control = (&raw mut control).cast();
        // SAFETY: these only compute sizes; the control space holds MAX_FDS + 1 descriptors, and
        // the first header is in it because its length says so.
        unsafe {
            m.msg_controllen = libc::CMSG_SPACE(len) as usize;
            let c = libc::CMSG_FIRSTHDR(&raw const m);
            (*c).cmsg_level = libc::SOL_SOCKET;
            (*c).cmsg_type = libc::SCM_RIGHTS;
            (*c).cmsg_len = libc::CMSG_LEN(len) as usize;
            let data = libc::CMSG_DATA(c).cast::<RawFd>();
            for (i, fd) in fds.iter().enumerate() {
                data.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    // SAFETY: `m` points to one buffer, only read, and to control space; both live past the call.
    let n = unsafe { libc::sendmsg(socket, &raw const m, libc::MSG_NOSIGNAL) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
}
