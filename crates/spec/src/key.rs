//! Keys: the named parameters of a run, each with a unit and a range.
//!
//! A system declares its keys once. Profiles set those of the platform, scenarios those of the run,
//! `--set` either. A number is stored in its key's unit. It may be given in any unit of the same
//! dimension ([`convert`]).

use crate::trade::hint_of_key;
use crate::{InputError, SettingError, mix, refuse};
use std::fmt;

/// Units by dimension, with their size in the first one.
const DIMENSIONS: &[&[(&str, f64)]] = &[
    &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)],
    &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)],
    &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0)],
    &[("pps", 1.0), ("kpps", 1e3), ("Mpps", 1e6)],
    &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)],
];

/// Returns the units that convert to `unit`.
pub fn units(unit: &'static str) -> Vec<&'static str> {
    let dimension = DIMENSIONS.iter().find(|d| d.iter().any(|(name, _)| *name == unit));
    match dimension {
        Some(d) => d.iter().map(|(name, _)| *name).collect(),
        None if unit.is_empty() => Vec::new(),
        None => vec![unit],
    }
}

/// Converts `value` from unit `from` to unit `to`. Returns `None` for different dimensions.
pub fn convert(value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    let from = if from == "µs" { "us" } else { from };
    let size = |d: &[(&str, f64)], unit: &str| {
        d.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size)
    };
    let (from, to) = DIMENSIONS.iter().find_map(|d| Some((size(d, from)?, size(d, to)?)))?;
    // Sizes are whole multiples of each other, so one multiplication or division is exact to
    // rounding.
    Some(if from >= to { value * (from / to) } else { value / (to / from) })
}

/// Reads a number with or without a unit, in `unit`.
///
/// # Errors
/// No number, or a unit of another dimension. The error says what is allowed.
pub fn in_unit(text: &str, unit: &'static str) -> Result<f64, String> {
    let Some((number, given)) = leading_number(text) else {
        return Err(format!("`{text}` is no number"));
    };
    let given = if given.is_empty() { unit } else { given };
    convert(number, given, unit).ok_or_else(|| {
        let units = units(unit);
        let allowed = if units.is_empty() { "none".to_owned() } else { units.join(", ") };
        format!("its unit cannot be `{given}`; allowed: {allowed}")
    })
}

/// The values that a key allows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A number from `min` to `max`.
    Number {
        /// Its unit, empty for a pure number.
        unit: &'static str,
        /// The smallest value.
        min: f64,
        /// The largest value.
        max: f64,
        /// Values are multiples of this. 0 allows any number.
        step: f64,
    },
    /// One of a few numbers in rising order.
    Among {
        /// Their unit.
        unit: &'static str,
        /// The numbers.
        values: &'static [f64],
    },
    /// One of the key's words.
    Choice,
    /// The path of a file.
    File,
    /// Faults to inject.
    Faults(Grammar),
    /// A mix of packet sizes: sizes with weights.
    Mix,
}

/// The form of a text, which is known to those who read it.
#[derive(Clone, Copy)]
pub struct Grammar {
    /// The form, for messages.
    pub allowed: &'static str,
    /// Returns the fault of a text that has another form.
    pub check: fn(&str) -> Result<(), SettingError>,
}

/// Two are the same if they say the same.
impl PartialEq for Grammar {
    fn eq(&self, other: &Grammar) -> bool {
        self.allowed == other.allowed
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.allowed.fmt(f)
    }
}

/// A condition on the value of one key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Is {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number above zero.
    Positive,
    /// A number, not a word.
    Number,
    /// Text that is not empty.
    Given,
}

impl Is {
    fn holds(self, v: &Value) -> bool {
        match (self, v) {
            (Is::Word(words), Value::Word(w)) => words.contains(w),
            (Is::Positive, Value::Number(n)) => *n > 0.0,
            (Is::Number, Value::Number(_)) => true,
            (Is::Given, Value::Text(t)) => !t.is_empty(),
            _ => false,
        }
    }

    /// Formats the condition with those of its words that `key` has.
    fn said(self, key: &Key) -> String {
        match self {
            Is::Word(words) => {
                let own: Vec<&str> =
                    words.iter().copied().filter(|w| key.words.contains(w)).collect();
                match own.split_last() {
                    Some((last, all)) if !all.is_empty() => format!("{} or {last}", all.join(", ")),
                    _ => own.join(""),
                }
            }
            Is::Positive => "above 0".to_owned(),
            Is::Number => "a number".to_owned(),
            Is::Given => "given".to_owned(),
        }
    }
}

