//! The arguments of each command.

mod examples;

use clap::{ArgGroup, Args as Group, Parser, Subcommand, ValueEnum, value_parser};
use clap_complete::Shell;
pub(crate) use doorbell_console::output::Output;
use doorbell_live::Live;
use doorbell_serve::Serve;
use doorbell_study::sweep::Shard;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The version, and the commit that it was built from if it was built in a repository.
pub(crate) use doorbell_console::VERSION;

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "doorbell",
    version = VERSION,
    about = "Runs a NIC driver without the NIC, and shows the cost of every packet",
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
    #[command(after_help = examples::REPRODUCE)]
    Reproduce(Reproduce),
    /// Make report.html, a page that opens offline, from the files of `reproduce --out` or `run
    /// --out`
    Report(Report),
    /// Run a scenario and show what crossed between CPU and wire
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Run two scenarios, or one with and without a change, side by side
    #[command(after_help = examples::COMPARE)]
    Compare(Compare),
    /// Run one scenario over all combinations of the values of some keys
    #[command(after_help = examples::SWEEP)]
    Sweep(Sweep),
    /// Run the points that `sweep --plan` wrote, here or on another machine
    #[command(after_help = examples::POINT)]
    Point(Point),
    /// Run kept results again, and say what differs; exit 1 if something does
    #[command(after_help = examples::REPEAT)]
    Repeat(Repeat),
    /// Pack results into one file with the captures and all that is needed to repeat them
    #[command(after_help = examples::ARCHIVE)]
    Archive(Archive),
    /// Rank one choice of settings against others, over scenarios or seeds
    #[command(alias = "judge")]
    #[command(after_help = examples::RANK)]
    Rank(Rank),
    /// Search the settings that serve a goal best, and say what each is worth
    #[command(after_help = examples::ADVISE)]
    Advise(Advise),
    /// Solve for constants of a profile by measurements of your own, and predict others
    #[command(after_help = examples::FIT)]
    Fit(Fit),
    /// Check a run, or the report of one, against a budget; exit 1 if the budget is broken
    #[command(after_help = examples::CHECK)]
    Check(Check),
    /// List the bus transactions of one DMA transfer
    #[command(after_help = examples::TRANSFER)]
    Transfer(Transfer),
    /// Serve a device to virtual machines, and count what their drivers do
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Boot Linux kernels with a device, and show what their own drivers cost a packet
    #[command(after_help = examples::GUEST)]
    Guest(Guest),
    /// Run ibmveth live: real traffic through Open vSwitch, with and without offloads
    #[command(after_help = examples::LIVE)]
    Live(Live),
    /// List systems, scenarios, profiles and devices; or keys, or metrics; of all or of one
    #[command(after_help = examples::LIST)]
    List(List),
    /// Write a commented file to start from: a scenario, a profile, a budget, measurements
    #[command(subcommand)]
    New(New),
    /// Print the JSON Schema of a kind of file, for editors
    Schema {
        /// The kind of file
        of: FileKind,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man {
        /// Write a page for each command into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// Returns the driver from elsewhere that the command may take.
    pub(crate) fn own(&self) -> Option<&Own> {
        match self {
            Command::Run(Run { changes, .. })
            | Command::Compare(Compare { changes, .. })
            | Command::Sweep(Sweep { changes, .. })
            | Command::Rank(Rank { changes, .. })
            | Command::Advise(Advise { changes, .. })
            | Command::Check(Check { changes, .. }) => Some(&changes.own),
            Command::Point(Point { own, .. })
            | Command::Repeat(Repeat { own, .. })
            | Command::List(List { own, .. })
            | Command::New(New::Budget { own, .. }) => Some(own),
            _ => None,
        }
    }
}

/// The headings of options in help.
const OWN: &str = "A driver of your own";
const OUTPUT: &str = "Output";
const CAPTURE: &str = "Capture";
const POINTS: &str = "Many runs";

/// A driver from elsewhere.
#[derive(Group, Debug, Default)]
pub(crate) struct Own {
    /// Take the driver of this shared object, built from C with doorbell.h, for the only system;
    /// `new header` writes that file
    #[arg(long, value_name = "FILE.so", help_heading = OWN)]
    pub(crate) driver: Option<PathBuf>,
    /// The card of --driver, instead of the one that it names
    #[arg(long, value_name = "CARD", requires = "driver", help_heading = OWN)]
    pub(crate) card: Option<Chip>,
}

/// Changes to a scenario.
#[derive(Group, Debug, Default)]
pub(crate) struct Changes {
    #[command(flatten)]
    pub(crate) own: Own,
    /// A driver of your own: late: its stores to rings are seen as late as its barriers allow, at
    /// most 10 us; random: in any order that they allow, by --seed. A run that fails with it alone
    /// lacks a barrier, and says where. Short for --set run.order=
    #[arg(long, value_name = "ORDER", help_heading = OWN)]
    #[arg(value_parser = ["program", "late", "overtaken", "random"])]
    pub(crate) order: Option<String>,
    /// A driver of your own: fail the audit where it breaks a rule of the card's manual that the
    /// model works without, and that is a warning otherwise. Short for --set run.strict=on
    #[arg(long, help_heading = OWN)]
    pub(crate) strict: bool,
    /// Run on this profile instead of the scenario's: a name, or the path of a .toml file
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// Set a key of the scenario or its profile; later ones win. `list --keys` lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// End each run when the error of its packet rate is below this, such as 0.5%, instead of at
    /// the length of its scenario; at most 1000 times that. Short for --set run.until=
    #[arg(long, value_name = "PERCENT")]
    pub(crate) until: Option<String>,
    /// Seed of random faults and random loads; recorded with the result
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Send the frames of this pcap or pcapng file, which may be in gzip or zstd; - is stdin
    #[arg(long, value_name = "FILE", help_heading = CAPTURE)]
    pub(crate) pcap: Option<PathBuf>,
    /// The driver sends the frames, or they arrive, at their own times, again and again for the
    /// duration of the run
    #[arg(long, value_name = "send|receive", requires = "pcap", help_heading = CAPTURE)]
    #[arg(value_parser = ["send", "receive"])]
    pub(crate) direction: Option<String>,
    /// Fill frames that were captured in part with zeros
    #[arg(long, help_heading = CAPTURE)]
    pub(crate) pad: bool,
    /// Leave out what cannot be sent, and count it by reason
    #[arg(long, help_heading = CAPTURE)]
    pub(crate) skip: bool,
    /// Send the packets of this interface of a pcapng file alone, counted from 0
    #[arg(long, value_name = "N", help_heading = CAPTURE)]
    pub(crate) interface: Option<String>,
    /// Who computes TCP and UDP checksums, the device (csum) or nobody (none)
    #[arg(long, value_name = "csum|none", help_heading = CAPTURE)]
    pub(crate) offload: Option<String>,
    /// Treat frames over the MTU as large sends with segments of this many payload bytes; auto: of
    /// the MSS of each flow
    #[arg(long, value_name = "MSS|auto", help_heading = CAPTURE)]
    pub(crate) gso: Option<String>,
    /// Send at the times of the capture, or as fast as the queue accepts frames
    #[arg(long, value_name = "own|full", help_heading = CAPTURE)]
    pub(crate) times: Option<String>,
    /// Send it this many times
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = CAPTURE)]
    pub(crate) rounds: Option<String>,
    /// Inject a fault; may be repeated: lost-interrupt@N, late-completion@N:SPAN,
    /// poisoned-completion@N, dma-fault@N, link-flap@TIME:SPAN; N may be every=N or random=N
    /// (one in N), TIME every=TIME
    #[arg(long, value_name = "KIND@WHEN[:SPAN]")]
    pub(crate) fault: Vec<String>,
}

