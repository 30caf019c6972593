//! Keys, and the runs that they describe.

use super::*;
use crate::key::Key;
use crate::mlx5::run;
use crate::tests;
use crate::{Plan, Unwatched};
use doorbell_bus::pcie::{Gap, Settings};
use doorbell_hal::{Span, WorkKind};
use proptest::prelude::*;

fn plan(sets: &[&str]) -> Plan {
    tests::plan("mlx5-pktgen-64", sets)
}

fn refused(sets: &[&str], frames: &[&[u8]]) -> String {
    let plan = plan(sets);
    let mut all = Frames::default();
    frames.iter().for_each(|f| all.push(Span::ZERO, f));
    let setup = match setup(&plan.values) {
        Ok(setup) => setup,
        Err(e) => return e.to_string(),
    };
    load(&plan.values, &setup, Some(&Arc::new(all))).unwrap_err().to_string()
}

#[test]
fn the_profile_is_the_machine_of_the_published_figures() {
    let s = setup(&plan(&[]).values).unwrap();
    assert_eq!(s.pcie, Settings { gap: Gap::Completion, ..Settings::link(2, 16) });
    assert_eq!(s.nic, Nic { fetch_chunk: 256, ..Nic::CONNECTX });
    assert_eq!(s.driver, DriverConfig::DEFAULT);
    assert_eq!(s.cores, 24);
    assert_eq!((s.latencies.link, s.latencies.memory), (Span::from_ns(150), Span::from_ns(110)));
    assert_eq!(
        s.host.costs.work[WorkKind::Stack as usize].each,
        Span::from_ps(34_760),
        "86.9 cycles at 2.5 GHz"
    );
    assert_eq!(s.host.costs.work[WorkKind::TxDone as usize].per_unit, Span::from_ps(3_160));
    assert_eq!(s.host.costs.mmio_write_spacing, Span::from_ns(50));
}

/// A key that is declared and not read would have no effect.
#[test]
fn every_key_but_a_few_changes_the_setup_or_the_load() {
    let frame = [0u8; 60];
    let mut frames = Frames::default();
    frames.push(Span::ZERO, &frame);
    let frames = Arc::new(frames);
    let fingerprint = |plan: &Plan| {
        let s = setup(&plan.values)?;
        let load = match plan.values.word("traffic.kind") {
            arrivals::KIND => format!("{:?}", arriving(&plan.values, &s, Some(&frames))?),
            "pktgen" | "pcap" => format!("{:?}", load(&plan.values, &s, Some(&frames))?),
            _ => format!("{:?}", connected(&plan.values, &s)?),
        };
        Ok(format!("{s:?} {load}"))
    };
    let kinds = ["pktgen", "pcap"].map(|kind| (kind, "even"));
    let patterns =
        ["even", "bursts", "steps", arrivals::CAPTURE].map(|pattern| (arrivals::KIND, pattern));
    let tcp = |kind: &str| {
        let kind = format!("traffic.kind={kind}");
        let sets = [&kind, "run.fault=lost-interrupt@1", "traffic.mss=1000", "traffic.offset=1"];
        plan(&[&sets[..], &["traffic.scatter=off"]].concat())
    };
    let bases: Vec<Plan> = kinds
        .iter()
        .chain(&patterns)
        .map(|(kind, pattern)| {
            plan(&[
                "cpu.cores=8",
                "iommu.entries=8",
                "memory.ways=4",
                "nic.striding=on",
                "run.cores=4",
                "run.fault=lost-interrupt@1",
                "traffic.arrivals=on_off",
                "traffic.align=4096",
                "traffic.arrival_size=100",
                &format!("traffic.kind={kind}"),
                &format!("traffic.pattern={pattern}"),
            ])
        })
        .chain(closed_loop::KINDS.map(tcp))
        .collect();
    // Keys that bound others, names, and those of the file's reader and of frames that cannot be
    // sent.
    let silent = [&["cpu.cores"][..], &tests::CAPTURE_FILE].concat();
    tests::every_key_moves(&bases, &silent, fingerprint);
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    insta::assert_snapshot!(
        refused(&["run.cores=48"], &[]),
        @"`run.cores` is 48, but the platform has 24 (`cpu.cores`)"
    );
    insta::assert_snapshot!(
        refused(&["traffic.size=10000"], &[]),
        @"`traffic.size` is 10000 B, but the device sends 9974 at the most (`nic.max_frame`)"
    );
    insta::assert_snapshot!(
        refused(
            &["traffic.size=9000", "driver.queue=8192", "driver.cq=8192", "cpu.cores=252"],
            &[]
        ),
        @"127 GiB of simulated memory would be needed, and 16 are the most; take fewer cores \
          (`run.cores`), a shorter queue (`driver.queue`), smaller packets (`traffic.size`) or \
          `run.guard=page`"
    );
    insta::assert_snapshot!(
        refused(&["traffic.kind=pcap"], &[]),
        @"the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`"
    );
    let long = ["traffic.kind=pcap", "traffic.file=a.pcap"];
    insta::assert_snapshot!(
        refused(&long, &[&[0; 60], &[0; 1515]]),
        @"a.pcap: frame 2 has 1515 bytes, more than an MTU of 1500 allows; --gso auto sends it as \
          a large send, --set traffic.mtu=N allows longer frames; --skip leaves it out"
    );
    insta::assert_snapshot!(
        refused(&["traffic.kind=pcap", "traffic.file=a.pcap", "traffic.gso=1448"], &[&[0; 1515]]),
        @"a.pcap: frame 1 has 1515 bytes, more than an MTU of 1500 allows, and cannot be cut into \
          segments; only whole TCP and UDP datagrams with more payload than a segment can, no \
          fragments; --skip leaves it out"
    );
    insta::assert_snapshot!(
        refused(&["traffic.kind=pcap", "traffic.file=a.pcap", "traffic.mtu=60000"], &[&[0; 9975]]),
        @"a.pcap: frame 1 has 9975 bytes, more than the device's 9974 (`nic.max_frame`); --skip \
          leaves it out"
    );
}