/// A condition under which a key has an effect: the value of one or of two other keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Needs {
    key: &'static str,
    is: Is,
    or: Option<(&'static str, Is)>,
}

impl Needs {
    /// Requires this value of `key`.
    pub const fn new(key: &'static str, is: Is) -> Needs {
        Needs { key, is, or: None }
    }
    /// Requires one of these words as the value of `key`.
    pub const fn word(key: &'static str, words: &'static [&'static str]) -> Needs {
        Needs::new(key, Is::Word(words))
    }
    /// Requires one of these kinds of traffic.
    pub const fn kind(words: &'static [&'static str]) -> Needs {
        Needs::word("traffic.kind", words)
    }
    /// Accepts also this value of `key`.
    pub const fn or(self, key: &'static str, is: Is) -> Needs {
        Needs { or: Some((key, is)), ..self }
    }

    fn conditions(&self) -> impl Iterator<Item = (&'static str, Is)> {
        [(self.key, self.is)].into_iter().chain(self.or)
    }

    /// Formats the condition as far as it concerns these keys.
    fn said(&self, keys: &[&'static Key]) -> String {
        let one = |(name, is): (&str, Is)| {
            let key = keys.iter().find(|k| k.name == name)?;
            Some(format!("`{name}` is {}", is.said(key))).filter(|_| key.can_meet(is))
        };
        self.conditions().filter_map(one).collect::<Vec<_>>().join(" or ")
    }
}

/// A key of a system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Key {
    /// Name, such as `pcie.memory_latency`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Allowed values.
    pub kind: Kind,
    /// Allowed words: all values of a choice, an alternative to a number.
    pub words: &'static [&'static str],
    /// Default value as text. `None` for a key that must be set.
    pub default: Option<&'static str>,
    /// Conditions that must all hold for the key to have an effect.
    pub needs: &'static [Needs],
}

type Str = &'static str;

