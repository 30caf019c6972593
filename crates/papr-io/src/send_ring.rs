//! The send ring: H_SEND_SUB_CRQ and H_SEND_SUB_CRQ_INDIRECT that the plug-in answers H_SUCCESS
//! before the server carries them out.
//!
//! The server publishes a row for each handle: the total of descriptors that may ever be posted for
//! it (those done and those with room now). The plug-in posts within that, with a copy of the
//! array, and forwards all other sends. The ring has one writer, under the plug-in's lock, and one
//! reader. A call comes after earlier sends: the reader notes where the ring ends after it has seen
//! the call, and takes it when it has got there, whatever is posted meanwhile.
//! Handles are not reused. A posted send is lost, and counted as refused, if its session ends
//! first, or if a guest posts and forwards for one queue from two CPUs at once.

use super::call_area::{CallArea, HEAD_OF_RING, QUEUES, RING, TAIL};
use doorbell_hal::Hcall;
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall};
use std::sync::atomic::Ordering;

/// Sends that fit in the ring. A model has few, so that they come round.
pub const SENDS: usize = if cfg!(loom) { 2 } else { 512 };
pub(super) const SEND: usize = 640;
pub(super) const RING_BYTES: usize = SENDS * SEND;
/// Offset of the array in a send, after call and nine arguments.
pub(super) const ARRAY: usize = 128;
/// The most queues of an adapter that sends may be posted for.
pub(super) const SEND_QUEUES: usize = if cfg!(loom) { 2 } else { 64 };
/// Bytes of a row: handle, flag for receive buffers, limit of descriptors.
pub(super) const ROW: usize = 32;

pub(super) type Array = [[u8; DESCRIPTOR]; MAX_INDIRECT as usize];

/// A queue of the device that accepts sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendQueue {
    /// Its handle.
    pub handle: u64,
    /// It accepts receive buffers, not frames.
    pub buffers: bool,
    /// Room in descriptors.
    pub room: u64,
}

/// Returns the number of descriptors of a well-formed send.
pub(super) fn descriptors(call: u64, a: &[u64; 9]) -> Option<usize> {
    match call {
        hcall::SEND_SUB_CRQ => Some(1),
        hcall::SEND_SUB_CRQ_INDIRECT if (1..=MAX_INDIRECT).contains(&a[3]) => Some(a[3] as usize),
        _ => None,
    }
}

/// Handle of each row with the number of descriptors posted for it. Under the plug-in's lock.
pub(super) type PostedCounts = [(u64, u64); SEND_QUEUES];

impl CallArea {
    pub(super) fn row(n: usize) -> usize {
        QUEUES + n % SEND_QUEUES * ROW
    }

    pub(super) fn slot(n: u64) -> usize {
        RING + (n % SENDS as u64) as usize * SEND
    }

    // ---- the guest's side ----

    /// Returns the row of a handle, and whether it accepts receive buffers.
    pub(super) fn row_of(&self, handle: u64) -> Option<(usize, bool)> {
        let handle_of = |n: usize| self.word(CallArea::row(n)).load(Ordering::Acquire);
        let n = (0..SEND_QUEUES).find(|n| handle != 0 && handle_of(*n) == handle)?;
        Some((n, self.load(CallArea::row(n) + 8) != 0))
    }

    /// Posts a send for a row's handle. Returns false if ring or credit is exhausted.
    pub(super) fn post(
        &self,
        posted: &mut PostedCounts,
        row: usize,
        call: u64,
        a: &[u64; 9],
        array: &[[u8; DESCRIPTOR]],
    ) -> bool {
        let count = &mut posted[row % SEND_QUEUES];
        if count.0 != a[1] {
            *count = (a[1], 0);
        }
        let new = count.1 + descriptors(call, a).unwrap_or(0) as u64;
        let (tail, head) = (self.word(TAIL), self.word(HEAD_OF_RING));
        let at = tail.load(Ordering::Relaxed);
        let full = at.wrapping_sub(head.load(Ordering::Acquire)) >= SENDS as u64;
        if full || new > self.word(CallArea::row(row) + 16).load(Ordering::Acquire) {
            return false;
        }
        let slot = CallArea::slot(at);
        self.store(slot, call);
        self.store_all(slot + 8, *a);
        let words = array.as_flattened().as_chunks().0;
        self.store_all(slot + ARRAY, words.iter().map(|b| u64::from_le_bytes(*b)));
        tail.store(at.wrapping_add(1), Ordering::Release);
        count.1 = new;
        true
    }

    // ---- the server's side ----

    /// Returns the place behind the sends that are there.
    pub(super) fn end_of_sends(&self) -> u64 {
        self.word(TAIL).load(Ordering::Acquire)
    }

    /// Returns true if the ring has sends before this place. An impossible one has none.
    pub(super) fn has_sends_before(&self, end: u64) -> bool {
        (1..=SENDS as u64).contains(&end.wrapping_sub(self.load(HEAD_OF_RING)))
    }

    /// Returns true if the ring has sends. An impossible tail counts as an empty ring.
    pub(super) fn has_sends(&self) -> bool {
        self.has_sends_before(self.end_of_sends())
    }

    /// Takes the next send and writes its descriptors to `array`.
    pub(super) fn next_send(&self, array: &mut Array) -> Option<(Hcall, [u64; 9])> {
        if !self.has_sends() {
            return None;
        }
        let head = self.word(HEAD_OF_RING);
        let at = head.load(Ordering::Relaxed);
        let slot = CallArea::slot(at);
        let (call, a) = (self.load(slot), self.load_all(slot + 8));
        let indirect = call == hcall::SEND_SUB_CRQ_INDIRECT;
        let n = descriptors(call, &a).filter(|_| indirect).unwrap_or(0);
        let words = array[..n].as_flattened_mut().as_chunks_mut().0;
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.load(slot + ARRAY + 8 * i).to_le_bytes();
        }
        head.store(at.wrapping_add(1), Ordering::Release);
        Some((Hcall(call), a))
    }

    /// Publishes in row `n` a queue and its limit of descriptors, or no queue.
    pub(super) fn publish_row(&self, n: usize, queue: Option<(SendQueue, u64)>) {
        let (handle, buffers, limit) =
            queue.map_or((0, false, 0), |(q, limit)| (q.handle, q.buffers, limit));
        let row = CallArea::row(n);
        if self.load(row) != handle {
            self.word(row).store(0, Ordering::Release);
            self.word(row + 8).store(buffers.into(), Ordering::Release);
        }
        self.word(row + 16).store(limit, Ordering::Release);
        self.word(row).store(handle, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
