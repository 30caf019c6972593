//! The board: a place for each CPU of the guest, where it puts its call and finds the answer.
//!
//! The same piece of memory has the interrupts' masks ([`masks`](super::masks)) and the ring of
//! posted sends ([`posts`](super::posts)) behind the places.
//!
//! | state | the next is written by |
//! |---|---|
//! | idle | the CPU, which takes its place |
//! | taken | the CPU, when it has put its call |
//! | asked | the server, when it has put the answer; or the CPU, when it goes to sleep |
//! | waited | the server, which then wakes the CPU |
//! | answered | the CPU, when it has read it |
//!
//! A CPU looks for its answer for some microseconds before it sleeps (`futex`). The server says
//! when it sleeps, and then a bell (an eventfd) wakes it; whoever writes a state and then reads the
//! other's sleep has a full fence between.
//!
//! A CPU waits no longer than ten seconds. Its place is then never idle again, and whatever it asks
//! there is not.
//!
//! Whatever is in a place, the server takes at most one call from it, and writes nothing but that
//! place's answer.

use doorbell_hal::{Hcall, HcallReturn};
use doorbell_host_io::shared::memfd;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// CPUs of a guest, at the most.
pub const CPUS: usize = 64;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const WAITED: u32 = 2;
const ANSWERED: u32 = 3;
const TAKEN: u32 = 4;

/// Bytes before the places, and of each.
const HEAD: usize = 4096;
const PLACE: usize = 256;
/// Behind them: masks, queues, the ring.
pub(super) const MASKS: usize = HEAD + CPUS * PLACE;
pub(super) const QUEUES: usize = MASKS + 4096;
pub(super) const RING: usize = QUEUES + 4096;
/// Bytes of the whole.
pub const BOARD: usize = RING + super::posts::RING_BYTES;
/// In the head.
const SLEEPS: usize = 0;
const TABLE_CALLS: usize = 8;
const TABLE_ENTRIES: usize = 16;
pub(super) const SIGNAL_CALLS: usize = 24;
pub(super) const VIOCTL_CALLS: usize = 32;
pub(super) const RAISED: usize = 40;
pub(super) const WAITS: usize = 48;
pub(super) const HELD: usize = 56;
/// Each side of the ring writes one of these, on a cache line of its own.
pub(super) const TAIL: usize = 128;
pub(super) const HEAD_OF_RING: usize = 192;
/// In a place.
const STATE: usize = 0;
const CALL: usize = 8;
const ARGUMENTS: usize = 16;
const STATUS: usize = 88;
const RETURNED: usize = 96;

/// How long a CPU looks before it sleeps, and how long it sleeps before it looks whether the server
/// is gone.
const LOOKS: Duration = Duration::from_micros(30);
const SLEEP: Duration = Duration::from_millis(50);
/// How long it waits in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shared memory of a guest's calls.
#[derive(Debug)]
pub struct Board(MmapRaw);

impl Board {
    /// A new one, and the file to share.
    ///
    /// # Errors
    /// When the system has no more memory or descriptors.
    pub fn create() -> io::Result<(Board, File)> {
        let file = memfd(c"hcalls", BOARD as u64)?;
        Ok((Board::open(&file)?, file))
    }

