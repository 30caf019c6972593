use super::super::Rate;
use super::*;
use doorbell_testkit::{DirectHost, NoDevice};

/// Returns whether each packet sent of frames of these sizes has "more", and the frames skipped.
fn sent(sizes: &[usize], options: ReplayOptions) -> (Vec<bool>, u64) {
    let mut frames = Frames::default();
    sizes.iter().for_each(|n| frames.push(Span::ZERO, &vec![0; *n]));
    let own = (0..sizes.len() as u32).collect();
    let mut m = DirectHost::new(1 << 20, NoDevice);
    let mut replay =
        Replay::new(Arc::new(frames), own, Pace::new(Rate::Full, Span::ZERO, 0), options);
    let mut all = Vec::new();
    while let Next::Packet(p, more) = replay.next(&mut m) {
        all.push(more);
        replay.sent(p.head.buf, p.cookie, true);
    }
    assert!(matches!(replay.next(&mut m), Next::Done));
    (all, replay.release(&mut m))
}

#[test]
fn a_frame_that_is_not_sent_is_not_announced() {
    let options = ReplayOptions { rounds: 2, ..ReplayOptions::DEFAULT };
    for own_times in [false, true] {
        let options = ReplayOptions { own_times, ..options };
        let (more, skipped) = sent(&[60, 2000, 60, 2000], options);
        assert_eq!((more, skipped), (vec![true, true, true, false], 4));
    }
    assert_eq!(sent(&[2000], options), (vec![], 2));
}
