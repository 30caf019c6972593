//! The arguments.

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "doorbell",
    version,
    about = "Runs a NIC driver without the NIC, and shows what every packet costs",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Compute the published figures and say which hold
    Reproduce(Reproduce),
    /// Make a page of what `reproduce --out` or `run --out` left: report.html, which opens offline
    Report(Report),
    /// Run a scenario and show what crossed between CPU and wire
    Run(Run),
    /// Run two scenarios, or one with and without a change, side by side
    Compare(Compare),
    /// Run one scenario over all combinations of some keys' values
    Sweep(Sweep),
    /// Judge one choice of settings against others, over scenarios or seeds
    Judge(Judge),
    /// Hold a run, or the report of one, against a budget; exit 1 if it is broken
    Check(Check),
    /// List the bus transactions of one DMA transfer
    Transfer(Transfer),
    /// Serve a device to virtual machines, and count what their drivers do
    Serve(Serve),
    /// Run ibmveth live: real traffic through Open vSwitch, with and without offloads
    Live(Live),
    /// List systems, scenarios, profiles and devices; with --keys, what can be set
    List(List),
    /// Write a commented file to start from: a scenario, a profile or a budget
    #[command(subcommand)]
    New(New),
    /// Print the JSON Schema of such a file, for editors
    Schema {
        /// Of which
        what: Written,
    },
}

/// How results are printed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// How a budget is printed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CheckFormat {
    /// For people
    #[default]
    Table,
    /// For the summary of a CI run
    Markdown,
    /// For programs
    Json,
}

/// What changes a scenario.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Changes {
    /// Set a key of the scenario or its profile; later ones win. `list --keys` lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Seed, recorded with the result, and for faults drawn at random. pktgen and captures draw
    /// nothing
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Send the frames of this pcap or pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Capture: who computes TCP and UDP checksums: the device (csum), or nobody any more (none)
    #[arg(long, value_name = "csum|none")]
    pub(crate) offload: Option<String>,
    /// Capture: frames over the MTU are large sends, with segments of so many payload bytes
    #[arg(long, value_name = "MSS")]
    pub(crate) gso: Option<String>,
    /// Capture: send at the capture's own times, or as fast as the queue takes frames
    #[arg(long, value_name = "own|full")]
    pub(crate) times: Option<String>,
    /// Capture: send it so often
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<String>,
    /// What goes wrong meanwhile; may be repeated: lost-interrupt@N, late-completion@N:SPAN,
    /// poisoned-completion@N, dma-fault@N, link-flap@TIME:SPAN; N may be every=N or random=N
    /// (one in N), TIME every=TIME
    #[arg(long, value_name = "KIND@WHEN[:SPAN]")]
    pub(crate) fault: Vec<String>,
}