impl Changes {
    /// Returns true if anything is changed.
    pub(crate) fn any(&self) -> bool {
        let of_capture =
            [&self.direction, &self.interface, &self.offload, &self.gso, &self.times, &self.rounds];
        self.profile.is_some()
            || self.order.is_some()
            || self.strict
            || self.until.is_some()
            || !self.sets.is_empty()
            || !self.fault.is_empty()
            || self.seed.is_some()
            || self.pcap.is_some()
            || self.pad
            || self.skip
            || of_capture.iter().any(|c| c.is_some())
    }
}

#[derive(Group, Debug)]
pub(crate) struct Run {
    /// Name of a scenario, or path of a .toml file. With --driver, by default its first: NAME-send
    #[arg(required_unless_present = "driver", default_value = "", hide_default_value = true)]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Do not find out what limits: that takes a run for each resource that may
    #[arg(long)]
    pub(crate) no_limits: bool,
    /// Count the CPU's accesses by register, as for a driver of your own, and show the last ones
    /// if the run fails
    #[arg(long)]
    pub(crate) registers: bool,
    /// Frames that arrive: find the greatest traffic.load that loses at most this share of them,
    /// such as 0 or 0.5%, and run at it
    #[arg(long, value_name = "SHARE", value_parser = lost_share)]
    pub(crate) lossless: Option<f64>,
    /// Write the frames on the wire to this file (pcapng). With --out, a bare name goes there
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Write the path of the first packets to this file (Chrome trace format, for
    /// ui.perfetto.dev). With --out, a bare name goes there
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Number of packets in the trace
    #[arg(long, value_name = "N", default_value_t = 100, requires = "trace")]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) trace_packets: u32,
    /// Write result.json into this directory, which is created if necessary
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

#[derive(Group, Debug)]
pub(crate) struct Compare {
    /// Name of a scenario, or path of a .toml file; or a .json file of `guest --format json`
    pub(crate) a: String,
    /// The other; without it, A again, with --with
    #[arg(required_unless_present = "with")]
    pub(crate) b: Option<String>,
    /// Set a key in B alone
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) with: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

#[derive(Group, Debug)]
pub(crate) struct Sweep {
    /// Name of a scenario, or path of a .toml file. With --driver, by default its first: NAME-send
    #[arg(required_unless_present = "driver", default_value = "", hide_default_value = true)]
    pub(crate) scenario: String,
    /// A key and its values; each combination is a row. 1..8 are the numbers from 1 to 8,
    /// 64..1500:64 those 64 apart, 1..64:x2 each twice the one before. Values with commas are an
    /// array of JSON: traffic.mix=["60:7,1514:1","off"]
    #[arg(long, value_name = "KEY=V,V,...", required = true)]
    pub(crate) over: Vec<String>,
    /// A key whose values stand side by side; two values also with their difference
    #[arg(long, value_name = "KEY=V,V,...")]
    pub(crate) across: Option<String>,
    /// A number of the result (per packet, a rate, latency_ns.p99), or a sum of them
    #[arg(long, value_name = "NAME[+NAME]")]
    #[arg(default_value = "packets_per_s")]
    pub(crate) show: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) points: Points,
    /// Only the rows of this part, such as 3/16: all parts, in order, are the whole
    #[arg(long, value_name = "I/N", value_parser = Shard::parse, help_heading = POINTS)]
    pub(crate) shard: Option<Shard>,
    /// Run and show nothing, and print the points for `doorbell point`, one a line
    #[arg(long, help_heading = POINTS)]
    #[arg(conflicts_with_all = ["Points", "out", "format"])]
    pub(crate) plan: bool,
    /// Write a record of each run, with every number, to this file: .parquet, .csv or .ndjson
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output<2>,
}

#[derive(Group, Debug)]
pub(crate) struct Point {
    /// Files of points; by default, or for -, stdin
    pub(crate) file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) own: Own,
    #[command(flatten)]
    pub(crate) points: Points,
    /// Write the records to this file instead of stdout: .parquet, .csv or .ndjson
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// No progress and no notices on stderr
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
}