impl Key {
    const fn new(name: Str, kind: Kind, about: Str) -> Key {
        Key { name, about, kind, words: &[], default: None, needs: &[] }
    }
    /// Declares a number in `unit` (empty for a pure number) from `min` to `max`.
    pub const fn number(name: Str, unit: Str, min: f64, max: f64, about: Str) -> Key {
        Key::new(name, Kind::Number { unit, min, max, step: 0.0 }, about)
    }
    /// Declares a price of CPU work in cycles.
    pub const fn cycles(name: Str, about: Str) -> Key {
        Key::number(name, "cycles", 0.0, 1e6, about)
    }
    /// Declares a time of a bus or a device in nanoseconds.
    pub const fn ns(name: Str, about: Str) -> Key {
        Key::number(name, "ns", 0.0, 1e6, about)
    }
    /// Declares a whole number.
    pub const fn whole(name: Str, unit: Str, min: f64, max: f64, about: Str) -> Key {
        Key::steps(name, unit, (min, max, 1.0), about)
    }
    /// Declares a number that is a multiple of `step`.
    pub const fn steps(name: Str, unit: Str, (min, max, step): (f64, f64, f64), about: Str) -> Key {
        Key::new(name, Kind::Number { unit, min, max, step }, about)
    }
    /// Declares a choice of numbers.
    pub const fn among(name: Str, unit: Str, values: &'static [f64], about: Str) -> Key {
        Key::new(name, Kind::Among { unit, values }, about)
    }
    /// Declares a choice of words.
    pub const fn choice(name: Str, words: &'static [&'static str], about: Str) -> Key {
        Key::new(name, Kind::Choice, about).or(words)
    }
    /// Declares the path of a file.
    pub const fn file(name: &'static str, about: &'static str) -> Key {
        Key::new(name, Kind::File, about).default("")
    }
    /// Declares a list of faults of this form.
    pub const fn faults(name: Str, form: Grammar, about: Str) -> Key {
        Key::new(name, Kind::Faults(form), about).default("")
    }
    /// Declares a mix of packet sizes, off by default.
    pub const fn mix(name: &'static str, about: &'static str) -> Key {
        Key::new(name, Kind::Mix, about).or(&mix::WORDS).default("off")
    }
    /// Allows also these words.
    pub const fn or(mut self, words: &'static [&'static str]) -> Key {
        self.words = words;
        self
    }
    /// Sets the default value.
    pub const fn default(mut self, text: &'static str) -> Key {
        self.default = Some(text);
        self
    }

    /// Sets the conditions that must all hold for the key to have an effect.
    ///
    /// # Panics
    /// Panics if conditions are already set.
    pub const fn when(mut self, needs: &'static [Needs]) -> Key {
        assert!(self.needs.is_empty(), "all conditions are given at once");
        self.needs = needs;
        self
    }

    /// Formats the conditions under which the key has an effect, as far as they concern `keys`.
    pub fn conditions(&self, keys: &[&'static Key]) -> String {
        let all = self.needs.iter().map(|n| n.said(keys)).filter(|n| !n.is_empty());
        all.collect::<Vec<_>>().join(" and ")
    }

    /// Returns whether some value meets the condition.
    fn can_meet(&self, is: Is) -> bool {
        match is {
            Is::Word(words) => words.iter().any(|w| self.words.contains(w)),
            _ => true,
        }
    }

    /// Returns the unit, empty for a key without one.
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Number { unit, .. } | Kind::Among { unit, .. } => unit,
            Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix => "",
        }
    }

    /// Returns `, unit = "ns"`, as it stands behind a value in a profile; nothing without a unit.
    pub fn unit_entry(&self) -> String {
        if self.unit().is_empty() { String::new() } else { format!(", unit = \"{}\"", self.unit()) }
    }

    /// Returns whether all its numbers are whole.
    pub fn is_whole(&self) -> bool {
        match self.kind {
            Kind::Number { step, .. } => step > 0.0 && step.fract() == 0.0,
            Kind::Among { values, .. } => values.iter().all(|v| v.fract() == 0.0),
            Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix => false,
        }
    }

    /// Returns whether the unit names counted things (`cores`, `packets`).
    pub fn is_count(&self) -> bool {
        let unit = self.unit();
        !unit.is_empty() && units(unit) == [unit] && !unit.contains("cycles")
    }

    /// Formats a value with its unit.
    pub fn said(&self, v: &Value) -> String {
        match v {
            Value::Number(n) if !self.unit().is_empty() => format!("{n} {}", self.unit()),
            Value::Text(t) if t.is_empty() => "not given".to_owned(),
            other => other.to_string(),
        }
    }

    /// Formats the allowed values for messages and tables.
    pub fn allowed(&self) -> String {
        let unit = self.unit();
        let space = if unit.is_empty() { "" } else { " " };
        let mut all = match self.kind {
            Kind::Number { min, max, step, .. } => vec![match step {
                0.0 => format!("{min} to {max}{space}{unit}"),
                1.0 => format!("whole numbers from {min} to {max}{space}{unit}"),
                _ => format!("multiples of {step} from {min} to {max}{space}{unit}"),
            }],
            Kind::Among { values, .. } => {
                let values: Vec<String> = values.iter().map(f64::to_string).collect();
                vec![format!("{}{space}{unit}", values.join(", "))]
            }
            Kind::Choice => Vec::new(),
            Kind::File => vec!["the path of a file".to_owned()],
            Kind::Faults(form) => vec![form.allowed.to_owned()],
            Kind::Mix => vec![mix::ALLOWED.to_owned()],
        };
        all.extend(self.words.iter().map(|w| (*w).to_owned()));
        all.join(", ")
    }

    /// Parses a value: `300`, `300 ns`, `0.3us`, `full`.
    ///
    /// # Errors
    /// Returns the error and the allowed values.
    pub fn parse(&self, text: &str) -> Result<Value, SettingError> {
        let text = text.trim();
        if self.kind == Kind::File {
            return Ok(Value::Text(text.to_owned()));
        }
        if let Kind::Faults(form) = self.kind {
            return (form.check)(text).map(|()| Value::Text(text.to_owned()));
        }
        if let Some(word) = self.words.iter().find(|w| **w == text) {
            return Ok(Value::Word(word));
        }
        if self.kind == Kind::Mix {
            let refused = || self.refusal(&format!("cannot be `{text}`"));
            return mix::parse(text).map(|_| Value::Text(text.to_owned())).ok_or_else(refused);
        }
        match leading_number(text) {
            Some((value, unit)) if self.kind != Kind::Choice => {
                self.quantity(value, if unit.is_empty() { self.unit() } else { unit })
            }
            _ => Err(self.refusal(&format!("cannot be `{text}`"))),
        }
    }

    fn refusal(&self, why: &str) -> SettingError {
        SettingError(format!("`{}` {why}; allowed: {}", self.name, self.allowed()))
    }

    /// Converts a number with a unit into a value.
    ///
    /// # Errors
    /// Returns the error and the allowed values.
    pub fn quantity(&self, given: f64, unit: &str) -> Result<Value, SettingError> {
        let own = self.unit();
        if matches!(self.kind, Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix) {
            return Err(self.refusal(&format!("cannot be {}", written(given))));
        }
        let Some(value) = convert(given, unit, own) else {
            let units = units(own);
            if units.is_empty() {
                let name = self.name;
                refuse!("`{name}` is a pure number, but the unit is `{unit}`; allowed: no unit");
            }
            let all = units.join(", ");
            refuse!("`{}` cannot be in `{unit}`; allowed units: {all}", self.name);
        };
        // A conversion of units is not exact: 1.001 ms are 1000.9999999999999 us.
        let same = |allowed: f64| (allowed - value).abs() <= 1e-12 * value.abs();
        let allowed = match self.kind {
            Kind::Number { min, max, step, .. } => {
                let whole = if step == 0.0 { value } else { (value / step).round() * step };
                Some(whole).filter(|n| (min..=max).contains(n) && same(*n))
            }
            Kind::Among { values, .. } => values.iter().copied().find(|v| same(*v)),
            Kind::Choice | Kind::File | Kind::Faults(_) | Kind::Mix => None,
        };
        allowed
            .map(Value::Number)
            .ok_or_else(|| self.refusal(format!("cannot be {} {unit}", written(given)).trim_end()))
    }
}

