//! Traffic at a rate keeps that rate from the opening of the driver on, and a reported rate is that
//! of the steady part of a run, whatever its length.

use crate::sound;
use doorbell_hal::Span;
use doorbell_sim::traffic::Frames;
use doorbell_systems::result::Measured;
use doorbell_systems::window::Lack;
use std::sync::Arc;

fn run(scenario: &str, sets: &[String]) -> Measured {
    sound::run(scenario, sets, None)
}

fn rate(m: &Measured, name: &str) -> f64 {
    m.rates.iter().find(|r| r.metric.name == name).unwrap_or_else(|| panic!("{name}")).value
}

fn near(got: f64, asked: f64, within: f64, what: &str) {
    assert!((got / asked - 1.0).abs() < within, "{what}: {got} instead of {asked}");
}

/// Scenarios of the systems with a packet generator.
const GENERATORS: [&str; 3] = ["mlx5-pktgen-64", "e1000-pktgen", "axienet-saturated"];

#[test]
fn the_generator_keeps_its_rate_on_every_system() {
    for scenario in GENERATORS {
        for burst in [1, 8, 32] {
            let asked = 10_000.0;
            let mut sets: Vec<String> = [
                "traffic.kind=pktgen",
                "traffic.rate=0.01",
                "traffic.packets=1000",
                "traffic.size=64",
            ]
            .map(str::to_owned)
            .into();
            sets.push(format!("traffic.burst={burst}"));
            if scenario.starts_with("mlx5") {
                sets.push("run.cores=2".to_owned());
            }
            let m = run(scenario, &sets);
            let what = format!("{scenario}, bursts of {burst}");
            near(rate(&m, "packets_per_s"), asked, 2e-3, &what);
            assert!(
                m.window.is_steady() && m.window.error.unwrap() < 2e-3,
                "{what}: {:?}",
                m.window
            );
            // From the first burst to the last. The last bursts of two cores may be short.
            let seconds = m.elapsed.as_secs_f64();
            let least = (1000.0 - 2.0 * f64::from(burst)) / asked;
            assert!((least..0.101).contains(&seconds), "{what}: {seconds} s");
        }
    }
}

#[test]
fn phases_with_silence_keep_the_mean_rate() {
    for scenario in GENERATORS {
        // A burst comes 3.1 and 0.62 times in a phase of 1 ms.
        for mpps in [0.05, 0.01] {
            let packets = mpps * 200_000.0;
            let mut sets: Vec<String> = [
                "traffic.kind=pktgen",
                "traffic.arrivals=on_off",
                "traffic.size=64",
                "traffic.burst=32",
            ]
            .map(str::to_owned)
            .into();
            sets.push(format!("traffic.rate={mpps}"));
            sets.push(format!("traffic.packets={packets}"));
            if scenario.starts_with("mlx5") {
                sets.push("run.cores=1".to_owned());
            }
            let m = run(scenario, &sets);
            // Four cycles of the hundred may be missing.
            let what = format!("{scenario}, {mpps} Mpps");
            near(m.elapsed.as_secs_f64(), 0.2, 0.04, &what);
        }
    }
}

#[test]
fn a_capture_keeps_its_own_times_on_every_system() {
    let mut frames = Frames::default();
    let mut frame = [0; 100];
    frame[12] = 0x08;
    (0..200).for_each(|i| frames.push(Span::from_ms(i), &frame));
    let frames = Arc::new(frames);
    for scenario in GENERATORS {
        let sets = ["traffic.kind=pcap", "traffic.times=own"].map(str::to_owned);
        let m = sound::run(scenario, &sets, Some(&frames));
        near(rate(&m, "packets_per_s"), 1000.0, 1e-3, scenario);
        near(m.elapsed.as_secs_f64(), 0.199, 5e-3, scenario);
    }
}

#[test]
fn paced_bursts_keep_their_distance_on_every_system() {
    for scenario in ["axienet-paced", "ibmveth-paced", "ibmvnic-paced"] {
        for way in ["send", "receive", "answer"] {
            for every in [300, 1000] {
                let sets = [
                    format!("paced.way={way}"),
                    format!("paced.every={every}"),
                    "paced.burst=3".to_owned(),
                ];
                let m = run(scenario, &sets);
                near(
                    rate(&m, "packets_per_s"),
                    3e6 / f64::from(every),
                    5e-3,
                    &format!("{scenario} {way} {every}"),
                );
            }
        }
    }
}

#[test]
fn a_tcp_source_keeps_its_rate_on_every_system() {
    for (scenario, mbits) in
        [("e1000-send", 50.0), ("axienet-receive", 200.0), ("ibmveth-send", 100.0)]
    {
        let m = run(scenario, &[format!("traffic.source_rate={mbits}")]);
        near(rate(&m, "payload_bits_per_s"), mbits * 1e6, 0.01, scenario);
    }
}

#[test]
fn arrivals_load_the_wire_as_asked() {
    let m = run("axienet-saturated", &["traffic.load=20".to_owned()]);
    near(rate(&m, "wire_in_bits_per_s"), 2e8, 0.01, "a fifth of a gigabit");
}

#[test]
fn a_rate_does_not_depend_on_the_length() {
    for packets in [2_400, 24_000, 240_000] {
        let m = run("mlx5-pktgen-64", &[format!("traffic.packets={packets}")]);
        let error = m.window.error.unwrap();
        near(
            rate(&m, "packets_per_s"),
            36.864e6,
            error.min(0.02),
            &format!("{packets} packets, {error}"),
        );
        assert!(m.window.is_steady());
    }
}

