//! Counters that are declared with a name, a unit and a meaning, and are read by name.

/// The unit of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A pure number: things counted, or a quotient of such.
    Count,
    /// Bytes.
    Bytes,
    /// Cycles of a CPU.
    Cycles,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// A share of 1.
    Share,
    /// Events a second.
    PerSecond,
    /// Packets a second.
    PacketsPerSecond,
    /// Bits a second.
    BitsPerSecond,
}

impl Unit {
    /// Returns the name in lists and results; empty for a pure number.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "B",
            Unit::Cycles => "cycles",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Share => "of 1",
            Unit::PerSecond | Unit::PacketsPerSecond => "1/s",
            Unit::BitsPerSecond => "bit/s",
        }
    }
}

/// The declaration of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// The name.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The meaning, in a sentence.
    pub about: &'static str,
}

/// Counters of a driver or of a device, as [`counters!`](crate::counters) declares them; `()` has
/// none.
pub trait CounterSet: Copy + Default {
    /// The declarations of all counters.
    const DECLARED: &'static [Counter];
    /// Passes every counter with its name.
    fn each(&self, of: &mut dyn FnMut(&'static str, u64));
    /// Returns the counter of this name, if it can be set by it.
    fn named(&mut self, _name: &str) -> Option<&mut u64> {
        None
    }
    /// Adds another's counts.
    fn add(&mut self, other: &Self);
}

impl CounterSet for () {
    const DECLARED: &'static [Counter] = &[];
    fn each(&self, _: &mut dyn FnMut(&'static str, u64)) {}
    fn add(&mut self, (): &()) {}
}

/// Returns the unit that a row of [`counters!`](crate::counters) names.
#[doc(hidden)]
#[macro_export]
macro_rules! unit {
    () => {
        $crate::Unit::Count
    };
    ($unit:ident) => {
        $crate::Unit::$unit
    };
}

/// Declares a struct of counts, one a row with its documentation, and lists them by name. `in`
/// names the [`Unit`] of a row that does not count things. `names` puts a prefix before each name.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* struct $name:ident; $($rows:tt)*) => {
        $crate::counters! { $(#[$meta])* struct $name, names ""; $($rows)* }
    };
    ($(#[$meta:meta])* struct $name:ident, names $prefix:literal;
        $($(#[doc = $doc:literal])* $field:ident $(in $unit:ident)? $(: $text:literal)?,)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])* $(#[doc = $text])? pub $field: u64,)*
        }

        impl $name {
            /// The declarations of all counters.
            pub const DECLARED: &[$crate::Counter] = &[$($crate::Counter {
                name: concat!($prefix, stringify!($field)),
                unit: $crate::unit!($($unit)?),
                about: concat!($($doc,)* $($text)?).trim_ascii(),
            }),*];

            /// Adds another's counts.
            pub fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
            }
            /// Returns the sums with another's counts.
            #[must_use]
            pub fn plus(mut self, other: &$name) -> $name {
                self.add(other);
                self
            }
            /// Returns every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((concat!($prefix, stringify!($field)), self.$field)),*].into_iter()
            }
        }

        impl $crate::CounterSet for $name {
            const DECLARED: &'static [$crate::Counter] = $name::DECLARED;
            fn each(&self, of: &mut dyn FnMut(&'static str, u64)) {
                self.entries().for_each(|(name, value)| of(name, value));
            }
            fn named(&mut self, name: &str) -> Option<&mut u64> {
                let all = [$((concat!($prefix, stringify!($field)), &mut self.$field)),*];
                all.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value)
            }
            fn add(&mut self, other: &$name) {
                $name::add(self, other);
            }
        }
    };
}
