use super::*;
use doorbell_spec::key::Value as Setting;
use doorbell_systems::DOORBELL;

fn plan(sets: &[&str]) -> Plan {
    let mut plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    sets.iter().for_each(|set| plan.set(set).unwrap());
    plan
}

/// Returns another value that a key allows.
fn other(key: &Key, value: &Setting) -> Option<Setting> {
    let words = key.words.iter().map(|w| (*w).to_owned());
    let numbers =
        ["0", "1", "2", "16", "64", "128", "1500", "9000", "0.5", "lost-interrupt@3", "64:1"]
            .map(str::to_owned);
    words.chain(numbers).filter_map(|text| key.parse(&text).ok()).find(|v| v != value)
}

#[test]
fn every_setting_is_part_of_the_key() {
    let mut seen = vec![key(&program(), &plan(&[]), None)];
    let base = plan(&[]);
    for (name, value) in base.values.iter().filter(|(k, _)| k.kind != Kind::File) {
        let mut changed = base.clone();
        let Some(value) = other(name, value) else { panic!("{}: no other value", name.name) };
        changed.values.put(name, value);
        seen.push(key(&program(), &changed, None));
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert!(seen.len() == all && all > 20, "{all}");
}

#[test]
fn equal_runs_of_two_names_have_one_key() {
    let mut renamed = plan(&["run.seed=7"]);
    renamed.scenario = "mine".to_owned();
    renamed
        .values
        .put(base_key(&renamed, "traffic.file"), Setting::Text("elsewhere/mine.pcap".to_owned()));
    let of = |p: &Plan| key(&program(), p, Some("ab"));
    assert_eq!(of(&renamed), of(&plan(&["run.seed=7"])));
}

fn base_key(plan: &Plan, name: &str) -> &'static Key {
    plan.values.keys().into_iter().find(|k| k.name == name).unwrap()
}

#[test]
fn program_and_capture_are_part_of_the_key() {
    let plan = plan(&[]);
    let ours = key(&program(), &plan, None);
    assert_ne!(key("0.0.9+123456789abc", &plan, None), ours);
    assert_ne!(key(&program(), &plan, Some("ab")), ours);
}

#[test]
fn a_line_is_read_as_the_point_that_wrote_it() {
    let plan = plan(&["run.seed=7", "pcie.memory_latency=0.3us"]);
    let columns = [("run.seed".to_owned(), 7.into())].into_iter().collect();
    let line = Point::new(plan.clone(), columns).unwrap().line().unwrap();
    let read = Point::parse(&DOORBELL, "p:1", &line).unwrap();
    assert_eq!(read.0.plan.values, plan.values);
    // The hash of the profile's own values is lost, which decides nothing.
    let hash = |line: &str| line.split("profile_sha256").next().unwrap().to_owned();
    assert_eq!(hash(&read.0.line().unwrap()), hash(&line));
}

#[test]
fn a_unit_that_differs_by_system_says_whose_it_is() {
    let point = |scenario: &str| Point {
        key: String::new(),
        plan: DOORBELL.plan(scenario).unwrap(),
        columns: Record::new(),
        capture_sha256: None,
    };
    let units = units(&["e1000-send", "ibmveth-send", "axienet-receive"].map(point));
    assert_eq!(units["link.rate"], "Gbit/s (ibmveth); Mbit/s (axienet, e1000)");
    assert_eq!(units["wire_bytes"], "B");
}
