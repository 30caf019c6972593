//! .

pub mod netns;
pub mod tap;
