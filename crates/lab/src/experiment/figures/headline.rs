//! A system's headline: the scenario that shows its switch best, and what else is worth a picture.
//!
//! The published rows say whether the models are right; the headline says what the switch does to a
//! packet. It names scenarios and settings only, so whoever shows it runs the same as `doorbell
//! run`, `compare` and `sweep` would.

/// What shows a system's switch.
///
/// ```
/// use doorbell_lab::figures::Headline;
///
/// let h = Headline::of("mlx5-pktgen-64", "driver.mpwqe=off", "driver.mpwqe=on");
/// assert_eq!(h.sides(), ["driver.mpwqe=off", "driver.mpwqe=on"]);
/// assert!(h.curve.is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Headline {
    /// The scenario whose bill is shown.
    pub scenario: &'static str,
    /// The setting before.
    pub off: &'static str,
    /// The setting after.
    pub on: &'static str,
    /// Where the switch begins to pay.
    pub curve: Option<Curve>,
    /// A scenario whose series over time is worth seeing.
    pub moving: Option<&'static str>,
    /// A scenario whose latencies are.
    pub waiting: Option<&'static str>,
}

/// A number of both sides over a key's values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// What is shown, for people: `bytes toward the device a packet`.
    pub title: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// The key that changes.
    pub key: &'static str,
    /// Its values: numbers in the key's unit.
    pub values: &'static [f64],
    /// The number that is shown, or a sum of such, as `doorbell sweep --show` takes it.
    pub show: &'static str,
}

impl Headline {
    /// A scenario, with one setting before and one after.
    pub const fn of(scenario: &'static str, off: &'static str, on: &'static str) -> Headline {
        Headline { scenario, off, on, curve: None, moving: None, waiting: None }
    }

    /// With a curve.
    pub const fn over(self, curve: Curve) -> Headline {
        Headline { curve: Some(curve), ..self }
    }

    /// With the series of this scenario.
    pub const fn moving(self, scenario: &'static str) -> Headline {
        Headline { moving: Some(scenario), ..self }
    }

    /// With the latencies of this scenario.
    pub const fn waiting(self, scenario: &'static str) -> Headline {
        Headline { waiting: Some(scenario), ..self }
    }

    /// Before and after.
    pub const fn sides(&self) -> [&'static str; 2] {
        [self.off, self.on]
    }
}
