use super::*;
use doorbell_sim::Unwatched;
use doorbell_study::budget::{Budget, Served};
use doorbell_systems::DOORBELL;
use proptest::prelude::*;
use std::sync::LazyLock;

static CHECKER: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    jsonschema::draft7::new(&schema(&DOORBELL, Devices::default()))
        .unwrap_or_else(|e| panic!("{e}"))
});

/// Returns the faults of a file by the schema.
fn against(text: &str) -> Vec<String> {
    let file: Value = toml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    CHECKER.iter_errors(&file).map(|e| format!("{e} at {}", e.instance_path())).collect()
}

/// Returns true if the command accepts the file, as far as it can tell before a run.
fn taken(text: &str) -> bool {
    let device = |name: &str| Devices::default().find(name).map_err(|e| e.to_string());
    let bus = |name: &str| doorbell_serve::bus(name).map_err(|e| e.to_string());
    let served = Served { device: &device, bus };
    Budget::parse(&DOORBELL, &served, "budgets/x.toml", text.to_owned())
        .is_ok_and(|b| !b.is_of_a_run() || b.plan().is_ok())
}

#[test]
fn the_schema_is_a_schema() {
    jsonschema::draft7::meta::validate(&schema(&DOORBELL, Devices::default()))
        .unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_budget_here_fits() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets");
    let mut n = 0;
    for file in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        assert_eq!(
            against(&std::fs::read_to_string(&file).unwrap()),
            [""; 0],
            "{}",
            file.display()
        );
        n += 1;
    }
    assert!(n > 0);
}

#[test]
fn each_way_to_write_a_budget_fits() {
    for budget in [
        "scenario = \"mlx5-pktgen-64\"\nprofile = \"mlx5-gen3\"\nseed = 3\nabout = \
         \"x\"\n[budget]\npackets = 1",
        "scenario = \"e1000-send\"\n[set]\ndriver.copy_align = true\n\"traffic.window\" = \
         7\n[budget]\npackets = 1",
        "scenario = \"mlx5-pktgen-64\"\n[set.traffic]\nsize = 128\nrate = \
         \"full\"\n[budget]\nseconds = {}",
        "scenario = \"mlx5-pktgen-64\"\n[budget.ledger]\nmaps = { min = 1, max = 2 }\nmessages = { \
         exact = 3 }",
        "scenario = \"mlx5-pktgen-64\"\n[budget]\n\"maps + unmaps\" = \
         2\n'latency_ns.p99' = 1e3",
        "device = \"vnic\"\n[budget]\n\"device_counters.crqs\" = 2\n\"frames + clients\" = { min = \
         2 }",
        "device = \"e1000\"\nbus = \"pcix\"\n[budget]\nframes = -1",
        "device = \"mlx5\"\n[budget]\n\"ledger.dma_faults\" = 0\n[workload.pktgen]\nmessages = \
         1\n[workload.receive.instructions]\ndriver = 400",
        "device = \"mlx5\"\n[workload.pktgen]\nmessages = 1",
    ] {
        let budget = budget.replace("{}", "{ max = 1 }");
        assert!(taken(&budget), "{budget}");
        assert_eq!(against(&budget), [""; 0], "{budget}");
    }
}

#[test]
fn what_the_command_refuses_does_not_fit() {
    let run =
        |rest: &str| format!("scenario = \"mlx5-pktgen-64\"\n{rest}\n[budget]\npackets = 1\n");
    let mut all = vec![
        "[budget]\npackets = 1".to_owned(),
        "scenario = \"mlx5-pktgen-64\"".to_owned(),
        "scenario = \"mlx5-pktgen\"\n[budget]\npackets = 1".to_owned(),
        "device = \"e1001\"\n[budget]\nframes = 1".to_owned(),
        "device = \"e1000\"\nbus = \"isa\"\n[budget]\nframes = 1".to_owned(),
        "device = \"e1000\"\nseed = 1\n[budget]\nframes = 1".to_owned(),
        run("device = \"e1000\""),
        run("[workload.pktgen]\nmessages = 1"),
        "device = \"mlx5\"\nworkload = 3".to_owned(),
        "device = \"mlx5\"\n[workload]\npktgen = 3".to_owned(),
        run("bus = \"pci32\""),
        run("profil = \"mlx5-gen3\""),
        run("profile = \"mlx5-gen4\""),
        run("about = \" \""),
        run("seed = -1"),
        run("seed = \"x\""),
        run("[set]\n\"driver.mpwq\" = true"),
        run("[set]\ndriver.mpwqe = \"maybe\""),
        run("[set]\ndriver.copy_align = true"),
        run("[set]\n\"traffic.size\" = 1"),
        run("[set]\n\"traffic.size\" = \"64 ns\""),
    ];
    let bounds = [
        "maps = \"few\"",
        "maps = { most = 3 }",
        "maps = { exact = 3, max = 2 }",
        "maps = {}",
        "ledger = 3",
        "",
    ];
    all.extend(bounds.map(|b| format!("scenario = \"mlx5-pktgen-64\"\n[budget]\n{b}")));
    for budget in all {
        assert_ne!(against(&budget), [""; 0], "{budget}");
        // A name that no result has is found when there is one.
        assert!(!taken(&budget) || budget.ends_with("ledger = 3"), "{budget}");
    }
}

