//! Counters: the controller's, named as in `ethtool -S`, and the driver's own.

use super::hw::get;
use crate::counters::counters;
use doorbell_hal::Host;
use doorbell_layout::e1000::reg::stat;

counters! {
    /// What the driver counts.
    Stats {
        /// Packets queued, large sends once.
        tx_queued,
        /// Descriptors written, contexts included.
        tx_descriptors,
        /// Context descriptors written.
        tx_contexts,
        /// Large sends.
        tx_tso,
        /// Checksums left to the device.
        tx_csum,
        /// Packets copied to a slot.
        tx_copied,
        /// Short frames padded.
        tx_padded,
        /// Times TDT was written.
        tx_tail,
        /// Calls that found no room.
        tx_busy,
        /// Times the queue stopped.
        tx_stopped,
        /// Times it woke.
        tx_restart_queue,
        /// Packets dropped by the driver.
        tx_dropped,
        /// Hangs found.
        tx_timeout_count,
        /// Restarts after the platform saw accesses fail.
        io_errors,
        /// Packets handed up.
        rx_packets,
        /// Bytes of those.
        rx_bytes,
        /// Copied out of their buffers.
        rx_copybreak,
        /// Descriptors with frame errors.
        rx_errors,
        /// Frames with more descriptors than a packet has pieces, or without data.
        rx_malformed,
        /// Frames in the ring that a restart came before.
        rx_lost,
        /// Buffers that could not be had.
        alloc_rx_buff_failed,
        /// Checksums that the device found good.
        rx_csum_offload_good,
        /// Checksums that it found wrong.
        rx_csum_offload_errors,
        /// Times RDT was written.
        rx_tail,
        /// Interrupts that were ours.
        interrupts,
        /// Interrupts that were not.
        interrupts_stray,
        /// Times ITR was written.
        itr_writes,
    }
}

macro_rules! hardware {
    ($($(#[doc = $doc:literal])+ $field:ident: $reg:ident,)*) => {
        counters! {
            /// What the controller counts.
            Hardware {
                $($(#[doc = $doc])+ $field,)*
                /// Good octets received, FCS included (GORC).
                rx_bytes,
                /// Good octets sent, FCS included (GOTC).
                tx_bytes,
            }
        }

        impl Hardware {
            /// Adds what the registers hold, which clears them; the rest of the
            /// block is read too, and lost.
            pub(super) fn collect<H: Host>(&mut self, h: &mut H) {
                $(self.$field += u64::from(get(h, stat::$reg));)*
                // The low half first: reading the high one clears both.
                self.rx_bytes += pair(h, stat::GORCL, stat::GORCH);
                self.tx_bytes += pair(h, stat::GOTCL, stat::GOTCH);
            }
        }
    };
}

hardware! {
    /// Good packets received.
    rx_packets: GPRC,
    /// Good packets sent.
    tx_packets: GPTC,
    /// All packets received.
    rx_total_packets: TPR,
    /// All packets sent.
    tx_total_packets: TPT,
    /// Broadcasts received.
    rx_broadcast: BPRC,
    /// Broadcasts sent.
    tx_broadcast: BPTC,
    /// Multicasts received.
    rx_multicast: MPRC,
    /// Multicasts sent.
    tx_multicast: MPTC,
    /// Wrong FCS.
    rx_crc_errors: CRCERRS,
    /// Wrong alignment.
    rx_align_errors: ALGNERRC,
    /// Too short.
    rx_short_length_errors: RUC,
    /// Too long.
    rx_long_length_errors: ROC,
    /// No descriptor.
    rx_no_buffer_count: RNBC,
    /// Lost.
    rx_missed_errors: MPC,
    /// Pauses ended, received.
    rx_flow_control_xon: XONRXC,
    /// Pauses received.
    rx_flow_control_xoff: XOFFRXC,
    /// Pauses ended, sent.
    tx_flow_control_xon: XONTXC,
    /// Pauses sent.
    tx_flow_control_xoff: XOFFTXC,
    /// Single collisions.
    tx_single_coll_ok: SCC,
    /// Multiple collisions.
    tx_multi_coll_ok: MCC,
    /// Late collisions.
    tx_abort_late_coll: LATECOL,
    /// Deferred.
    tx_deferred_ok: DC,
    /// Large sends done.
    tx_tcp_seg_good: TSCTC,
    /// Large sends failed.
    tx_tcp_seg_failed: TSCTFC,
}

fn pair<H: Host>(h: &mut H, low: u32, high: u32) -> u64 {
    let low = get(h, low);
    u64::from(get(h, high)) << 32 | u64::from(low)
}

/// Clears all of the block by reading it (`e1000_clear_hw_cntrs`).
pub(super) fn clear<H: Host>(h: &mut H) {
    for r in (stat::FIRST..=stat::LAST).step_by(4) {
        get(h, r);
    }
}
