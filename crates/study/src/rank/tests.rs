use super::*;
use crate::toy::{self, Lab, REGISTRY};
use std::sync::LazyLock;

static SCENARIOS: LazyLock<[String; 2]> = LazyLock::new(|| ["one", "two"].map(str::to_owned));
static BY: LazyLock<[String; 2]> = LazyLock::new(|| ["maps", "fences"].map(str::to_owned));

fn contest(sides: &[&str]) -> Contest<'static> {
    Contest {
        scenarios: &SCENARIOS[..1],
        sides: sides.iter().map(|s| Side::parse(s).unwrap()).collect(),
        seeds: None,
        filter: None,
        noise: 5.0,
        by: &BY[..],
        show: &[],
        series: None,
    }
}

fn rank(c: &Contest<'_>) -> Result<Ranked, toy::Failed> {
    let plans = c.plans(|scenario, sets| {
        let plan = toy::plan(sets)?;
        Ok::<_, InputError>(Plan { scenario: scenario.to_owned(), ..plan })
    })?;
    c.rank(&Lab::default(), &plans, &c.shown(&plans)?)
}

fn verdicts(c: &Contest<'_>) -> Vec<String> {
    let Found::Numbers { rows } = rank(c).unwrap().found else { panic!("no rows") };
    rows.into_iter().map(|r| r.against_first).collect()
}

/// Wilson's interval, worked out by hand: of none in a hundred, and of seven in a thousand.
#[test]
fn a_share_has_an_interval() {
    let near = |[share, low, high]: [f64; 3], of: [f64; 3]| {
        for (a, b) in [share, low, high].into_iter().zip(of) {
            assert!((a - b).abs() < 5e-5, "{a} {b}");
        }
    };
    near(share(0, 100), [0.0, 0.0, 0.0370]);
    near(share(7, 1000), [0.007, 0.0034, 0.0144]);
    near(share(60, 60), [1.0, 0.9398, 1.0]);
}

#[test]
fn a_side_that_is_better_in_all_numbers_dominates() {
    let all = contest(&[
        "first: toy.size=10,toy.way=on",
        "less: toy.size=20,toy.way=off",
        "more: toy.size=5,toy.way=off",
        "same: toy.size=10",
    ]);
    assert_eq!(verdicts(&all), ["", "dominated", "", ""]);
    // Of one number alone.
    assert_eq!(verdicts(&Contest { by: &BY[..1], ..all }), ["", "dominated", "dominates", ""]);
}

#[test]
fn differences_within_the_noise_are_none() {
    let all = Contest { by: &BY[..1], ..contest(&["toy.size=20", "toy.size=21", "toy.size=19"]) };
    assert_eq!(verdicts(&all), ["", "", "dominates"]);
    assert_eq!(verdicts(&Contest { noise: 4.0, ..all }), ["", "dominated", "dominates"]);
}

/// A rate of the toy has no error, and more of it is better.
#[test]
fn a_number_without_an_error_dominates_only_over_seeds() {
    let rate = ["packets_per_s".to_owned()];
    let all = Contest { by: &rate, ..contest(&["toy.size=20", "toy.size=10"]) };
    assert_eq!(verdicts(&all), ["", ""]);
    let found = rank(&Contest { seeds: Some(vec![1, 2]), ..all }).unwrap().found;
    let Found::Shares { rows, .. } = found else { panic!("{found:?}") };
    assert_eq!((rows[0].dominates_first, rows[0].dominated_by_first), (2, 0));
}

#[test]
fn seeds_give_shares_and_medians() {
    let all = Contest {
        scenarios: &SCENARIOS[..],
        seeds: Some(seeds("3-5").unwrap()),
        ..contest(&["a: toy.size=8", "b: toy.size=4", "c: toy.size=16,toy.way=off"])
    };
    let ranked = rank(&all).unwrap();
    let json = serde_json::to_value(&ranked).unwrap();
    assert_eq!((ranked.loads, ranked.left, ranked.seeds), (6, 6, Some((3, 5))));
    let Found::Shares { rows, runs, dominating, .. } = &ranked.found else { panic!("{json}") };
    assert_eq!((*runs, *dominating), (6, 6));
    assert_eq!(rows[0].medians["maps"], Some(2.0));
    assert_eq!((rows[0].dominates_first, rows[1].dominated_by_first), (0, 6));
    // Fewer maps at the same register writes are better in one number alone.
    assert_eq!(json["dominated"], serde_json::json!([]));
    let alone = rank(&Contest { by: &BY[..1], ..all }).unwrap();
    let Found::Shares { dominated, .. } = alone.found else { panic!("no shares") };
    assert_eq!(dominated, ["one 3", "one 4", "one 5", "two 3", "two 4", "two 5"]);
}

