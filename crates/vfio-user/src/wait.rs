//! Waiting for descriptors, and a listening socket that cleans up after itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `ppoll`; an interrupting signal is not an error, and then nothing is ready.
pub(super) fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: t.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the slice and the time, if any, live past the call; no signal mask is given.
    let n = unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, limit, std::ptr::null())
    };
    if n >= 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    if e.kind() == io::ErrorKind::Interrupted {
        for fd in fds {
            fd.revents = 0;
        }
        return Ok(());
    }
    Err(e)
}

/// Waits until something can be read from one of `fds`, or `timeout` (none: for ever) is over. Says
/// which are ready, in their order; those at their end or broken count as ready.
///
/// # Errors
/// When the system refuses to wait.
pub fn readable(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
    ready: &mut Vec<bool>,
) -> io::Result<()> {
    let mut all: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    poll(&mut all, timeout)?;
    ready.clear();
    ready.extend(all.iter().map(|fd| fd.revents != 0));
    Ok(())
}

/// As [`readable`], for a number of descriptors that is known: nothing is allocated.
///
/// # Errors
/// As [`readable`].
pub fn ready<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut all =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    poll(&mut all, timeout)?;
    Ok(all.map(|fd| fd.revents != 0))
}

/// Makes this thread's timed waits end when they should, not up to 50 us later.
pub fn exact_timers() {
    // SAFETY: the call takes plain values and changes this thread's timer slack alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Bytes that Linux has for a socket's path, with the zero behind it (unix(7)).
const SUN_PATH: usize = 108;

/// A socket at a path, which is gone when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`. A socket that is there and that nobody listens on, left by a
    /// server that was killed, is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens there, or the path is something else than a socket.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let (length, most) = (path.as_os_str().len(), SUN_PATH - 1);
        if length > most {
            let what =
                format!("a socket's path has at most {most} bytes, and this one has {length}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        match path.symlink_metadata() {
            Ok(m) if !m.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    "it exists and is not a socket",
                ));
            }
            Ok(_) => {
                let refused = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
                if UnixStream::connect(path).err().as_ref().is_some_and(refused) {
                    std::fs::remove_file(path)?;
                } else {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there"));
                }
            }
            Err(_) => {}
        }
        let socket = UnixListener::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { socket, path: path.to_owned() })
    }

    /// The next client, if one is waiting.
    ///
    /// # Errors
    /// When the system has no descriptors left, or the like.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have taken it away already.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
