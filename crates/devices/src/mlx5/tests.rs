//! Shared by the tests of this device: objects without commands, and frames.

mod direct;
pub(super) mod frames;
