use super::*;

#[test]
fn marks_stay_even_however_many_frames_leave() {
    for frames in [1u64, 31, 32, 8191, 8192, 8193, 8224, 100_000] {
        let mut d = Departures::every(32, 5);
        for n in 6..=5 + frames {
            if n == d.next {
                d.mark(Time::from_ps(n * 10));
            }
        }
        let marks = d.marks();
        assert!(
            marks.len() < MOST && marks.len() as u64 >= (frames / 32).min(MOST as u64 / 2),
            "{frames}"
        );
        assert!(marks.iter().all(|(at, n)| *at == Time::from_ps((n + 5) * 10)), "{frames}");
        assert!(marks.windows(2).all(|m| m[1].1 - m[0].1 == d.stride), "{frames}");
    }
}
