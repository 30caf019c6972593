use super::*;

/// Returns the times of the first `n` bursts in ns, of a source that is always asked in time.
fn bursts(rate: Rate, n: usize) -> Vec<u64> {
    let mut pace = Pace::new(rate, Span::from_ns(5), 1);
    pace.start(Time::ZERO + Span::from_us(1));
    let mut now = Time::ZERO;
    let mut all = Vec::new();
    while all.len() < n {
        match pace.begin(now) {
            Ok(()) => all.push(pace.due(now).since(Time::ZERO).ps() / 1000),
            Err(at) => now = at,
        }
    }
    all
}

#[test]
fn bursts_are_even_from_the_start_of_the_traffic() {
    assert_eq!(bursts(Rate::Burst(Span::from_ns(100)), 3), [1005, 1105, 1205]);
}

#[test]
fn on_and_off_have_no_burst_while_off() {
    let (every, on, off) = (Span::from_ns(100), Span::from_ns(250), Span::from_ns(750));
    // The fourth burst is due after 5 + 3 x 100 ns that are on: 55 ns into the second phase.
    let found = bursts(Rate::OnOff { every, on, off }, 8);
    assert_eq!(found, [1005, 1105, 1205, 2055, 2155, 3005, 3105, 3205]);
    // An interval longer than a phase leaves phases without a burst.
    let found = bursts(Rate::OnOff { every: Span::from_ns(600), on, off }, 4);
    assert_eq!(found, [1005, 3105, 5205, 8055]);
}

#[test]
fn poisson_arrivals_have_the_mean_and_the_spread_of_their_distribution() {
    let all = bursts(Rate::Poisson(Span::from_ns(1000)), 20_001);
    let gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean / 1000.0 - 1.0).abs() < 0.03, "{mean}");
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{}", variance.sqrt());
}

#[test]
fn a_late_source_catches_up() {
    let mut pace = Pace::new(Rate::Burst(Span::from_ns(10)), Span::ZERO, 0);
    pace.start(Time::ZERO);
    let late = Time::ZERO + Span::from_ns(35);
    let due: Vec<u64> = std::iter::from_fn(|| pace.begin(late).ok().map(|()| pace.due(late)))
        .map(|t| t.since(Time::ZERO).ps() / 1000)
        .collect();
    assert_eq!(due, [0, 10, 20, 30]);
}
