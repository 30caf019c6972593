//! Plans, frames and a check of keys that the tests of the systems share.

use crate::DOORBELL;
use crate::Plan;
use crate::SettingError;
use crate::key::{Key, Kind};
use doorbell_hal::Span;
use doorbell_sim::traffic::Frames;
use std::sync::Arc;

pub(super) fn plan(scenario: &str, sets: &[&str]) -> Plan {
    let mut plan = DOORBELL.plan(scenario).unwrap();
    for s in sets {
        plan.set(s).unwrap_or_else(|e| panic!("{e}"));
    }
    plan
}

/// Makes `n` frames of `bytes` bytes, 20 us apart.
pub(super) fn frames(n: u64, bytes: usize) -> Arc<Frames> {
    let mut frames = Frames::default();
    (0..n).for_each(|i| frames.push(Span::from_us(20 * i), &vec![0x5a; bytes]));
    Arc::new(frames)
}

/// Keys of the reader of a capture.
pub(super) const CAPTURE_FILE: [&str; 4] =
    ["traffic.file", "traffic.pad", "traffic.interface", "traffic.skip"];

/// Checks that every key changes the fingerprint of one of `bases`, except those in `silent` and
/// the error at which a run ends. A key that is declared and not read would have no effect.
pub(super) fn every_key_moves(
    bases: &[Plan],
    silent: &[&str],
    fingerprint: impl Fn(&Plan) -> Result<String, SettingError>,
) {
    let silent = [silent, &["run.until"]].concat();
    for key in bases[0].values.keys() {
        let moves = bases.iter().any(|base| {
            let before = fingerprint(base).unwrap();
            others(key).into_iter().any(|text| {
                let mut plan = base.clone();
                plan.set(&format!("{}={text}", key.name)).is_ok()
                    && fingerprint(&plan).is_ok_and(|now| now != before)
            })
        });
        assert_eq!(moves, !silent.contains(&key.name), "{}", key.name);
    }
}

/// Returns values of a key to try, as text.
pub(crate) fn others(key: &Key) -> Vec<String> {
    let mut all: Vec<String> = key.words.iter().map(|w| (*w).to_owned()).collect();
    match key.kind {
        Kind::Number { min, max, step, .. } => {
            let step = if step > 0.0 { step } else { (max - min) / 1000.0 };
            all.extend(
                [min, min + step, min + 8.0 * step, min + 64.0 * step, max].map(|n| n.to_string()),
            );
        }
        Kind::Among { values, .. } => all.extend(values.iter().map(f64::to_string)),
        Kind::Faults(_) => all.push("dma-fault@1".to_owned()),
        Kind::Mix => all.push("60:1,1514:2.5".to_owned()),
        Kind::Choice | Kind::File => {}
    }
    all
}
