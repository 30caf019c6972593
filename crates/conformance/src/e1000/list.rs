//! The bodies that every arm runs, listed once.

/// A test of each body. `$on_each` runs a body on all machines of an arm: it takes a `Fn(&mut H,
/// &mut A, &Config)`.
#[macro_export]
macro_rules! e1000_bodies {
    ($on_each:path) => {
        $crate::e1000_bodies! { $on_each:
            eeprom_and_phy, transmit, scatter, checksum_offload, large_send,
            large_send_with_the_workarounds_of_pcix_and_of_all_parts, vlan, vlan_in_software, delay_timers, receive,
            receive_during_a_poll, receive_several_buffers, filter, ring_wrap_and_stop, interrupts, statistics, reset_and_reopen,
        }
    };
    ($on_each:path: $($body:ident,)+) => {
        $(
            #[test]
            fn $body() {
                $on_each($crate::e1000::$body);
            }
        )+
    };
}
