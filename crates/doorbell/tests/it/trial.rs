//! The trials find what is wrong with a driver.

use crate::new_driver::MyCard;
use crate::one_page::OnI82545;
use doorbell::hal::Fence;
use doorbell::trial::{self, Order};

#[test]
fn a_missing_fence_is_found() {
    for order in [Order::Late, Order::Random(1), Order::Random(2)] {
        let wrong = trial::reordered::<MyCard>(&(), order, Some(Fence::Write));
        assert!(
            wrong.iter().any(|w| w.starts_with("handed over, and not")),
            "{order:?}: {wrong:?}"
        );
    }
}

#[test]
fn a_driver_that_does_not_receive_is_found() {
    let wrong = trial::reordered::<OnI82545>(&(), Order::Late, None);
    assert_eq!(wrong, ["arrived, and not handed up: 89"]);
    let wrong = trial::lied_to::<OnI82545>(&(), 0);
    assert_eq!(wrong.last().unwrap(), "after a reset: arrived, and not handed up: 89");
}
