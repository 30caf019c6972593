//! The published figures of adaptive coalescing, measured on the models.
//!
//! All rows come from the profile `axienet-zynqmp`. Two prices are fitted to the two shares of CPU:
//! that of an interrupt, and that of a packet on the core that takes them. The application core's
//! price to wake up and copy is assumed, since with both on one core the published 43 % of four
//! cores would be out of reach. The first fit's runs are fed at the published 840 Mbit/s; no other
//! row's are.
//!
//! "Before" is an interrupt for every packet. "After" is net_dim over 4^i packets and a silence of
//! 16 us.

use super::{Load, run, settings::setup};
use crate::experiment::closed_loop;
use crate::experiment::figures::{
    Choice, Constants, Curve, Headline, MeasureError, ProfileRuns, SystemFigures,
};
use doorbell_sim::Unwatched;

/// The settings of all runs. A source writes as fast as it can, and the window does not limit it.
/// net_dim settles after some 70 ms: each step takes 64 interrupts.
const RUN: [&str; 6] = [
    // The published driver, of 2024, had no byte limit.
    "stack.bql=off",
    "traffic.kind=receive",
    "traffic.source_rate=full",
    "traffic.window=4096",
    "traffic.warmup=120",
    "traffic.duration=250",
];
/// The key of the source's rate: the fit of the CPU share before feeds in the published one.
const SOURCE: &str = "traffic.source_rate";
/// Nothing has to settle, so a shorter run is enough.
const BEFORE: [&str; 4] =
    ["driver.controller=fixed", "driver.rx_frames=1", "traffic.warmup=20", "traffic.duration=100"];

pub(crate) type Figures = ProfileRuns<Seen>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    mbits: f64,
    interrupts: f64,
    cpu: f64,
    threshold: f64,
}

impl Figures {
    fn seen(&mut self, c: &Constants, name: &str, sets: &[&str]) -> Result<Seen, MeasureError> {
        self.get(c, name, &[&RUN, sets], |values| {
            let setup = setup(values)?;
            let load = Load::Closed(closed_loop::Load::of(values, setup.driver.mtu - 40)?);
            let o = run(&setup, &load, &mut Unwatched)?.sound()?;
            let s = o.counts.elapsed.as_secs_f64();
            let busy = o.counts.busy[0] + o.counts.busy[1];
            Ok(Seen {
                // Rate by received frames, which are passed up in lumps of 255.
                mbits: 8e-6 * o.counts.wire.1 as f64 / s * 1448.0 / 1538.0,
                interrupts: o.counts.interrupts[0] as f64 / s,
                cpu: 100.0 * busy.as_secs_f64() / s / setup.cores as f64,
                threshold: o.totals.threshold.into(),
            })
        })
    }
}

impl SystemFigures for Figures {
    const PROFILE: &str = "axienet-zynqmp";
    const ROWS: &str = include_str!("../figures/published/axienet.toml");
    const HEADLINE: Headline =
        Headline::of("axienet-receive", "driver.controller=fixed", "driver.controller=dim")
            .over(Curve {
                title: "CPU cycles a frame",
                scenario: "axienet-saturated",
                key: "traffic.load",
                values: &[1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0],
                show: "cycles",
            })
            .moving("axienet-steps")
            .waiting("axienet-steps");
    /// The next slower link is a different experiment.
    const LEFT_OUT: &[&str] = &["link.rate"];

    /// Returns the prices chosen so that a fit can reach 43 % of four cores, and the rate fed in
    /// for it.
    fn choices(&self) -> Vec<Choice> {
        let rows = ["axienet.cpu_before"];
        let given = "the published 840 Mbit/s, fed in: the model's own rate before is a miss \
            (throughput_before)";
        vec![
            self.profile.choice("cpu.tcp_sleep", &["4000", "5500", "7000", "8500"], &rows),
            Choice::new(SOURCE, "840", &["840", "full"], given, &rows).unit("Mbit/s"),
        ]
    }

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        let source = format!("{SOURCE}={}", c.choice(SOURCE)?);
        let given = [&BEFORE[..], &[&source]].concat();
        let all = c;
        // Only the run at a given rate limits its source.
        let c = &c.without(&[SOURCE]);
        Ok(match figure {
            "threshold_after" => self.seen(c, "after", &[])?.threshold,
            "interrupts_before" => self.seen(c, "before", &BEFORE)?.interrupts,
            "packets_an_interrupt_before" => {
                let seen = self.seen(c, "before", &BEFORE)?;
                seen.mbits * 1e6 / (8.0 * 1448.0) / seen.interrupts
            }
            "interrupts_after" => self.seen(c, "after", &[])?.interrupts,
            "throughput_before" => self.seen(c, "before", &BEFORE)?.mbits,
            "throughput_after" => self.seen(c, "after", &[])?.mbits,
            "cpu_before" => self.seen(all, "given", &given)?.cpu,
            "cpu_after" => self.seen(c, "after", &[])?.cpu,
            _ => return Err(MeasureError::unknown_figure(figure)),
        })
    }
}
