//! The scheduler and closed-loop traffic over a toy NIC, compared with arithmetic.

use crate::toy::{System, ToyDriver, interrupt, machine};
use doorbell_bus::{Costs, Price};
use doorbell_hal::{Span, Time, WorkKind};
use doorbell_sim::napi::{Busy, Cpu, End, NapiContext, Rules, run};
use doorbell_sim::traffic::tcp::frame::{self, SYN};
use doorbell_sim::traffic::tcp::{App, Config, Hosts, LargeSend, Offloads, Prices, Stack, pair};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GIGABIT: u64 = 1_000_000_000;

#[derive(Clone, Copy)]
struct Setup {
    config: Config,
    sends: bool,
    bytes: u64,
    rate: u64,
    delay: Span,
    line: bool,
    lose_every: Option<u64>,
    costs: Costs,
    prices: Prices,
    cores: usize,
    gro: bool,
    merges: bool,
    until: Time,
}

const SETUP: Setup = Setup {
    config: Config::LINUX,
    sends: true,
    bytes: 20_000_000,
    rate: GIGABIT,
    delay: Span::from_us(50),
    line: true,
    lose_every: None,
    costs: Costs::FREE,
    prices: Prices {
        gro: Span::ZERO,
        receive: Span::ZERO,
        acknowledgment: Span::ZERO,
        send: Span::ZERO,
        sum: Span::ZERO,
        wake: Span::ZERO,
        sleep: Span::ZERO,
        call: Price { each: Span::ZERO, per_unit: Span::ZERO },
        switch: Span::ZERO,
    },
    cores: 1,
    gro: false,
    merges: true,
    until: Time::from_ps(60_000_000_000_000),
};

/// Creates a machine whose peers start at time zero.
fn started(
    mut hosts: Hosts,
    costs: Costs,
    cores: usize,
    rate: u64,
    delay: Span,
    line: bool,
) -> System {
    hosts.start(Time::ZERO);
    machine(hosts, costs, cores, rate, delay, line)
}

type Queue = NapiContext<ToyDriver, Stack>;

fn bulk(s: &Setup) -> (System, Vec<Cpu>, Queue, End) {
    let (ours, hosts) = pair(MAC, 1, !s.sends, |_| {
        let (source, drain) = (App::source(s.bytes), App::drain());
        let peer = Config { large_send: LargeSend::Off, ..s.config };
        if s.sends {
            ((s.config, source), (peer, drain))
        } else {
            ((s.config, drain), (peer, source))
        }
    });
    let mut m = started(hosts, s.costs, s.cores, s.rate, s.delay, s.line);
    m.device.capture = Some(vec![]);
    m.device.device.lose_every = s.lose_every;
    let driver = ToyDriver::open(&mut m, s.line);
    let mut stack = Stack::new(ours, Offloads::ALL, s.prices, s.gro, Span::from_ms(3));
    stack.merges_backlog = s.merges;
    let mut cpus: Vec<Cpu> = (0..s.cores).map(|_| Cpu::default()).collect();
    let mut stations = [NapiContext::new(driver, stack, interrupt(s.line), 0, s.cores - 1)];
    let end = run(&mut m, &mut cpus, &mut stations, &Rules::LINUX, s.until).unwrap();
    let [station] = stations;
    let c = station.endpoint.counters;
    assert_eq!((c.bad_checksums, c.bad_payloads, c.unknown, c.exhausted), (0, 0, 0, 0));
    let p = &m.device.peer;
    assert_eq!((p.bad_checksums, p.bad_payloads, p.unknown), (0, 0, 0));
    (m, cpus, station, end)
}

/// Returns bit/s of payload on the wire over the middle half of the data, and data frames per
/// acknowledgment.
fn measured(m: &System, sends: bool) -> (f64, f64) {
    let data: Vec<(Time, bool, usize)> = m
        .device
        .capture
        .as_ref()
        .unwrap()
        .iter()
        .filter_map(|(at, f)| {
            let r = frame::read(f).filter(|r| r.header.flags & SYN == 0)?;
            Some((*at, (r.destination_port != 5201) == sends, r.payload.len()))
        })
        .collect();
    let (a, b) = (data[data.len() / 4].0, data[data.len() * 3 / 4].0);
    let (mut bytes, mut frames, mut acks) = (0, 0, 0);
    for (_, forth, len) in data.iter().filter(|d| d.0 > a && d.0 <= b) {
        bytes += len;
        if *len > 0 {
            frames += 1;
        } else if !forth {
            acks += 1;
        }
    }
    (bytes as f64 * 8.0 / b.since(a).as_secs_f64(), f64::from(frames) / f64::from(acks))
}

