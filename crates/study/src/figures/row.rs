//! A row: one published figure, and the claim that a run makes about it.

use std::fmt;

/// The claim of a run about a figure.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RowRole")]
pub enum Role {
    /// Must equal the figure, or lie within its tolerance if that was itself counted on a noisy
    /// machine.
    Exact,
    /// Computed from constants that other rows or data sheets fixed; a tolerance on the figure.
    #[serde(alias = "check")]
    Predicted,
    /// The published figure must lie at or below the computed value: a rate under a line rate.
    AtOrBelow,
    /// The published figure must lie at or above the computed value: a cost above a floor.
    AtOrAbove,
    /// Cannot differ: it restates a switch, another row, or an input. It is not judged, but a
    /// deviation is a fault of the model.
    Definition,
    /// Calibrates constants. Never a success.
    #[default]
    Fit,
    /// Printed for comparison, without a claim.
    Shown,
}

impl Role {
    /// Returns the name in tables, JSON and TOML.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Exact => "exact",
            Role::Predicted => "predicted",
            Role::AtOrBelow | Role::AtOrAbove => "bound",
            Role::Definition => "definition",
            Role::Fit => "fit",
            Role::Shown => "shown",
        }
    }

    /// Returns whether rows of this role hold or miss. Definitions, fitted and shown rows do
    /// neither.
    pub const fn judged(self) -> bool {
        !matches!(self, Role::Definition | Role::Fit | Role::Shown)
    }
}

/// The allowed distance of a measured value from the published one.
#[derive(
    Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Tolerance {
    /// A share of the published value: 0.05 is 5 %.
    Rel(f64),
    /// An amount in the row's unit.
    Abs(f64),
}

impl Tolerance {
    /// Returns whether `measured` is close enough to `published`.
    pub(crate) fn admits(self, published: f64, measured: f64) -> bool {
        let allowed = match self {
            Tolerance::Rel(share) => share * published.abs(),
            Tolerance::Abs(by) => by,
        };
        // The edge belongs to the tolerance, also when 0.1 + 0.2 is not 0.3.
        (measured - published).abs() <= allowed + 1e-12 * published.abs()
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // 0.07 * 100 is 7.000000000000001.
            Tolerance::Rel(share) => write!(f, "±{} %", (share * 1e8).round() / 1e6),
            Tolerance::Abs(by) => write!(f, "±{by}"),
        }
    }
}

/// A row that is arithmetic on other rows' measured values.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// The arithmetic.
    pub rule: Rule,
    /// The two rows.
    pub from: [String; 2],
}

/// The arithmetic of a derived row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The first minus the second.
    Difference,
    /// The first over the second.
    Ratio,
    /// Both together.
    Sum,
}

impl Rule {
    /// Applies the rule.
    pub fn apply(self, first: f64, second: f64) -> f64 {
        match self {
            Rule::Difference => first - second,
            Rule::Ratio => first / second,
            Rule::Sum => first + second,
        }
    }

    /// Returns the sign between the two.
    pub const fn sign(self) -> char {
        match self {
            Rule::Difference => '−',
            Rule::Ratio => '/',
            Rule::Sum => '+',
        }
    }
}

/// A number of a run, or a quotient of two.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunNumber {
    /// The name of the run.
    pub run: String,
    /// The number, as `doorbell list --metrics` names it, or a sum with `+`.
    pub metric: String,
    /// A number or a sum of the same run to divide by. Nothing of nothing is 0.
    pub per: Option<String>,
    /// The factor from the metric's unit to the row's. Units that `--set` knows need none.
    pub factor: Option<f64>,
}

/// One published figure. The figure's name starts with its system's: `mlx5.rate_gen2_off`.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Stable dotted name.
    pub figure: String,
    /// Unit of the published and the measured value.
    pub unit: String,
    /// The published value.
    pub published: f64,
    /// Its spread, where the source gives one (17.01 ±0.20).
    pub spread: Option<f64>,
    /// The claim of a run.
    pub role: Role,
    /// The tolerance. Predicted rows have one, exact rows and definitions may have one, the others
    /// have none.
    pub tolerance: Option<Tolerance>,
    /// The document that it is published in, so that it can be found; in a file its short name.
    pub document: String,
    /// The passage in it, quoted or pointed at.
    pub passage: String,
    /// A note for the reader.
    #[serde(default)]
    pub note: String,
    /// The row of the same experiment in the other state (off and on). `--swap` exchanges their
    /// roles.
    pub swap: Option<String>,
    /// The number of a run that measures it. Without one, code does, or it is derived.
    pub number: Option<RunNumber>,
    /// Set for a row that is computed from other rows instead of being measured.
    pub derived: Option<Derived>,
    /// Keys of the constants that it depends on directly; `None` if undeclared. A sensitivity run
    /// finds them, and says where the two disagree.
    pub inputs: Option<Vec<String>>,
    /// Depends on nothing but its inputs, however far they move. Its run gets no other constant.
    #[serde(default)]
    pub alone: bool,
}

impl Row {
    /// Makes a row without tolerance, source or note.
    pub fn new(figure: &str, published: f64, unit: &str, role: Role) -> Row {
        Row {
            figure: figure.into(),
            unit: unit.into(),
            published,
            spread: None,
            role,
            tolerance: None,
            document: String::new(),
            passage: String::new(),
            note: String::new(),
            swap: None,
            number: None,
            derived: None,
            inputs: None,
            alone: false,
        }
    }

    /// Returns the place of publication.
    pub fn place(&self) -> String {
        let parts = [self.document.as_str(), &self.passage];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }

    /// Returns it with this tolerance.
    pub fn within(mut self, tolerance: Tolerance) -> Row {
        self.tolerance = Some(tolerance);
        self
    }

    /// Returns whether `measured` satisfies the row's claim; `None` without a claim.
    pub fn judge(&self, measured: f64) -> Option<bool> {
        let published = self.published;
        match self.role {
            Role::Definition | Role::Fit | Role::Shown => None,
            // Equal within the rounding of a count that was divided and multiplied again.
            Role::Exact => {
                Some(self.tolerance.unwrap_or(Tolerance::Rel(1e-9)).admits(published, measured))
            }
            Role::Predicted => Some(self.tolerance.is_some_and(|t| t.admits(published, measured))),
            Role::AtOrBelow => Some(published <= measured),
            Role::AtOrAbove => Some(published >= measured),
        }
    }

    /// Returns whether a definition was not met. One without a tolerance always is met.
    pub(crate) fn departs(&self, measured: f64) -> bool {
        let compared = self.tolerance.filter(|_| self.role == Role::Definition);
        compared.is_some_and(|t| !t.admits(self.published, measured))
    }

    /// Returns the reference of residuals and relative changes: the published value, or 1 if that
    /// is 0.
    pub fn scale(&self) -> f64 {
        if self.published == 0.0 { 1.0 } else { self.published.abs() }
    }
}
