use super::*;

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}

fn book(line: &mut Reservations, at: u64, duration: u64) -> u64 {
    line.book(ps(at), Span::from_ps(duration)).ps()
}

fn intervals(line: &Reservations) -> Vec<(u64, u64)> {
    line.intervals().map(|i| (i.start.ps(), i.end.ps())).collect()
}

#[test]
fn a_completion_booked_ahead_does_not_delay_a_doorbell_due_now() {
    let mut line = Reservations::new();
    assert_eq!(book(&mut line, 1000, 84), 1000);
    assert_eq!(book(&mut line, 100, 28), 100);
    assert_eq!(book(&mut line, 990, 28), 1084, "does not fit before the completion");
    assert_eq!(book(&mut line, 972, 28), 972, "fits exactly");
    assert_eq!(intervals(&line), [(100, 128), (972, 1112)]);
    assert_eq!((line.busy().ps(), line.horizon()), (168, ps(1112)));
}

#[test]
fn a_filled_gap_joins_its_neighbours() {
    let mut line = Reservations::new();
    for at in [0, 20, 40, 60] {
        book(&mut line, at, 10);
    }
    assert_eq!(book(&mut line, 0, 10), 10);
    assert_eq!(intervals(&line), [(0, 30), (40, 50), (60, 70)]);
    assert_eq!(book(&mut line, 45, 10), 50);
    assert_eq!(intervals(&line), [(0, 30), (40, 70)]);
    assert_eq!(book(&mut line, 0, 10), 30);
    assert_eq!(intervals(&line), [(0, 70)]);
}

#[test]
fn nothing_is_booked_before_the_floor_and_the_past_is_forgotten() {
    let mut line = Reservations::new();
    for at in 0..1000 {
        book(&mut line, at * 10, 5);
        line.retire_before(ps((at * 10).saturating_sub(50)));
        assert!(line.intervals().count() <= 7 + LEAF);
    }
    assert_eq!(line.busy().ps(), 5000);
    line.retire_before(ps(20_000));
    assert_eq!(book(&mut line, 3, 5), 20_000);
    assert_eq!(intervals(&line), [(20_000, 20_005)]);
    line.retire_before(ps(0));
    assert_eq!(line.floor(), ps(20_000));
}

#[test]
fn a_gap_stays_known_when_intervals_of_two_leaves_join() {
    let mut line = Reservations::new();
    let last_of_first_leaf = (LEAF as u64 - 1) * 100;
    for i in 0..LEAF as u64 {
        book(&mut line, i * 100, 10);
    }
    for i in 1..LEAF as u64 + 2 {
        book(&mut line, last_of_first_leaf + i * 30, 10);
    }
    let end = line.horizon().ps();
    assert_eq!(book(&mut line, last_of_first_leaf, 50), end, "passes by the gaps of 20");
    assert_eq!(book(&mut line, last_of_first_leaf, 20), last_of_first_leaf + 10);
    assert_eq!(book(&mut line, last_of_first_leaf - 90, 60), last_of_first_leaf - 90);
}

#[test]
fn an_empty_booking_takes_no_gap() {
    let mut line = Reservations::new();
    book(&mut line, 10, 10);
    assert_eq!(book(&mut line, 15, 0), 15);
    assert_eq!(book(&mut line, 90, 0), 90);
    assert_eq!(intervals(&line), [(10, 20)]);
}

#[test]
fn a_pattern_takes_a_free_line_as_its_parts_do() {
    let part = |start, end| Interval { start: ps(start), end: ps(end) };
    let pattern = [part(0, 5), part(9, 20), part(30, 31)];
    for at in [0, 40, 45, 50, 60, 90] {
        let mut line = Reservations::new();
        book(&mut line, 10, 5);
        book(&mut line, 40, 10);
        line.retire_before(ps(12));
        let mut parts = line.clone();
        let start = line.append(ps(at), pattern.into_iter(), Span::from_ps(17)).map(Time::ps);
        assert_eq!(start, (at >= 40).then_some(at.max(50)), "something is booked after 0");
        for p in start.iter().flat_map(|_| &pattern) {
            let from = at.max(50) + p.start.ps();
            assert_eq!(book(&mut parts, from, p.end.since(p.start).ps()), from);
        }
        assert_eq!(intervals(&line), intervals(&parts));
        assert_eq!((line.busy(), line.horizon()), (parts.busy(), parts.horizon()));
    }
}

#[test]
fn what_is_booked_after_a_time_is_counted_from_it() {
    let (ns, at) = (Span::from_ns, |n| Time::ZERO + Span::from_ns(n));
    let mut r = Reservations::new();
    r.book(at(0), ns(10));
    r.book(at(50), ns(10));
    r.book(at(20), ns(10));
    for (from, left) in [(0, 30), (5, 25), (10, 20), (25, 15), (30, 10), (55, 5), (60, 0), (99, 0)]
    {
        assert_eq!(r.busy_after(at(from)), ns(left), "{from}");
    }
}
