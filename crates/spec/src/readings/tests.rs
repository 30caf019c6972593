use super::*;
use serde_json::json;

fn readings(members: Value) -> Readings {
    Readings::of(members.as_object().unwrap())
}

#[test]
fn a_number_has_its_error_and_one_name() {
    let all = readings(json!({
        "schema": 1,
        "packets": 10,
        "rates": { "packets_per_s": 2.5, "cpu_busy_share": 1.0 },
        "rates_error": { "packets_per_s": 0.5 },
        "ledger": { "mmio_writes": 20 },
        "per_packet": { "mmio_writes": 2.0 },
        "latency_ns": { "p99": 7.0 },
        "series": { "queue": [[0.0, 1.0], [2.0, 3.0]] },
    }));
    let rate = all.named("packets_per_s").unwrap();
    assert_eq!((rate.value, rate.error, rate.range), (2.5, Some(0.5), None));
    assert_eq!(all.named("cpu_busy_share").unwrap().error, None);
    let value = |name: &str| all.named(name).map(|n| n.value);
    assert_eq!([value("mmio_writes"), value("ledger.mmio_writes")], [Some(2.0), Some(20.0)]);
    assert_eq!([value("latency_ns.p99"), value("p99")], [Some(7.0), None]);
    assert_eq!([value("packets"), value("schema")], [Some(10.0), None]);
    assert_eq!(all.series().collect::<Vec<_>>(), ["queue"]);
    assert_eq!(all.over_time("queue"), Some(&[(0.0, 1.0), (2.0, 3.0)][..]));
}

#[test]
fn boots_have_ranges_and_functions_are_added_up() {
    let run = |boots: Value| {
        readings(json!({
            "per_packet": { "mmio_writes": 0.25, "maps": 1.0 },
            "functions": [
                { "module": "a", "function": "f", "per_packet": 1.0 },
                { "module": "b", "function": "f", "per_packet": 2.0 },
            ],
            "boots": boots,
        }))
    };
    let spread = json!({ "per_packet.mmio_writes": [0.2, 0.5], "functions.f": [2.5, 3.0] });
    let all = run(json!({ "boots": 3, "spread": spread }));
    let range = |group, name| all.number(group, name).unwrap().range;
    assert_eq!(range("per_packet", "mmio_writes"), Some([0.2, 0.5]));
    assert_eq!(range("per_packet", "maps"), Some([1.0, 1.0]), "it is the same in all boots");
    assert_eq!(
        (all.value("functions", "f"), range("functions", "f")),
        (Some(3.0), Some([2.5, 3.0]))
    );
    let one = run(json!(null));
    assert_eq!(one.number("per_packet", "maps").unwrap().range, None);
}
