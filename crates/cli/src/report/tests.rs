use super::*;
use doorbell_console::render::{SCHEMA, json as shown};
use doorbell_systems::DOORBELL;
use serde_json::json;

#[test]
fn a_directory_without_results_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let e = collected(dir.path(), &[]).err().unwrap();
    assert!(e.code() == 2 && e.to_string().contains("has a result: reproduce.json"), "{}", e);
}

#[test]
fn a_reproduction_of_another_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut all: Value =
        serde_json::from_str(&shown("report", &Reproduced::<Value> { systems: Vec::new() }))
            .unwrap();
    let path = dir.path().join("reproduce.json");
    std::fs::write(&path, all.to_string()).unwrap();
    assert!(collected(dir.path(), &[]).is_ok());
    all["schema"] = json!(SCHEMA + 1);
    std::fs::write(&path, all.to_string()).unwrap();
    let e = collected(dir.path(), &[]).err().unwrap();
    assert!(
        e.to_string().contains("reproduce.json: it has schema 2, but this doorbell reads 1"),
        "{}",
        e
    );
}

#[test]
fn a_damaged_result_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("result.json"), "{\n  \"schema\": 1, \"scenario\": 3\n}")
        .unwrap();
    let e = collected(dir.path(), &[]).err().unwrap();
    assert!(e.to_string().contains("result.json: ") && e.to_string().contains("line 2"), "{}", e);
}

#[test]
fn the_command_line_orders_the_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    plan.set("traffic.packets=32").unwrap();
    let result = crate::plan::execute(&plan, true).unwrap();
    for name in ["after", "before", "empty"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    for name in ["after", "before"] {
        std::fs::write(dir.path().join(name).join("result.json"), shown("run", &result)).unwrap();
    }
    let labels = |chosen: &[&str]| -> Vec<String> {
        let chosen: Vec<String> = chosen.iter().map(|c| (*c).to_owned()).collect();
        let all = collected(dir.path(), &chosen).unwrap();
        all.runs.iter().map(|r| r.label.clone()).collect()
    };
    assert_eq!(labels(&[]), ["after", "before"]);
    assert_eq!(labels(&["before/", "after"]), ["before", "after"]);
    assert_eq!(labels(&["after"]), ["after"]);
    for wrong in ["empty", "none"] {
        let e = collected(dir.path(), &[wrong.to_owned()]).err().unwrap();
        let said = format!("no result there is called {wrong}: after, before");
        assert!(e.code() == 2 && e.to_string().ends_with(&said), "{e}");
    }
    // Files of other programs and kinds stand aside; a run's file may have a name of its own.
    std::fs::write(dir.path().join("other.json"), "[1]").unwrap();
    std::fs::write(dir.path().join("list.json"), shown("list", &json!({}))).unwrap();
    std::fs::write(dir.path().join("empty").join("third.json"), shown("run", &result)).unwrap();
    assert_eq!(labels(&[]), ["after", "before", "empty/third"]);
    assert_eq!(labels(&["empty/third"]), ["empty/third"]);
}
