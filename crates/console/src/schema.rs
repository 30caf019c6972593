//! The JSON Schema of results, generated from the types that commands print with
//! `render::json`, whose comments are its descriptions.

use crate::render::{Program, SCHEMA};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Keywords whose schemas are of the same value as the one that they stand in.
const OF_SAME: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The data of one kind of result.
#[derive(Clone, Copy, Debug)]
pub struct KindOf {
    kind: &'static str,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl KindOf {
    /// Declares that results of this kind hold a `T`.
    pub const fn new<T: JsonSchema>(kind: &'static str) -> KindOf {
        KindOf { kind, schema: T::json_schema }
    }

    /// Returns the schema of such a result as a whole.
    fn whole(&self, of: &mut SchemaGenerator) -> Value {
        let data = (self.schema)(of).to_value();
        let mut schema = data.as_object().cloned().unwrap_or_default();
        let head = [
            ("schema", json!({ "const": SCHEMA, "description": "Version of this schema" })),
            ("doorbell", of.subschema_for::<Program>().to_value()),
            ("kind", json!({ "const": self.kind, "description": "The command" })),
        ];
        let names = head.iter().map(|(name, _)| Value::from(*name));
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<Value> = names.chain(required.cloned()).collect();
        let members = schema.get("properties").and_then(Value::as_object);
        let members = members.into_iter().flatten().map(|(name, s)| (name.clone(), s.clone()));
        let head = head.iter().map(|(name, s)| ((*name).to_owned(), s.clone()));
        let members: Map<String, Value> = head.chain(members).collect();
        schema.insert("properties".to_owned(), members.into());
        schema.insert("required".to_owned(), required.into());
        schema.into()
    }
}

/// Returns the schema of all results.
pub fn of_results(kinds: &[KindOf]) -> Value {
    let mut of = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let all: Vec<Value> = kinds.iter().map(|kind| kind.whole(&mut of)).collect();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Doorbell result",
        "description": "The output of a command with --format json, and result.json of \
             `run --out`. A number's unit is the end of its name, or is in `doorbell list \
             --metrics`. A new member does not change `schema`; one that goes or changes does.",
        "oneOf": all,
        "$defs": of.take_definitions(true),
    });
    close(&mut schema, false);
    schema
}

/// Refuses members that no schema names, in each object whose members are known. `within` another
/// schema of the same value, that one does.
fn close(schema: &mut Value, within: bool) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|s| close(s, false)),
        Value::Object(of) => {
            let has_members = of.contains_key("properties");
            for (name, inner) in of.iter_mut() {
                match inner {
                    Value::Array(all) if OF_SAME.contains(&&**name) => {
                        all.iter_mut().for_each(|s| close(s, within || has_members));
                    }
                    // Its members are schemas by name.
                    Value::Object(all) if ["properties", "$defs"].contains(&&**name) => {
                        all.values_mut().for_each(|s| close(s, false));
                    }
                    inner => close(inner, false),
                }
            }
            // Rust's type of a number.
            if of.get("format").is_some_and(Value::is_string) {
                of.remove("format");
            }
            // A comment's lines are one.
            if let Some(Value::String(text)) = of.get_mut("description") {
                let paragraphs = text.split("\n\n").map(|p| p.replace('\n', " "));
                *text = paragraphs.collect::<Vec<_>>().join("\n\n");
            }
            if has_members && !within && !of.contains_key("additionalProperties") {
                // The costlier check, where others name members too.
                let others = OF_SAME.iter().chain(&["$ref"]).any(|name| of.contains_key(*name));
                let refuse = if others { "unevaluatedProperties" } else { "additionalProperties" };
                of.insert(refuse.to_owned(), false.into());
            }
        }
        _ => {}
    }
}
