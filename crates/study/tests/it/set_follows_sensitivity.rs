//! `--set` has the effect that `--sensitivity` reports: each constant moves the same rows by the
//! same amount, and no others.
//!
//! Tested on a part of the published rows to take seconds: one run of each kind (fixed rate, full
//! rate, one core), and rows that are no run.

use doorbell_study::figures::{Constants, FigureSet, Options, Report, Setting, open_all};
use doorbell_systems::DOORBELL;
use std::sync::LazyLock;

const ROWS: [&str; 6] = [
    "mlx5.pcie_inbound_gen2_on",
    "mlx5.rate_gen3_off",
    "mlx5.rate_gen3_on",
    "mlx5.rates_gen3",
    "mlx5.single_stream_on",
    "mlx5.instructions_on",
];

/// The published figures of mlx5, whose runs all reproductions share.
static WHOLE: LazyLock<FigureSet> =
    LazyLock::new(|| open_all(&DOORBELL).expect("the profiles parse").remove(0));

/// The difference between two relative changes of a row: the steps of the simulations that two fits
/// of one precision may lie on.
const CLOSE: f64 = 1e-4;

/// Leaves a system with some of its rows and constants.
fn part(mut whole: FigureSet, constants: Option<&[&str]>) -> FigureSet {
    let taken = |key: &str| constants.is_none_or(|keys| keys.contains(&key));
    let numbers = whole.constants.iter().filter(|c| taken(&c.key)).cloned();
    whole.constants = Constants::new(numbers.collect());
    whole.rows.retain(|r| ROWS.contains(&r.figure.as_str()));
    // Constants that a row rests on may be missing here.
    whole.rows.iter_mut().for_each(|r| r.inputs = None);
    whole.known_misses.retain(|miss| ROWS.contains(&miss.figure.as_str()));
    // One side searches from the profile's values, the other from those found. What they find
    // agrees this well, and what follows from it to [`CLOSE`].
    whole.precision = 1e-5;
    whole
}

fn reproduce(
    constants: Option<&'static [&'static str]>,
    sensitivity: bool,
    set: Vec<Setting>,
) -> Report {
    let options = Options { swap: false, sensitivity, set };
    doorbell_study::figures::reproduce(
        &[part(WHOLE.clone(), constants)],
        &options,
        &mut |_| true,
        &mut |_| (),
    )
    .expect("the sheet is sound")
}

/// Moves each constant both ways. `set` holds in both. Returns how many cells moved.
fn compare(constants: Option<&'static [&'static str]>, set: &[Setting]) -> usize {
    let report = reproduce(constants, true, set.to_vec());
    let base = &report.systems[0];
    let found = base.sensitivity.as_ref().expect("asked for");
    let mut moved = 0;
    for c in found.constants.iter().filter(|c| !set.iter().any(|s| s.key == c.key)) {
        let value = c.nudge.apply(base.constants.get(&c.key).expect("a constant"));
        let mut set = set.to_vec();
        set.push(Setting { key: c.key.clone(), value: value.into() });
        let by_hand = reproduce(constants, false, set);
        for (at, figure) in found.figures.iter().enumerate() {
            let what = format!("{figure} when {} is set to {value}", c.key);
            let Some(said) = c.refitted[at] else {
                assert!(
                    !by_hand.systems[0].fits.iter().all(|f| f.failed.is_none()),
                    "{what}: no fit was lost"
                );
                continue;
            };
            let of =
                |report: &Report| report.systems[0].rows[at].measured.clone().expect("measured");
            let seen = (of(&by_hand) - of(&report)) / of(&report);
            assert!((seen - said).abs() < CLOSE, "{what}: by {seen}, said was {said}");
            if c.rests(at) == Some(false) {
                moved += 1;
            } else {
                assert!(
                    seen.abs() <= c.noise[at] + CLOSE,
                    "{what}: by {seen}, said was that it rests"
                );
            }
        }
    }
    moved
}

#[test]
fn every_constant_set_by_hand_moves_what_sensitivity_says() {
    // The fitted constant is held, so that nothing takes up part of a change.
    let held = Setting { key: "pcie.memory_latency".into(), value: 137.0.into() };
    let moved = compare(None, &[held]);
    assert!(moved > 40, "only {moved} cells move");
}

#[test]
fn fits_follow_a_constant_set_by_hand_as_sensitivity_says() {
    let moved = compare(
        Some(&["pcie.memory_latency", "pcie.mps", "pcie.lanes", "cpu.stack", "native.mpwqe"]),
        &[],
    );
    assert!(moved > 3, "only {moved} cells move");
}

#[test]
fn longer_completions_bring_fewer_bytes() {
    let inbound = |set: &[(&str, f64)]| {
        let set = set.iter().map(|&(key, v)| Setting { key: key.into(), value: v.into() });
        let rows = &reproduce(None, false, set.collect()).systems[0].rows;
        let row = rows.iter().find(|r| r.row.figure == "mlx5.pcie_inbound_gen2_on").expect("a row");
        row.measured.clone().expect("measured")
    };
    let held = ("pcie.memory_latency", 137.0);
    assert!(inbound(&[held, ("pcie.mps", 512.0)]) < inbound(&[held]));
}
