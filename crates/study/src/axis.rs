//! Axes of a study: a key each, and the values to try.

pub mod range;

use doorbell_spec::InputError;
use doorbell_systems::Setting;

/// The most runs of a study, whose settings are held in memory: with all else about 2 GB.
pub const MOST: usize = 100_000;

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

impl Axis {
    /// Parses `key=value,value,…`, where a value may be a [range]. Refuses too many values.
    pub fn parse(option: &'static str, text: &str) -> Result<Axis, InputError> {
        let wrong = |what: &str| InputError::new(format!("{option} {text}"), what);
        let form = || wrong("expected key=value,value,… such as pcie.mps=128,256");
        let (key, given) = text.split_once('=').ok_or_else(form)?;
        let mut values = Vec::new();
        for v in given.split(',') {
            values.extend(range::values(v.trim()).map_err(|e| wrong(&e.0))?);
            if values.len() > MOST {
                let what = format!("more than {MOST} values, the most there are");
                return Err(InputError::new(format!("{option} {key}"), what));
            }
        }
        let key = key.trim().to_owned();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(form());
        }
        Ok(Axis { option, key, values })
    }

    /// Returns the setting of one of its values.
    pub fn setting(&self, value: &str) -> Setting {
        Setting::given(self.option, &format!("{}={value}", self.key))
    }
}
