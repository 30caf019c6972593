use super::super::Rate;
use super::*;
use doorbell_testkit::{DirectHost, NoDevice};

/// Returns whether each packet sent of frames of these sizes has "more", and the frames skipped.
fn sent(sizes: &[usize], options: ReplayOptions) -> (Vec<bool>, u64) {
    let mut frames = Frames::default();
    sizes.iter().for_each(|n| frames.push(Span::ZERO, &vec![0; *n]));
    let own = (0..sizes.len() as u32).collect();
    let mut m = DirectHost::new(1 << 20, NoDevice);
    let pace = Pace::new(Rate::Full, Span::ZERO, 0);
    let mut replay = Replay::new(Arc::new(frames), own, SegmentSizes::None, pace, options);
    let mut all = Vec::new();
    while let Next::Packet(p, more, _) = replay.next(&mut m) {
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

/// A TCP frame of a flow's port, with this payload; flags and options are at its end.
fn tcp(ports: [u16; 2], payload: usize, flags: u8, options: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    f.extend((40 + options.len() as u16 + payload as u16).to_be_bytes());
    f.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1]);
    f.extend(ports.map(u16::to_be_bytes).concat());
    f.extend([0, 0, 0, 1, 0, 0, 0, 1, (20 + options.len() as u8) << 2, flags, 1, 0, 0, 0, 0, 0]);
    f.extend(options);
    f.resize(f.len() + payload, 7);
    f
}

fn sizes(frames: &[Vec<u8>]) -> Vec<Option<u16>> {
    let mut all = Frames::default();
    frames.iter().for_each(|f| all.push(Span::ZERO, f));
    let options = ReplayOptions { gso: Some(SegmentSize::OfFlow), ..ReplayOptions::DEFAULT };
    let segments = SegmentSizes::of(&all, &options);
    (0..frames.len()).map(|i| segments.size(i)).collect()
}

#[test]
fn a_flow_has_the_segment_size_that_its_syns_announce() {
    let (there, back, stamps) = ([1, 2], [2, 1], [1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mss = |n: u16| [&[2, 4][..], &n.to_be_bytes()].concat();
    let large = tcp(there, 9000, 0x10, &stamps);
    let [syn, answer] = [tcp(there, 0, 2, &mss(1460)), tcp(back, 0, 0x12, &mss(1300))];
    let found = sizes(&[syn.clone(), answer, large.clone(), tcp([3, 4], 9000, 0x10, &stamps)]);
    assert_eq!(found, [None, None, Some(1288), Some(1448)], "the smaller, less the options");
    // What the MTU does not allow is no segment, and 0 no size.
    assert_eq!(sizes(&[tcp(there, 0, 2, &mss(8960)), large.clone()])[1], Some(1448));
    assert_eq!(sizes(&[tcp(there, 0, 2, &mss(0)), large])[1], Some(1448));
}

#[test]
fn a_flow_without_a_syn_has_the_size_of_its_full_segments() {
    let of = |n: usize| tcp([1, 2], n, 0x10, &[]);
    let large = of(9000);
    assert_eq!(sizes(&[of(1200), of(1200), of(100), large.clone()])[3], Some(1200));
    assert_eq!(sizes(&[of(1200), of(100), of(100), large.clone()])[3], Some(1460), "once");
    assert_eq!(sizes(&[of(100), of(100), large.clone()])[2], Some(1460), "no full segments");
    let other = tcp([2, 1], 1200, 0x10, &[]);
    assert_eq!(sizes(&[other.clone(), other, large])[2], Some(1460), "of the other direction");
    assert_eq!(sizes(&[vec![0; 2000]]), [None]);
}
