//! What is easily got wrong about the logical LAN, and the tests that hold it.

mod traps;

use traps::{Trap, hold};

const TRAPS: &[Trap] = &[
    // Receiving.
    (
        "a buffer's first 8 bytes are the driver's correlator, come back as they are, and are not written over",
        &[
            "a_frame_lies_behind_the_correlator_which_stays",
            "a_single_buffer_goes_by_the_single_call_and_the_correlator_names_its_place",
        ],
    ),
    (
        "an entry is big-endian, a descriptor one register",
        &["an_entry_is_big_endian", "a_descriptor_is_one_register"],
    ),
    (
        "the toggle begins as 1 and turns at each wrap: what is old stays old, and zeros are nothing for one lap only",
        &[
            "the_toggle_begins_as_one_and_turns_at_each_wrap",
            "the_toggle_turns_with_each_lap_and_the_list_shows_it",
        ],
    ),
    (
        "the toggle is the hypervisor's: one that the driver registers turns nothing",
        &["a_toggle_from_the_driver_turns_nothing"],
    ),
    ("an entry's control byte is written last", &["the_entrys_control_byte_is_written_last"]),
    (
        "an entry without VALID brings its buffer back and no frame",
        &[
            "an_invalid_entry_only_brings_the_buffer_back",
            "a_buffer_that_is_gone_when_it_is_used_comes_back_without_a_frame",
        ],
    ),
    (
        "slots are one and those of all five pools, the inactive too",
        &[
            "slots_count_all_five_pools_the_inactive_too",
            "an_mtu_activates_pools_up_to_the_first_that_holds_it",
        ],
    ),
    (
        "the list's last word counts frames without a buffer, and begins anew with a registration",
        &[
            "without_a_buffer_the_frame_is_lost_and_the_lists_last_word_counts",
            "the_drop_counter_is_the_last_word_of_the_page_and_goes_on_after_a_reopening",
            "a_page_holds_509_buffers_and_the_drop_counter",
        ],
    ),
    (
        "the list begins with queue and filter",
        &["the_buffer_list_begins_with_queue_and_filter_and_is_otherwise_empty"],
    ),
    (
        "the smallest buffer that holds the frame and 8 bytes is taken",
        &[
            "the_smallest_buffer_that_holds_frame_and_correlator_is_used",
            "the_smallest_that_fits_is_taken_and_the_oldest_of_those",
        ],
    ),
    (
        "pools are filled from the largest, eight at a time, a single one by the single call",
        &[
            "the_largest_pool_is_filled_first_eight_at_a_time",
            "a_single_buffer_goes_by_the_single_call_and_the_correlator_names_its_place",
            "without_the_attribute_buffers_go_one_at_a_time",
        ],
    ),
    (
        "eight are added all or none, and only with the attribute; H_FUNCTION is for good",
        &[
            "eight_buffers_are_added_at_once_all_or_none",
            "adding_several_is_no_function_without_the_attribute",
            "h_function_of_the_multiple_call_falls_back_to_single_ones_for_good",
        ],
    ),
    (
        "pools are filled again below seven eighths; a refused buffer is counted, and given again",
        &[
            "pools_are_filled_again_below_seven_eighths",
            "a_refused_buffer_is_counted_and_given_back",
        ],
    ),
    (
        "below 128 bytes a frame is copied and its buffer stays",
        &["below_the_copybreak_the_buffer_stays_and_above_it_goes_up"],
    ),
    (
        "interrupt on, and look again: what came in between is polled",
        &[
            "a_frame_between_the_last_look_and_the_enabling_call_is_found_by_the_second_look",
            "interrupts_are_off_until_the_poll_has_ended_and_the_queue_is_looked_at_again",
        ],
    ),
    (
        "NO_CSUM and CSUM_GOOD are what the sender says: a checksum left out is left to whoever forwards it",
        &[
            "a_checksum_left_out_becomes_the_pseudo_header_sum_and_is_noted",
            "a_frame_with_its_checksum_is_left_alone_and_verified_if_the_sender_vouches",
            "a_good_checksum_is_passed_on_as_good_to_who_has_agreed",
        ],
    ),
    (
        "padding is not summed",
        &["a_padded_frame_is_cut_to_its_datagram_before_its_checksum_is_left_to_others"],
    ),
    (
        "a large packet has its mss at byte 8, and the offset leads behind it",
        &[
            "the_mss_of_a_large_packet_is_beside_the_correlator_and_the_offset_leads_behind_it",
            "a_large_packet_has_its_mss_in_front_and_the_mark",
            "a_large_packet_needs_room_for_the_mss_too",
        ],
    ),
    (
        "the old large send has 0xffff in IP's checksum and the mss in TCP's, within the MTU too, and goes no further so",
        &[
            "the_old_signature_never_leaves_the_ip_header_is_right_again",
            "the_old_signature_counts_in_a_frame_within_the_mtu_too",
            "beyond_the_mtu_the_segment_size_is_in_the_checksum",
            "the_old_large_send_goes_through_as_it_is",
        ],
    ),
    ("what is not TCP is not large", &["what_is_not_tcp_is_not_large_however_long"]),
    // Sending.
    (
        "a modern driver sends one descriptor, an old one up to six, each with the flags",
        &[
            "a_modern_driver_sends_exactly_one_descriptor_and_an_old_one_each_segment_with_its_flags",
            "more_than_six_pieces_are_linearised_and_so_is_a_list",
        ],
    ),
    (
        "descriptors are taken up to the first without VALID, six at the most, and are one frame",
        &["six_descriptors_are_one_frame_and_the_first_invalid_ends_them"],
    ),
    (
        "a modern driver copies a fragment list too; an old one makes it linear",
        &[
            "a_copied_packet_keeps_its_fragment_list",
            "more_than_six_pieces_are_linearised_and_so_is_a_list",
        ],
    ),
    (
        "a frame of an old driver below 128 bytes takes no mapping, and one that cannot be mapped is copied",
        &[
            "small_linear_frames_are_copied_and_take_no_mapping",
            "a_mapping_that_fails_makes_the_packet_linear_and_copied",
        ],
    ),
    (
        "a frame has 64 KiB at the most",
        &[
            "what_is_longer_than_the_mapped_buffer_comes_back_whole",
            "a_frame_longer_than_64_kib_is_refused_unread_and_one_without_addresses_too",
        ],
    ),
    (
        "H_BUSY is tried again with the correlator that it gave, 1024 times",
        &[
            "the_correlator_of_a_busy_call_is_fed_back",
            "a_hypervisor_busy_for_ever_is_given_up_after_1024_tries",
            "a_busy_send_goes_on_with_its_token_and_nobody_gets_it_twice",
            "a_token_is_for_the_same_call_and_good_once",
        ],
    ),
    (
        "H_DROPPED counts as sent; a closed adapter answers so",
        &[
            "h_dropped_counts_as_sent_and_any_other_error_does_not",
            "a_closed_adapter_sends_nothing",
        ],
    ),
    (
        "the mss is an argument only where large send was agreed on, and what is there otherwise is nothing",
        &[
            "a_large_send_has_its_bit_and_its_mss_is_the_last_argument",
            "the_old_large_send_is_in_the_checksum_fields_and_its_mss_no_argument",
            "the_ninth_argument_counts_only_where_large_send_was_agreed",
        ],
    ),
    (
        "the checksum of TCP alone is left out, and its field is zero; UDP's is made here",
        &[
            "a_checksum_that_is_not_tcps_is_completed",
            "a_modern_driver_sends_exactly_one_descriptor_and_an_old_one_each_segment_with_its_flags",
        ],
    ),
    (
        "marks that were not agreed on are refused",
        &[
            "marks_that_were_not_agreed_to_are_refused",
            "a_large_send_without_firmwares_support_is_refused",
        ],
    ),
    ("what goes to the own address is dropped", &["a_frame_to_the_own_address_is_dropped"]),
    // Opening and agreeing.
    (
        "a registration that fails is tried again after a free, which is repeated while busy",
        &["registering_is_tried_again_after_a_free_and_freeing_while_busy"],
    ),
    (
        "list and filter are pages, the queue is whole entries; what is open already lacks a resource",
        &["registration_wants_aligned_mapped_pages_and_a_queue_of_entries"],
    ),
    (
        "a buffer is aligned to 4, has 16 bytes at least, and is mapped; a full list lacks a resource",
        &[
            "a_buffer_is_aligned_to_four_and_has_sixteen_bytes_and_is_mapped",
            "a_full_list_is_a_resource_that_lacks",
        ],
    ),
    (
        "checksums need PADDED_PKT_CSUM; IPv4 and IPv6 are two calls, each rolled back by itself",
        &[
            "checksums_need_padded_packets_to_be_right",
            "ipv4_and_ipv6_checksums_are_set_by_two_calls",
            "a_refused_attribute_is_rolled_back_and_the_other_stays",
        ],
    ),
    (
        "until 4.12 a trunk did not ask for checksums",
        &["until_4_12_a_trunk_did_not_ask_for_checksums"],
    ),
    (
        "without the firmware's support large sends go the old way, over IPv4 only",
        &["without_firmware_support_large_sends_go_the_old_way_over_ipv4_only"],
    ),
    ("without ibm,illan-options nothing is asked", &["without_illan_options_nothing_is_asked"]),
    ("a change closes and reopens", &["a_change_of_offloads_closes_and_reopens"]),
];

#[test]
fn every_trap_has_its_tests() {
    hold(TRAPS, &["layout/src/ibmveth.rs", "drivers/src/ibmveth", "devices/src/veth"]);
}
