//! Scenarios: what is run, on which platform.
//!
//! ```toml
//! name = "mlx5-pktgen-64"
//! about = "one line"
//! system = "mlx5"
//! profile = "mlx5-gen2"
//!
//! [traffic]
//! size = "64 B"          # a number with its unit is a string
//! packets = 240000       # a pure number is a number
//! ```
//!
//! A scenario may set platform keys too; they then hold instead of the profile's.
//! Keys that it does not name have the system's defaults. A [`Plan`] is a scenario
//! on its profile, ready to run.

use crate::input::{Builtin, Document, InputError, number, open};
use crate::key::{Key, Kind, Value, Values, find, parse_setting};
use crate::profile::Profile;
use crate::rig::{self, Rig};
use std::path::Path;
use toml::de::DeValue;

const BUILTIN: &[Builtin] = &[
    ("mlx5-pktgen-64", include_str!("../../../scenarios/mlx5-pktgen-64.toml")),
    ("mlx5-pktgen-64-gen3", include_str!("../../../scenarios/mlx5-pktgen-64-gen3.toml")),
    ("mlx5-full-rate", include_str!("../../../scenarios/mlx5-full-rate.toml")),
    ("mlx5-single-stream", include_str!("../../../scenarios/mlx5-single-stream.toml")),
    ("mlx5-replay", include_str!("../../../scenarios/mlx5-replay.toml")),
    ("axienet-receive", include_str!("../../../scenarios/axienet-receive.toml")),
    ("axienet-receive-fixed", include_str!("../../../scenarios/axienet-receive-fixed.toml")),
    ("axienet-steps", include_str!("../../../scenarios/axienet-steps.toml")),
    ("axienet-saturated", include_str!("../../../scenarios/axienet-saturated.toml")),
    ("axienet-bursts", include_str!("../../../scenarios/axienet-bursts.toml")),
    ("axienet-sporadic", include_str!("../../../scenarios/axienet-sporadic.toml")),
    ("axienet-on-off", include_str!("../../../scenarios/axienet-on-off.toml")),
    ("axienet-beside", include_str!("../../../scenarios/axienet-beside.toml")),
    ("axienet-jumbo", include_str!("../../../scenarios/axienet-jumbo.toml")),
    ("axienet-paced", include_str!("../../../scenarios/axienet-paced.toml")),
    ("axienet-random", include_str!("../../../scenarios/axienet-random.toml")),
    ("e1000-send", include_str!("../../../scenarios/e1000-send.toml")),
    ("e1000-send-aligned", include_str!("../../../scenarios/e1000-send-aligned.toml")),
    ("e1000-receive", include_str!("../../../scenarios/e1000-receive.toml")),
    ("e1000-transactions", include_str!("../../../scenarios/e1000-transactions.toml")),
    ("e1000-pktgen", include_str!("../../../scenarios/e1000-pktgen.toml")),
    ("ibmveth-send", include_str!("../../../scenarios/ibmveth-send.toml")),
    ("ibmveth-send-trunk", include_str!("../../../scenarios/ibmveth-send-trunk.toml")),
    ("ibmveth-receive", include_str!("../../../scenarios/ibmveth-receive.toml")),
    ("ibmveth-paced", include_str!("../../../scenarios/ibmveth-paced.toml")),
    ("ibmveth-receive-fraglist", include_str!("../../../scenarios/ibmveth-receive-fraglist.toml")),
    ("ibmveth-transactions", include_str!("../../../scenarios/ibmveth-transactions.toml")),
    ("ibmveth-packets", include_str!("../../../scenarios/ibmveth-packets.toml")),
    ("ibmvnic-transactions", include_str!("../../../scenarios/ibmvnic-transactions.toml")),
    ("ibmvnic-transactions-never", include_str!("../../../scenarios/ibmvnic-transactions-never.toml")),
    ("ibmvnic-paced", include_str!("../../../scenarios/ibmvnic-paced.toml")),
    ("ibmvnic-transactions-ignored", include_str!("../../../scenarios/ibmvnic-transactions-ignored.toml")),
    ("ibmvnic-transactions-small", include_str!("../../../scenarios/ibmvnic-transactions-small.toml")),
    ("ibmvnic-bulk", include_str!("../../../scenarios/ibmvnic-bulk.toml")),
    ("ibmvnic-adaptive", include_str!("../../../scenarios/ibmvnic-adaptive.toml")),
    ("ibmvnic-break-even", include_str!("../../../scenarios/ibmvnic-break-even.toml")),
];

