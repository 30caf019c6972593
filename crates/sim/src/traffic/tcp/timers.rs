//! The deadlines of many connections, ordered by (time, connection).

use doorbell_hal::Time;
use std::collections::BTreeSet;

/// At most one deadline for each connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    at: Vec<Time>,
    order: BTreeSet<(Time, usize)>,
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
        }
    }

    pub(super) fn next(&self) -> Time {
        self.order.first().map_or(Time::NEVER, |t| t.0)
    }

    /// Removes and returns the first connection that is due at `now`.
    pub(super) fn due(&mut self, now: Time) -> Option<usize> {
        let &(at, i) = self.order.first().filter(|t| t.0 <= now)?;
        self.order.remove(&(at, i));
        self.at[i] = Time::NEVER;
        Some(i)
    }
}
