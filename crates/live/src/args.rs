//! The arguments of the command.

use clap::{Args as Group, ValueEnum, value_parser};
use doorbell_console::output::Output;
use std::path::PathBuf;

/// Ways of a packet to the hypervisor.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transmit {
    /// Mapped for the time of the call (Linux until 6.0)
    Map,
    /// Copied to a buffer that stays mapped (Linux since 6.1)
    Copy,
}

/// Forms of a large send.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LargeSend {
    /// The segment size is an argument of the call
    Firmware,
    /// The segment size is in the checksum fields
    Old,
}

/// The arguments of the command.
#[derive(Group, Debug)]
pub struct Live {
    /// ibmveth: VM, logical LAN, trunk, Open vSwitch, NIC, network
    #[arg(value_name = "SYSTEM", default_value = "ibmveth")]
    pub system: String,
    /// Seconds of traffic in each state, through ibmveth and bare each
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// The network sends, the VM receives
    #[arg(long)]
    pub reverse: bool,
    /// Way of a packet from driver to hypervisor
    #[arg(long, value_enum, default_value = "map")]
    pub transmit: Transmit,
    /// Form of large sends, where offloads are on
    #[arg(long, value_enum, default_value = "firmware")]
    pub large_send: LargeSend,
    /// Bytes that one H_SEND_LOGICAL_LAN copies before it returns H_BUSY; by default, all
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u32).range(1024..))]
    pub slice: Option<u32>,
    /// Receive buffers of 64 KiB of each adapter
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = value_parser!(u32).range(16..=256))]
    pub large_buffers: u32,
    /// Give all measured processes a higher CPU priority
    #[arg(long)]
    pub urgent: bool,
    /// Write the inspected frames to the network host to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// The output.
    #[command(flatten)]
    pub output: Output<3>,
}
