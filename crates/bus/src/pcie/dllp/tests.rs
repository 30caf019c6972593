use super::super::Settings;
use super::*;
use proptest::prelude::*;

fn state(dllp: DllpRule) -> DllpState {
    DllpState::new(&Rules::new(Settings { dllp, ..Settings::link(3, 16) }).unwrap())
}

fn ns(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

/// A row of the specification's tables for each family and width; all other entries follow
/// the same formula.
#[test]
fn ack_limits_are_those_of_the_specification() {
    const MPS: [u32; 6] = [128, 256, 512, 1024, 2048, 4096];
    for (generation, lanes, row) in [
        (1, 1, [237, 416, 559, 1071, 2095, 4143]),
        (1, 2, [128, 217, 289, 545, 1057, 2081]),
        (1, 4, [73, 118, 154, 282, 538, 1050]),
        (1, 8, [67, 107, 86, 150, 278, 534]),
        (1, 16, [48, 72, 86, 150, 278, 534]),
        (1, 32, [33, 45, 52, 84, 148, 276]),
        (2, 8, [118, 158, 137, 201, 329, 585]),
        (2, 16, [99, 123, 137, 201, 329, 585]),
        (2, 32, [84, 96, 103, 135, 199, 327]),
        (3, 4, [169, 214, 250, 378, 634, 1146]),
        (4, 16, [144, 168, 182, 246, 374, 630]),
        (5, 1, [333, 512, 655, 1167, 2191, 4239]),
    ] {
        assert_eq!(
            MPS.map(|mps| ack_limit(generation, lanes, mps)),
            row,
            "gen{generation} x{lanes}"
        );
    }
}

#[test]
fn per_request_answers_a_read_with_16_bytes_and_a_completion_with_8() {
    let mut state = state(DllpRule::PerRequest);
    assert_eq!(state.tlps(LinkDirection::Upstream, Class::NonPosted, 1, ns(5)).bytes(), 16);
    assert_eq!(state.tlps(LinkDirection::Upstream, Class::Posted, 3, ns(5)).bytes(), 48);
    let completion = state.tlps(LinkDirection::Downstream, Class::Completion, 6, ns(7));
    assert_eq!((completion.acks, completion.updates, completion.acks_at), (6, 0, ns(7)));
}

#[test]
fn none_and_flat_book_nothing() {
    for rule in [DllpRule::None, DllpRule::Flat] {
        assert_eq!(state(rule).tlps(LinkDirection::Upstream, Class::Posted, 9, ns(1)).bytes(), 0);
    }
}

/// Gen3 x16 with MPS 256: 168 symbol times of 1 ns.
#[test]
fn the_timer_sends_one_ack_168_ns_after_the_first_tlp() {
    let mut state = state(DllpRule::Timer);
    let first = state.tlps(LinkDirection::Upstream, Class::Posted, 4, ns(100));
    assert_eq!((first.acks, first.acks_at), (1, ns(268)));
    assert_eq!((first.updates, first.updates_at), (1, ns(268)));
    assert_eq!(state.tlps(LinkDirection::Upstream, Class::Posted, 4, ns(268)).bytes(), 0);
    let next = state.tlps(LinkDirection::Upstream, Class::Posted, 1, ns(269));
    assert_eq!((next.acks, next.acks_at), (1, ns(437)));
    // Another class shares the Ack and has credits of its own; another direction shares nothing.
    assert_eq!(state.tlps(LinkDirection::Upstream, Class::NonPosted, 1, ns(300)).bytes(), 8);
    let down = state.tlps(LinkDirection::Downstream, Class::Completion, 1, ns(300));
    assert_eq!((down.acks, down.updates), (1, 0));
    assert_eq!(state.tlps(LinkDirection::Downstream, Class::Completion, 0, ns(9000)).bytes(), 0);
}

#[test]
fn a_doorbell_told_after_a_later_completion_has_its_own_ack_in_time() {
    let mut state = state(DllpRule::Timer);
    state.tlps(LinkDirection::Downstream, Class::Completion, 1, ns(900));
    let doorbell = state.tlps(LinkDirection::Downstream, Class::Posted, 1, ns(400));
    assert_eq!((doorbell.acks, doorbell.acks_at), (1, ns(568)));
    assert_eq!(state.tlps(LinkDirection::Downstream, Class::Completion, 1, ns(950)).acks, 0);
    assert_eq!(state.tlps(LinkDirection::Downstream, Class::Posted, 1, ns(500)).acks, 0);
}

proptest! {
    #[test]
    fn every_tlp_has_an_ack_within_its_limit_in_any_order(
        times in prop::collection::vec(0u64..3000, 1..60),
    ) {
        let mut state = state(DllpRule::Timer);
        let mut acks: Vec<u64> = Vec::new();
        for &t in &times {
            let d = state.tlps(LinkDirection::Upstream, Class::Posted, 1, ns(t));
            acks.extend((d.acks == 1).then(|| d.acks_at.ps()));
        }
        for t in times {
            let t = t * 1000;
            prop_assert!(acks.iter().any(|&a| t <= a && a <= t + 168_000));
        }
    }

    #[test]
    fn in_order_there_are_as_few_acks_as_can_be(
        mut times in prop::collection::vec(0u64..3000, 1..60),
    ) {
        times.sort_unstable();
        let mut state = state(DllpRule::Timer);
        let mut acks_at = |t| state.tlps(LinkDirection::Upstream, Class::Posted, 1, ns(t)).acks;
        let acks: u32 = times.iter().map(|&t| acks_at(t)).sum();
        // Points stabbed by the fewest intervals of 168 ns: greedy from the left is optimal.
        let (mut fewest, mut end) = (0, None);
        for t in times {
            if end.is_none_or(|e| t > e) {
                fewest += 1;
                end = Some(t + 168);
            }
        }
        prop_assert_eq!(acks, fewest);
    }
}
