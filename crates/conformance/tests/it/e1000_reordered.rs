//! The e1000 driver on a CPU that reorders stores: it has each fence that it needs, and the cases
//! fail without one.

use doorbell_conformance::e1000::{self as cases, model};
use doorbell_hal::Fence;
use doorbell_testkit::reorder::Order;

/// Late finds a missing fence before a tail, Overtaken and the seeds one between descriptors.
const ORDERS: [Order; 6] = [
    Order::Late,
    Order::Overtaken,
    Order::Random(1),
    Order::Random(2),
    Order::Random(3),
    Order::Random(4),
];

/// Runs a body in each order, with and without the copy of small frames: the copies are stores too.
macro_rules! in_every_order {
    ($($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                for order in ORDERS {
                    for copy_align in [false, true] {
                        let passed = model::on_reordered(order, None, copy_align, cases::$case);
                        let reordered = passed > 0;
                        assert_eq!(reordered, order != Order::Late, "{order:?}: reordered stores");
                    }
                }
            }
        )+
    };
}

in_every_order! {
    transmit, scatter, checksum_offload, large_send, receive, receive_during_a_poll,
    receive_several_buffers, ring_wrap_and_stop, reset_and_reopen,
}

/// The tail is written, and the descriptor before it is still the CPU's own: the device takes an
/// old one.
#[test]
#[should_panic(expected = "sent, and not done")]
fn a_transmit_tail_without_its_fence_announces_an_old_descriptor() {
    model::on_reordered(Order::Late, Some(Fence::Write), false, cases::transmit);
}

/// The device takes descriptors without an address for filled ones, and passes them over.
#[test]
#[should_panic(expected = "left: 0\n right: 1")]
fn a_receive_tail_without_its_fence_announces_an_old_descriptor() {
    model::on_reordered(Order::Late, Some(Fence::Write), false, cases::receive);
}

/// The descriptor was loaded before the status that says that it is there.
#[test]
#[should_panic(expected = "landed during a poll")]
fn a_descriptor_loaded_before_its_status_is_an_old_one() {
    model::on_reordered(
        Order::Random(1),
        Some(Fence::DmaRead),
        false,
        cases::receive_during_a_poll,
    );
}
