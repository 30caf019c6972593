use super::bench::Gain;
use super::*;
use doorbell_systems::DOORBELL;
use doorbell_systems::Plan;

fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    sets.iter().for_each(|set| plan.set(set).unwrap());
    plan
}

fn variables(plan: &Plan, keys: &[(&str, &[&str])]) -> Vec<Variable> {
    let all = plan.values.keys();
    let variable = |(name, values): &(&str, &[&str])| {
        let key = doorbell_spec::key::find(&all, name).unwrap();
        let others = values.iter().map(|v| key.parse(v).unwrap());
        Variable::new(key, plan.values.get(name).clone(), others, None)
    };
    keys.iter().map(variable).collect()
}

fn question<'a>(plan: &'a Plan, goal: &str, keys: &[(&str, &[&str])]) -> Question<'a> {
    Question {
        system: plan.system,
        values: &plan.values,
        frames: None,
        goal: Goal::parse(plan.system, goal).unwrap(),
        keep: Vec::new(),
        variables: variables(plan, keys),
        budget: BUDGET,
    }
}

fn answer(q: &Question<'_>) -> Advice {
    let profile = DOORBELL.profile("mlx5-gen3").unwrap();
    advise(q, &profile, 1, &mut |_, _, _| true).unwrap()
}

#[test]
fn the_switch_is_advised_where_it_pays_and_what_does_nothing_stays() {
    let sets = ["traffic.packets=6000", "run.cores=8", "driver.mpwqe=off", "traffic.burst=32"];
    let plan = plan("mlx5-full-rate", &sets);
    let keys: [(&str, &[&str]); 2] =
        [("driver.mpwqe", &["on", "off"]), ("driver.moderation_count", &["32", "64"])];
    let advice = answer(&question(&plan, "pcie_down_tlp_bytes", &keys));
    let best = &advice.settings[0];
    assert_eq!((best.key, best.to.as_str()), ("driver.mpwqe", "on"));
    assert!(best.gain.unwrap() > 0.1, "{best:?}");
    assert!(advice.reached.to < advice.reached.from);
    assert_eq!((advice.designs, advice.runs, advice.interrupted), (4, 4, false));
    // Alone, a packet has a session and a doorbell of its own.
    assert_eq!(advice.worth.len(), 2);
    let burst = advice.over.iter().find(|o| o.key == "traffic.burst").unwrap();
    let gain = |value: &str| burst.at.iter().find(|a| a.value.starts_with(value)).unwrap().gains[0];
    assert!(gain("1 ").unwrap() < gain("32 ").unwrap(), "{burst:?}");
}

#[test]
fn a_bound_is_kept_at_the_goals_expense() {
    let plan = plan("mlx5-full-rate", &["traffic.packets=6000", "run.cores=1"]);
    let keys: [(&str, &[&str]); 1] = [("driver.moderation_period", &["0", "2", "16", "64"])];
    let mut q = question(&plan, "packets_per_s", &keys);
    let free = answer(&q);
    q.keep = vec![Keep::parse(plan.system, "latency_ns.p99<10us").unwrap()];
    let bound = answer(&q);
    assert!(bound.keep[0].holds, "{bound:?}");
    assert_eq!(bound.settings[0].to, "2 us", "the fastest of those that keep it");
    assert!(bound.reached.to < free.reached.to);
    // Other values that break it are marked.
    let worth = &bound.worth[0];
    let p99 = |period: &str| {
        let mut values = plan.values.clone();
        values.set(&format!("driver.moderation_period={period}")).unwrap();
        q.run(&values).unwrap().number("latency_ns.p99").unwrap()
    };
    for other in &worth.others {
        let breaks = p99(&other.value) >= 10_000.0;
        assert_eq!(other.breaks, if breaks { vec!["latency_ns.p99<10us"] } else { vec![] });
    }
    assert!(worth.others.iter().any(|o| o.breaks.is_empty()), "{worth:?}");
    assert!(worth.others.iter().any(|o| !o.breaks.is_empty()), "{worth:?}");
}

