//! Protection of a server from the memory and the descriptors of its clients.
//!
//! A client can truncate a file that it has handed over, and a sparse file needs memory that the
//! system may not have. An access to such a page raises SIGBUS. The handler looks the address up
//! among the registered windows, maps an empty page over it and marks the window as lost, which
//! [`Window::read`](super::Window::read) and [`Window::write`](super::Window::write) report. The
//! registry is a table of atomic words, because a handler may take no lock. An address of no window
//! has the default action.
//!
//! A write to an eventfd waits while its counter is full, unless the description is non-blocking,
//! which its owner can change at any time. A second thread therefore signals the guarded one ten
//! times a second, which ends such a wait with EINTR. It also ends the waits of the
//! [reaper](super::reaper).

use super::reaper;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, ptr};

/// The most windows of a process.
const WINDOWS: usize = 1 << 16;
/// The longest wait for a client's descriptor.
const EVERY: Duration = Duration::from_millis(100);
/// The longest wait of the reaper, for one of many descriptors.
const SOON: Duration = Duration::from_millis(1);

/// The addresses of a window. Without one, `end` is 0.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The size of its pages.
    page: AtomicUsize,
    lost: AtomicBool,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            page: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
        }
    }
}

static SLOTS: [Slot; WINDOWS] = [const { Slot::new() }; WINDOWS];
/// The number of slots that were ever in use.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Slots that are no longer in use. Locked by those who map and unmap, not by the handler.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The entry of a window in the registry.
#[derive(Debug)]
pub(super) struct Registered {
    slot: &'static Slot,
    n: usize,
}

impl Registered {
    /// Registers `len` bytes at `start` in pages of `page` bytes.
    pub(super) fn new(start: *const u8, len: usize, page: usize) -> io::Result<Registered> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let used = USED.load(Ordering::Relaxed);
        let Some(n) = free.pop().or((used < WINDOWS).then_some(used)) else {
            return Err(io::Error::other("the process has too many windows"));
        };
        let slot = &SLOTS[n];
        slot.lost.store(false, Ordering::SeqCst);
        slot.page.store(page, Ordering::SeqCst);
        slot.start.store(start.addr(), Ordering::SeqCst);
        slot.end.store(start.addr() + len, Ordering::SeqCst);
        USED.store(used.max(n + 1), Ordering::SeqCst);
        Ok(Registered { slot, n })
    }

    /// Returns true once an access has found a page without memory.
    pub(super) fn lost(&self) -> bool {
        self.slot.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.slot.end.store(0, Ordering::SeqCst);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.n);
    }
}

/// Maps an empty page over the one at `address`, if it is in a window. Returns true if it did.
fn replace(address: usize) -> bool {
    let inside = |s: &&Slot| {
        // Another thread may free the slot and use it again meanwhile.
        let end = s.end.load(Ordering::SeqCst);
        let inside = (s.start.load(Ordering::SeqCst)..end).contains(&address);
        inside && s.end.load(Ordering::SeqCst) == end
    };
    let Some(slot) = SLOTS[..USED.load(Ordering::SeqCst)].iter().find(inside) else { return false };
    let page = slot.page.load(Ordering::SeqCst);
    let at = ptr::without_provenance_mut(address & !(page - 1));
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: the page belongs to the mapping of a window, which lives while it is registered. All
    // accesses to it are atomic or copies of the kernel's, and expect any value at any time.
    let done = unsafe { libc::mmap(at, page, access, kind, -1, 0) } != libc::MAP_FAILED;
    slot.lost.fetch_or(done, Ordering::SeqCst);
    done
}

/// Handles SIGBUS. It calls nothing but mmap, signal and raise, which a handler may.
extern "C" fn bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure (SA_SIGINFO), which has an address in a SIGBUS of
    // its own, with a positive code.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    if code > 0 && replace(address.addr()) {
        return;
    }
    // SAFETY: both functions may be called in a handler. The signal comes when this returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Ends a wait by its mere presence: it is installed without SA_RESTART.
extern "C" fn wake_up(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn install(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: all zeros is a valid value: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the type that SA_SIGINFO demands and lives as long as the process.
    crate::check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })
}

/// The protection of the thread that made it: lost memory is reported and does not end the process,
/// and no system call waits longer than 100 ms unless it is repeated. SIGBUS stays handled after
/// its end. It uses SIGALRM.
#[derive(Debug)]
pub struct Guard {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// It must be dropped on the thread that it signals.
    here: PhantomData<*const ()>,
}

impl Guard {
    /// Protects this thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new() -> io::Result<Guard> {
        install(libc::SIGBUS, bus_error)?;
        install(libc::SIGALRM, wake_up)?;
        let (end, ended) = channel();
        // SAFETY: it has no conditions.
        let guarded = unsafe { libc::pthread_self() };
        let remind = move || {
            let mut since = Instant::now();
            let wait = |since: Instant| {
                let left = EVERY.saturating_sub(since.elapsed());
                if reaper::waiting() > 0 { left.min(SOON) } else { left }
            };
            while ended.recv_timeout(wait(since)) == Err(RecvTimeoutError::Timeout) {
                reaper::interrupt();
                if since.elapsed() >= EVERY {
                    since = Instant::now();
                    // SAFETY: the guarded thread lives, since it waits for this one in `drop`.
                    unsafe { libc::pthread_kill(guarded, libc::SIGALRM) };
                }
            }
        };
        let thread = std::thread::Builder::new().name("guard".into()).spawn(remind)?;
        Ok(Guard { end: Some(end), thread: Some(thread), here: PhantomData })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic.
            let _ = thread.join();
        }
    }
}

/// Returns the size of the smallest pages of a mapping.
#[cfg(not(miri))]
pub(super) fn page_of(file: impl rustix::fd::AsFd) -> io::Result<usize> {
    const HUGETLBFS: i64 = 0x9584_58f6;
    let system = rustix::fs::fstatfs(file)?;
    #[allow(clippy::unnecessary_cast, reason = "the type depends on the architecture")]
    let huge = (system.f_type as i64 == HUGETLBFS).then_some(system.f_bsize as usize);
    Ok(huge.unwrap_or_else(rustix::param::page_size))
}

#[cfg(test)]
mod tests;