/// Formats a number, with an exponent if it has many digits.
fn written(n: f64) -> String {
    if n != 0.0 && !(1e-9..1e16).contains(&n.abs()) { format!("{n:e}") } else { n.to_string() }
}

/// Splits a text into the number at its start and the rest. Underscores may group digits.
pub fn leading_number(text: &str) -> Option<(f64, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u32::from_str_radix(hex, 16).ok().map(|n| (f64::from(n), ""));
    }
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b'_') {
            at += 1;
        }
        at
    };
    let is_sign = |at: usize| matches!(bytes.get(at), Some(b'+' | b'-'));
    let mut end = digits(usize::from(is_sign(0)));
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    // An e without digits is a unit's.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = end + 1 + usize::from(is_sign(end + 1));
        if bytes.get(exponent).is_some_and(u8::is_ascii_digit) {
            end = digits(exponent);
        }
    }
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim()))
}

/// The value of a key.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number in the key's unit.
    Number(f64),
    /// One of the key's words.
    Word(&'static str),
    /// A path or faults.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => n.fmt(f),
            Value::Word(w) => f.write_str(w),
            Value::Text(t) => f.write_str(t),
        }
    }
}

/// Returns the key called `name`.
///
/// # Errors
/// Returns an error with the nearest name if there is no such key.
pub fn find(keys: &[&'static Key], name: &str) -> Result<&'static Key, SettingError> {
    keys.iter().find(|k| k.name == name).copied().ok_or_else(|| {
        let near = hint_of_key(name, keys.iter().map(|k| k.name));
        SettingError(format!("no key is called `{name}`{near}"))
    })
}

/// A value for every key of a system.
#[derive(Clone, PartialEq, Debug)]
pub struct Values(pub Vec<(&'static Key, Value)>);

impl Values {
    /// Creates the values of all keys at their defaults. A key without default has its smallest
    /// value until a profile sets it.
    pub fn defaults<'a>(keys: impl IntoIterator<Item = &'a &'static Key>) -> Values {
        Values(keys.into_iter().map(|key| (*key, default_of(key))).collect())
    }

    /// Iterates over the keys and values in the system's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &Value)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }

    /// Returns all keys.
    pub fn keys(&self) -> Vec<&'static Key> {
        self.0.iter().map(|(k, _)| *k).collect()
    }

    /// Returns the value of a key.
    ///
    /// # Panics
    /// Panics if the system has no such key, as do all getters.
    pub fn get(&self, name: &str) -> &Value {
        let found = self.find(name);
        &found.unwrap_or_else(|| panic!("the system declares no key `{name}`")).1
    }

    /// Returns a key and its value, if the system has the key.
    pub fn find(&self, name: &str) -> Option<&(&'static Key, Value)> {
        self.0.iter().find(|(k, _)| k.name == name)
    }

    /// Returns a key and its value to change, if the system has the key.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut (&'static Key, Value)> {
        self.0.iter_mut().find(|(k, _)| k.name == name)
    }

    /// Returns a number in its key's unit, or `None` for a word.
    pub fn number_or_word(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Value::Number(n) => Some(*n),
            Value::Word(_) | Value::Text(_) => None,
        }
    }

    /// Returns a number in its key's unit.
    ///
    /// # Panics
    /// Panics if the key is not a number.
    pub fn number(&self, name: &str) -> f64 {
        self.number_or_word(name).unwrap_or_else(|| panic!("`{name}` is not a number"))
    }

    /// Returns a number in its key's unit, or `None` if the system has no such key.
    pub fn number_if_any(&self, name: &str) -> Option<f64> {
        self.find(name).map(|_| self.number(name))
    }

    /// Returns the rate of a link in bits a second, or 0 if the system has no such key.
    pub fn bits_per_second(&self, name: &str) -> u64 {
        let Some((key, _)) = self.find(name) else { return 0 };
        (self.number(name) * convert(1.0, key.unit(), "bit/s").unwrap_or(1.0)) as u64
    }

    /// Returns the word of a choice, empty for a number.
    pub fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Value::Word(w) => w,
            Value::Number(_) | Value::Text(_) => "",
        }
    }

    /// Returns the word of a choice, or `None` if the system has no such key.
    pub fn word_if_any(&self, name: &str) -> Option<&'static str> {
        self.find(name).map(|_| self.word(name))
    }

    /// Returns whether an on/off or yes/no key is on.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.word(name), "on" | "yes")
    }

    /// Returns the text of a path or of faults.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(t) => t,
            Value::Number(_) | Value::Word(_) => "",
        }
    }

    /// Formats the first condition of `key` that is not met, or returns `None` if the key has an
    /// effect. A condition on a key without effect is not met. One on a key that the system does
    /// not have is ignored.
    pub fn idle(&self, key: &Key) -> Option<String> {
        for needs in key.needs {
            let mut open = needs.conditions().filter_map(|(name, _)| self.find(name)).peekable();
            if open.peek().is_none() || needs.conditions().any(|(name, is)| self.meets(name, is)) {
                continue;
            }
            let found = open.map(|(k, v)| match self.idle(k) {
                Some(_) if !matches!(v, Value::Text(t) if t.is_empty()) => {
                    format!("`{}` has no effect either", k.name)
                }
                _ => format!("`{}` is {}", k.name, k.said(v)),
            });
            let found: Vec<String> = found.collect();
            let (wanted, found) = (needs.said(&self.keys()), found.join(" and "));
            return Some(format!("it has an effect where {wanted}, and here {found}"));
        }
        None
    }

    /// Returns whether the key called `name` has an effect and meets a condition.
    fn meets(&self, name: &str, is: Is) -> bool {
        self.find(name).is_some_and(|(k, v)| is.holds(v) && self.idle(k).is_none())
    }

    /// Sets a value that this key parsed.
    pub fn put(&mut self, key: &Key, value: Value) {
        if let Some((_, v)) = self.find_mut(key.name) {
            *v = value;
        }
    }

    /// Parses and sets `key=value`, the value with or without a unit.
    ///
    /// # Errors
    /// Returns an error for another form, an unknown key, or a value that is not allowed.
    pub fn set(&mut self, setting: &str) -> Result<(), InputError> {
        let (key, value) = parse_setting(&self.keys(), setting)?;
        self.put(key, value);
        Ok(())
    }
}