#[test]
fn a_bound_that_nothing_keeps_has_no_advice() {
    let plan = plan("mlx5-full-rate", &["traffic.packets=6000", "run.cores=1"]);
    let keys: [(&str, &[&str]); 1] = [("driver.moderation_period", &["0", "2", "16", "64"])];
    let mut q = question(&plan, "packets_per_s", &keys);
    q.keep = vec![Keep::parse(plan.system, "latency_ns.p99<1 ns").unwrap()];
    let advice = answer(&q);
    assert!(advice.settings.is_empty() && advice.worth.is_empty() && advice.best.is_none());
    assert_eq!(advice.reached.from, advice.reached.to);
    // The nearest is the shortest latency of all.
    let all = [0, 1, 2, 3, 4].iter().filter_map(|at| q.variables[0].values.get(*at).map(|_| *at));
    let p99 = |at: usize| q.run(&q.of(&vec![at])).unwrap().number("latency_ns.p99").unwrap();
    let least = all.map(p99).fold(f64::MAX, f64::min);
    assert_eq!((advice.keep[0].holds, advice.keep[0].reached), (false, Some(least)));
    let nearest = &advice.nearest.unwrap()[0];
    assert_eq!((nearest.key, nearest.to.as_str()), ("driver.moderation_period", "0 us"));
}

/// One core is enough for half of the load and has the lowest latency.
#[test]
fn an_offered_load_is_held_unless_it_is_lifted() {
    let sets = ["traffic.packets=12000", "run.cores=8", "traffic.rate=20"];
    let plan = plan("mlx5-full-rate", &sets);
    let keys: [(&str, &[&str]); 2] = [("run.cores", &["1"]), ("driver.mpwqe", &["off"])];
    let mut q = question(&plan, "cycles", &keys);
    let held = answer(&q);
    let [bound] = &held.keep[..] else { panic!("{held:?}") };
    assert!(bound.implied && bound.holds, "{bound:?}");
    let rate = q.run(&plan.values).unwrap().packets_per_s();
    let keep = Keep::parse(plan.system, &bound.text).unwrap();
    assert!((0.994 * rate..0.996 * rate).contains(&keep.bound), "{keep:?} of {rate}");
    // Other bounds stay beside it.
    q.keep = vec![Keep::parse(plan.system, "latency_ns.p99<1s").unwrap()];
    assert_eq!(answer(&q).keep.len(), 2);
    // A bound of a rate is in its place, as is a goal that is one.
    q.keep = vec![Keep::parse(plan.system, "packets_per_s>0").unwrap()];
    assert_eq!(answer(&q).keep.iter().map(|k| k.implied).collect::<Vec<_>>(), [false]);
    let rates = question(&plan, "frame_bits_per_s", &keys);
    assert!(answer(&rates).keep.is_empty());
}

#[test]
fn loads_are_offered_but_for_generators_at_full_speed() {
    for (scenario, sets, offered) in [
        ("mlx5-full-rate", &[][..], false),
        ("mlx5-full-rate", &["traffic.rate=20"], true),
        ("mlx5-full-rate", &["traffic.rate=20", "traffic.arrivals=poisson"], true),
        ("mlx5-full-rate", &["traffic.rate=20", "traffic.arrivals=on_off"], true),
        ("mlx5-replay", &["traffic.file=x.pcap"], false),
        ("mlx5-replay", &["traffic.file=x.pcap", "traffic.times=own"], true),
        ("mlx5-replay", &["traffic.file=x.pcap", "traffic.rate=1"], true),
        ("e1000-receive", &[], true),
        ("axienet-sporadic", &[], true),
        ("axienet-paced", &[], true),
        ("ibmvnic-transactions", &[], true),
    ] {
        let plan = plan(scenario, sets);
        assert_eq!(question(&plan, "cycles", &[]).offered(), offered, "{scenario} {sets:?}");
        assert!(!question(&plan, "packets_per_s", &[]).offered(), "{scenario}");
    }
}

#[test]
fn a_constant_that_turns_the_advice_is_named_with_its_place() {
    // Descriptors are read in chunks of two requests. In chunks of one, the size of a request is
    // worth nothing.
    let sets = ["traffic.packets=24000", "run.cores=3", "cpu.frequency=2.75", "pcie.mrrs=128"];
    let plan = plan("mlx5-full-rate", &sets);
    let advice = answer(&question(&plan, "packets_per_s", &[("pcie.mrrs", &["1024"])]));
    assert!(advice.flips.iter().any(|f| f.constant == "nic.fetch_chunk"), "{:?}", advice.flips);
    for flip in &advice.flips {
        let ratio = flip.at / flip.value;
        assert!((1.0 / FACTOR..=FACTOR).contains(&ratio), "{flip:?}");
    }
    assert!(advice.firm > 0);
}

