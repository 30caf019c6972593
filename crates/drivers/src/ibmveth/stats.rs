//! What the driver counts. Names are ethtool's where Linux has one.

use crate::counters::counters;

counters! {
    /// What the driver counts.
    Stats {
        /// Walks over the pools.
        replenish_task_cycles,
        /// Buffers that could not be had or mapped.
        replenish_no_mem,
        /// Buffers that the hypervisor did not take.
        replenish_add_buff_failure,
        /// Buffers lent.
        replenish_add_buff_success,
        /// Calls that lend more than one buffer.
        replenish_multi_calls,
        /// Buffers that came back unusable.
        rx_invalid_buffer,
        /// Frames lost because no buffer fitted: the hypervisor's count.
        rx_no_buffer,
        /// Entries whose correlator names no lent buffer.
        rx_bad_correlator,
        /// Entries whose frame cannot be.
        rx_malformed,
        /// Frames in the receive queue when the adapter was closed.
        rx_unread,
        /// Packets handed up.
        rx_packets,
        /// Bytes of those.
        rx_bytes,
        /// Packets copied, their buffers lent again.
        rx_copied,
        /// Large packets.
        rx_large_packets,
        /// Packets that the sender vouches for.
        rx_csum_good,
        /// Packets whose checksum was left out by the sender, and is now noted as to do.
        rx_csum_partial,
        /// Frames given to the hypervisor; a large send is one.
        tx_packets,
        /// Bytes of those.
        tx_bytes,
        /// Packets not sent.
        tx_dropped,
        /// Packets to the own address, which are not sent.
        tx_loopback,
        /// Sends that failed.
        tx_send_failed,
        /// Sends that the hypervisor dropped; they count as sent.
        tx_hypervisor_dropped,
        /// Sends repeated because the hypervisor was busy.
        tx_busy,
        /// Mappings that failed; the packet was copied then.
        tx_map_failed,
        /// Packets made linear.
        tx_linearized,
        /// Packets copied to the mapped buffer.
        tx_copied,
        /// Descriptors given with sends.
        tx_descriptors,
        /// Large sends left to the firmware.
        tx_large_packets,
        /// Large sends segmented by software.
        tx_segmented,
        /// Segments of those.
        tx_segments,
        /// Checksums left out.
        tx_csum,
        /// Checksums completed by the CPU.
        tx_csum_software,
        /// Interrupts.
        irqs,
        /// Interrupts that were not ours.
        stray_irqs,
        /// Polls that found more after interrupts were on again.
        poll_rechecks,
        /// Times the adapter was closed and opened again.
        reopened,
    }
}
