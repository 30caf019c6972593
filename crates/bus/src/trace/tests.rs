use super::*;

fn t(ps: u64) -> Time {
    Time::from_ps(ps)
}

#[test]
fn what_lies_in_a_ring_is_a_descriptor_and_what_was_copied_there_a_packet() {
    let mut trace = Trace::new(1);
    trace.add(t(0), t(0), EventKind::Core(0, CpuStep::Copy(Iova(0x1000), 64)));
    for (at, shared) in [(0x1000, true), (0x1040, true), (0x2000, false)] {
        trace.transfer((t(1), t(2)), Iova(at), b"bytes", Direction::ToDevice, shared);
    }
    let stages: Vec<_> = trace
        .events()
        .iter()
        .filter_map(|e| match &e.what {
            EventKind::Device(stage, _, b) => Some((*stage, trace.bytes(*b))),
            _ => None,
        })
        .collect();
    let packet = Some(&b"bytes"[..]);
    use DmaStage::{FetchData, FetchDescriptors};
    assert_eq!(stages, [(FetchData, packet), (FetchDescriptors, None), (FetchData, packet)]);
}

#[test]
fn the_transfer_that_fills_it_may_be_a_packet() {
    let mut trace = Trace::new(0);
    let bytes = [0; 64 << 10];
    while !trace.is_full() {
        trace.transfer((t(1), t(2)), Iova(0x1000), &bytes, Direction::FromDevice, true);
    }
    assert_eq!(trace.events().len(), BYTES / bytes.len());
    trace.add(t(3), t(3), EventKind::Core(0, CpuStep::CopyOut(Iova(0x1000), 5)));
    assert!(matches!(
        trace.events().last().unwrap().what,
        EventKind::Device(DmaStage::DeliverData, ..)
    ));
}

#[test]
fn what_is_copied_out_of_a_ring_was_a_packet() {
    let mut trace = Trace::new(1);
    for (at, bytes) in [(0x1000, &b"frame"[..]), (0x2000, b"done"), (0x1000, b"again")] {
        trace.transfer((t(1), t(2)), Iova(at), bytes, Direction::FromDevice, true);
        if at == 0x2000 {
            trace.add(t(3), t(3), EventKind::Core(0, CpuStep::CopyOut(Iova(0x0ffe), 5)));
        }
    }
    let stages: Vec<_> = trace
        .events()
        .iter()
        .filter_map(|e| match &e.what {
            EventKind::Device(stage, _, b) => Some((*stage, trace.bytes(*b).unwrap())),
            _ => None,
        })
        .collect();
    use DmaStage::{DeliverData, WriteBack};
    assert_eq!(stages, [(DeliverData, &b"frame"[..]), (WriteBack, b"done"), (WriteBack, b"again")]);
}

#[test]
fn it_is_bounded_and_says_so() {
    let mut trace = Trace::new(2);
    for i in 0..EVENTS + 2 * EVENTS_A_PACKET {
        assert!(!trace.is_full(), "{i}");
        trace.add(t(0), t(0), EventKind::Message(0));
    }
    trace.add(t(0), t(0), EventKind::Message(0));
    assert!(trace.is_full());
    assert_eq!(trace.events().len(), EVENTS + 2 * EVENTS_A_PACKET);
    let mut trace = Trace::new(1);
    (0..200).for_each(|_| {
        trace.transfer((t(0), t(0)), Iova(0), &[0; 64 << 10], Direction::ToDevice, false);
    });
    assert!(trace.is_full() && trace.data.len() < BYTES + BYTES_A_PACKET + (64 << 10));
}

#[test]
fn free_work_is_no_event() {
    let mut trace = Trace::new(1);
    trace.add(t(5), t(5), EventKind::Core(0, CpuStep::CpuWork(CpuWork::Poll)));
    assert!(trace.events().is_empty());
}
