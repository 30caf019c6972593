//! Cores shared by the threads of several systems.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place of a thread that waits for a core: the lowest comes first.
pub(crate) type Rank = [usize; 3];

/// Cores shared by threads, of which those with the lowest rank come first.
pub(crate) struct Cores {
    pub(super) all: usize,
    state: Mutex<Shared>,
    changed: Condvar,
}

struct Shared {
    free: usize,
    waiting: Vec<Rank>,
}

/// A core taken. Dropped, it is free again.
pub(super) struct Core<'a>(&'a Cores);

impl Cores {
    pub(crate) fn new(all: usize) -> Cores {
        let state = Mutex::new(Shared { free: all, waiting: Vec::new() });
        Cores { all, state, changed: Condvar::new() }
    }

    /// Waits for a core that no thread of a lower rank waits for.
    pub(super) fn take(&self, rank: Rank) -> Core<'_> {
        let mut shared = self.lock();
        shared.waiting.push(rank);
        while shared.free == 0 || shared.waiting.iter().any(|other| *other < rank) {
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        shared.free -= 1;
        let at = shared.waiting.iter().position(|waits| *waits == rank);
        at.map(|at| shared.waiting.swap_remove(at));
        self.changed.notify_all();
        Core(self)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_rank_gets_the_next_core() {
        let cores = Cores::new(1);
        let got = Mutex::new(Vec::new());
        let ranks = [[1, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 1]];
        std::thread::scope(|scope| {
            let first = cores.take([9; 3]);
            for rank in ranks {
                let (cores, got) = (&cores, &got);
                scope.spawn(move || {
                    let _core = cores.take(rank);
                    got.lock().unwrap().push(rank);
                });
            }
            while cores.lock().waiting.len() < ranks.len() {
                std::thread::yield_now();
            }
            drop(first);
        });
        let mut sorted = ranks;
        sorted.sort_unstable();
        assert_eq!(got.into_inner().unwrap(), sorted);
    }
}
