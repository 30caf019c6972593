//! The published figures of large send and checksums through a trunk, measured on the models.
//!
//! All rows come from the profile `ibmveth-power8` and one TCP connection. One constant is fitted:
//! a packet's price in the bridge, on the rate of a partition that sends single segments through
//! it. Both rates in the other direction are predicted from it and from sourced or assumed prices.
//! The switches decide which packets are cut or copied.
//!
//! A rate is TCP payload over the steady part of a run.

use super::{Load, lan::SERVER, run, settings::setup};
use crate::experiment::closed_loop;
use crate::experiment::figures::{
    Constants, Curve, Headline, MeasureError, ProfileRuns, SystemFigures,
};
use doorbell_sim::Unwatched;

/// The scenario of all rows.
const RUN: [&str; 4] =
    ["traffic.large_send=auto", "traffic.window=1024", "traffic.warmup=10", "traffic.duration=30"];

const SEND_BEFORE: [&str; 2] = ["traffic.kind=send", "driver.trunk_offload=off"];
const SEND_AFTER: [&str; 2] = ["traffic.kind=send", "driver.trunk_offload=on"];
const RECEIVE_BEFORE: [&str; 3] =
    ["traffic.kind=receive", "driver.trunk_offload=on", "driver.fraglist=off"];
const RECEIVE_AFTER: [&str; 3] =
    ["traffic.kind=receive", "driver.trunk_offload=on", "driver.fraglist=on"];

pub(crate) type Figures = ProfileRuns<Seen>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    gbits: f64,
    /// Frames on the wire for each packet that the client received.
    frames_a_packet: f64,
    /// Segments that the trunk's driver cut.
    segments: f64,
    /// The share of merged packets that were linearised.
    linearised: f64,
}

impl Figures {
    fn seen(&mut self, c: &Constants, name: &str, sets: &[&str]) -> Result<Seen, MeasureError> {
        self.get(c, name, &[&RUN, sets], |values| {
            let load = Load::Closed(closed_loop::Load::of(values, 1460)?);
            let o = run(&setup(values)?, &load, &mut Unwatched)?.sound()?;
            let (server, bridge) = (&o.totals.drivers[SERVER], &o.totals.bridge);
            let per = |a: u64, b: u64| a as f64 / b.max(1) as f64;
            Ok(Seen {
                gbits: 8e-9 * o.counts.payload as f64 / o.counts.elapsed.as_secs_f64(),
                frames_a_packet: per(bridge.to_lan_segments, server.tx_packets),
                segments: server.tx_segments as f64,
                linearised: per(server.tx_linearized, bridge.merged),
            })
        })
    }
}

impl SystemFigures for Figures {
    const PROFILE: &str = "ibmveth-power8";
    const ROWS: &str = include_str!("../figures/published/ibmveth.toml");
    const HEADLINE: Headline =
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
            .waiting("ibmveth-transactions");

    fn measure(&mut self, c: &Constants, figure: &str) -> Result<f64, MeasureError> {
        Ok(match figure {
            "vm_to_network_before" => self.seen(c, "send_before", &SEND_BEFORE)?.gbits,
            "vm_to_network_after" => self.seen(c, "send_after", &SEND_AFTER)?.gbits,
            "line_rate" => self.profile.with(c).number("link.rate") * 1448.0 / 1538.0,
            "frames_a_packet_before" => {
                self.seen(c, "receive_before", &RECEIVE_BEFORE)?.frames_a_packet
            }
            "segments_after" => self.seen(c, "receive_after", &RECEIVE_AFTER)?.segments,
            "linearised_after" => self.seen(c, "receive_after", &RECEIVE_AFTER)?.linearised,
            "network_to_vm_before" => self.seen(c, "receive_before", &RECEIVE_BEFORE)?.gbits,
            "network_to_vm_after" => self.seen(c, "receive_after", &RECEIVE_AFTER)?.gbits,
            _ => return Err(MeasureError::unknown_figure(figure)),
        })
    }
}
