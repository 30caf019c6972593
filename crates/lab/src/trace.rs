//! A run recorded: what the first packets went through, from everywhere that notes it.
//!
//! What is recorded is [`doorbell_bus::trace`]'s. A system says [`begin`] when its machine stands
//! and [`end`] when the traffic is over; the loops that systems share
//! ([`open::drive`](crate::open::drive), [`closed::run_among`](crate::closed::run_among)) say it
//! for them. Without anybody who wants it ([`Watch::wants_trace`]) nothing is recorded.

use crate::clock::link::{Flown, Wired};
use crate::watch::Watch;
use doorbell_bus::{Bus, Machine, Trace};

/// What was recorded in a run.
#[derive(Debug)]
pub struct Traced {
    /// How many packets it was asked for.
    pub packets: u32,
    /// One for each platform: each partition has its own.
    pub platforms: Vec<Trace>,
    /// Frames on the link, out and in. `None` where the wire has no other end: then a platform's
    /// [`Frame`](doorbell_bus::trace::What::Frame)s are those that left.
    pub wires: Option<[Vec<Flown>; 2]>,
}

/// Records from now on, if that is wanted.
pub fn begin<B: Bus, D>(m: &mut Machine<B, D>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.bus.platforms().for_each(|p| p.record(packets));
    }
}

/// Hands over what was recorded.
pub fn end<B: Bus, D>(m: &mut Machine<B, D>, watch: &mut dyn Watch) {
    hand_over(m, watch, None);
}

/// [`begin`], with the link.
pub fn begin_wired<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &dyn Watch) {
    if let Some(packets) = watch.wants_trace() {
        m.device.out.borrow_mut().record(packets);
        m.device.back.record(packets);
    }
    begin(m, watch);
}

/// [`end`], with the link.
pub fn end_wired<B: Bus, D, Pr>(m: &mut Machine<B, Wired<D, Pr>>, watch: &mut dyn Watch) {
    let wires = [m.device.out.borrow_mut().take_record(), m.device.back.take_record()];
    hand_over(m, watch, Some(wires));
}

fn hand_over<B: Bus, D>(
    m: &mut Machine<B, D>,
    watch: &mut dyn Watch,
    wires: Option<[Vec<Flown>; 2]>,
) {
    if let Some(packets) = watch.wants_trace() {
        let platforms = m.bus.platforms().filter_map(|p| p.take_trace()).collect();
        watch.trace(Traced { packets, platforms, wires });
    }
}
