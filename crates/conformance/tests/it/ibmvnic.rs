//! The ibmvnic driver on our own vNIC server, and on a CPU that reorders stores and loads.

use doorbell_conformance::ibmvnic::{self as cases, reordered, system};
use doorbell_hal::{Fence, Span};
use doorbell_testkit::reorder::Order;

const ORDERS: [Order; 4] = [Order::Late, Order::Overtaken, Order::Random(1), Order::Random(2)];

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            cases::$name(system);
        })*
    };
}

cases! {
    bring_up_in_order queries_are_pipelined_and_all_else_waits
    promiscuous_is_not_requested_where_it_cannot_be_had
    a_silent_server_is_given_up a_busy_hypervisor_is_asked_again a_pool_has_38_mib_at_the_most
    ip_offload_has_both_orders partial_success_asks_for_all_again mtu_counts_the_ethernet_header
    login_with_fewer_queues partner_comes_up_later partner_never_comes rings_wrap long_term_buffers
    a_refusal_leaves_nothing address_filter_and_statistics
    frames_arrive_intact short_frames_are_padded tags large_sends
    large_sends_need_the_bit_a_length_and_a_slot arrays_of_sixteen stop_and_wake
    a_queue_that_stops_flushes_and_counts_descriptors completions_come_in_any_order
    an_empty_pool_drops_and_flushes bytes_count_until_completion what_is_lost_owes_no_bytes
    a_refused_send_drops_its_batch a_refused_batch_wakes_its_queue
    an_error_in_a_completion_gives_the_slot_back
    checksums_the_server_cannot_make a_hung_queue_is_reset
    the_four_states direct_only_when_alone a_direct_send_is_four_words
    a_checksum_that_fails_goes_in_an_array headers_byte_for_byte
    without_bit_7_there_are_no_headers header_lengths_follow_ihl_and_data_offset
    ignoring_headers_ends_the_session_where_they_are_needed adaptive_reads_the_request
    inspect_wants_a_byte_of_nothing
    frames_come_up verified_takes_both_flags a_stripped_tag_comes_beside
    a_pool_is_filled_below_half the_older_rule_fills_at_each_poll whole_arrays_of_sixteen
    a_refused_array_is_given_again a_queue_that_opened_without_buffers_gets_some
    without_buffers_frames_are_lost interrupts receive_during_a_poll
    what_lands_before_the_interrupt_is_on_is_found a_buffer_with_a_code_has_no_frame
    queues_share_the_flows a_failover a_failover_during_a_failover
    a_failover_that_the_client_asked_for a_migration errors the_link
    an_unknown_event_is_fatal an_indication_during_a_command_is_not_its_answer
}

/// Some five hundred failovers, which differ in where they fall among 13 places of a send.
#[test]
fn failover_under_load() {
    cases::failover_under_load(system, Span::from_ms(6_000));
}

mod reordering {
    use super::*;

    macro_rules! in_every_order {
        ($($name:ident)*) => {
            $(#[test]
            fn $name() {
                for order in ORDERS {
                    cases::$name(reordered(order, None));
                }
            })*
        };
    }

    in_every_order! {
        bring_up_in_order frames_arrive_intact tags large_sends arrays_of_sixteen
        a_refused_send_drops_its_batch
        the_four_states frames_come_up a_pool_is_filled_below_half interrupts receive_during_a_poll
        a_failover a_migration errors
    }

    #[test]
    fn failover_under_load() {
        for order in ORDERS {
            cases::failover_under_load(reordered(order, None), Span::from_ms(60));
        }
    }

    /// The rest of an entry was loaded before the byte that says that it is there.
    #[test]
    #[should_panic(expected = "landed during a poll")]
    fn an_entry_loaded_before_its_first_byte_is_an_old_one() {
        cases::receive_during_a_poll(reordered(Order::Random(1), Some(Fence::DmaRead)));
    }
}
