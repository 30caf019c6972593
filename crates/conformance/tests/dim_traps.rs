//! What is easily got wrong about DIM, and the tests that hold it: of the controllers, of the
//! drivers that ask them, and of the devices whose timers they set.

mod traps;

use traps::{Trap, hold};

const TRAPS: &[Trap] = &[
    // Epochs.
    ("an epoch ends at 64 events at the least", &["an_epoch_ends_at_64_events_and_not_before"]),
    (
        "events are interrupts, not polls: polls without interrupts end no epoch",
        &[
            "polls_without_interrupts_never_end_an_epoch",
            "the_controller_sees_interrupts_and_packets_at_the_end_of_each_poll",
        ],
    ),
    (
        "events have 16 bits: they wrap, and more than they hold look like few",
        &[
            "an_epoch_over_the_wrap_of_16_bits_has_64_events_too",
            "more_events_than_16_bits_hold_look_like_few",
            "only_the_differences_of_narrow_counters_count",
            "counters_wider_than_linuxs_change_nothing",
        ],
    ),
    ("packets, bytes and completions have 32 bits", &["counters_wrap_at_32_bits"]),
    (
        "an epoch has microseconds: below one there is no rate, no decision, and the epoch stays open",
        &[
            "an_epoch_shorter_than_a_microsecond_has_no_rates",
            "an_epoch_below_a_microsecond_stays_open",
        ],
    ),
    (
        "rates round up, completions an event down",
        &["rates_round_up", "completions_per_event_round_down_and_use_64_events"],
    ),
    (
        "the rate of events is of 64, however many came",
        &[
            "the_event_rate_is_of_64_events_however_many_came",
            "completions_per_event_round_down_and_use_64_events",
        ],
    ),
    (
        "an idle queue's epoch is stale: ice drops it after a second",
        &["restart_drops_a_stale_epoch_but_no_profile_in_flight"],
    ),
    // Comparisons.
    (
        "a change counts above ten percent of the rate before, divided in integers: from eleven on",
        &["a_change_counts_from_eleven_percent_of_the_previous_rate"],
    ),
    (
        "nothing is significant measured by zero (once a division by it)",
        &["nothing_is_significant_measured_against_zero", "the_first_epoch_compares_with_nothing"],
    ),
    (
        "bytes before packets, packets before events; fewer events are better",
        &["bytes_rule_over_packets_and_packets_over_interrupts"],
    ),
    (
        "no bytes before: bytes are better, else the same; then packets likewise",
        &[
            "the_first_of_bytes_and_the_first_of_packets_are_better_and_end_the_look",
            "an_idle_queue_stays_parked",
        ],
    ),
    // Moves.
    ("the same turns as worse does: only better goes on", &["the_same_turns_as_worse_does"]),
    ("gains of nine percent an epoch are never better", &["a_gain_of_nine_percent_is_no_gain"]),
    (
        "the way out of parking is left, and right only from index 0",
        &["the_first_traffic_moves_left_and_right_only_from_the_edge"],
    ),
    (
        "on top is one step back after more than one too many, if it is better",
        &[
            "one_step_back_from_too_far_is_the_top",
            "one_step_back_that_is_no_better_is_not_the_top",
            "one_step_back_after_a_single_step_is_not_the_top",
        ],
    ),
    (
        "a turn forgets the steps that were made in its new direction",
        &["one_step_back_that_is_no_better_is_not_the_top", "at_the_edge_too_it_is_tired_first"],
    ),
    ("at the end of the table it parks on top", &["better_goes_on_to_the_edge_and_parks_there"]),
    (
        "parked on top it leaves when the rates are not the same as those it parked with: drift adds up there",
        &["drift_adds_up_only_while_parked_on_top"],
    ),
    (
        "ten steps tire it, and ten epochs rest it: parking tired does not",
        &["ten_steps_tire_it_and_ten_epochs_rest_it"],
    ),
    ("it is tired before it is at the end of the table", &["at_the_edge_too_it_is_tired_first"]),
    (
        "epochs parked tired are not looked at, but the last is the measure of the next",
        &[
            "ten_steps_tire_it_and_ten_epochs_rest_it",
            "an_epoch_parked_tired_is_the_measure_of_the_next",
        ],
    ),
    (
        "one step an epoch; profile 0 moderates least",
        &["net_dim_stays_in_its_table_and_moves_by_one", "times_never_fall_with_the_index"],
    ),
    (
        "all of it, as Linux's own code does it",
        &[
            "every_column_of_every_sequence_is_linuxs",
            "the_sequences_visit_all_that_net_dim_can_be",
        ],
    ),
    // Around it.
    (
        "nothing is measured until a profile is applied, and that time counts nowhere",
        &["nothing_is_measured_until_the_profile_is_applied"],
    ),
    (
        "applied is said on every path, or it is frozen for good",
        &["the_controller_hears_of_every_setting_also_of_one_that_is_given_up"],
    ),
    (
        "it is asked once at the end of each poll that an interrupt began and that ran dry",
        &["the_controller_sees_interrupts_and_packets_at_the_end_of_each_poll"],
    ),
    (
        "each direction is its own",
        &["a_queue_looks_at_its_own_direction_only", "transmission_decides_the_same"],
    ),
    (
        "what is set by hand is ignored while it is on",
        &[
            "a_count_set_by_hand_is_ignored_while_adaptation_is_on_and_the_delay_is_not",
            "without_adaptation_the_users_count_is_set_and_the_controller_not_asked",
        ],
    ),
    // Tables.
    (
        "four tables: two kinds of timer, two directions",
        &["the_four_tables_are_linuxs", "there_is_no_sixth_profile"],
    ),
    (
        "they begin at index 1",
        &[
            "the_default_is_eight_microseconds_in_every_family",
            "linux_starts_with_net_dim_at_four_packets",
        ],
    ),
    (
        "a table for a timer that restarts lowers the count as the time rises: axienet has its own",
        &[
            "linux_lowers_the_count_of_a_restarted_timer_and_axienet_raises_it",
            "the_profiles_are_powers_of_four_and_the_last_is_255",
        ],
    ),
    (
        "one timer runs from the first completion, another restarts with each",
        &[
            "an_event_comes_a_period_after_the_first_entry",
            "the_delay_restarts_with_each_packet_and_stands_still_during_one",
        ],
    ),
    (
        "moderation changes while a CQ lives, by MODIFY_CQ",
        &["moderation_can_be_changed_while_the_queue_lives"],
    ),
    // rdma_dim.
    ("nine profiles, from index 0", &["the_table_is_linuxs"]),
    ("each poll is an event", &["polls_are_the_events_and_the_rest_of_a_sample_does_not_matter"]),
    (
        "events have 16 bits and their difference 32: the epoch over the wrap is short",
        &["the_epoch_over_the_wrap_of_the_event_counter_is_short"],
    ),
    (
        "completions, and then completions an event",
        &["completions_an_event_decide_when_their_rate_does_not"],
    ),
    (
        "the same with few completions an event is index 0; else it stays",
        &["the_same_with_few_completions_an_event_falls_to_zero"],
    ),
    (
        "worse turns and steps; at the end of the table it turns and stays",
        &["worse_turns_and_steps", "it_climbs_while_better_and_turns_at_the_end_of_the_table"],
    ),
    ("it never parks nor tires", &["it_never_parks_nor_tires"]),
    (
        "each epoch is measured by the one before: drift is never seen",
        &["drift_is_never_seen_for_each_epoch_is_measured_by_the_one_before"],
    ),
    // What a replacement does better.
    (
        "at low load no setting is better, and net_dim wanders",
        &[
            "at_low_load_the_setting_does_not_change_and_net_dims_wanders",
            "at_low_load_behind_a_high_one_it_settles_and_stays",
        ],
    ),
    (
        "an epoch of 64 interrupts is long where there are few",
        &[
            "low_latency_is_back_3_ms_after_a_load_drop_whatever_the_interrupt_rate",
            "at_ten_packets_a_millisecond_it_is_back_within_one",
        ],
    ),
    ("a moment's burst is no load", &["saturation_ends_with_all_that_the_device_counts"]),
];

#[test]
fn every_trap_has_its_tests() {
    hold(
        TRAPS,
        &[
            "moderation/src",
            "moderation/tests/net_dim_traps.rs",
            "moderation/tests/net_dim_vectors.rs",
            "moderation/tests/rdma_dim_traps.rs",
            "moderation/tests/properties.rs",
            "moderation/tests/ours.rs",
            "drivers/src/axienet",
            "devices/src/axi_ethernet",
            "conformance/tests/mlx5_device.rs",
            "conformance/tests/mlx5_commands.rs",
        ],
    );
}
