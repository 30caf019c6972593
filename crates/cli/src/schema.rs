//! `doorbell schema`: JSON Schemas of the files that people write, and of results.

use crate::advise::Advised;
use crate::args::FileKind;
use crate::check::{self, Checked};
use crate::compare::Comparison;
use crate::fit::Fitted;
use crate::guest::GuestResult;
use crate::list::All;
use crate::reproduce::Reproduction;
use crate::transfer::Transferred;
use doorbell_console::schema::{KindOf, of_results};
use doorbell_console::{DONE, Error, output::print};
use doorbell_live::LiveResult;
use doorbell_serve::{Devices, Served};
use doorbell_study::rank::Ranked;
use doorbell_study::schema as schemas;
use doorbell_study::sweep::Swept;
use doorbell_systems::Registry;
use doorbell_systems::result::RunResult;

/// The kinds of results, and the data of each.
const KINDS: [KindOf; 13] = [
    KindOf::new::<RunResult>("run"),
    KindOf::new::<Comparison<'_>>("compare"),
    KindOf::new::<Swept>("sweep"),
    KindOf::new::<Ranked>("rank"),
    KindOf::new::<Advised<'_>>("advise"),
    KindOf::new::<Fitted<'_>>("fit"),
    KindOf::new::<Checked<'_>>("check"),
    KindOf::new::<Transferred<'_>>("transfer"),
    KindOf::new::<Reproduction<'_>>("reproduce"),
    KindOf::new::<Served>("serve"),
    KindOf::new::<GuestResult>("guest"),
    KindOf::new::<LiveResult>("live"),
    KindOf::new::<All>("list"),
];

pub(crate) fn schema(registry: &Registry, devices: Devices, of: FileKind) -> Result<u8, Error> {
    let schema = match of {
        FileKind::Scenario => schemas::of_scenarios(registry),
        FileKind::Profile => schemas::of_profiles(registry),
        FileKind::Budget => check::schema(registry, devices),
        FileKind::Measurements => schemas::of_measurements(registry),
        FileKind::Result => of_results(&KINDS),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(DONE)
}
