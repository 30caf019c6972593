//! Any bytes as a guest, a device, a client or a file: the bodies of the fuzz targets, and their
//! seeds. Nothing that comes from outside harms what it meets.
//!
//! [`device`] lies to the five drivers; [`mlx5`], [`fuzz`], [`hcalls`] and [`vfio_user`] attack the
//! devices; [`settings`] and [`fuzz::pcap_read`] are files.

pub mod device;
pub mod fuzz;
pub mod hcalls;
pub mod mlx5;
pub mod settings;
pub mod vfio_user;
