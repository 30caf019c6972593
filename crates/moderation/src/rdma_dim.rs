//! rdma_dim: Linux's moderation for the completion queues of kernel RDMA users.
//!
//! Source: Linux 6.17 `lib/dim/rdma_dim.c` (behaviour); table and start from
//! `drivers/infiniband/core/cq.c`.
//!
//! As in Linux, the first epoch after the start is "same", because there is no rate to compare
//! with. The event counter has 16 bits and its difference 32, so an epoch that spans the wrap ends
//! at the next call: it is short and its event rate too high, once in 65536 polls.

use crate::controller::{Controller, Flow, Period, Sample, Setting};
use crate::epoch::{EVENTS_PER_EPOCH, Edge, Rates, State, Tune, compare};
use core::cmp::Ordering;

/// Linux's rdma_dim, for one completion queue.
///
/// It has net_dim's epochs, but counts polls as events and compares completions, then completions
/// per event. It steps on when an epoch is better, turns and steps when it is worse, and turns at
/// the ends of the table. When an epoch is the same it stays, or returns to index 0 if there are at
/// most index/2 completions per event. It never parks.
///
/// It reads [`Sample::completions`] and the time alone. Call [`sample`](Controller::sample) once
/// for each poll, including those that found nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdmaDim {
    index: u8,
    state: State,
    tune: Tune,
    polls: u16,
    start: Edge,
    previous: Rates,
}

impl RdmaDim {
    /// Microseconds and completions, the least moderation first (`rdma_dim_prof`).
    pub const PROFILES: [Setting; 9] = {
        let rows = [(1, 1), (1, 4), (2, 4), (2, 8), (4, 8), (16, 8), (16, 16), (32, 16), (32, 32)];
        let mut out = [Setting::IMMEDIATE; 9];
        let mut i = 0;
        while i < 9 {
            out[i] = Setting::usecs(rows[i].0, rows[i].1, Period::Event);
            i += 1;
        }
        out
    };

    /// Starts from index 0, going right.
    pub const fn new() -> RdmaDim {
        RdmaDim {
            index: 0,
            state: State::StartMeasure,
            tune: Tune::GoingRight,
            polls: 0,
            start: Edge::ZERO,
            previous: Rates::ZERO,
        }
    }

    /// Returns the index of the profile, 0 to 8.
    pub const fn index(&self) -> u8 {
        self.index
    }
    /// Returns the state.
    pub const fn state(&self) -> State {
        self.state
    }
    /// Returns the direction, left or right.
    pub const fn tune(&self) -> Tune {
        self.tune
    }

    /// Decides after an epoch (`rdma_dim_decision`). Returns whether the profile changed.
    fn decide(&mut self, rates: Rates) -> bool {
        let was_at = self.index;
        match compare_epochs(&rates, &self.previous) {
            Ordering::Equal => {
                if rates.per_event <= 50 * i32::from(self.index) {
                    self.index = 0;
                }
            }
            Ordering::Less => {
                self.turn();
                self.step();
            }
            Ordering::Greater => self.step(),
        }
        self.previous = rates;
        self.index != was_at
    }

    fn turn(&mut self) {
        self.tune = if self.tune == Tune::GoingRight { Tune::GoingLeft } else { Tune::GoingRight };
    }

    /// Moves by one step; at the end of the table turns instead.
    fn step(&mut self) {
        match self.tune {
            Tune::GoingRight if usize::from(self.index) + 1 < Self::PROFILES.len() => {
                self.index += 1;
            }
            Tune::GoingLeft if self.index > 0 => self.index -= 1,
            _ => self.turn(),
        }
    }
}

impl Default for RdmaDim {
    fn default() -> RdmaDim {
        RdmaDim::new()
    }
}

impl Controller for RdmaDim {
    #[inline]
    fn sample(&mut self, sample: &Sample) -> Option<Setting> {
        // Polls are counted also while a profile is being applied.
        self.polls = self.polls.wrapping_add(1);
        if self.state == State::ApplyNewProfile {
            return None;
        }
        let now = Edge::new(sample, Flow::default(), self.polls);
        if self.state == State::MeasureInProgress {
            // At the wrap this is a very large number; see the opening.
            let events = u32::from(self.polls).wrapping_sub(u32::from(self.start.events));
            if events < u32::from(EVENTS_PER_EPOCH) {
                return None;
            }
            if self.decide(Rates::between(&self.start, &now)?) {
                self.state = State::ApplyNewProfile;
                return Some(self.setting());
            }
        }
        self.start = now;
        self.state = State::MeasureInProgress;
        None
    }

    fn applied(&mut self) {
        self.state = State::StartMeasure;
    }

    fn setting(&self) -> Setting {
        Self::PROFILES[usize::from(self.index)]
    }
}

/// Compares completions, then completions per event (`rdma_dim_stats_compare`). Greater is better.
fn compare_epochs(now: &Rates, before: &Rates) -> Ordering {
    if before.completions == 0 {
        return Ordering::Equal;
    }
    let completions = compare(now.completions, before.completions);
    completions.then_with(|| compare(now.per_event, before.per_event))
}
