//! The call area: memory shared by plug-in and server, with a slot for the call of each CPU.
//! Interrupt masks and send ring follow the slots.
//!
//! States of a slot: idle, taken (the CPU fills it), asked, waited (the CPU sleeps), answered. The
//! CPU writes all but answered. It polls for 30 us before it sleeps (`futex`), and gives up after
//! 10 s; its slot then stays occupied. The server announces its sleep, from which a doorbell (an
//! eventfd) wakes it. A side that writes a state and then reads the other's sleep has a full fence
//! in between. Whatever a slot has, the server takes at most one call from it and writes nothing
//! but the answer.

use super::PluginStats;
use crate::words::{AtomicU32, AtomicU64, Words, fence, sleep, wake};
use doorbell_hal::{Hcall, HcallReturn};
use doorbell_host_io::shared::memfd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{fs::File, hint::spin_loop, io};

/// The most CPUs of a guest.
pub const CPUS: usize = 64;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const WAITED: u32 = 2;
const ANSWERED: u32 = 3;
const TAKEN: u32 = 4;

/// Bytes before the slots, and of each slot.
const HEAD: usize = 4096;
const SLOT: usize = 256;
/// Offsets of masks, queues and ring.
pub(super) const MASKS: usize = HEAD + CPUS * SLOT;
pub(super) const QUEUES: usize = MASKS + 4096;
pub(super) const RING: usize = QUEUES + 4096;
/// Bytes of the call area.
pub const CALL_AREA_BYTES: usize = RING + super::send_ring::RING_BYTES;
/// Offsets in the head.
pub(super) const SLEEPS: usize = 0;
const TABLE_CALLS: usize = 8;
const TABLE_ENTRIES: usize = 16;
pub(super) const SIGNAL_CALLS: usize = 24;
pub(super) const VIOCTL_CALLS: usize = 32;
pub(super) const RAISED: usize = 40;
pub(super) const ENTRIES_PENDING: usize = 48;
pub(super) const HELD: usize = 56;
/// Tail and head of the ring, on a cache line for each side.
pub(super) const TAIL: usize = 128;
pub(super) const HEAD_OF_RING: usize = 192;
/// Offsets in a slot.
pub(super) const STATE: usize = 0;
pub(super) const CALL: usize = 8;
pub(super) const ARGUMENTS: usize = 16;
pub(super) const STATUS: usize = 88;
pub(super) const RETURNED: usize = 96;

/// Time for which a CPU polls before it sleeps.
const POLL: Duration = Duration::from_micros(30);
/// Time after which a sleeping CPU checks that the server still runs.
const SLEEP: Duration = Duration::from_millis(50);
/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Memory shared by the plug-in and the server of a guest.
#[derive(Debug)]
pub(super) struct CallArea(Words);

impl CallArea {
    /// Creates a call area. Returns it and the file to share.
    pub(super) fn create() -> io::Result<(CallArea, File)> {
        let file = memfd(c"hcalls", CALL_AREA_BYTES as u64)?;
        Ok((CallArea::open(&file)?, file))
    }

    /// Maps the call area of another process, which must not be able to shorten it.
    pub(super) fn open(file: &File) -> io::Result<CallArea> {
        Ok(CallArea(Words::map(file, CALL_AREA_BYTES)?))
    }

    #[cfg(all(test, loom))]
    pub(super) fn of(words: Words) -> CallArea {
        CallArea(words)
    }

    /// Returns true once an access has found a page without memory.
    pub(super) fn lost(&self) -> bool {
        self.0.lost()
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        self.0.half_word(at)
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        self.0.word(at)
    }

    pub(super) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    pub(super) fn store(&self, at: usize, v: u64) {
        self.word(at).store(v, Ordering::Relaxed);
    }

    pub(super) fn load_all<const N: usize>(&self, at: usize) -> [u64; N] {
        std::array::from_fn(|i| self.load(at + 8 * i))
    }

    pub(super) fn store_all(&self, at: usize, words: impl IntoIterator<Item = u64>) {
        words.into_iter().enumerate().for_each(|(i, v)| self.store(at + 8 * i, v));
    }

    pub(super) const fn slot_of(cpu: usize) -> usize {
        HEAD + cpu % CPUS * SLOT
    }

    // ---- the guest's side ----

