//! PCI enumeration, as a BIOS does it: sizes and places base address registers through the I/O
//! ports of mechanism #1 (PCI local bus specification 3.0, sections 3.2.2.3.2, 6.2.1, 6.2.5.1).

use super::{Error, Qemu};

/// A function on bus 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// 0 to 31.
    pub device: u8,
    /// 0 to 7.
    pub function: u8,
}

/// A placed base address register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bar {
    /// A memory region at this physical address.
    Memory(u64),
    /// A region of I/O ports.
    Io(u16),
}

/// The free addresses for regions; placing one advances them.
#[derive(Debug)]
pub struct Apertures {
    /// Next free memory address.
    pub memory: u64,
    /// Next free I/O port.
    pub io: u16,
}

impl Apertures {
    /// Returns the free addresses of QEMU's `pc` with less than 3.5 GiB of memory.
    pub const fn pc() -> Apertures {
        Apertures { memory: 0xe000_0000, io: 0xc000 }
    }
}

/// Vendor in the low half, device in the high half.
pub(super) const ID: u8 = 0x00;
const COMMAND: u8 = 0x04;
const COMMAND_IO: u32 = 1;
const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const BAR0: u8 = 0x10;
const BARS: usize = 6;
const BAR_IS_IO: u32 = 1;
const BAR_IS_64_BIT: u32 = 1 << 2;

const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;

impl Function {
    fn select(self, q: &mut Qemu, offset: u8) -> Result<(), Error> {
        let place = u32::from(self.device & 31) << 11
            | u32::from(self.function & 7) << 8
            | u32::from(offset & 0xfc);
        q.out32(CONFIG_ADDRESS, 1 << 31 | place)
    }

    /// Reads the 32 bits of configuration space that hold `offset`.
    ///
    /// # Errors
    /// As [`Qemu`]'s; so do all that follow.
    pub fn read(self, q: &mut Qemu, offset: u8) -> Result<u32, Error> {
        self.select(q, offset)?;
        q.in32(CONFIG_DATA)
    }

    /// Writes them.
    pub fn write(self, q: &mut Qemu, offset: u8, v: u32) -> Result<(), Error> {
        self.select(q, offset)?;
        q.out32(CONFIG_DATA, v)
    }

    /// Gives every base address register an address from `free`. The result is
    /// by number of the register; the second half of a 64-bit one is `None`.
    pub fn place_bars(
        self,
        q: &mut Qemu,
        free: &mut Apertures,
    ) -> Result<[Option<Bar>; BARS], Error> {
        let mut bars = [None; BARS];
        let mut n = 0;
        while n < BARS {
            let offset = BAR0 + 4 * n as u8;
            self.write(q, offset, !0)?;
            // The bits that stay zero give the size; the low ones are flags.
            let answer = self.read(q, offset)?;
            let wide = answer & BAR_IS_IO == 0 && answer & BAR_IS_64_BIT != 0;
            if answer & BAR_IS_IO != 0 {
                let size = (!(answer & !3)).wrapping_add(1) as u16;
                let at = free.io.next_multiple_of(size.max(1));
                self.write(q, offset, at.into())?;
                free.io = at + size;
                bars[n] = Some(Bar::Io(at));
            } else if answer & !0xf != 0 {
                let size = u64::from((!(answer & !0xf)).wrapping_add(1));
                let at = free.memory.next_multiple_of(size);
                self.write(q, offset, at as u32)?;
                if wide {
                    self.write(q, offset + 4, (at >> 32) as u32)?;
                }
                free.memory = at + size;
                bars[n] = Some(Bar::Memory(at));
            }
            n += if wide { 2 } else { 1 };
        }
        Ok(bars)
    }

    /// Lets the function answer accesses, and master the bus (DMA).
    pub fn enable(self, q: &mut Qemu) -> Result<(), Error> {
        let command = self.read(q, COMMAND)? & 0xffff;
        self.write(q, COMMAND, command | COMMAND_IO | COMMAND_MEMORY | COMMAND_MASTER)
    }
}