#[derive(Group, Debug)]
pub(crate) struct Repeat {
    /// A result of `run`, `sweep`, `rank` or `advise` (--format json, or result.json; - is stdin),
    /// a .parquet, .ndjson or .csv file of `sweep --out` or `point --out`, a directory of them, or
    /// an archive
    #[arg(required = true)]
    pub(crate) file: Vec<PathBuf>,
    /// Of records and of rows of a sweep, repeat this share, spread evenly over each file
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = percent)]
    pub(crate) sample: f64,
    #[command(flatten)]
    pub(crate) own: Own,
    /// Runs at a time, at most four for each core; by default, as many as the machine has cores
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// No progress and no notices on stderr
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
}

#[derive(Group, Debug)]
pub(crate) struct Archive {
    /// A result of `run`, `sweep`, `rank` or `advise` (--format json, or result.json), a .parquet,
    /// .ndjson or .csv file of `sweep --out` or `point --out`, or a directory of them
    #[arg(required = true)]
    pub(crate) file: Vec<PathBuf>,
    /// Write the archive to this file, whose name ends in .tar.gz or .tgz
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: PathBuf,
}

/// Parses a share of frames: 0, or percent with its sign.
fn lost_share(text: &str) -> Result<f64, String> {
    let (number, has_sign) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), true),
        None => (text, false),
    };
    let share = number.parse().ok().filter(|n| (0.0..100.0).contains(n));
    let share = share.filter(|n: &f64| has_sign || *n == 0.0);
    share
        .map(|n| n / 100.0)
        .ok_or_else(|| "allowed are 0 and less than 100 %, as in 0.5%".to_owned())
}

