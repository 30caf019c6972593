//! Counters of the driver. Names are ethtool's where Linux has one.

use crate::common::counters;

counters! {
    /// Counters of the driver.
    Stats {
        replenish_task_cycles: "Walks over the pools.",
        replenish_no_mem: "Failures to allocate or map a buffer.",
        replenish_add_buff_failure: "Buffers that the hypervisor did not take.",
        replenish_add_buff_success: "Buffers lent.",
        replenish_multi_calls: "Calls that lend more than one buffer.",
        rx_invalid_buffer: "Buffers that came back unusable.",
        rx_no_buffer: "Frames lost because no buffer fitted: the hypervisor's count.",
        rx_bad_correlator: "Entries whose correlator names no lent buffer.",
        rx_malformed: "Entries with an impossible frame.",
        rx_unread: "Frames in the receive queue when the adapter was closed.",
        rx_packets: "Packets passed up.",
        rx_bytes in Bytes: "Bytes of those.",
        rx_copied: "Packets copied, their buffers lent again.",
        rx_large_packets: "Large packets.",
        rx_csum_good: "Packets whose checksum the sender vouches for.",
        rx_csum_partial: "Packets without checksum, passed up as CHECKSUM_PARTIAL.",
        tx_packets: "Frames given to the hypervisor; a large send is one.",
        tx_bytes in Bytes: "Bytes of those.",
        tx_dropped: "Packets not sent.",
        tx_loopback: "Packets to the own address, which are not sent.",
        tx_send_failed: "Sends that failed.",
        tx_hypervisor_dropped: "Sends that the hypervisor dropped; they count as sent.",
        tx_busy: "Sends repeated because the hypervisor was busy.",
        tx_map_failed: "Mappings that failed; the packet was copied then.",
        tx_linearized: "Packets made linear.",
        tx_copied: "Packets copied to the mapped buffer.",
        tx_descriptors: "Descriptors given with sends.",
        tx_large_packets: "Large sends left to the firmware.",
        tx_segmented: "Large sends segmented by software.",
        tx_segments: "Segments of those.",
        tx_csum: "Checksums left out.",
        tx_csum_software: "Checksums completed by the CPU.",
        irqs: "Interrupts.",
        stray_irqs: "Interrupts of other devices.",
        poll_rechecks: "Polls that found more after interrupts were on again.",
        reopened: "Times the adapter was closed and opened again.",
    }
}
