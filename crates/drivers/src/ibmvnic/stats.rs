//! Counters of the driver: for each queue, and for the adapter.

use crate::common::counters;

counters! {
    /// Counters of a queue pair. Each packet that [`crate::Driver::transmit`] took ends in one of
    /// `tx_completed`, `tx_errors`, `tx_lost`, `tx_refused` and `tx_batch_lost`.
    QueueStats {
        tx_packets: "Packets that the server took; a large send is one.",
        tx_bytes in Bytes: "Bytes of those.",
        tx_completed: "Of those, reported sent.",
        tx_errors: "Of those, reported with an error.",
        tx_lost: "Of those, never reported because of a reset.",
        tx_dropped: "Packets not sent.",
        tx_no_buffer: "Of those, without a free buffer.",
        tx_refused: "Of those, in a call that was refused.",
        tx_send_failed: "Of those, in a call that failed other than by a lost server or handle.",
        tx_batch_lost: "Of those, batched at a reset.",
        tx_batched: "Packets sent in arrays (Linux: `batched_packets`).",
        tx_direct: "Packets sent directly (Linux: `direct_packets`).",
        tx_flushes: "Calls of either kind (Linux: hits of `ibmvnic_tx_scrq_flush`).",
        tx_arrays: "Arrays sent.",
        tx_descriptors: "Descriptors given with sends.",
        tx_header_descriptors: "Header descriptors among them.",
        tx_header_bytes in Bytes: "Header bytes in them.",
        tx_csum: "Checksums left to the server.",
        tx_csum_direct: "Checksums made here, so that the packet could go directly.",
        tx_csum_software: "Checksums made here because the server cannot.",
        tx_large: "Large sends left to the server.",
        tx_segmented: "Large sends segmented here.",
        tx_segments: "Segments of those.",
        tx_padded: "Short packets padded.",
        tx_stopped: "Times the queue stopped.",
        tx_wakes: "Times the queue woke.",
        tx_comp_messages: "Completion messages.",
        tx_bad_correlator: "Correlators that name no packet under way.",
        rx_packets: "Packets passed up.",
        rx_bytes in Bytes: "Bytes of those.",
        rx_csum_good: "Packets that the server vouches for.",
        rx_errors: "Completions with an error.",
        rx_malformed: "Completions with an impossible frame.",
        rx_bad_correlator: "Correlators that name no buffer of the server's.",
        rx_no_memory: "Frames for which there was no memory.",
        rx_add_arrays: "Arrays of receive buffers sent.",
        rx_added: "Buffers in them.",
        rx_add_failed: "Arrays of receive buffers that were refused.",
        rx_unread: "Completions of frames lost in a reset.",
        rx_lost: "Buffers that a reset took back.",
        irqs: "Interrupts.",
        poll_rechecks: "Polls that found more after interrupts were on again.",
    }
}

counters! {
    /// Counters of an adapter.
    Stats {
        crq_irqs: "Interrupts of the CRQ.",
        stray_irqs: "Interrupts of other devices.",
        messages: "Messages on the CRQ.",
        stale_answers: "Answers that nobody waited for.",
        commands: "Commands sent.",
        init_retries: "INITs sent while the server was not up.",
        partial_requests: "Requests granted in part.",
        login_retries: "Logins repeated.",
        failovers: "Failovers.",
        migrations: "Migrations.",
        errors: "Errors reported by the server.",
        fatal_errors: "Of those, fatal.",
        closed_sends: "Sends refused because the server was gone.",
        timeouts: "Queues that hung.",
        link_changes: "Times the link went up or down.",
        resets: "Resets begun.",
        resets_failed: "Resets that failed.",
        maps: "Long-term buffers mapped.",
        unmaps: "Long-term buffers unmapped, by request or with their session.",
        adaptive_moves: "Changes of the break-even size.",
        adaptive_trials: "Trials of other sizes.",
    }
}
