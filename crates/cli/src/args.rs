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
    /// Run a scenario and show what crossed between CPU and wire
    Run(Run),
    /// Run two scenarios, or one with and without a change, side by side
    Compare(Compare),
    /// Run one scenario over all combinations of some keys' values
    Sweep(Sweep),
    /// Judge one choice of settings against others, over scenarios or seeds
    Judge(Judge),
    /// List the bus transactions of one DMA transfer
    Transfer(Transfer),
    /// Serve a device to a virtual machine over vfio-user, and count what its driver does
    Serve(Serve),
    /// List systems, scenarios, profiles and devices; with --keys, what can be set
    List(List),
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

/// What changes a scenario.
#[derive(clap::Args, Debug)]
pub(crate) struct Changes {
    /// Set a key of the scenario or its profile; later ones win. `list --keys` lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Seed, recorded with the result. pktgen and captures draw nothing at random
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
    #[arg(long, value_name = "NAME[+NAME]", default_value = "pcie_down_tlp_bytes+pcie_down_dllp_bytes")]
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
    /// No progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
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
    /// e1000 (82540EM), e1000-82544gc, e1000-82545em or mlx5
    pub(crate) device: String,
    /// Where the virtual machine connects; the socket is made, and removed at the end
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// The other end of the wire: tap:NAME, pcap:FILE, reflect, socket:PATH, none
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(crate) uplink: String,
    /// Count by another bus's rules than the card's own: pci32, pci64, pcix, pcie2x8, pcie3x16
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
    /// mlx5: every doorbell leaves the guest's CPU, and each is counted; without it they are memory that is looked at
    #[arg(long)]
    pub(crate) trap_doorbells: bool,
    /// Say nothing of clients
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