#[test]
fn a_load_is_left_out_for_all_sides() {
    let sides = ["toy.size=8", "toy.size=16"];
    let with = |text: &str| Contest {
        filter: Some(Where::parse(text).unwrap()),
        seeds: Some(vec![1, 2, 3, 4]),
        ..contest(&sides)
    };
    // An odd seed has twice the latency.
    let ranked = rank(&with("latency_ns.p50<200")).unwrap();
    assert_eq!((ranked.loads, ranked.left), (4, 2));
    assert_eq!(ranked.filter.as_deref(), Some("latency_ns.p50<200"));
    let none = rank(&with("maps>16")).unwrap_err().0;
    assert_eq!(none, "--where maps>16: in each of the 4 loads a side does not meet it");
    let unknown = rank(&with("map=3")).unwrap_err().0;
    assert!(unknown.starts_with("--where: a run of toy has no number `map`"), "{unknown}");
}

#[test]
fn lost_frames_and_failed_checks_are_told() {
    let ranked = rank(&contest(&["toy.size=8", "toy.size=40"])).unwrap();
    assert_eq!((ranked.lose_frames, ranked.is_sound), (1, true));
    assert!(!rank(&contest(&["toy.size=8", "toy.way=wrong"])).unwrap().is_sound);
}

#[test]
fn a_series_is_a_mean_of_points() {
    let all = Contest {
        series: Some(("size", 2)),
        by: &[],
        ..contest(&["a: toy.size=1", "b: toy.size=2"])
    };
    let found = rank(&all).unwrap().found;
    let Found::Series { points, .. } = &found else { panic!("{found:?}") };
    assert_eq!(points["a"], [(2.0, 1.5), (4.0, 3.5), (5.0, 5.0)]);
    assert_eq!(points["b"][0], (2.0, 3.0));
    let other = rank(&Contest { series: Some(("width", 1)), ..all.clone() }).unwrap_err().0;
    assert_eq!(other, "--series width: no series of the run has this name; it has size");
    let two = rank(&Contest { scenarios: &SCENARIOS[..], ..all }).unwrap_err().0;
    assert_eq!(two, "--series: one scenario, and no --seeds");
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let all = contest(&["a: toy.size=8", "b: toy.size=40"]);
    let series = Contest { series: Some(("size", 1)), ..all.clone() };
    for contest in [Contest { seeds: Some(vec![1, 2]), ..all.clone() }, series, all] {
        let text = serde_json::to_string(&rank(&contest).unwrap()).unwrap();
        let again: Ranked = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_eq!(again.of[0].settings.get("toy.size"), None, "the sides differ in it");
    }
}

#[test]
fn a_key_that_some_sides_set_has_its_value_in_the_origin() {
    let all = contest(&["a: toy.size=8,toy.way=off", "b: toy.size=9"]);
    let ranked = rank(&all).unwrap();
    let of = &ranked.of[0].settings;
    assert_eq!((of.get("toy.size"), of["toy.way"].as_str()), (None, Some("on")));
    // So it is run again as it was.
    let (kept, show) = (ranked.clone(), ranked.shown());
    let again = kept.contest(&SCENARIOS[..1], &show).unwrap();
    let plan = |scenario: &str, sets: &[Setting]| kept.plan(&REGISTRY, "r", scenario, sets);
    let plans = again.plans(plan).unwrap();
    let now = again.rank(&Lab::default(), &plans, &again.shown(&plans).unwrap()).unwrap();
    assert_eq!((&now.found, &now.of[0].settings), (&kept.found, &kept.of[0].settings));
    let mut old = kept.clone();
    old.of[0].settings.remove("toy.way");
    let e = again.plans(|scenario, sets| old.plan(&REGISTRY, "r", scenario, sets)).unwrap_err();
    assert_eq!(e.to_string(), "r: its origin does not have `toy.way` of all sides");
}

#[test]
fn what_is_no_side_no_condition_and_no_seed_is_refused() {
    let side = Side::parse("a: toy.size=8, toy.way=on").unwrap();
    assert_eq!(
        (side.name.as_str(), side.set),
        ("a", vec!["toy.size=8".into(), "toy.way=on".into()])
    );
    // A colon behind a key is part of its value.
    assert_eq!(Side::parse("run.fault=link-flap@1ms:2ms").unwrap().set.len(), 1);
    let side = Side::parse(r#"mix: {"traffic.mix": "60:7,1514:1", "toy.way": true}"#).unwrap();
    assert_eq!(side.name, "mix");
    assert_eq!(side.set, ["traffic.mix=60:7,1514:1", "toy.way=on"]);
    assert_eq!(Side::parse(r#"{"toy.size": 8}"#).unwrap().set, ["toy.size=8"]);
    for empty in ["{}", r#"{"toy.size": null}"#] {
        assert!(Side::parse(empty).unwrap_err().to_string().contains("expected key=value"));
    }
    let said = Side::parse("dim").unwrap_err().to_string();
    assert!(said.starts_with("--side dim: expected key=value,… or a name before them"), "{said}");
    for wrong in ["maps", "maps=x"] {
        let said = Where::parse(wrong).unwrap_err().to_string();
        assert!(said.starts_with(&format!("--where {wrong}: expected NAME=VALUE")), "{said}");
    }
    for wrong in ["", "9-1", "a-b", "0-1000000"] {
        let said = seeds(wrong).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("--seeds {wrong}: expected FIRST-LAST such as 1-1000, at most a million")
        );
    }
    assert_eq!(seeds("7"), Ok(vec![7]));
}
