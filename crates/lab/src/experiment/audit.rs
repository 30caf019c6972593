//! Audits: comparisons of the counts of two parties, with the differences that faults explain.

use super::result::{Count, Group};
use crate::sim::{fault::Report, standstill};
use doorbell_bus::Platform;

/// Returns the injected faults under the names of results.
pub(crate) fn fault_counts(report: &Report) -> Vec<Count> {
    let (s, alarms) = (report.struck, report.alarms);
    [
        ("fault_lost_interrupts", "Interrupts that were lost", s.interrupts),
        ("fault_late_completions", "Completions that came late", s.late),
        ("fault_poisoned_completions", "Completions that reported a failure", s.poisoned),
        ("fault_dma_faults", "Accesses to memory that failed", s.dma),
        ("fault_link_flaps", "Times that the link went down", report.flaps),
        ("fault_frames_cut", "Frames lost on the wire with it", report.cut),
        ("fault_tx_timeouts", "Queues that the watchdog found hung", alarms.timeouts),
        ("fault_io_errors", "Times that a driver was told of failed accesses", alarms.io_errors),
    ]
    .into_iter()
    .map(|(name, about, value)| Count { group: Group::Fault, name: name.to_owned(), about, value })
    .collect()
}

/// Compares counts of two parties. Where faults were injected, counts may differ by a named loss.
#[derive(Debug)]
pub(crate) struct CrossCheck {
    lossy: bool,
    /// The checks that failed, a message each.
    pub(crate) wrong: Vec<String>,
}

impl CrossCheck {
    pub(crate) fn new(faults: Option<&Report>) -> CrossCheck {
        CrossCheck { lossy: faults.is_some(), wrong: Vec::new() }
    }

    /// Checks that two counts are equal, with or without faults.
    pub(crate) fn same(&mut self, what: &str, a: (&str, u64), b: (&str, u64)) {
        if a.1 != b.1 {
            self.wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    }

    /// Checks that `b` equals `a`, less at most `lost` where faults were injected.
    pub(crate) fn less(&mut self, what: &str, a: (&str, u64), b: (&str, u64), lost: (&str, u64)) {
        if !self.lossy {
            self.same(what, a, b);
        } else if a.1 < b.1 || a.1 - b.1 > lost.1 {
            self.wrong
                .push(format!("{what}: {} {}, {} {}, {} {}", a.0, a.1, b.0, b.1, lost.0, lost.1));
        }
    }

    /// Checks that everything on a platform has been closed and released. `struck` is the number of
    /// accesses that were made to fail. `place` goes in front of each message.
    pub(crate) fn platform(&mut self, place: &str, p: &Platform, struck: u64) {
        let l = &p.ledger;
        let (readable, writable) = p.memory.mapped();
        for (what, a, b) in [
            ("mappings", ("made", l.maps), ("ended", l.unmaps)),
            ("buffers", ("taken", l.buffers_taken), ("released", l.buffers_released)),
            ("translation entries", ("live", p.live_entries().into()), ("expected", 0)),
            ("pages still lent", ("to read", readable as u64), ("expected", 0)),
            ("pages still lent", ("to write", writable as u64), ("expected", 0)),
            ("DMA", ("faults allowed", struck), ("faults", l.dma_faults)),
        ] {
            self.same(&format!("{place}{what}"), a, b);
        }
        self.wrong.extend(standstill::of_coherent(p).map(|w| format!("{place}{w}")));
    }

    /// Checks that `a` is zero, or at most `most` where faults were injected.
    pub(crate) fn none(&mut self, what: &str, a: (&str, u64), most: u64) {
        let most = if self.lossy { most } else { 0 };
        if a.1 > most {
            self.wrong.push(format!("{what}: {} {}, allowed {most}", a.0, a.1));
        }
    }
}

/// A limit for losses that another check counts.
pub(crate) const ANY: u64 = u64::MAX;
