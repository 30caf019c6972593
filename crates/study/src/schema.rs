//! JSON Schemas of scenario, profile and measurement files (draft 7, for editors), generated from
//! the keys.
//!
//! Every file that the command accepts fits the schema, and most that it rejects do not. A schema
//! cannot check the range of a number in a string such as `"64 B"`, or a profile's system.

use crate::fit::readers::Format;
use doorbell_spec::key::{Key, Kind, units};
use doorbell_systems::Registry;
use doorbell_systems::system::System;
use serde_json::{Map, Value, json};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the schema of scenario files.
pub fn of_scenarios(registry: &Registry) -> Value {
    let about = "What is run, on which platform: doorbell run FILE";
    let profiles: Vec<&str> = registry.profile_names().collect();
    let profile = json!({
        "type": "string", "minLength": 1, "examples": profiles,
        "description": "Name of a profile, or path of a .toml file beside this one",
    });
    let heads = ["name", "about", "system", "profile"];
    document(registry, ("Doorbell scenario", about), &heads, &profile, |system| {
        tables(&system.keys(), &|key| setting(key, false), &[])
    })
}

/// Returns the schema of profile files.
pub fn of_profiles(registry: &Registry) -> Value {
    let heads = ["name", "about", "system"];
    document(registry, ("Doorbell profile", "A platform"), &heads, &Value::Null, |system| {
        let keys = system.platform();
        let must: Vec<&str> = keys.iter().filter(|k| k.default.is_none()).map(|k| k.name).collect();
        tables(&keys, &|key| entry(key), &must)
    })
}

/// Returns the schema of measurement files.
pub fn of_measurements(registry: &Registry) -> Value {
    let text = |about: &str| json!({ "type": "string", "pattern": "\\S", "description": about });
    let solvable = |key: &&'static Key| matches!(key.kind, Kind::Number { step: 0.0, .. });
    let mut keys: Vec<&str> = registry
        .systems
        .iter()
        .flat_map(|s| s.platform())
        .filter(solvable)
        .map(|k| k.name)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let constant = json!({
        "key": { "enum": keys },
        "range": {
            "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2,
            "description": "Where the search goes; that of the profile or the key without it",
        },
        "unit": text("The unit of the range"),
    });
    let spread = json!({
        "description": "One standard deviation, in the unit of the value or such as \"1 %\"",
        "anyOf": [
            { "type": "number", "exclusiveMinimum": 0 },
            { "type": "string", "pattern": "^\\s*[0-9.]+([eE][+-]?[0-9]+)?\\s*%\\s*$" },
        ],
    });
    let settings = json!({
        "type": "array", "items": { "type": "string", "pattern": "=" },
        "description": "Settings as with --set",
    });
    let scenario = text("Name of a scenario, or path of a .toml file beside this one");
    let names = json!({ "type": "array", "items": { "type": "string" } });
    let run = json!({ "scenario": scenario, "set": settings, "constants": names });
    let shared = json!({
        "run": text("The name of a run of this file"),
        "scenario": scenario,
        "set": settings,
        "spread": spread,
        "role": {
            "enum": [
                "fit", "predicted", "exact", "at_or_below", "at_or_above", "definition", "shown",
                "check",
            ],
            "description": "Only rows of role fit move constants; `check` was predicted's name",
        },
    });
    let amount = json!({ "type": "number", "minimum": 0 });
    let row = json!({
        "figure": text("Its name, for rows that are derived from it"),
        "metric": text("A number of a result, or a sum with +: doorbell list --metrics"),
        "per": text("One to divide it by"),
        "factor": { "type": "number", "not": { "const": 0 } },
        "derived": entries(
            json!({
                "rule": { "enum": ["difference", "ratio", "sum"] },
                "from": {
                    "type": "array", "items": text("A figure"), "minItems": 2, "maxItems": 2,
                },
            }),
            &["rule", "from"],
        ),
        "value": { "type": "number" },
        "unit": text("The unit of value and spread; a pure number has none"),
        "tolerance": {
            "type": "object", "properties": { "rel": amount, "abs": amount },
            "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
        },
        "source": text("Tool and date, so that it can be found"),
        "passage": text("The passage in it"),
        "note": text("For readers"),
    });
    let formats: Vec<&str> = Format::ALL.iter().map(|(_, name, _)| *name).collect();
    let counters = json!({
        "format": { "enum": formats },
        "file": text("The tool's output, beside this file"),
        "before": text("A snapshot before the traffic"),
        "after": text("A snapshot after it"),
        "packets": {
            "type": ["number", "string"], "description": "Packets, or the counter of them",
        },
        "seconds": { "type": "number", "exclusiveMinimum": 0 },
        "metrics": {
            "type": "object", "minProperties": 1,
            "description": "The metric of each counter",
            "additionalProperties": { "anyOf": [
                { "type": "string" },
                entries(
                    json!({ "metric": { "type": "string" }, "factor": { "type": "number" } }),
                    &["metric", "factor"],
                ),
            ] },
        },
    });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let with = |mut own: Value| {
        own.as_object_mut()
            .into_iter()
            .for_each(|o| o.extend(shared.as_object().cloned().unwrap_or_default()));
        own
    };
    let heads = json!({
        "name": text("What tables and profiles call it"),
        "about": text("One line"),
        "profile": text("The profile to start from: a name, or a .toml file beside this one"),
        "set": settings,
        "constant": list(entries(constant, &["key"])),
        "run": { "type": "object", "additionalProperties": entries(run, &["scenario"]) },
        "row": list(any_of(entries(with(row), &["value", "source"]), &[
            &["metric", "run"], &["metric", "scenario"], &["derived"],
        ])),
        "counters": list(any_of(entries(with(counters), &["format", "metrics"]), &[
            &["run"], &["scenario"],
        ])),
    });
    let mut whole = entries(heads, &["name", "about", "profile", "constant"]);
    whole["$schema"] = json!(DRAFT);
    whole["title"] = json!("Doorbell measurements");
    whole["description"] = json!("Numbers measured on a machine: doorbell fit FILE");
    any_of(whole, &[&["row"], &["counters"]])
}

