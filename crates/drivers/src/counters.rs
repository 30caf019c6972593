//! What a driver counts, with names: one list makes the type and its table.

/// Makes a type of counts: each field with its documentation, and all of them by name.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl $name {
            /// Adds another's counts.
            pub fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
            }
            /// Every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

pub(crate) use counters;
