//! The published figures of direct sends with checksums in software, measured on the models.
//!
//! The three cases are states of one driver: `never`, `ignore_headers`, `software_checksum`. All
//! rows come from the profile `ibmvnic-power9`. Five numbers are fitted: the serial cost of an
//! indirect call and of a received frame (rates of the first two cases), the share of responses
//! sent together (share of arrays in the second), and the caller's price of an array and of a
//! descriptor (mean call times in the first two).

use crate::config::key::Values;
use crate::experiment::figures::{
    Choice, Constants, Figures, Headline, MeasureError, SystemFigures,
};
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
fn indirect_us(f: &Figures, c: &Constants, case: &str) -> Result<f64, MeasureError> {
    let frames_an_array =
        f.number(c, "pool", "driver_rx_added")? / f.number(c, "pool", "driver_rx_add_arrays")?;
    let sent = |name: &str| f.number(c, case, name);
    let packets = sent("driver_tx_packets")?;
    let arrays = sent("driver_tx_arrays")? / packets;
    let descriptors = (sent("driver_tx_descriptors")? - sent("driver_tx_direct")?) / packets;
    Ok(array_us(&f.profile.with(c), (descriptors + 1.0) / (arrays + 1.0 / frames_an_array)))
}

/// Returns the gain of direct sends with small frames, in percent.
fn small_gain(f: &Figures, c: &Constants) -> Result<f64, MeasureError> {
    let never = f.number(c, "small_1", "packets_per_s")?;
    Ok(100.0 * (f.number(c, "small_2", "packets_per_s")? / never - 1.0))
}

pub(super) static FIGURES: SystemFigures = SystemFigures {
    profile: "ibmvnic-power9",
    rows: include_str!("../figures/published/ibmvnic.toml"),
    headline: Headline::of(
        "ibmvnic-transactions",
        "driver.direct=never",
        "driver.direct=software_checksum",
    )
    .waiting("ibmvnic-transactions"),
    // The next slower link is a different experiment.
    left_out: &["link.rate"],
    other_constants: Vec::new,
    choices: |_| {
        let (shared, rules) =
            (["ibmvnic.call_share_1"], ["below_half", "each_poll", "whole_arrays"]);
        let together = "four packets of four descriptors fill an array; not published";
        let rule = "linux since 6.12, \"Only replenish rx pool when resources are getting low\"";
        let pool = "the largest that there is; not published";
        let buffers = ["ibmvnic.receives_per_replenish_1"];
        vec![
            Choice::new("traffic.burst", "4", &["2", "3", "4", "6", "8"], together, &shared),
            Choice::new("driver.replenish", rules[0], &rules, rule, &buffers),
            Choice::new(
                "driver.rx_entries",
                "4096",
                &["512", "1024", "2048", "4096"],
                pool,
                &buffers,
            )
            .unit("buffers"),
        ]
    },
    measure: |f, c, figure| match figure {
        "indirect_us_1" => indirect_us(f, c, "counts_1"),
        "indirect_us_2" => indirect_us(f, c, "counts_2"),
        "indirect_us_3" => indirect_us(f, c, "counts_3"),
        "small_gain" => small_gain(f, c),
        _ => Err(MeasureError::unknown_figure(figure)),
    },
};
