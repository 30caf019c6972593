//! Runs on all cores, with results in the order of their inputs, and what they share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Returns the number of the machine's cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `f` to each item with its index, on as many threads as the machine has cores. Returns
/// the results in order.
///
/// # Errors
/// The error of the first item that has one; items behind it may not have run.
pub fn in_parallel<I: Sync, T: Send, E: Send>(
    items: &[I],
    f: impl Fn(usize, &I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    on_threads(cores(), items, f)
}

/// Does the same on so many threads.
///
/// # Errors
/// As [`in_parallel`].
pub fn on_threads<I: Sync, T: Send, E: Send>(
    threads: usize,
    items: &[I],
    f: impl Fn(usize, &I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new((0..items.len()).map(|_| None).collect::<Vec<Option<Result<T, E>>>>());
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    let made = f(i, item);
                    if made.is_err() {
                        // Later items need not run; earlier ones are under way.
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    all.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(made);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// An amount that runs on several threads share.
pub(crate) struct Rooms {
    all: u64,
    taken: Mutex<u64>,
    changed: Condvar,
}

/// A part of it. Dropped, it is free again.
pub(crate) struct Room {
    of: &'static Rooms,
    amount: u64,
}

impl Rooms {
    pub(crate) const fn new(all: u64) -> Rooms {
        Rooms { all, taken: Mutex::new(0), changed: Condvar::new() }
    }

    /// Waits until so much is free, or all: a run that needs more than there is runs alone.
    pub(crate) fn take(&'static self, amount: u64) -> Room {
        let mut taken = self.lock();
        while *taken > 0 && taken.saturating_add(amount) > self.all {
            taken = self.changed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += amount;
        Room { of: self, amount }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.of.lock() -= self.amount;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
