//! The cases that every backend runs.

/// Makes a test of each case. `$on_each` runs a case on all machines of a backend: it takes a
/// `Fn(&mut H, &mut A, &Config)`.
#[macro_export]
macro_rules! e1000_cases {
    ($on_each:path) => {
        $crate::e1000_cases! { $on_each:
            eeprom_and_phy, transmit, scatter, checksum_offload, large_send,
            large_send_with_the_workarounds_of_pcix_and_of_all_parts, vlan, vlan_in_software,
            delay_timers, receive, receive_during_a_poll, receive_several_buffers, filter,
            ring_wrap_and_stop, interrupts, statistics, reset_and_reopen, two_queues,
        }
    };
    ($on_each:path: $($case:ident,)+) => {
        $(
            #[test]
            fn $case() {
                $on_each($crate::e1000::$case);
            }
        )+
    };
}
