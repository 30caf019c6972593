//! Published figures, compared with the results of the models.
//!
//! A system states [`Constant`]s, each with a source or a fit, and [`Row`]s, each a published
//! figure (data in TOML, see `published.rs`). [`reproduce`] checks the sheet, applies `--swap` and
//! `--set`, solves the fits, measures and judges every row, tries all [`Combinations`] of choices
//! and, if asked, measures the [`Sensitivity`]. The [`Report`] gives the same bytes each time.
//!
//! [`FigureSet`] refuses sheets that flatter a model: a fit consumes one row, which then has no
//! verdict. [`DegreesOfFreedom`] counts fits and [`Choice`]s against predicted rows. A
//! [`KnownMiss`] explains a miss and stays one.

mod bench;
mod choice;
mod combinations;
mod constant;
mod cores;
mod fit;
mod json;
pub(crate) mod platform;
mod profile_figures;
mod published;
mod report;
mod reproduce;
mod row;
mod sensitivity;
mod sheet;
mod table;
#[cfg(test)]
mod tests;

pub use bench::{Progress, Stage};
pub use choice::Choice;
pub use combinations::Combinations;
pub use constant::{
    Constant, Constants, Given, Perturbation, SetError, Setting, Source, UnknownConstant,
};
pub use doorbell_systems::published::MeasureError;
pub use fit::{Fit, FitError};
pub use json::JsonRow;
pub use profile_figures::{open, open_all};
pub use report::{DegreesOfFreedom, Outcome, Report, SystemReport, Verdict};
pub use reproduce::{Done, Options, Refused, reproduce};
pub use row::{Derived, Role, Row, Rule, RunNumber, Tolerance};
pub use sensitivity::{MIN_EFFECT, Sensitivity};
pub use sheet::{FigureSet, FigureSetError, KnownMiss, Measure};
