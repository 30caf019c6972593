//! Any bytes as a guest behind the plug-in: see `doorbell_hostile::hcalls`. The fuzz target
//! does the same for longer.

use doorbell_hostile::hcalls::attack;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_get_a_guest_further_than_its_table(
        bytes in prop::collection::vec(any::<u8>(), 0..6000),
    ) {
        attack(&bytes);
    }
}
