//! .

pub mod tshark;
