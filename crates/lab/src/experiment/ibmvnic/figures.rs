//! The published figures of direct sends with checksums in software, measured on the models.
//!
//! The three cases are states of one driver: `never`, `ignore_headers`, `software_checksum`. All
//! rows come from the profile `ibmvnic-power9`. Five numbers are fitted: the serial cost of an
//! indirect call and of a received frame (rates of the first two cases), the share of responses
//! sent together (share of arrays in the second), and the caller's price of an array and of a
//! descriptor (mean call times in the first two). The published pool is unknown: runs with [`POOL`]
//! count frames for each array of buffers. Runs of the rates, 12 ms long, use its long-time average
//! ([`LONG_RUN`]).

use super::settings::{load, setup};
use super::{RunStats, run};
use crate::config::key::Values;
use crate::experiment::figures::{
    Choice, Constants, Headline, MeasureError, ProfileRuns, SystemFigures,
};
use doorbell_layout::ibmvnic::DESCRIPTOR;
use doorbell_sim::Unwatched;

pub(crate) type Figures = ProfileRuns<Seen>;

/// The largest pool. With less than half of it available, a poll fills it up with 2049 buffers in
/// 129 arrays, which is the published quotient; 2048 would give 15.77.
const POOL: &str = "pool.entries";
/// The rule for giving buffers.
const RULE: &str = "driver.replenish";
/// Packets sent together.
const BURST: &str = "traffic.burst";

/// Sixteen buffers a call, where a pool of 4096 has 15.88.
const LONG_RUN: &str = "driver.replenish=whole_arrays";

/// One queue of sixteen, and its share of the peers. A pool lasts some 30 ms.
const ONE_QUEUE: [&str; 5] = [
    "driver.direct=never",
    "driver.queues=1",
    "traffic.peers=32",
    "traffic.warmup=1",
    "traffic.duration=60",
];

/// The source's other load.
const SMALL: [&str; 2] = ["traffic.request=66", "traffic.response=66"];

/// `host.together` is fitted on all that was batched, so it has the part of the byte limit too.
const NO_BYTE_LIMIT: &str = "stack.bql=off";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    rate: f64,
    /// Calls of either kind for packets, a packet.
    flushes: f64,
    /// Arrays of packets, a packet.
    arrays: f64,
    /// Checksums made for direct sends, a direct send.
    checksums: f64,
    /// The same, a packet.
    checksum_share: f64,
    /// Frames received for each array of buffers in the long run, independent of the time at which
    /// a pool was filled.
    replenish: f64,
    transmit_us: f64,
    /// Descriptors in arrays of packets, a packet.
    descriptors: f64,
}

impl Seen {
    fn of(o: &RunStats) -> Seen {
        let n = |name: &str| o.counts.counter(0, name) as f64;
        Seen {
            rate: o.counts.rate() * 1e-3,
            flushes: 100.0 * n("tx_flushes") / n("tx_packets"),
            arrays: 100.0 * n("tx_arrays") / n("tx_packets"),
            checksums: n("tx_csum_direct") / n("tx_direct").max(1.0),
            checksum_share: 100.0 * n("tx_csum_direct") / n("tx_packets"),
            replenish: n("rx_added") / n("rx_add_arrays"),
            transmit_us: o.totals.transmit.as_ns_f64() * 1e-3 / n("tx_packets"),
            descriptors: (n("tx_descriptors") - n("tx_direct")) / n("tx_packets"),
        }
    }

    /// Returns the mean time of H_SEND_SUB_CRQ_INDIRECT in us, over arrays of packets and of
    /// buffers. A transaction receives as many frames as it sends.
    fn indirect_us(&self, one: impl Fn(f64) -> f64, frames_a_replenish: f64) -> f64 {
        let (packets, buffers) = (self.arrays / 100.0, 1.0 / frames_a_replenish);
        one((self.descriptors + 1.0) / (packets + buffers))
    }
}

/// Returns the caller's time for an array of `n` descriptors, in us.
fn array_us(v: &Values, n: f64) -> f64 {
    // Half of a copy is a read.
    let read = v.number("hypervisor.copy") / 2.0 * DESCRIPTOR as f64 / 1024.0;
    let call = v.number("hypervisor.call") + v.number("hcall.send_sub_crq_indirect");
    (call + n * (v.number("hcall.indirect_descriptor") + read)) * 1e-3
}

impl Figures {
    fn seen(&mut self, c: &Constants, name: &str, sets: &[&str]) -> Result<Seen, MeasureError> {
        // The long run has its own rule for giving buffers.
        self.get(&c.without(&[POOL, RULE]), name, &[sets], measure)
    }

