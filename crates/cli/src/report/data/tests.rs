use super::*;
use doorbell_study::figures::{
    self, Choice, Constant, Constants, FigureSet, Options, Row, Tolerance,
};
use serde_json::json;

/// Passengers an hour, full.
fn ferry() -> FigureSet {
    let constants = vec![
        Constant::cited("boat.seats", 20.0, "seats", "plate on the bridge"),
        Constant::cited("boat.crossing", 15.0, "minutes", "timetable"),
        Constant::cited("boat.colour", 3.0, "", "looked at"),
    ];
    let row = Row::new("ferry.all_full", 78.0, "passengers/hour", Role::Predicted);
    let (source, passage) = ("harbour master".into(), "page 3".into());
    let rows = vec![Row { source, passage, ..row.within(Tolerance::Rel(0.05)) }];
    let mut set = FigureSet::new("ferry", constants, rows, |c: &Constants, _| {
        let taken = if c.choice("boat.rule")? == "full" { 1.0 } else { 0.5 };
        Ok(taken * c.get("boat.seats")? * 60.0 / c.get("boat.crossing")?)
    });
    let rule = Choice::new(
        "boat.rule",
        "full",
        &["full", "half"],
        "nobody wrote it down",
        &["ferry.all_full"],
    );
    set.constants = set.constants.choosing(vec![rule]);
    set
}

#[test]
fn a_row_carries_its_source_and_what_moves_it() {
    let options = Options { sensitivity: true, ..Options::default() };
    let report = figures::reproduce(&[ferry()], &options, &mut |_| true, &mut |_| ()).unwrap();
    let all = serde_json::to_value(of_reproduction(&report, &[None])).unwrap();
    let row = &all["systems"][0]["rows"][0];
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    assert_eq!(
        (text("name"), text("document"), text("passage")),
        ("all full".into(), "harbour master".into(), "page 3".into())
    );
    assert_eq!(
        (&row["measured"], &row["holds"], &row["inputs"]),
        (&json!(80.0), &json!(true), &json!(["boat.seats", "boat.crossing", "boat.rule"]))
    );
    let moved = &all["systems"][0]["sensitivity"]["constants"];
    assert_eq!(
        (&moved[0]["key"], &moved[0]["changes"], &moved[2]["changes"]),
        (&json!("boat.seats"), &json!([1.0]), &json!([0.0]))
    );
    let system = &all["systems"][0];
    assert_eq!(system["combinations"], json!({ "hold": 1, "of": 2 }));
    assert_eq!(
        (&system["choices"][0]["value"], &system["choices"][0]["rows"]),
        (&json!("full"), &json!(["all full"]))
    );
    serde_json::from_value::<Reproduced>(all).expect("what is written can be read");
}