/// Names of the scenarios that are part of the binary.
pub fn builtin() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}

/// A description of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// The file that it was read from, as messages call it.
    pub file: String,
    /// The system that runs.
    pub rig: &'static Rig,
    /// The profile's name or path.
    pub profile: String,
    /// What it sets, in its order.
    pub settings: Vec<(&'static Key, Value)>,
    /// File and line where the profile is named.
    profile_at: String,
}

impl Scenario {
    /// The built-in scenario of this name, or the file at this path if it ends in `.toml`. Files that it names lie
    /// beside it.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn load(given: &str) -> Result<Scenario, InputError> {
        let (file, text) = open(given, "scenario", BUILTIN)?;
        let mut scenario = Scenario::parse(&file, &text)?;
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

    /// Reads a scenario; `file` is for messages.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, InputError> {
        const HEADS: [&str; 4] = ["name", "about", "system", "profile"];
        let d = Document::parse(file, text)?;
        let rig = rig::find(&d.head("system")?).map_err(|e| d.error(d.head_span("system"), e))?;
        let keys = rig.keys();
        let mut settings = Vec::new();
        for field in d.fields(&HEADS)? {
            let key = find(&keys, &field.name).map_err(|e| d.error(field.span.clone(), e))?;
            let given = field.value.get_ref();
            let value = match (given, number(given)) {
                (_, Some(n)) if !key.unit().is_empty() && !key.is_count() => {
                    Err(format!("`{}` needs a unit, such as \"{n} {}\"", key.name, key.unit()))
                }
                (_, Some(n)) => key.quantity(n, key.unit()),
                (DeValue::String(text), _) => key.parse(text),
                (DeValue::Boolean(true), _) if key.words.contains(&"on") => key.parse("on"),
                (DeValue::Boolean(false), _) if key.words.contains(&"off") => key.parse("off"),
                _ => Err(format!("`{}` cannot be a {}; allowed: {}", key.name, given.type_str(), key.allowed())),
            };
            settings.push((key, value.map_err(|e| d.error(field.value.span(), e))?));
        }
        Ok(Scenario {
            name: d.head("name")?,
            about: d.head("about")?,
            file: file.to_owned(),
            rig,
            profile: d.head("profile")?,
            profile_at: d.error(d.head_span("profile"), "").place,
            settings,
        })
    }

    /// The scenario on its own profile.
    ///
    /// # Errors
    /// A profile that cannot be used, or is another system's.
    pub fn plan(&self) -> Result<Plan, InputError> {
        let profile = Profile::load(&self.profile)
            .map_err(|e| if e.place.is_empty() { InputError::new(&*self.profile_at, e.what) } else { e })?;
        self.plan_on(&profile)
    }

    /// The scenario on a profile.
    ///
    /// # Errors
    /// When it is another system's.
    pub fn plan_on(&self, profile: &Profile) -> Result<Plan, InputError> {
        if profile.rig.name != self.rig.name {
            let what = format!("system {}, but profile {} is for {}", self.rig.name, profile.name, profile.rig.name);
            return Err(InputError::new(&*self.file, what));
        }
        let mut values = profile.all_values();
        for (key, value) in &self.settings {
            values.put(key, value.clone());
        }
        let (name, about) = (self.name.clone(), self.about.clone());
        Ok(Plan { scenario: name, about, profile: profile.name.clone(), rig: self.rig, values, set: Vec::new() })
    }
}

/// Everything that a run is a function of.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// The profile's name.
    pub profile: String,
    /// The system.
    pub rig: &'static Rig,
    /// A value for every key.
    pub values: Values,
    /// What was set on top of the files, as it was given.
    pub set: Vec<String>,
}

