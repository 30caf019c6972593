//! What is easily got wrong about the 8254x, and the tests that hold it.

mod traps;

use traps::{Trap, hold};

const TRAPS: &[Trap] = &[
    // Rings.
    (
        "RDT is the index of the last filled descriptor, which the chip does not use",
        &[
            "rdt_is_the_index_of_the_last_filled_descriptor",
            "the_descriptor_at_the_tail_is_held_back_and_head_equal_tail_is_none",
        ],
    ),
    (
        "TDT is one past the last prepared descriptor",
        &[
            "tdt_is_one_past_the_last_prepared_descriptor",
            "tail_is_one_past_the_last_and_equal_is_empty",
        ],
    ),
    (
        "TDLEN and RDLEN are multiples of 128 bytes; other bits are ignored",
        &[
            "a_ring_that_is_no_multiple_of_128_bytes_is_refused",
            "a_ring_is_as_long_as_the_multiple_of_128_bytes_in_its_length",
            "a_write_keeps_the_bits_that_exist",
        ],
    ),
    (
        "a tail is written after the descriptors before it",
        &[
            "a_transmit_tail_without_its_fence_announces_an_old_descriptor",
            "a_receive_tail_without_its_fence_announces_an_old_descriptor",
        ],
    ),
    (
        "nothing is fetched past the tail",
        &["an_empty_chip_takes_what_the_tail_shows_and_never_more"],
    ),
    (
        "thresholds in cache lines are 31 descriptors at most",
        &["thresholds_count_lines_or_descriptors"],
    ),
    (
        "a cache line that the chip does not know is 32 bytes",
        &["an_unsupported_cache_line_counts_as_32_bytes"],
    ),
    (
        "a packet is done when its last descriptor is",
        &[
            "a_packet_is_done_when_its_last_descriptor_is",
            "only_the_status_dword_is_written_with_wthresh_0_and_only_with_rs",
        ],
    ),
    (
        "descriptors without length or address send nothing, and are done",
        &[
            "descriptors_without_length_or_address_send_nothing_but_are_done",
            "a_descriptor_with_address_0_is_passed_over_and_done",
        ],
    ),
    (
        "the timer's end writes back too",
        &[
            "the_end_of_tidv_writes_back_what_was_collected",
            "the_end_of_rdtr_writes_back_what_waits",
        ],
    ),
    // Interrupts.
    (
        "reading ICR clears it",
        &[
            "reading_icr_clears_it_and_lowers_the_line",
            "icr_is_read_first_then_all_is_masked_and_the_mask_has_arrived",
        ],
    ),
    (
        "an ICR of 0 is another device's interrupt",
        &["icr_of_zero_is_another_devices_and_nothing_is_masked"],
    ),
    (
        "ITR is in 256 ns, and 0 is off",
        &["itr_spaces_interrupts_by_exactly_256_ns_times_n", "intervals_are_in_256_ns"],
    ),
    (
        "the 82544 has neither ITR nor RADV and TADV",
        &["the_82544_has_no_throttle", "itr_radv_tadv_are_written_on_82540_and_later_only"],
    ),
    (
        "RDTR starts again with each packet, RADV does not, and is nothing without RDTR",
        &[
            "rdtr_is_restarted_by_each_packet",
            "radv_is_started_by_the_first_and_caps_the_wait",
            "rdtr_zero_interrupts_at_once_even_with_radv",
            "delay_timers",
        ],
    ),
    (
        "TIDV and TADV likewise, for descriptors with IDE",
        &[
            "tidv_is_restarted_and_tadv_caps_it",
            "tidv_zero_is_off_and_without_ide_there_is_no_delay",
        ],
    ),
    // Packets.
    (
        "a received length has the FCS in it",
        &[
            "length_includes_the_fcs_unless_it_is_stripped",
            "the_fcs_is_cut_off_also_where_it_begins_in_the_buffer_before",
        ],
    ),
    (
        "a checksum is good if TCPCS says so, TCPE does not and IXSM is clear",
        &[
            "a_checksum_is_trusted_if_looked_at_right_and_not_to_be_ignored",
            "checksums_are_checked_and_errors_reported",
        ],
    ),
    (
        "PAYLEN is without the header",
        &[
            "large_send_has_a_context_a_sentinel_and_prepared_headers",
            "what_comes_after_paylen_is_not_sent",
        ],
    ),
    (
        "TCP's field has the pseudo-header's sum without length, which the chip adds",
        &[
            "large_send_has_a_context_a_sentinel_and_prepared_headers",
            "the_device_adds_the_length_that_the_pseudo_header_lacks",
        ],
    ),
    (
        "a large send's pieces are four segments, and 4096 bytes, at most",
        &["a_large_sends_piece_is_at_most_four_segments_and_4096_bytes"],
    ),
    ("a legacy packet is 16288 bytes at most", &["the_longest_packet_is_16288_bytes"]),
    (
        "DD is late: a hang, unless pause frames hold the wire",
        &["a_hang_is_found_when_dd_is_late_and_transmission_is_not_paused"],
    ),
    // Errata.
    (
        "PCI-X: the first buffer of a packet is 2015 bytes at most",
        &[
            "first_descriptor_on_pcix_is_2015_bytes_at_most",
            "in_pcix_a_first_buffer_over_2015_bytes_hangs",
            "a_driver_without_the_workarounds_of_pcix_hangs",
            "a_card_in_pcix_is_not_driven_as_if_it_were_on_conventional_pci",
        ],
    ),
    (
        "82544 in PCI-X: bit 2 of the last byte's address",
        &[
            "the_82544_rule_looks_at_bit_2_of_the_last_bytes_address",
            "the_82544_in_pcix_hangs_on_a_buffer_that_ends_in_an_even_dword",
        ],
    ),
    (
        "a large send's write-back is premature: a sentinel of 4 bytes makes two descriptors of one buffer",
        &[
            "linear_large_send_ends_in_a_sentinel_of_4_bytes",
            "a_large_sends_buffer_is_kept_until_the_sentinel_is_done",
            "the_last_bytes_in_a_descriptor_of_their_own_change_nothing",
        ],
    ),
    (
        "so is that of the packet after it",
        &["packet_after_a_large_send_loses_4_bytes_to_a_second_descriptor_except_on_82544"],
    ),
    (
        "the chip's own padding may corrupt",
        &["a_short_frame_is_padded_in_its_buffer_or_in_another"],
    ),
    (
        "82545: nothing crosses 64 KiB",
        &[
            "nothing_crosses_64_kib_on_82545_revision_0",
            "rings_and_receive_buffers_of_the_82545_stay_within_64_kib",
            "writes_across_64_kib_are_counted_on_the_82545",
        ],
    ),
    (
        "conventional PCI: no dual address cycles",
        &["conventional_pci_is_given_no_address_above_4_gib"],
    ),
    (
        "reset is a write that the chip cannot acknowledge: by the I/O ports",
        &[
            "reset_goes_through_the_io_ports_where_there_are_any",
            "the_io_window_and_the_shadow_register_reset_too",
        ],
    ),
    (
        "bursts of register writes are lost",
        &[
            "writes_of_tables_and_addresses_are_pushed_one_by_one",
            "every_register_write_is_of_32_bits",
        ],
    ),
    (
        "the EEPROM's words sum to 0xbaba",
        &[
            "words_sum_to_baba_and_begin_with_the_address",
            "eerd_reads_what_sums_to_baba",
            "eeprom_and_phy",
        ],
    ),
];

#[test]
fn every_trap_has_its_tests() {
    hold(
        TRAPS,
        &[
            "drivers/src/e1000",
            "devices/src/e1000",
            "conformance/src/e1000.rs",
            "conformance/src/e1000",
            "conformance/tests/e1000_model.rs",
            "conformance/tests/e1000_reordered.rs",
        ],
    );
}
