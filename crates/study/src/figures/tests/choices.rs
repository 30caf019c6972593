//! Choices between models, and rows that cannot come out otherwise.

use super::toy::Toy;
use super::*;

/// A transfer takes `share` times the rule's cost; `share` is fitted on 2 us. The wait behind it is
/// long or short.
pub(super) fn transfer() -> Toy {
    let mut toy =
        Toy::new("toy", vec![Constant::fitted("share", 1.0, "", "toy.base", (0.1, 10.0))]);
    toy.choices = vec![
        Choice::new("bus.cost", "1", &["1", "2", "4"], "nobody published it", &["toy.total"])
            .unit("us"),
        Choice::new(
            "bus.wait",
            "short",
            &["short", "long"],
            "nobody published it",
            &["toy.total", "toy.wait"],
        ),
    ];
    let base = |c: &Constants| Ok(c.get("share")? * c.choice("bus.cost")?.parse::<f64>().unwrap());
    let wait = |c: &Constants| Ok(if c.choice("bus.wait")? == "short" { 1.0 } else { 2.0 });
    let predicted = |figure, published| {
        Row::new(figure, published, "us", Role::Predicted).within(Tolerance::Rel(0.1))
    };
    toy.add(Row::new("toy.base", 2.0, "us", Role::Fit).depends_on(&["share", "bus.cost"]), base);
    let total = predicted("toy.total", 3.0).depends_on(&["share", "bus.cost", "bus.wait"]);
    toy.add(total, move |c| Ok(base(c)? + wait(c)?));
    toy.add(predicted("toy.wait", 1.0).depends_on(&["bus.wait"]), wait);
    toy
}

fn taking(key: &str, value: Given) -> Options {
    Options { set: vec![Setting { key: key.into(), value }], ..Options::default() }
}

fn combinations(report: &Report) -> (usize, usize) {
    let Combinations { hold, of } = report.systems[0].combinations.unwrap();
    (hold, of)
}

#[test]
fn combinations_are_counted_with_their_own_fits() {
    // The fit takes up every cost, so only the wait decides. At the chosen one's share, one
    // combination would be left.
    assert_eq!(combinations(&run(transfer())), (3, 6));
}

#[test]
fn a_row_that_rests_on_a_lost_fit_does_not_hold() {
    let mut system = transfer();
    system.constants[0] = Constant::fitted("share", 2.0, "", "toy.base", (0.9, 10.0));
    system.row("toy.total").tolerance = Some(Tolerance::Rel(1.0));
    // At a cost of 4 the share would have to be 0.5: only the lost fit keeps its total from
    // holding.
    assert_eq!(combinations(&run(system)), (2, 6));
}

#[test]
fn a_row_that_the_chosen_one_misses_is_not_asked_for() {
    let mut system = transfer();
    system.row("toy.wait").value = 2.0;
    assert_eq!(combinations(&run(system)), (3, 6));
    let mut system = transfer();
    system.row("toy.wait").value = 2.0;
    system.row("toy.total").value = 9.0;
    assert_eq!(
        run(system).systems[0].combinations,
        None,
        "nothing holds that another could hold as well"
    );
}

#[test]
fn every_combination_is_tried() {
    let mut system = transfer();
    system.drop_row("toy.total");
    system.choices.iter_mut().for_each(|c| c.rows = vec!["toy.wait".into()]);
    let asked = system.asked.clone();
    run(system);
    let mut tried: Vec<Vec<u64>> =
        asked.lock().unwrap().iter().map(|(_, c)| c[1..].to_vec()).collect();
    tried.sort();
    tried.dedup();
    assert_eq!(tried.len(), 6);
}

#[test]
fn a_combination_is_given_up_before_it_is_fitted() {
    let system = transfer();
    let asked = system.asked.clone();
    run(system);
    let fitted_with_long =
        asked.lock().unwrap().iter().filter(|(f, c)| f == "toy.base" && c[2] == 1).count();
    assert_eq!(fitted_with_long, 0);
}

