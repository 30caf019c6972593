//! The cases that every backend runs.

/// Makes a test of each case. `$on` runs a case on all machines of a backend, `$reordered` on one
/// whose CPU reorders stores: both take a `Fn(&mut H, &mut A, &Config)`.
#[macro_export]
macro_rules! axienet_cases {
    ($on:path, $reordered:path) => {
        $crate::axienet_cases! { $on:
            transmit: transmit,
            scatter: scatter,
            checksum_offload: checksum_offload,
            receive: receive,
            receive_checksum: receive_checksum,
            jumbo: jumbo,
            too_long: too_long,
            ring_wrap_and_stop: ring_wrap_and_stop,
            rx_exhaustion: rx_exhaustion,
            threshold_counts_packets: threshold_counts_packets,
            delay: delay,
            interrupt_levels: interrupt_levels,
            adaptive: adaptive,
            filter: filter,
            statistics: statistics,
            reset: reset,
            done_descriptor: done_descriptor,
        }
        $crate::axienet_cases! { $reordered:
            transmit_with_stores_reordered: transmit scatter checksum_offload,
            receive_with_stores_reordered: receive rx_exhaustion,
            reset_and_small_rings_with_stores_reordered: reset ring_wrap_and_stop,
        }
    };
    ($on:path: $($test:ident: $($case:ident)+,)+) => {
        $(
            #[test]
            fn $test() {
                $($on($crate::axienet::$case);)+
            }
        )+
    };
}
