use super::*;
use crate::config::{Plan, Scenario};

fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = Scenario::load(scenario).unwrap().plan().unwrap();
    sets.iter().for_each(|set| plan.set(set).unwrap());
    plan
}

fn variables(plan: &Plan, keys: &[(&str, &[&str])]) -> Vec<Variable> {
    let all = plan.values.keys();
    let variable = |(name, values): &(&str, &[&str])| {
        let key = crate::config::key::find(&all, name).unwrap();
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
    }
}

fn answer(q: &Question<'_>) -> Advice {
    let profile = Profile::load("mlx5-gen3").unwrap();
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
    assert!(best.gain > 0.1, "{best:?}");
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
    assert!(bound.keep[0].1, "{bound:?}");
    assert_eq!(bound.settings[0].to, "2 us", "the fastest of those that keep it");
    assert!(bound.reached.to < free.reached.to);
    q.keep = vec![Keep::parse(plan.system, "latency_ns.p99<1 ns").unwrap()];
    assert!(!answer(&q).keep[0].1, "nothing keeps it, and the advice says so");
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
    let (best, with, settings) = q.worthwhile(&vec![0, 0], vec![1, 1]).unwrap();
    assert_eq!((best, settings.len(), settings[0].key), (vec![1, 0], 1, "driver.mpwqe"));
    assert_eq!(settings[0].error, Some(0.0), "a count of the whole run is exact");
    // A bound keeps what gains nothing.
    let bytes = q.goal.of(&with).unwrap();
    q.goal = Goal::parse(plan.system, "cycles").unwrap();
    q.keep =
        vec![Keep::parse(plan.system, &format!("pcie_down_tlp_bytes<{}", bytes * 1.01)).unwrap()];
    let (best, _, _) = q.worthwhile(&vec![0, 0], vec![1, 1]).unwrap();
    assert_eq!(best, [1, 0]);
}

#[test]
fn the_error_of_a_gain_is_that_of_a_quotient() {
    let sets = ["traffic.packets=48000", "run.cores=1", "traffic.arrivals=poisson"];
    let plan = plan("mlx5-full-rate", &[&sets[..], &["traffic.rate=5Mpps"]].concat());
    let goal = "inbound_link_share";
    let q = question(&plan, goal, &[("driver.mpwqe", &["off"])]);
    let (off, on) = (q.run(&q.of(&vec![1])).unwrap(), q.run(&q.of(&vec![0])).unwrap());
    let setting = q.setting(0, &vec![1], &vec![0], &on, Some(&off));
    let number = |m: &Measured| m.number(goal).unwrap();
    let error = |m: &Measured| m.error(goal).unwrap() / number(m);
    let expected = number(&on) / number(&off) * libm::hypot(error(&on), error(&off));
    assert!(expected > 0.0);
    assert_eq!(setting.error, Some(rounded(expected)));
    // The latencies of an open loop are kept for the whole run, which cannot tell.
    let q = question(&plan, "latency_ns.p99", &[("driver.mpwqe", &["off"])]);
    assert_eq!(q.setting(0, &vec![1], &vec![0], &on, Some(&off)).error, None);
}

#[test]
fn wrong_goals_and_bounds_are_refused_with_what_is_allowed() {
    let system = crate::experiment::system::find("mlx5").unwrap();
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
    assert_eq!((keep.name.as_str(), keep.above, keep.bound), ("latency_ns.p99", false, 50_000.0));
    for (text, bound) in
        [("packets_per_s>10 Mpps", 10e6), ("cpu_busy_share<50%", 0.5), ("cycles<9", 9.0)]
    {
        assert_eq!(Keep::parse(system, text).unwrap().bound, bound, "{text}");
    }
}
