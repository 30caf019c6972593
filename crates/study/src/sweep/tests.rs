use super::*;
use crate::point::outcomes;
use crate::toy::{self, Lab, REGISTRY, TOY};

fn grid(over: &[&str], across: Option<&str>) -> Result<Grid, InputError> {
    let over: Vec<String> = over.iter().map(|s| (*s).to_owned()).collect();
    Grid::parse(&over, across, &["toy.time=5".to_owned()])
}

fn points(grid: &Grid) -> Vec<Point> {
    let plans: Vec<Plan> = grid.runs().map(|n| toy::plan(&grid.settings(n)).unwrap()).collect();
    let words = grid.words(&plans[0]);
    let point = |p: &Plan| Point::new("1+2", p.clone(), grid.columns(p, &words), None);
    plans.iter().map(point).collect()
}

fn swept(grid: &Grid, show: &[&str]) -> Swept {
    let shown: Result<Vec<_>, _> = show.iter().map(|t| Shown::parse("--show", t, &TOY)).collect();
    let points = points(grid);
    let outcomes = outcomes(&Lab::default(), 3, &points).unwrap();
    let mut swept = Swept::begin(grid, shown.as_ref().unwrap(), &points[0]);
    for rows in grid.parts(3) {
        let own = grid.runs_of(&rows);
        let own = own.start - grid.runs().start..own.end - grid.runs().start;
        let (points, outcomes) = (&points[own.clone()], &outcomes[own]);
        swept.extend((grid, rows), shown.as_ref().unwrap(), points, outcomes).unwrap();
    }
    swept
}