/// Parses a share of a hundred.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse().ok();
    number.filter(|n| *n > 0.0 && *n <= 100.0).ok_or_else(|| "allowed are 100 and less".to_owned())
}

/// Options for many runs.
#[derive(Group, Debug)]
pub(crate) struct Points {
    /// Keep the numbers of each run in this directory, and do not repeat those that are there
    #[arg(long, value_name = "DIR", help_heading = POINTS)]
    pub(crate) cache: Option<PathBuf>,
    /// With --cache: above this size, remove what was used longest ago
    #[arg(long, value_name = "MIB", default_value_t = 1024, requires = "cache")]
    #[arg(value_parser = value_parser!(u64).range(1..=1 << 40), help_heading = POINTS)]
    pub(crate) cache_size: u64,
    /// Runs at a time, at most four for each core; by default, as many as the machine has cores
    #[arg(long, value_name = "N", help_heading = POINTS)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

#[derive(Group, Debug)]
pub(crate) struct Rank {
    /// Names of scenarios, or paths of .toml files
    #[arg(required = true)]
    pub(crate) scenario: Vec<String>,
    /// Settings, with or without a name; the first side is ranked against the others
    #[arg(long, value_name = "[NAME: ]KEY=V,KEY=V,...", required = true)]
    pub(crate) side: Vec<String>,
    /// A number of the result. A side that is worse in all is dominated
    #[arg(long, value_name = "NAME[+NAME]", required_unless_present = "series")]
    pub(crate) by: Vec<String>,
    /// A number that is shown beside them
    #[arg(long, value_name = "NAME[+NAME]")]
    pub(crate) show: Vec<String>,
    /// Differences up to this many percent count as equal, as do those within the error of a run
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) noise: f64,
    /// Leave out the loads in which a side does not meet this
    #[arg(
        long = "where",
        value_name = "NAME=VALUE|NAME<BOUND|NAME>BOUND",
        conflicts_with = "series"
    )]
    pub(crate) filter: Option<String>,
    /// Run each scenario with each of these seeds, and show shares
    #[arg(long, value_name = "FIRST-LAST")]
    pub(crate) seeds: Option<String>,
    /// Show a series of the result over time instead
    #[arg(long, value_name = "NAME", conflicts_with = "seeds")]
    pub(crate) series: Option<String>,
    /// Series: average this many points, which are a millisecond apart
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) every: usize,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) output: Output<2>,
}

