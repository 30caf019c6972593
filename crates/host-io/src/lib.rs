//! The host side of an experiment: capture files, TAP devices, network namespaces, raw sockets,
//! Open vSwitch, child processes, memory shared with another process. Nothing here knows a NIC.

pub mod child;
pub mod netns;
pub mod ovs;
pub mod packet_socket;
pub mod pcap;
pub mod shared;
pub mod tap;

/// Turns the status of a C function into an error if it is negative.
fn check(status: libc::c_int) -> std::io::Result<()> {
    if status < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}
