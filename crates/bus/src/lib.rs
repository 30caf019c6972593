//! .
pub mod pcie;
pub mod timeline;
