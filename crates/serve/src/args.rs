//! The arguments of the command.

use clap::{Args as Group, value_parser};
use doorbell_console::output::Output;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of the command.
#[derive(Group, Debug)]
pub struct Serve {
    /// e1000 (82540EM), e1000-82544gc, e1000-82545em, e1000-82574l, mlx5, axi-ethernet; behind
    /// hypervisor calls: vnic, veth
    pub device: String,
    /// Socket for the virtual machine; it is created, and removed at the end
    #[arg(long, value_name = "PATH", conflicts_with = "plugin_socket")]
    pub socket: Option<PathBuf>,
    /// vnic, veth: socket for the QEMU plug-in, instead of --socket
    #[arg(long, value_name = "PATH")]
    pub plugin_socket: Option<PathBuf>,
    /// vnic, veth: number of guests, each with an adapter
    #[arg(long, value_name = "N", default_value_t = PARTITIONS)]
    #[arg(value_parser = value_parser!(u8).range(1..=16))]
    pub partitions: u8,
    /// vnic, veth: unit address of the adapters, by default 30000003 and 30000002. The addresses of
    /// one guest differ in bits 12 to 15, those of its vNICs in bit 12
    #[arg(long, value_name = "ADDRESS")]
    pub unit: Option<String>,
    /// veth: the adapter of partition 0 is the trunk of the LAN, the way out for all others;
    /// nothing else is behind the switch
    #[arg(long)]
    pub trunk: bool,
    /// vnic, veth: the adapter behind the server or the uplink freezes at a large send with a
    /// smaller MSS, as real ones do below 224; 0: any MSS
    #[arg(long, value_name = "MSS", default_value_t = 0)]
    pub min_lso_mss: u16,
    /// vnic, veth: a guest may change its MAC address to one that no other guest has. By default it
    /// keeps the first that it takes until it has gone
    #[arg(long)]
    pub allow_mac_change: bool,
    /// vnic, veth: a guest may get frames for other addresses than its own, as a bridge in it needs
    /// them. vnic grants promiscuous reception; veth learns the addresses from which it sends
    #[arg(long)]
    pub allow_promiscuous: bool,
    /// vnic: a named pipe that accepts one command per line: failover, migrate, error, link up,
    /// link down; then the number of the partition unless it is 0
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// The other end of the wire: tap:NAME, pcap:FILE, reflect, socket:PATH, none
    #[arg(long, value_name = "UPLINK", default_value = "none")]
    pub uplink: String,
    /// Count by the rules of another bus than the card's own: pci32, pci64, pcix, pcie1x1,
    /// pcie2x16, pcie3x16, axi
    #[arg(long, value_name = "BUS")]
    pub bus: Option<String>,
    /// MAC address, such as 52:54:00:db:00:01. vnic, veth: one for each partition, with commas
    /// between them, in the order in which guests connect; a guest then takes no other, and nobody
    /// takes that of a guest that has not come yet. By default several partitions have
    /// 52:54:00:db:00:01 and the next, and one takes what its guest says
    #[arg(long, value_name = "ADDRESS")]
    pub mac: Option<String>,
    /// Write the frames on the wire to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// End the capture before it is larger than this
    #[arg(long, value_name = "MIB", requires = "capture")]
    #[arg(value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub capture_limit: Option<u64>,
    /// End with 1 if a frame left by an offload with a wrong checksum, network or transport, inner
    /// or outer
    #[arg(long)]
    pub check_wire: bool,
    /// Write every crossing with its time to this file (for Perfetto)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// End the trace before it is larger than this
    #[arg(long, value_name = "MIB", requires = "trace")]
    #[arg(value_parser = value_parser!(u64).range(1..=1 << 40))]
    pub trace_limit: Option<u64>,
    /// Allocate a guest's memory when it is handed over (MADV_POPULATE_WRITE). Memory that has run
    /// out is refused then, and does not end the guest's connection later
    #[arg(long)]
    pub populate: bool,
    /// Leave the sandbox out, in which the server opens no file, runs no program and makes a few
    /// system calls
    #[arg(long)]
    pub no_sandbox: bool,
    /// Serve the counts as a Prometheus page at this address, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// mlx5: trap every doorbell, so that each leaves the guest's CPU and is counted; by default
    /// doorbell pages are memory that is polled
    #[arg(long)]
    pub trap_doorbells: bool,
    /// mlx5: one WQE in N fails, to see the driver recover
    #[arg(long, value_name = "wqe@N")]
    pub fault: Option<String>,
    /// The limits of clients.
    #[command(flatten)]
    pub limits: ClientLimits,
    /// The ledger is printed at the end and on SIGUSR1
    #[command(flatten)]
    pub output: Output<1>,
}

/// Defaults of options that some devices do not have.
pub(crate) const PARTITIONS: u8 = 1;
pub(crate) const NEWCOMERS: u8 = 8;
pub(crate) const REPLY_TIMEOUT: u16 = 5;

/// Heading of [`ClientLimits`] in help.
const LIMITS: &str = "Limits of clients";

/// The number of clients of a server, and their times.
#[derive(Group, Clone, Copy, Debug)]
pub struct ClientLimits {
    /// The time in which a new client has to introduce itself
    #[arg(long, value_name = "SECONDS", default_value_t = 5, help_heading = LIMITS)]
    #[arg(value_parser = value_parser!(u16).range(1..=3600))]
    pub hello_timeout: u16,
    /// The longest time for which a vfio-user client keeps the server waiting in one turn, with DMA
    /// by messages and replies that it does not read
    #[arg(long, value_name = "SECONDS", default_value_t = REPLY_TIMEOUT, help_heading = LIMITS)]
    #[arg(value_parser = value_parser!(u16).range(1..=3600))]
    pub reply_timeout: u16,
    /// vnic, veth: the most clients that have not introduced themselves; the oldest goes first
    #[arg(long, value_name = "N", default_value_t = NEWCOMERS, help_heading = LIMITS)]
    #[arg(value_parser = value_parser!(u8).range(1..))]
    pub newcomers: u8,
    /// The most connections to --metrics
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = LIMITS)]
    #[arg(value_parser = value_parser!(u8).range(1..), requires = "metrics")]
    pub metrics_clients: u8,
    /// The longest time for a request to --metrics
    #[arg(long, value_name = "SECONDS", default_value_t = 1, help_heading = LIMITS)]
    #[arg(value_parser = value_parser!(u16).range(1..=3600), requires = "metrics")]
    pub metrics_timeout: u16,
}

impl ClientLimits {
    /// Returns the time in which a new client has to introduce itself.
    pub fn hello(&self) -> Duration {
        Duration::from_secs(self.hello_timeout.into())
    }
}
