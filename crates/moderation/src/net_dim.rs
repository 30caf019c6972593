//! net_dim: Linux's Dynamic Interrupt Moderation for network queues.
//!
//! Source of the behaviour: Linux 6.17 `lib/dim/net_dim.c`, `lib/dim/dim.c`,
//! `include/linux/dim.h`. This is a second implementation of the same decisions,
//! checked against sequences that Linux's own code produced (`tests/vectors`).
//!
//! ```text
//!                  64 events: same profile            a new profile
//! StartMeasure -> MeasureInProgress (again)   -> ApplyNewProfile -> applied() -> StartMeasure
//! ```
//!
//! net_dim climbs a hill. It steps along the table in one direction while epochs get
//! better, turns when one does not, and parks on the top: where one step back after
//! several too many was better again, or at an end of the table.
//!
//! | at the end of an epoch | what it does |
//! |---|---|
//! | parking on top | nothing while the rates are the same; else leaves: left, or right from index 0 |
//! | parking tired | waits ten epochs, then leaves |
//! | going | not better: turn. Now on top: park. Else step; at the table's end park on top, after ten steps park tired |
//!
//! Better means more bytes; failing that, more packets; failing that, fewer
//! interrupts, each only if significant (more than ten percent of the rate before).
//!
//! What a reader of the code above is surprised by, and what is kept:
//! - "Same" turns as "worse" does: only "better" goes on.
//! - While it stays parked on top the rates that it parked with remain the measure, so slow drift
//!   adds up against them. In all other states an epoch is compared with the one before, and drift
//!   below 11 percent an epoch is never seen.
//! - Parking tired does not rest the counter; ten epochs of waiting count it down.
//! - An epoch of less than a microsecond is left open: there is no decision, and it ends at the
//!   next sample (older kernels decided on stale numbers).
//! - The counters of the time in which a profile was applied count nowhere, for the next epoch
//!   starts at the first sample after it.
//!
//! One thing differs by design: Linux reads the clock again when an epoch opens,
//! some ten nanoseconds after the sample was taken; here it opens at the sample's time.

use crate::controller::{Controller, Direction, Sample, Setting};
use crate::epoch::{EVENTS_PER_EPOCH, Edge, Rates, State, Tune, Verdict, higher_is_better};
use crate::profiles::{DEFAULT_INDEX, Profiles};

/// The last index of a table.
const LAST: u8 = crate::profiles::COUNT as u8 - 1;
/// Steps after which it is tired (`NET_DIM_PARAMS_NUM_PROFILES * 2`).
const TIRED: u8 = 2 * crate::profiles::COUNT as u8;

/// Linux's net_dim, for one direction of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetDim {
    profiles: Profiles,
    direction: Direction,
    index: u8,
    state: State,
    tune: Tune,
    steps_left: u8,
    steps_right: u8,
    tired: u8,
    start: Edge,
    previous: Rates,
}

impl NetDim {
    /// Climbs `profiles` by what `direction` carries, from index 1 as Linux's
    /// drivers do.
    pub const fn new(profiles: Profiles, direction: Direction) -> NetDim {
        NetDim {
            profiles,
            direction,
            index: DEFAULT_INDEX,
            state: State::StartMeasure,
            tune: Tune::ParkingOnTop,
            steps_left: 0,
            steps_right: 0,
            tired: 0,
            start: Edge::ZERO,
            previous: Rates::ZERO,
        }
    }

    /// Starts from profile `index` instead; from the last one if there is none such.
    #[must_use]
    pub const fn starting_at(mut self, index: u8) -> NetDim {
        self.index = if index < LAST { index } else { LAST };
        self
    }

    /// The profile it is at, 0 (least moderation) to 4.
    pub const fn index(&self) -> u8 {
        self.index
    }
    /// Whether it measures, or waits for a profile to be applied.
    pub const fn state(&self) -> State {
        self.state
    }
    /// Where it is heading.
    pub const fn tune(&self) -> Tune {
        self.tune
    }
    /// Steps since it last rested on top; while parked tired, epochs still to wait.
    pub const fn tired(&self) -> u8 {
        self.tired
    }
    /// Steps to the left since it last turned left or parked.
    pub const fn steps_left(&self) -> u8 {
        self.steps_left
    }
    /// Steps to the right since it last turned right or parked.
    pub const fn steps_right(&self) -> u8 {
        self.steps_right
    }
    /// When the open epoch began, by the sample's clock, if one is open.
    pub const fn epoch_since_ns(&self) -> Option<u64> {
        match self.state {
            State::MeasureInProgress => Some(self.start.time_ns),
            State::StartMeasure | State::ApplyNewProfile => None,
        }
    }