#[derive(Group, Debug)]
pub(crate) struct Advise {
    /// Name of a scenario, or path of a .toml file
    pub(crate) scenario: String,
    /// The number to improve, of `list --metrics`: packets and bits a second are to be high, all
    /// others low
    #[arg(long, value_name = "NAME", default_value = "packets_per_s")]
    pub(crate) goal: String,
    /// A bound that must hold; may be repeated. An offered load is held unless packets_per_s is
    /// bounded here, or another rate
    #[arg(long, value_name = "NAME<BOUND|NAME>BOUND")]
    pub(crate) keep: Vec<String>,
    /// Search these values of a key instead of the settings that people can change; may be repeated
    #[arg(long, value_name = "KEY=V,V,...")]
    pub(crate) over: Vec<String>,
    /// Leave a key as it is
    #[arg(long, value_name = "KEY", conflicts_with = "over")]
    pub(crate) fix: Vec<String>,
    /// Take today's settings from this file: the output of ethtool -c, -g, -k and -l, and of lspci
    /// -vv of one device; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) today: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

#[derive(Group, Debug)]
pub(crate) struct Fit {
    /// The measurements, a .toml file; `new measurements` writes one to start from
    pub(crate) file: PathBuf,
    /// Write the profile with the solved constants to this file (.toml), which then has that name
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) out: Option<PathBuf>,
    /// Move every other number of the profile, and show what follows in the solved constants and in
    /// the predicted rows
    #[arg(long)]
    pub(crate) sensitivity: bool,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

#[derive(Group, Debug)]
pub(crate) struct Check {
    /// The budget, a .toml file
    pub(crate) budget: PathBuf,
    /// Check this output of `run` or `serve` with --format json instead of a run; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Replace the numbers in the budget by the measured ones
    #[arg(long)]
    pub(crate) update: bool,
    /// With --update: leave this much room in ceilings and floors [default: 0; of a guest 0.5 in
    /// virtual time, and otherwise as much again as its boots differ by, with --repeat]
    #[arg(long, value_name = "PERCENT", requires = "update")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) room: Option<f64>,
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

#[derive(Group, Debug)]
pub(crate) struct Reproduce {
    /// Published figures: of a system, or `hardware`, those of receive; by default, all
    #[arg(value_name = "FIGURES")]
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
    /// Write reproduce.json and report.html, a page that opens offline, into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output<0>,
}

#[derive(Group, Debug)]
pub(crate) struct Report {
    /// A directory with results, or with directories that have some: reproduce.json, result.json,
    /// or a file NAME.json with what run, sweep or rank print with --format json
    pub(crate) dir: PathBuf,
    /// Results in it that are on the page, in this order, by the name of their directory or file;
    /// the second of two runs is compared with the first. Without any, all in the order of their
    /// names
    pub(crate) runs: Vec<String>,
}

#[derive(Group, Debug)]
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
    /// Length of the transfer, 1 byte to 16 MiB
    #[arg(long, value_name = "N")]
    pub(crate) bytes: String,
    /// Set a key of the profile; later ones win
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output<0>,
}

/// Parts of a guest whose instructions are counted.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instructions {
    /// Nothing: the guest runs faster
    Off,
    /// The functions of the driver's module
    Driver,
    /// All functions of the kernel and its modules, and user code as one
    All,
}