#[test]
fn a_run_of_the_published_case_is_sound() {
    let plan = plan(&["traffic.packets=24000"]);
    let s = setup(&plan.values).unwrap();
    let l = load(&plan.values, &s, None).unwrap();
    let o = run(&s, &l, &mut Unwatched).unwrap();
    assert_eq!((o.counts.packets, o.verdict.audit.as_slice()), (24_000, [].as_slice()));
    assert!((0.5..0.7).contains(&o.steady.bus_share[0]), "{:?}", o.steady.bus_share);
}

/// The queue's doorbells and time of a run at full speed, in bursts of 64 frames of 1514 bytes.
fn at_full_speed(kind: &str, bql: &str) -> (u64, u64, Span) {
    let sets = [
        &format!("traffic.kind={kind}"),
        &format!("stack.bql={bql}"),
        "run.cores=1",
        "traffic.burst=64",
    ];
    let mut plan = plan(&sets.map(|s| s as &str));
    plan.set("traffic.size=1514").unwrap();
    plan.set("traffic.packets=4096").unwrap();
    let mut frames = Frames::default();
    (0..4096).for_each(|_| frames.push(Span::ZERO, &[0x11; 1514]));
    let s = setup(&plan.values).unwrap();
    let l = load(&plan.values, &s, Some(&Arc::new(frames))).unwrap();
    let o = run(&s, &l, &mut Unwatched).unwrap();
    assert_eq!((o.counts.packets, o.verdict.audit.as_slice()), (4096, [].as_slice()));
    (o.totals.driver.doorbells, o.totals.driver.stopped, o.counts.elapsed)
}

#[test]
fn the_byte_limit_ends_batches_of_a_stack() {
    let (off, _, _) = at_full_speed("pcap", "off");
    let (on, stopped, _) = at_full_speed("pcap", "on");
    // A ring that is full rings too, a few times.
    assert!((64..80).contains(&off), "{off} doorbells");
    assert!(on > off + 32, "{on} doorbells, {off} without a limit");
    assert_eq!(stopped, 0, "the limit holds the stack back long before the ring is full");
}

#[test]
fn pktgen_does_not_look_at_the_byte_limit() {
    assert_eq!(at_full_speed("pktgen", "on"), at_full_speed("pktgen", "off"));
}

/// Some value that a key allows, by a number from 0 to 1.
fn pick(key: &crate::key::Key, x: f64) -> String {
    use crate::key::Kind;
    let among = |n: usize| ((x * n as f64) as usize).min(n - 1);
    match key.kind {
        Kind::Among { values, .. } => values[among(values.len())].to_string(),
        Kind::Choice => key.words[among(key.words.len())].to_owned(),
        // Small values matter more than their share.
        Kind::Number { min, max, step, .. } => {
            let n = min + (max - min) * x.powi(4);
            if step > 0.0 { ((n / step).floor() * step).max(min) } else { n }.to_string()
        }
        Kind::File => "a.pcap".to_owned(),
        Kind::Faults(_) => String::new(),
        Kind::Mix => ["off", "imix", "60:1,1514:2"][among(3)].to_owned(),
    }
}

fn own_keys() -> impl Iterator<Item = &'static Key> {
    CPU.iter().chain(&PCIE).chain(NicKeys::KEYS).chain(QueueKeys::KEYS).chain(RunKeys::KEYS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Allowed settings run, and adds up.
    #[test]
    fn any_allowed_plan_is_refused_or_sound(
        draws in prop::collection::vec(0.0f64..1.0, own_keys().count()),
        sizes in prop::collection::vec(60usize..1514, 1..20),
    ) {
        let mut plan = plan(&[]);
        for (key, x) in own_keys().zip(&draws) {
            plan.set(&format!("{}={}", key.name, pick(key, *x))).unwrap_or_else(|e| panic!("{e}"));
        }
        // Not too long, and what the driver cannot do without.
        for s in [
            "driver.queue=128", "traffic.size=1514", "cpu.cores=3", "run.cores=2",
            "traffic.rounds=2", "traffic.packets=300", "nic.max_wqe=1024", "nic.max_lso=256",
            "nic.max_frame=9974",
        ] {
            plan.set(s).unwrap();
        }
        let mut frames = Frames::default();
        sizes.iter().for_each(|n| frames.push(Span::from_us(*n as u64), &vec![0x11; *n]));
        let s = setup(&plan.values).unwrap();
        if let Ok(l) = load(&plan.values, &s, Some(&Arc::new(frames))) {
            let o = run(&s, &l, &mut Unwatched).unwrap_or_else(|e| panic!("{e}: {:?}", plan.set));
            prop_assert!(o.verdict.audit.is_empty(), "{:?}: {:?}", o.verdict.audit, plan.set);
            prop_assert_eq!(o.counts.packets, l.packets(s.cores));
        }
    }
}
