//! .

pub mod pcap;
