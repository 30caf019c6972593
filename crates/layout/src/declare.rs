//! `layout!` declares registers, records and messages. Documentation stands before an item (`///`)
//! or behind it as a string. `mod` and `impl` declare constants there, `const` in place. `struct`
//! declares a record, `message` a type of named bits, eight bytes, or nested messages. `registers`
//! is `mod` or `const` for register offsets, with their names in `NAMES`.
//! ```text
//! layout! {
//!     mod cr: u32 { RS = 1 << 0, "Run."; RESET = 1 << 2, "Reset."; WIDTH: usize = 4; }
//!     struct Entry[16] { flags: U32, "Flags."; correlator: [u8; 12]; }
//!     message Eqc[0x40] { LOG_SIZE = bits(0x0c, 28, 24), DBR = quad(0x38), WQ = part(0x30, Wq) }
//! }
//! ```

macro_rules! layout {
    () => {};
    ($(#[$a:meta])* mod $name:ident: $t:ty { $($body:tt)* } $($rest:tt)*) => {
        $(#[$a])*
        pub mod $name {
            layout!(@consts $t; $($body)*);
        }
        layout!($($rest)*);
    };
    ($(#[$a:meta])* registers $name:ident: $t:ty { $($body:tt)* } $($rest:tt)*) => {
        $(#[$a])*
        pub mod $name {
            layout!(registers $t { $($body)* });
        }
        layout!($($rest)*);
    };
    (registers $t:ty { $($body:tt)* } $($rest:tt)*) => {
        layout!(@consts $t; $($body)*);
        layout!(@names $t; $($body)*);
        layout!($($rest)*);
    };
    (impl $T:ident: $t:ty { $($body:tt)* } $($rest:tt)*) => {
        impl $T {
            layout!(@consts $t; $($body)*);
        }
        layout!($($rest)*);
    };
    (const $t:ty { $($body:tt)* } $($rest:tt)*) => {
        layout!(@consts $t; $($body)*);
        layout!($($rest)*);
    };
    ($(#[$a:meta])* const $c:ident: $t:ty = $v:expr $(, $doc:literal)?; $($rest:tt)*) => {
        layout!(@const [$(#[$a])* $(#[doc = $doc])?] $c = $v; $t);
        layout!($($rest)*);
    };
    ($(#[$a:meta])* struct $T:ident[$len:expr] {
        $($(#[$fa:meta])* $f:ident: $ft:ty $(, $doc:literal)?;)*
    } $($rest:tt)*) => {
        $(#[$a])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
            zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $T {
            $($(#[$fa])* $(#[doc = $doc])? pub $f: $ft,)*
        }
        const _: () = assert!(size_of::<$T>() == $len as usize);
        impl Default for $T {
            #[inline]
            fn default() -> $T {
                zerocopy::FromZeros::new_zeroed()
            }
        }
        impl $T {
            /// Returns its bytes.
            pub fn bytes(&self) -> [u8; $len as usize] {
                zerocopy::transmute!(*self)
            }
            /// Makes it from its bytes.
            pub fn of(bytes: [u8; $len as usize]) -> $T {
                zerocopy::transmute!(bytes)
            }
        }
        layout!($($rest)*);
    };
    ($(#[$a:meta])* message $T:ident[$len:literal] {
        $($field:ident = $kind:ident($($arg:tt),*)),* $(,)?
    } $($rest:tt)*) => {
        $(#[$a])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
            zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(transparent)]
        pub struct $T(pub [u8; $len]);

        impl Default for $T {
            fn default() -> $T {
                $T::ZERO
            }
        }
        impl $T {
            /// All zero.
            pub const ZERO: $T = $T([0; $len]);
            /// Its length in bytes.
            pub const LEN: usize = $len;
            $(layout!(@field $T $len $field $kind $($arg),*);)*

            /// Returns a field.
            pub fn get(&self, f: $crate::mlx5::command::Bits<$T>) -> u32 {
                f.read(&self.0)
            }
            /// Sets a field.
            pub fn set(&mut self, f: $crate::mlx5::command::Bits<$T>, v: u32) -> &mut $T {
                f.write(&mut self.0, v);
                self
            }
            /// Returns eight bytes.
            pub fn quad(&self, f: $crate::mlx5::command::Quad<$T>) -> u64 {
                u64::from_be_bytes(core::array::from_fn(|i| self.0[f.at + i]))
            }
            /// Sets eight bytes.
            pub fn set_quad(&mut self, f: $crate::mlx5::command::Quad<$T>, v: u64) -> &mut $T {
                self.0[f.at..f.at + 8].copy_from_slice(&v.to_be_bytes());
                self
            }
            /// Returns a message inside.
            pub fn part<U: $crate::mlx5::command::Inner>(
                &self,
                f: $crate::mlx5::command::Part<$T, U>,
            ) -> &U {
                f.get(&self.0)
            }
            /// Returns a message inside, to change it.
            pub fn part_mut<U: $crate::mlx5::command::Inner>(
                &mut self,
                f: $crate::mlx5::command::Part<$T, U>,
            ) -> &mut U {
                f.get_mut(&mut self.0)
            }
        }
        layout!($($rest)*);
    };

    (@consts $t:ty;
        $($(#[$a:meta])* $c:ident $(: $own:ty)? = $v:expr $(, $doc:literal)?;)*) => {
        $(layout!(
            @const [$(#[$a])* $(#[doc = $doc])?] $c = $v; $($own,)? $t
        );)*
    };
    (@names $t:ty; $($(#[$a:meta])* $c:ident = $v:expr $(, $doc:literal)?;)*) => {
        /// The offsets with their names.
        pub const NAMES: &[($t, &str)] = &[$(($c, stringify!($c))),*];
    };
    (@const [$($a:tt)*] $c:ident = $v:expr; $t:ty $(, $default:ty)?) => {
        $($a)*
        pub const $c: $t = $v;
    };

    (@field $T:ident $len:literal $field:ident bits $at:literal, $hi:literal, $lo:literal) => {
        #[doc = concat!(
            "Bits ", stringify!($hi), ":", stringify!($lo),
            " of the double word at ", stringify!($at), "."
        )]
        pub const $field: $crate::mlx5::command::Bits<$T> = {
            assert!($at + 4 <= $len);
            $crate::mlx5::command::Bits::new($at, $hi, $lo)
        };
    };
    (@field $T:ident $len:literal $field:ident quad $at:literal) => {
        #[doc = concat!("Eight bytes at ", stringify!($at), ".")]
        pub const $field: $crate::mlx5::command::Quad<$T> = {
            assert!($at + 8 <= $len);
            $crate::mlx5::command::Quad::new($at)
        };
    };
    (@field $T:ident $len:literal $field:ident part $at:literal, $U:ty) => {
        #[doc = concat!("A [`", stringify!($U), "`] at ", stringify!($at), ".")]
        pub const $field: $crate::mlx5::command::Part<$T, $U> = {
            assert!($at + size_of::<$U>() <= $len);
            $crate::mlx5::command::Part::new($at)
        };
    };
}
