//! What is easily got wrong about the IBM virtual NIC, and the tests that hold it.

mod traps;

use traps::{Trap, hold};

const TRAPS: &[Trap] = &[
    // Hypervisor calls.
    (
        "all numbers are big-endian, on little-endian Linux too",
        &[
            "all_numbers_are_big_endian",
            "a_buffers_length_has_24_bits_and_a_correlator_all_of_its_own",
            "mtu_counts_the_ethernet_header",
            "a_direct_send_is_four_words",
        ],
    ),
    (
        "H_CLOSED of the registration says registered, with the partner not up yet, and is no error",
        &[
            "partner_comes_up_later",
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
        ],
    ),
    (
        "H_FREE_CRQ and H_ENABLE_CRQ are repeated while they are busy, after a long busy's time",
        &["a_busy_hypervisor_is_asked_again", "a_migration", "free_and_enable_may_be_busy_first"],
    ),
    ("an interrupt of before a migration is ended by H_EOI, once", &["a_migration"]),
    // The sheet has it that the client never sends the token. Linux does, to ask for a failover.
    (
        "the session's token changes with a failover; one of an earlier session asks for nothing",
        &[
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
            "a_client_may_ask_for_a_failover_with_the_token_of_its_session",
            "a_failover_that_the_client_asked_for",
        ],
    ),
    // The CRQ.
    (
        "a message has 16 bytes and a descriptor 32; both wrap, in order, without a producer index",
        &["rings_wrap", "a_full_crq_keeps_its_answers_until_there_is_room"],
    ),
    (
        "byte 0 says that there is an entry: the server writes it last, the driver reads it first, behind a fence the rest",
        &[
            "the_first_byte_of_an_entry_is_written_last",
            "receive_during_a_poll",
            "an_entry_loaded_before_its_first_byte_is_an_old_one",
        ],
    ),
    (
        "the driver clears byte 0, and only then is there room",
        &["rings_wrap", "a_full_crq_keeps_its_answers_until_there_is_room"],
    ),
    (
        "the server may be the first to say INIT, and is answered INIT_COMPLETE",
        &[
            "partner_comes_up_later",
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
        ],
    ),
    (
        "INIT is tried 100 times, 50 ms apart, while the partner is not up",
        &["partner_comes_up_later", "partner_never_comes"],
    ),
    (
        "INIT is answered within 20 s, any other command within 10 s, or given up",
        &["a_silent_server_is_given_up"],
    ),
    (
        "an answer is the command with bit 7 set; its code is at offset 12",
        &[
            "return_codes_are_at_offset_12",
            "all_numbers_are_big_endian",
            "what_comes_out_of_order_is_answered_so",
        ],
    ),
    ("a transport event that is neither 6 nor 8 is fatal", &["an_unknown_event_is_fatal"]),
    (
        "answers and what the server says unasked share the CRQ",
        &[
            "an_indication_during_a_command_is_not_its_answer",
            "a_failover_during_a_failover",
            "the_link",
            "errors",
        ],
    ),
    (
        "one command at a time waits for its answer, but queries are pipelined, and all are waited for",
        &[
            "queries_are_pipelined_and_all_else_waits",
            "queries_come_back_in_order_and_the_bitstring_is_bytes_not_a_number",
        ],
    ),
    (
        "an error that is not fatal leaves the session, a fatal one ends it",
        &[
            "errors",
            "an_error_that_is_not_fatal_leaves_the_session",
            "a_backing_device_that_needs_headers_ends_the_session_without_them",
        ],
    ),
    ("VLAN_CTRL is nobody's", &["what_comes_out_of_order_is_answered_so"]),
    // Bringing it up.
    (
        "the order: version, 25 queries in Linux's order, requests, offloads, queues, login, VPD, maps, link",
        &["bring_up_in_order", "what_comes_out_of_order_is_answered_so"],
    ),
    (
        "the client offers version 1 and takes what comes back",
        &[
            "bring_up_in_order",
            "queries_come_back_in_order_and_the_bitstring_is_bytes_not_a_number",
        ],
    ),
    (
        "a request granted in part is adopted, and all requests are made again; the MTU goes back to what it was",
        &[
            "partial_success_asks_for_all_again",
            "what_cannot_be_granted_is_a_partial_success_with_what_can",
        ],
    ),
    (
        "promiscuous reception is not requested where it is wanted and cannot be had",
        &["promiscuous_is_not_requested_where_it_cannot_be_had"],
    ),
    (
        "capabilities of MTUs count the Ethernet header",
        &[
            "mtu_counts_the_ethernet_header",
            "queries_come_back_in_order_and_the_bitstring_is_bytes_not_a_number",
        ],
    ),
    (
        "QUERY_IP_OFFLOAD has length and address, CONTROL_IP_OFFLOAD address and length",
        &[
            "query_and_control_of_ip_offload_have_address_and_length_the_other_way_round",
            "ip_offload_query_and_control_have_address_and_length_in_opposite_order",
            "ip_offload_has_both_orders",
        ],
    ),
    (
        "an offload that is not offered is not switched on",
        &[
            "offloads_that_are_not_offered_cannot_be_switched_on",
            "offloads_that_were_not_switched_on_are_refused",
            "checksums_the_server_cannot_make",
        ],
    ),
    (
        "large sends take their bit and a length that is not 0",
        &["large_sends_need_the_bit_a_length_and_a_slot"],
    ),
    (
        "a login names each registered queue once, as many as were granted",
        &["login_names_registered_queues_once_each"],
    ),
    (
        "handles are opaque and have 64 bits, one for each queue of the login",
        &[
            "login_returns_a_handle_for_each_queue",
            "login_with_fewer_queues",
            "queues_share_the_flows",
        ],
    ),
    (
        "a login for more queues than there are is PARTIALSUCCESS: queues are freed, capabilities requested again with fewer",
        &[
            "login_with_more_queues_than_are_left_is_a_partial_success_and_may_be_tried_again",
            "login_with_fewer_queues",
        ],
    ),
    (
        "receive buffers are as long as the login's answer says",
        &["login_returns_a_handle_for_each_queue", "frames_come_up"],
    ),
    // Descriptors and headers.
    (
        "fields lie where Linux has them",
        &[
            "descriptors_lie_as_linux_has_them",
            "offload_buffers_lie_as_linux_has_them",
            "all_numbers_are_big_endian",
        ],
    ),
    // The sheet has it that an ioba is an offset. Linux sends an address, that of the long-term
    // buffer and the offset.
    (
        "an ioba in a descriptor to send is an address in the long-term buffer that the map id names",
        &[
            "the_address_is_inside_the_long_term_buffer",
            "a_direct_send_is_four_words",
            "long_term_buffers",
        ],
    ),
    (
        "so it is in a receive buffer's",
        &["a_buffer_outside_its_long_term_buffer_comes_back_with_a_code", "long_term_buffers"],
    ),
    (
        "what is sent stays in its slot, and what comes in its buffer",
        &[
            "large_sends_need_the_bit_a_length_and_a_slot",
            "mtu_counts_the_ethernet_header",
            "frames_come_up",
        ],
    ),
    (
        "bit 31 of a correlator is data to the server; to the driver it is the pool of large sends",
        &[
            "bit_31_of_a_correlator_comes_back_as_it_was",
            "large_sends",
            "completions_come_in_any_order",
        ],
    ),
    (
        "n_crq_elem counts the descriptor and its header descriptors, which follow at once",
        &[
            "an_array_of_the_wrong_shape_is_refused_whole",
            "headers_byte_for_byte",
            "arrays_of_sixteen",
        ],
    ),
    (
        "the flag of a header descriptor is the request's byte shifted left by one",
        &["headers_are_compared_byte_for_byte", "headers_byte_for_byte"],
    ),
    (
        "the header request is bytes in the order of the wire, never a number: 0 plain, 2 checksum, 4 large send",
        &[
            "queries_come_back_in_order_and_the_bitstring_is_bytes_not_a_number",
            "each_kind_of_packet_has_its_own_byte_of_the_bitstring",
            "headers_byte_for_byte",
        ],
    ),
    (
        "bit 7 says whether any are wanted, whatever the others say",
        &[
            "without_bit_7_there_are_no_headers",
            "adaptive_reads_the_request",
            "inspect_wants_a_byte_of_nothing",
        ],
    ),
    (
        "selected lengths are added up and so many bytes sent from the first on: 24, then 29 each",
        &[
            "headers_are_compared_byte_for_byte",
            "headers_byte_for_byte",
            "header_lengths_follow_ihl_and_data_offset",
        ],
    ),
    (
        "lengths follow IHL and data offset; a tag counts, and ARP has 28",
        &["header_lengths_follow_ihl_and_data_offset", "headers_byte_for_byte"],
    ),
    // Sending.
    (
        "a frame is copied whole, whatever its pieces; a short one is padded, and not with what was there before",
        &["frames_arrive_intact", "short_frames_are_padded"],
    ),
    (
        "padding is not in the checksum",
        &["checksums_are_completed_and_padding_is_not_summed", "frames_arrive_intact"],
    ),
    (
        "without a free slot a packet is dropped, and what is batched goes",
        &["an_empty_pool_drops_and_flushes"],
    ),
    (
        "an array has 16 descriptors; what does not fit flushes first, nothing more coming flushes",
        &["arrays_of_sixteen", "an_array_of_the_wrong_shape_is_refused_whole"],
    ),
    (
        "a queue stops at the descriptors granted, those of headers too, and flushes; it wakes at half",
        &["a_queue_that_stops_flushes_and_counts_descriptors", "stop_and_wake"],
    ),
    (
        "the driver looks only afterwards, so the server takes one array more",
        &["a_queue_takes_what_was_granted_and_one_array_more"],
    ),
    (
        "a tag is inserted by a server that does it, told when it is in the frame",
        &["tags", "a_tag_is_inserted"],
    ),
    (
        "a direct send is four words and nothing is read for it; an indirect one is an address and a count",
        &[
            "a_direct_send_reads_no_descriptor_and_an_indirect_one_reads_its_array",
            "a_direct_send_is_four_words",
        ],
    ),
    (
        "a packet goes directly when nothing is batched, no more is coming, and it is no large send",
        &["direct_only_when_alone", "the_four_states"],
    ),
    (
        "the four states of the driver: what goes directly, who sums, which headers go",
        &["the_four_states", "the_three_cases_count_as_the_source_says"],
    ),
    (
        "the software checksum is made before the copy, and CHKSUM_OFFLOAD stays clear",
        &["a_direct_send_is_four_words", "frames_arrive_intact"],
    ),
    (
        "when it cannot be made the packet goes in an array",
        &["a_checksum_that_fails_goes_in_an_array"],
    ),
    (
        "a server that is over-cautious works without headers; one that needs them ends the session",
        &[
            "checksums_are_completed_and_padding_is_not_summed",
            "a_backing_device_that_needs_headers_ends_the_session_without_them",
            "ignoring_headers_ends_the_session_where_they_are_needed",
        ],
    ),
    (
        "so it does at a plain packet, sent directly, when byte 0 asks for headers",
        &[
            "a_bitstring_that_wants_headers_of_plain_packets_fails_a_direct_send_of_one",
            "ignoring_headers_ends_the_session_where_they_are_needed",
        ],
    ),
    (
        "there is no status for one entry: a refused array is dropped whole, and handed back",
        &["a_refused_send_drops_its_batch", "an_array_of_the_wrong_shape_is_refused_whole"],
    ),
    (
        "H_CLOSED stops all queues and is no failure, nor is H_PARAMETER; all else is, and the queue goes on",
        &["a_refused_send_drops_its_batch"],
    ),
    // Completions and interrupts.
    (
        "up to five correlators a message, in the order that the server likes",
        &["completions_come_up_to_five_a_message", "completions_come_in_any_order"],
    ),
    (
        "one descriptor with COMP_NEEDED is one correlator, a large send too; without it there is none",
        &[
            "a_large_send_is_cut_and_reported_once",
            "a_descriptor_that_wants_no_completion_gets_none_and_its_room_back",
            "every_frame_is_reported_once",
        ],
    ),
    (
        "an error in a completion is counted, and the slot comes back",
        &["an_error_in_a_completion_gives_the_slot_back"],
    ),
    (
        "interrupt off, poll, on, and look again: what came in between is polled",
        &["interrupts", "what_lands_before_the_interrupt_is_on_is_found"],
    ),
    // Receiving.
    (
        "a receive buffer's length has 24 bits, its correlator 64",
        &["a_buffers_length_has_24_bits_and_a_correlator_all_of_its_own"],
    ),
    (
        "buffers go by the call of indirect sends, which its count includes: below half a pool, up to sixteen a call",
        &[
            "a_pool_is_filled_below_half",
            "the_older_rule_fills_at_each_poll",
            "whole_arrays_of_sixteen",
            "a_frame_lies_in_the_next_buffer_with_its_correlator",
            "the_three_cases_count_as_the_source_says",
        ],
    ),
    ("a refused array of buffers stays with the driver", &["a_refused_array_is_given_again"]),
    (
        "a completion with a code has no frame",
        &[
            "a_buffer_with_a_code_has_no_frame",
            "a_buffer_outside_its_long_term_buffer_comes_back_with_a_code",
        ],
    ),
    (
        "a frame begins at off_frame_data of its buffer",
        &["frames_come_up", "a_frame_lies_in_the_next_buffer_with_its_correlator"],
    ),
    (
        "a frame is vouched for with both flags, never with one",
        &["verified_takes_both_flags", "checksum_flags_say_what_was_found_right"],
    ),
    (
        "a tag is beside the frame where the flag says that it was taken out",
        &["a_stripped_tag_comes_beside", "a_tag_is_taken_out_and_told"],
    ),
    // Long-term buffers and the end of a session.
    (
        "a long-term buffer has 8 MiB at the most, in whole slots, and a pool 38 MiB",
        &["long_term_buffers", "a_pool_has_38_mib_at_the_most"],
    ),
    (
        "map ids are 1 to 254",
        &["map_ids_are_1_to_254_and_come_back", "a_long_term_buffer_is_walked_page_by_page"],
    ),
    ("each map is waited for", &["queries_are_pipelined_and_all_else_waits"]),
    (
        "the server unmaps at a failover, a migration, a timeout, and is not asked to",
        &[
            "a_failover",
            "a_migration",
            "a_hung_queue_is_reset",
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
            "after_a_migration_the_crq_is_off_until_it_is_enabled",
        ],
    ),
    (
        "a failover is an event, H_CLOSED, and the other server's INIT; nothing is lost uncounted",
        &[
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
            "a_failover",
            "failover_under_load",
            "a_failover_at_any_moment_loses_nothing_uncounted",
        ],
    ),
    (
        "after a migration the CRQ is enabled, not registered, and goes on where it was",
        &["after_a_migration_the_crq_is_off_until_it_is_enabled", "a_migration", "rings_wrap"],
    ),
    (
        "a handle of an earlier session is stale",
        &[
            "a_backing_device_that_needs_headers_ends_the_session_without_them",
            "a_failover_is_an_event_then_h_closed_then_the_other_servers_init",
        ],
    ),
    ("a queue that is stopped for 5 s is reset", &["a_hung_queue_is_reset"]),
    ("whatever a client does is answered", &["any_message_length_and_order_is_answered"]),
];

#[test]
fn every_trap_has_its_tests() {
    hold(
        TRAPS,
        &[
            "layout/src/ibmvnic.rs",
            "drivers/src/ibmvnic",
            "devices/src/vnic",
            "conformance/src/ibmvnic",
            "conformance/tests/ibmvnic_model.rs",
            "lab/src/ibmvnic",
        ],
    );
}