#[derive(Group, Debug)]
pub(crate) struct Guest {
    /// A device of `doorbell serve`; one of QEMU's own, such as qemu:e1000e, qemu:igb or
    /// qemu:virtio-net-pci; or vfio-user:PATH, the socket of a model that somebody else serves
    pub(crate) device: String,
    /// The kernel module of its driver, which models beside the built-in ones need
    #[arg(long, value_name = "NAME")]
    pub(crate) driver: Option<String>,
    /// Prints the numbers of the machine in virtual time, for tests of drivers, and boots nothing
    #[arg(long, hide = true)]
    pub(crate) plan: bool,
    /// Kernels, separated by commas: debian:VERSION (5.10, 6.1, 6.12, 6.16 to 6.18, 7.2, 7.3, or a
    /// release such as 6.12.43, each also with -cloud or -rt), which is fetched once; the path of a
    /// kernel's .deb, or of several with + between them; or of an image, with --modules.
    /// debian:6.1..7.3 is each series between the two that the mirrors have, and
    /// debian:6.12.41..6.12.57 each release. By default Debian's 6.12; for axi-ethernet 7.3
    #[arg(long, value_name = "KERNEL,...", value_delimiter = ',')]
    pub(crate) kernel: Vec<String>,
    /// The modules of an image: its build tree, or its directory of /lib/modules
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// A module that replaces the kernel's own of that name; may be repeated
    #[arg(long, value_name = "FILE.ko")]
    pub(crate) module: Vec<PathBuf>,
    /// Another build of a module, beside each kernel with --module or its own; may be repeated
    #[arg(long, value_name = "FILE.ko")]
    pub(crate) against: Vec<PathBuf>,
    /// Workloads, separated by commas: pktgen, receive, arrivals, xdp-drop, xdp-tx, testpmd, echo,
    /// request-response, ping, iperf-send, iperf-receive, or the path of a script. `list
    /// --workloads` describes them [default: pktgen, or those that the budget of --bisect names]
    #[arg(long, value_name = "WORKLOAD,...", value_delimiter = ',')]
    pub(crate) workload: Vec<String>,
    /// The guest's clock: this machine's, with counts; or instructions, with counts, rates and
    /// times that are the same in each boot (devices of the laboratory, one CPU) [default: virtual
    /// where device, CPUs and workloads allow it and there is no --bus]
    #[arg(long, value_enum)]
    pub(crate) clock: Option<GuestClock>,
    /// In virtual time, the machine around the device: a profile's name, or the path of a .toml
    /// file [default: mlx5-gen3, e1000-power4, axienet-zynqmp, ibmvnic-power9, ibmveth-power8]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// In virtual time, put the laboratory's own driver beside the kernels, on the same machine
    /// with the same traffic: pktgen, receive, arrivals, and on mlx5 xdp-drop and xdp-tx
    #[arg(long)]
    pub(crate) beside_lab: bool,
    /// Set a key inside the guest: a variable of a workload, mtu, module.NAME, ethtool.priv.NAME,
    /// ethtool.feature.NAME, ethtool.coalesce.NAME, ethtool.ring.NAME, ethtool.channels.NAME; in
    /// virtual time also cpu.instruction, and keys of the profile: bus, pci, pcie, axi, nic, link,
    /// hypervisor, hcall, serial, tce
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// In virtual time, the capture of --workload arrivals --set pattern=capture: pcap or pcapng,
    /// also in gzip or zstd
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// A key inside the guest whose values stand side by side; each is a boot
    #[arg(long, value_name = "KEY=V,V,...")]
    pub(crate) across: Option<String>,
    /// Count by the rules of another bus than the card's own
    #[arg(long, value_name = "BUS")]
    pub(crate) bus: Option<String>,
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=16))]
    pub(crate) cpus: u32,
    /// Boot each kernel so many times: in virtual time all have to be equal; on the machine's clock
    /// the result has what they differ by, which marks and `check --update` go by
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// Count the instructions that the guest executes
    #[arg(long, value_enum, default_value = "driver")]
    pub(crate) instructions: Instructions,
    /// Count loads from and stores to I/O memory by function, too; the guest takes twice as long
    #[arg(long)]
    pub(crate) mmio: bool,
    /// Follow the driver's calls to send and its polls: what each executes with all that it calls
    /// in the kernel, by function
    #[arg(long)]
    pub(crate) inclusive: bool,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = FUNCTIONS)]
    pub(crate) functions: usize,
    /// The guest may say nothing for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    #[arg(value_parser = value_parser!(u64).range(1..=86400))]
    pub(crate) timeout: u64,
    /// Keep the logs of QEMU here
    #[arg(long, value_name = "DIR")]
    pub(crate) logs: Option<PathBuf>,
    /// Check against this budget, for `git bisect run`: exit 0 if it holds, 1 if not, 125 if the
    /// kernel cannot be tested
    #[arg(long, value_name = "BUDGET")]
    pub(crate) bisect: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output<1>,
}

/// Clocks of a guest.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GuestClock {
    /// This machine's
    Wall,
    /// The executed instructions, and what the CPU waits for the device
    Virtual,
}

/// Functions in a table unless a number is given.
pub(crate) const FUNCTIONS: usize = 16;

