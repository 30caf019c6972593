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

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
pub mod offload;
