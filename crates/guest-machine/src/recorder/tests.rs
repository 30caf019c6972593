use super::{MOST, Recorder};
use crate::board::tests::{frames, plan};
use crate::{Frames, Pattern};
use doorbell_bus::memory::anonymous;
use doorbell_hal::{Span, Time};

/// The points of a series of a machine to which `count` frames come each millisecond, for so long.
fn packets(count: u64, lasts: Span) -> Vec<(f64, f64)> {
    let mut board = plan().board(anonymous(1 << 20).unwrap()).unwrap();
    let mut recorder = Recorder::begin(board.as_ref());
    let pattern = Pattern::Even(Span::from_us(1000 / count));
    board.send(Span::from_us(10), Frames { count: 1 << 20, ..frames(pattern) });
    let mut now = Time::ZERO;
    while now < Time::ZERO + lasts {
        recorder.pass(now, board.as_ref());
        board.run(now);
        now = board.next_event().min(Time::ZERO + lasts);
    }
    board.run(now);
    let series = recorder.end(board.as_ref());
    assert!(series.iter().any(|s| s.name == "setting_delay_us" && s.points[0].1 == 0.0));
    series.into_iter().find(|s| s.name == "wire_frames_per_s").unwrap().points
}

#[test]
fn rates_are_those_of_each_millisecond() {
    // The last slice is a half.
    let points = packets(4, Span::from_us(2500));
    let times: Vec<f64> = points.iter().map(|p| p.0).collect();
    assert_eq!(times, [1.0, 2.0, 2.5]);
    // Frames take 5 us of cable, so that they come in the slices in which they were sent.
    assert!(points.iter().all(|p| (p.1 - 4000.0).abs() < 1e-6), "{points:?}");
}

#[test]
fn slices_of_a_long_time_are_longer() {
    let points = packets(2, Span::from_ms(1500));
    assert!(points.len() < MOST && points[0].0 == 2.0, "{} from {:?}", points.len(), points[0]);
    assert!(points.iter().all(|p| (p.1 - 2000.0).abs() < 1e-6), "{points:?}");
}