fn near(got: f64, want: f64, within: f64) {
    assert!((got / want - 1.0).abs() < within, "{got} instead of {want}");
}

#[test]
fn the_link_limits_to_mss_over_mss_and_overheads() {
    for sends in [true, false] {
        for (mss, timestamps, mbit) in [(1460, false, 949.3), (1448, true, 941.5)] {
            let config = Config { mss, timestamps, ..SETUP.config };
            let (m, _, s, end) = bulk(&Setup { config, sends, ..SETUP });
            assert_eq!(end, End::Done);
            let (rate, ratio) = measured(&m, sends);
            near(rate, mbit * 1e6, 0.001);
            near(ratio, 2.0, 0.02);
            assert_eq!(s.endpoint.connections[0].socket.counters.retransmitted, 0);
        }
    }
}

#[test]
fn the_window_limits_to_window_over_round_trip() {
    for sends in [true, false] {
        // 64 KiB are 45 segments. Every second is acknowledged, so that the odd one waits for
        // the next round's first: 44 pass in a round trip. It is acknowledged before the
        // application has read those two: 2 less. Enough rounds that one more does not show.
        let config = Config { receive_buffer: 64 << 10, ..SETUP.config };
        let delay = Span::from_ms(5);
        let (m, ..) = bulk(&Setup { config, sends, delay, bytes: 40_000_000, ..SETUP });
        // The window goes out in full segments; two of them pass before the first acknowledgment
        // leaves.
        let rtt = 10e-3 + 2.0 * 1538.0 * 8e-9;
        near(measured(&m, sends).0, 42.0 * 1448.0 * 8.0 / rtt, 0.02);
    }
}

#[test]
fn losses_are_mended_and_nothing_hangs() {
    for sends in [true, false] {
        for n in [7, 50, 301] {
            let (_, _, s, end) =
                bulk(&Setup { sends, lose_every: Some(n), bytes: 1_000_000, ..SETUP });
            assert_eq!(end, End::Done, "sends {sends}, every {n}");
            let c = &s.endpoint.connections[0].socket;
            assert_eq!(if sends { c.delivered() } else { c.received() }, 1_000_000);
        }
    }
}

#[test]
fn two_runs_are_the_same_bytes_by_line_and_by_message() {
    for line in [true, false] {
        let config = Config { large_send: LargeSend::Auto(65_000), ..SETUP.config };
        let once = || bulk(&Setup { line, config, bytes: 3_000_000, ..SETUP }).0.device.capture;
        assert_eq!(once(), once());
    }
}

#[test]
fn a_fixed_large_send_takes_one_descriptor_chain_for_many_segments() {
    let config = Config { large_send: LargeSend::Fixed(20 * 1448), ..SETUP.config };
    let (m, _, s, _) = bulk(&Setup { config, ..SETUP });
    let c = s.endpoint.connections[0].socket.counters;
    let segments = 20_000_000_u64.div_ceil(1448);
    assert!(c.data_sent < segments / 12, "{} sends", c.data_sent);
    near(measured(&m, true).0, 941.5e6, 0.001);
}

#[test]
fn a_cpu_that_is_slow_limits_and_says_where_its_time_went() {
    let mut costs = Costs::FREE;
    costs.work[WorkKind::RxPacket as usize].each = Span::from_us(10);
    let prices = Prices {
        receive: Span::from_us(6),
        call: Price { each: Span::from_us(1), per_unit: Span::from_ps(3_000) },
        ..SETUP.prices
    };
    // Less than the ring holds, so that nothing is dropped.
    let config = Config { receive_buffer: 300 << 10, ..SETUP.config };
    // 16 us in softirq and 4.3 us of copying for each frame, and an acknowledgment for two, on one
    // core.
    let (m, cpus, ..) =
        bulk(&Setup { config, sends: false, costs, prices, bytes: 8_000_000, ..SETUP });
    let rate = measured(&m, false).0;
    near(rate, 1448.0 * 8.0 / 20.34e-6, 0.05);
    let Busy { softirq, ksoftirqd, application, .. } = cpus[0].busy;
    let frames = 8_000_000.0 / 1448.0;
    near((softirq + ksoftirqd).as_secs_f64(), frames * 16e-6, 0.03);
    near(application.as_secs_f64(), frames * 4.344e-6, 0.05);
    assert!(cpus[0].busy.handovers > 0, "saturated softirq hands over");
    // With a core for the application, softirq alone is the limit.
    let (m, ..) =
        bulk(&Setup { config, sends: false, costs, prices, bytes: 8_000_000, cores: 2, ..SETUP });
    near(measured(&m, false).0, 1448.0 * 8.0 / 16e-6, 0.05);
}