#[test]
fn a_combination_begins_with_the_chosen_ones_slopes() {
    let system = transfer();
    let asked = system.asked.clone();
    run(system);
    let others = |c: &[u64]| c[1] != 0 && c[2] == 0;
    let fits = asked.lock().unwrap().iter().filter(|(f, c)| f == "toy.base" && others(c)).count();
    // Of each of two: where the chosen one is, where its slope ends, and a step by the right slope.
    assert_eq!(fits, 6);
}

#[test]
fn a_row_of_its_own_waits_for_no_other_fit() {
    let asked_late = |alone: bool| {
        let mut system = transfer();
        system.constants.push(Constant::fitted("late", 1.0, "", "toy.late", (0.1, 10.0)));
        system.add(
            Row::new("toy.late", 2.0, "us", Role::Fit).depends_on(&["late", "bus.wait"]),
            |c| Ok(c.get("late")? * if c.choice("bus.wait")? == "short" { 1.0 } else { 2.0 }),
        );
        // Else it is seen before anything is fitted.
        system.row("toy.wait").inputs = Some(vec!["share".into(), "bus.wait".into()]);
        for row in ["toy.base", "toy.total", "toy.wait"] {
            system.row(row).alone = alone;
        }
        let asked = system.asked.clone();
        let report = run(system);
        let late = asked.lock().unwrap().iter().filter(|(f, _)| f == "toy.late").count();
        (combinations(&report), late)
    };
    let ((all, of_all), (first, of_first)) = (asked_late(false), asked_late(true));
    assert_eq!((all, first), ((3, 6), (3, 6)));
    assert!(of_first < of_all, "{of_first} of {of_all}");
}

#[test]
fn choices_are_degrees_of_freedom() {
    let report = run(transfer());
    let freedom =
        DegreesOfFreedom { predicted: 2, derived: 0, looked_at: 2, fitted: 1, choices: 2 };
    assert_eq!(report.systems[0].freedom, freedom);
    let text = report.to_table();
    assert!(text.contains(
        "2 predictions (2 of them looked at to choose a model) against 1 fit and 2 choices between \
         models: believe nothing."
    ));
    assert!(text.contains("3 of 6 combinations hold"));
    assert!(
        outcome(&report, "toy.wait").notes.contains(&"looked at to choose bus.wait".to_owned())
    );
}

#[test]
fn a_choice_set_by_hand_is_none_any_more() {
    let report = run_with(transfer(), &taking("bus.wait", Given::Word("long".into())));
    let system = &report.systems[0];
    assert_eq!(
        (measured(&report, "toy.wait"), outcome(&report, "toy.wait").holds),
        (2.0, Some(false))
    );
    assert_eq!(system.freedom.choices, 1);
    assert_eq!(system.combinations, None, "nothing holds");
    assert!(report.to_table().contains("set by hand; instead of short"));
    let report = run_with(transfer(), &taking("bus.cost", 2.0.into()));
    assert_eq!(combinations(&report), (1, 2));
}

#[test]
fn a_number_may_lie_between_the_alternatives() {
    let report = run_with(transfer(), &taking("bus.cost", 1.5.into()));
    let choice = &report.systems[0].constants.choices()[0];
    assert_eq!((choice.value(), choice.is_free()), ("1.5", false));
    assert!((report.systems[0].constants.get("share").unwrap() - 2.0 / 1.5).abs() < 1e-6);
}

#[test]
fn a_word_that_is_no_alternative_is_refused() {
    let refusal =
        |key, value| super::toy::refuse(transfer(), &taking(key, value)).unwrap_err().to_string();
    assert_eq!(
        refusal("bus.wait", Given::Word("medium".into())),
        "--set bus.wait=medium: `bus.wait` cannot be `medium`; allowed: short, long"
    );
    assert_eq!(
        refusal("bus.wait", 3.0.into()),
        "--set bus.wait=3: `bus.wait` cannot be `3`; allowed: short, long"
    );
    assert_eq!(
        refusal("share", Given::Word("all".into())),
        "--set share: `all` is not a finite number"
    );
}

