//! Accesses by register: a log has every one, under its name, and does not change the run.

use crate::sound::{plan, run_of};
use doorbell_sim::Unwatched;
use doorbell_sim::watch::Asking;
use doorbell_systems::result::Measured;

const SHORT: [&str; 2] = ["traffic.warmup=200us", "traffic.duration=2ms"];
const FEW: [&str; 1] = ["traffic.packets=2000"];

const RUNS: &[(&str, &[&str])] = &[
    ("mlx5-pktgen-64", &FEW),
    ("mlx5-receive", &SHORT),
    ("mlx5-send", &SHORT),
    ("e1000-pktgen", &FEW),
    ("e1000-receive", &SHORT),
    ("e1000-send", &SHORT),
    ("axienet-saturated", &SHORT),
    ("axienet-receive", &SHORT),
    ("ibmveth-packets", &FEW),
];

fn count(m: &Measured, name: &str) -> u64 {
    m.counts.iter().find(|c| c.name == name).map_or(0, |c| c.value)
}

#[test]
fn a_log_has_every_access_and_changes_nothing() {
    for (scenario, sets) in RUNS {
        let plan = plan(scenario, sets);
        let plain = run_of(&plan, None);
        let logged = plan.system.run(&plan.values, None, &mut Asking::log(&mut Unwatched));
        let mut logged = logged.unwrap_or_else(|e| panic!("{scenario}: {e}"));
        let rows = std::mem::take(&mut logged.registers);
        assert_eq!(plain, logged, "{scenario}");
        let sum = |of: fn(&_) -> u64| rows.iter().map(of).sum::<u64>();
        let by_register = (sum(|r| r.reads), sum(|r| r.writes));
        assert_eq!(by_register, (count(&plain, "mmio_reads"), count(&plain, "mmio_writes")));
        assert_eq!(rows.is_empty(), scenario.starts_with("ibmveth"), "{scenario}");
        let unnamed: Vec<_> = rows.iter().filter(|r| r.name.contains("0x")).collect();
        assert!(unnamed.is_empty(), "{scenario}: {unnamed:?}");
        let share: f64 = rows.iter().map(|r| r.waited_share).sum();
        assert!(share <= 1.0 + 1e-6, "{scenario}: {share}");
    }
}
