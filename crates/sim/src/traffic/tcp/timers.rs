//! The deadlines of many connections, ordered by (time, connection).

use doorbell_hal::Time;
use std::collections::BTreeSet;

/// At most one deadline for each connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    at: Vec<Time>,
    order: BTreeSet<(Time, usize)>,
    /// The first of them.
    first: Option<(Time, usize)>,
}

impl Timers {
    pub(super) fn set(&mut self, i: usize, at: Option<Time>) {
        if self.at.len() <= i {
            self.at.resize(i + 1, Time::NEVER);
        }
        let at = at.unwrap_or(Time::NEVER);
        if self.at[i] != at {
            self.order.remove(&(self.at[i], i));
            self.at[i] = at;
            if at < Time::NEVER {
                self.order.insert((at, i));
            }
            self.first = self.order.first().copied();
        }
    }

    pub(super) fn next(&self) -> Time {
        self.first.map_or(Time::NEVER, |t| t.0)
    }

    /// Removes and returns the first connection that is due at `now`.
    pub(super) fn due(&mut self, now: Time) -> Option<usize> {
        let (_, i) = self.first.filter(|t| t.0 <= now)?;
        self.set(i, None);
        Some(i)
    }
}
