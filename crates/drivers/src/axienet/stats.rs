//! Counters: the MAC's, and the driver's own.
//!
//! The MAC's are 64 bits wide on newer cores and 32 on older ones, and a reset of the core clears
//! them. As in Linux, the lower halves are read and their differences added up.

use super::regs::get;
use crate::common::counters;
use doorbell_hal::Host;
use doorbell_layout::axienet::stat;

counters! {
    /// Counters of the driver.
    Stats {
        tx_queued: "Packets queued.",
        tx_descriptors: "Descriptors written.",
        tx_csum: "Checksums left to the device.",
        tx_csum_software: "Checksums completed by the CPU.",
        tx_segmented: "Large sends segmented by the CPU.",
        tx_segments: "Segments of those.",
        tx_tail: "Times TAILDESC of the transmit channel was written.",
        tx_busy: "Calls that found no room.",
        tx_stopped: "Times the queue stopped.",
        tx_restart_queue: "Times the queue woke.",
        tx_dropped: "Packets dropped by the driver.",
        tx_packets: "Packets found done.",
        tx_bytes in Bytes: "Bytes of those.",
        tx_status_bytes in Bytes: "The same by the lengths in the descriptors' status.",
        tx_errors: "Descriptors done with an error in their status.",
        rx_packets: "Packets passed up.",
        rx_bytes in Bytes: "Bytes of those.",
        rx_errors: "Descriptors done with an error in their status.",
        rx_malformed: "Frames of an impossible length, or in more than one buffer.",
        alloc_rx_buff_failed: "Failures to allocate a buffer.",
        rx_csum_good: "Checksums found good.",
        rx_csum_bad: "Checksums found wrong.",
        rx_tail: "Times TAILDESC of the receive channel was written.",
        rx_rejected: "Frames that the MAC rejected, in interrupts.",
        rx_missed_errors: "Overruns of the MAC's FIFO, in interrupts.",
        tx_irqs: "Interrupts of the transmit channel.",
        rx_irqs: "Interrupts of the receive channel.",
        mac_irqs: "Interrupts of the MAC.",
        stray_irqs: "Interrupts of other devices.",
        missed_irqs: "Lost interrupts found by polling the status.",
        tx_timeouts: "Hangs detected.",
        rx_lost: "Frames in the ring lost in a reset.",
        dma_errors: "Errors of the DMA engine.",
        recoveries: "Resets after those.",
        moderations: "Settings of a controller written to the device.",
    }
}

counters! {
    /// The MAC's counters; all zero if it has none.
    Hardware from stat {
        rx_bytes = RX_BYTES in Bytes: "Bytes received.",
        tx_bytes = TX_BYTES in Bytes: "Bytes sent.",
        rx_good = RX_GOOD: "Good frames received.",
        tx_good = TX_GOOD: "Good frames sent.",
        rx_broadcast = RX_BROADCAST: "Good broadcasts received.",
        rx_multicast = RX_MULTICAST: "Good multicasts received.",
        tx_broadcast = TX_BROADCAST: "Good broadcasts sent.",
        tx_multicast = TX_MULTICAST: "Good multicasts sent.",
        rx_undersize = RX_UNDERSIZE: "Too short.",
        rx_fragment = RX_FRAGMENT: "Fragments.",
        rx_oversize = RX_OVERSIZE: "Too long.",
        rx_fcs_errors = RX_FCS_ERRORS: "Wrong FCS.",
        rx_length_errors = RX_LENGTH_ERRORS: "Wrong length field.",
        rx_pause = RX_PAUSE: "Pause frames received.",
        tx_pause = TX_PAUSE: "Pause frames sent.",
        tx_underrun = TX_UNDERRUN_ERRORS: "Underruns.",
        tx_single_collision = TX_SINGLE_COLLISION: "Single collisions.",
        tx_multiple_collision = TX_MULTIPLE_COLLISION: "Multiple collisions.",
        tx_deferred = TX_DEFERRED: "Deferred.",
        tx_late_collision = TX_LATE_COLLISION: "Late collisions.",
        tx_excess_collision = TX_EXCESS_COLLISION: "Excessive collisions.",
    }
}

/// The MAC's counters since it was opened, and the registers as last read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatsBaseline {
    pub(super) total: Hardware,
    last: [u32; 21],
}

impl StatsBaseline {
    /// Takes the registers as they are for zero.
    pub(super) fn new<H: Host>(h: &mut H) -> StatsBaseline {
        let mut baseline = StatsBaseline::default();
        baseline.collect(h);
        StatsBaseline { total: Hardware::default(), ..baseline }
    }

    /// Adds the counts since the last call.
    pub(super) fn collect<H: Host>(&mut self, h: &mut H) {
        let mut last = self.last.iter_mut();
        self.total.accumulate(|register| {
            let now = get(h, register);
            let before = last.next().map_or(0, |last| core::mem::replace(last, now));
            now.wrapping_sub(before).into()
        });
    }

    /// Notes a reset of the core, which clears the registers.
    pub(super) fn restarted(&mut self) {
        self.last = Default::default();
    }
}