/// Returns a server's report with one of everything.
fn a_report() -> String {
    let ledger = vec![("wire_frames", "", 1)];
    let report = doorbell_serve::Report {
        device: "e1000",
        bus: "",
        connected: true,
        clients: 1,
        ledger,
        counters: vec![("x", 1)],
    };
    report.show(doorbell_console::render::Format::Json)
}

/// The numbers of a result that are in none of its parts, and the parts, are those that the schema
/// names.
#[test]
fn a_results_numbers_are_known() {
    let mut plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    plan.set("traffic.packets=32").unwrap();
    let run = DOORBELL.system("mlx5").unwrap().runner;
    let measured = run(&plan.values, None, &mut Unwatched).unwrap();
    let result = crate::plan::result(&plan, measured).unwrap();
    let results = [doorbell_console::render::json("run", &result), a_report()];
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    for (name, value) in
        results.iter().flat_map(|r| serde_json::from_str::<Map<String, Value>>(r).unwrap())
    {
        match value {
            Value::Number(_) if name == "schema" => {}
            Value::Number(_) => whole.push(name),
            // Of how it was measured; no cost of a driver.
            Value::Object(_) if name == "window" || name == "rates_error" => {}
            Value::Object(o) if o.values().any(Value::is_number) => parts.push(name),
            _ => {}
        }
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    let all = |names: &[&str]| sorted(names.iter().map(|n| (*n).to_owned()).collect());
    // Of a guest, which is not booted here.
    parts.extend(["instructions", "functions"].map(str::to_owned));
    assert_eq!((sorted(whole), sorted(parts)), (all(&WHOLE), all(&GROUPS)));
}

proptest! {
    /// A line as a person may write it: what the command takes, fits.
    #[test]
    fn what_the_command_takes_fits(
        scenario in prop::sample::select(DOORBELL.scenario_names().collect::<Vec<_>>()),
        at in any::<prop::sample::Index>(), nested in any::<bool>(), pick in 0..4,
        given in concat!(
            "(-?[0-9]{1,3}(\\.[0-9]{1,2})?|true|false|",
            "\"(on|off|full|[0-9]{1,3}[ ]?(ns|us|B|KiB|Mpps|GHz)?)\")"
        ),
        name in concat!(
            "[ ]?(((per_packet|ledger|rates|latency_ns|device_counters)\\.(maps|p99))|",
            "packets|frames)([ ]?\\+[ ]?unmaps)?"
        ),
        bound in concat!(
            "(-?[0-9]{1,3}(\\.[0-9])?|\\{ min = [0-4] \\}|\\{ max = [0-4], min = 0 \\}|",
            "\\{ exact = [0-9] \\})"
        ),
    ) {
        let keys = DOORBELL.scenario(scenario).unwrap().system.keys();
        let key = at.get(&keys);
        let default = key.default.unwrap_or(key.words.first().copied().unwrap_or("1"));
        let value = match pick {
            0 => given,
            1 if key.words.is_empty() && default.parse::<f64>().is_ok() => default.to_owned(),
            2 if ["on", "off"].contains(&default) => (default == "on").to_string(),
            _ => format!("\"{default}\""),
        };
        let (table, own) = key.name.split_once('.').unwrap();
        let set = match nested {
            true => format!("[set.{table}]\n{own}"),
            false => format!("[set]\n\"{table}.{own}\""),
        };
        let budget = format!("[budget]\n\"{name}\" = {bound}\n");
        let text = format!("scenario = \"{scenario}\"\n{set} = {value}\n{budget}");
        prop_assume!(toml::from_str::<Value>(&text).is_ok() && taken(&text));
        prop_assert_eq!(against(&text), [""; 0], "{}", text);
    }
}
