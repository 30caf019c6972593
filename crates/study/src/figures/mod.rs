//! Rows measured on machines, compared with the results of the models.
//!
//! A [`Row`] is a number of a [`Run`], and [`Models`] makes each run once. `file.rs` describes the
//! files of both. A system states [`Constant`]s, each with a source or a fit. Of its published
//! figures, [`reproduce`] checks the sheet, applies `--swap` and `--set`, solves the fits, measures
//! and judges every row, tries all [`Combinations`] of choices and, if asked, measures the
//! [`Sensitivity`]. The [`Report`] gives the same bytes each time. Rows of one's own are the matter
//! of [`fit`](crate::fit).
//!
//! [`FigureSet`] refuses sheets that flatter a model: a fit consumes one row, which then has no
//! verdict. [`DegreesOfFreedom`] counts fits and [`Choice`]s against predicted rows. A
//! [`KnownMiss`] explains a miss and stays one.

pub(crate) mod bench;
mod choice;
mod combinations;
mod constant;
pub(crate) mod cores;
pub(crate) mod file;
mod fit;
mod json;
mod models;
pub(crate) mod platform;
mod profile_figures;
mod published;
mod report;
mod reproduce;
mod row;
mod run;
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
pub use fit::{Fit, Unfitted};
pub use json::JsonRow;
pub use models::Models;
pub use profile_figures::{open, open_all};
pub(crate) use report::settle;
pub use report::{DegreesOfFreedom, Outcome, Report, SystemReport, Verdict};
pub use reproduce::{Done, Options, Refused, reproduce};
pub use row::{Derived, Number, Role, Row, Rule, Tolerance};
pub use run::Run;
pub(crate) use sensitivity::change;
pub use sensitivity::{MIN_EFFECT, Sensitivity};
pub(crate) use sheet::row_faults;
pub use sheet::{FigureSet, FigureSetError, KnownMiss, Measure};
