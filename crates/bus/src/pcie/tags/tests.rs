use super::*;
use proptest::prelude::*;

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

#[test]
fn the_tag_that_is_free_first_is_taken() {
    let mut tags = Tags::new(3);
    [300, 100, 200].into_iter().for_each(|done| tags.hold(t(done)));
    // Answers may pass each other, and any free tag will do.
    for free in [100, 200, 300] {
        assert_eq!(tags.ready(), t(free));
        tags.hold(t(900));
    }
    assert_eq!(tags.ready(), t(900));
}

proptest! {
    #[test]
    fn no_more_are_under_way_than_there_are_tags(
        count in 1u32..9, reads in prop::collection::vec((0u64..50, 1u64..400), 1..200),
    ) {
        let (mut tags, mut at, mut all) = (Tags::new(count), 0, Vec::new());
        for (wait, latency) in reads {
            at += wait;
            let start = t(at).max(tags.ready());
            // It waits for no longer than it must.
            let under_way = |all: &[(Time, Time)], at| all.iter().filter(|r| at < r.1).count();
            if start > t(at) {
                prop_assert!(under_way(&all, Time::from_ps(start.ps() - 1)) >= count as usize);
            }
            let end = Time::from_ps(start.ps() + latency * 1000);
            tags.hold(end);
            all.push((start, end));
            prop_assert!(under_way(&all, start) <= count as usize);
        }
    }
}
