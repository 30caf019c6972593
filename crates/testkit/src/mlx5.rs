//! Harnesses for the mlx5 device alone, generic over the device: [`CommandHarness`] writes firmware
//! commands byte by byte, [`DeviceHarness`] WQEs and doorbells. Their port records every access and
//! fails the test on a forbidden one.

mod command_harness;
mod device_harness;
mod loopback;
mod port;

pub use command_harness::{Answer, CommandHarness, Common, Written};
pub use device_harness::DeviceHarness;
pub use port::{Access, RecordingPort};
