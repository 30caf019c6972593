//! Posted sends: H_SEND_SUB_CRQ and H_SEND_SUB_CRQ_INDIRECT that the plug-in has answered
//! H_SUCCESS, in a ring.
//!
//! A vNIC's send is taken or refused by what is known before it is done: is the array one, does the
//! handle stand for a queue of a session that is up, has the queue room. So the server says which
//! handles there are and how many more descriptors each may be given (a row of [`QUEUES`] each),
//! and the plug-in posts what is within that, with a copy of the array, which is the guest's again
//! when the call returns. Everything else is asked for, and the device says what it says: closed,
//! full, or wrong.
//!
//! The ring has one writer at a time, who holds the plug-in's lock, and one reader. The server
//! works it off in the order in which the sends were made, and takes no call from the board before
//! it has seen the ring empty after it saw the call: what a CPU posted, or knew to be posted, is
//! done before what it asks.
//!
//! **Credit.** A row's count is of all descriptors that may ever be posted for that handle: those
//! worked off and those that have room now. A handle is never used twice.
//!
//! **What is posted may still be refused**: the session may end before the send is worked off, and
//! then it is lost as are those that the server had taken. (Also when a guest asks and posts for
//! the same queue from two CPUs at once, which no driver does; room may be promised twice then.)
//! These are counted.
//!
//! The device sees the same call with the same arguments; its read of the array is answered from
//! the copy.

use super::board::{Board, HEAD_OF_RING, QUEUES, RING, TAIL};
use doorbell_hal::Hcall;
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall};
use std::sync::atomic::Ordering;

/// Sends that the ring holds.
pub const POSTS: usize = 512;
const POST: usize = 640;
pub(super) const RING_BYTES: usize = POSTS * POST;
/// In a post: call, its nine arguments, and the array.
const ARRAY: usize = 128;
/// Queues of an adapter that sends may be posted for.
pub const POST_QUEUES: usize = 64;
/// A row: handle, whether it takes buffers, and how many descriptors it may be given.
const ROW: usize = 32;

/// An array of descriptors.
pub type Array = [[u8; DESCRIPTOR]; MAX_INDIRECT as usize];

/// A queue that sends are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostQueue {
    /// Its handle.
    pub handle: u64,
    /// It takes receive buffers, not frames.
    pub buffers: bool,
    /// Descriptors that it has room for now.
    pub room: u64,
}

/// How many descriptors a send brings, when it is one and can be.
pub(super) fn descriptors(call: u64, a: &[u64; 9]) -> Option<usize> {
    match call {
        hcall::SEND_SUB_CRQ => Some(1),
        hcall::SEND_SUB_CRQ_INDIRECT if (1..=MAX_INDIRECT).contains(&a[3]) => Some(a[3] as usize),
        _ => None,
    }
}

/// What the plug-in has posted for the handle of each row. Behind its lock.
pub(super) type Posted = [(u64, u64); POST_QUEUES];

impl Board {
    fn row(n: usize) -> usize {
        QUEUES + n % POST_QUEUES * ROW
    }

    fn slot(n: u64) -> usize {
        RING + (n % POSTS as u64) as usize * POST
    }

    fn put_bytes(&self, at: usize, bytes: &[u8]) {
        for (i, b) in bytes.chunks_exact(8).enumerate() {
            let word = b.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
            self.word(at + 8 * i).store(word, Ordering::Relaxed);
        }
    }

    fn get_bytes(&self, at: usize, bytes: &mut [u8]) {
        for (i, b) in bytes.chunks_exact_mut(8).enumerate() {
            b.copy_from_slice(&self.word(at + 8 * i).load(Ordering::Relaxed).to_le_bytes());
        }
    }

    // ---- the guest's side ----

    /// Which row a handle has, and whether it takes buffers.
    pub(super) fn row_of(&self, handle: u64) -> Option<(usize, bool)> {
        let handle_of = |n: usize| self.word(Board::row(n)).load(Ordering::Acquire);
        let n = (0..POST_QUEUES).find(|n| handle != 0 && handle_of(*n) == handle)?;
        Some((n, self.word(Board::row(n) + 8).load(Ordering::Relaxed) != 0))
    }

    /// Posts a send of a row's handle; whether it could. `posted` is what was posted so far.
    pub(super) fn post(
        &self,
        posted: &mut Posted,
        row: usize,
        call: u64,
        a: &[u64; 9],
        array: &[[u8; DESCRIPTOR]],
    ) -> bool {
        let count = &mut posted[row % POST_QUEUES];
        if count.0 != a[1] {
            *count = (a[1], 0);
        }
        let new = count.1 + descriptors(call, a).unwrap_or(0) as u64;
        let (tail, head) = (self.word(TAIL), self.word(HEAD_OF_RING));
        let at = tail.load(Ordering::Relaxed);
        let full = at.wrapping_sub(head.load(Ordering::Acquire)) >= POSTS as u64;
        if full || new > self.word(Board::row(row) + 16).load(Ordering::Acquire) {
            return false;
        }
        let slot = Board::slot(at);
        self.word(slot).store(call, Ordering::Relaxed);
        for (i, a) in a.iter().enumerate() {
            self.word(slot + 8 + 8 * i).store(*a, Ordering::Relaxed);
        }
        self.put_bytes(slot + ARRAY, array.as_flattened());
        tail.store(at.wrapping_add(1), Ordering::Release);
        count.1 = new;
        true
    }

    // ---- the server's side ----

    /// Whether there are posted sends. A tail that no plug-in can have written is none.
    pub(super) fn any_posted(&self) -> bool {
        let tail = self.word(TAIL).load(Ordering::Acquire);
        (1..=POSTS as u64)
            .contains(&tail.wrapping_sub(self.word(HEAD_OF_RING).load(Ordering::Relaxed)))
    }

    /// The next of them, and its array into `array`.
    pub(super) fn posted(&self, array: &mut Array) -> Option<(Hcall, [u64; 9])> {
        if !self.any_posted() {
            return None;
        }
        let head = self.word(HEAD_OF_RING);
        let at = head.load(Ordering::Relaxed);
        let slot = Board::slot(at);
        let call = self.word(slot).load(Ordering::Relaxed);
        let a: [u64; 9] =
            std::array::from_fn(|i| self.word(slot + 8 + 8 * i).load(Ordering::Relaxed));
        let n = if call == hcall::SEND_SUB_CRQ_INDIRECT {
            descriptors(call, &a).unwrap_or(0)
        } else {
            0
        };
        self.get_bytes(slot + ARRAY, array[..n].as_flattened_mut());
        head.store(at.wrapping_add(1), Ordering::Release);
        Some((Hcall(call), a))
    }

    /// Row `n` is of this queue, which may be given so many descriptors in all, or of none.
    pub(super) fn say_queue(&self, n: usize, queue: Option<(PostQueue, u64)>) {
        let (handle, buffers, limit) =
            queue.map_or((0, false, 0), |(q, limit)| (q.handle, q.buffers, limit));
        let row = Board::row(n);
        if self.word(row).load(Ordering::Relaxed) != handle {
            self.word(row).store(0, Ordering::Release);
            self.word(row + 8).store(buffers.into(), Ordering::Release);
        }
        self.word(row + 16).store(limit, Ordering::Release);
        self.word(row).store(handle, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