    /// Drops the open epoch; the next sample opens a new one. Linux's ice does this
    /// when [`epoch_since_ns`](Self::epoch_since_ns) is a second old: the queue was
    /// idle, and its epoch would speak of another time. A profile that is being
    /// applied is still waited for.
    pub const fn restart(&mut self) {
        if let State::MeasureInProgress = self.state {
            self.state = State::StartMeasure;
        }
    }

    /// Puts another table in place, as when the link's speed or MTU changed, and
    /// returns what the device should be set to now. The climb goes on.
    pub const fn set_profiles(&mut self, profiles: Profiles) -> Setting {
        self.profiles = profiles;
        self.profiles[self.index as usize]
    }

    /// What one epoch leads to; whether the profile changed (`net_dim_decision`).
    fn decide(&mut self, rates: Rates) -> bool {
        let (was, was_at) = (self.tune, self.index);
        match self.tune {
            Tune::ParkingOnTop => {
                if compare(&rates, &self.previous) != Verdict::Same {
                    self.leave_parking();
                }
            }
            Tune::ParkingTired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            Tune::GoingRight | Tune::GoingLeft => {
                if compare(&rates, &self.previous) != Verdict::Better {
                    self.turn();
                }
                if self.on_top() {
                    self.park_on_top();
                } else {
                    self.step();
                }
            }
        }
        if was != Tune::ParkingOnTop || self.tune != Tune::ParkingOnTop {
            self.previous = rates;
        }
        self.index != was_at
    }

    fn leave_parking(&mut self) {
        self.tune = if self.index == 0 { Tune::GoingRight } else { Tune::GoingLeft };
        self.step();
    }

    fn turn(&mut self) {
        match self.tune {
            Tune::GoingRight => {
                self.tune = Tune::GoingLeft;
                self.steps_left = 0;
            }
            _ => {
                self.tune = Tune::GoingRight;
                self.steps_right = 0;
            }
        }
    }

    /// It came back by one step after more than one the other way.
    fn on_top(&self) -> bool {
        match self.tune {
            Tune::GoingRight => self.steps_left > 1 && self.steps_right == 1,
            _ => self.steps_right > 1 && self.steps_left == 1,
        }
    }

    /// Moves by one, or parks where it cannot.
    fn step(&mut self) {
        if self.tired == TIRED {
            (self.steps_left, self.steps_right) = (0, 0);
            self.tune = Tune::ParkingTired;
            return;
        }
        match self.tune {
            Tune::GoingRight if self.index < LAST => {
                self.index += 1;
                self.steps_right += 1;
            }
            Tune::GoingLeft if self.index > 0 => {
                self.index -= 1;
                self.steps_left += 1;
            }
            _ => return self.park_on_top(),
        }
        self.tired += 1;
    }

    fn park_on_top(&mut self) {
        (self.steps_left, self.steps_right, self.tired) = (0, 0, 0);
        self.tune = Tune::ParkingOnTop;
    }
}

impl Controller for NetDim {
    #[inline]
    fn sample(&mut self, sample: &Sample) -> Option<Setting> {
        if self.state == State::ApplyNewProfile {
            return None;
        }
        let events = sample.events as u16;
        if self.state == State::MeasureInProgress
            && events.wrapping_sub(self.start.events) < EVENTS_PER_EPOCH
        {
            return None;
        }
        let now = Edge::new(sample, sample.flow(self.direction), events);
        if self.state == State::MeasureInProgress {
            let rates = Rates::between(&self.start, &now)?;
            if self.decide(rates) {
                self.state = State::ApplyNewProfile;
                return Some(self.setting());
            }
        }
        self.start = now;
        self.state = State::MeasureInProgress;
        None
    }

    /// The worker's last act in Linux, `state = DIM_START_MEASURE`.
    fn applied(&mut self) {
        self.state = State::StartMeasure;
    }

    fn setting(&self) -> Setting {
        self.profiles[usize::from(self.index)]
    }
}

/// Bytes, then packets, then interrupts (`net_dim_stats_compare`).
fn compare(now: &Rates, before: &Rates) -> Verdict {
    let some = |n: i32| if n == 0 { Verdict::Same } else { Verdict::Better };
    if before.bytes == 0 {
        return some(now.bytes);
    }
    match higher_is_better(now.bytes, before.bytes) {
        Verdict::Same => {}
        verdict => return verdict,
    }
    if before.packets == 0 {
        return some(now.packets);
    }
    match higher_is_better(now.packets, before.packets) {
        Verdict::Same => {}
        verdict => return verdict,
    }
    match higher_is_better(now.events, before.events) {
        Verdict::Same => Verdict::Same,
        Verdict::Better => Verdict::Worse,
        Verdict::Worse => Verdict::Better,
    }
}
