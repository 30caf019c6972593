//! The published figures of adaptive coalescing, measured on the models.
//!
//! All rows come from one platform, the profile `axienet-zynqmp`. Two prices are
//! fitted, on the two shares of CPU: what an interrupt costs and what a packet costs on
//! the core that takes them. What the application's core pays, to be woken and to copy, is
//! assumed: with both on one core the published 43 % of four would be more than there is.
//!
//! "Before" is an interrupt for every packet; "after" is net_dim over 4^i packets and a
//! silence of 16 us.

use super::settings::setup;
use super::{Load, Outcome, run};
use crate::closed;
use crate::figures::{
    Choice, Constant, Constants, Curve, Headline, KnownMiss, MeasureError, Row, Runs, System, published,
};
use crate::input::InputError;
use crate::key::Values;
use crate::profile::Profile;
use crate::watch::Unwatched;

/// The platform of all rows.
const PROFILE: &str = "axienet-zynqmp";

/// What the runs have in common. A source writes as fast as it can; the window is not what limits; and net_dim is where it stays after some 70 ms: each step is
/// 64 interrupts.
const RUN: [&str; 5] = [
    "traffic.kind=receive",
    "traffic.source_rate=full",
    "traffic.window=4096",
    "traffic.warmup=120",
    "traffic.duration=250",
];
/// What the source sends before: fed in, since the model's own rate is a miss.
const SOURCE: &str = "traffic.source_rate";
/// Nothing has to settle: a shorter run does.
const BEFORE: [&str; 4] =
    ["driver.controller=fixed", "driver.rx_frames=1", "traffic.warmup=20", "traffic.duration=100"];

/// The axienet figures.
#[derive(Debug)]
pub struct Figures {
    profile: Profile,
    runs: Runs<Seen>,
}

/// What the figures need of a run.
#[derive(Clone, Copy, Debug)]
struct Seen {
    mbits: f64,
    interrupts: f64,
    cpu: f64,
    threshold: f64,
}

impl Seen {
    fn of(o: &Outcome, cores: f64) -> Seen {
        let s = o.elapsed.as_secs_f64();
        Seen {
            // Of frames as they arrive: what is handed up comes in lumps of 255.
            mbits: 8e-6 * o.wire.1 as f64 / s * 1448.0 / 1538.0,
            interrupts: o.interrupts[0] as f64 / s,
            cpu: 100.0 * (o.busy[0] + o.busy[1]).as_secs_f64() / s / cores,
            threshold: o.threshold.into(),
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

    fn seen(&mut self, c: &Constants, name: &str, sets: &[&str]) -> Result<Seen, MeasureError> {
        let reads: Vec<&str> = c.iter().map(|c| c.key.as_str()).collect();
        let values = self.profile.with(c);
        self.runs.get(name, c, &reads, |_| measure(values, sets)).copied()
    }
}

fn measure(mut values: Values, sets: &[&str]) -> Result<Seen, MeasureError> {
    for s in RUN.iter().chain(sets) {
        values.set(s).map_err(|e| MeasureError::new(e.to_string()))?;
    }
    let setup = setup(&values).map_err(MeasureError::new)?;
    let load = closed::Load::of(&values, setup.driver.mtu - 40).map_err(MeasureError::new)?;
    let o = run(&setup, &Load::Closed(load), &mut Unwatched).map_err(|e| MeasureError::new(e.to_string()))?;
    if let Some(why) = o.audit.first() {
        return Err(MeasureError::new(format!("the audit failed: {why}")));
    }
    Ok(Seen::of(&o, setup.cores as f64))
}

impl System for Figures {
    fn name(&self) -> &str {
        "axienet"
    }

    fn about(&self) -> &str {
        "adaptive interrupt coalescing: AXI Ethernet at 1 Gbit/s, iperf3 receive, 4 x Cortex-A53"
    }

    fn constants(&self) -> Vec<Constant> {
        let mut all = self.profile.constants();
        // The next slower link is another experiment.
        all.retain(|c| c.key != "link.rate");
        all
    }

    fn choices(&self) -> Vec<Choice> {
        choices(&self.profile)
    }

    fn rows(&self) -> Vec<Row> {
        published::axienet().unwrap_or_default()
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let source = format!("{SOURCE}={}", c.choice(SOURCE)?);
        let given = [&BEFORE[..], &[&source]].concat();
        let all = c;
        // Only the runs at a given rate have a source that is held back.
        let c = &c.without(&[SOURCE]);
        Ok(match figure.strip_prefix("axienet.").unwrap_or(figure) {
            "threshold_after" => self.seen(c, "after", &[])?.threshold,
            "interrupts_before" => self.seen(all, "given", &given)?.interrupts,
            "interrupts_after" => self.seen(c, "after", &[])?.interrupts,
            "throughput_before" => self.seen(c, "before", &BEFORE)?.mbits,
            "throughput_after" => self.seen(c, "after", &[])?.mbits,
            "cpu_before" => self.seen(all, "given", &given)?.cpu,
            "cpu_after" => self.seen(c, "after", &[])?.cpu,
            _ => return Err(MeasureError::unknown_figure(figure)),
        })
    }

    fn headline(&self) -> Option<Headline> {
        let curve = Curve {
            title: "CPU cycles a frame",
            scenario: "axienet-saturated",
            key: "traffic.load",
            values: &[1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0],
            show: "cycles",
        };
        let headline = Headline::of("axienet-receive", "driver.controller=fixed", "driver.controller=dim");
        Some(headline.over(curve).moving("axienet-steps").waiting("axienet-steps"))
    }

    fn jitter(&self) -> f64 {
        2e-3
    }

    fn precision(&self) -> f64 {
        1e-4
    }

    fn known_misses(&self, _swapped: bool) -> Vec<KnownMiss> {
        vec![KnownMiss::new(
            "axienet.throughput_before",
            "a poll takes what came while the interrupt was served, so a core that is too slow for one packet an interrupt \
             coalesces by itself and reaches the line rate; what kept the published run at 840 with 1.04 packets an \
             interrupt is not in these costs",
        )]
    }
}

/// What was chosen so that 43 % of four cores are within reach of a fit, and what is fed in.
fn choices(profile: &Profile) -> Vec<Choice> {
    let given = "the published 840 Mbit/s, fed in: the model's own rate before is a miss (throughput_before)";
    let rows = ["axienet.interrupts_before", "axienet.cpu_before"];
    vec![
        profile.choice("cpu.call", &["5000", "10000", "15000", "20000"], &["axienet.cpu_before"]),
        Choice::new(SOURCE, "840", &["840", "full"], given, &rows).unit("Mbit/s"),
    ]
}
