//! Scenarios: descriptions of runs.
//!
//! A scenario names a system and a profile, and sets keys in tables: `size = "64 B"` (a number with
//! its unit is a string) or `packets = 240000` in `[traffic]`. Other keys keep their defaults.
//!
//! A scenario may override keys of its profile. A [`Plan`] is a scenario on its profile. Settings
//! come in layers: the scenario's file, a budget's, the command line. One without effect on the
//! run of its own layer is an error ([`Values::idle`]).

use crate::arrivals;
use crate::key::{Key, Kind, Value, Values, find, parse_setting_at};
use crate::profile::Profile;
use crate::registry::{Registry, open};
use crate::result::Provenance;
use crate::system::System;
use doorbell_spec::error::{Document, InputError, SettingError, number};
use std::path::Path;
use toml::de::DeValue;

/// A description of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Description.
    pub about: String,
    /// Its file, as named in messages.
    pub file: String,
    /// The system to run.
    pub system: &'static System,
    /// The profile's name or path.
    pub profile: String,
    /// Its settings, in order.
    pub settings: Vec<(&'static Key, Value)>,
    /// File and line of each.
    places: Vec<String>,
    /// File and line of the profile's name.
    profile_at: String,
}

impl Registry {
    /// Returns the names of the scenarios in the binary.
    pub fn scenario_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.scenarios.iter().map(|(name, _)| *name)
    }

    /// Loads the built-in scenario of this name, or the file at this path if it ends in `.toml`.
    /// Paths in a file are relative to it.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn scenario(&self, given: &str) -> Result<Scenario, InputError> {
        let (file, text) = open(given, "scenario", self.scenarios)?;
        let mut scenario = self.parse_scenario(&file, &text)?;
        if let Some(dir) = Path::new(given).parent().filter(|_| given.ends_with(".toml")) {
            let beside = |name: &str| dir.join(name).to_string_lossy().into_owned();
            if scenario.profile.ends_with(".toml") {
                scenario.profile = beside(&scenario.profile);
            }
            for (key, value) in &mut scenario.settings {
                if let (Kind::File, Value::Text(name)) = (key.kind, value) {
                    *name = beside(name);
                }
            }
        }
        Ok(scenario)
    }

    /// Parses a scenario. `file` is for messages.
    ///
    /// # Errors
    /// Returns the error with file and line.
    pub fn parse_scenario(&self, file: &str, text: &str) -> Result<Scenario, InputError> {
        const HEADS: [&str; 4] = ["name", "about", "system", "profile"];
        let d = Document::parse(file, text)?;
        let system =
            self.system(&d.head("system")?).map_err(|e| d.error(d.head_span("system"), e))?;
        let keys = system.keys();
        let (mut settings, mut places) = (Vec::new(), Vec::new());
        for field in d.fields(&HEADS)? {
            let key = find(&keys, &field.name).map_err(|e| d.error(field.span.clone(), e))?;
            let given = field.value.get_ref();
            let value = match (given, number(given)) {
                (_, Some(n)) if !key.unit().is_empty() && !key.is_count() => {
                    let (name, unit) = (key.name, key.unit());
                    Err(SettingError(format!("`{name}` needs a unit, such as \"{n} {unit}\"")))
                }
                (_, Some(n)) => key.quantity(n, key.unit()),
                (DeValue::String(text), _) => key.parse(text),
                (DeValue::Boolean(true), _) if key.words.contains(&"on") => key.parse("on"),
                (DeValue::Boolean(false), _) if key.words.contains(&"off") => key.parse("off"),
                _ => {
                    let (name, allowed) = (key.name, key.allowed());
                    let what = match given.type_str() {
                        "integer" | "float" => "is out of range".to_owned(),
                        kind => format!("cannot be of type {kind}"),
                    };
                    Err(SettingError(format!("`{name}` {what}; allowed: {allowed}")))
                }
            };
            settings.push((key, value.map_err(|e| d.error(field.value.span(), e))?));
            places.push(d.error(field.span, "").place);
        }
        Ok(Scenario {
            name: d.head("name")?,
            about: d.head("about")?,
            file: file.to_owned(),
            system,
            profile: d.head("profile")?,
            profile_at: d.error(d.head_span("profile"), "").place,
            settings,
            places,
        })
    }

    /// Returns the plan of the scenario that `given` names, on its own profile.
    ///
    /// # Errors
    /// As [`Registry::scenario`] and [`Scenario::plan`].
    pub fn plan(&self, given: &str) -> Result<Plan, InputError> {
        self.scenario(given)?.plan(self)
    }

    /// Returns the plan of a past run. Keys that its result does not have are at their defaults.
    /// `file` is the result's, for messages.
    ///
    /// # Errors
    /// Returns an error for a system or key that there is not, or a value that is not allowed.
    pub fn again(&self, file: &str, of: &Provenance) -> Result<Plan, InputError> {
        let wrong = |e: SettingError| InputError::new(file, e);
        let system = self.system(&of.system).map_err(wrong)?;
        let keys = system.keys();
        let mut values = Values::defaults(&keys);
        for (name, value) in &of.settings {
            let key = find(&keys, name).map_err(wrong)?;
            values.put(key, key.parse(value.as_str().unwrap_or_default()).map_err(wrong)?);
        }
        Ok(Plan {
            scenario: of.scenario.clone(),
            about: of.about.clone(),
            profile: of.profile.clone(),
            platform: values.clone(),
            system,
            values,
            set: of.set.clone(),
            pipe: false,
        })
    }
}

