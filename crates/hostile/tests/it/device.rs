//! Drivers against devices that lie: inputs drawn from seeds, and those that once did harm.

use doorbell_hostile::device::kind::{ALARM, CHANGE, LIE_LOAD, LIE_READ, TRANSMIT};
use doorbell_hostile::device::{Seen, axienet, e1000, ibmveth, ibmvnic, kind, mlx5, step};
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

/// A lie of one value from now on.
fn always(what: u8, value: u32) -> [u8; 8] {
    step(what, 7 << 3 | 1, 0, value)
}

const POLL: [u8; 8] = [kind::POLL, 63, 0, 0, 0, 0, 0, 0];
const TICK: [u8; 8] = [ALARM, 0, 0, 0, 0, 0, 0, 0];
const TIMEOUT: [u8; 8] = [ALARM, 1, 0, 0, 0, 0, 0, 0];

/// Attacks with these steps on a machine of shape 0, nothing before the opening.
fn steps(attack: impl Fn(&[u8]) -> Seen, steps: &[[u8; 8]]) -> Seen {
    steps_on(0, attack, steps)
}

/// Attacks with these steps on a machine of a shape, nothing before the opening.
fn steps_on(shape: u8, attack: impl Fn(&[u8]) -> Seen, steps: &[[u8; 8]]) -> Seen {
    attack(&[&[shape, 0], steps.as_flattened()].concat())
}

/// That of ibmvnic is in its own cases: its resets need a server that goes away.
#[test]
fn a_filter_outlives_the_drivers_own_resets() {
    e1000::keeps_its_filter();
    axienet::keeps_its_filter();
    ibmveth::keeps_its_filter();
}

#[test]
fn ibmveth_holds() {
    reached(&attacked(ibmveth::attack), [false, false, true, true, true], true);
}

#[test]
fn e1000_holds() {
    reached(&attacked(e1000::attack), [true, true, true, false, true], true);
}

#[test]
fn e1000_takes_ones_for_counters() {
    let read = step(CHANGE, 3, 0, 0);
    steps(e1000::attack, &[always(LIE_READ, !0), read, read]);
}

#[test]
fn e1000_polls_end_without_ends_of_frames() {
    // Each descriptor is done, and none is a frame's last.
    let s = steps(e1000::attack, &[always(LIE_LOAD, 0x0101_0101), POLL]);
    assert!(s.told[2] > 64);
}

#[test]
fn axienet_holds() {
    reached(&attacked(axienet::attack), [true, true, true, false, true], true);
}

#[test]
fn axienet_polls_end_without_ends_of_frames() {
    let s = steps(axienet::attack, &[always(LIE_LOAD, 1 << 31), POLL]);
    assert!(s.told[2] > 64);
}

#[test]
fn ibmvnic_holds() {
    reached(&attacked(ibmvnic::attack), [false, false, true, true, true], true);
}

#[test]
fn ibmvnic_polls_end_under_endless_messages() {
    let s = steps(ibmvnic::attack, &[always(LIE_LOAD, 0x80), POLL]);
    assert!(s.told[2] > 64);
}

#[test]
fn ibmvnic_resets_end_under_endless_messages() {
    // A new MTU resets the adapter.
    let s = steps(ibmvnic::attack, &[always(LIE_LOAD, 0x80), step(CHANGE, 10, 0, 0)]);
    assert!(s.told[2] > 64);
}

#[test]
fn ibmvnic_may_leave_no_memory() {
    let send = |a, payload, word| step(TRANSMIT, a, payload, word);
    let restart = step(kind::RESTART, 7, 0, 0);
    // Bits of the answers: the server wants queues at the least that fill the machine.
    let lie = step(LIE_LOAD, 0xf4, 0, 5 << 24);
    let all = [
        &[restart, lie, step(kind::RUN, 0, 0, 0), send(0, 0xff00, 0)][..],
        &[send(0, 0, 0); 7],
        &[send(0, 0, 0xfe << 24), send(0, 0x100, 0), send(0, 0x200, 0)],
        &[restart, TICK, TICK, TICK, step(CHANGE, 15, 0, 0), step(kind::WAIT, 0, 0x100, 0)],
        &[send(13, 0xf00, 0), send(0, 0xf00, 0)],
    ];
    // Two queues of its own.
    let s = steps_on(0x40, ibmvnic::attack, &all.concat());
    assert!(s.starved > 0, "{s:?}");
}

#[test]
fn mlx5_holds() {
    reached(&attacked(mlx5::attack), [true, true, true, false, true], true);
}

#[test]
fn mlx5_objects_may_refuse_their_end() {
    // No event, and no command is ever done.
    let s = steps(mlx5::attack, &[always(LIE_LOAD, 0x0101_0101), TIMEOUT, POLL]);
    assert!(s.told[2] > 10);
}

#[test]
fn mlx5_errors_may_lack_a_syndrome() {
    let send = step(TRANSMIT, 0, 100, 0);
    // The end of an error CQE, and zeros in the place of its syndrome.
    let lie = step(LIE_LOAD, 1, 4 << 8, 0xd0 << 24);
    let s = steps(mlx5::attack, &[send, lie, POLL]);
    assert!(s.told[2] > 0);
}