    /// Returns the counts of a case. They depend on the constant of the workload and on no price,
    /// so one run with the profile's prices serves all fits of prices.
    fn counted(&mut self, c: &Constants, direct: &str) -> Result<Seen, MeasureError> {
        let sets = [LONG_RUN, direct];
        let ProfileRuns { profile, runs, .. } = self;
        let c = &c.without(&[POOL, RULE]);
        let name = format!("counts {direct}");
        let run = runs.get(&name, c, &["host.together"], |c| with(profile.with(c), &sets));
        run.copied()
    }

    /// Returns the frames received for each array of buffers.
    fn replenish(&mut self, c: &Constants) -> Result<f64, MeasureError> {
        // The counts do not depend on prices.
        let ProfileRuns { profile, runs, .. } = self;
        let pool = format!("driver.rx_entries={}", c.choice(POOL)?);
        let sets = [&ONE_QUEUE[..], &[&pool]].concat();
        let c = &c.without(&[BURST]);
        Ok(runs.get("replenish", c, &[], |none| with(profile.with(none), &sets))?.replenish)
    }

    /// Returns the gain of direct sends with small frames, in percent.
    fn small_gain(&mut self, c: &Constants) -> Result<f64, MeasureError> {
        let mut rate = |name: &str, direct: &str| {
            self.seen(c, name, &[&SMALL[..], &[LONG_RUN, direct]].concat()).map(|s| s.rate)
        };
        let never = rate("small never", "driver.direct=never")?;
        let ignored = rate("small ignored", "driver.direct=ignore_headers")?;
        Ok(100.0 * (ignored / never - 1.0))
    }
}

fn with(mut values: Values, sets: &[&str]) -> Result<Seen, MeasureError> {
    sets.iter().try_for_each(|s| values.set(s))?;
    measure(&values)
}

fn measure(values: &Values) -> Result<Seen, MeasureError> {
    let mut values = values.clone();
    values.set(NO_BYTE_LIMIT)?;
    let setup = setup(&values);
    Ok(Seen::of(&run(&setup, &load(&values, &setup)?, &mut Unwatched)?.sound()?))
}

impl SystemFigures for Figures {
    const PROFILE: &str = "ibmvnic-power9";
    const ROWS: &str = include_str!("../figures/published/ibmvnic.toml");
    const HEADLINE: Headline = Headline::of(
        "ibmvnic-transactions",
        "driver.direct=never",
        "driver.direct=software_checksum",
    )
    .waiting("ibmvnic-transactions");
    /// The next slower link is a different experiment.
    const LEFT_OUT: &[&str] = &["link.rate"];

    fn choices(&self) -> Vec<Choice> {
        let (shared, rules) =
            (["ibmvnic.call_share_1"], ["below_half", "each_poll", "whole_arrays"]);
        let together = "four packets of four descriptors fill an array; not published";
        let rule = "linux since 6.12, \"Only replenish rx pool when resources are getting low\"";
        let pool = "the largest that there is; not published";
        let buffers = ["ibmvnic.receives_per_replenish_1"];
        vec![
            Choice::new(BURST, "4", &["2", "3", "4", "6", "8"], together, &shared),
            Choice::new(RULE, rules[0], &rules, rule, &buffers),
            Choice::new(POOL, "4096", &["512", "1024", "2048", "4096"], pool, &buffers)
                .unit("buffers"),
        ]
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        match figure {
            "small_gain" => return self.small_gain(c),
            "receives_per_replenish_1" => return self.replenish(c),
            _ => {}
        }
        let Some((what, case)) = figure.rsplit_once('_') else {
            return Err(MeasureError::unknown_figure(figure));
        };
        let direct = match case {
            "1" => "never",
            "2" => "ignore_headers",
            "3" => "software_checksum",
            _ => return Err(MeasureError::unknown_figure(figure)),
        };
        let direct = format!("driver.direct={direct}");
        if matches!(what, "rate" | "xmit") {
            let s = self.seen(c, &direct, &[LONG_RUN, &direct])?;
            return Ok(if what == "rate" { s.rate } else { s.transmit_us });
        }
        let s = self.counted(c, &direct)?;
        Ok(match what {
            "call_share" => s.flushes,
            "indirect_share" => s.arrays,
            "checksums_per_direct" => s.checksums,
            "checksum_share" => s.checksum_share,
            "indirect_us" => {
                let values = self.profile.with(c);
                s.indirect_us(|n| array_us(&values, n), self.replenish(c)?)
            }
            _ => return Err(MeasureError::unknown_figure(figure)),
        })
    }
}
