use super::*;
use doorbell_bus::Trace;
use doorbell_hal::{CpuWork, Iova, Span};
use doorbell_sim::link::FrameRecord;
use serde_json::Value;

fn t(ns: u64) -> Time {
    Time::from_ps(ns * 1000)
}

/// A frame with a TCP payload of these bytes.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut f = vec![0; 54];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14] = 0x45;
    f[16..18].copy_from_slice(&(40 + payload.len() as u16).to_be_bytes());
    f[23] = 6;
    f[46] = 0x50;
    f.extend(payload);
    f
}

struct Record(Trace);

impl Record {
    fn new() -> Record {
        Record(Trace::new(100))
    }
    fn step(mut self, from: u64, until: u64, step: CpuStep) -> Record {
        self.0.add(t(from), t(until), EventKind::Core(0, step));
        self
    }
    fn moved(mut self, from: u64, until: u64, at: u64, bytes: &[u8], dir: Direction) -> Record {
        self.0.transfer((t(from), t(until)), Iova(at), bytes, dir, false);
        self
    }
}

fn lent(at: u64, len: u32, dir: Direction) -> MappedRange {
    MappedRange { at: Iova(at), len, dir }
}

fn flown(at: u64, frame: Vec<u8>) -> FrameRecord {
    FrameRecord { left: t(at), arrived: t(at + 10), took: Span::from_ns(10), frame }
}

