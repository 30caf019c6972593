//! Threads that close the descriptors of clients, and free their memory.
//!
//! A close may wait: for a peer (`SO_LINGER`), for a file system in user space (FUSE), for the
//! kernel (inotify). It may be the last close of others, which wait in the queue of a UNIX socket.
//! So a server leaves to the closers its connections, and descriptors that it does not know.
//! [`Guard`](super::Guard) ends their waits each millisecond. A wait that no signal ends costs a
//! closer, and while more than 256 descriptors wait, [`has_room`] tells the server to take no more.
//! Memory takes long to free, but not for ever; one more thread does that. While more than 16 wait
//! for it, [`may_accept`] holds off newcomers; those who are there, and are dropped together, find
//! room for 64. Memory that finds its queue full is freed in place.
//!
//! The threads start at the first use, or by [`start`], and never end.

use rustix::net::{Shutdown, shutdown};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::{fmt, io};

/// Descriptors that may wait for a closer. A message brings up to 253 more, and each connection
/// one.
const ROOM: usize = 256;
/// Values that may wait to be freed, and while clients are accepted. Each guest has one, and each
/// newcomer two.
const FREED: usize = 64;
const FREED_FOR_CLIENTS: usize = 16;

static CLOSERS: Queue = Queue::new("closer", 4);
static FREER: Queue = Queue::new("memory", 1);

type Job = Box<dyn FnOnce() + Send>;

/// Jobs, and the threads that do them.
struct Queue {
    name: &'static str,
    threads: usize,
    started: OnceLock<io::Result<Started>>,
    /// Jobs that are not done.
    held: AtomicUsize,
}

struct Started {
    jobs: Sender<Job>,
    threads: Vec<libc::pthread_t>,
}

impl Queue {
    const fn new(name: &'static str, threads: usize) -> Queue {
        Queue { name, threads, started: OnceLock::new(), held: AtomicUsize::new(0) }
    }

    fn start(&'static self) -> &'static io::Result<Started> {
        self.started.get_or_init(|| {
            let (jobs, next) = channel();
            let next = Arc::new(Mutex::new(next));
            let spawn = |_| {
                let next = Arc::clone(&next);
                let thread = Builder::new().name(self.name.into()).spawn(move || self.work(&next));
                thread.map(|t| t.as_pthread_t())
            };
            let threads = (0..self.threads).map(spawn).collect::<io::Result<_>>()?;
            Ok(Started { jobs, threads })
        })
    }

    fn work(&self, next: &Mutex<Receiver<Job>>) {
        loop {
            let job = next.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // Some thread was refused, and all end.
            let Ok(job) = job else { return };
            job();
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has a job done, here if the system has refused the threads.
    fn put(&'static self, job: Job) {
        let Ok(started) = self.start() else { return job() };
        self.held.fetch_add(1, Ordering::Relaxed);
        // The threads never end.
        let _ = started.jobs.send(job);
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// Starts the threads, so that none is refused later.
///
/// # Errors
/// If the system refuses one.
pub fn start() -> io::Result<()> {
    for queue in [&CLOSERS, &FREER] {
        queue.start().as_ref().map_err(|e| io::Error::new(e.kind(), e.to_string()))?;
    }
    Ok(())
}

/// Returns true if few descriptors wait to be closed. A server accepts no connection otherwise, and
/// no message with descriptors.
pub fn has_room() -> bool {
    waiting() <= ROOM
}

/// Returns true if there is also little memory to be freed. A server accepts no client otherwise.
pub fn may_accept() -> bool {
    has_room() && FREER.held() <= FREED_FOR_CLIENTS
}

/// Returns the number of descriptors that wait to be closed.
pub fn waiting() -> usize {
    CLOSERS.held()
}

/// Closes a descriptor that may be of any kind.
pub(super) fn close(fd: OwnedFd) {
    CLOSERS.put(Box::new(move || drop(fd)));
}

/// Frees memory of a client, with whatever holds it.
pub fn free(memory: impl Send + 'static) {
    if FREER.held() < FREED {
        FREER.put(Box::new(move || drop(memory)));
    }
}

/// Ends what the closers wait for, by SIGALRM, if there is anything to close.
pub(super) fn interrupt() {
    let Some(Ok(started)) = CLOSERS.started.get().filter(|_| waiting() > 0) else { return };
    for thread in &started.threads {
        // SAFETY: they never end.
        unsafe { libc::pthread_kill(*thread, libc::SIGALRM) };
    }
}

/// A connection of a client, or its memory, which the reaper drops.
pub struct Reaped<T> {
    /// There until it is dropped.
    value: Option<T>,
    reap: fn(T),
}

impl Reaped<UnixStream> {
    /// Takes a connection. Its end is seen by the client at once.
    pub fn connection(socket: UnixStream) -> Reaped<UnixStream> {
        let reap = |socket| {
            // The client may have closed it.
            let _ = shutdown(&socket, Shutdown::Both);
            close(UnixStream::into(socket));
        };
        Reaped { value: Some(socket), reap }
    }
}

impl<T: Send + 'static> Reaped<T> {
    /// Takes memory of a client.
    pub fn memory(memory: T) -> Reaped<T> {
        Reaped { value: Some(memory), reap: free }
    }
}

impl<T> Reaped<T> {
    /// Returns the value, which the caller drops.
    pub fn into_inner(mut self) -> T {
        self.value.take().expect("it is there until it is dropped")
    }
}

impl<T> Deref for Reaped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Reaped<T> {
    fn drop(&mut self) {
        self.value.take().into_iter().for_each(self.reap);
    }
}

impl<T: fmt::Debug> fmt::Debug for Reaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[cfg(test)]
mod tests;
