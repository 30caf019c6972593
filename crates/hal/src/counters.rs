//! Counters that are read by name.

/// Declares a struct of counts, one a row with its documentation, and lists them by name. `names`
/// puts a prefix before each name.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* struct $name:ident; $($rows:tt)*) => {
        $crate::counters! { $(#[$meta])* struct $name, names ""; $($rows)* }
    };
    ($(#[$meta:meta])* struct $name:ident, names $prefix:literal;
        $($(#[doc = $doc:literal])* $field:ident $(: $text:literal)?,)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])* $(#[doc = $text])? pub $field: u64,)*
        }

        impl $name {
            /// The name and the sentence of every counter.
            pub const ABOUT: &[(&'static str, &'static str)] = &[$((
                concat!($prefix, stringify!($field)),
                concat!($($doc,)* $($text)?).trim_ascii(),
            )),*];

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
    };
}
