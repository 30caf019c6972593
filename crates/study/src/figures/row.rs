//! A row: a number measured on a machine, and the claim that a run makes about it.

use doorbell_spec::Sum;
use std::fmt;

/// The claim of a run about a row.
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
    /// Must equal the value, or lie within its tolerance if that was itself counted on a noisy
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
    pub(crate) const fn judged(self) -> bool {
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
    /// Returns whether `computed` is close enough to a `value`.
    pub(crate) fn admits(self, value: f64, computed: f64) -> bool {
        let allowed = match self {
            Tolerance::Rel(share) => share * value.abs(),
            Tolerance::Abs(by) => by,
        };
        // The edge belongs to the tolerance, also when 0.1 + 0.2 is not 0.3.
        (computed - value).abs() <= allowed + 1e-12 * value.abs()
    }

    /// Returns it in another unit.
    pub(crate) fn times(self, size: f64) -> Tolerance {
        match self {
            Tolerance::Rel(share) => Tolerance::Rel(share),
            Tolerance::Abs(by) => Tolerance::Abs(by * size),
        }
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

/// A row that is arithmetic on what is computed for other rows.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derived {
    /// The arithmetic.
    pub rule: Rule,
    /// The two rows.
    pub from: [String; 2],
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.from;
        write!(f, "{a} {} {b}", self.rule.sign())
    }
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
    pub(crate) fn apply(self, first: f64, second: f64) -> f64 {
        match self {
            Rule::Difference => first - second,
            Rule::Ratio => first / second,
            Rule::Sum => first + second,
        }
    }

    /// Returns the sign between the two.
    pub(crate) const fn sign(self) -> char {
        match self {
            Rule::Difference => '−',
            Rule::Ratio => '/',
            Rule::Sum => '+',
        }
    }
}

/// A number of a run, or a quotient of two.
#[derive(Clone, PartialEq, Debug)]
pub struct Number {
    /// The index of the run.
    pub run: usize,
    /// The number, as `doorbell list --metrics` names it, or a sum.
    pub metric: Sum,
    /// A number or a sum of the same run to divide by. Nothing of nothing is 0.
    pub per: Option<Sum>,
    /// The factor from the metric's unit to the row's.
    pub factor: f64,
}

impl Number {
    /// Returns its names for people.
    pub(crate) fn name(&self) -> String {
        let per = self.per.as_ref().map_or(String::new(), |per| format!(" per {}", per.name));
        format!("{}{per}", self.metric.name)
    }
}

/// A number that was measured on a machine, and the claim of a run about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// A stable name; of a published figure it is dotted and begins with its system's:
    /// `mlx5.rate_gen2_off`.
    pub figure: String,
    /// File and line, if it is of a file.
    pub place: String,
    /// The value, in the unit.
    pub value: f64,
    /// Unit of the value and of what is computed for it.
    pub unit: String,
    /// One standard deviation of the value, or the spread that the source gives (17.01 ±0.20).
    pub spread: Option<f64>,
    /// The claim of a run.
    pub role: Role,
    /// The tolerance. Published rows that are predicted have one. Exact rows, definitions, and
    /// rows of one's own that are predicted may have one, the others have none.
    pub tolerance: Option<Tolerance>,
    /// The origin: of a published row, the document, so that it can be found.
    pub source: String,
    /// The passage in it, quoted or pointed at.
    pub passage: String,
    /// A note for the reader.
    pub note: String,
    /// The row of the same experiment in the other state (off and on). `--swap` exchanges their
    /// roles.
    pub swap: Option<String>,
    /// The number of a run that it is. Without one, code computes it, or it is derived.
    pub number: Option<Number>,
    /// Set for a row that is computed from other rows.
    pub derived: Option<Derived>,
    /// Keys of the constants that it depends on directly; `None` if undeclared. A sensitivity run
    /// finds them, and says where the two disagree.
    pub inputs: Option<Vec<String>>,
    /// Depends on nothing but its inputs, however far they move. Its run gets no other constant.
    pub alone: bool,
}

impl Row {
    /// Makes a row without tolerance, source or note.
    pub fn new(figure: &str, value: f64, unit: &str, role: Role) -> Row {
        Row {
            figure: figure.into(),
            place: String::new(),
            value,
            unit: unit.into(),
            spread: None,
            role,
            tolerance: None,
            source: String::new(),
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
    pub(crate) fn published_in(&self) -> String {
        let parts = [self.source.as_str(), &self.passage];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }

    /// Describes what it is compared with: a number of a run, arithmetic on rows, or its own name.
    pub fn computed_from(&self) -> String {
        match (&self.number, &self.derived) {
            (Some(number), _) => number.name(),
            (None, Some(derived)) => derived.to_string(),
            (None, None) => self.figure.clone(),
        }
    }

    /// Returns the metric of a row that is in its metric's unit.
    pub fn metric(&self) -> Option<&Sum> {
        let plain = |n: &&Number| n.per.is_none() && n.factor == 1.0;
        let metric = self.number.as_ref().filter(plain).map(|n| &n.metric);
        metric.filter(|metric| metric.unit().name() == self.unit)
    }

    /// Describes its tolerance, or the bound of what is `computed`, for people.
    pub fn allowed(&self, computed: &str) -> String {
        match (self.tolerance, self.role) {
            (Some(tolerance), _) => tolerance.to_string(),
            (None, Role::Exact) => "none".to_owned(),
            (None, Role::AtOrBelow) => format!("≤ {computed}"),
            (None, Role::AtOrAbove) => format!("≥ {computed}"),
            (None, _) => String::new(),
        }
    }

    /// Returns it with this tolerance.
    pub fn within(mut self, tolerance: Tolerance) -> Row {
        self.tolerance = Some(tolerance);
        self
    }

    /// Returns whether `computed` satisfies the row's claim; `None` without a claim.
    pub(crate) fn judge(&self, computed: f64) -> Option<bool> {
        match self.role {
            Role::Definition | Role::Fit | Role::Shown => None,
            // Equal within the rounding of a count that was divided and multiplied again.
            Role::Exact => {
                Some(self.tolerance.unwrap_or(Tolerance::Rel(1e-9)).admits(self.value, computed))
            }
            Role::Predicted => Some(self.tolerance.is_some_and(|t| t.admits(self.value, computed))),
            Role::AtOrBelow => Some(self.value <= computed),
            Role::AtOrAbove => Some(self.value >= computed),
        }
    }

    /// Returns whether its spread tells how close it has to be: it is fitted, or predicted without
    /// a tolerance.
    pub(crate) fn is_within_its_spread(&self) -> bool {
        matches!((self.role, self.tolerance), (Role::Fit, _) | (Role::Predicted, None))
    }

    /// Returns whether a definition was not met. One without a tolerance always is met.
    pub(crate) fn departs(&self, computed: f64) -> bool {
        let compared = self.tolerance.filter(|_| self.role == Role::Definition);
        compared.is_some_and(|t| !t.admits(self.value, computed))
    }

    /// Returns the reference of residuals and relative changes: the value, or 1 if that is 0.
    pub(crate) fn scale(&self) -> f64 {
        if self.value == 0.0 { 1.0 } else { self.value.abs() }
    }
}
