use super::*;
use proptest::prelude::*;

fn times(phases: Vec<Phase>, seed: u64) -> Vec<(u64, usize)> {
    let mut wire = Wire::new(1_000_000_000, Span::ZERO);
    let mut a = Arrivals::new([2; 6], phases, seed, vec![1, 2]);
    a.start(Time::ZERO);
    let mut all = Vec::new();
    let (mut before, mut bytes) = (0, 0);
    while let Some(at) = a.next_due() {
        a.advance(at, &mut wire);
        if a.sent > before {
            before = a.sent;
            let size = (wire.bytes - std::mem::replace(&mut bytes, wire.bytes)) as usize;
            all.push((at.since(Time::ZERO).ps() / 1_000_000, size));
        }
        assert!(all.len() < 100_000);
    }
    all
}

const fn phase(ms: u64, pattern: Pattern, size: u32) -> Phase {
    Phase { lasts: Span::from_ms(ms), pattern, size }
}

#[test]
fn frames_come_evenly_and_phases_follow_each_other() {
    let all = times(
        vec![
            phase(1, Pattern::Even(Span::from_us(250)), 60),
            phase(1, Pattern::Silence, 60),
            phase(1, Pattern::Even(Span::from_us(500)), 1514),
        ],
        0,
    );
    assert_eq!(all, [(0, 60), (250, 60), (500, 60), (750, 60), (2000, 1514), (2500, 1514)]);
}

#[test]
fn a_burst_comes_back_to_back_and_the_next_when_it_is_due() {
    let all = times(vec![phase(1, Pattern::Bursts(3, Span::from_us(400)), 1514)], 0);
    // 12.304 us a frame.
    assert_eq!(
        all.iter().map(|a| a.0).collect::<Vec<_>>(),
        [0, 12, 24, 400, 412, 424, 800, 812, 824]
    );
}

#[test]
fn random_arrivals_have_their_mean_and_the_seed_decides() {
    let phases = vec![phase(1000, Pattern::Random(Span::from_us(100)), 60)];
    let all = times(phases.clone(), 7);
    assert!((9_700..10_300).contains(&all.len()), "{}", all.len());
    assert_eq!(all, times(phases.clone(), 7));
    assert_ne!(all, times(phases, 8));
}

proptest! {
    #[test]
    fn every_list_of_phases_comes_to_its_end(
        kinds in prop::collection::vec((0u8..4, 1u64..3_000, 1u64..500, 1u32..40), 0..12), seed: u64
    ) {
        let phases = kinds.iter().map(|&(kind, lasts, gap, n)| {
            let gap = Span::from_us(gap);
            let pattern = match kind {
                0 => Pattern::Silence,
                1 => Pattern::Even(gap),
                2 => Pattern::Random(gap),
                _ => Pattern::Bursts(n, gap),
            };
            Phase { lasts: Span::from_us(lasts), pattern, size: 60 + n }
        });
        let all = times(phases.collect(), seed);
        prop_assert!(all.windows(2).all(|w| w[0].0 <= w[1].0));
    }
}

#[test]
fn a_capture_comes_at_its_own_times_and_again() {
    let mut frames = Frames::default();
    for (us, len) in [(0, 60), (10, 70), (30, 1514)] {
        frames.push(Span::from_us(us), &vec![0; len]);
    }
    let mut wire = Wire::new(10_000_000_000, Span::ZERO);
    let phases = vec![Phase { lasts: Span::from_us(90), pattern: Pattern::Captured, size: 0 }];
    let mut a = Arrivals::new([2; 6], phases, 0, vec![0]).of_capture(Arc::new(frames));
    a.start(Time::ZERO);
    let mut all = Vec::new();
    while let Some(at) = a.next_due() {
        let before = (a.sent, wire.bytes);
        a.advance(at, &mut wire);
        if a.sent > before.0 {
            all.push((at.ps() / 1_000_000, wire.bytes - before.1));
        }
    }
    // Rounds are 15 us apart, the mean of its intervals.
    let round = |us| [(us, 60), (us + 10, 70), (us + 30, 1514)];
    assert_eq!(all, [round(0), round(45)].concat());
}

proptest! {
    #[test]
    fn a_time_comes_out_of_an_address_as_it_went_in(at in 0..1u64 << 50, later in 0..1u64 << 45) {
        let (at, now) = (Time::from_ps(at), Time::from_ps(at + later));
        let address = stamp(at);
        prop_assert_eq!(address[0] & 3, 2, "a local address of one station");
        prop_assert_eq!(stamped(address, now), Some(at));
        prop_assert_eq!(stamped(stamp(now), at), Some(now), "a core may be late");
        prop_assert_eq!(stamped([0x00, 1, 2, 3, 4, 5], now), None);
    }
}
