//! The host side of an experiment: capture files, TAP devices, network namespaces, raw sockets,
//! Open vSwitch, child processes, memory shared with another process, files of text. Nothing here
//! knows a NIC.
//!
//! ```
//! use doorbell_host_io::pcap::{Writer, read};
//!
//! let dir = tempfile::tempdir()?;
//! let file = dir.path().join("frames.pcapng");
//! let mut capture = Writer::create(&file)?;
//! let wire = capture.interface("wire", 1_000_000_000)?;
//! capture.frame(wire, doorbell_hal::Time::ZERO, &[0; 60])?;
//! capture.finish()?;
//! assert_eq!(read(&file).expect("a capture").frames.len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "host")]
pub mod child;
pub mod files;
#[cfg(feature = "host")]
pub mod large_sends;
#[cfg(feature = "host")]
pub mod netns;
#[cfg(feature = "host")]
pub mod offload;
#[cfg(feature = "host")]
pub mod ovs;
#[cfg(feature = "host")]
pub mod packet_socket;
#[cfg(feature = "host")]
pub mod pcap;
#[cfg(feature = "host")]
pub mod records;
#[cfg(feature = "host")]
pub mod sandbox;
pub mod shared;
#[cfg(feature = "host")]
pub mod tap;

/// Turns the status of a C function into an error if it is negative.
fn check(status: libc::c_int) -> std::io::Result<()> {
    if status < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
