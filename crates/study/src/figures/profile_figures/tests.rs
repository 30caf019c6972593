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
[[row]]
figure = "mlx5.rate"
unit = "Mpps"
published = 1
role = "shown"
document = "d"
passage = "p"
number = { run = "off", metric = "packets_per_s" }
[[row]]
figure = "mlx5.doorbells"
unit = "doorbells/burst"
published = 1
role = "shown"
document = "d"
passage = "p"
number = { run = "off", metric = "mmio_writes", per = "driver_packets", factor = 32 }
[[row]]
figure = "mlx5.nothing"
unit = ""
published = 1
role = "shown"
document = "d"
passage = "p"
number = { run = "off", metric = "driver_mpwqe_blks", per = "driver_mpwqe_pkts" }
"#,
    headline: None,
    left_out: &[],
    constants: &[],
    choices: &[ModelChoice::of_profile("driver.sizing", &["padded", "fit"], &["mlx5.rate"])],
    measure: |_, figure| Err(MeasureError::unknown_figure(figure)),
};

fn toy() -> (Figures, Constants) {
    let registry = &doorbell_systems::DOORBELL;
    (read(registry, &TOY).unwrap(), open(registry, &TOY).unwrap().constants)
}

#[test]
fn a_row_is_a_number_of_its_run_in_its_unit() {
    let (toy, c) = toy();
    let pps = toy.number(&c, "off", "packets_per_s").unwrap();
    assert_eq!(toy.measure(&c, "mlx5.rate"), Ok(pps * 1e-6));
    assert_eq!(toy.measure(&c, "mlx5.nothing"), Ok(0.0), "nothing of nothing");
    assert_eq!(toy.done.len(), 1, "the figures of one run share it");
}

#[test]
fn a_run_is_made_anew_only_for_what_has_an_effect_on_it() {
    let (toy, mut c) = toy();
    let runs = |c: &Constants, run: &str| {
        toy.number(c, run, "cycles").unwrap();
        toy.done.len()
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
fn a_run_or_number_that_is_not_there_is_an_error() {
    let (toy, c) = toy();
    let error = |r: Result<f64, MeasureError>| r.unwrap_err().to_string();
    insta::assert_snapshot!(
        error(toy.number(&c, "of", "cycles")),
        @"the file of rows has no run `of`"
    );
    insta::assert_snapshot!(
        error(toy.number(&c, "off", "cycle")),
        @"no metric is called `cycle`; the nearest is `cycles`; `doorbell list --metrics mlx5` has \
          all"
    );
    insta::assert_snapshot!(
        error(toy.measure(&c, "mlx5.what")),
        @"the system has a row `what` but does not measure it"
    );
}
