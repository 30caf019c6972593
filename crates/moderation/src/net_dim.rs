//! net_dim: Linux's Dynamic Interrupt Moderation for network queues.
//!
//! Source: Linux 6.17 `lib/dim/net_dim.c`, `lib/dim/dim.c`, `include/linux/dim.h` (behaviour); the
//! decisions are checked against sequences that Linux's own code produced (`tests/vectors`).
//!
//! States: StartMeasure -> MeasureInProgress -> (64 events, same profile) MeasureInProgress, or (a
//! new profile) ApplyNewProfile -> (`applied`) StartMeasure. Linux reads the clock again when an
//! epoch opens; here an epoch opens at the time of the sample.

use crate::controller::{Controller, Direction, Sample, Setting};
use crate::epoch::{EVENTS_PER_EPOCH, Edge, Rates, State, Tune, compare};
use crate::profiles::{DEFAULT_INDEX, Profiles};
use core::cmp::Ordering;

/// Last index of a table.
const LAST: u8 = crate::profiles::COUNT as u8 - 1;
/// Steps after which it is tired (`NET_DIM_PARAMS_NUM_PROFILES * 2`).
const TIRED: u8 = 2 * crate::profiles::COUNT as u8;

/// Linux's net_dim, for one direction of one queue.
///
/// It steps along the table in one direction while epochs get better, turns when one does not, and
/// parks on top: where one step back after several was better again, or at an end of the table. On
/// top it stays while the rates are the same. After ten steps without a rest it parks for ten
/// epochs. Better means more bytes, else more packets, else fewer interrupts, each by more than ten
/// percent.
///
/// As in Linux, "same" turns as "worse" does. While parked on top, epochs are compared with the one
/// that it parked with, so slow drift adds up; otherwise with the one before, so drift below 11
/// percent an epoch is never seen. Counts while a profile is applied belong to no epoch. An epoch
/// of less than a microsecond stays open until the next sample.
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
    /// Climbs `profiles` by the traffic of `direction`, from index 1 as Linux's drivers do.
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

    /// Starts from profile `index`, at most the last one.
    #[must_use]
    pub const fn starting_at(mut self, index: u8) -> NetDim {
        self.index = if index < LAST { index } else { LAST };
        self
    }

    /// Returns the index of the profile, 0 (least moderation) to 4.
    pub const fn index(&self) -> u8 {
        self.index
    }
    /// Returns the state.
    pub const fn state(&self) -> State {
        self.state
    }
    /// Returns the direction of the climb.
    pub const fn tune(&self) -> Tune {
        self.tune
    }
    /// Returns the steps since the last rest on top; while parked tired, the epochs left to wait.
    pub const fn tired(&self) -> u8 {
        self.tired
    }
    /// Returns the steps to the left since the last turn left or parking.
    pub const fn steps_left(&self) -> u8 {
        self.steps_left
    }
    /// Returns the steps to the right since the last turn right or parking.
    pub const fn steps_right(&self) -> u8 {
        self.steps_right
    }
    /// Returns the start of the open epoch, if there is one.
    pub const fn epoch_since_ns(&self) -> Option<u64> {
        match self.state {
            State::MeasureInProgress => Some(self.start.time_ns),
            State::StartMeasure | State::ApplyNewProfile => None,
        }
    }

    /// Drops the open epoch; the next sample opens a new one. Linux's ice does this for an idle
    /// queue, when [`epoch_since_ns`](Self::epoch_since_ns) is a second old. A profile that is
    /// being applied is still waited for.
    pub const fn restart(&mut self) {
        if let State::MeasureInProgress = self.state {
            self.state = State::StartMeasure;
        }
    }

    /// Replaces the table, as after a change of the link's speed or MTU. Returns the setting that
    /// the device should have now. The climb continues.
    pub const fn set_profiles(&mut self, profiles: Profiles) -> Setting {
        self.profiles = profiles;
        self.profiles[self.index as usize]
    }

    /// Decides after an epoch (`net_dim_decision`). Returns whether the profile changed.
    fn decide(&mut self, rates: Rates) -> bool {
        let (was, was_at) = (self.tune, self.index);
        match self.tune {
            Tune::ParkingOnTop => {
                if compare_epochs(&rates, &self.previous).is_ne() {
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
                if compare_epochs(&rates, &self.previous).is_le() {
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

    /// Returns whether it came back by one step after more than one the other way.
    fn on_top(&self) -> bool {
        match self.tune {
            Tune::GoingRight => self.steps_left > 1 && self.steps_right == 1,
            _ => self.steps_right > 1 && self.steps_left == 1,
        }
    }

    /// Moves by one step, or parks where it cannot.
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
        if self.state == State::MeasureInProgress && self.decide(Rates::between(&self.start, &now)?)
        {
            self.state = State::ApplyNewProfile;
            return Some(self.setting());
        }
        self.start = now;
        self.state = State::MeasureInProgress;
        None
    }

    /// Opens the next epoch at the next sample, as Linux's worker does at its end.
    fn applied(&mut self) {
        self.state = State::StartMeasure;
    }

    fn setting(&self) -> Setting {
        self.profiles[usize::from(self.index)]
    }
}

/// Compares bytes, then packets, then interrupts (`net_dim_stats_compare`). Greater is better.
fn compare_epochs(now: &Rates, before: &Rates) -> Ordering {
    let some = |n: i32| if n == 0 { Ordering::Equal } else { Ordering::Greater };
    if before.bytes == 0 {
        return some(now.bytes);
    }
    let bytes = compare(now.bytes, before.bytes);
    if bytes.is_eq() && before.packets == 0 {
        return some(now.packets);
    }
    let packets = || compare(now.packets, before.packets);
    bytes.then_with(packets).then_with(|| compare(now.events, before.events).reverse())
}
