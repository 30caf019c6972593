use super::*;
use doorbell_spec::key::Values;
use doorbell_systems::DOORBELL;
use proptest::prelude::*;
use std::sync::LazyLock;

fn checker(schema: &Value) -> jsonschema::Validator {
    jsonschema::draft7::new(schema).unwrap_or_else(|e| panic!("{e}"))
}

fn files(dir: &str) -> Vec<(String, String)> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(dir);
    let paths = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> =
        paths.map(|p| (p.display().to_string(), std::fs::read_to_string(&p).unwrap())).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn json_of(text: &str) -> Value {
    toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn schemas_are_schemas() {
    for schema in [of_scenarios(&DOORBELL), of_profiles(&DOORBELL), of_measurements(&DOORBELL)] {
        jsonschema::draft7::meta::validate(&schema).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn every_scenario_and_profile_here_fits() {
    for (schema, dir) in
        [(of_scenarios(&DOORBELL), "scenarios"), (of_profiles(&DOORBELL), "profiles")]
    {
        let checker = checker(&schema);
        for (name, text) in files(dir) {
            let all: Vec<String> = checker
                .iter_errors(&json_of(&text))
                .map(|e| format!("{} at {}", e, e.instance_path()))
                .collect();
            assert!(all.is_empty(), "{name}: {all:#?}");
        }
    }
}

#[test]
fn what_the_command_refuses_does_not_fit() {
    let (scenarios, profiles) =
        (checker(&of_scenarios(&DOORBELL)), checker(&of_profiles(&DOORBELL)));
    let head = "name = \"x\"\nabout = \"x\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n";
    assert!(scenarios.is_valid(&json_of(head)));
    for wrong in [
        "[traffic]\nsise = \"64 B\"",
        "[traffic]\nsize = 64",
        "[traffic]\nsize = \"64 ns\"",
        "[traffic]\nkind = true",
        "[traffic]\nkind = \"pktgn\"",
        "[traffic]\nburst = 0.5",
        "[driver]\nmpwqe = \"maybe\"",
        "[pcie]\nmps = 100",
        "color = 3",
        "[colors]\nred = 3",
    ] {
        let text = format!("{head}{wrong}");
        assert!(DOORBELL.parse_scenario("x", &text).is_err(), "{wrong}");
        assert!(!scenarios.is_valid(&json_of(&text)), "{wrong}");
    }
    let whole =
        files("profiles").into_iter().find(|(name, _)| name.ends_with("mlx5-gen2.toml")).unwrap().1;
    for (from, to) in [
        ("unit = \"GHz\"", "unit = \"ns\""),
        ("unit = \"GHz\", ", ""),
        ("frequency", "frequncy"),
        ("system = \"mlx5\"", "system = \"mlx4\""),
        ("[pcie]", "[pcix]"),
        ("source = ", "sauce = "),
    ] {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole);
        assert!(DOORBELL.parse_profile("x", &text).is_err(), "{from}");
        assert!(!profiles.is_valid(&json_of(&text)), "{from}");
    }
}

proptest! {
    /// Every value that the command accepts fits the schema.
    #[test]
    fn what_the_command_takes_fits(
        system in 0..DOORBELL.systems.len(),
        at in any::<prop::sample::Index>(),
        n in 0.0f64..1e4,
        form in "[0-9_]{1,3}(\\.[0-9]{1,2})?(e[0-9])?[ ]?(ns|us|µs|B|KiB|Mpps|GHz)?",
        pick in 0usize..3,
    ) {
        let system = DOORBELL.systems[system];
        let keys = system.keys();
        let key = at.get(&keys);
        let own = key.unit();
        let text = match pick {
            0 => form,
            1 => format!("{} {own}", n.floor()),
            _ => key.default.filter(|d| !d.is_empty()).unwrap_or("1").to_owned(),
        };
        prop_assume!(key.parse(&text).is_ok());
        let (table, name) = key.name.split_once('.').unwrap();
        let mut file = json!({ "name": "x", "about": "x", "system": system.name, "profile": "p" });
        file[table] = json!({ name: text });
        static CHECKER: LazyLock<jsonschema::Validator> =
            LazyLock::new(|| checker(&of_scenarios(&DOORBELL)));
        prop_assert!(CHECKER.is_valid(&file), "{}", file);
    }
}

#[test]
fn defaults_fit_their_own_schema() {
    for system in DOORBELL.systems {
        for (key, _) in Values::defaults(&system.keys()).iter() {
            let Some(default) = key.default.filter(|d| !d.is_empty()) else { continue };
            assert!(
                checker(&setting(key, false)).is_valid(&json!(default)),
                "{}: {default}",
                key.name
            );
        }
    }
}

#[test]
fn measurements_that_are_refused_do_not_fit() {
    let checker = checker(&of_measurements(&DOORBELL));
    let head = "name = \"x\"\nabout = \"x\"\nprofile = \"mlx5-gen2\"\n";
    let constant = "[[constant]]\nkey = \"cpu.stack\"\nrange = [1, 9]\nunit = \"cycles\"\n";
    let row = "[[row]]\nscenario = \"mlx5-single-stream\"\nset = [\"traffic.burst=8\"]\n\
        metric = \"cycles\"\nvalue = 140\nunit = \"cycles\"\nspread = \"1 %\"\nrole = \"fit\"\n\
        source = \"perf\"\n";
    let whole = format!("{head}{constant}{row}");
    let read = |text: &str| crate::fit::Measurements::parse(&DOORBELL, "x.toml", text);
    assert!(checker.is_valid(&json_of(&whole)) && read(&whole).is_ok());
    for (from, to) in [
        ("name = \"x\"", "name = \"\""),
        ("name = \"x\"", "title = \"x\""),
        ("cpu.stack", "pcie.mps"),
        ("cpu.stack", "cpu.stak"),
        ("[1, 9]", "[1]"),
        ("value = 140\n", ""),
        ("\"1 %\"", "\"1\""),
        ("\"1 %\"", "-1"),
        ("\"fit\"", "\"seen\""),
        ("scenario = \"mlx5-single-stream\"\n", ""),
        ("source = \"perf\"", "source = \"perf\"\nfactor = 0"),
        ("source = \"perf\"", "source = \"perf\"\nswap = \"other\""),
        ("source = \"perf\"", "source = \"\""),
        ("metric", "metrics"),
        (constant, ""),
        (row, ""),
        (row, "[[counters]]\nscenario = \"mlx5-single-stream\"\nformat = \"pcm\"\n"),
    ] {
        let text = whole.replace(from, to);
        assert_ne!(text, whole, "{from}");
        assert!(read(&text).is_err(), "{to}");
        assert!(!checker.is_valid(&json_of(&text)), "{to}");
    }
}

#[test]
fn published_rows_fit_the_schema_of_rows() {
    let row = checker(&of_measurements(&DOORBELL)["properties"]["row"]["items"]);
    for of in DOORBELL.systems.iter().flat_map(|s| s.figures) {
        let mut all = json_of(of.rows);
        for published in all["row"].as_array_mut().unwrap() {
            let entries = published.as_object_mut().unwrap();
            // What code computes, and what only published rows have.
            let is_by_code = !["metric", "derived"].iter().any(|name| entries.contains_key(*name));
            entries.retain(|name, v| !["swap", "inputs", "alone"].contains(&&**name) && *v != "");
            assert!(is_by_code || row.is_valid(published), "{published}");
        }
    }
}