fn default_of(key: &Key) -> Value {
    match (key.default, key.kind) {
        (Some(text), _) => key.parse(text).unwrap_or_else(|e| panic!("default of {e}")),
        (None, Kind::Number { min, .. }) => Value::Number(min),
        (None, Kind::Among { values, .. }) => Value::Number(values[0]),
        (None, Kind::Choice) => Value::Word(key.words[0]),
        (None, Kind::File | Kind::Faults(_) | Kind::Mix) => Value::Text(String::new()),
    }
}

/// A setting read from text.
pub type Parsed = Result<(&'static Key, Value), InputError>;

/// Parses a `key=value` given with `--set`.
///
/// # Errors
/// Returns an error for another form, an unknown key, or a value that is not allowed.
pub fn parse_setting(keys: &[&'static Key], setting: &str) -> Parsed {
    parse_setting_at(keys, setting, &format!("--set {setting}"))
}

/// Parses a `key=value` given at `place`, as [`parse_setting`].
pub fn parse_setting_at(keys: &[&'static Key], setting: &str, place: &str) -> Parsed {
    let wrong = |what: SettingError| InputError::new(place, what);
    let Some((name, value)) = setting.split_once('=') else {
        return Err(wrong("expected key=value, such as pcie.memory_latency=300ns".into()));
    };
    let key = find(keys, name.trim()).map_err(wrong)?;
    Ok((key, key.parse(value).map_err(wrong)?))
}

#[cfg(test)]
mod tests;