    /// Somebody else's.
    ///
    /// # Errors
    /// When it is not as long as a board, or cannot be mapped.
    pub fn open(file: &File) -> io::Result<Board> {
        if file.metadata()?.len() < BOARD as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a board that is too short"));
        }
        Ok(Board(MmapOptions::new().len(BOARD).map_raw(file)?))
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at < BOARD);
        // SAFETY: aligned and inside the mapping, which lives as long as `self`; all accesses of
        // all sides are atomic.
        unsafe { &*self.0.as_mut_ptr().add(at).cast() }
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < BOARD);
        // SAFETY: as in `word32`.
        unsafe { &*self.0.as_mut_ptr().add(at).cast() }
    }

    const fn place(cpu: usize) -> usize {
        HEAD + cpu % CPUS * PLACE
    }

    // ---- the guest's side ----

    /// CPU `cpu` makes a call and waits. `ring` wakes the server; `None` when `gone` says that
    /// there is none any more, or it does not answer, or another CPU has the place (from the
    /// 65th on they share).
    pub fn ask(
        &self,
        cpu: usize,
        call: u64,
        arguments: &[u64; 9],
        ring: impl Fn(),
        gone: impl Fn() -> bool,
    ) -> Option<HcallReturn> {
        if gone() || !self.put(cpu, call, arguments) {
            return None;
        }
        self.ring_if_asleep(ring);
        let state = self.word32(Board::place(cpu) + STATE);
        let since = Instant::now();
        let mut looked = 0u32;
        while state.load(Ordering::Acquire) != ANSWERED {
            spin_loop();
            looked = looked.wrapping_add(1);
            if !looked.is_multiple_of(64) || since.elapsed() < LOOKS {
                continue;
            }
            let slept = state.compare_exchange(ASKED, WAITED, Ordering::AcqRel, Ordering::Acquire);
            if slept != Err(ANSWERED) {
                wait(state, WAITED, SLEEP);
                if gone() || since.elapsed() > PATIENCE {
                    return None;
                }
            }
        }
        self.take_answer(cpu)
    }

    /// CPU `cpu` puts a call in its place; whether it could.
    pub(super) fn put(&self, cpu: usize, call: u64, arguments: &[u64; 9]) -> bool {
        let at = Board::place(cpu);
        let state = self.word32(at + STATE);
        if state.compare_exchange(IDLE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.word(at + CALL).store(call, Ordering::Relaxed);
        for (i, a) in arguments.iter().enumerate() {
            self.word(at + ARGUMENTS + 8 * i).store(*a, Ordering::Relaxed);
        }
        state.store(ASKED, Ordering::Release);
        true
    }

    /// The answer, if it is there. The place is free then.
    pub(super) fn take_answer(&self, cpu: usize) -> Option<HcallReturn> {
        let at = Board::place(cpu);
        let state = self.word32(at + STATE);
        if state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let mut answer =
            HcallReturn::status(self.word(at + STATUS).load(Ordering::Relaxed).cast_signed());
        for (i, r) in answer.ret.iter_mut().enumerate() {
            *r = self.word(at + RETURNED + 8 * i).load(Ordering::Relaxed);
        }
        state.store(IDLE, Ordering::Release);
        Some(answer)
    }

    /// Wakes the server, if it sleeps, for what was written before.
    pub(super) fn ring_if_asleep(&self, ring: impl Fn()) {
        fence(Ordering::SeqCst);
        if self.word32(SLEEPS).load(Ordering::Relaxed) != 0 {
            ring();
        }
    }

    /// A call that wrote so many translation entries has been answered without the server.
    pub fn count_table(&self, entries: u64) {
        self.word(TABLE_CALLS).fetch_add(1, Ordering::Relaxed);
        self.word(TABLE_ENTRIES).fetch_add(entries, Ordering::Relaxed);
    }

    // ---- the server's side ----

    /// The call of CPU `cpu`, if it has made one that nobody has taken.
    pub fn asked(&self, cpu: usize) -> Option<(Hcall, [u64; 9])> {
        let at = Board::place(cpu);
        if !matches!(self.word32(at + STATE).load(Ordering::Acquire), ASKED | WAITED) {
            return None;
        }
        let arguments =
            std::array::from_fn(|i| self.word(at + ARGUMENTS + 8 * i).load(Ordering::Relaxed));
        Some((Hcall(self.word(at + CALL).load(Ordering::Relaxed)), arguments))
    }

    /// Answers it.
    pub fn answer(&self, cpu: usize, answer: &HcallReturn) {
        let at = Board::place(cpu);
        self.word(at + STATUS).store(answer.status.cast_unsigned(), Ordering::Relaxed);
        for (i, r) in answer.ret.iter().enumerate() {
            self.word(at + RETURNED + 8 * i).store(*r, Ordering::Relaxed);
        }
        let state = self.word32(at + STATE);
        if state.swap(ANSWERED, Ordering::AcqRel) == WAITED {
            wake(state);
        }
    }

    /// The server is about to sleep, or is awake. After saying that it is it looks once more for
    /// calls.
    pub fn say_asleep(&self, sleeps: bool) {
        self.word32(SLEEPS).store(sleeps.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Calls that wrote translation entries, and how many entries.
    pub fn table_counts(&self) -> (u64, u64) {
        (
            self.word(TABLE_CALLS).load(Ordering::Relaxed),
            self.word(TABLE_ENTRIES).load(Ordering::Relaxed),
        )
    }
}

/// Sleeps as long as the word is `expected`, but no longer than `limit`.
fn wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
    // SAFETY: word and time live past the call. It may end for any reason: the caller looks again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const limit,
            0,
            0,
        )
    };
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word is only an address here.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1, 0, 0, 0) };
}

#[cfg(test)]
mod tests;
