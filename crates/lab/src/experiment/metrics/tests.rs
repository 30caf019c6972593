use super::*;
use crate::config::scenario::{self, Scenario};
use crate::experiment::system::SYSTEMS;
use doorbell_sim::Unwatched;

/// Every number of every built-in scenario, made short, has a name in the list of its system.
#[test]
fn no_number_is_missing() {
    for name in scenario::builtin() {
        let mut plan = Scenario::load(name).unwrap().plan().unwrap();
        if plan.capture().is_some() {
            continue;
        }
        for short in ["traffic.packets=200", "traffic.duration=200us", "traffic.warmup=0us"] {
            let key = short.split('=').next().unwrap();
            if plan.values.keys().iter().any(|k| k.name == key) {
                plan.set(short).unwrap();
            }
        }
        let m = plan.system.run(&plan.values, None, &mut Unwatched).unwrap();
        let all = of(plan.system);
        let known = |name: &str| all.iter().any(|metric| metric.name == name);
        let per_packet = m.per_packet();
        let names = m.rates.iter().map(|r| r.name).chain(per_packet.iter().map(|p| p.0.as_str()));
        let missing: Vec<_> = names.filter(|n| plan.system.numbers.has(n) && !known(n)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn each_name_stands_once_with_a_sentence_and_an_origin() {
    for system in SYSTEMS {
        let all = of(system);
        for (i, m) in all.iter().enumerate() {
            assert!(!m.about.is_empty() && !m.counted.is_empty(), "{}: {}", system.name, m.name);
            assert!(all[..i].iter().all(|n| n.name != m.name), "{}: {}", system.name, m.name);
        }
    }
}