#[test]
fn the_last_key_changes_fastest_and_columns_stand_side_by_side() {
    let all = grid(&["toy.size=1..2", "run.seed=5,7"], Some("toy.way=on,off")).unwrap();
    assert_eq!((all.runs(), all.width()), (0..8, 2));
    let texts = |n| all.settings(n).into_iter().map(|s| s.text).collect::<Vec<_>>();
    assert_eq!(texts(0), ["toy.size=1", "run.seed=5", "toy.way=on"]);
    assert_eq!(texts(3), ["toy.size=1", "run.seed=7", "toy.way=off"]);
    assert_eq!(texts(4), ["toy.size=2", "run.seed=5", "toy.way=on"]);
    let all = swept(&all, &["fences", "maps+fences"]);
    let row = serde_json::to_value(&all.rows[2]).unwrap();
    let fences = r#""fences":{"on":1.0,"off":2.0},"maps+fences":{"on":3.0,"off":4.0}"#;
    assert_eq!(
        row.to_string(),
        format!(r#"{{"keys":{{"toy.size":2,"run.seed":5}},"values":{{{fences}}},"audit":[]}}"#)
    );
    assert_eq!(all.rows[2].given, ["2", "5"]);
    let rest = serde_json::json!({ "over": all.over, "across": all.across, "units": all.units });
    let axes = r#""over":{"toy.size":["1","2"],"run.seed":["5","7"]}"#;
    let rest_of = r#""across":{"toy.way":["on","off"]},"units":{"toy.size":"B"}"#;
    assert_eq!(rest.to_string(), format!("{{{axes},{rest_of}}}"));
    // The origin is that of all runs.
    assert!(!all.of.settings.contains_key("toy.size") && all.of.settings.contains_key("toy.time"));
    assert_eq!(all.of.set, Vec::<String>::new());
}

#[test]
fn what_is_written_is_read_as_it_was() {
    for across in [None, Some("toy.way=on,off")] {
        let all = swept(&grid(&["toy.size=1,40"], across).unwrap(), &["packets_per_s"]);
        let text = serde_json::to_string(&all).unwrap();
        let again: Swept = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_eq!(again.lose_frames, across.map_or(1, |_| 2));
    }
}

#[test]
fn rows_that_were_read_are_made_again() {
    for across in [None, Some("toy.way=on,off,wrong")] {
        let all = swept(&grid(&["toy.size=1,auto,40"], across).unwrap(), &["maps", "fences+maps"]);
        let text = serde_json::to_string(&all).unwrap();
        let kept: Swept = serde_json::from_str(&text).unwrap();
        let some = &kept.rows[1..];
        let points = kept.points(&REGISTRY, "1+2", "s", some).unwrap();
        let outcomes = outcomes(&Lab::default(), 2, &points).unwrap();
        assert_eq!(kept.again(some, &points, &outcomes).unwrap(), some);
        assert_eq!(points.len(), across.map_or(2, |_| 6));
    }
}

#[test]
fn parts_in_order_are_the_whole() {
    let whole = grid(&["toy.size=1..7", "run.seed=1,2"], Some("toy.way=on,off")).unwrap();
    let all = points(&whole);
    let lines = |all: &[Point]| all.iter().map(|p| p.line("1+2")).collect::<Vec<_>>();
    for parts in [1, 3, 5, 14] {
        let part = |n| {
            let mut part = whole.clone();
            part.keep(Shard::parse(&format!("{n}/{parts}")).unwrap()).unwrap();
            let rows = swept(&part, &["maps"]).rows;
            (lines(&points(&part)), rows)
        };
        let (lines_of, rows): (Vec<_>, Vec<_>) = (1..=parts).map(part).unzip();
        assert_eq!(lines_of.concat(), lines(&all), "{parts}");
        assert_eq!(rows.concat(), swept(&whole, &["maps"]).rows, "{parts}");
    }
    let e = whole.clone().keep(Shard::parse("1/15").unwrap()).unwrap_err().to_string();
    assert_eq!(e, "--shard: there are 14 rows, so at most as many parts");
    for wrong in ["0/4", "5/4", "4", "1/0", "-1/4"] {
        assert!(Shard::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_wrong_axis_says_what_is_wrong() {
    let said = |over: &[&str], across| grid(over, across).unwrap_err().to_string();
    assert_eq!(
        said(&["toy.size"], None),
        "--over toy.size: expected key=value,value,… such as pcie.mps=128,256"
    );
    assert_eq!(
        said(&["toy.size=4..1"], None),
        "--over toy.size=4..1: the first is more than the last"
    );
    assert_eq!(
        said(&["toy.size=1"], Some("toy.size=2,3")),
        "--across toy.size=2,3: --over has it already, and a run has one value of it"
    );
    assert_eq!(
        said(&["toy.time=1"], None),
        "--set toy.time=5: --over gives every run a value of it"
    );
    let many = ["run.seed=1..10000", "toy.size=1..64", "toy.time=1..20"];
    let many = Grid::parse(&many.map(str::to_owned), None, &[]).unwrap_err().to_string();
    assert!(many.starts_with("--over: the values make 12800000 runs, and a sweep has 10000000"));
    let e = Shown::parse("--show", "map", &TOY).unwrap_err().to_string();
    assert!(e.starts_with("--show map: no metric is called `map`"), "{e}");
}

#[test]
fn a_wrong_value_in_the_last_run_is_known_before_the_first() {
    let all = grid(&["toy.size=1..3,99"], None).unwrap();
    let first = |grid: &Grid| grid.samples().find_map(|n| toy::plan(&grid.settings(n)).err());
    let e = first(&all).unwrap().to_string();
    assert!(e.starts_with("--over toy.size=99: `toy.size` cannot be 99"), "{e}");
    // Also in the first part of a million.
    let mut part =
        grid(&["run.seed=1..1000", "toy.size=1..30,99"], Some("toy.way=on,off")).unwrap();
    part.keep(Shard::parse("1/1000").unwrap()).unwrap();
    assert_eq!(first(&part).unwrap().to_string(), e);
    assert_eq!((part.runs().len(), part.samples().count()), (62, 62 + 999));
}

#[test]
fn samples_of_a_whole_are_its_runs_and_of_a_part_each_value_is_one() {
    let whole = grid(&["run.seed=1..9", "toy.size=1..4"], Some("toy.way=on,off")).unwrap();
    assert!(whole.samples().eq(whole.all()) && whole.all() == (0..72));
    let mut part = whole.clone();
    part.keep(Shard::parse("36/36").unwrap()).unwrap();
    let samples: Vec<usize> = part.samples().collect();
    for axis in whole.axes() {
        for value in &axis.values {
            let text = format!("{}={value}", axis.key);
            let has = |n: &usize| whole.settings(*n).iter().any(|s| s.text == text);
            assert!(samples.iter().any(has), "{text}");
        }
    }
    assert_eq!(samples[..2], [70, 71]);
}

#[test]
fn a_key_with_words_and_numbers_is_text_in_all_records() {
    let types = |over| {
        let all = points(&grid(&[over], None).unwrap());
        let outcomes = outcomes(&Lab::default(), 1, &all).unwrap();
        let value = |(p, o): (&Point, _)| p.record(o)["toy.size"].clone();
        all.iter().zip(outcomes.iter().map(|o| &**o)).map(value).collect::<Vec<_>>()
    };
    assert_eq!(types("toy.size=1,2"), [1, 2]);
    assert_eq!(types("toy.size=1,auto"), ["1", "auto"]);
}

#[test]
fn a_row_has_the_checks_that_failed() {
    let all = swept(&grid(&["toy.size=1"], Some("toy.way=on,wrong,off")).unwrap(), &["maps"]);
    assert_eq!(all.rows[0].audit, ["it is wrong"]);
    assert_eq!(all.rows[0].values["maps"].all(), [1.0, 1.0, 1.0]);
}
