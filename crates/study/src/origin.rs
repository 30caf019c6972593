//! The origin of results.

use doorbell_spec::key::Value;
use doorbell_systems::Plan;
use doorbell_systems::result::Provenance;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

/// Returns the origin of the results of a plan, whose capture has this hash.
pub fn of(plan: &Plan, capture_sha256: Option<&str>) -> Provenance {
    Provenance {
        scenario: plan.scenario.clone(),
        about: plan.about.clone(),
        system: plan.system.name.to_owned(),
        profile: plan.profile.clone(),
        profile_sha256: profile_sha256(plan),
        set: plan.set.clone(),
        settings: settings(plan),
        capture_sha256: capture_sha256.map(str::to_owned),
        seed: plan.seed(),
    }
}

/// Returns the value of every key of a plan, as an origin has it.
pub(crate) fn settings(plan: &Plan) -> Map<String, Json> {
    let settings = plan.values.iter().map(|(key, value)| {
        let given = !matches!(value, Value::Text(t) if t.is_empty());
        (key.name.to_owned(), given.then(|| key.said(value)).into())
    });
    settings.collect()
}

/// Returns the SHA-256 of the plan's profile: a line `key=value` for each of its keys.
pub fn profile_sha256(plan: &Plan) -> String {
    let mut hash = Sha256::new();
    for key in plan.system.platform() {
        hash.update(format!("{}={}\n", key.name, plan.platform.get(key.name)));
    }
    format!("{:x}", hash.finalize())
}

/// Returns an origin without the keys that differ from run to run.
pub(crate) fn without(mut of: Provenance, differs: impl Fn(&str) -> bool) -> Provenance {
    of.settings.retain(|key, _| !differs(key));
    of.set.retain(|set| !differs(set.split('=').next().unwrap_or(set).trim()));
    of
}
