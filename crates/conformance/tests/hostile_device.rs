//! Drivers against devices that lie: inputs drawn from seeds, and those that once did harm.

use doorbell_conformance::hostile_device::{Seen, ibmveth};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;

/// Attacks with random inputs, always the same. Returns the sum of what was seen.
fn attacked(attack: impl Fn(&[u8]) -> Seen) -> Seen {
    // A failure is found in a second, and its input made smaller in an hour.
    let config =
        Config { cases: 300, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let (input, sum) = (prop::collection::vec(any::<u8>(), 0..600), RefCell::default());
    let ran = TestRunner::new_with_rng(config, rng).run(&input, |bytes| {
        Seen::add(&mut sum.borrow_mut(), &attack(&bytes));
        Ok(())
    });
    ran.unwrap_or_else(|e| panic!("{e}"));
    sum.into_inner()
}

/// Checks that the attacks came to their subject: traffic before and after, and lies of the kinds
/// that the driver can meet.
fn reached(s: &Seen, kinds: [bool; 5], receives: bool) {
    println!("{s:?}");
    assert!(s.taken > 500 && s.returned > 500 && s.refused > 100, "it sends");
    assert_eq!(s.received > 300, receives, "it receives");
    assert!(s.honest > 500 && s.restarted > 200, "it works when the lies have ended");
    assert!(s.pokes > 500, "its memory is written");
    assert_eq!(s.told.map(|n| n > 0), kinds, "register reads, writes, loads, calls, memory");
}

#[test]
fn ibmveth_holds() {
    reached(&attacked(ibmveth::attack), [false, false, true, true, true], true);
}
