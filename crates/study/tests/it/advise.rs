//! The search of `doorbell advise` against the whole of its spaces.

use doorbell_sim::Unwatched;
use doorbell_spec::key;
use doorbell_study::advise::search::{Score, Space, search};
use doorbell_study::advise::{Advice, BUDGET, Goal, Keep, LEAST, Question, Variable, advise};
use doorbell_systems::DOORBELL;
use doorbell_systems::result::{Numbers, rounded};
use doorbell_systems::{Plan, in_parallel};
use std::collections::BTreeMap;
use std::convert::Infallible;

fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    sets.iter().for_each(|set| plan.set(set).unwrap());
    plan
}

fn variables(plan: &Plan, keys: &[(&str, &str)]) -> Vec<Variable> {
    let variable = |(name, values): &(&str, &str)| {
        let key = key::find(&plan.values.keys(), name).unwrap();
        let others = values.split(' ').map(|v| key.parse(v).unwrap());
        Variable::new(key, plan.values.get(name).clone(), others, None)
    };
    keys.iter().map(variable).collect()
}

/// Returns all designs, as the values of each setting by index.
fn designs(q: &Question<'_>) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for v in &q.variables {
        all = all
            .iter()
            .flat_map(|d: &Vec<usize>| (0..v.values.len()).map(|i| [&d[..], &[i]].concat()))
            .collect();
    }
    all
}

/// Runs all designs. Returns those that can run, with their numbers.
fn exhaustive(q: &Question<'_>) -> BTreeMap<Vec<usize>, Numbers> {
    let all = designs(q);
    let numbers = in_parallel(&all, |_, design| {
        let mut values = q.values.clone();
        for (variable, at) in q.variables.iter().zip(design) {
            values.put(variable.key, variable.values[*at].clone());
        }
        let m = q.system.run(&values, q.frames, &mut Unwatched);
        Ok::<_, ()>(m.ok().map(|m| m.numbers()))
    });
    let numbers = numbers.unwrap().into_iter();
    all.into_iter().zip(numbers).filter_map(|(d, n)| Some((d, n?))).collect()
}

/// Asks a question. What limits and what is assumed does not matter here.
fn asked(q: &Question<'_>, seed: u64) -> Advice {
    let profile = DOORBELL.profile("mlx5-gen3").unwrap();
    let wanted = ["searches", "tells gains from noise", "adds gains up"];
    advise(q, &profile, seed, &mut |what, _, _| wanted.contains(&what)).unwrap()
}

/// Searches a space of a thousand designs and more in a twentieth of the runs.
/// A run costs `work`.
fn compare(scenario: &str, sets: &[&str], goal: &str, keys: &[(&str, &str)], work: u64) {
    let plan = plan(scenario, sets);
    let goal = Goal::parse(plan.system, goal).unwrap();
    let variables = variables(&plan, keys);
    let mut q = Question {
        system: plan.system,
        values: &plan.values,
        frames: None,
        goal,
        keep: vec![Keep::parse(plan.system, "packets_per_s>0").unwrap()],
        variables,
        budget: 0,
    };
    let goals = exhaustive(&q).into_values().map(|n| n.get(q.goal.metric.name).unwrap().value);
    let best = if q.goal.metric.is_better_high() {
        goals.fold(f64::MIN, f64::max)
    } else {
        goals.fold(f64::MAX, f64::min)
    };
    let designs = designs(&q).len();
    assert!(designs >= 1000, "{designs}");
    q.budget = designs as u64 / 20 * work;
    let advice = asked(&q, 1);
    assert_eq!(advice.designs, designs);
    assert!(advice.runs * 20 <= designs, "{scenario}: {} of {designs} runs", advice.runs);
    let off = (advice.best.unwrap() / best - 1.0).abs();
    println!("{scenario}: {} of {designs} runs, {:.2} % from the best", advice.runs, off * 100.0);
    assert!(off < 0.02, "{scenario}: {:?} instead of {best}", advice.best);
    // Settings stay near today's for no more than that.
    let given_up = (advice.reached.to / advice.best.unwrap() - 1.0).abs();
    assert!(given_up < 0.02, "{scenario}: {:?} of {:?}", advice.reached, advice.best);
}

/// Seeds of the search.
const SEEDS: u64 = 10;
/// The packets of a run.
const PACKETS: u64 = 3000;
/// The runs of a search that does not run all of its 270 designs.
const HALF: usize = 135;

