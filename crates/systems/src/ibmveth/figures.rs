//! The published figures of large send and checksums through a trunk, measured on the models.
//!
//! All rows come from the profile `ibmveth-power8` and one TCP connection. One constant is fitted:
//! a packet's price in the bridge, on the rate of a partition that sends single segments through
//! it. Both rates in the other direction are predicted from it and from sourced or assumed prices.
//! The switches decide which packets are cut or copied.

use crate::published::{Curve, Headline, MeasureError, SystemFigures};
pub(super) static FIGURES: SystemFigures = SystemFigures {
    name: "ibmveth",
    profile: "ibmveth-power8",
    rows: include_str!("../../published/ibmveth.toml"),
    headline: Some(
        Headline::of("ibmveth-send-trunk", "driver.trunk_offload=off", "driver.trunk_offload=on")
            .over(Curve {
                title: "CPU cycles a packet of one piece",
                scenario: "ibmveth-packets",
                key: "traffic.size",
                values: &[
                    256.0, 1024.0, 1448.0, 2896.0, 8192.0, 16384.0, 24576.0, 32768.0, 49152.0,
                    65160.0,
                ],
                show: "cycles",
            })
            .waiting("ibmveth-transactions"),
    ),
    left_out: &[],
    constants: &[],
    choices: &[],
    measure: |f, figure| match figure {
        "line_rate" => Ok(f.values().number("link.rate") * 1448.0 / 1538.0),
        _ => Err(MeasureError::unknown_figure(figure)),
    },
};
