//! Runs of a file of rows.

use super::*;
use doorbell_systems::published::ModelChoice;

static TOY: SystemFigures = SystemFigures {
    name: "mlx5",
    profile: "mlx5-gen2",
    rows: r#"
about = "toy"
set = ["traffic.packets=2400"]
[documents]
d = "somewhere"
[run.off]
scenario = "mlx5-single-stream"
set = ["driver.mpwqe=off"]
[run.on]
scenario = "mlx5-single-stream"
[run.priced]
scenario = "mlx5-single-stream"
constants = ["cpu.stack"]
[run.set]
scenario = "mlx5-single-stream"
set = ["cpu.stack=50"]
[[row]]
figure = "mlx5.rate"
unit = "Mpps"
value = 1
role = "shown"
source = "d"
passage = "p"
run = "off"
metric = "packets_per_s"
[[row]]
figure = "mlx5.doorbells"
unit = "doorbells/burst"
value = 1
role = "shown"
source = "d"
passage = "p"
run = "off"
metric = "mmio_writes"
per = "driver_packets"
factor = 32
[[row]]
figure = "mlx5.nothing"
unit = ""
value = 1
role = "shown"
source = "d"
passage = "p"
run = "off"
metric = "driver_mpwqe_blks"
per = "driver_mpwqe_pkts"
"#,
    headline: None,
    left_out: &[],
    constants: &[],
    choices: &[ModelChoice::of_profile("driver.sizing", &["padded", "fit"], &["mlx5.rate"])],
    measure: |_, figure| Err(MeasureError::unknown_figure(figure)),
};

fn toy() -> FigureSet {
    open(&doorbell_systems::DOORBELL, &TOY).unwrap()
}

impl FigureSet {
    fn at<'a>(&'a self, constants: &'a Constants, profile: &'a Profile) -> At<'a> {
        At { models: &self.models, profile, constants }
    }
}

/// Returns a row by its index.
fn measured(toy: &FigureSet, row: usize) -> Result<f64, MeasureError> {
    toy.models.measure(&toy.constants, toy.rows[row].number.as_ref().unwrap(), &mut Unwatched)
}

fn profile() -> Profile {
    doorbell_systems::DOORBELL.profile("mlx5-gen2").unwrap()
}

#[test]
fn a_row_is_a_number_of_its_run_in_its_unit() {
    let (toy, profile) = (toy(), profile());
    let pps = toy.at(&toy.constants, &profile).number("off", "packets_per_s").unwrap();
    assert_eq!(measured(&toy, 0), Ok(pps * 1e-6));
    assert_eq!(measured(&toy, 2), Ok(0.0), "nothing of nothing");
    assert_eq!(toy.models.made(), 1, "the figures of one run share it");
}

#[test]
fn a_run_is_made_anew_only_for_what_has_an_effect_on_it() {
    let (toy, profile) = (toy(), profile());
    let mut c = toy.constants.clone();
    let runs = |c: &Constants, run: &str| {
        toy.at(c, &profile).number(run, "cycles").unwrap();
        toy.models.made()
    };
    assert_eq!([runs(&c, "off"), runs(&c, "on")], [1, 2]);
    // Without sessions there is none to size.
    c.set("driver.sizing", &super::super::Given::Word("fit".into())).unwrap();
    assert_eq!([runs(&c, "off"), runs(&c, "on")], [2, 3]);
    c.set("cpu.stack", &70.0.into()).unwrap();
    assert_eq!([runs(&c, "off"), runs(&c, "on"), runs(&c, "priced")], [4, 5, 5]);
    // A run that names its constants takes no other.
    c.set("cpu.map", &70.0.into()).unwrap();
    assert_eq!([runs(&c, "on"), runs(&c, "priced")], [6, 6]);
}

#[test]
fn what_a_scenario_or_a_setting_says_stays() {
    let toy = toy();
    let mut c = toy.constants.clone();
    let stack = |c: &Constants, run: usize| toy.models.runs[run].values(c).number("cpu.stack");
    c.set("cpu.stack", &70.0.into()).unwrap();
    // In the order of their names: off, on, priced, set.
    assert_eq!([stack(&c, 1), stack(&c, 3)], [70.0, 50.0]);
}

#[test]
fn a_run_or_number_that_is_not_there_is_an_error() {
    let (toy, profile) = (toy(), profile());
    let at = toy.at(&toy.constants, &profile);
    let error = |r: Result<f64, MeasureError>| r.unwrap_err().to_string();
    insta::assert_snapshot!(
        error(at.number("of", "cycles")),
        @"the file of rows has no run `of`"
    );
    insta::assert_snapshot!(
        error(at.number("off", "cycle")),
        @"no metric is called `cycle`; the nearest is `cycles`; `doorbell list --metrics mlx5` has \
          all"
    );
    insta::assert_snapshot!(
        error((toy.measure)(&toy.constants, "mlx5.what")),
        @"the system has a row `what` but does not measure it"
    );
}
