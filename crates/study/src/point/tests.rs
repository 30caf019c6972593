use super::*;
use crate::toy::{self, Failed, Lab, REGISTRY, sets};
use doorbell_spec::key::Value as Setting;
use doorbell_systems::DOORBELL;
use std::sync::atomic::Ordering;

const PROGRAM: &str = "0.0.1+123456789abc";

fn plan(all: &[&str]) -> Plan {
    toy::plan(&sets(all)).unwrap()
}

fn point(all: &[&str]) -> Point {
    Point::new(PROGRAM, plan(all), Record::new(), None)
}

/// Returns another value that a key allows.
fn other(key: &Key, value: &Setting) -> Option<Setting> {
    let words = key.words.iter().map(|w| (*w).to_owned());
    let numbers = [
        "0",
        "1",
        "2",
        "16",
        "64",
        "128",
        "1500",
        "2048",
        "9000",
        "0.5",
        "lost-interrupt@3",
        "64:1",
    ]
    .map(str::to_owned);
    words.chain(numbers).filter_map(|text| key.parse(&text).ok()).find(|v| v != value)
}

#[test]
fn every_setting_with_an_effect_is_part_of_the_key() {
    let base = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    let mut seen = vec![key(PROGRAM, &base, None)];
    for (name, value) in base.values.iter().filter(|(k, _)| k.kind != Kind::File) {
        let mut changed = base.clone();
        if base.values.idle(name).is_some() {
            continue;
        }
        let Some(value) = other(name, value) else { panic!("{}: no other value", name.name) };
        changed.values.put(name, value);
        seen.push(key(PROGRAM, &changed, None));
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert!(seen.len() == all && all > 60, "{all}");
}

#[test]
fn equal_runs_of_two_names_have_one_key() {
    let mut renamed = plan(&["run.seed=7"]);
    renamed.scenario = "mine".to_owned();
    let file = renamed.values.keys().into_iter().find(|k| k.name == "traffic.file").unwrap();
    renamed.values.put(file, Setting::Text("elsewhere/mine.pcap".to_owned()));
    let of = |p: &Plan| key(PROGRAM, p, Some("ab"));
    assert_eq!(of(&renamed), of(&plan(&["run.seed=7"])));
}

#[test]
fn program_and_capture_are_part_of_the_key() {
    let plan = plan(&[]);
    let ours = key(PROGRAM, &plan, None);
    assert_ne!(key("0.0.9+123456789abc", &plan, None), ours);
    assert_ne!(key(PROGRAM, &plan, Some("ab")), ours);
}

#[test]
fn a_line_is_read_as_the_point_that_wrote_it() {
    let columns = [("run.seed".to_owned(), 7.into())].into_iter().collect();
    let plan = plan(&["run.seed=7", "toy.time=0.3us"]);
    let line = Point::new(PROGRAM, plan.clone(), columns, None).line(PROGRAM);
    let read = |line: &str| Point::parse(&REGISTRY, PROGRAM, "p:1", line);
    let (again, of) = read(&line).unwrap();
    assert_eq!(again.plan.values, plan.values);
    // The hash of the profile's own values is lost, which decides nothing.
    let hash = |line: &str| line.split("profile_sha256").next().unwrap().to_owned();
    assert_eq!(hash(&again.line(PROGRAM)), hash(&line));
    // The columns are no part of the origin.
    assert_eq!(
        (of.settings.get("run.seed"), of.seed, of.set),
        (None, 0, vec![plan.set[1].clone()])
    );
    let said = |line: &str| read(line).unwrap_err().to_string();
    assert_eq!(said(&line.replace("300 ns", "301 ns")), "p:1: its key is not that of its settings");
    assert!(said("{}").starts_with("p:1: it is no point of `sweep --plan`: missing field"));
    let other = Point::parse(&REGISTRY, "2.0", "p:1", &line).unwrap_err().to_string();
    assert_eq!(other, format!("p:1: doorbell {PROGRAM} planned it, and this is 2.0"));
}

#[test]
fn a_record_makes_its_point_again() {
    let columns: Record = [("toy.size".to_owned(), 9.into())].into_iter().collect();
    let first = Point::new(PROGRAM, plan(&["toy.size=9"]), columns, None);
    let [outcome] = &outcomes(&Lab::default(), 1, std::slice::from_ref(&first)).unwrap()[..] else {
        panic!("one outcome")
    };
    let record = first.record(outcome);
    let of = origin::without(first.origin(), |key| key == "toy.size");
    let again = Point::again(&REGISTRY, PROGRAM, "r:1", of, &record).unwrap();
    assert_eq!((again.record(outcome), &again.key), (record, &first.key));
}

#[test]
fn points_run_once_and_not_if_they_were_kept() {
    let all = ["toy.size=1", "toy.size=2", "toy.size=1", "toy.size=3"].map(|set| point(&[set]));
    let maps = |o: &[Arc<Outcome>]| -> Vec<f64> {
        o.iter().map(|o| o.numbers.get("maps").unwrap().value).collect()
    };
    for threads in [1, 2, 7] {
        let lab = Lab::default();
        assert_eq!(maps(&outcomes(&lab, threads, &all[..3]).unwrap()), [1.0, 2.0, 1.0]);
        assert_eq!(maps(&outcomes(&lab, threads, &all).unwrap()), [1.0, 2.0, 1.0, 3.0]);
        assert_eq!(lab.ran.load(Ordering::Relaxed), 3);
        assert_eq!(*lab.had.lock().unwrap(), [(0, 2), (2, 3)]);
    }
}

#[test]
fn what_no_system_declares_is_no_number_of_an_outcome() {
    let [outcome] = &outcomes(&Lab::default(), 1, &[point(&[])]).unwrap()[..] else { panic!() };
    assert!(outcome.numbers.get("unknown").is_none() && outcome.numbers.get("fences").is_some());
    assert!(!outcome.loses_frames() && outcome.audit.is_empty());
}

#[test]
fn an_end_leaves_what_was_done() {
    let all: Vec<Point> = (1..=9).map(|n| point(&[&format!("toy.size={n}")])).collect();
    let lab = Lab { most: Some(4), ..Lab::default() };
    let ended = outcomes(&lab, 1, &all).unwrap_err();
    assert!(ended.0.starts_with("toy.size=5: "), "{ended:?}");
    assert_eq!(lab.kept.lock().unwrap().len(), 4);
}

#[test]
fn a_run_that_fails_names_itself() {
    let all = [point(&["toy.size=2"]), point(&["toy.way=refused"])];
    let failed = outcomes(&Lab::default(), 2, &all).unwrap_err();
    assert_eq!(failed, Failed("toy.way=refused: `toy.way` is refused".to_owned()));
}

#[test]
fn another_capture_is_refused_before_any_run() {
    let captured = Point::new(PROGRAM, plan(&["toy.size=2"]), Record::new(), Some("ab".to_owned()));
    let lab = |sha256| Lab { sha256, ..Lab::default() };
    let refused =
        |sha256| outcomes(&lab(sha256), 1, std::slice::from_ref(&captured)).unwrap_err().0;
    assert_eq!(refused(Some("cd")), "toy-run: the capture had SHA-256 ab, and now has cd");
    assert_eq!(refused(None), "toy-run: the capture had SHA-256 ab, and now has none");
    let same = lab(Some("ab"));
    assert_eq!(outcomes(&same, 1, std::slice::from_ref(&captured)).unwrap().len(), 1);
    // What was kept needs no capture.
    let (kept, had) = (same.kept, Lab::default());
    let gone = Lab { kept, ..had };
    assert_eq!(outcomes(&gone, 1, &[captured]).unwrap().len(), 1);
}

#[test]
fn a_unit_that_differs_by_system_says_whose_it_is() {
    let plans =
        ["e1000-send", "ibmveth-send", "axienet-receive"].map(|s| DOORBELL.plan(s).unwrap());
    let units = units(&plans.map(|plan| (plan.system.name, plan)).into());
    assert_eq!(units["link.rate"], "Gbit/s (ibmveth); Mbit/s (axienet, e1000)");
    assert_eq!(units["wire_bytes"], "B");
}

#[test]
fn a_key_without_effect_is_no_part_of_a_points_key() {
    let key = |all: &[&str]| {
        let mut plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
        plan.lay(&sets(all)).unwrap();
        Point::new(PROGRAM, plan, Record::new(), None).key
    };
    // Without a cache nobody asks how large it is.
    assert_eq!(key(&["memory.sets=64"]), key(&["memory.sets=128"]));
    let small = ["memory.ways=4", "memory.sets=64"];
    assert_ne!(key(&small), key(&["memory.ways=4", "memory.sets=128"]));
    assert_ne!(key(&small), key(&["memory.sets=64"]));
}