/// The reader is late and owns its socket, so TCP's 10 us a segment are its core's, beside 5.8 us
/// of copying.
#[test]
fn a_late_reader_pays_for_each_backlog_entry() {
    let prices = Prices {
        receive: Span::from_us(10),
        call: Price { each: Span::from_us(10), per_unit: Span::from_ns(4) },
        ..SETUP.prices
    };
    let config = Config { receive_buffer: 1 << 20, ..SETUP.config };
    let late = Setup { config, sends: false, prices, bytes: 16_000_000, cores: 2, ..SETUP };
    let (m, cpus, s, _) = bulk(&Setup { merges: false, ..late });
    // And 10 us for a call of 128 KiB.
    near(measured(&m, false).0, 1448.0 * 8.0 / 15.9e-6, 0.01);
    let frames = 16_000_000.0 / 1448.0;
    near(s.endpoint.counters.owned as f64, frames, 0.03);
    near(cpus[1].busy.application.as_secs_f64(), frames * 15.9e-6, 0.03);
    // Where they become one, as many do as it takes to keep up: 10 us for what the line's 12.3
    // leave.
    let (m, _, s, _) = bulk(&late);
    near(measured(&m, false).0, 941.5e6, 0.001);
    let share = (1448.0 + 90.0) * 8e-3 - 5.79 - 0.11;
    near(s.endpoint.counters.owned as f64, frames * share / 10.0, 0.05);
}

/// A socket that nobody owns is softirq's: its core and the reader's are busy side by side.
#[test]
fn a_woken_reader_owns_nothing_until_it_runs() {
    let us = Span::from_us;
    let prices = Prices { receive: us(3), sleep: us(4), ..SETUP.prices };
    let (m, cpus, s, _) = bulk(&Setup { sends: false, prices, cores: 2, ..SETUP });
    near(measured(&m, false).0, 941.5e6, 0.001);
    let frames = SETUP.bytes as f64 / 1448.0;
    assert_eq!(s.endpoint.counters.owned, 0);
    near(s.endpoint.counters.wakes as f64, frames, 0.02);
    near(cpus[0].busy.softirq.as_secs_f64(), frames * 3e-6, 0.03);
    near(cpus[1].busy.application.as_secs_f64(), frames * 8e-6, 0.02);
}

#[test]
fn transactions_take_two_frames_and_two_delays_each() {
    for opens in [true, false] {
        let peers = 8;
        let (ours, hosts) = pair(MAC, peers, opens, |i| {
            let config = Config { no_delay: true, ..Config::LINUX };
            let first = Time::ZERO + Span::from_us(u64::from(i));
            let client = App::client(1, 1, Span::ZERO, 200, first);
            let server = App::server(1, 1);
            if opens {
                ((config, server), (config, client))
            } else {
                ((config, client), (config, server))
            }
        });
        let mut m = started(hosts, Costs::FREE, 1, GIGABIT, Span::from_us(20), true);
        let driver = ToyDriver::open(&mut m, true);
        let stack = Stack::new(ours, Offloads::ALL, Prices::default(), true, Span::from_ms(3));
        let mut stations = [NapiContext::new(driver, stack, interrupt(true), 0, 0)];
        let until = Time::ZERO + Span::from_ms(60);
        run(&mut m, &mut [Cpu::default()], &mut stations, &Rules::LINUX, until).unwrap();
        let [s] = stations;
        let peers_apps = m.device.peer.ends.iter().map(|e| &e.app);
        let apps: Vec<&App> = if opens {
            peers_apps.collect()
        } else {
            s.endpoint.connections.iter().map(|c| &c.app).collect()
        };
        for app in apps {
            let App::Client(c) = app else { panic!("a client") };
            assert_eq!((c.left, c.done), (0, 200));
            // 67 bytes and 12 of preamble and FCS, each way, and some bus.
            let median = c.latency.quantile(500).unwrap().as_ns_f64();
            assert!((41_200.0..46_000.0).contains(&median), "{median} ns");
        }
    }
}
