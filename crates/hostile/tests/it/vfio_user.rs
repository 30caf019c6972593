//! Hostile clients of a served device, without a fuzzer: random ones, and the same every time.

use doorbell_hostile::vfio_user;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn no_client_harms_the_server(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        vfio_user::attack(&bytes);
    }
}
