//! What a model counts, with names: one list makes the type and its table.

/// Makes `Counters`: each field a count, with its documentation, and all of them by name.
macro_rules! counters {
    ($(#[doc = $about:literal])+ struct; $($(#[doc = $doc:literal])+ $field:ident,)*) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl Counters {
            /// Every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

pub(crate) use counters;
