//! The published figures of direct sends with checksums in software, measured on the models.
//!
//! The three cases are states of one driver: `never`, `ignore_headers`, `software_checksum`. All
//! rows come from the profile `ibmvnic-power9`. Five numbers are fitted: the serial cost of an
//! indirect call and of a received frame (rates of the first two cases), the share of responses
//! sent together (share of arrays in the second), and the caller's price of an array and of a
//! descriptor (mean call times in the first two).

use crate::key::Values;
use crate::published::{Headline, MeasureError, Measuring, ModelChoice, SystemFigures};
use doorbell_layout::ibmvnic::DESCRIPTOR;

/// Returns the caller's time for an array of `n` descriptors, in us.
fn array_us(v: &Values, n: f64) -> f64 {
    // Half of a copy is a read.
    let read = v.number("hypervisor.copy") / 2.0 * DESCRIPTOR as f64 / 1024.0;
    let call = v.number("hypervisor.call") + v.number("hcall.send_sub_crq_indirect");
    (call + n * (v.number("hcall.indirect_descriptor") + read)) * 1e-3
}

/// Returns the mean time of H_SEND_SUB_CRQ_INDIRECT in us, over arrays of packets and of buffers. A
/// transaction receives as many frames as it sends.
fn indirect_us(f: &dyn Measuring, case: &str) -> Result<f64, MeasureError> {
    let frames_an_array =
        f.number("pool", "driver_rx_added")? / f.number("pool", "driver_rx_add_arrays")?;
    let sent = |name: &str| f.number(case, name);
    let packets = sent("driver_tx_packets")?;
    let arrays = sent("driver_tx_arrays")? / packets;
    let descriptors = (sent("driver_tx_descriptors")? - sent("driver_tx_direct")?) / packets;
    Ok(array_us(&f.values(), (descriptors + 1.0) / (arrays + 1.0 / frames_an_array)))
}

/// Returns the gain of direct sends with small frames, in percent.
fn small_gain(f: &dyn Measuring) -> Result<f64, MeasureError> {
    let never = f.number("small_1", "packets_per_s")?;
    Ok(100.0 * (f.number("small_2", "packets_per_s")? / never - 1.0))
}

const BUFFERS: &[&str] = &["ibmvnic.receives_per_replenish_1"];

pub(super) static FIGURES: SystemFigures = SystemFigures {
    name: "ibmvnic",
    profile: "ibmvnic-power9",
    rows: include_str!("../../published/ibmvnic.toml"),
    headline: Some(
        Headline::of(
            "ibmvnic-transactions",
            "driver.direct=never",
            "driver.direct=software_checksum",
        )
        .waiting("ibmvnic-transactions"),
    ),
    // The next slower link is a different experiment.
    left_out: &["link.rate"],
    constants: &[],
    choices: &[
        ModelChoice {
            key: "traffic.burst",
            taken: Some(("4", "four packets of four descriptors fill an array; not published")),
            unit: "",
            alternatives: &["2", "3", "4", "6", "8"],
            rows: &["ibmvnic.call_share_1"],
        },
        ModelChoice {
            key: "driver.replenish",
            taken: Some((
                "below_half",
                "linux since 6.12, \"Only replenish rx pool when resources are getting low\"",
            )),
            unit: "",
            alternatives: &["below_half", "each_poll", "whole_arrays"],
            rows: BUFFERS,
        },
        ModelChoice {
            key: "driver.rx_entries",
            taken: Some(("4096", "the largest that there is; not published")),
            unit: "buffers",
            alternatives: &["512", "1024", "2048", "4096"],
            rows: BUFFERS,
        },
    ],
    measure: |f, figure| match figure {
        "indirect_us_1" => indirect_us(f, "counts_1"),
        "indirect_us_2" => indirect_us(f, "counts_2"),
        "indirect_us_3" => indirect_us(f, "counts_3"),
        "small_gain" => small_gain(f),
        _ => Err(MeasureError::unknown_figure(figure)),
    },
};
