//! The host's side of an experiment: capture files, TAP devices, network namespaces, raw sockets,
//! Open vSwitch, child processes, memory shared with another process. Nothing here knows a NIC.

pub mod child;
pub mod netns;
pub mod ovs;
pub mod packet_socket;
pub mod pcap;
pub mod shared;
pub mod tap;
