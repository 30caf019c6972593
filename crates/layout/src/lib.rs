//! Registers, descriptors and messages of each NIC, one module each.
//!
//! A layout is declared once, with its size checked at compile time and its
//! endianness in the type; driver and device both use it. Nothing here behaves.
#![no_std]
#![forbid(unsafe_code)]

pub mod e1000;
