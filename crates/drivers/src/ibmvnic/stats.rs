//! What the driver counts: for each queue, and for the adapter.

use crate::counters::counters;

counters! {
    /// What a queue pair counts. Of packets that [`crate::Driver::transmit`] took each is in the end one of
    /// `tx_completed`, `tx_errors`, `tx_lost`, `tx_refused` and `tx_batch_lost`.
    QueueStats {
        /// Packets that the server took; a large send is one.
        tx_packets,
        /// Bytes of those.
        tx_bytes,
        /// Of those, reported sent.
        tx_completed,
        /// Of those, reported with an error.
        tx_errors,
        /// Of those, never reported: a reset came before.
        tx_lost,
        /// Packets not sent.
        tx_dropped,
        /// Of those, for want of a buffer.
        tx_no_buffer,
        /// Of those, in a call that was refused.
        tx_refused,
        /// Of those, in a call that failed for another reason than that the server is gone, or its handle.
        tx_send_failed,
        /// Of those, batched when a reset came.
        tx_batch_lost,
        /// Packets sent in arrays (Linux: `batched_packets`).
        tx_batched,
        /// Packets sent directly (Linux: `direct_packets`).
        tx_direct,
        /// Calls of either kind (Linux: hits of `ibmvnic_tx_scrq_flush`).
        tx_flushes,
        /// Arrays sent.
        tx_arrays,
        /// Descriptors given with sends.
        tx_descriptors,
        /// Header descriptors among them.
        tx_header_descriptors,
        /// Header bytes in them.
        tx_header_bytes,
        /// Checksums left to the server.
        tx_csum,
        /// Checksums made here, so that the packet could go directly.
        tx_csum_direct,
        /// Checksums made here because the server cannot.
        tx_csum_software,
        /// Large sends left to the server.
        tx_large,
        /// Large sends segmented here.
        tx_segmented,
        /// Segments of those.
        tx_segments,
        /// Short packets padded.
        tx_padded,
        /// Times the queue stopped.
        tx_stopped,
        /// Times it woke.
        tx_wakes,
        /// Completion messages.
        tx_comp_messages,
        /// Correlators that name no packet under way.
        tx_bad_correlator,
        /// Packets handed up.
        rx_packets,
        /// Bytes of those.
        rx_bytes,
        /// Packets that the server vouches for.
        rx_csum_good,
        /// Frames that came with an error, or no frame.
        rx_errors,
        /// Completions whose frame cannot be.
        rx_malformed,
        /// Correlators that name no buffer of the server's.
        rx_bad_correlator,
        /// Frames for which there was no memory.
        rx_no_memory,
        /// Arrays of receive buffers sent.
        rx_add_arrays,
        /// Buffers in them.
        rx_added,
        /// Arrays of receive buffers that were refused.
        rx_add_failed,
        /// Completions that a reset came before.
        rx_unread,
        /// Buffers that a reset took back.
        rx_lost,
        /// Interrupts.
        irqs,
        /// Polls that found more after interrupts were on again.
        poll_rechecks,
    }
}

counters! {
    /// What an adapter counts.
    Stats {
        /// Interrupts of the CRQ.
        crq_irqs,
        /// Interrupts that were not ours.
        stray_irqs,
        /// Messages on the CRQ.
        messages,
        /// Answers that nobody waited for.
        stale_answers,
        /// Commands sent.
        commands,
        /// INITs that found the server not up.
        init_retries,
        /// Requests granted in part.
        partial_requests,
        /// Logins that had to be made again.
        login_retries,
        /// Failovers.
        failovers,
        /// Migrations.
        migrations,
        /// Errors reported by the server.
        errors,
        /// Of those, fatal.
        fatal_errors,
        /// Sends refused because the server is gone.
        closed_sends,
        /// Queues that hung.
        timeouts,
        /// Times that the link went up or down.
        link_changes,
        /// Resets begun.
        resets,
        /// Resets that failed.
        resets_failed,
        /// Long-term buffers mapped.
        maps,
        /// Long-term buffers unmapped, by request or with their session.
        unmaps,
        /// Changes of what is sent directly.
        adaptive_moves,
        /// Comparisons made for that.
        adaptive_trials,
    }
}
