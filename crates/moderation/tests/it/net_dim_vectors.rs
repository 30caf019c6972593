//! net_dim against Linux's own decisions, column by column (`tests/vectors/README.md`).

use doorbell_moderation::{Controller, Direction, Flow, NetDim, Period, Sample, State, profiles};

const COLUMNS: &str = "time_us,packets,bytes,events,work_done,profile,tune_state,state,tired,\
     steps_left,steps_right,scheduled";

/// Replays a file from profile `start`, in `direction`; `high` is added to every
/// counter above the bits that Linux keeps, so that wider counters must not matter.
/// Returns the rows and how many of them scheduled the worker.
fn replay(csv: &str, start: u8, direction: Direction, high: bool) -> (usize, usize) {
    let table = profiles::linux(direction, Period::Event);
    let mut dim = NetDim::new(table, direction).starting_at(start);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some(COLUMNS));
    let (mut rows, mut scheduled) = (0, 0);
    for (n, line) in lines.enumerate() {
        let v: Vec<u64> = line.split(',').map(|x| x.parse().expect("a number")).collect();
        let [time_us, packets, bytes, events, work_done, ref want @ ..] = v[..] else {
            panic!("row {n}: {line}")
        };
        let upper = |bits: u32| if high { (n as u64 * 7 + 1) << bits } else { 0 };
        let flow = Flow { packets: packets + upper(32), bytes: bytes + upper(32) };
        let mut sample =
            Sample { time_ns: time_us * 1_000, events: events + upper(16), ..Sample::default() };
        match direction {
            Direction::Rx => sample.rx = flow,
            Direction::Tx => sample.tx = flow,
        }
        if work_done == 1 {
            assert_eq!(
                dim.state(),
                State::ApplyNewProfile,
                "row {n}: the worker ran, so there was work"
            );
            dim.applied();
        }
        let told = dim.sample(&sample);
        let got = [
            u64::from(dim.index()),
            dim.tune() as u64,
            dim.state() as u64,
            u64::from(dim.tired()),
            u64::from(dim.steps_left()),
            u64::from(dim.steps_right()),
            u64::from(told.is_some()),
        ];
        assert_eq!(got[..], *want, "row {n}: {line}");
        assert_eq!(dim.setting(), table[usize::from(dim.index())]);
        assert!(told.is_none_or(|s| s == dim.setting()));
        rows += 1;
        scheduled += usize::from(told.is_some());
    }
    (rows, scheduled)
}

const FILES: [(&str, u8, usize); 3] = [
    (include_str!("../vectors/sequence-11.csv"), 1, 1141),
    (include_str!("../vectors/sequence-12.csv"), 2, 1143),
    (include_str!("../vectors/sequence-13.csv"), 3, 1169),
];

#[test]
fn every_column_of_every_sequence_is_linuxs() {
    for (csv, start, changes) in FILES {
        let (rows, scheduled) = replay(csv, start, Direction::Rx, false);
        assert_eq!(rows, 6000);
        assert_eq!(scheduled, changes);
    }
}

#[test]
fn transmission_decides_the_same() {
    for (csv, start, _) in FILES {
        replay(csv, start, Direction::Tx, false);
    }
}

#[test]
fn counters_wider_than_linuxs_change_nothing() {
    for (csv, start, _) in FILES {
        replay(csv, start, Direction::Rx, true);
    }
}

#[test]
fn the_sequences_visit_all_that_net_dim_can_be() {
    let mut seen = [[false; 5]; 4];
    let mut tired = 0;
    for (csv, _, _) in FILES {
        for line in csv.lines().skip(1) {
            let v: Vec<usize> = line.split(',').map(|x| x.parse().unwrap()).collect();
            seen[v[6]][v[5]] = true;
            tired = tired.max(v[8]);
        }
    }
    let [top, parked_tired, right, left] = seen;
    assert_eq!((top, parked_tired), ([true; 5], [true; 5]), "parked at every profile");
    assert!(right[1..].iter().chain(&left[..4]).all(|s| *s), "both ways through the table");
    assert_eq!(tired, 10);
}