/// Moderation does nothing for a core that never waits; the switch is worth its change.
#[test]
fn a_setting_that_gains_too_little_is_put_back() {
    let sets = ["traffic.packets=6000", "run.cores=8", "driver.mpwqe=off", "traffic.burst=32"];
    let plan = plan("mlx5-full-rate", &sets);
    let keys: [(&str, &[&str]); 2] =
        [("driver.mpwqe", &["on", "off"]), ("driver.moderation_count", &["64"])];
    let mut q = question(&plan, "pcie_down_tlp_bytes", &keys);
    let before = q.run(&plan.values).unwrap();
    let kept = |q: &Question<'_>| Bench::new(q, &before).kept(vec![1, 1], &mut |_, _, _| true);
    assert_eq!(kept(&q), [1, 0]);
    let (settings, _) = Bench::new(&q, &before).settings(&vec![1, 0], &mut |_, _, _| true);
    assert_eq!((settings.len(), settings[0].key), (1, "driver.mpwqe"));
    assert_eq!(settings[0].error, Some(0.0), "a count of the whole run is exact");
    // A bound keeps what gains nothing.
    let bytes = q.goal.of(&q.run(&q.of(&vec![1, 0])).unwrap()).unwrap();
    q.goal = Goal::parse(plan.system, "cycles").unwrap();
    q.keep =
        vec![Keep::parse(plan.system, &format!("pcie_down_tlp_bytes<{}", bytes * 1.01)).unwrap()];
    assert_eq!(kept(&q), [1, 0]);
}

/// Four cores fill the port as eight do, with two thirds of the latency; two do not.
#[test]
fn a_far_value_that_gains_nothing_over_a_nearer_one_is_not_taken() {
    let sets = ["traffic.packets=12000", "run.cores=1", "pcie.generation=4", "traffic.size=300"];
    let plan = plan("mlx5-full-rate", &sets);
    let keys: [(&str, &[&str]); 1] = [("run.cores", &["2", "4", "8"])];
    let q = question(&plan, "packets_per_s", &keys);
    let before = q.run(&plan.values).unwrap();
    let bench = Bench::new(&q, &before);
    let [today, two, four, eight] = [0, 1, 2, 3].map(|at| vec![at]);
    let pays = |from: &Design| bench.gain(from, from, &eight, bench::PAIRS).unwrap().pays(0.0);
    assert_eq!([&today, &two, &four].map(pays), [true, true, false]);
    assert_eq!(bench.kept(eight.clone(), &mut |_, _, _| true), four);
}

/// A fixed time needs a tenth less of the cores, and carries a tenth less of the load.
#[test]
fn less_work_for_less_of_the_load_is_no_gain() {
    let sets = ["traffic.duration=20ms"];
    let plan = plan("axienet-receive", &sets);
    let keys: [(&str, &[&str]); 2] =
        [("driver.controller", &["fixed"]), ("driver.rx_frames", &["255"])];
    let mut q = question(&plan, "cpu_busy_share", &keys);
    let before = q.run(&plan.values).unwrap();
    let (today, fixed) = (vec![0, 0], vec![1, 1]);
    let bench = Bench::new(&q, &before);
    let gain = bench.gain(&today, &today, &fixed, bench::PAIRS).unwrap();
    assert!(gain.pays(0.0), "by itself it is a gain: {gain:?}");
    let kept = |q: &Question<'_>| Bench::new(q, &before).kept(fixed.clone(), &mut |_, _, _| true);
    assert_eq!(kept(&q), fixed);
    q.keep = vec![Keep::load(q.system, &before).unwrap()];
    assert_eq!(kept(&q)[0], 0, "the controller stays");
}

/// Gains behind each other add up to that of all, and each has its worth alone beside it.
#[test]
fn gains_add_up_and_each_stands_alone_beside() {
    let sets = ["traffic.packets=12000", "run.cores=1", "driver.mpwqe=off", "pcie.mrrs=128"];
    let plan = plan("mlx5-full-rate", &sets);
    let keys: [(&str, &[&str]); 3] =
        [("driver.mpwqe", &["on"]), ("run.cores", &["4"]), ("pcie.mrrs", &["1024"])];
    let advice = answer(&question(&plan, "packets_per_s", &keys));
    assert!(advice.settings.len() >= 2, "{advice:?}");
    let all: f64 = advice.settings.iter().map(|s| s.gain.unwrap()).sum();
    let total = advice.reached.to / advice.reached.from - 1.0;
    assert!((all - total).abs() < 1e-6, "{all} of {total}");
    for s in &advice.settings {
        assert!(s.without.unwrap() < 0.0, "it is missed: {s:?}");
    }
    assert!(advice.settings.iter().all(|s| s.error.is_some()) && advice.error.is_some());
}