    /// Makes a call of CPU `cpu` and waits for the answer. `ring` wakes the server. Returns `None`
    /// if `gone` returns true, if no answer comes within 10 s, or if another CPU has the slot (from
    /// the 65th on they share).
    pub(super) fn call(
        &self,
        cpu: usize,
        call: u64,
        arguments: &[u64; 9],
        ring: impl Fn(),
        gone: impl Fn() -> bool,
    ) -> Option<HcallReturn> {
        if gone() || !self.begin_call(cpu, call, arguments) {
            return None;
        }
        self.ring_if_asleep(ring);
        let state = self.word32(CallArea::slot_of(cpu) + STATE);
        let since = Instant::now();
        let mut polls = 0u32;
        while state.load(Ordering::Acquire) != ANSWERED {
            spin_loop();
            polls = polls.wrapping_add(1);
            if !polls.is_multiple_of(64) || since.elapsed() < POLL {
                continue;
            }
            let slept = state.compare_exchange(ASKED, WAITED, Ordering::AcqRel, Ordering::Acquire);
            if slept != Err(ANSWERED) {
                // It may end for any reason: the loop checks the state again.
                sleep(state, WAITED, SLEEP);
                if gone() || since.elapsed() > TIMEOUT {
                    return None;
                }
            }
        }
        self.take_answer(cpu)
    }

    /// Puts a call of CPU `cpu` in its slot. Returns false if the slot is occupied.
    pub(super) fn begin_call(&self, cpu: usize, call: u64, arguments: &[u64; 9]) -> bool {
        let at = CallArea::slot_of(cpu);
        let state = self.word32(at + STATE);
        if state.compare_exchange(IDLE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.store(at + CALL, call);
        self.store_all(at + ARGUMENTS, *arguments);
        state.store(ASKED, Ordering::Release);
        true
    }

    /// Takes the answer, if there is one, and frees the slot.
    pub(super) fn take_answer(&self, cpu: usize) -> Option<HcallReturn> {
        let at = CallArea::slot_of(cpu);
        let state = self.word32(at + STATE);
        if state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let status = self.load(at + STATUS).cast_signed();
        let answer = HcallReturn { status, ret: self.load_all(at + RETURNED) };
        state.store(IDLE, Ordering::Release);
        Some(answer)
    }

    /// Wakes the server if it sleeps. Earlier writes are visible to it.
    pub(super) fn ring_if_asleep(&self, ring: impl Fn()) {
        fence(Ordering::SeqCst);
        if self.word32(SLEEPS).load(Ordering::Relaxed) != 0 {
            ring();
        }
    }

    /// Counts a call that wrote `entries` translation entries without the server.
    pub(super) fn count_table(&self, entries: u64) {
        self.word(TABLE_CALLS).fetch_add(1, Ordering::Relaxed);
        self.word(TABLE_ENTRIES).fetch_add(entries, Ordering::Relaxed);
    }

    // ---- the server's side ----

    /// Returns a bit for each CPU whose call waits for its answer.
    pub(super) fn callers(&self) -> u64 {
        let states = self.0.half_words(HEAD + STATE, SLOT, CPUS);
        let waits = |s: &AtomicU32| matches!(s.load(Ordering::Acquire), ASKED | WAITED);
        states.zip(0..).fold(0, |all, (s, cpu)| all | u64::from(waits(s)) << cpu)
    }

    pub(super) fn pending_call(&self, cpu: usize) -> Option<(Hcall, [u64; 9])> {
        let at = CallArea::slot_of(cpu);
        if !matches!(self.word32(at + STATE).load(Ordering::Acquire), ASKED | WAITED) {
            return None;
        }
        let arguments = self.load_all(at + ARGUMENTS);
        Some((Hcall(self.load(at + CALL)), arguments))
    }

    pub(super) fn answer(&self, cpu: usize, answer: &HcallReturn) {
        let at = CallArea::slot_of(cpu);
        self.store(at + STATUS, answer.status.cast_unsigned());
        self.store_all(at + RETURNED, answer.ret);
        let state = self.word32(at + STATE);
        if state.swap(ANSWERED, Ordering::AcqRel) == WAITED {
            // The CPU checks the state at the latest after its sleep.
            wake(state);
        }
    }

    /// Announces that the server is about to sleep, or is awake. Before its sleep it must check for
    /// calls once more.
    pub(super) fn set_sleeping(&self, sleeps: bool) {
        self.word32(SLEEPS).store(sleeps.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(super) fn counts(&self) -> PluginStats {
        PluginStats {
            table_calls: self.load(TABLE_CALLS),
            table_entries: self.load(TABLE_ENTRIES),
            signal_calls: self.load(SIGNAL_CALLS),
            vioctl_calls: self.load(VIOCTL_CALLS),
            raised: self.load(RAISED),
            held: self.load(HELD),
            ..PluginStats::default()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