impl Changes {
    /// Whether anything is.
    pub(crate) fn any(&self) -> bool {
        let of_capture = [&self.offload, &self.gso, &self.times, &self.rounds];
        !self.sets.is_empty()
            || !self.fault.is_empty()
            || self.seed.is_some()
            || self.pcap.is_some()
            || of_capture.iter().any(|c| c.is_some())
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    /// Name of a scenario, or path of a .toml file
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Write the frames on the wire to this file (pcapng). With --out, a bare name goes there
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Write what the first packets go through to this file (Chrome's trace format, for
    /// ui.perfetto.dev). With --out, a bare name goes there
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Trace: so many packets
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000), requires = "trace")]
    pub(crate) trace_packets: u32,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Write result.json into this directory; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Compare {
    /// Name of a scenario, or path of a .toml file
    pub(crate) a: String,
    /// The other scenario; without it, A again, with --with
    #[arg(required_unless_present = "with")]
    pub(crate) b: Option<String>,
    /// Set a key in B alone
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) with: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How a sweep is printed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SweepFormat {
    /// For people
    #[default]
    Table,
    /// For documents
    Markdown,
    /// A line chart over the last --over key; earlier ones, and --across, are its lines
    Svg,
    /// For programs
    Json,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Sweep {
    /// Name of a scenario, or path of a .toml file
    pub(crate) scenario: String,
    /// A key and its values; each combination is a row
    #[arg(long, value_name = "KEY=V,V,...", required = true)]
    pub(crate) over: Vec<String>,
    /// A key whose values stand side by side; two of them with their difference
    #[arg(long, value_name = "KEY=V,V,...")]
    pub(crate) across: Option<String>,
    /// A number of the result (of a packet, a rate, latency_ns.p99), or a sum such as
    /// pcie_down_tlp_bytes+pcie_down_dllp_bytes
    #[arg(
        long,
        value_name = "NAME[+NAME]",
        default_value = "pcie_down_tlp_bytes+pcie_down_dllp_bytes"
    )]
    pub(crate) show: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: SweepFormat,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Judge {
    /// Names of scenarios, or paths of .toml files
    #[arg(required = true)]
    pub(crate) scenario: Vec<String>,
    /// Settings, with or without a name before them; the first side is judged against the others
    #[arg(long, value_name = "[NAME: ]KEY=V,KEY=V,...", required = true)]
    pub(crate) side: Vec<String>,
    /// A number of the result that is better when smaller. Worse in all of them is dominated
    #[arg(long, value_name = "NAME[+NAME]", required_unless_present = "series")]
    pub(crate) by: Vec<String>,
    /// A number that is shown beside them
    #[arg(long, value_name = "NAME[+NAME]")]
    pub(crate) show: Vec<String>,
    /// Differences up to this are none, in percent. A latency is known to 3.1
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) noise: f64,
    /// Run each scenario with each of these seeds, and show shares
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) seeds: Option<String>,
    /// Show a series of the result over time instead
    #[arg(long, value_name = "NAME", conflicts_with = "seeds")]
    pub(crate) series: Option<String>,
    /// Series: the mean of so many of its points, which are a millisecond apart
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) every: usize,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: SweepFormat,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Check {
    /// The budget, a .toml file
    pub(crate) budget: PathBuf,
    /// Do not run anything: hold what `run` or `serve` printed with --format json; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write what was measured into the budget, in place of what it allows
    #[arg(long)]
    pub(crate) update: bool,
    /// With --update: ceilings and floors with so much room
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, requires = "update")]
    pub(crate) room: f64,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: CheckFormat,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Reproduce {
    /// Systems; without any, all
    #[arg(value_name = "SYSTEM")]
    pub(crate) systems: Vec<String>,
    /// Fit on the other state of each experiment, and predict the first
    #[arg(long)]
    pub(crate) swap: bool,
    /// Move each constant, and show which figures follow
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Set a constant by hand, with or without a unit; later ones win
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Write reproduce.json and report.html, a page that opens offline, into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Report {
    /// A directory with reproduce.json or result.json, or directories with such
    pub(crate) dir: PathBuf,
}

#[derive(clap::Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["read", "write"]))]
pub(crate) struct Transfer {
    /// Name of a profile, or path of a .toml file
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: String,
    /// The device reads host memory
    #[arg(long)]
    pub(crate) read: bool,
    /// The device writes host memory
    #[arg(long)]
    pub(crate) write: bool,
    /// Bus address of the first byte, such as 0x100001e02
    #[arg(long, value_name = "ADDR")]
    pub(crate) at: String,
    /// How many bytes, 1 to 16 MiB
    #[arg(long, value_name = "N")]
    pub(crate) bytes: String,
    /// Set a key of the profile; later ones win
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// e1000 (82540EM), e1000-82544gc, e1000-82545em, mlx5, axi-ethernet; behind hypervisor calls:
    /// vnic, veth
    pub(crate) device: String,
    /// Where the virtual machine connects; the socket is made, and removed at the end
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "plugin_socket",
        conflicts_with = "plugin_socket"
    )]
    pub(crate) socket: Option<PathBuf>,
    /// vnic, veth: where QEMU's plug-in connects
    #[arg(long, value_name = "PATH")]
    pub(crate) plugin_socket: Option<PathBuf>,
    /// vnic, veth: how many guests, each with an adapter
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) partitions: u8,
    /// vnic, veth: the adapters' unit address in place of 30000003 and 30000002. Those of one
    /// guest differ in bits 12 to 15, those of its vNICs in bit 12
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) unit: Option<String>,
    /// veth: partition 0's adapter is the LAN's trunk, the way out for all others; nothing is
    /// behind the switch then
    #[arg(long)]
    pub(crate) trunk: bool,
    /// vnic: a named pipe that takes a command a line: failover, migrate, error, link up, link
    /// down; then, if not 0, the partition's number
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// The other end of the wire: tap:NAME, pcap:FILE, reflect, socket:PATH, none
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(crate) uplink: String,
    /// Count by another bus's rules than the card's own: pci32, pci64, pcix, pcie2x8, pcie3x16,
    /// axi
    #[arg(long, value_name = "BUS")]
    pub(crate) bus: Option<String>,
    /// Station address, such as 52:54:00:db:00:01
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) mac: Option<String>,
    /// Write the frames on the wire to this file (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Write every crossing with its time to this file (for Perfetto)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Show the counts as a Prometheus page here, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
    /// How the ledger is printed, at the end and on SIGUSR1
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// mlx5: every doorbell leaves the guest's CPU, and each is counted; without it they are
    /// memory that is looked at
    #[arg(long)]
    pub(crate) trap_doorbells: bool,
    /// mlx5: one WQE in N fails, to see the driver recover
    #[arg(long, value_name = "wqe@N")]
    pub(crate) fault: Option<String>,
    /// Say nothing of clients
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How a packet gets to the hypervisor.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LiveTransmit {
    /// Mapped for the time of the call (Linux until 6.0)
    Map,
    /// Copied to a buffer that is mapped for good (Linux since 6.1)
    Copy,
}

