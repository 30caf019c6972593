use super::*;
use crate::tests::{Record, ns};

#[test]
fn a_packet_starts_when_the_port_can_read() {
    let mut p = Record::new();
    let mut pipe = Pipe::new(&Config::CONNECTX);
    for (ready, starts) in [(ns(0), ns(0)), (ns(70), ns(70))] {
        p.read_ready = ready;
        pipe.read(&mut p, Time::ZERO, Iova(0x1000), (0, 64), 64).expect("memory");
        assert_eq!(pipe.ready(), starts);
    }
    pipe.start(ns(70));
    assert_eq!(pipe.ready(), ns(74), "a packet every 4 ns");
}

#[test]
fn parts_of_a_picosecond_add_up_while_the_wire_is_busy() {
    let mut p = Record::new();
    let mut rx = receive::Counters::default();
    // A byte takes 80 ps and 512 of 1024 parts; a frame of 60 is 84 bytes on the wire.
    let half = Config { wire_byte_1024th_ps: 80 * 1024 + 512, ..Config::CONNECTX };
    let odd = Config { wire_byte_1024th_ps: 80 * 1024 + 1, ..half };
    for (cfg, three) in [(half, 3 * 84 * 80 + 3 * 42), (odd, 3 * 84 * 80)] {
        let mut pipe = Pipe::new(&Config { pipeline_delay: Span::ZERO, ..cfg });
        let mut end = Time::ZERO;
        for _ in 0..3 {
            end = pipe.send(&mut p, &mut rx, Time::ZERO, 60);
        }
        assert_eq!(end.ps(), three);
    }
    // 13 frames of 84 bytes have 1092 parts of 1024: one picosecond. A gap forgets them.
    let mut pipe = Pipe::new(&Config { pipeline_delay: Span::ZERO, ..odd });
    let mut end = Time::ZERO;
    for _ in 0..13 {
        end = pipe.send(&mut p, &mut rx, Time::ZERO, 60);
    }
    assert_eq!((end.ps(), pipe.wire_rest), (13 * 84 * 80 + 1, 1092 - 1024));
    let begin = end + Span::from_ns(1);
    end = pipe.send(&mut p, &mut rx, begin, 60);
    assert_eq!((end.since(begin).ps(), pipe.wire_rest), (84 * 80, 84));
    // What is there when the wire becomes free is no gap.
    let begin = end;
    end = pipe.send(&mut p, &mut rx, begin, 60);
    assert_eq!((end.since(begin).ps(), pipe.wire_rest), (84 * 80, 168));
}

#[test]
fn a_reset_keeps_what_is_on_the_wire_and_what_has_left() {
    let mut p = Record::new();
    let mut rx = receive::Counters::default();
    let cfg = Config { pipeline_delay: Span::ZERO, ..Config::CONNECTX };
    let mut before = Pipe::new(&cfg);
    let end = before.send(&mut p, &mut rx, Time::ZERO, 1000);
    before.link_up = false;
    let mut after = Pipe::new(&cfg);
    after.inherit(&before);
    assert_eq!((after.octets, after.link_up), (1000, false));
    assert_eq!(after.send(&mut p, &mut rx, Time::ZERO, 60), end + Span::from_ps(84 * 80));
}

/// Frames of both ports leave at the same time, each on its own wire, and a gap on one is none on
/// the other. What a reset keeps of a wire it keeps of both.
#[test]
fn each_port_has_a_wire() {
    let mut p = Record::new();
    let mut rx = receive::Counters::default();
    let cfg = Config { pipeline_delay: Span::ZERO, ..Config::CONNECTX };
    let mut pipe = Pipe::new(&cfg);
    let took = Span::from_ps(84 * 80);
    for n in 1..=3u64 {
        let mut ends = [Time::ZERO; 2];
        for end in &mut ends {
            *end = pipe.send(&mut p, &mut rx, Time::ZERO, 60);
            pipe.change_port();
        }
        assert_eq!(ends, [Time::from_ps(n * took.ps()); 2]);
    }
    assert_eq!(pipe.send(&mut p, &mut rx, Time::ZERO, 60), Time::from_ps(4 * took.ps()));
    pipe.link_up = false;
    let mut after = Pipe::new(&cfg);
    after.inherit(&pipe);
    after.change_port();
    assert!(after.link_up, "nobody has taken that one down");
    assert_eq!(after.send(&mut p, &mut rx, Time::ZERO, 60), Time::from_ps(4 * took.ps()));
    assert_eq!((after.last_bit(), after.octets), (Time::from_ps(4 * took.ps()), 8 * 60));
}
