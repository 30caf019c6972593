//! Keys and the struct that reads them, declared together.

use crate::key::{Values, convert, find};
use doorbell_hal::Span;

/// Declares keys once: the struct with a field for each, the key itself, and the parse of values.
/// The doc comment of a field is the sentence of its key.
///
/// `field: Type = "name", kind(arguments of the [`Key`] constructor after the name).default(…);`
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {$(
            $(#[doc = $about:literal])+
            $field:ident: $type:ty = $key:literal,
                $kind:ident($($arg:expr),*) $(.$more:ident($with:expr))*;
        )*}
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {$(
            $(#[doc = $about])+
            $vis $field: $type,
        )*}

        impl $name {
            /// The keys, in the order of their declaration.
            $vis const KEYS: &'static [$crate::key::Key] = &[$(
                $crate::key::Key::$kind(
                    $key, $($arg,)* $crate::settings::sentence(concat!($($about),+)),
                )$(.$more($with))*,
            )*];

            /// Reads the values.
            $vis fn of(v: &$crate::key::Values) -> $name {
                $name { $($field: $crate::settings::Field::of(v, $key),)* }
            }
        }
    };
}
pub(crate) use settings;

/// Returns a doc comment without the space in front.
pub(crate) const fn sentence(doc: &'static str) -> &'static str {
    doc.split_at(1).1
}

/// The type of a field that [`settings!`] declares.
pub(crate) trait Field {
    fn of(v: &Values, key: &str) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn of(v: &Values, key: &str) -> $type {
                v.number(key) as $type
            }
        }
        impl Field for Option<$type> {
            fn of(v: &Values, key: &str) -> Option<$type> {
                v.number_or_word(key).map(|n| n as $type)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 usize f64);

/// Reads types whose values a key names, by words or by numbers.
macro_rules! words {
    ($($type:ty { $($word:literal => $value:expr),+ $(,)? })+) => {$(
        impl $crate::settings::Field for $type {
            fn of(v: &$crate::key::Values, key: &str) -> $type {
                match &*v.get(key).to_string() {
                    $($word => $value,)+
                    other => unreachable!("`{key}` has no value `{other}`"),
                }
            }
        }
    )+};
}
pub(crate) use words;

/// Copies fields of the same name.
macro_rules! take {
    ($to:expr; $from:ident: $($field:ident)+) => { $($to.$field = $from.$field;)+ };
}
pub(crate) use take;

impl Field for bool {
    fn of(v: &Values, key: &str) -> bool {
        v.is_on(key)
    }
}
impl Field for &'static str {
    fn of(v: &Values, key: &str) -> &'static str {
        v.word(key)
    }
}
impl Field for String {
    /// Reads a text, or a word.
    fn of(v: &Values, key: &str) -> String {
        v.get(key).to_string()
    }
}
impl Field for Span {
    /// Converts a time, or a time for each unit of something.
    fn of(v: &Values, key: &str) -> Span {
        let unit = find(&v.keys(), key).map_or("", |k| k.unit());
        let ps = convert(v.number(key), unit.split('/').next().unwrap_or(unit), "ps");
        Span::from_ps(ps.unwrap_or_else(|| panic!("`{key}` is no time")).round() as u64)
    }
}
