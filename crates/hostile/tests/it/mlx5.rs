//! Any bytes as a guest of the mlx5 device.

use doorbell_hostile::mlx5::{function, queue};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_guest_harms_the_device(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        queue::attack(&bytes);
    }

    #[test]
    fn no_guest_harms_the_device_by_registers_memory_and_commands(
        bytes in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        function::attack(&bytes);
    }
}
