//! What is easily got wrong about AXI Ethernet and AXI DMA, and the tests that hold it.
//!
//! Where QEMU's model and the core's own source differ, what the source does is here.

mod traps;

use traps::{Trap, hold};

const TRAPS: &[Trap] = &[
    // Registers and the states of a channel.
    (
        "after a reset both channels are halted, the threshold is 1, the delay 0, and nothing is enabled",
        &["after_a_reset_channels_are_halted_with_threshold_one"],
    ),
    (
        "RESET of either channel resets both and the MAC, and clears itself",
        &[
            "a_reset_of_either_channel_resets_both_and_the_mac",
            "reset",
            "the_phy_is_reset_with_the_core",
        ],
    ),
    (
        "so one reset is enough, and address, options, filter, speed and enables are written again",
        &[
            "reception_starts_with_all_descriptors_and_transmission_with_none",
            "an_error_resets_the_core_drops_what_was_queued_and_starts_both_rings_anew",
            "statistics",
        ],
    ),
    (
        "a reset is over when the bit is clear and then the PHY's reset is; each has 50 ms",
        &["a_core_that_does_not_answer_is_an_error_and_not_a_hang"],
    ),
    ("MDIO is off during a reset", &["mdio_is_off_while_the_core_is_reset"]),
    (
        "CURDESC latches only while the channel is halted, so before RS",
        &[
            "curdesc_latches_only_while_halted",
            "reception_starts_with_all_descriptors_and_transmission_with_none",
            "a_restart_latches_the_first_descriptors_while_the_channels_are_halted",
        ],
    ),
    (
        "the device works up to and with the descriptor at TAILDESC, then idles with CURDESC at the next",
        &[
            "work_goes_up_to_and_with_the_descriptor_at_taildesc",
            "up_to_four_descriptors_are_fetched_ahead_and_never_past_the_tail",
        ],
    ),
    (
        "so TAILDESC names the last descriptor, of a packet and of the ring, and not the one behind it",
        &[
            "a_linear_packet_is_one_descriptor_that_begins_and_ends_it",
            "sof_is_in_the_first_descriptor_and_eof_in_the_last_which_taildesc_names",
            "all_descriptors_are_the_devices_and_taildesc_names_the_last",
        ],
    ),
    (
        "Idle is the normal state without work, not Halted; TAILDESC takes Idle away and nothing else",
        &[
            "idle_is_the_normal_no_work_state_and_a_tail_clears_it",
            "a_tail_written_to_a_halted_channel_starts_nothing",
            "rx_exhaustion",
        ],
    ),
    (
        "RS takes Halted away; written again it does not take Idle away (QEMU's model does)",
        &[
            "idle_is_the_normal_no_work_state_and_a_tail_clears_it",
            "stop_finishes_the_descriptor_in_work_and_then_halts",
            "a_control_word_written_to_an_idle_channel_leaves_it_idle",
        ],
    ),
    (
        "a tail written again after Idle starts into what is done",
        &[
            "the_same_tail_again_after_idle_runs_around_the_ring_into_what_is_done",
            "the_same_tail_again_does_nothing_while_it_is_in_work",
        ],
    ),
    (
        "CURDESC of a channel that runs says nothing that software could rely on",
        &[
            "curdesc_moves_with_the_status_and_not_with_the_work",
            "where_the_device_is_is_never_read_from_a_register",
        ],
    ),
    (
        "addresses of 64 bits: the low half first; of TAILDESC the upper half starts (PG034), so one access has both",
        &[
            "the_upper_half_of_taildesc_starts_a_channel_of_64_bits",
            "an_address_of_64_bits_is_a_low_and_a_high_half_and_the_tail_a_single_access",
        ],
    ),
    (
        "a core of 32 bits has no upper halves, and what it cannot reach is not given to it",
        &[
            "a_channel_of_32_bits_has_no_upper_halves",
            "an_address_beyond_the_cores_bits_is_not_reachable",
        ],
    ),
    (
        "an error halts, both channels at that, and a reset alone helps",
        &[
            "a_descriptor_that_is_done_already",
            "data_that_cannot_be_reached",
            "descriptors_that_cannot_be_read",
            "descriptors_that_cannot_be_written",
            "bus_error",
        ],
    ),
    (
        "on an error everything is initialised again, rings too, by a work item",
        &[
            "an_error_resets_the_core_drops_what_was_queued_and_starts_both_rings_anew",
            "a_reset_that_fails_is_tried_again",
        ],
    ),
    // Descriptors.
    (
        "descriptors are 64 bytes apart, and the last names the first",
        &[
            "descriptors_are_on_64_bytes_and_the_last_names_the_first",
            "curdesc_latches_only_while_halted",
        ],
    ),
    ("a length has 23 bits", &["a_descriptor_of_8_megabytes_is_read_in_pages_and_dropped"]),
    (
        "a length of 0 is an error",
        &["a_length_of_zero", "what_the_core_cannot_send_is_dropped_and_given_back"],
    ),
    (
        "a buffer off a word needs a core with realignment",
        &["an_unaligned_buffer_without_realignment"],
    ),
    (
        "the device halts at a descriptor that is done already",
        &["a_descriptor_that_is_done_already", "done_descriptor"],
    ),
    (
        "so the status is cleared with the control word when a descriptor is freed or renewed",
        &[
            "a_free_descriptor_has_neither_control_nor_status",
            "a_consumed_descriptor_is_renewed_at_once_and_announced_once_a_poll",
            "ring_wrap_and_stop",
        ],
    ),
    (
        "the device uses 52 bytes: the software area behind them is not read and not written",
        &[
            "crossings_of_a_packet",
            "a_long_frame_takes_several_buffers_and_the_last_has_the_words",
            "every_descriptor_of_a_packet_is_done_in_order_with_its_length",
        ],
    ),
    (
        "of a receive descriptor's control word only the length counts",
        &["reception_takes_the_length_of_a_control_word_and_nothing_else"],
    ),
    // Transmission.
    (
        "SOF is in the first descriptor and EOF in the last",
        &[
            "sof_is_in_the_first_descriptor_and_eof_in_the_last_which_taildesc_names",
            "a_packet_without_sof_has_no_control_words_and_stops_transmission",
            "scatter",
        ],
    ),
    (
        "application words of later descriptors are not looked at",
        &[
            "words_of_later_descriptors_are_not_looked_at",
            "partial_checksum_is_in_the_application_words_of_the_first_descriptor_alone",
        ],
    ),
    (
        "partial checksum: APP1 is where to begin and where to insert, both from the frame's beginning; APP2 is a seed",
        &[
            "partial_checksum_is_in_the_application_words_of_the_first_descriptor_alone",
            "partial_sums_from_start_to_end_with_what_is_in_the_field",
            "partial_begins_with_the_seed",
            "checksum_offload",
        ],
    ),
    (
        "full checksum: APP0 is 2, and the device finds the rest",
        &[
            "full_checksum_says_only_that_there_is_one_and_is_for_tcp_and_udp",
            "full_makes_both_checksums_whatever_was_there",
            "full_checksums",
        ],
    ),
    (
        "which of them a core has is said by its build, and by no register",
        &[
            "a_core_does_only_what_it_was_built_for",
            "a_core_without_checksums_gets_them_done",
            "a_core_without_checksums_is_not_believed",
        ],
    ),
    (
        "every packet rings",
        &["every_packet_rings_though_more_follows_unless_it_is_a_batch", "transmit"],
    ),
    (
        "descriptors are looked at in order, and the first without Cmplt ends the look",
        &["descriptors_are_taken_in_order_and_the_first_without_cmplt_ends_it"],
    ),
    (
        "so each is marked done, in order, and not only a packet's last",
        &["every_descriptor_of_a_packet_is_done_in_order_with_its_length"],
    ),
    (
        "a packet is counted at its EOF descriptor; its bytes are those of all its statuses",
        &[
            "descriptors_are_taken_in_order_and_the_first_without_cmplt_ends_it",
            "the_budget_counts_packets_and_not_descriptors",
        ],
    ),
    (
        "the queue stops while the largest packet may not fit, and a poll wakes it",
        &["the_queue_stops_when_the_largest_packet_may_not_fit_and_a_poll_wakes_it"],
    ),
    (
        "at the least ring, a control word of 0 is no sign of room for the largest packet",
        &["the_least_ring_takes_the_largest_packet_when_it_is_empty"],
    ),
    (
        "rings are 18 and 1 to 4096 descriptors",
        &["settings_out_of_range_are_refused_with_what_is_allowed"],
    ),
    // Reception.
    (
        "APP4's lower half is the exact length, without FCS unless the MAC was told to leave it there; so is the status's",
        &[
            "a_frame_goes_into_its_buffer_with_its_length_in_app4",
            "the_fcs_is_passed_up_when_asked_for",
            "the_length_is_app4s_lower_half_and_not_the_status",
        ],
    ),
    (
        "the MAC strips and makes the FCS because it is told to",
        &[
            "options_follow_the_mtu_and_the_mac_makes_and_strips_the_fcs",
            "a_frame_with_its_own_fcs",
        ],
    ),
    (
        "application words are valid in the EOF descriptor alone",
        &[
            "a_long_frame_takes_several_buffers_and_the_last_has_the_words",
            "a_frame_that_cannot_be_is_dropped_and_its_buffer_stays",
            "too_long",
        ],
    ),
    (
        "full checksum: 2 and 3 of APP2's bits 5 to 3 are good, 1 says nothing of TCP and UDP",
        &["a_full_checksum_is_trusted_when_ip_and_transport_are_good", "received_full_status"],
    ),
    (
        "partial checksum: APP3 is a big-endian number in a little-endian word, from byte 14 on, padding too",
        &[
            "a_partial_checksum_is_a_number_in_network_order_and_covers_padding_too",
            "received_partial_sum_is_big_endian_words_from_byte_14",
            "receive_checksum",
        ],
    ),
    (
        "a consumed descriptor is renewed at once, and TAILDESC written once a poll",
        &["a_consumed_descriptor_is_renewed_at_once_and_announced_once_a_poll"],
    ),
    (
        "without descriptors the engine idles and the MAC keeps the frames; when it is full it drops, and says so twice",
        &[
            "an_engine_without_descriptors_holds_frames_in_the_macs_memory",
            "rx_exhaustion",
            "the_macs_interrupts_are_counted_and_cleared",
        ],
    ),
    // Threshold, delay, interrupts.
    (
        "the threshold counts packets, not descriptors, in both directions",
        &["the_threshold_counts_packets_not_descriptors", "threshold_counts_packets"],
    ),
    (
        "a threshold of 0 is not allowed: it is one of 1",
        &[
            "a_threshold_of_zero_is_one",
            "threshold_one_has_no_delay_and_no_delay_interrupt",
            "user_settings_are_checked_as_the_driver_does",
        ],
    ),
    // QEMU's model counts anew with any write of CR.
    (
        "the count begins anew at 0, with Dly, and with another threshold; the same one again keeps it",
        &[
            "the_threshold_reloads_when_it_is_reached",
            "the_end_of_a_poll_writes_the_same_cr_and_loses_no_count",
            "another_threshold_reloads_the_counter",
            "another_threshold_starts_the_count_anew_and_the_same_does_not",
            "a_core_may_be_told_to_reload_with_any_write",
            "threshold",
        ],
    ),
    (
        "the delay begins at a packet's end, stands still while one is in work, and each end starts it again",
        &[
            "the_delay_restarts_with_each_packet_and_stands_still_during_one",
            "the_delay_stands_still_while_a_packet_is_in_work",
            "of_packets_that_overlap_the_last_end_counts",
        ],
    ),
    (
        "so steady traffic below the threshold postpones Dly until the threshold is met",
        &[
            "the_delay_restarts_with_each_packet_so_steady_traffic_postpones_it",
            "traffic_meets_the_threshold_before_the_delay",
            "delay",
        ],
    ),
    (
        "no Dly without a packet; a delay of 0 is none",
        &["no_delay_without_a_packet_and_none_when_it_is_zero", "delay"],
    ),
    (
        "so a delay that is asked for never rounds to 0, and a threshold above 1 needs one",
        &[
            "a_delay_that_was_asked_for_never_becomes_none",
            "user_settings_are_checked_as_the_driver_does",
        ],
    ),
    (
        "while Dly is set no delay runs",
        &[
            "a_packet_that_ends_while_dly_is_set_starts_no_delay",
            "no_timer_with_a_delay_of_zero_without_rs_or_while_dly_is_set",
        ],
    ),
    (
        "a delay with a threshold of 1 is worse than redundant: it interrupts once more, for nothing",
        &["ioc_does_not_stop_the_delay", "threshold_one_has_no_delay_and_no_delay_interrupt"],
    ),
    (
        "a unit of the delay is 125 clocks, by the core's build: drivers count on it, and QEMU's model has one",
        &[
            "the_delay_is_125_clocks_a_unit",
            "a_core_may_be_built_with_another_unit_of_the_delay",
            "a_delay_is_rounded_to_units_of_125_clocks_and_cut_to_255",
        ],
    ),
    (
        "64 packets and 50 us are 0x32407001, one packet is 0x00015001",
        &[
            "the_control_word_of_threshold_64_and_50_us",
            "threshold_one_has_no_delay_and_no_delay_interrupt",
            "a_control_word_of_the_sheet_reads_back",
        ],
    ),
    (
        "by default 24 packets or 50 us are sent, and 16 us received",
        &["reception_starts_with_all_descriptors_and_transmission_with_none"],
    ),
    (
        "SR's bits latch though they are not enabled; the line is a level",
        &["status_bits_latch_though_disabled_and_the_line_is_a_level", "interrupt_levels"],
    ),
    (
        "SR is cleared by ones, before the poll; two enables go, threshold, delay and the error's stay",
        &[
            "the_handler_writes_status_back_and_takes_two_enables_away",
            "status_bits_latch_though_disabled_and_the_line_is_a_level",
        ],
    ),
    (
        "the end of a poll that ran dry writes CR: what was latched meanwhile interrupts at once",
        &["interrupt_levels", "the_budget_leaves_the_interrupts_off"],
    ),
    (
        "what was done meanwhile and is below the threshold is the delay's, which that write does not stop",
        &["another_delay_starts_a_running_timer_from_zero_and_the_same_does_not", "adaptive"],
    ),
    // The MAC.
    (
        "IS is cleared by ones, IP is IS and IE",
        &[
            "interrupts_of_the_mac_are_written_one_to_clear",
            "the_macs_interrupts_are_counted_and_cleared",
        ],
    ),
    (
        "the address is little-endian, bytes 0 to 3 and then 4 and 5",
        &[
            "the_station_address_is_bytes_little_endian",
            "options_follow_the_mtu_and_the_mac_makes_and_strips_the_fcs",
        ],
    ),
    (
        "four entries filter; more groups are all multicast",
        &["four_groups_are_filtered_exactly_and_five_are_all_multicast", "filter"],
    ),
    (
        "statistics are two halves, their low one wraps, and a reset clears them",
        &[
            "the_low_half_keeps_the_high_one",
            "counters_go_on_over_a_wrap_of_32_bits_and_over_a_reset",
        ],
    ),
    (
        "the MAC has to be told the link's speed",
        &[
            "receiver_off_or_filtered_or_at_the_wrong_speed",
            "the_link_is_what_both_ends_can_and_is_looked_at_once_a_second",
        ],
    ),
    (
        "MDIO's clock is at most 2.5 MHz, and an access is waited for",
        &[
            "the_management_clock_is_never_faster_than_2_5_mhz",
            "mdio_waits_20_ms_and_no_longer",
            "an_mdio_access_takes_64_clocks_of_its_own",
        ],
    ),
    (
        "a frame is 1522 bytes at most with its tag and FCS; jumbo frames need the option, and room in the MAC's memory",
        &[
            "a_short_frame_is_padded_and_a_long_one_needs_jumbo",
            "lengths_that_are_taken",
            "jumbo_frames_have_room_for_headers_tag_and_fcs",
            "settings_out_of_range_are_refused_with_what_is_allowed",
        ],
    ),
    // Reception that adapts.
    (
        "the counts are 1, 4, 16, 64 and 255: the register has 8 bits where 256 was meant",
        &["the_profiles_are_powers_of_four_and_the_last_is_255"],
    ),
    (
        "the work changes the count and leaves the delay alone",
        &["work_changes_the_count_and_leaves_the_delay_alone", "adaptive"],
    ),
    (
        "but a count that rises from 1, which had none, brings it along",
        &["a_count_that_rises_from_one_brings_the_delay_along"],
    ),
    (
        "the work does not give a poll's enables back",
        &["a_setting_that_comes_during_a_poll_does_not_enable_interrupts"],
    ),
];

#[test]
fn every_trap_has_its_tests() {
    hold(
        TRAPS,
        &[
            "drivers/src/axienet",
            "devices/src/axi_ethernet",
            "conformance/src/axienet",
            "conformance/tests/axienet_model.rs",
        ],
    );
}
