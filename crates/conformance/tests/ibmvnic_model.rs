//! The ibmvnic driver on our own vNIC server, and on a CPU that reorders stores and loads.
//!
//! | trap of the sheet | test |
//! |---|---|
//! | CRQ handshake, H_CLOSED of the registration is no error, INIT retried, the server may say it first | `partner_comes_up_later`, `partner_never_comes` |
//! | bring-up order, 25 pipelined queries, requests | `bring_up_in_order` |
//! | PARTIALSUCCESS: adopt, and request all again; MTU goes back | `partial_success_asks_for_all_again` |
//! | MTU capabilities count the Ethernet header | `mtu_counts_the_ethernet_header` |
//! | IP offload query and control have opposite orders | `ip_offload_has_both_orders` |
//! | login handles are opaque, fewer queues are PARTIALSUCCESS | `login_with_fewer_queues` |
//! | an ioba in a descriptor is an address in a long-term buffer; 8 MiB, whole slots, ids 1 to 254 | `long_term_buffers` |
//! | bit 31 of a correlator is data | `large_sends` |
//! | the header bitstring is bytes 0, 2, 4; descriptors byte for byte | `headers_byte_for_byte` |
//! | the four states of direct sends | `the_four_states`, `direct_only_when_alone`, `ignoring_headers_ends_the_session_where_they_are_needed` |
//! | direct is four words, indirect an address and a count | `a_direct_send_is_four_words` |
//! | the software checksum may fail | `a_checksum_that_fails_goes_in_an_array` |
//! | arrays of 16, flush on no more coming | `arrays_of_sixteen` |
//! | stop at the granted entries, wake at half | `stop_and_wake` |
//! | empty pool: drop and flush | `an_empty_pool_drops_and_flushes` |
//! | no status for one entry; H_CLOSED stops all queues, H_PARAMETER is not logged | `a_refused_send_drops_its_batch` |
//! | a completion with an error returns its slot | `an_error_in_a_completion_gives_the_slot_back` |
//! | CRQ entries have 16 bytes, descriptors 32; byte 0 alone says what is new | `rings_wrap`, and the reordered arm |
//! | verified takes both flags | `verified_takes_both_flags` |
//! | receive buffers in arrays of 16; a refused array stays | `buffers_in_arrays_of_sixteen`, `a_refused_array_is_given_again` |
//! | interrupt off, poll, on, look again | `interrupts` |
//! | indications and answers share the CRQ | `the_link`, `errors`, `a_failover_during_a_failover` |
//! | failover: event, H_CLOSED, INIT; no unmapping | `a_failover`, `failover_under_load` |
//! | the token changes with a failover | `a_failover_that_the_client_asked_for` |
//! | H_ENABLE_CRQ after a migration, busy and long busy; H_EOI | `a_migration` |
//! | error indication: fatal, not fatal | `errors` |
//! | the watchdog's TIMEOUT | `a_hung_queue_is_reset` |
//! | any message, length and order is answered | `doorbell-devices`, `vnic::tests::hostile` |

use doorbell_bus::reorder::Order;
use doorbell_conformance::ibmvnic::{self as body, reordered, system};
use doorbell_seam::{Fence, Span};

const ORDERS: [Order; 4] = [Order::Late, Order::Overtaken, Order::Random(1), Order::Random(2)];

macro_rules! bodies {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            body::$name(system);
        })*
    };
}

bodies! {
    bring_up_in_order ip_offload_has_both_orders partial_success_asks_for_all_again mtu_counts_the_ethernet_header
    login_with_fewer_queues partner_comes_up_later partner_never_comes rings_wrap long_term_buffers
    a_refusal_leaves_nothing address_filter_and_statistics
    frames_arrive_intact short_frames_are_padded tags large_sends arrays_of_sixteen stop_and_wake
    an_empty_pool_drops_and_flushes a_refused_send_drops_its_batch an_error_in_a_completion_gives_the_slot_back
    checksums_the_server_cannot_make a_hung_queue_is_reset
    the_four_states direct_only_when_alone a_direct_send_is_four_words a_checksum_that_fails_goes_in_an_array
    headers_byte_for_byte ignoring_headers_ends_the_session_where_they_are_needed adaptive_reads_the_request
    frames_come_up verified_takes_both_flags a_stripped_tag_comes_beside buffers_in_arrays_of_sixteen
    a_refused_array_is_given_again without_buffers_frames_are_lost interrupts receive_during_a_poll
    queues_share_the_flows
    a_failover a_failover_during_a_failover a_failover_that_the_client_asked_for a_migration errors the_link
}

/// A simulated minute, and in it some five thousand failovers.
#[test]
fn failover_under_load() {
    body::failover_under_load(system, Span::from_ms(60_000));
}

mod reordering {
    use super::*;

    macro_rules! in_every_order {
        ($($name:ident)*) => {
            $(#[test]
            fn $name() {
                for order in ORDERS {
                    body::$name(reordered(order, None));
                }
            })*
        };
    }

    in_every_order! {
        bring_up_in_order frames_arrive_intact tags large_sends arrays_of_sixteen a_refused_send_drops_its_batch
        the_four_states frames_come_up buffers_in_arrays_of_sixteen interrupts receive_during_a_poll
        a_failover a_migration errors
    }

    #[test]
    fn failover_under_load() {
        for order in ORDERS {
            body::failover_under_load(reordered(order, None), Span::from_ms(60));
        }
    }

    /// The rest of an entry was loaded before the byte that says that it is there.
    #[test]
    #[should_panic(expected = "landed during a poll")]
    fn an_entry_loaded_before_its_first_byte_is_an_old_one() {
        body::receive_during_a_poll(reordered(Order::Random(1), Some(Fence::DmaRead)));
    }
}