#[derive(Group, Debug)]
pub(crate) struct List {
    /// Only what belongs to this system
    pub(crate) system: Option<String>,
    /// Only keys or metrics with this word in name or description
    #[arg(requires = "what")]
    pub(crate) word: Option<String>,
    /// Every key of profiles, scenarios and --set
    #[arg(long, group = "what")]
    pub(crate) keys: bool,
    /// Every number of a result, by the name that options and files take
    #[arg(long, group = "what")]
    pub(crate) metrics: bool,
    /// The workloads of `guest` with their variables
    #[arg(long, group = "what", conflicts_with_all = ["system", "word"])]
    pub(crate) workloads: bool,
    #[command(flatten)]
    pub(crate) own: Own,
    #[command(flatten)]
    pub(crate) output: Output<0>,
}

/// A file that people write.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileKind {
    /// A load on a system
    Scenario,
    /// A platform
    Profile,
    /// The allowed cost of a packet
    Budget,
    /// Numbers measured on a machine
    Measurements,
    /// The output of a command with --format json
    Result,
}

/// A card of the 8254x family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Chip {
    /// On conventional PCI
    #[value(name = "82540em", alias = "e1000")]
    I82540em,
    /// On PCI-X, the oldest
    #[value(name = "82544gc", alias = "e1000-82544gc")]
    I82544gc,
    /// On PCI-X
    #[value(name = "82545em", alias = "e1000-82545em")]
    I82545em,
}

impl Chip {
    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Chip::I82540em => "82540em",
            Chip::I82544gc => "82544gc",
            Chip::I82545em => "82545em",
        }
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum New {
    /// A load on a system: every key with its default, as a comment
    Scenario {
        /// The file, which must not exist; the scenario gets its name. Without it, stdout
        file: Option<PathBuf>,
        /// On this profile, which also selects the system [default: that of --from, or mlx5-gen3]
        #[arg(long, value_name = "PROFILE")]
        on: Option<String>,
        /// With the settings of this scenario
        #[arg(long, value_name = "SCENARIO")]
        from: Option<String>,
    },
    /// The allowed cost of a packet, from its cost now, for `doorbell check`
    Budget {
        /// The file, which must not exist. Without it, stdout
        file: Option<PathBuf>,
        /// Name of a scenario, or path of a .toml file; it is run
        #[arg(long, value_name = "SCENARIO")]
        of: String,
        #[command(flatten)]
        own: Own,
    },
    /// Numbers measured on a machine, for `doorbell fit`: those of a run, to be replaced
    Measurements {
        /// The file, which must not exist; the measurements get its name. Without it, stdout
        file: Option<PathBuf>,
        /// Name of a scenario, or path of a .toml file; it is run
        #[arg(long, value_name = "SCENARIO")]
        of: String,
    },
    /// A platform: every key with the value and the source from an existing profile
    Profile {
        /// The file, which must not exist; the profile gets its name. Without it, stdout
        file: Option<PathBuf>,
        /// The profile to start from
        #[arg(long, value_name = "PROFILE", default_value = "mlx5-gen3")]
        from: String,
    },
    /// A crate with a driver of your own for a card that is modelled: tests, a budget, the command
    Driver {
        /// The directory, which must not exist; crate and system get its name
        dir: PathBuf,
        /// The card
        #[arg(long = "for", value_name = "CARD", default_value = "82545em")]
        card: Chip,
        /// A checkout of Doorbell, on which the crate depends [default: the one of this program]
        #[arg(long, value_name = "DIR")]
        doorbell: Option<PathBuf>,
    },
    /// A crate with a device of your own and its driver: tests, a budget, the command
    Device {
        /// The directory, which must not exist; crate and system get its name
        dir: PathBuf,
        /// A checkout of Doorbell, on which the crate depends [default: the one of this program]
        #[arg(long, value_name = "DIR")]
        doorbell: Option<PathBuf>,
    },
    /// doorbell.h, for a driver in C
    Header {
        /// The file, which must not exist. Without it, stdout
        file: Option<PathBuf>,
    },
    /// QEMU's plug-in, for a guest that you start yourself
    Plugin {
        /// The file, which must not exist
        file: PathBuf,
    },
}
