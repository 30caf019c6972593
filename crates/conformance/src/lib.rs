//! .

pub mod e1000;
pub mod tshark;
