//! Frames on the wire of a device that has no ledger.

use crate::net::{TAP, packets};
use doorbell_host_io::large_sends::LargeSends;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Longest sleep of the thread that counts, after which it looks whether it is still wanted.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The host's end of the wire, on which large sends are counted by their segments: the device of a
/// guest would have cut them, or put them together.
pub(crate) struct Wire {
    large: Arc<Mutex<LargeSends>>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Begins to count, on a thread of its own: the socket's queue is short.
    pub(crate) fn open() -> io::Result<Wire> {
        let large = LargeSends::open(TAP)?;
        let socket: OwnedFd = large.as_fd().try_clone_to_owned()?;
        let (large, done) = (Arc::new(Mutex::new(large)), Arc::new(AtomicBool::new(false)));
        let (counted, ended) = (Arc::clone(&large), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            while !ended.load(Relaxed) {
                // What was lost is told to who asks for the count.
                let waited = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&LOOK));
                if waited.is_ok_and(|n| n > 0) && locked(&counted).take().is_err() {
                    return;
                }
            }
        });
        Ok(Wire { large, done, thread: Some(thread) })
    }

    /// Returns the frames so far, in both directions.
    pub(crate) fn frames(&self) -> io::Result<u64> {
        let further = locked(&self.large).further()?;
        Ok(packets()? + further)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            _ = thread.join();
        }
    }
}

fn locked(large: &Mutex<LargeSends>) -> MutexGuard<'_, LargeSends> {
    large.lock().unwrap_or_else(PoisonError::into_inner)
}
