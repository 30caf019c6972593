//! Published figures, held against what the models compute.
//!
//! A system (a NIC, its driver, a platform) states *constants*, each with its source, and *rows*,
//! each a figure that somebody published. This module measures every row and says which hold. It
//! knows no NIC: a system comes in through [`PublishedFigures`], and `doorbell reproduce` is [`reproduce`]
//! with a table around it.
//!
//! # What keeps a comparison honest
//!
//! A model with enough free constants reproduces anything. So:
//!
//! * A constant has a source, or it is fitted. A fitted constant names the **one** row that it was
//!   fitted on, and a row is consumed by at most one constant; [`FigureSet`] refuses anything else.
//! * A row that a fit consumed is reported as `fit`. It has no verdict: that the fit reproduces it
//!   says nothing.
//! * A [`Choice`] between models that was made by looking at rows is a degree of freedom as well.
//!   It names its alternatives and the rows. Every combination of all alternatives is tried, and
//!   [`Combinations`] says how many of them hold what the chosen one holds.
//! * [`DegreesOfFreedom`] counts predicted rows against fitted constants and choices, and counts apart the
//!   predicted rows that are only arithmetic on other rows, or were looked at for a choice.
//! * A row that cannot come out otherwise is a [`Role::Definition`]: it is printed and not judged.
//! * `swap` fits on the other state of the same experiment ("after" instead of "before") and
//!   predicts the first. A model that is right in one direction only has its answer in its
//!   constants.
//! * [`Sensitivity`] moves each constant and shows which rows follow. A row that moves with nothing
//!   is a constant in disguise, and is called so.
//! * A miss is a miss. A system may explain it ([`KnownMiss`]); the explanation is printed beside
//!   it, and the row still does not hold. An explanation whose row holds after all is reported as
//!   stale.
//!
//! # One run
//!
//! [`reproduce`] checks the sheet, applies `--swap` and `--set`, solves the fits ([`fit`] on top of
//! [`solve`]), measures every row at the constants found, judges, tries the combinations of
//! choices, and, if asked, moves each constant ([`sensitivity`]). The [`Report`] renders as JSON
//! ([`Report::to_json`]) and as text ([`Report::to_table`]). The same sheet gives the same bytes:
//! nothing here looks at a clock or iterates over a hash map (systems run in parallel and share
//! nothing), and measured values are rounded before they are judged or printed, so that the last
//! bits of a platform's `libm` do not show.
//!
//! Published rows are data, so they live in TOML beside the code; see [`published`].

mod bench;
mod choice;
mod combinations;
mod constant;
pub mod fit;
mod headline;
mod json;
mod platform;
pub mod published;
mod report;
mod reproduce;
mod row;
pub mod sensitivity;
mod sheet;
pub mod solve;
mod system;
mod table;
#[cfg(test)]
mod tests;

pub use bench::{Progress, Stage};
pub use choice::{Choice, NoAlternative};
pub use combinations::Combinations;
pub use constant::{
    Constant, Constants, Given, Perturbation, SetError, Setting, Source, UnknownConstant,
};
pub use fit::{Fit, FitError};
pub use headline::{Curve, Headline};
#[cfg(test)]
pub(crate) use platform::{apply, nudge};
pub use report::{DegreesOfFreedom, Outcome, Report, SystemReport, Verdict};
pub use reproduce::{Options, Refused, reproduce};
pub use row::{Citation, Derived, Published, Role, Row, Rule, Side, Tolerance};
pub use sensitivity::{MIN_EFFECT, Sensitivity};
pub use sheet::{FigureSet, FigureSetError};
pub(crate) use system::ProfileRuns;
pub use system::{KnownMiss, MeasureError, PublishedFigures, Runs};
