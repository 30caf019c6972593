//! Waits for descriptors, and a listening socket that removes its path.

use doorbell_host_io::shared::reaper::Reaped;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, recvmsg, socket_with,
};
use rustix::{io::Errno, thread::set_current_timer_slack};
use std::fs::Metadata;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::{io, io::IoSliceMut, num::NonZeroU64, time::Duration};

/// Waits until `events` occur on one of `fds`, a signal comes, or `timeout` is over (`None`: no
/// limit). Returns for each descriptor whether it is ready, at its end, or broken.
pub(super) fn poll<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    events: PollFlags,
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut all = fds.map(|fd| PollFd::from_borrowed_fd(fd, events));
    wait(&mut all, timeout)?;
    Ok(all.map(|fd| !fd.revents().is_empty()))
}

fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // A time that does not fit is no limit.
    let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Descriptors that are waited for without an allocation.
const FEW: usize = 8;

/// Waits until one of `fds` is readable, a signal comes, or `timeout` is over (`None`: no limit).
/// Sets `ready` to the state of each in order; closed and broken ones count as readable.
///
/// # Errors
/// As poll(2).
pub fn readable(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
    ready: &mut Vec<bool>,
) -> io::Result<()> {
    fn asked<'a>(fd: &BorrowedFd<'a>) -> PollFd<'a> {
        PollFd::from_borrowed_fd(*fd, PollFlags::IN)
    }
    // A server has a few in each turn, which need no allocation.
    let (mut few, mut many);
    let all = match *fds {
        [first, ..] if fds.len() <= FEW => {
            few = std::array::from_fn::<_, FEW, _>(|i| asked(fds.get(i).unwrap_or(&first)));
            &mut few[..fds.len()]
        }
        _ => {
            many = fds.iter().map(asked).collect::<Vec<_>>();
            &mut many[..]
        }
    };
    wait(all, timeout)?;
    ready.clear();
    ready.extend(all.iter().map(|fd| !fd.revents().is_empty()));
    Ok(())
}

/// Does the same as [`readable`] for a fixed number of descriptors, without allocation.
///
/// # Errors
/// As poll(2).
pub fn ready<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    poll(fds, PollFlags::IN, timeout)
}

/// Sets this thread's timer slack to 1 ns, so that timed waits do not end up to 50 us late.
pub fn exact_timers() {
    // A refusal makes waits longer, not wrong.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Bytes of a socket's path in Linux, with the terminating zero (unix(7)).
const SUN_PATH: usize = 108;

/// Connects to the socket at `path` without waiting, and returns a non-blocking connection.
///
/// # Errors
/// As connect(2): `WouldBlock` if too many connections wait to be accepted.
pub fn connect_now(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Returns true if a process has the socket at `path` open. It sees no client: a datagram socket
/// cannot connect to a stream socket, and is told so only if that is open (`EPROTOTYPE`).
fn is_open(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    Ok(connect(&probe, &SocketAddrUnix::new(path)?) != Err(Errno::CONNREFUSED))
}

/// Returns true if the peer of a stream has closed it and nothing is left to read.
pub fn at_end(socket: impl AsFd) -> bool {
    let (mut byte, mut control) = ([0], RecvAncillaryBuffer::default());
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
        Ok(peeked) => peeked.bytes == 0,
        Err(e) => e == Errno::CONNRESET,
    }
}

/// A listening socket at a path, which is removed when the value is dropped, unless another file is
/// there by then.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the path.
    file: (u64, u64),
    /// Given up for a moment to refuse a client when no other descriptor is left.
    spare: Option<OwnedFd>,
}

impl Listener {
    /// Listens at `path`. Replaces a socket without a listener, left by a killed server.
    ///
    /// # Errors
    /// `AddrInUse` if another process listens there, or the path is not a socket; `InvalidInput` if
    /// the path is too long.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let (length, most) = (path.as_os_str().len(), SUN_PATH - 1);
        if length > most {
            let what =
                format!("a socket's path has at most {most} bytes, and this one has {length}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if let Ok(m) = path.symlink_metadata() {
            let taken = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
            if !m.file_type().is_socket() {
                return taken("it exists and is not a socket");
            }
            if is_open(path)? {
                return taken("somebody listens there");
            }
            std::fs::remove_file(path)?;
        }
        let socket = UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        let spare = Some(socket.as_fd().try_clone_to_owned()?);
        let file = identity(&path.symlink_metadata()?);
        Ok(Listener { socket, path: path.to_owned(), file, spare })
    }

    /// Accepts the next client, if one is waiting.
    ///
    /// # Errors
    /// As accept(2). If no descriptor is left, the client is refused.
    pub fn accept(&mut self) -> io::Result<Option<UnixStream>> {
        // A descriptor that has come free is the spare one first.
        if self.spare.is_none() {
            self.spare = Some(self.socket.as_fd().try_clone_to_owned()?);
        }
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => {
                    self.refuse(&e);
                    Err(e)
                }
            },
        }
    }

    /// Closes the connection of the next client if there is no descriptor for it.
    fn refuse(&mut self, e: &io::Error) {
        let none_left = [Errno::MFILE, Errno::NFILE].map(|e| Some(e.raw_os_error()));
        if none_left.contains(&e.raw_os_error()) {
            self.spare = None;
            drop(self.socket.accept().map(|(client, _)| Reaped::connection(client)));
        }
    }
}

/// Returns device and inode of a file.
fn identity(m: &Metadata) -> (u64, u64) {
    (m.dev(), m.ino())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have been removed or replaced already.
        if self.path.symlink_metadata().is_ok_and(|m| identity(&m) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
