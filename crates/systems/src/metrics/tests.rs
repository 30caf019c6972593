use super::*;
use crate::DOORBELL;
use doorbell_sim::Unwatched;

/// Every number of every built-in scenario, made short, has a name in the list of its system.
#[test]
fn no_number_is_missing() {
    for name in DOORBELL.scenario_names() {
        let mut plan = DOORBELL.plan(name).unwrap();
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
        // A ledger has the counters of all buses.
        let other = |name: &str| Ledger::COUNTERS.iter().any(|c| c.name == name && c.bus.is_some());
        let known = |name: &str| plan.system.metric(name).is_some();
        let per_packet = m.per_packet();
        let names =
            m.rates.iter().map(|r| r.metric.name).chain(per_packet.iter().map(|p| p.0.as_str()));
        let missing: Vec<_> = names.filter(|n| !other(n) && !known(n)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{name}");
    }
}

/// Of each number, its direction: packets and bits are to be many, costs and losses few, and what
/// may be high for a good reason is not judged.
#[test]
fn directions_are_declared() {
    for system in DOORBELL.systems {
        for m in system.metrics() {
            let many = ["packets_per_s", "payload_bits_per_s", "frame_bits_per_s"];
            let wire = ["wire_bits_per_s", "wire_out_bits_per_s", "wire_in_bits_per_s"];
            let costs = matches!(m.kind, Kind::Latency | Kind::Cycles)
                || m.counted == CROSSING
                || m.counted == "at the host interface of the driver"
                || ["lost_share", "lost_fifo_share", "lost_ring_share"].contains(&m.name);
            let expected = match m.name {
                name if many.contains(&name) || wire.contains(&name) => Better::More,
                _ if costs => Better::Less,
                _ => Better::Neither,
            };
            assert_eq!(m.better, expected, "{}: {}", system.name, m.name);
        }
    }
}

#[test]
fn each_name_stands_once_with_a_sentence_and_an_origin() {
    for system in DOORBELL.systems {
        let all = system.metrics();
        for (i, m) in all.iter().enumerate() {
            assert!(!m.about.is_empty() && !m.counted.is_empty(), "{}: {}", system.name, m.name);
            assert!(all[..i].iter().all(|n| n.name != m.name), "{}: {}", system.name, m.name);
        }
    }
}