/// Asks for the most packets with a 99th percentile below several bounds: the fastest of the 270
/// designs within the bound is found each time, with all of them run or half of them, for ten
/// seeds. `DOORBELL_ADVISE=all` asks `advise` for each seed and both.
#[test]
fn bounded_questions_have_the_answer_of_the_whole_sweep() {
    let sets = [
        "pcie.generation=3",
        "pcie.lanes=8",
        "traffic.mix=imix",
        "traffic.flows=64",
        &format!("traffic.packets={PACKETS}"),
        "run.cores=1",
    ];
    let plan = plan("mlx5-full-rate", &sets);
    let keys = [
        ("driver.mpwqe", "on off"),
        ("pcie.mps", "128 256 512"),
        ("pcie.mrrs", "128 512 4096"),
        ("driver.moderation_period", "0 2 8 16 64"),
        ("run.cores", "1 2 4"),
    ];
    let mut q = Question {
        system: plan.system,
        values: &plan.values,
        frames: None,
        goal: Goal::parse(plan.system, "packets_per_s").unwrap(),
        keep: Vec::new(),
        variables: variables(&plan, &keys),
        budget: BUDGET,
    };
    let all = exhaustive(&q);
    assert_eq!(all.len(), 270);
    let long = std::env::var("DOORBELL_ADVISE").is_ok_and(|v| v == "all");
    let sizes: Vec<usize> = q.variables.iter().map(|v| v.values.len()).collect();
    let space = Space { sizes: &sizes, distance: &|_, v| v as f64, least: LEAST };
    let mut fastest = Vec::new();
    for us in [9.0, 12.0, 15.0, 20.0, 30.0] {
        let score = |d: &Vec<usize>| {
            let number = |name: &str| all[d].get(name).unwrap().value;
            let missed = (number("latency_ns.p99") / (us * 1000.0) - 1.0).max(0.0);
            Score { missed, goal: -number("packets_per_s"), error: 0.0 }
        };
        let best = all.keys().map(score).min_by(Score::compare).unwrap();
        assert_eq!(best.missed, 0.0, "a design keeps {us} us");
        for seed in 0..SEEDS {
            let run = |d: &Vec<usize>| Ok::<_, Infallible>(score(d));
            for most in [HALF, 270] {
                let Ok(found) = search(&space, &vec![0; 5], (seed, most), &run, &mut |_| true);
                let top = score(&found.top);
                assert_eq!(top, best, "{us} us, seed {seed}: {} runs", found.known.len());
                assert!(found.known.len() <= most);
            }
        }
        q.keep = vec![Keep::parse(plan.system, &format!("latency_ns.p99<{us}us")).unwrap()];
        for seed in 0..if long { SEEDS } else { 1 } {
            let whole = long || us == 15.0;
            for budget in [HALF as u64 * PACKETS, BUDGET].into_iter().take(1 + usize::from(whole)) {
                q.budget = budget;
                let advice = asked(&q, seed);
                assert_eq!(advice.best, Some(rounded(-best.goal)), "{us} us, seed {seed}");
                assert!(advice.keep[0].holds && advice.nearest.is_none(), "{advice:?}");
                assert!(advice.reached.to >= -best.goal * 0.98, "{us} us: {:?}", advice.reached);
            }
        }
        fastest.push(-best.goal);
    }
    assert!(fastest.is_sorted() && fastest[0] < 0.9 * fastest[4], "bounds bind: {fastest:?}");
}

#[test]
fn mlx5_is_as_good_as_all_of_its_designs() {
    let sets = ["traffic.packets=9000", "run.cores=2", "traffic.size=200"];
    let keys = [
        ("driver.mpwqe", "on off"),
        ("driver.queue", "256 1024 4096"),
        ("driver.moderation_period", "0 8 16 64"),
        ("pcie.mps", "128 256 512"),
        ("pcie.mrrs", "128 256 512 1024 4096"),
        ("run.cores", "1 2 4"),
    ];
    compare("mlx5-full-rate", &sets, "packets_per_s", &keys, 9000);
}

#[test]
fn e1000_is_as_good_as_all_of_its_designs() {
    let sets = ["traffic.packets=300"];
    let keys = [
        ("driver.copy_align", "on off"),
        ("driver.throttle", "off dynamic conservative 3000 20000"),
        ("driver.tx_ring", "80 256 1024 4096"),
        ("driver.tx_delay", "0 8 32 128"),
        ("driver.tx_absolute", "0 8 32 128"),
        ("driver.tx_prefetch", "0 8 32"),
    ];
    compare("e1000-pktgen", &sets, "cycles", &keys, 300);
}

#[test]
fn axienet_is_as_good_as_all_of_its_designs() {
    let sets = ["traffic.warmup=1ms", "traffic.duration=4ms", "driver.controller=fixed"];
    let keys = [
        ("driver.rx_frames", "1 4 16 24 64 128 255"),
        ("driver.rx_usecs", "1 16 50 64 128 512"),
        ("driver.rx_ring", "64 128 1024 4096"),
        ("driver.batch", "on off"),
        ("driver.rx_align", "on off"),
        ("driver.tx_frames", "1 24"),
    ];
    compare("axienet-saturated", &sets, "cycles", &keys, 325 * 16);
}
