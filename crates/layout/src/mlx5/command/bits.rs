//! Messages as tables: a type of so many bytes, and where in it each field is.
//!
//! ```text
//! messages! {
//!     /// Event queue context.
//!     Eqc[0x40] { LOG_SIZE = bits(0x0c, 28, 24), DBR = quad(0x38), WQ = part(0x30, Wq) }
//! }
//! ```
//!
//! makes a type `Eqc` and, for each field, a constant of it that says where: bits
//! of the big-endian double word at a byte offset, eight bytes, or another message
//! inside. `get`, `set`, `quad`, `set_quad`, `part` and `part_mut` take them. A
//! field of one message cannot be asked of another.

use core::marker::PhantomData;

/// Bits \[hi:lo\] of the double word at byte `at` of a `T`.
#[derive(Debug)]
pub struct Bits<T> {
    /// Byte offset of the double word.
    pub at: usize,
    hi: u32,
    lo: u32,
    of: PhantomData<fn() -> T>,
}

/// Eight bytes at an offset of a `T`.
#[derive(Debug)]
pub struct Quad<T> {
    /// Byte offset.
    pub at: usize,
    of: PhantomData<fn() -> T>,
}

/// A `U` at an offset of a `T`.
#[derive(Debug)]
pub struct Part<T, U> {
    /// Byte offset.
    pub at: usize,
    of: PhantomData<fn() -> (T, U)>,
}

impl<T> Clone for Bits<T> {
    fn clone(&self) -> Bits<T> {
        *self
    }
}
impl<T> Copy for Bits<T> {}

impl<T> Bits<T> {
    /// Where.
    pub const fn new(at: usize, hi: u32, lo: u32) -> Bits<T> {
        assert!(at.is_multiple_of(4) && hi >= lo && hi < 32);
        Bits { at, hi, lo, of: PhantomData }
    }
    const fn mask(&self) -> u32 {
        u32::MAX >> (31 - (self.hi - self.lo))
    }
    /// The largest value it holds.
    pub const fn max(&self) -> u32 {
        self.mask()
    }
    pub(super) fn read(&self, bytes: &[u8]) -> u32 {
        be32(bytes, self.at) >> self.lo & self.mask()
    }
    pub(super) fn write(&self, bytes: &mut [u8], v: u32) {
        debug_assert!(v <= self.mask(), "{v:#x} in bits {}:{} at {:#x}", self.hi, self.lo, self.at);
        let old = be32(bytes, self.at) & !(self.mask() << self.lo);
        bytes[self.at..self.at + 4]
            .copy_from_slice(&(old | (v & self.mask()) << self.lo).to_be_bytes());
    }
}

impl<T> Quad<T> {
    /// Where.
    pub const fn new(at: usize) -> Quad<T> {
        assert!(at.is_multiple_of(4));
        Quad { at, of: PhantomData }
    }
}

impl<T, U> Part<T, U> {
    /// Where.
    pub const fn new(at: usize) -> Part<T, U> {
        Part { at, of: PhantomData }
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

macro_rules! messages {
    ($($(#[doc = $doc:literal])+ $T:ident[$len:literal] { $($field:ident = $kind:ident($($arg:tt),*)),* $(,)? })*) => { $(
        $(#[doc = $doc])+
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(transparent)]
        pub struct $T(pub [u8; $len]);

        impl $T {
            /// All zero.
            pub const ZERO: $T = $T([0; $len]);
            /// Bytes.
            pub const LEN: usize = $len;
            $(messages!(@field $T $len $field $kind $($arg),*);)*

            /// A field.
            #[allow(dead_code, reason = "not every message has one")]
            pub fn get(&self, f: $crate::mlx5::command::Bits<$T>) -> u32 {
                f.read(&self.0)
            }
            /// Sets a field.
            #[allow(dead_code, reason = "not every message has one")]
            pub fn set(&mut self, f: $crate::mlx5::command::Bits<$T>, v: u32) -> &mut $T {
                f.write(&mut self.0, v);
                self
            }
            /// Eight bytes.
            pub fn quad(&self, f: $crate::mlx5::command::Quad<$T>) -> u64 {
                u64::from_be_bytes(core::array::from_fn(|i| self.0[f.at + i]))
            }
            /// Sets eight bytes.
            pub fn set_quad(&mut self, f: $crate::mlx5::command::Quad<$T>, v: u64) -> &mut $T {
                self.0[f.at..f.at + 8].copy_from_slice(&v.to_be_bytes());
                self
            }
            /// A message inside.
            pub fn part<U: zerocopy::FromBytes + zerocopy::Unaligned + zerocopy::Immutable + zerocopy::KnownLayout>(
                &self, f: $crate::mlx5::command::Part<$T, U>,
            ) -> &U {
                match U::ref_from_bytes(&self.0[f.at..f.at + size_of::<U>()]) {
                    Ok(u) => u,
                    Err(_) => unreachable!("the slice has the size of U, which has no alignment"),
                }
            }
            /// A message inside, to change.
            pub fn part_mut<U: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Unaligned + zerocopy::KnownLayout>(
                &mut self, f: $crate::mlx5::command::Part<$T, U>,
            ) -> &mut U {
                match U::mut_from_bytes(&mut self.0[f.at..f.at + size_of::<U>()]) {
                    Ok(u) => u,
                    Err(_) => unreachable!("the slice has the size of U, which has no alignment"),
                }
            }
        }
    )* };
    (@field $T:ident $len:literal $field:ident bits $at:literal, $hi:literal, $lo:literal) => {
        #[doc = concat!("Bits ", stringify!($hi), ":", stringify!($lo), " of the double word at ", stringify!($at), ".")]
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
pub(super) use messages;