fn written(traced: &Recording) -> Vec<Value> {
    let mut out = Vec::new();
    write(traced, 1_000_000_000, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// The names along each flow, in the order of times.
fn ways(events: &[Value]) -> Vec<Vec<String>> {
    let mut ways: BTreeMap<u64, Vec<(f64, String)>> = BTreeMap::new();
    for e in events.iter().filter(|e| e.get("bind_id").is_some()) {
        let id = e["bind_id"].as_str().unwrap().parse().unwrap();
        ways.entry(id)
            .or_default()
            .push((e["ts"].as_f64().unwrap(), e["name"].as_str().unwrap().to_owned()));
    }
    ways.into_values()
        .map(|mut way| {
            way.sort_by(|a, b| a.0.total_cmp(&b.0));
            way.into_iter().map(|w| w.1).collect()
        })
        .collect()
}

use Direction::{FromDevice, ToDevice};

#[test]
fn equal_packets_are_told_apart_by_their_order() {
    let f = frame(&[0; 20]);
    let mut r = Record::new();
    for i in 0..3 {
        let l = lent(0x1000 * (i + 1), f.len() as u32, ToDevice);
        r = r.step(10 * i, 10 * i, CpuStep::Map(l)).step(
            10 * i,
            10 * i + 5,
            CpuStep::Call(DriverCall::Transmit),
        );
        r = r.moved(10 * i + 6, 10 * i + 9, l.at.0, &f, ToDevice);
    }
    for i in 0..3 {
        r = r.step(100, 100, CpuStep::Unmap(lent(0x1000 * (i + 1), f.len() as u32, ToDevice)));
    }
    let r = r.step(95, 120, CpuStep::Call(DriverCall::Poll));
    let out = (0..3).map(|i| flown(20 + 20 * i, f.clone())).collect();
    let traced = Recording { packets: 3, platforms: vec![r.0], wires: Some([out, Vec::new()]) };
    let way = ["transmit", "fetch data", "frame", "unmap"];
    let events = written(&traced);
    assert_eq!(ways(&events), [way; 3]);
    // Each on a flow of its own, from the first buffer to the first frame.
    let of = |name: &str| -> Vec<&str> {
        events
            .iter()
            .filter(|e| e["name"] == name)
            .map(|e| e["bind_id"].as_str().unwrap())
            .collect()
    };
    assert_eq!((of("transmit"), of("frame")), (vec!["1", "2", "3"], vec!["1", "2", "3"]));
}

#[test]
fn a_large_send_is_many_frames() {
    let payload: Vec<u8> = (0..90).collect();
    let sent = frame(&payload);
    // Read in two pieces; each segment has headers of its own.
    let l = lent(0x1000, sent.len() as u32, ToDevice);
    let r = Record::new()
        .step(0, 0, CpuStep::Map(l))
        .step(0, 5, CpuStep::Call(DriverCall::Transmit))
        .moved(6, 9, 0x1000, &sent[..64], ToDevice)
        .moved(9, 12, 0x1040, &sent[64..], ToDevice)
        .step(95, 95, CpuStep::Unmap(l))
        .step(95, 120, CpuStep::Call(DriverCall::Poll));
    let out = [0..40, 40..80, 80..90]
        .map(|range| flown(20 + range.start as u64 / 2, frame(&payload[range])))
        .into();
    let traced = Recording { packets: 3, platforms: vec![r.0], wires: Some([out, Vec::new()]) };
    let way = ["transmit", "fetch data", "fetch data", "frame", "frame", "frame", "unmap"];
    assert_eq!(ways(&written(&traced)), [way]);
}

#[test]
fn a_padded_frame_with_a_new_checksum_is_found() {
    let sent = frame(&[]);
    let mut on_wire = sent.clone();
    on_wire[24] ^= 0x55;
    on_wire.resize(60, 0);
    let r = Record::new()
        .step(0, 0, CpuStep::Copy(Iova(0x1000), 54))
        .step(0, 5, CpuStep::Call(DriverCall::Transmit))
        .moved(6, 9, 0x1000, &sent, ToDevice);
    let traced = Recording {
        packets: 1,
        platforms: vec![r.0],
        wires: Some([vec![flown(20, on_wire)], Vec::new()]),
    };
    assert_eq!(ways(&written(&traced)), [["transmit", "fetch data", "frame"]]);
}

#[test]
fn a_received_frame_in_two_buffers_is_one_packet() {
    let payload: Vec<u8> = (0..100).collect();
    let f = frame(&payload);
    let r = Record::new()
        .moved(30, 33, 0x1000, &f[..100], FromDevice)
        .moved(33, 36, 0x2000, &f[100..], FromDevice)
        .step(50, 50, CpuStep::Unmap(lent(0x1000, 100, FromDevice)))
        .step(50, 50, CpuStep::Unmap(lent(0x2000, 100, FromDevice)))
        .step(45, 60, CpuStep::Call(DriverCall::Poll));
    let traced = Recording {
        packets: 1,
        platforms: vec![r.0],
        wires: Some([Vec::new(), vec![flown(10, f)]]),
    };
    let way = ["frame", "deliver data", "deliver data", "unmap", "unmap"];
    assert_eq!(ways(&written(&traced)), [way]);
}

#[test]
fn a_frame_that_is_copied_out_of_a_ring_was_received() {
    let f = frame(b"in a slot that is mapped for good");
    let mut r = Record::new();
    r.0.transfer((t(21), t(24)), Iova(0x1040), &f, FromDevice, true);
    r.0.transfer((t(24), t(25)), Iova(0x9000), &[1; 16], FromDevice, true);
    let r = r.step(30, 30, CpuStep::CopyOut(Iova(0x1040), f.len() as u32)).step(
        28,
        40,
        CpuStep::Call(DriverCall::Poll),
    );
    let traced = Recording {
        packets: 1,
        platforms: vec![r.0],
        wires: Some([Vec::new(), vec![flown(10, f)]]),
    };
    let events = written(&traced);
    assert_eq!(ways(&events), [["frame", "deliver data", "copy out"]]);
    assert_eq!(spans(&events, "write back"), [(24, 25, 2)]);
}

#[test]
fn between_partitions_what_one_gets_the_other_sent() {
    let f = frame(b"from one to the other");
    let from = Record::new()
        .step(0, 0, CpuStep::Map(lent(0x1000, f.len() as u32, ToDevice)))
        .moved(2, 4, 0x1000, &f, ToDevice)
        .step(0, 5, CpuStep::Call(DriverCall::Transmit));
    let to = Record::new()
        .moved(4, 6, 0x1000, &[&[9; 8][..], &f].concat(), FromDevice)
        .step(20, 20, CpuStep::Unmap(lent(0x1000, 2000, FromDevice)))
        .step(15, 30, CpuStep::Call(DriverCall::Poll));
    let traced = Recording { packets: 1, platforms: vec![from.0, to.0], wires: None };
    let events = written(&traced);
    assert_eq!(ways(&events), [["transmit", "fetch data", "deliver data", "unmap"]]);
    let groups: Vec<_> =
        events.iter().filter(|e| e["name"] == "process_name").map(|e| &e["args"]["name"]).collect();
    assert_eq!(
        groups,
        [
            "CPU of partition 0",
            "CPU of partition 1",
            "device of partition 0",
            "device of partition 1"
        ]
    );
}

/// Begin and end of each slice of a name, in nanoseconds, and its lane.
fn spans(events: &[Value], name: &str) -> Vec<(u64, u64, u64)> {
    let ns = |e: &Value, key: &str| (e[key].as_f64().unwrap() * 1000.0).round() as u64;
    let all = events.iter().filter(|e| e["name"] == name && e["ph"] == "X");
    all.map(|e| (ns(e, "ts"), ns(e, "ts") + ns(e, "dur"), e["tid"].as_u64().unwrap())).collect()
}

#[test]
fn steps_without_a_length_share_the_work_beside_them() {
    let mut r = Record::new().step(0, 10, CpuStep::CpuWork(CpuWork::Poll));
    for i in 0..4 {
        r = r.step(10, 10, CpuStep::Unmap(lent(i, 1, ToDevice)));
    }
    let r = r.step(10, 18, CpuStep::CpuWork(CpuWork::TxDone(4))).step(
        0,
        20,
        CpuStep::Call(DriverCall::Poll),
    );
    let traced = Recording { packets: 1, platforms: vec![r.0], wires: None };
    let events = written(&traced);
    assert_eq!(spans(&events, "unmap"), [(10, 12, 1), (12, 14, 1), (14, 16, 1), (16, 18, 1)]);
    // The exact time is with them.
    let all = events.iter().filter(|e| e["name"] == "unmap");
    assert!(all.into_iter().all(|e| e["args"]["start_ps"] == 10_000 && e["args"]["lasts_ps"] == 0));
}

#[test]
fn what_overlaps_gets_rows_and_what_is_over_gives_its_own_back() {
    let mut r = Record::new();
    for (from, until) in [(0, 10), (5, 15), (10, 20), (16, 17)] {
        r = r.moved(from, until, 0, b"x", ToDevice);
    }
    let traced = Recording { packets: 1, platforms: vec![r.0], wires: None };
    let mut all = spans(&written(&traced), "fetch data");
    all.sort_unstable();
    assert_eq!(all, [(0, 10, 1), (5, 15, 2), (10, 20, 1), (16, 17, 2)]);
}

#[test]
fn nothing_after_the_last_packet_is_shown() {
    let r = Record::new()
        .step(0, 5, CpuStep::Call(DriverCall::Transmit))
        .step(29, 40, CpuStep::Call(DriverCall::Transmit))
        .step(31, 40, CpuStep::Call(DriverCall::Transmit));
    let out = vec![flown(20, frame(&[])), flown(40, frame(&[]))];
    let traced = Recording { packets: 1, platforms: vec![r.0], wires: Some([out, Vec::new()]) };
    let events = written(&traced);
    assert_eq!(spans(&events, "frame"), [(20, 30, 2)]);
    assert_eq!(spans(&events, "transmit"), [(0, 5, 1), (29, 40, 1)]);
}
