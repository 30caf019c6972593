use super::*;
use crate::figures::{Derived, FigureSet, Rule, Tolerance};
use crate::fit::profile;
use crate::solve::Model;
use doorbell_sim::traffic::arrivals::Rng;
use doorbell_systems::DOORBELL;

/// Three constants that were changed, with their values on the machine that was measured.
const TRUTH: [(&str, f64); 3] =
    [("cpu.stack", 61.0), ("cpu.tx_notify", 140.0), ("cpu.tx_descriptor", 66.0)];

/// A row of a short run: settings, metric, role.
type Line = (&'static str, &'static str, &'static str);

const LINES: [Line; 10] = [
    ("traffic.burst=1", "cycles", "fit"),
    ("traffic.burst=1", "packets_per_s", "fit"),
    ("traffic.burst=4", "cycles", "fit"),
    ("traffic.burst=4", "packets_per_s", "fit"),
    ("traffic.burst=1\", \"driver.mpwqe=off", "cycles", "fit"),
    ("traffic.burst=4\", \"driver.mpwqe=off", "packets_per_s", "fit"),
    ("traffic.burst=32\", \"driver.mpwqe=off", "cycles", "fit"),
    ("traffic.burst=32", "packets_per_s", "fit"),
    ("traffic.burst=8\", \"driver.mpwqe=off", "pcie_down_tlp_bytes", "check"),
    ("traffic.burst=8\", \"driver.mpwqe=off", "packets_per_s", "check"),
];

fn measurements(constants: &[&str], lines: &[Line]) -> Measurements {
    let mut text = "name = \"rack\"\nabout = \"made up\"\nprofile = \"mlx5-gen3\"\n".to_owned();
    for key in constants {
        text += &format!("[[constant]]\nkey = \"{key}\"\n");
    }
    for (set, metric, role) in lines {
        let unit = match *metric {
            "cycles" => "unit = \"cycles\"\n",
            "packets_per_s" => "unit = \"1/s\"\n",
            _ => "unit = \"B\"\n",
        };
        text += &format!(
            "[[row]]\nscenario = \"mlx5-single-stream\"\nset = [\"traffic.packets=256\", \
             \"driver.queue=64\", \"{set}\"]\nmetric = \"{metric}\"\nvalue = 1\n{unit}\
             spread = \"1 %\"\nrole = \"{role}\"\nsource = \"made up\"\n"
        );
    }
    Measurements::parse(&DOORBELL, "m.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Sets the rows to what the machine gives, each off by so many percent of itself.
fn measured(of: &mut Measurements, truth: &[f64], mut off: impl FnMut() -> f64) {
    let exact = on(&of.sheet(), 2, |bench| rows(of, bench).values(&[truth.to_vec()]).unwrap());
    for (row, exact) in of.rows.iter_mut().zip(&exact[0]) {
        row.value = exact * (1.0 + off() / 100.0);
        row.spread = row.spread.map(|_| 0.01 * row.value);
    }
}

/// A deviate of the normal distribution: the sum of twelve uniform ones.
fn normal(draw: &mut Rng) -> f64 {
    (0..12).map(|_| draw.unit()).sum::<f64>() - 6.0
}

fn names() -> [&'static str; 3] {
    TRUTH.map(|(key, _)| key)
}

fn truth() -> [f64; 3] {
    TRUTH.map(|(_, value)| value)
}

fn solved(of: &Measurements) -> Calibration {
    fit(of, &|_| true, false).unwrap_or_else(|e| panic!("{e}"))
}

/// Puts the rows of measurements on a bench with so many cores.
fn on<T>(sheet: &FigureSet, cores: usize, use_it: impl FnOnce(&Bench<'_>) -> T) -> T {
    use_it(&Bench::new(sheet, (&Cores::new(cores), [0; 3]), &|_| true))
}

#[test]
fn constants_lie_in_their_intervals() {
    let base = measurements(&names(), &LINES);
    let mut exact = base.clone();
    measured(&mut exact, &truth(), || 0.0);
    // All seeds share their runs.
    let (sheet, cores) = (base.sheet(), Cores::new(cores()));
    let bench = Bench::new(&sheet, (&cores, [0; 3]), &|_| true);
    let (mut all_inside, mut inside, mut widest) = (0, [0; 3], 0.0f64);
    for seed in 0..100 {
        let mut draw = Rng::new(seed);
        let mut noisy = exact.clone();
        for row in &mut noisy.rows {
            row.value *= 1.0 + 0.01 * normal(&mut draw);
            row.spread = Some(0.01 * row.value);
        }
        let found = fit_on(&noisy, &bench, false).unwrap_or_else(|e| panic!("{seed}: {e}"));
        let is_inside = |(c, truth): (&Solved, f64)| match c.state {
            State::Determined(Some((low, high))) => {
                widest = widest.max((high - low) / 2.0 / truth);
                (low..=high).contains(&truth)
            }
            _ => panic!("{seed}: {c:?}"),
        };
        let within: Vec<bool> = found.constants.iter().zip(truth()).map(is_inside).collect();
        inside.iter_mut().zip(&within).for_each(|(n, is)| *n += u32::from(*is));
        all_inside += u32::from(within.iter().all(|is| *is));
    }
    assert!(all_inside >= 95, "{all_inside} of 100, by constant {inside:?}");
    // Intervals that are too wide would be no result.
    assert!(widest < 0.16, "{widest}");
}

#[test]
fn held_out_rows_are_predicted() {
    let mut of = measurements(&names(), &LINES);
    let mut draw = Rng::new(7);
    measured(&mut of, &truth(), || normal(&mut draw));
    let mut exact = of.clone();
    measured(&mut exact, &truth(), || 0.0);
    let found = solved(&of);
    for (i, allowed) in [(8, 0.02), (9, 0.05)] {
        let off = found.rows[i].computed / exact.rows[i].value - 1.0;
        assert!(off.abs() < allowed && found.rows[i].holds == Some(true), "{:?}", found.rows[i]);
    }
    assert_eq!(found.freedom, 5);
}

#[test]
fn without_spreads_intervals_are_those_of_the_residuals() {
    let mut of = measurements(&names(), &LINES);
    of.rows.iter_mut().for_each(|r| r.spread = None);
    let mut draw = Rng::new(3);
    measured(&mut of, &truth(), || normal(&mut draw));
    let found = solved(&of);
    for (constant, truth) in found.constants.iter().zip(truth()) {
        let State::Determined(Some((low, high))) = constant.state else { panic!("{constant:?}") };
        assert!((low..=high).contains(&truth), "{constant:?} {truth}");
    }
    // Noise half as great makes intervals half as wide.
    let mut draw = Rng::new(3);
    measured(&mut of, &truth(), || normal(&mut draw) / 2.0);
    let width = |f: &Calibration| match f.constants[0].state {
        State::Determined(Some((low, high))) => high - low,
        _ => panic!("{:?}", f.constants),
    };
    let ratio = width(&solved(&of)) / width(&found);
    assert!((0.45..0.55).contains(&ratio), "{ratio}");
    // Three rows for three constants leave none for an error.
    let three = [LINES[0], LINES[4], LINES[6]];
    let mut of = measurements(&names(), &three);
    of.rows.iter_mut().for_each(|r| r.spread = None);
    measured(&mut of, &truth(), || 0.0);
    let found = solved(&of);
    assert!(found.constants.iter().all(|c| c.state == State::Determined(None)), "{found:?}");
    assert!((found.constants[0].value - 61.0).abs() < 0.01, "{found:?}");
}

#[test]
fn what_a_few_rows_cannot_tell_apart_is_named() {
    // With sessions and one burst, a packet's prices are one sum.
    let lines = [LINES[7], LINES[9]];
    let mut of = measurements(&["cpu.stack", "cpu.tx_shared", "cpu.copy"], &lines);
    measured(&mut of, &[61.0, 39.7, 0.1], || 0.0);
    let found = solved(&of);
    let states: Vec<&State> = found.constants.iter().map(|c| &c.state).collect();
    let [a, b] = [vec![1], vec![0]].map(State::Undetermined);
    assert_eq!(states, [&a, &b, &State::Unused]);
    // The sum itself is met.
    let sum = found.constants[0].value + found.constants[1].value;
    assert!((sum - 100.7).abs() < 0.5, "{sum}");
    // The check row has no sessions, so it needs one of them alone.
    assert_eq!((found.rows[1].holds, &found.rows[1].rests_on), (None, &vec![0, 1]));
    // A row without sessions tells them apart.
    let mut of = measurements(&["cpu.stack", "cpu.tx_shared"], &[LINES[7], LINES[6], LINES[9]]);
    measured(&mut of, &[61.0, 39.7], || 0.0);
    let found = solved(&of);
    assert!(
        found.constants.iter().all(|c| matches!(c.state, State::Determined(Some(_)))),
        "{found:?}"
    );
    assert_eq!(found.rows[2].holds, Some(true));
}

#[test]
fn a_constant_beyond_its_range_is_at_its_bound() {
    let mut of = measurements(&["cpu.stack"], &[LINES[0], LINES[7]]);
    measured(&mut of, &[61.0], || 0.0);
    of.unknowns[0].range = (64.0, 200.0);
    let found = solved(&of);
    assert_eq!((found.constants[0].value, &found.constants[0].state), (64.0, &State::AtBound));
}

#[test]
fn rows_that_no_constant_meets_are_a_contradiction() {
    let mut of = measurements(&["cpu.stack"], &[LINES[0], LINES[1]]);
    measured(&mut of, &[61.0], || 0.0);
    of.rows[1].value *= 1.5;
    let Err(FitError::Contradiction(c)) = fit(&of, &|_| true, false) else { panic!("it is none") };
    assert!(c.spreads > BEYOND && c.to_string().contains("contradict"), "{c}");
}

#[test]
fn a_start_that_another_part_limits_finds_the_constant() {
    // At 36 packets/us the link limits the run, so that cpu.stack has no effect at first.
    let line: Line = ("traffic.burst=32\", \"pcie.lanes=1", "packets_per_s", "fit");
    let mut of = measurements(&["cpu.stack"], &[line]);
    measured(&mut of, &[4000.0], || 0.0);
    let found = solved(&of);
    assert!((found.constants[0].value / 4000.0 - 1.0).abs() < 0.01, "{found:?}");
}

#[test]
fn the_written_profile_gives_the_rows() {
    let mut of = measurements(&["cpu.stack", "cpu.copy", "cpu.tx_notify"], &LINES);
    measured(&mut of, &[61.0, 0.1, 140.0], || 0.0);
    let found = solved(&of);
    let text = profile(&of, &found, "mine");
    let mine = DOORBELL.parse_profile("mine.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!((mine.name.as_str(), mine.system), ("mine", of.system()));
    let source = mine.source("cpu.stack").unwrap().to_string();
    assert!(source.starts_with("measured: rack, rows 1 to 5, 7, 8; "), "{source}");
    assert!((mine.values.number("cpu.stack") - 61.0).abs() < 0.1);
    // All else is as it was.
    for (key, value) in of.profile.values.iter() {
        if !["cpu.stack", "cpu.tx_notify"].contains(&key.name) {
            assert_eq!(mine.values.get(key.name), value, "{}", key.name);
            assert_eq!(mine.source(key.name), of.profile.source(key.name), "{}", key.name);
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut of = measurements(&names(), &LINES);
    let mut draw = Rng::new(5);
    measured(&mut of, &truth(), || normal(&mut draw));
    let with = |cores| on(&of.sheet(), cores, |bench| fit_on(&of, bench, true).unwrap());
    assert_eq!(with(1), with(3));
}

#[test]
fn a_constant_gives_way_to_another_that_every_packet_pays() {
    let mut of = measurements(&["cpu.stack"], &LINES[..4]);
    measured(&mut of, &[61.0], || 0.0);
    let found = fit(&of, &|_| true, true).unwrap();
    let moved = found.sensitivity.unwrap();
    let of_key = |key: &str| moved.iter().find(|m| m.key == key).unwrap().follows.clone();
    // One sum: as many cycles as the other has more, this one has less, and no row moves.
    let (constants, rows) = of_key("cpu.tx_shared").unwrap();
    let shared = of.constants.get("cpu.tx_shared").unwrap();
    let by = constants[0] * found.constants[0].value;
    assert!((by + 0.01 * shared).abs() < 0.02 * 0.01 * shared, "{by} for {shared}");
    assert!(rows.iter().all(|r| r.abs() < 1e-3), "{rows:?}");
    assert_eq!(of_key("nic.port_rate"), None, "a core limits all rows");
}

#[test]
fn claims_are_judged_and_move_nothing() {
    let mut of = measurements(&names(), &LINES);
    measured(&mut of, &truth(), || 0.0);
    let alone = solved(&of);
    let row = |figure: &str, at: usize, value, role| {
        let number = of.rows[at].number.clone();
        Row { number, ..Row::new(figure, value, "", role) }
    };
    let (cycles, rate) = (of.rows[0].value, of.rows[1].value);
    let mut ratio = Row::new("", 2.0 * cycles / rate, "", Role::Shown);
    ratio.derived = Some(Derived { rule: Rule::Ratio, from: ["cycles".into(), "rate".into()] });
    let rows = [
        row("cycles", 0, cycles, Role::Exact).within(Tolerance::Rel(0.01)),
        row("rate", 1, 0.9 * rate, Role::AtOrAbove),
        row("far", 0, 1.1 * cycles, Role::Predicted).within(Tolerance::Rel(0.02)),
        row("same", 0, 1.1 * cycles, Role::Definition).within(Tolerance::Rel(0.02)),
        ratio,
    ];
    let mut with = of.clone();
    with.rows.extend(rows);
    let found = solved(&with);
    assert_eq!((&found.constants, found.freedom), (&alone.constants, alone.freedom));
    let holds: Vec<_> = found.rows[10..].iter().map(|r| r.holds).collect();
    assert_eq!(holds, [Some(true), Some(false), Some(false), Some(false), None]);
    let half = found.rows[14].computed / with.rows[14].value;
    assert!((half - 0.5).abs() < 0.01, "{half}");
}
