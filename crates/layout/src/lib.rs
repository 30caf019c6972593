//! Registers, descriptors and messages of each NIC, one module each.
//!
//! Driver and device both take their formats from here, so a format is declared once:
//! its size is asserted at compile time and its endianness is in its types. The functions `can`
//! tell what the device's offloads can do ([`offload`]). There is no other behaviour in this crate.
//!
//! ```
//! use doorbell_layout::e1000::{DESCRIPTOR, LegacyTx};
//!
//! let descriptor = LegacyTx::new(0x10_0000, 60, LegacyTx::EOP | LegacyTx::RS);
//! assert_eq!(size_of_val(&descriptor), DESCRIPTOR as usize);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod declare;

/// Returns the name of the register at `offset`: the first that is there.
fn name_of(offset: u32, names: &[(u32, &'static str)]) -> Option<&'static str> {
    names.iter().find(|(at, _)| *at == offset).map(|(_, name)| *name)
}

/// A hypervisor call of an adapter. Lists, counts and prices take its names from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number (`hal::Hcall`).
    pub number: u64,
    /// The name of its count: `hcall_send`.
    pub name: &'static str,
    /// The key of its price, where it has one: `hcall.send`.
    pub price: &'static str,
    /// The meaning, in a sentence.
    pub about: &'static str,
}

/// Lists calls: number, name and meaning.
macro_rules! calls {
    ($($number:path, $name:ident, $about:literal;)*) => {
        [$($crate::Call {
            number: $number,
            name: concat!("hcall_", stringify!($name)),
            price: concat!("hcall.", stringify!($name)),
            about: $about,
        }),*]
    };
}

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
pub mod offload;
