use super::*;
use doorbell_systems::{Plan, Scenario, Setting};

fn plan(settings: &[&str]) -> Plan {
    let registry = &doorbell_systems::DOORBELL;
    let mut plan: Plan = registry
        .scenario("mlx5-receive")
        .and_then(|s: Scenario| s.plan(registry))
        .expect("a built-in scenario");
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::given("--set", s)).collect();
    plan.layer(&settings).expect("settings that go together");
    plan
}

fn found(plan: &Plan, most: f64) -> Option<f64> {
    find(plan.system, &plan.values, most, &|| false).expect("runs")
}

/// One core takes a packet in so many cycles; the ring takes what comes beyond that for a while.
#[test]
fn the_lossless_load_of_one_core_is_its_rate_and_what_the_ring_takes() {
    let settings = ["run.cores=1", "cpu.rx_packet=1000", "traffic.warmup=0", "traffic.duration=3"];
    let plan = plan(&settings);
    let full = plan.system.run(&plan.values, None, &mut doorbell_systems::Unwatched);
    let core = full.expect("a run").packets_per_s();
    let with_ring = core + 1024.0 / 3e-3;
    // 100 Gbit/s in frames of 84 bytes.
    let rate = |load: f64| load / 100.0 * 100e9 / 8.0 / 84.0;
    for (most, taken) in [(0.0, 1.0), (0.5, 0.5)] {
        let load = found(&plan, most).expect("a load");
        let taken = rate(load) * taken;
        assert!(taken >= core * 0.995 && taken <= with_ring * 1.01, "{taken}: {core}, {with_ring}");
    }
}

#[test]
fn a_load_that_nothing_loses_is_kept_and_another_kind_is_refused() {
    assert_eq!(found(&plan(&["traffic.load=5"]), 0.0), Some(5.0));
    let other = plan(&["traffic.pattern=bursts"]);
    let why = find(other.system, &other.values, 0.0, &|| false).expect_err("no load");
    assert!(why.to_string().contains("`traffic.load` has no effect"), "{why}");
}
