//! Counters: the MAC's, and the driver's own.
//!
//! The MAC's are 64 bits wide on newer cores, 32 on older ones, and begin at zero after
//! each reset of the core. As Linux does, the lower halves are read, and differences
//! are added up; before a reset they are collected, and after it taken from zero.

use super::hw::get;
use crate::counters::counters;
use doorbell_hal::Host;
use doorbell_layout::axienet::stat;

counters! {
    /// What the driver counts.
    Stats {
        /// Packets queued.
        tx_queued,
        /// Descriptors written.
        tx_descriptors,
        /// Checksums left to the device.
        tx_csum,
        /// Checksums completed by the CPU.
        tx_csum_software,
        /// Times TAILDESC of the transmit channel was written.
        tx_tail,
        /// Calls that found no room.
        tx_busy,
        /// Times the queue stopped.
        tx_stopped,
        /// Times it woke.
        tx_restart_queue,
        /// Packets dropped by the driver.
        tx_dropped,
        /// Packets found done.
        tx_packets,
        /// Bytes of those.
        tx_bytes,
        /// The same by the lengths in the descriptors' status.
        tx_status_bytes,
        /// Descriptors done with an error in their status.
        tx_errors,
        /// Packets handed up.
        rx_packets,
        /// Bytes of those.
        rx_bytes,
        /// Descriptors done with an error in their status.
        rx_errors,
        /// Frames whose length cannot be, or that took more than one buffer.
        rx_malformed,
        /// Buffers that could not be had.
        alloc_rx_buff_failed,
        /// Checksums found good.
        rx_csum_good,
        /// Checksums found wrong.
        rx_csum_bad,
        /// Times TAILDESC of the receive channel was written.
        rx_tail,
        /// Frames that the MAC rejected, in interrupts.
        rx_rejected,
        /// Overruns of the MAC's FIFO, in interrupts.
        rx_missed_errors,
        /// Interrupts of the transmit channel.
        tx_irqs,
        /// Interrupts of the receive channel.
        rx_irqs,
        /// Interrupts of the MAC.
        mac_irqs,
        /// Interrupts that were not ours.
        stray_irqs,
        /// Interrupts that nobody had heard, found by a look.
        missed_irqs,
        /// Hangs found.
        tx_timeouts,
        /// Frames in the ring that a reset came before.
        rx_lost,
        /// Errors of the DMA engine.
        dma_errors,
        /// Resets after those.
        recoveries,
        /// Settings of a controller brought to the device.
        moderations,
    }
}

macro_rules! hardware {
    ($($(#[doc = $doc:literal])+ $field:ident: $reg:ident,)*) => {
        counters! {
            /// What the MAC counts; all zero if it does not.
            Hardware {
                $($(#[doc = $doc])+ $field,)*
            }
        }

        /// The MAC's counters, and what they were when last looked at.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Counted {
            pub(super) total: Hardware,
            last: Last,
        }

        #[derive(Clone, Copy, Debug, Default)]
        struct Last {
            $($field: u32,)*
        }

        impl Counted {
            /// Adds what has been counted since.
            pub(super) fn collect<H: Host>(&mut self, h: &mut H) {
                $(
                    let now = get(h, stat::$reg);
                    self.total.$field += u64::from(now.wrapping_sub(self.last.$field));
                    self.last.$field = now;
                )*
            }
        }
    };
}

hardware! {
    /// Bytes received.
    rx_bytes: RX_BYTES,
    /// Bytes sent.
    tx_bytes: TX_BYTES,
    /// Good frames received.
    rx_good: RX_GOOD,
    /// Good frames sent.
    tx_good: TX_GOOD,
    /// Good broadcasts received.
    rx_broadcast: RX_BROADCAST,
    /// Good multicasts received.
    rx_multicast: RX_MULTICAST,
    /// Good broadcasts sent.
    tx_broadcast: TX_BROADCAST,
    /// Good multicasts sent.
    tx_multicast: TX_MULTICAST,
    /// Too short.
    rx_undersize: RX_UNDERSIZE,
    /// Fragments.
    rx_fragment: RX_FRAGMENT,
    /// Too long.
    rx_oversize: RX_OVERSIZE,
    /// Wrong FCS.
    rx_fcs_errors: RX_FCS_ERRORS,
    /// Wrong length field.
    rx_length_errors: RX_LENGTH_ERRORS,
    /// Pause frames received.
    rx_pause: RX_PAUSE,
    /// Pause frames sent.
    tx_pause: TX_PAUSE,
    /// Underruns.
    tx_underrun: TX_UNDERRUN_ERRORS,
    /// Single collisions.
    tx_single_collision: TX_SINGLE_COLLISION,
    /// Multiple collisions.
    tx_multiple_collision: TX_MULTIPLE_COLLISION,
    /// Deferred.
    tx_deferred: TX_DEFERRED,
    /// Late collisions.
    tx_late_collision: TX_LATE_COLLISION,
    /// Excessive collisions.
    tx_excess_collision: TX_EXCESS_COLLISION,
}

impl Counted {
    /// The core has been reset: its counters begin at zero.
    pub(super) fn restarted(&mut self) {
        self.last = Last::default();
    }

    /// What the counters hold now is not ours.
    pub(super) fn begin<H: Host>(&mut self, h: &mut H) {
        self.collect(h);
        self.total = Hardware::default();
    }
}