impl Scenario {
    /// Returns the plan of the scenario on its own profile.
    ///
    /// # Errors
    /// Returns an error if the profile cannot be loaded, and as [`Scenario::plan_on`].
    pub fn plan(&self, registry: &Registry) -> Result<Plan, InputError> {
        let profile = registry.profile(&self.profile).map_err(|e| {
            if e.place.is_empty() { InputError::new(&*self.profile_at, e.what) } else { e }
        })?;
        self.plan_on(&profile)
    }

    /// Returns the plan of the scenario on `profile`.
    ///
    /// # Errors
    /// Returns an error if the profile is for another system, or if a setting has no effect.
    pub fn plan_on(&self, profile: &Profile) -> Result<Plan, InputError> {
        if profile.system.name != self.system.name {
            let what = format!(
                "system {}, but profile {} is for {}",
                self.system.name, profile.name, profile.system.name
            );
            return Err(InputError::new(&*self.file, what));
        }
        let mut values = profile.all_values();
        for (key, value) in &self.settings {
            values.put(key, value.clone());
        }
        for ((key, _), place) in self.settings.iter().zip(&self.places) {
            effective(&values, key, place)?;
        }
        let (name, about) = (self.name.clone(), self.about.clone());
        Ok(Plan {
            scenario: name,
            about,
            profile: profile.name.clone(),
            platform: profile.all_values(),
            system: self.system,
            values,
            set: Vec::new(),
            pipe: false,
        })
    }
}

/// A `key=value` of a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// An option such as `--set pcie.mps=3`, or file and line, for messages.
    pub place: String,
    /// `key=value`.
    pub text: String,
}

impl Setting {
    /// Creates the setting of an option such as `--set`.
    pub fn given(option: &str, text: &str) -> Setting {
        Setting { place: format!("{option} {text}"), text: text.to_owned() }
    }
    /// Creates a setting that `place` has in another form.
    pub fn at(place: impl Into<String>, text: impl Into<String>) -> Setting {
        Setting { place: place.into(), text: text.into() }
    }
}

fn effective(values: &Values, key: &Key, place: &str) -> Result<(), InputError> {
    let Some(why) = values.idle(key) else { return Ok(()) };
    Err(InputError::new(place, format!("`{}` has no effect on this run: {why}", key.name)))
}

/// All inputs of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// Description.
    pub about: String,
    /// The profile's name.
    pub profile: String,
    /// Values of the profile, with defaults for the other keys.
    pub platform: Values,
    /// The system.
    pub system: &'static System,
    /// A value for every key.
    pub values: Values,
    /// Settings on top of the files, as given.
    pub set: Vec<String>,
    /// The capture may be a pipe or a device: the command line names it. One that a file names must
    /// be a regular file.
    pub pipe: bool,
}

impl Plan {
    /// Applies a `key=value`, with or without effect. Later ones win.
    ///
    /// # Errors
    /// Returns an error for another form, an unknown key, or a value that is not allowed.
    pub fn set(&mut self, setting: &str) -> Result<(), InputError> {
        self.take(&Setting::given("--set", setting)).map(|_| ())
    }

    fn take(&mut self, setting: &Setting) -> Result<&'static Key, InputError> {
        let (key, value) = parse_setting_at(&self.values.keys(), &setting.text, &setting.place)?;
        self.values.put(key, value);
        self.set.push(setting.text.clone());
        Ok(key)
    }

    /// Applies all settings of a layer. Later ones win. Each must have an effect on the resulting
    /// run.
    ///
    /// # Errors
    /// As [`Plan::set`], and for a setting without effect.
    pub fn layer(&mut self, settings: &[Setting]) -> Result<(), InputError> {
        self.lay(settings)?.into_iter().next().map_or(Ok(()), Err)
    }

    /// Applies all settings of a layer to one of several runs. Returns an error for each setting
    /// without effect on this run, because it may have one on another.
    ///
    /// # Errors
    /// As [`Plan::set`].
    pub fn lay(&mut self, settings: &[Setting]) -> Result<Vec<InputError>, InputError> {
        let keys = settings.iter().map(|s| self.take(s)).collect::<Result<Vec<_>, _>>()?;
        let each = keys.iter().zip(settings);
        Ok(each.filter_map(|(key, s)| effective(&self.values, key, &s.place).err()).collect())
    }

    /// Returns the path of the capture to replay, if any.
    pub fn capture(&self) -> Option<&str> {
        let v = &self.values;
        let arrives = || v.word_if_any("traffic.pattern") == Some(arrivals::CAPTURE);
        let replays = match v.word("traffic.kind") {
            arrivals::KIND => arrives(),
            kind => kind == "pcap",
        };
        replays.then(|| v.text("traffic.file"))
    }

    /// Returns the seed of the run's random numbers, recorded with the result. pktgen and captures
    /// use none.
    pub fn seed(&self) -> u64 {
        self.values.number("run.seed") as u64
    }
}

#[cfg(test)]
mod tests;