#[test]
fn what_moves_both_runs_of_a_pair_is_no_error() {
    // Each pair's runs differ by 100 to 104 of 1000 to 5000: the difference is sure.
    let same = Gain::of(&[0.1, 0.102, 0.104, 0.101, 0.103], || None).unwrap();
    assert!((same.mean - 0.102).abs() < 1e-12 && same.plain == 0.1);
    let expected = 2.776 * (10e-6_f64 / 4.0 / 5.0).sqrt();
    assert!((same.error.unwrap() - expected).abs() < 1e-9, "{same:?}");
    assert!(same.pays(0.0) && !same.pays(0.1));
    // Gain and loss in turn: no gain, whatever the first pair says.
    let noise = Gain::of(&[0.05, -0.04, 0.06, -0.05, 0.0], || None).unwrap();
    assert!(!noise.pays(0.0) && noise.least() > 0.05, "{noise:?}");
    // Pairs that are all alike say nothing; the runs' own errors do.
    let alike = Gain::of(&[0.02; 5], || Some(0.03)).unwrap();
    assert!(!alike.pays(0.0) && alike.error == Some(0.03));
    // A setting that changes nothing is sure to.
    assert_eq!(Gain::of(&[0.0; 5], || Some(0.03)).unwrap().error, Some(0.0));
    assert!(!Gain::of(&[LEAST / 2.0; 5], || Some(0.0)).unwrap().pays(0.0));
}

/// Poisson arrivals move both designs alike: the error of the difference is less than that of two
/// runs that have nothing to do with each other.
#[test]
fn the_error_of_a_gain_is_that_of_the_difference() {
    let sets = ["traffic.packets=12000", "run.cores=1", "traffic.arrivals=poisson"];
    let plan = plan("mlx5-full-rate", &[&sets[..], &["traffic.rate=5Mpps"]].concat());
    let goal = "cycles";
    let q = question(&plan, goal, &[("driver.mpwqe", &["off"])]);
    let before = q.run(&plan.values).unwrap();
    let bench = Bench::new(&q, &before);
    let (on, off) = (vec![0], vec![1]);
    let gain = bench.gain(&off, &off, &on, bench::PAIRS).unwrap();
    let alone = |d: &Design| -> Vec<f64> {
        let run = |seed: u32| {
            let mut values = q.of(d);
            values.set(&format!("run.seed={seed}")).unwrap();
            q.run(&values).unwrap().number(goal).unwrap()
        };
        (0..5).map(run).collect()
    };
    let (a, b) = (alone(&off), alone(&on));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let spread = |v: &[f64]| {
        let squares: f64 = v.iter().map(|x| (x - mean(v)) * (x - mean(v))).sum();
        squares / 4.0 / 5.0
    };
    let unpaired = 2.776 * (spread(&a) + spread(&b)).sqrt() / mean(&a);
    let error = gain.error.unwrap();
    assert!(error > 0.0 && error < unpaired, "{error} {unpaired}");
}

#[test]
fn wrong_goals_and_bounds_are_refused_with_what_is_allowed() {
    let system = DOORBELL.system("mlx5").unwrap();
    let goal = Goal::parse(system, "packets").unwrap_err().to_string();
    assert!(goal.contains("no number `packets`"), "{goal}");
    for (text, said) in [
        ("latency_ns.p99", "allowed is NAME<BOUND"),
        ("latency_ns.p99<fast", "is no number"),
        ("latency_ns.p99<5 Gbit/s", "cannot be in `Gbit/s`; allowed units: ps, ns, us, ms, s"),
        ("packets_per_s>10 B", "cannot be in `B`; allowed units: 1/s, "),
        ("cycles<10 ns", "cannot be in `ns`; allowed units: cycles"),
        ("maps<10 ns", "is a pure number; allowed: no unit"),
        ("late<5us", "no number `late`"),
    ] {
        let e = Keep::parse(system, text).unwrap_err().to_string();
        assert!(e.contains(said), "{text}: {e}");
    }
    let keep = Keep::parse(system, "latency_ns.p99 < 50 us").unwrap();
    assert_eq!((keep.metric.name, keep.above, keep.bound), ("latency_ns.p99", false, 50_000.0));
    for (text, bound) in
        [("packets_per_s>10 Mpps", 10e6), ("cpu_busy_share<50%", 0.5), ("cycles<9", 9.0)]
    {
        assert_eq!(Keep::parse(system, text).unwrap().bound, bound, "{text}");
    }
}
