//! Properties of the time line, against a model that does everything the long way.

use crate::naive::Naive;
use doorbell_bus::reservations::Reservations;
use doorbell_hal::{Span, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    Book(u64, u64),
    Floor(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    // Small numbers, so that gaps fit, almost fit, and touch; crowded lines, and long ones of
    // several leaves that fill up while the durations vary.
    let line = prop_oneof![Just((400u64, 150usize)), Just((4_000, 700))];
    line.prop_flat_map(|(until, count)| {
        let call = prop_oneof![
            40 => (0..until, 0u64..12).prop_map(|(at, duration)| Call::Book(at, duration)),
            1 => (0..until).prop_map(move |floor| Call::Floor(floor * floor / until / 2)),
        ];
        prop::collection::vec(call, 1..count)
    })
}

/// The intervals of a line; fails if they are empty, overlap, touch or are out of order.
fn intervals(line: &Reservations) -> Vec<(u64, u64)> {
    let all: Vec<_> = line.intervals().map(|i| (i.start.ps(), i.end.ps())).collect();
    assert!(all.iter().all(|&(start, end)| start < end));
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0));
    all
}

proptest! {
    #[test]
    fn it_equals_the_naive_model(calls in calls()) {
        let (mut line, mut naive) = (Reservations::new(), Naive::default());
        for call in calls {
            match call {
                Call::Book(at, duration) => {
                    let start = line.book(Time::from_ps(at), Span::from_ps(duration)).ps();
                    prop_assert_eq!(start, naive.book(at, duration));
                    prop_assert!(start >= at && start >= line.floor().ps());
                }
                Call::Floor(floor) => {
                    line.retire_before(Time::from_ps(floor));
                    naive.retire_before(floor);
                }
            }
            prop_assert_eq!(line.busy().ps(), naive.busy);
            prop_assert_eq!(line.floor().ps(), naive.floor);
            // The model's bookings, joined where they touch. What lies before the floor each
            // forgets by its own measure: neither will ever book there.
            let mut joined: Vec<(u64, u64)> = Vec::new();
            for &(start, end) in &naive.bookings {
                let start = start.max(naive.floor);
                match joined.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => joined.push((start, end)),
                }
            }
            let above_floor: Vec<_> = intervals(&line)
                .into_iter()
                .filter(|&(_, end)| end > naive.floor)
                .map(|(start, end)| (start.max(naive.floor), end))
                .collect();
            prop_assert_eq!(above_floor, joined);
        }
    }

    #[test]
    fn totals_do_not_depend_on_the_order_of_calls(
        (bookings, shuffled) in prop::collection::vec((0u64..400, 0u64..12), 1..100)
            .prop_flat_map(|b| (Just(b.clone()), Just(b).prop_shuffle())),
    ) {
        let totals = [bookings, shuffled].map(|bookings| {
            let mut line = Reservations::new();
            for (at, duration) in bookings {
                line.book(Time::from_ps(at), Span::from_ps(duration));
            }
            let covered: u64 = intervals(&line).iter().map(|(start, end)| end - start).sum();
            assert_eq!(covered, line.busy().ps());
            covered
        });
        prop_assert_eq!(totals[0], totals[1]);
    }

    #[test]
    fn equal_bookings_on_their_grid_use_the_same_slots_in_any_order(
        length in 1u64..9,
        (slots, shuffled) in prop::collection::vec(0u64..80, 1..100)
            .prop_flat_map(|s| (Just(s.clone()), Just(s).prop_shuffle())),
    ) {
        let used = [slots, shuffled].map(|slots| {
            let mut line = Reservations::new();
            for slot in slots {
                line.book(Time::from_ps(slot * length), Span::from_ps(length));
            }
            intervals(&line)
        });
        prop_assert_eq!(&used[0], &used[1]);
    }
}
