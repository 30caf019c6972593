use super::*;

fn row(bounds: Bounds, measured: f64) -> (bool, f64, Option<f64>) {
    let (name, workload) = ("ledger.x".into(), None);
    let line = Line { name, old: None, at: 1, workload, path: vec![], bounds };
    let row = Row { line: &line, workload: None, measured, range: [measured; 2] };
    (row.holds(), row.against().difference, row.against().percent)
}

#[test]
fn a_ceiling_a_floor_a_range_and_an_exact_number() {
    let most = |n| Bounds::Between { min: None, max: Some(n) };
    let least = |n| Bounds::Between { min: Some(n), max: None };
    let both = Bounds::Between { min: Some(2.0), max: Some(4.0) };
    assert_eq!(row(most(128.0), 128.0), (true, 0.0, Some(0.0)));
    assert_eq!(row(most(128.0), 160.0), (false, 32.0, Some(25.0)));
    assert_eq!(row(most(0.0), 1.0), (false, 1.0, None));
    assert_eq!(row(least(10.0), 9.0), (false, -1.0, Some(-10.0)));
    assert_eq!(row(both, 1.0), (false, -1.0, Some(-50.0)));
    assert_eq!(row(both, 5.0), (false, 1.0, Some(25.0)));
    assert_eq!(row(both, 3.0), (true, -1.0, Some(-25.0)));
    assert_eq!(row(Bounds::Exactly(3.0), 3.0), (true, 0.0, Some(0.0)));
    assert!(!row(Bounds::Exactly(3.0), 2.0).0, "less is not exact either");
}

#[test]
fn nine_digits_decide() {
    assert!(row(Bounds::Exactly(0.333_333_333), 1.0 / 3.0).0);
    assert!(row(Bounds::Between { min: None, max: Some(0.666_666_667) }, 2.0 / 3.0).0);
    assert!(!row(Bounds::Exactly(0.333_333_33), 1.0 / 3.0).0, "eight are another number");
}

/// Reads a budget of the mlx5 in a guest.
fn budget(text: &str) -> Budget {
    let device = |_: &str| Ok(());
    let served = Served { device: &device, bus: |_| Ok("a bus") };
    let text = format!("device = \"mlx5\"\n{text}");
    Budget::parse(&doorbell_systems::DOORBELL, &served, "x.toml", text).unwrap()
}

/// A result of a guest with two workloads: `clock` and `boots` are parts of its JSON.
fn of_guest(clock: &str, boots: &str) -> Measured {
    let run = |name: &str, writes: f64| {
        format!(
            "{{\"kernel\": \"k\", \"workload\": \"{name}\", \"packets\": 100, \
             \"per_packet\": {{\"mmio_writes\": {writes}}}{boots}}}"
        )
    };
    let runs = [run("pktgen", 0.25), run("receive", 0.5)].join(", ");
    let schema = doorbell_console::render::SCHEMA;
    Measured::parse(
        "r",
        &format!(
            "{{\"schema\": {schema}, \"kind\": \"guest\", \"device\": \"mlx5\"{clock}, \
             \"runs\": [{runs}]}}"
        ),
    )
    .unwrap()
}

#[test]
fn a_result_read_back_has_its_numbers() {
    let mut plan = doorbell_systems::DOORBELL.plan("mlx5-pktgen-64").unwrap();
    plan.set("traffic.packets=2000").unwrap();
    let result = plan::execute(&plan, true).unwrap();
    let kept = serde_json::to_value(&result).unwrap();
    let kept = doorbell_spec::Readings::of(kept.as_object().unwrap());
    let all = result.measured.numbers().0;
    assert!(all.len() > 50 && all.iter().any(|n| n.error.is_some_and(|e| e > 0.0)));
    for n in all {
        let read = kept.named(&n.name).unwrap();
        // Counts of the whole run are exact, and have no member that says so.
        let error = n.error.filter(|e| *e > 0.0);
        let value = rounded(read.value);
        assert_eq!((value, read.error), (rounded(n.value), error), "{}", n.name);
    }
}

#[test]
fn a_budget_has_numbers_of_each_workload() {
    let budget = budget("[budget]\nmmio_writes = 0.3\n[workload.receive]\nmmio_writes = 0.5\n");
    assert_eq!(budget.workloads(), ["receive"]);
    let measured = of_guest("", "");
    let verdict = verdict(&budget, String::new(), Vec::new(), &measured).unwrap();
    let rows: Vec<_> = verdict.rows.iter().map(|r| (r.workload, r.holds())).collect();
    let [pktgen, receive] = [Some("pktgen"), Some("receive")];
    assert_eq!(rows, [(pktgen, true), (receive, false), (receive, true)]);
    let other = self::budget("[workload.recieve]\nmmio_writes = 0.5\n");
    let e = super::verdict(&other, String::new(), Vec::new(), &measured).map(drop).unwrap_err();
    assert!(e.to_string().contains("the nearest is `receive`"), "{e}");
}

#[test]
fn an_update_leaves_the_room_that_boots_need() {
    let room = |measured: &Measured| measured.room().map(|room| (room.share, room.spreads));
    assert_eq!(room(&of_guest(", \"profile\": \"p\"", "")).unwrap(), (0.005, 0.0));
    assert!(room(&of_guest("", "")).is_err(), "one boot says nothing of the next");
    let boots = ", \"boots\": {\"boots\": 3, \"spread\": {\"per_packet.mmio_writes\": [0.2, 0.6]}}";
    let measured = of_guest("", boots);
    assert_eq!(room(&measured).unwrap(), (0.0, 1.0));
    let budget = budget("[workload.pktgen]\nmmio_writes = { min = 0, max = 9 } # kept\n");
    let verdict = verdict(&budget, String::new(), Vec::new(), &measured).unwrap();
    assert_eq!(verdict.rows[0].range, [0.2, 0.6]);
    let updated = updated(&budget, &verdict, measured.room().unwrap());
    assert!(updated.contains("{ min = 0, max = 1 } # kept"), "{updated}");
}