/// How large sends go, where offloads are on.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LiveLargeSend {
    /// The segment size is an argument of the call
    Firmware,
    /// The segment size is in the checksum fields
    Old,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Live {
    /// ibmveth: VM, logical LAN, trunk, Open vSwitch, NIC, network
    #[arg(value_name = "SYSTEM", default_value = "ibmveth")]
    pub(crate) system: String,
    /// Seconds of traffic in each state, through ibmveth and bare each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// The network sends, the VM receives
    #[arg(long)]
    pub(crate) reverse: bool,
    /// How a driver gets a packet to the hypervisor
    #[arg(long, value_enum, default_value = "map")]
    pub(crate) transmit: LiveTransmit,
    /// How large sends go, where offloads are on
    #[arg(long, value_enum, default_value = "firmware")]
    pub(crate) large_send: LiveLargeSend,
    /// Bytes that one H_SEND_LOGICAL_LAN copies before it answers H_BUSY; without it, all
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..))]
    pub(crate) slice: Option<u32>,
    /// Receive buffers of 64 KiB that each adapter lends
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(16..=256))]
    pub(crate) large_buffers: u32,
    /// Ask for the CPU before others, for all that is measured
    #[arg(long)]
    pub(crate) urgent: bool,
    /// Write the frames that the network host was sent while they were looked at to this file
    /// (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(clap::Args, Debug)]
pub(crate) struct List {
    /// Also every key that profiles, scenarios and --set know
    #[arg(long)]
    pub(crate) keys: bool,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// A file that people write.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    /// What is run
    Scenario,
    /// A platform
    Profile,
    /// What a packet may cost
    Budget,
}

#[derive(Subcommand, Debug)]
pub(crate) enum New {
    /// What is run: every key with its default, as a comment
    Scenario {
        /// The file, which must not exist; its name is the scenario's. Without it, stdout
        file: Option<PathBuf>,
        /// On this profile, whose system it is of
        #[arg(long, value_name = "PROFILE", default_value = "mlx5-gen3")]
        on: String,
    },
    /// What a packet may cost: what it costs now, for `doorbell check`
    Budget {
        /// The file, which must not exist. Without it, stdout
        file: Option<PathBuf>,
        /// Name of a scenario, or path of a .toml file; it is run
        #[arg(long, value_name = "SCENARIO")]
        of: String,
    },
    /// A platform: every key with the value and the source that an existing one has
    Profile {
        /// The file, which must not exist; its name is the profile's. Without it, stdout
        file: Option<PathBuf>,
        /// The profile to begin as
        #[arg(long, value_name = "PROFILE", default_value = "mlx5-gen3")]
        from: String,
    },
}