#[test]
fn sensitivity_finds_the_choices_that_a_row_rests_on() {
    let report = run_with(transfer(), &Options { sensitivity: true, ..Options::default() });
    let found = report.systems[0].sensitivity.as_ref().unwrap();
    assert_eq!(found.disagreements(), []);
    assert_eq!(outcome(&report, "toy.total").inputs, ["share", "bus.cost", "bus.wait"]);
    let json: serde_json::Value = serde_json::to_value(report.json_rows()).unwrap();
    assert_eq!(json[2]["sensitivity"]["bus.wait=long"], 1.0);
}

#[test]
fn json_has_choices_and_combinations() {
    let json: serde_json::Value = serde_json::to_value(run(transfer()).json_rows()).unwrap();
    let wait = serde_json::json!({
        "key": "bus.wait", "value": "short", "alternatives": ["short", "long"],
        "rows": ["toy.total", "toy.wait"],
        "source": "nobody published it", "set": false,
    });
    assert_eq!(
        (&json[0]["choices"][1], &json[0]["combinations"]),
        (&wait, &serde_json::json!({ "hold": 3, "of": 6 }))
    );
}

#[test]
fn a_choice_takes_the_place_of_its_constant() {
    let mut system = transfer();
    system.constants.push(Constant::cited("bus.cost", 1.0, "us", "a profile"));
    let report = run(system);
    assert_eq!(
        report.systems[0].constants.keys().collect::<Vec<_>>(),
        ["share", "bus.cost", "bus.wait"]
    );
}

#[test]
fn a_choice_without_alternatives_rows_or_reason_is_refused() {
    let mut system = transfer();
    system.choices = vec![
        Choice::new("bus.cost", "1", &["1"], " ", &[]),
        Choice::new("bus.cost", "1", &["1", "2"], "x", &["toy.waits"]),
    ];
    for figure in ["toy.base", "toy.total", "toy.wait"] {
        system.row(figure).inputs = None;
    }
    let Err(Refused::FigureSet(e)) = super::toy::refuse(system, &Options::default()) else {
        panic!()
    };
    assert_eq!(
        e.faults,
        [
            "the choice bus.cost does not say why",
            "the choice bus.cost is between 1",
            "the choice bus.cost was made by looking at no row: it is an assumption",
            "the choice bus.cost is declared twice",
            "the choice bus.cost names the row toy.waits, which does not exist; the nearest is \
             toy.wait",
        ]
    );
}

#[test]
fn a_definition_is_not_judged() {
    let mut system = queue();
    system.row("queue.line").role = Role::Definition;
    system.row("queue.calls_on").role = Role::Definition;
    system.row("queue.calls_on").tolerance = Some(Tolerance::Abs(0.0));
    let report = run(system);
    assert_eq!(outcome(&report, "queue.line").holds, None);
    assert_eq!(report.verdict(), Verdict::AllHold);
    let text = report.to_table();
    assert!(text.contains("3 of 3 judged rows hold: "));
    assert!(text.contains("2 rows are fitted or shown and claim nothing."));
    assert!(text.contains("2 definitions, which cannot come out otherwise: not judged."));
}

#[test]
fn a_definition_that_comes_out_otherwise_is_a_fault() {
    let mut system = queue();
    system.row("queue.calls_on").role = Role::Definition;
    system.row("queue.calls_on").tolerance = Some(Tolerance::Abs(0.0));
    system.row("queue.calls_on").value = 0.2;
    let report = run(system);
    let broken = vec!["queue.calls_on".to_owned()];
    assert_eq!(
        report.verdict(),
        Verdict::Misses { known: vec![], unknown: vec![], broken, failed_fits: vec![] }
    );
    let text = report.to_table();
    assert!(
        text.contains("1 definition, of which 1 came out otherwise") && text.contains("BROKEN"),
        "{text}"
    );
}

#[test]
fn a_swap_that_swaps_nothing_says_so() {
    let mut system = queue();
    system.row("queue.rate_off").swap = None;
    let report = run_with(system, &swapped());
    assert_eq!(report.systems[0].swapped, Some(0));
    assert!(report.to_table().contains(" queue  (nothing to swap)  "));
    assert_eq!(run_with(queue(), &swapped()).systems[0].swapped, Some(1));
}