impl Plan {
    /// Takes one `key=value`; later ones win.
    ///
    /// # Errors
    /// Not of this form, no such key, or a value that is not allowed.
    pub fn set(&mut self, setting: &str) -> Result<(), InputError> {
        let (key, value) = parse_setting(&self.values.keys(), setting)?;
        self.values.put(key, value);
        self.set.push(setting.to_owned());
        Ok(())
    }

    /// The capture file that its traffic comes from, if it does.
    pub fn capture(&self) -> Option<&str> {
        (self.values.word("traffic.kind") == "pcap").then(|| self.values.text("traffic.file"))
    }

    /// The seed: recorded with the result. It drives whatever a run draws at
    /// random; pktgen and captures draw nothing.
    pub fn seed(&self) -> u64 {
        self.values.number("run.seed") as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"x\"\nabout = \"x\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n";

    fn refused(rest: &str) -> String {
        Scenario::parse("s/x.toml", &format!("{HEAD}{rest}")).and_then(|s| s.plan()).unwrap_err().to_string()
    }

    #[test]
    fn built_in_scenarios_have_profiles_and_are_named_as_their_files() {
        for (name, _) in BUILTIN {
            let s = Scenario::load(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(&s.name, name);
            s.plan().unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn later_layers_win() {
        let s = Scenario::parse("x", &format!("{HEAD}[pcie]\nmps = \"512 B\"\nusable_share = 0.5\n")).unwrap();
        let mut plan = s.plan().unwrap();
        assert_eq!(plan.values.number("pcie.mps"), 512.0);
        assert_eq!(plan.values.number("pcie.mrrs"), 512.0, "the profile's");
        plan.set("pcie.mps=128").unwrap();
        plan.set("pcie.mps=1KiB").unwrap();
        assert_eq!(plan.values.number("pcie.mps"), 1024.0);
    }

    #[test]
    fn faults_are_told_with_their_line() {
        insta::assert_snapshot!(refused("[traffic]\nsise = \"64 B\""), @"s/x.toml:6: no key is called `traffic.sise`; the nearest is `traffic.size`");
        insta::assert_snapshot!(refused("[traffic]\n\nsize = 64"), @r#"s/x.toml:7: `traffic.size` needs a unit, such as "64 B""#);
        insta::assert_snapshot!(refused("[traffic]\nsize = \"64 ns\""), @"s/x.toml:6: `traffic.size` cannot be in `ns`; allowed units: B, KiB, MiB");
        insta::assert_snapshot!(refused("[traffic]\nkind = true"), @"s/x.toml:6: `traffic.kind` cannot be a boolean; allowed: pktgen, pcap");
        insta::assert_snapshot!(refused("color = 3"), @"s/x.toml:5: `color` is not allowed here; allowed: name, about, system, profile, and tables");
        let lost = HEAD.replace("mlx5-gen2", "mlx5-gen9");
        insta::assert_snapshot!(Scenario::parse("s/x.toml", &lost).unwrap().plan().unwrap_err(), @"s/x.toml:4: no profile is called `mlx5-gen9`; the nearest is `mlx5-gen2`; `doorbell list` has all; a path that ends in .toml is read as a file");
    }

    #[test]
    fn settings_are_checked_like_files() {
        let mut plan = Scenario::load("mlx5-pktgen-64").unwrap().plan().unwrap();
        let mut e = |s| plan.set(s).unwrap_err().to_string();
        insta::assert_snapshot!(e("pcie.mps"), @"--set pcie.mps: expected key=value, such as pcie.memory_latency=300ns");
        insta::assert_snapshot!(e("pcie.mpss=3"), @"--set pcie.mpss=3: no key is called `pcie.mpss`; the nearest is `pcie.mps`");
        insta::assert_snapshot!(e("traffic.rate=3 ns"), @"--set traffic.rate=3 ns: `traffic.rate` cannot be in `ns`; allowed units: pps, kpps, Mpps");
    }
}
