//! .

pub mod figures;
