//! A system's headline: the scenario and settings that show the effect of its switch.
//!
//! `doorbell run`, `compare` and `sweep` give the same results for them.

/// The scenarios and settings that show a system's switch.
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
    /// The curve that shows where the switch begins to pay.
    pub curve: Option<Curve>,
    /// A scenario with series over time to show.
    pub moving: Option<&'static str>,
    /// A scenario with latencies to show.
    pub waiting: Option<&'static str>,
}

/// A number of both sides over the values of a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// The heading that people read: `bytes toward the device a packet`.
    pub title: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// The key that changes.
    pub key: &'static str,
    /// Its values: numbers in the key's unit.
    pub values: &'static [f64],
    /// The number shown, or a sum, as `doorbell sweep --show` takes it.
    pub show: &'static str,
}

impl Headline {
    /// Makes the headline of a scenario, with one setting before and one after.
    pub const fn of(scenario: &'static str, off: &'static str, on: &'static str) -> Headline {
        Headline { scenario, off, on, curve: None, moving: None, waiting: None }
    }

    /// Returns it with a curve.
    pub const fn over(self, curve: Curve) -> Headline {
        Headline { curve: Some(curve), ..self }
    }

    /// Returns it with the series of this scenario.
    pub const fn moving(self, scenario: &'static str) -> Headline {
        Headline { moving: Some(scenario), ..self }
    }

    /// Returns it with the latencies of this scenario.
    pub const fn waiting(self, scenario: &'static str) -> Headline {
        Headline { waiting: Some(scenario), ..self }
    }

    /// Returns the settings before and after.
    pub const fn sides(&self) -> [&'static str; 2] {
        [self.off, self.on]
    }
}