#[test]
fn a_run_too_short_for_a_rate_says_so() {
    let m = run("mlx5-pktgen-64", &["traffic.packets=240".to_owned()]);
    assert_eq!(
        (m.window.lacks, m.window.error, m.window.length()),
        (Some(Lack::Short), None, m.elapsed)
    );
    let m = run("e1000-send", &["traffic.duration=5".to_owned()]);
    assert_eq!((m.window.lacks, m.window.error), (Some(Lack::Few), None));
    let m = run("e1000-send", &["traffic.warmup=0".to_owned()]);
    assert_eq!(m.window.lacks, Some(Lack::Start));
}

/// Cores at full speed send in step, so departures come in rounds.
#[test]
fn cores_in_step_are_no_faster_than_their_work() {
    for (cores, packets, rate_too) in
        [(1, 24_000, false), (3, 24_000, false), (24, 48_000, false), (24, 48_000, true)]
    {
        let mut sets = vec![
            "cpu.stack=10000".to_owned(),
            format!("traffic.packets={packets}"),
            format!("run.cores={cores}"),
        ];
        // More than they can send.
        sets.extend(rate_too.then(|| "traffic.rate=20Mpps".to_owned()));
        let m = run("mlx5-full-rate", &sets);
        let cycles = m.per_packet().into_iter().find(|n| n.0 == "cycles").unwrap().1;
        let bound = f64::from(cores) * 2.5e9 / cycles;
        near(rate(&m, "packets_per_s"), bound, 0.002, &format!("{cores} cores, {packets}"));
        near(rate(&m, "cpu_busy_share"), 1.0, 0.002, &format!("busy, {cores} cores"));
    }
}

/// The frames take longer than their bursts, as long as the link needs.
#[test]
fn a_pace_that_the_link_cannot_carry_is_not_reported() {
    for way in ["send", "receive", "answer"] {
        let sets = ["paced.every=1", "paced.size=1514", "paced.bursts=400"];
        let sets = sets.map(str::to_owned).into_iter().chain([format!("paced.way={way}")]);
        let m = run("axienet-paced", &sets.collect::<Vec<_>>());
        let bits = rate(&m, "packets_per_s") * 8.0 * (1514.0 + 24.0);
        assert!((0.5e9..1.001e9).contains(&bits), "{way}: {bits}");
    }
}

/// Numbers of the measured time are of no other time.
#[test]
fn a_closed_loop_counts_the_measured_time_only() {
    for scenario in ["e1000-transactions", "ibmveth-transactions"] {
        let m = run(scenario, &["traffic.duration=20".to_owned()]);
        assert_eq!(m.latency.count(), m.packets, "{scenario}");
    }
    for (scenario, ms) in [("e1000-transactions", "0.05"), ("axienet-receive", "0.2")] {
        let m = run(scenario, &[format!("traffic.duration={ms}")]);
        for share in m.rates.iter().filter(|r| r.metric.name.ends_with("busy_share")) {
            assert!(share.value <= 1.0, "{scenario}: {share:?}");
        }
    }
}

#[test]
fn a_series_has_the_interrupts_of_all_lines_from_its_first_slice_on() {
    // Without a warm-up the slices are those of the measured time.
    let each_way: &[&str] = &["rx_interrupts_per_s", "tx_interrupts_per_s"];
    for (scenario, names) in [("axienet-receive", each_way), ("e1000-send", &["interrupts_per_s"])]
    {
        let m = run(scenario, &["traffic.warmup=0".to_owned(), "traffic.duration=10".to_owned()]);
        let series = m.series.iter().find(|s| s.name == "interrupts_per_s").unwrap();
        assert_eq!((series.points.len(), series.points[0].0), (10, 1.0), "{scenario}");
        let mean = series.points.iter().map(|p| p.1).sum::<f64>() / 10.0;
        near(mean, names.iter().map(|n| rate(&m, n)).sum(), 1e-9, scenario);
    }
}

#[test]
fn discarded_packets_were_not_sent() {
    let m = run(
        "mlx5-pktgen-64",
        &["traffic.packets=4800".to_owned(), "run.fault=link-flap@100ns:100s".to_owned()],
    );
    let count = |name: &str| m.counts.iter().find(|c| c.name == name).map_or(0, |c| c.value);
    assert_eq!(
        (m.packets, rate(&m, "packets_per_s"), m.window.lacks),
        (0, 0.0, Some(Lack::Nothing))
    );
    assert_eq!((count("driver_packets"), count("device_discarded")), (4800, 4800));
}

#[test]
fn a_busy_share_says_of_which_cores() {
    let about = |scenario: &str, sets: &[&str]| {
        let m = run(scenario, &sets.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        m.rates.iter().find(|r| r.metric.name == "cpu_busy_share").unwrap().about.to_string()
    };
    let few = "traffic.packets=240";
    assert_eq!(about("mlx5-pktgen-64", &[few]), "of the 24 cores that send");
    assert_eq!(about("mlx5-single-stream", &[few]), "of the one core that sends");
    assert_eq!(about("e1000-pktgen", &[few]), "of its one core");
    assert_eq!(about("axienet-saturated", &[]), "of the platform's 4 cores");
    assert_eq!(about("ibmvnic-transactions", &[]), "of the 16 cores, one for each queue");
    assert_eq!(about("ibmveth-paced", &[]), "of its one core");
}

/// A queue of each has an event queue and a vector, and of five completion queues its own.
#[test]
fn as_many_cores_send_as_the_key_allows() {
    let key = sound::plan("mlx5-full-rate", &[] as &[&str]);
    let (cores, _) = key.values.find("cpu.cores").unwrap();
    let doorbell_spec::key::Kind::Number { max, .. } = cores.kind else { panic!("{cores:?}") };
    let sets = [format!("cpu.cores={max}"), format!("traffic.packets={}", 32.0 * max)];
    assert_eq!(run("mlx5-full-rate", &sets).packets, 32 * max as u64);
}
