use super::*;

#[test]
fn never_stays_never() {
    assert_eq!(Time::NEVER + Span::from_ms(1), Time::NEVER);
}

#[test]
fn since_an_event_yet_to_come_is_zero() {
    assert_eq!(Time::ZERO.since(Time::from_ps(5)), Span::ZERO);
}
