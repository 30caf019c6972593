//! The outside world, as far as Doorbell touches it: capture files, TAP devices,
//! network namespaces, raw sockets, Open vSwitch, QEMU's qtest, memory shared with another process,
//! vfio-user.
//!
//! Nothing here knows a NIC. What implements a side of the seam (a
//! [`Host`](doorbell_seam::Host) or a [`Port`](doorbell_seam::Port)) does so for
//! any driver or device.

pub mod child;
pub mod hcalls;
pub mod netns;
pub mod ovs;
pub mod packet_socket;
pub mod pcap;
pub mod qtest;
pub mod shared;
pub mod tap;
pub mod vfio_user;
