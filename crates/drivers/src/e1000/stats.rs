//! Counters: the controller's, named as in `ethtool -S`, and the driver's own.

use super::hw::get;
use crate::common::counters;
use doorbell_hal::Host;
use doorbell_layout::e1000::reg::stat;

counters! {
    /// Counters of the driver.
    Stats {
        tx_queued: "Packets queued, large sends once.",
        tx_descriptors: "Descriptors written, contexts included.",
        tx_contexts: "Context descriptors written.",
        tx_segmented: "Large sends segmented by the CPU.",
        tx_segments: "Segments of those.",
        tx_tso: "Large sends.",
        tx_csum: "Checksums left to the device.",
        tx_copied: "Packets copied to a slot.",
        tx_padded: "Short frames padded.",
        tx_tail: "Times TDT was written.",
        tx_busy: "Calls that found no room.",
        tx_stopped: "Times the queue stopped.",
        tx_restart_queue: "Times the queue woke.",
        tx_dropped: "Packets dropped by the driver.",
        tx_timeout_count: "Hangs detected.",
        io_errors: "Restarts after the platform saw accesses fail.",
        rx_packets: "Packets passed up.",
        rx_bytes in Bytes: "Bytes of those.",
        rx_copybreak: "Packets copied out of their buffers.",
        rx_errors: "Descriptors with frame errors.",
        rx_malformed: "Frames of more descriptors than a packet has fragments, or without data.",
        rx_lost: "Frames in the ring lost in a restart.",
        alloc_rx_buff_failed: "Failures to allocate a buffer.",
        rx_csum_offload_good: "Checksums that the device found good.",
        rx_csum_offload_errors: "Checksums that the device found wrong.",
        rx_tail: "Times RDT was written.",
        interrupts: "Interrupts of this device.",
        interrupts_stray: "Interrupts of other devices.",
        itr_writes: "Times ITR was written.",
    }
}

counters! {
    /// The controller's counters.
    Hardware from stat {
        rx_packets = GPRC: "Good packets received.",
        tx_packets = GPTC: "Good packets sent.",
        rx_total_packets = TPR: "All packets received.",
        tx_total_packets = TPT: "All packets sent.",
        rx_broadcast = BPRC: "Broadcasts received.",
        tx_broadcast = BPTC: "Broadcasts sent.",
        rx_multicast = MPRC: "Multicasts received.",
        tx_multicast = MPTC: "Multicasts sent.",
        rx_crc_errors = CRCERRS: "Wrong FCS.",
        rx_align_errors = ALGNERRC: "Wrong alignment.",
        rx_short_length_errors = RUC: "Too short.",
        rx_long_length_errors = ROC: "Too long.",
        rx_no_buffer_count = RNBC: "No descriptor.",
        rx_missed_errors = MPC: "Lost.",
        rx_flow_control_xon = XONRXC: "Pauses ended, received.",
        rx_flow_control_xoff = XOFFRXC: "Pauses received.",
        tx_flow_control_xon = XONTXC: "Pauses ended, sent.",
        tx_flow_control_xoff = XOFFTXC: "Pauses sent.",
        tx_single_coll_ok = SCC: "Single collisions.",
        tx_multi_coll_ok = MCC: "Multiple collisions.",
        tx_abort_late_coll = LATECOL: "Late collisions.",
        tx_deferred_ok = DC: "Deferred.",
        tx_tcp_seg_good = TSCTC: "Large sends done.",
        tx_tcp_seg_failed = TSCTFC: "Large sends failed.",
        rx_bytes in Bytes: "Good octets received, FCS included (GORC).",
        tx_bytes in Bytes: "Good octets sent, FCS included (GOTC).",
    }
}

impl Hardware {
    /// Adds the registers' counts; reading clears them.
    pub(super) fn collect<H: Host>(&mut self, h: &mut H) {
        self.accumulate(|register| get(h, register).into());
        // The low half first: reading the high one clears both. A card that was removed reads as
        // ones, and its counts mean nothing any more.
        self.rx_bytes = self.rx_bytes.wrapping_add(pair(h, stat::GORCL, stat::GORCH));
        self.tx_bytes = self.tx_bytes.wrapping_add(pair(h, stat::GOTCL, stat::GOTCH));
    }
}

fn pair<H: Host>(h: &mut H, low: u32, high: u32) -> u64 {
    let low = get(h, low);
    u64::from(get(h, high)) << 32 | u64::from(low)
}

/// Clears all counter registers by reading them (`e1000_clear_hw_cntrs`).
pub(super) fn clear<H: Host>(h: &mut H) {
    for r in (stat::FIRST..=stat::LAST).step_by(4) {
        get(h, r);
    }
}
