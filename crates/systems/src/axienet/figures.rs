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

use crate::published::{Curve, Headline, MeasureError, ModelChoice, SystemFigures};
const CPU: &[&str] = &["axienet.cpu_before"];

pub(super) static FIGURES: SystemFigures = SystemFigures {
    name: "axienet",
    profile: "axienet-zynqmp",
    rows: include_str!("../../published/axienet.toml"),
    headline: Some(
        Headline::of("axienet-receive", "driver.controller=fixed", "driver.controller=dim")
            .over(Curve {
                title: "CPU cycles a frame",
                scenario: "axienet-saturated",
                key: "traffic.load",
                values: &[1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0],
                show: "cycles",
            })
            .moving("axienet-steps")
            .waiting("axienet-steps"),
    ),
    // The next slower link is a different experiment.
    left_out: &["link.rate"],
    constants: &[],
    // The prices chosen so that a fit can reach 43 % of four cores, and the rate fed in for it.
    choices: &[
        ModelChoice::of_profile("cpu.tcp_sleep", &["4000", "5500", "7000", "8500"], CPU),
        ModelChoice {
            key: "traffic.source_rate",
            taken: Some((
                "840",
                "the published 840 Mbit/s, fed in: the model's own rate before is a miss \
                 (throughput_before)",
            )),
            unit: "Mbit/s",
            alternatives: &["840", "full"],
            rows: CPU,
        },
    ],
    measure: |_, figure| Err(MeasureError::unknown_figure(figure)),
};
