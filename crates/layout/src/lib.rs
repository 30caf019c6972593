//! Registers, descriptors and messages of each NIC, one module each.
//!
//! Driver and device both take their formats from here, so a format is declared once:
//! its size is asserted at compile time and its endianness is in its types.
//! There is no behaviour in this crate.
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod declare;

pub mod axienet;
pub mod e1000;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
