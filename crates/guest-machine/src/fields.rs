//! Values as numbers, for a text that is written and read by one declaration.

use doorbell_bus::axi;
use doorbell_bus::pci::{Devsel, Protocol};
use doorbell_bus::pcie::{Completions, Gap};
use doorbell_devices::axi_ethernet::Checksum;
use doorbell_devices::e1000::{Slot, Speed, Variant};
use doorbell_hal::Span;
use doorbell_layout::mlx5::CompressionLayout;
use std::net::Ipv4Addr;

/// A value that a number stands for.
pub(crate) trait Number {
    /// Returns the number.
    fn number(&self) -> u64;
    /// Takes the value of the number. Returns `None` if there is none.
    fn take(&mut self, n: u64) -> Option<()>;
}

/// A pass over the values of a plan, which reads or replaces them.
pub(crate) trait Pass {
    /// Handles the value of this name.
    fn field(&mut self, name: &'static str, value: &mut dyn Number);
}

/// Handles fields by their names.
macro_rules! fields {
    ($to:ident, $prefix:literal, $from:ident: $($field:ident)*) => {
        $($to.field(concat!($prefix, stringify!($field)), &mut $from.$field);)*
    };
}
pub(crate) use fields;

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn number(&self) -> u64 {
                u64::from(*self)
            }
            fn take(&mut self, n: u64) -> Option<()> {
                *self = n.try_into().ok()?;
                Some(())
            }
        }
    )*};
}
integers!(u8 u16 u32 u64);

impl Number for bool {
    fn number(&self) -> u64 {
        u64::from(*self)
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = [false, true].get(n as usize).copied()?;
        Some(())
    }
}

impl Number for Span {
    fn number(&self) -> u64 {
        self.ps()
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = Span::from_ps(n);
        Some(())
    }
}

impl Number for Ipv4Addr {
    fn number(&self) -> u64 {
        self.to_bits().into()
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = Ipv4Addr::from_bits(n.try_into().ok()?);
        Some(())
    }
}

/// An Ethernet address.
impl Number for [u8; 6] {
    fn number(&self) -> u64 {
        self.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }
    fn take(&mut self, n: u64) -> Option<()> {
        let [0, 0, address @ ..] = n.to_be_bytes() else { return None };
        *self = address;
        Some(())
    }
}

/// Eight bytes, the first the highest.
impl Number for [u8; 8] {
    fn number(&self) -> u64 {
        u64::from_be_bytes(*self)
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = n.to_be_bytes();
        Some(())
    }
}

/// Bits, of which none is set where there are none.
impl Number for Option<u64> {
    fn number(&self) -> u64 {
        self.unwrap_or(0)
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = Some(n).filter(|n| *n != 0);
        Some(())
    }
}

/// Declares the values of a type in an order in which their places are the numbers.
macro_rules! choices {
    ($($type:ty { $($value:ident),+ })*) => {$(
        impl Number for $type {
            fn number(&self) -> u64 {
                let all = [$(<$type>::$value),+];
                all.iter().position(|v| v == self).unwrap_or(all.len()) as u64
            }
            fn take(&mut self, n: u64) -> Option<()> {
                *self = [$(<$type>::$value),+].get(n as usize).copied()?;
                Some(())
            }
        }
    )*};
}
choices! {
    axi::Protocol { Axi3, Axi4 }
    Checksum { None, CsumPartial, Full }
    Devsel { Fast, Medium, Slow, Subtractive }
    Gap { None, Dllp, Completion, Packed }
    Variant { I82544Gc, I82540Em, I82545Em, I82574L }
    Speed { M10, M100, M1000 }
}

/// Clocks of a latency timer, of which 0 is none.
impl Number for Option<u32> {
    fn number(&self) -> u64 {
        self.unwrap_or(0).into()
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = Some(n.try_into().ok()?).filter(|n| *n != 0);
        Some(())
    }
}

/// The layout of compressed completions, of which 0 is none.
impl Number for Option<CompressionLayout> {
    fn number(&self) -> u64 {
        match self {
            None => 0,
            Some(CompressionLayout::Basic) => 1,
            Some(CompressionLayout::Enhanced) => 2,
        }
    }
    fn take(&mut self, n: u64) -> Option<()> {
        let all = [None, Some(CompressionLayout::Basic), Some(CompressionLayout::Enhanced)];
        *self = all.get(n as usize).copied()?;
        Some(())
    }
}

/// Bytes of the read completion boundary, of which 0 is none.
impl Number for Completions {
    fn number(&self) -> u64 {
        match self {
            Completions::Rcb(bytes) => (*bytes).into(),
            Completions::Merged => 0,
        }
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = match n.try_into().ok()? {
            0 => Completions::Merged,
            bytes => Completions::Rcb(bytes),
        };
        Some(())
    }
}

/// 0 and 1: conventional, with delayed reads if 1. Others: bytes of a split read, and in the low 8
/// bits those under way.
impl Number for Protocol {
    fn number(&self) -> u64 {
        match *self {
            Protocol::Conventional { delayed } => delayed.into(),
            Protocol::X { mmrbc, outstanding } => u64::from(mmrbc) << 8 | u64::from(outstanding),
        }
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = match n {
            0 | 1 => Protocol::Conventional { delayed: n == 1 },
            _ => Protocol::X { mmrbc: (n >> 8).try_into().ok()?, outstanding: n as u32 & 0xff },
        };
        Some(())
    }
}

/// 0 to 3: conventional, bit 0 for 66 MHz and bit 1 for 64 bits. From 4 on: PCI-X of a class. From
/// 7 on: PCI Express, with the line or with messages.
impl Number for Slot {
    fn number(&self) -> u64 {
        match *self {
            Slot::Pci { mhz66, wide } => u64::from(mhz66) | u64::from(wide) << 1,
            Slot::PciX { clock } => 4 + u64::from(clock),
            Slot::Express { msi } => 7 + u64::from(msi),
        }
    }
    fn take(&mut self, n: u64) -> Option<()> {
        *self = match n {
            0..4 => Slot::Pci { mhz66: n & 1 != 0, wide: n & 2 != 0 },
            4..7 => Slot::PciX { clock: n as u8 - 4 },
            7 | 8 => Slot::Express { msi: n == 8 },
            _ => return None,
        };
        Some(())
    }
}
