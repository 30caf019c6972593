//! The `doorbell` command.
#![forbid(unsafe_code)]

fn main() {}
