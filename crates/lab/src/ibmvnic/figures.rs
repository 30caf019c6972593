//! The published figures of direct sends and the checksum that buys them, measured on the models.
//!
//! The three cases are three states of one driver: `never`, `ignore_headers`, `software_checksum`. All rows come from one
//! platform, the profile `ibmvnic-power9`. Three numbers are fitted: the serial cost of an indirect call and that of a
//! received frame on the rates of the first two cases, and how often responses go out together on the share of arrays in the
//! second.

use super::settings::{load, setup};
use super::{Outcome, run};
use crate::figures::{Constant, Constants, Headline, MeasureError, Row, Runs, System, published};
use crate::input::InputError;
use crate::key::Values;
use crate::profile::Profile;
use crate::watch::Unwatched;

/// The platform of all rows.
const PROFILE: &str = "ibmvnic-power9";

/// The ibmvnic figures.
#[derive(Debug)]
pub struct Figures {
    profile: Profile,
    runs: Runs<Seen>,
}

/// What the figures need of a run.
#[derive(Clone, Copy, Debug)]
struct Seen {
    rate: f64,
    /// Calls of either kind for packets, of packets.
    flushes: f64,
    /// Arrays of packets, of packets.
    arrays: f64,
    /// Checksums made for direct sends, of those.
    checksums: f64,
    /// The same, of packets.
    checksum_share: f64,
    /// Frames received for each array of buffers.
    replenish: f64,
    transmit_us: f64,
}

impl Seen {
    fn of(o: &Outcome) -> Seen {
        let n = |name: &str| o.counted(0, name) as f64;
        Seen {
            rate: o.rate() * 1e-3,
            flushes: 100.0 * n("tx_flushes") / n("tx_packets"),
            arrays: 100.0 * n("tx_arrays") / n("tx_packets"),
            checksums: n("tx_csum_direct") / n("tx_direct").max(1.0),
            checksum_share: 100.0 * n("tx_csum_direct") / n("tx_packets"),
            replenish: n("rx_packets") / n("rx_add_arrays").max(1.0),
            transmit_us: o.transmit.as_ns_f64() * 1e-3 / n("tx_packets"),
        }
    }
}

impl Figures {
    /// With the built-in profile.
    ///
    /// # Errors
    /// A profile that does not parse.
    pub fn new() -> Result<Figures, InputError> {
        Ok(Figures { profile: Profile::load(PROFILE)?, runs: Runs::default() })
    }

    fn seen(&mut self, c: &Constants, direct: &str) -> Result<Seen, MeasureError> {
        let reads: Vec<&str> = c.iter().map(|c| c.key.as_str()).collect();
        let values = self.profile.with(c);
        self.runs.get(direct, c, &reads, |_| measure(values, direct)).copied()
    }
}

fn measure(mut values: Values, direct: &str) -> Result<Seen, MeasureError> {
    values.set(&format!("driver.direct={direct}")).map_err(|e| MeasureError::new(e.to_string()))?;
    let setup = setup(&values);
    let load = load(&values, &setup).map_err(MeasureError::new)?;
    let o = run(&setup, &load, &mut Unwatched).map_err(|e| MeasureError::new(e.to_string()))?;
    if let Some(why) = o.audit.first() {
        return Err(MeasureError::new(format!("the audit failed: {why}")));
    }
    Ok(Seen::of(&o))
}

impl System for Figures {
    fn name(&self) -> &str {
        "ibmvnic"
    }

    fn about(&self) -> &str {
        "direct sends for a checksum made in the driver: vNIC, TCP_RR, MTU 9000, TSO off"
    }

    fn constants(&self) -> Vec<Constant> {
        let mut all = self.profile.constants();
        // The next slower link is another experiment.
        all.retain(|c| c.key != "link.rate");
        all
    }

    fn rows(&self) -> Vec<Row> {
        published::ibmvnic().unwrap_or_default()
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let short = figure.strip_prefix("ibmvnic.").unwrap_or(figure);
        let Some((what, case)) = short.rsplit_once('_') else { return Err(MeasureError::unknown_figure(figure)) };
        let direct = match case {
            "1" => "never",
            "2" => "ignore_headers",
            "3" => "software_checksum",
            _ => return Err(MeasureError::unknown_figure(figure)),
        };
        let s = self.seen(c, direct)?;
        Ok(match what {
            "rate" => s.rate,
            "call_share" => s.flushes,
            "indirect_share" => s.arrays,
            "checksums_per_direct" => s.checksums,
            "checksum_share" => s.checksum_share,
            "receives_per_replenish" => s.replenish,
            "xmit" => s.transmit_us,
            _ => return Err(MeasureError::unknown_figure(figure)),
        })
    }

    fn headline(&self) -> Option<Headline> {
        let headline = Headline::of("ibmvnic-transactions", "driver.direct=never", "driver.direct=software_checksum");
        Some(headline.waiting("ibmvnic-transactions"))
    }

    fn jitter(&self) -> f64 {
        5e-3
    }

    fn precision(&self) -> f64 {
        2e-3
    }
}
