//! The search of `doorbell advise` against the whole of three spaces of a thousand designs and
//! more.

use doorbell_lab::advise::{Goal, LEAST, Question, Variable, advise};
use doorbell_lab::{Plan, Profile, Scenario, Unwatched, in_parallel, key};

fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = Scenario::load(scenario).unwrap().plan().unwrap();
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

/// Returns the best goal of all designs.
fn exhaustive(q: &Question<'_>) -> (f64, usize) {
    let mut designs = vec![q.values.clone()];
    for variable in &q.variables {
        let with = |v: &key::Values| {
            let v = v.clone();
            variable.values.iter().map(move |value| {
                let mut values = v.clone();
                values.put(variable.key, value.clone());
                values
            })
        };
        designs = designs.iter().flat_map(with).collect();
    }
    let goals = in_parallel(&designs, |_, values| {
        let m = q.system.run(values, q.frames, &mut Unwatched);
        Ok::<_, ()>(m.ok().and_then(|m| m.number(&q.goal.name)))
    });
    let goals = goals.unwrap().into_iter().flatten();
    let best =
        if q.goal.more { goals.fold(f64::MIN, f64::max) } else { goals.fold(f64::MAX, f64::min) };
    (best, designs.len())
}

fn compare(scenario: &str, sets: &[&str], goal: &str, keys: &[(&str, &str)]) {
    let plan = plan(scenario, sets);
    let goal = Goal::parse(plan.system, goal).unwrap();
    let variables = variables(&plan, keys);
    let q = Question {
        system: plan.system,
        values: &plan.values,
        frames: None,
        goal,
        keep: Vec::new(),
        variables,
    };
    let (best, designs) = exhaustive(&q);
    assert!(designs >= 1000, "{designs}");
    let profile = Profile::load(&Scenario::load(scenario).unwrap().profile).unwrap();
    // What is assumed does not matter here.
    let mut searching = true;
    let advice = advise(&q, &profile, 1, &mut |what, _, _| {
        searching &= what == "searches";
        searching
    })
    .unwrap();
    assert_eq!(advice.designs, designs);
    assert!(advice.runs * 20 <= designs, "{scenario}: {} of {designs} runs", advice.runs);
    let off = (advice.reached.to / best - 1.0).abs();
    println!("{scenario}: {} of {designs} runs, {:.2} % from the best", advice.runs, off * 100.0);
    assert!(off < 0.02, "{scenario}: {} instead of {best}", advice.reached.to);
    assert!(off >= 0.0 && LEAST < 0.02);
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
    compare("mlx5-full-rate", &sets, "packets_per_s", &keys);
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
    compare("e1000-pktgen", &sets, "cycles", &keys);
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
    compare("axienet-saturated", &sets, "cycles", &keys);
}
