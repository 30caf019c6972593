//! The ibmvnic driver and our own vNIC server, exactly on limits.

use doorbell_conformance::ibmvnic::{self as cases, system};

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            cases::$name(system);
        })*
    };
}

cases! {
    a_long_busy_call_waits_as_long_as_it_is_told an_interrupt_is_ended_with_its_priority
    a_received_frame_is_inside_its_buffer without_memory_a_frame_is_lost
    a_correlator_names_a_packet_under_way a_packet_is_as_long_as_the_mtu_and_a_tag
    a_checksum_that_is_elsewhere_is_made_here adaptive_sends_directly_what_needs_no_headers
    a_failover_counts_what_it_ends long_term_buffers_outlive_a_failover segments_are_counted
    a_poisoned_report_is_an_error mixed_traffic_is_counted_once_on_each_side
}
