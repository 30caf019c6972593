//! A host behind one type: C knows no generics.

use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, MapError, Mapped, OutOfMemory, Reg,
    Span, Time,
};
use std::ops::Range;

/// A [`Host`] whose calls C can make.
pub(crate) trait Machine {
    fn read32(&mut self, r: Reg) -> u32;
    fn write32(&mut self, r: Reg, v: u32);
    fn write64(&mut self, r: Reg, v: u64);
    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory>;
    fn release(&mut self, b: Buf);
    fn get(&mut self, b: &Buf, range: Range<u32>, to: &mut [u8]);
    fn put(&mut self, b: &Buf, range: Range<u32>, from: &[u8]);
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError>;
    fn unmap(&mut self, m: Mapped) -> Buf;
    fn peek(&mut self, m: &Mapped, range: Range<u32>, to: &mut [u8]);
    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory>;
    fn release_coherent(&mut self, c: Coherent);
    fn load8(&mut self, c: &Coherent, at: u32) -> u8;
    fn load16(&mut self, c: &Coherent, at: u32) -> u16;
    fn load32(&mut self, c: &Coherent, at: u32) -> u32;
    fn load64(&mut self, c: &Coherent, at: u32) -> u64;
    fn store8(&mut self, c: &Coherent, at: u32, v: u8);
    fn store16(&mut self, c: &Coherent, at: u32, v: u16);
    fn store32(&mut self, c: &Coherent, at: u32, v: u32);
    fn store64(&mut self, c: &Coherent, at: u32, v: u64);
    fn fence(&mut self, f: Fence);
    fn charge(&mut self, w: CpuWork);
    fn relax(&mut self);
    fn delay(&mut self, d: Span);
    fn now(&self) -> Time;
}

/// Passes calls to the host beneath.
macro_rules! pass {
    ($($name:ident($($arg:ident: $of:ty),*) $(-> $to:ty)?;)*) => {
        $(fn $name(&mut self, $($arg: $of),*) $(-> $to)? {
            Host::$name(self, $($arg),*)
        })*
    };
}

/// Loads and stores of one size.
macro_rules! words {
    ($($load:ident $store:ident $word:ty;)*) => {
        $(fn $load(&mut self, c: &Coherent, at: u32) -> $word {
            Host::load(self, c, at)
        }
        fn $store(&mut self, c: &Coherent, at: u32, v: $word) {
            Host::store(self, c, at, v);
        })*
    };
}

impl<H: Host> Machine for H {
    pass! {
        read32(r: Reg) -> u32;
        write32(r: Reg, v: u32);
        write64(r: Reg, v: u64);
        buffer(len: u32, place: Alignment) -> Result<Buf, OutOfMemory>;
        release(b: Buf);
        map(b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError>;
        unmap(m: Mapped) -> Buf;
        coherent(len: u32, align: u32) -> Result<Coherent, OutOfMemory>;
        release_coherent(c: Coherent);
        fence(f: Fence);
        charge(w: CpuWork);
        relax();
        delay(d: Span);
    }
    words! {
        load8 store8 u8;
        load16 store16 u16;
        load32 store32 u32;
        load64 store64 u64;
    }
    fn get(&mut self, b: &Buf, range: Range<u32>, to: &mut [u8]) {
        self.bytes(b, range, |bytes| to.copy_from_slice(bytes));
    }
    fn put(&mut self, b: &Buf, range: Range<u32>, from: &[u8]) {
        self.bytes_mut(b, range, |bytes| bytes.copy_from_slice(from));
    }
    fn peek(&mut self, m: &Mapped, range: Range<u32>, to: &mut [u8]) {
        Host::peek(self, m, range, |bytes| to.copy_from_slice(bytes));
    }
    fn now(&self) -> Time {
        Host::now(self)
    }
}
