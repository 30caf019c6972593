//! The JSON Schema of budgets, made from the tables of the parser, the keys of each system and the
//! names of the ledger. Everything that `check` accepts fits, and most of what it refuses does not.
//! The counters of a driver or a device are known to results only, so that any name fits there.

use doorbell_bus::Ledger;
use doorbell_serve::{Devices, buses};
use doorbell_study::budget::{FORMS, GROUPS, HEADS};
use doorbell_study::schema as schemas;
use doorbell_systems::Registry;

use serde_json::{Map, Value, json};

/// Numbers of a result that are in no group, of a run or of a served device.
const WHOLE: [&str; 5] = ["packets", "seconds", "seed", "frames", "clients"];

/// Returns the schema of budget files.
pub(crate) fn schema(registry: &Registry, devices: Devices) -> Value {
    let of_system = |name: &str| json!({ "$ref": format!("#/definitions/{name}") });
    let mut definitions: Map<String, Value> =
        registry.systems.iter().map(|s| (s.name.to_owned(), schemas::of_settings(s))).collect();
    definitions.insert("bound".to_owned(), bound());
    let systems: Vec<Value> =
        registry.systems.iter().map(|system| of_system(system.name)).collect();
    // The system is known for built-in scenarios only.
    let known = registry.systems.iter().map(|system| {
        let of = |name: &&str| registry.scenario(name).is_ok_and(|s| s.system == *system);
        let names: Vec<&str> = registry.scenario_names().filter(of).collect();
        json!({
            "if": { "properties": { "scenario": { "enum": names } }, "required": ["scenario"] },
            "then": { "properties": { "set": of_system(system.name) } },
        })
    });
    let known: Vec<Value> = known.collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Doorbell budget", "type": "object",
        "description": "The allowed cost of a packet: doorbell check FILE",
        "properties": heads(registry, devices, &systems), "additionalProperties": false,
        "anyOf": [{ "required": ["budget"] }, { "required": ["workload"] }],
        "oneOf": [
            {
                "required": ["scenario"],
                "properties": { "device": false, "bus": false, "workload": false }
            },
            {
                "required": ["device"],
                "properties": { "scenario": false, "profile": false, "seed": false, "set": false }
            },
        ],
        "allOf": known, "definitions": definitions,
    })
}

fn heads(registry: &Registry, devices: Devices, systems: &[Value]) -> Map<String, Value> {
    let file_or = |names: Vec<&str>| {
        let any = json!([{ "enum": names }, { "pattern": "\\.toml$" }]);
        json!({ "type": "string", "anyOf": any })
    };
    let of = |name: &str| match name {
        "scenario" => file_or(registry.scenario_names().collect()),
        "profile" => file_or(registry.profile_names().collect()),
        "device" => json!({ "enum": devices.names().collect::<Vec<_>>() }),
        "bus" => json!({ "enum": buses().collect::<Vec<_>>() }),
        "seed" => json!({ "type": "integer", "minimum": 0 }),
        "set" => json!({ "type": "object", "anyOf": systems }),
        "budget" => held(registry),
        "workload" => {
            json!({ "type": "object", "minProperties": 1, "additionalProperties": held(registry) })
        }
        _ => json!({ "type": "string", "pattern": "\\S" }),
    };
    let described = |(name, about): (&str, &str)| {
        let mut head = of(name);
        head["description"] = json!(about);
        (name.to_owned(), head)
    };
    HEADS.into_iter().map(described).collect()
}

/// Returns the schema of a bound: a number, which is a ceiling, or a table of forms.
fn bound() -> Value {
    let part = |name: &str| {
        let form = FORMS.iter().find(|f| f.0 == name);
        form.map(|(_, about)| json!({ "type": "number", "description": about }))
    };
    let (exact, between): (Vec<_>, Vec<_>) =
        FORMS.iter().map(|f| f.0).partition(|name| *name == "exact");
    let table = |names: &[&str]| {
        let properties: Map<String, Value> =
            names.iter().filter_map(|n| Some(((*n).to_owned(), part(n)?))).collect();
        json!({
            "type": "object", "properties": properties, "additionalProperties": false,
            "minProperties": 1,
        })
    };
    json!({ "anyOf": [{ "type": "number" }, table(&between), table(&exact)] })
}

/// Returns the schema of `[budget]`: the declared names for completion, and any other name, also in
/// sums.
fn held(registry: &Registry) -> Value {
    let bound = || json!({ "$ref": "#/definitions/bound" });
    let described = |about: &str| json!({ "allOf": [bound()], "description": about });
    let counts = || Ledger::COUNTERS.iter().map(|c| (c.name.to_owned(), described(c.about)));
    let metrics = registry.systems.iter().flat_map(|s| s.metrics());
    let mut properties: Map<String, Value> =
        metrics.map(|m| (m.name.to_owned(), described(m.about))).collect();
    properties.extend(WHOLE.iter().map(|n| ((*n).to_owned(), bound())));
    for group in GROUPS {
        let mut names = Map::new();
        if group == "ledger" {
            names.extend(counts());
            properties.extend(counts().map(|(name, bound)| (format!("{group}.{name}"), bound)));
        }
        properties.insert(
            group.to_owned(),
            json!({ "type": "object", "properties": names, "additionalProperties": bound() }),
        );
    }
    let name = format!("^\\s*(?!({})\\s*$)[a-z]", GROUPS.join("|"));
    json!({
        "type": "object", "minProperties": 1, "properties": properties,
        "patternProperties": { name: bound() }, "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests;
