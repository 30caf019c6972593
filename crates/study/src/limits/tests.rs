use super::*;
use doorbell_systems::DOORBELL;
use doorbell_systems::Plan;

fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    sets.iter().for_each(|set| plan.set(set).unwrap());
    plan
}

fn limits(scenario: &str, sets: &[&str]) -> Limits {
    let plan = plan(scenario, sets);
    let m = plan.system.run(&plan.values, None, &mut doorbell_sim::Unwatched).unwrap();
    find(plan.system, &plan.values, None, &m, &|| false)
}

/// Runs whose limit is known by construction: one resource is made so narrow that no other counts.
#[test]
fn the_resource_that_was_made_narrow_binds() {
    let mlx5 = ["traffic.packets=4000", "run.cores=1"];
    let e1000 = ["traffic.packets=1000"];
    let tcp = ["traffic.warmup=10ms", "traffic.duration=50ms"];
    let vnic = ["traffic.warmup=1ms", "traffic.duration=3ms"];
    let cases: [(&str, &[&str], &[&str], &str); 17] = [
        ("mlx5-full-rate", &mlx5, &["cpu.stack=5000"], "cores"),
        ("mlx5-full-rate", &mlx5, &["pcie.generation=1", "pcie.lanes=1"], "link"),
        ("mlx5-full-rate", &mlx5, &["nic.port_rate=0.1"], "port"),
        ("mlx5-full-rate", &mlx5, &["nic.packet_time=2000"], "pipeline"),
        ("mlx5-full-rate", &mlx5, &["traffic.rate=0.1"], "load"),
        (
            "mlx5-full-rate",
            &mlx5,
            &["pcie.tags=1", "nic.port_rate=400", "traffic.burst=64"],
            "reads in flight",
        ),
        ("e1000-pktgen", &e1000, &["cpu.frequency=0.05"], "cores"),
        ("e1000-pktgen", &e1000, &["pci.read_byte=100"], "bus"),
        // The next clock is none of conventional PCI.
        ("e1000-pktgen", &e1000, &["pci.clock=66", "pci.read_byte=10"], "bus"),
        ("e1000-pktgen", &e1000, &["link.rate=10"], "port"),
        ("e1000-pktgen", &e1000, &["traffic.rate=0.001"], "load"),
        ("axienet-receive", &tcp, &["cpu.frequency=0.1"], "cores"),
        ("axienet-receive", &tcp, &["axi.clock=15"], "bus"),
        ("ibmveth-send", &tcp, &["hcall.send_serial=100000"], "serial calls"),
        ("ibmveth-send", &tcp, &["cpu.frequency=0.5"], "cores"),
        ("ibmvnic-transactions", &vnic, &["serial.receive=20000"], "serial work"),
        ("ibmvnic-bulk", &vnic, &["link.rate=1"], "port"),
    ];
    let mut wrong = Vec::new();
    for (scenario, base, narrow, wanted) in cases {
        let found = limits(scenario, &[base, narrow].concat());
        if found.binds != Some(wanted) {
            wrong.push(format!(
                "{scenario} {narrow:?}: {} instead of {wanted}: {found:#?}",
                found.said()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ten_percent_more_of_the_limit_is_ten_percent_more_packets() {
    let found = limits("mlx5-full-rate", &["traffic.packets=8000", "nic.packet_time=2000"]);
    let pipeline = found.resources.iter().find(|l| l.resource == "pipeline").unwrap();
    assert!((pipeline.gain.unwrap() - 0.1).abs() < 0.005, "{pipeline:?}");
    assert!((pipeline.share.unwrap() - 1.0).abs() < 0.01, "{pipeline:?}");
    assert_eq!(found.said(), "pipeline: nic.packet_time 2000 -> 1818.18 ns gives +10.0 % packets");
}

#[test]
fn every_key_of_a_resource_and_of_a_knob_exists_and_takes_its_values() {
    for system in DOORBELL.systems {
        let keys = system.keys();
        let find = |name: &str| doorbell_spec::key::find(&keys, name).unwrap();
        for resource in system.resources {
            resource.keys.iter().for_each(|(name, _)| assert_eq!(find(name).name, *name));
        }
        for knob in system.knobs {
            let key = find(knob.key);
            knob.values.iter().for_each(|v| assert!(key.parse(v).is_ok(), "{} {v}", knob.key));
            assert!(knob.command.contains("{}"), "{}", knob.key);
        }
        for condition in system.conditions {
            let key = find(condition.key);
            condition.values.iter().for_each(|v| assert!(key.parse(v).is_ok(), "{v}"));
        }
    }
}

#[test]
fn a_step_is_taken_in_the_steps_of_the_key() {
    const RING: Key = Key::whole("ring", "", 1.0, 100.0, "");
    const CLOCK: Key = Key::among("clock", "MHz", &[33.0, 66.0, 100.0], "");
    const TIME: Key = Key::ns("time", "");
    assert_eq!(moved(&RING, 4.0, Wider::More), 5.0);
    assert_eq!(moved(&RING, 50.0, Wider::More), 55.0);
    assert_eq!(moved(&RING, 100.0, Wider::More), 100.0);
    assert_eq!(moved(&RING, 1.0, Wider::Less), 1.0);
    assert_eq!(moved(&CLOCK, 66.0, Wider::More), 100.0);
    assert_eq!(moved(&CLOCK, 100.0, Wider::More), 100.0);
    assert!((moved(&TIME, 110.0, Wider::Less) - 100.0).abs() < 1e-9);
    assert_eq!(moved(&TIME, 0.0, Wider::Less), 0.0);
}
