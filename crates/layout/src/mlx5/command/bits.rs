//! Places of the fields in a firmware message, as `layout!` declares them.
//!
//! A place belongs to one message type: a field of one message cannot be asked of another.

use core::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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

/// A message that may stand inside another: plain bytes without an alignment.
pub trait Inner: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {}
impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned> Inner for T {}

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
    /// Bits \[hi:lo\] of the double word at byte `at`.
    pub const fn new(at: usize, hi: u32, lo: u32) -> Bits<T> {
        assert!(at.is_multiple_of(4) && hi >= lo && hi < 32);
        Bits { at, hi, lo, of: PhantomData }
    }
    /// Returns the largest value it holds.
    pub const fn max(&self) -> u32 {
        u32::MAX >> (31 - (self.hi - self.lo))
    }
    pub(crate) fn read(&self, bytes: &[u8]) -> u32 {
        be32(bytes, self.at) >> self.lo & self.max()
    }
    pub(crate) fn write(&self, bytes: &mut [u8], v: u32) {
        debug_assert!(v <= self.max(), "{v:#x} in bits {}:{} at {:#x}", self.hi, self.lo, self.at);
        let old = be32(bytes, self.at) & !(self.max() << self.lo);
        bytes[self.at..self.at + 4]
            .copy_from_slice(&(old | (v & self.max()) << self.lo).to_be_bytes());
    }
}

impl<T> Quad<T> {
    /// At byte `at`.
    pub const fn new(at: usize) -> Quad<T> {
        assert!(at.is_multiple_of(4));
        Quad { at, of: PhantomData }
    }
}

impl<T, U> Part<T, U> {
    /// At byte `at`.
    pub const fn new(at: usize) -> Part<T, U> {
        Part { at, of: PhantomData }
    }
}

impl<T, U: Inner> Part<T, U> {
    pub(crate) fn get<'a>(&self, bytes: &'a [u8]) -> &'a U {
        U::ref_from_prefix(&bytes[self.at..]).expect("it is inside and has no alignment").0
    }
    pub(crate) fn get_mut<'a>(&self, bytes: &'a mut [u8]) -> &'a mut U {
        U::mut_from_prefix(&mut bytes[self.at..]).expect("it is inside and has no alignment").0
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
