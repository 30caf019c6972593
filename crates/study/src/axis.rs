//! Axes of a study: a key each, and the values to try.

pub mod range;

use doorbell_spec::InputError;
use doorbell_systems::Setting;
use serde_json::Value;

/// The most values of a key.
pub(crate) const MOST: usize = 100_000;

/// A key and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The option that names it, for messages.
    pub option: &'static str,
    /// The key.
    pub key: String,
    /// The values as they were given.
    pub values: Vec<String>,
}

/// Returns a value of JSON as the text of a setting; `None` for one that is none.
pub(crate) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Bool(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        Value::Number(n) => Some(n.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

impl Axis {
    /// Parses `key=value,value,…`, where a value may be a [range], or `key=[…]`, an array of JSON
    /// whose values are taken as they are. Refuses too many values.
    pub fn parse(option: &'static str, text: &str) -> Result<Axis, InputError> {
        let wrong = |what: &str| InputError::new(format!("{option} {text}"), what);
        let form = || wrong("expected key=value,value,… such as pcie.mps=128,256");
        let (key, given) = text.split_once('=').ok_or_else(form)?;
        let mut values = Vec::new();
        if given.trim_start().starts_with('[') {
            let array: Vec<Value> = serde_json::from_str(given)
                .map_err(|e| wrong(&format!("no array of JSON: {e}")))?;
            let plain = array.iter().map(plain).collect::<Option<_>>();
            values = plain.ok_or_else(|| wrong("a value is a number, a word, true or false"))?;
        } else {
            for v in given.split(',') {
                values.extend(range::values(v.trim()).map_err(|e| wrong(&e.0))?);
                if values.len() > MOST {
                    break;
                }
            }
        }
        if values.len() > MOST {
            let what = format!("more than {MOST} values, the most there are");
            return Err(InputError::new(format!("{option} {key}"), what));
        }
        let key = key.trim().to_owned();
        if key.is_empty() || values.is_empty() || values.iter().any(String::is_empty) {
            return Err(form());
        }
        Ok(Axis { option, key, values })
    }

    /// Returns the setting of one of its values.
    pub(crate) fn setting(&self, value: &str) -> Setting {
        Setting::given(self.option, &format!("{}={value}", self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn values_of_json_keep_their_commas() {
        let values = |text| Axis::parse("--over", text).map(|axis| axis.values);
        let mixes = values(r#"traffic.mix=["60:7,1514:1", "off"]"#);
        assert_eq!(mixes.unwrap(), ["60:7,1514:1", "off"]);
        assert_eq!(values("a.b=[1, 2.5, true, false]").unwrap(), ["1", "2.5", "on", "off"]);
        // A range is one where it is not a value.
        assert_eq!(values(r#"a.b=["1..3"]"#).unwrap(), ["1..3"]);
        assert_eq!(values("a.b=1..3").unwrap(), ["1", "2", "3"]);
        for (text, why) in [
            ("a.b=[]", "expected key=value"),
            ("a.b=[1", "no array of JSON"),
            ("a.b=[null]", "a value is a number"),
            ("a.b=[\"\"]", "expected key=value"),
        ] {
            let e = values(text).unwrap_err().to_string();
            assert!(e.contains(why), "{e}");
        }
    }
}
