//! Audits: comparisons of the counts of two parties, with the differences that faults explain.

use super::result::{Count, Group};
use super::run::RunStats;
use doorbell_bus::Platform;
use doorbell_sim::{fault::Report, standstill};

/// Injected faults under the names of results, with their meanings.
pub(crate) const FAULTS: [(&str, &str); 8] = [
    ("fault_lost_interrupts", "Interrupts that were lost"),
    ("fault_late_completions", "Completions that came late"),
    ("fault_poisoned_completions", "Completions that reported a failure"),
    ("fault_dma_faults", "Accesses to memory that failed"),
    ("fault_link_flaps", "Times that the link went down"),
    ("fault_frames_cut", "Frames lost on the wire with it"),
    ("fault_tx_timeouts", "Queues that the watchdog found hung"),
    ("fault_io_errors", "Times that a driver was told of failed accesses"),
];

/// Returns the injected faults, in the order of [`FAULTS`].
pub(crate) fn fault_counts(report: &Report) -> impl Iterator<Item = Count> + use<> {
    let (s, alarms) = (report.struck, report.alarms);
    let struck = [s.interrupts, s.late, s.poisoned, s.dma];
    let found = [report.flaps, report.cut, alarms.timeouts, alarms.io_errors];
    FAULTS.iter().zip(struck.into_iter().chain(found)).map(|((name, about), value)| Count {
        group: Group::Fault,
        name: (*name).to_owned(),
        about,
        value,
    })
}

/// Compares counts of two parties. Where faults were injected, or the run was ended at its limit,
/// counts may differ by a named loss.
///
/// The text of a check has a `{}` for each count: `frames out: device sent {}, wire saw {}`.
#[derive(Debug)]
pub struct CrossCheck {
    lossy: bool,
    /// Goes in front of each message: `partition 1: `.
    pub(crate) place: String,
    /// The checks that failed, a message each.
    pub(crate) wrong: Vec<String>,
}

impl CrossCheck {
    pub(crate) fn new(faults: Option<&Report>) -> CrossCheck {
        CrossCheck { lossy: faults.is_some(), place: String::new(), wrong: Vec::new() }
    }

    /// Makes one for a run as it ended.
    pub fn of<T>(o: &RunStats<T>) -> CrossCheck {
        let lossy = o.faults.is_some() || !o.verdict.unfinished.is_empty();
        CrossCheck { lossy, ..CrossCheck::new(None) }
    }

    /// Adds what another found.
    pub(crate) fn take(&mut self, other: CrossCheck) {
        self.wrong.extend(other.wrong);
    }

    fn fail(&mut self, text: &str, counts: [u64; 2], more: &str) {
        let [a, b] = counts.map(|n| n.to_string());
        let text = text.replacen("{}", &a, 1).replacen("{}", &b, 1);
        self.wrong.push(format!("{}{text}{more}", self.place));
    }

    /// Checks that two counts are equal, with or without faults.
    pub fn same(&mut self, text: &str, a: u64, b: u64) {
        if a != b {
            self.fail(text, [a, b], "");
        }
    }

    /// Checks that `b` equals `a`, less at most `lost` where faults were injected.
    pub fn less(&mut self, text: &str, [a, b]: [u64; 2], lost: (&str, u64)) {
        if !self.lossy {
            self.same(text, a, b);
        } else if a < b || a - b > lost.1 {
            self.fail(text, [a, b], &format!(", {} {}", lost.0, lost.1));
        }
    }

    /// Checks that a count is zero, or at most `most` where faults were injected.
    pub fn none(&mut self, text: &str, count: u64, most: u64) {
        self.at_most(text, count, [0, most]);
    }

    /// Checks that a count is at most the first limit, or the second where faults were injected.
    pub fn at_most(&mut self, text: &str, count: u64, limits: [u64; 2]) {
        let most = limits[usize::from(self.lossy)];
        if count > most {
            self.fail(text, [count, 0], &format!(", allowed {most}"));
        }
    }

    /// Checks that a count is zero, with or without faults.
    pub fn never(&mut self, text: &str, count: u64) {
        if count > 0 {
            self.fail(text, [count, 0], ", allowed 0");
        }
    }

    /// Checks that everything on a platform has been closed and released. `struck` is the number of
    /// accesses that were made to fail.
    pub(crate) fn platform(&mut self, p: &Platform, struck: u64) {
        let l = &p.ledger;
        let (readable, writable) = p.memory.mapped();
        self.same("mappings: made {}, ended {}", l.maps, l.unmaps);
        self.same("buffers: taken {}, released {}", l.buffers_taken, l.buffers_released);
        self.same("translation entries: live {}, expected {}", p.live_entries().into(), 0);
        self.same("pages still lent: to read {}, expected {}", readable as u64, 0);
        self.same("pages still lent: to write {}, expected {}", writable as u64, 0);
        self.same("DMA: faults allowed {}, faults {}", struck, l.dma_faults);
        let place = &self.place;
        self.wrong.extend(standstill::of_coherent(p).map(|w| format!("{place}{w}")));
    }
}

/// A limit for losses that another check counts.
pub(crate) const ANY: u64 = u64::MAX;