/// Returns the schema of a table that has one of these sets of entries.
fn any_of(mut table: Value, sets: &[&[&str]]) -> Value {
    table["anyOf"] = sets.iter().map(|set| json!({ "required": set })).collect();
    table
}

/// Returns the schema of a table with these entries.
fn entries(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// Returns the schema of settings of `system` as with `--set`, where a number without unit is in
/// its key's: a table of `"traffic.burst" = 8`, or of tables with `burst = 8` in `[traffic]`.
pub fn of_settings(system: &System) -> Value {
    let keys = system.keys();
    let (mut properties, _) = tables(&keys, &|key| setting(key, true), &[]);
    properties.extend(keys.iter().map(|key| (key.name.to_owned(), setting(key, true))));
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Returns the schema of a file with these heads and the tables of the system that it names.
fn document(
    registry: &Registry,
    (title, about): (&str, &str),
    heads: &[&str],
    profile: &Value,
    tables: impl Fn(&System) -> (Map<String, Value>, Vec<String>),
) -> Value {
    let names: Vec<&str> = registry.systems.iter().map(|r| r.name).collect();
    let each = registry.systems.iter().map(|system| {
        let (mut properties, mut required) = tables(system);
        for head in heads {
            properties.insert((*head).to_owned(), Value::Bool(true));
        }
        required.extend(heads.iter().map(|h| (*h).to_owned()));
        json!({
            "if": { "properties": { "system": { "const": system.name } }, "required": ["system"] },
            "then": {
               "properties": properties, "required": required, "additionalProperties": false,
            },
        })
    });
    let each: Vec<Value> = each.collect();
    let mut properties = json!({
        "name": {
           "type": "string", "minLength": 1, "description": "What tables and results call it",
        },
        "about": { "type": "string", "minLength": 1, "description": "One line" },
        "system": { "enum": names, "description": "Whose driver and device" },
    });
    if !profile.is_null() {
        properties["profile"] = profile.clone();
    }
    json!({
        "$schema": DRAFT, "title": title, "description": about, "type": "object",
        "properties": properties, "required": heads, "allOf": each,
    })
}

/// Returns the keys by table, and the tables with keys in `must`.
fn tables(
    keys: &[&'static Key],
    of: &dyn Fn(&Key) -> Value,
    must: &[&str],
) -> (Map<String, Value>, Vec<String>) {
    let mut all = Map::new();
    for key in keys {
        let Some((table, name)) = key.name.split_once('.') else {
            unreachable!("a key is in a table")
        };
        let empty = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
        let at = all.entry(table).or_insert_with(empty);
        at["properties"][name] = of(key);
        if must.contains(&key.name) {
            let required =
                at.as_object_mut().map(|o| o.entry("required").or_insert_with(|| json!([])));
            required.and_then(Value::as_array_mut).into_iter().for_each(|r| r.push(json!(name)));
        }
    }
    let required = all.iter().filter(|(_, t)| t.get("required").is_some());
    let required = required.map(|(name, _)| name.clone()).collect();
    (all, required)
}

/// Returns the schema of `"64 B"`, `24`, `"full"` or `true`, and with `alone` of any number without
/// unit.
fn setting(key: &Key, alone: bool) -> Value {
    let mut any = Vec::new();
    if !key.words.is_empty() {
        any.push(json!({ "enum": key.words }));
    }
    // A file may have `true` for `on` and `false` for `off`.
    match ["on", "off"].map(|word| key.words.contains(&word)) {
        [true, true] => any.push(json!({ "type": "boolean" })),
        [true, false] => any.push(json!({ "const": true })),
        [false, true] => any.push(json!({ "const": false })),
        [false, false] => {}
    }
    match key.kind {
        Kind::Number { .. } | Kind::Among { .. } => {
            any.push(json!({ "type": "string", "pattern": quantity(key.unit()) }));
            if alone || key.unit().is_empty() || key.is_count() {
                any.push(plain_number(key));
            }
        }
        Kind::Choice => {}
        // Without quotes, `7` is a file's name too.
        Kind::File if alone => any.push(json!({ "type": ["string", "number", "boolean"] })),
        Kind::File | Kind::Faults(_) | Kind::Mix => any.push(json!({ "type": "string" })),
    }
    described(key, json!({ "anyOf": any }))
}

/// Returns the schema of `{ value = 250, unit = "ns", source = "…" }`.
fn entry(key: &Key) -> Value {
    let unit = key.unit();
    let mut value = vec![json!({ "enum": key.words })];
    if key.kind != Kind::Choice {
        value.push(json!({ "type": "string", "pattern": quantity(unit) }));
        value.push(if unit.is_empty() { plain_number(key) } else { json!({ "type": "number" }) });
    }
    if key.words.is_empty() {
        value.remove(0);
    }
    let mut properties = json!({
        "value": { "anyOf": value },
        "source": {
            "type": "string", "minLength": 1,
            "description":
               "A URL or data sheet with its figure; `assumed: why`; or `fit:ROW`, solved for",
        },
        "range": {
            "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2,
            "description": "Of a fitted constant: where the search goes",
        },
    });
    // A number of a key with a unit needs one.
    let mut whole =
        json!({ "type": "object", "required": ["value", "source"], "additionalProperties": false });
    if !unit.is_empty() {
        properties["unit"] = json!({ "enum": units(unit) });
        whole["if"] = json!({ "properties": { "value": { "type": "number" } } });
        whole["then"] = json!({ "required": ["unit"] });
    }
    whole["properties"] = properties;
    described(key, whole)
}

fn described(key: &Key, mut schema: Value) -> Value {
    schema["description"] = json!(format!("{}. Allowed: {}", key.about, key.allowed()));
    if let Some(default) = key.default.filter(|d| !d.is_empty()) {
        schema["default"] = json!(default);
    }
    schema
}

/// Returns the schema of a number without unit, in the key's unit and range.
fn plain_number(key: &Key) -> Value {
    match key.kind {
        Kind::Among { values, .. } => {
            json!({ "enum": values.iter().map(|v| whole(*v)).collect::<Vec<_>>() })
        }
        Kind::Number { min, max, step, .. } if step > 0.0 => {
            json!({
               "type": "number", "minimum": whole(min), "maximum": whole(max),
               "multipleOf": whole(step),
            })
        }
        Kind::Number { min, max, .. } => {
            json!({ "type": "number", "minimum": whole(min), "maximum": whole(max) })
        }
        Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix => Value::Bool(false),
    }
}

/// Returns 64 rather than 64.0.
fn whole(n: f64) -> Value {
    if n.fract() == 0.0 && n.abs() < 9e15 { json!(n as i64) } else { json!(n) }
}

/// Returns the pattern of a number in a string, with or without one of its units.
fn quantity(unit: &'static str) -> String {
    let mut names: Vec<String> =
        units(unit).iter().map(|u| u.replace('/', "\\/").replace('.', "\\.")).collect();
    if names.iter().any(|n| n == "us") {
        names.push("µs".to_owned());
    }
    format!(
        "^\\s*(0x[0-9a-fA-F]+|[+-]?[0-9._]+([eE][+-]?[0-9]+)?\\s*{})\\s*$",
        if names.is_empty() { String::new() } else { format!("({})?", names.join("|")) }
    )
}

#[cfg(test)]
mod tests;
