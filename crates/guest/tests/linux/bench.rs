//! The surroundings of all checks: programs, kernels, directories, and the network.

use crate::harness::Part;
use doorbell_guest::{Arch, Error, Kernel, Machine, isolate};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static BENCH: OnceLock<Bench> = OnceLock::new();

/// The surroundings of all checks.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) doorbell: PathBuf,
    /// The program where rates are compared.
    pub(crate) release: PathBuf,
    pub(crate) plugin: PathBuf,
    /// The server of doorbell pages.
    pub(crate) bell: PathBuf,
    platforms: Vec<Platform>,
    /// The root of iPXE's package, if a check needs it.
    pub(crate) ipxe: Option<PathBuf>,
}

/// The parts of guests of one architecture.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) machine: Machine,
    pub(crate) kernel: Kernel,
    /// The first file systems, on the machine's clock and in virtual time.
    pub(crate) initramfs: [PathBuf; 2],
}

/// Returns the surroundings.
pub(crate) fn bench() -> &'static Bench {
    BENCH.get().expect("set up by main")
}

/// Returns true if there is time for more of each.
pub(crate) fn long() -> bool {
    std::env::var("TIER").is_ok_and(|t| t == "long")
}

/// Returns the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

impl Bench {
    /// Fetches what these parts need. A process that runs a part finds all of it there, and moves
    /// to a network of its own.
    pub(crate) fn set_up(parts: &[Part], runs: bool) -> Result<(), Error> {
        let said = |line: &str| eprintln!("{line}");
        let own = std::env::current_exe().expect("the path of this program");
        let built = own.ancestors().nth(2).expect("a directory of cargo's");
        // Paths are relative to the logs: those of sockets have at most 107 bytes, and lines are
        // split at blanks.
        let work = built.with_file_name("test-guest");
        std::fs::create_dir_all(&work).expect("the directory for logs");
        std::env::set_current_dir(&work).expect("the directory for logs");
        let built = Path::new("..").join(built.file_name().expect("its name"));
        let (mut platforms, mut ipxe) = (Vec::new(), None);
        for arch in Arch::ALL {
            if parts.iter().any(|p| p.device.arch == arch) {
                platforms.push(Platform::fetch(arch, runs)?);
            }
        }
        if parts.iter().any(|p| p.checks.iter().any(|c| c.name == "ipxe")) {
            let machine = platforms.iter().find(|p| p.machine.arch == Arch::X86_64);
            ipxe = machine.map(|p| p.machine.fetch_package("ipxe", &said)).transpose()?;
        }
        let doorbell = built.join("doorbell");
        let release = std::env::var_os("RELEASE").map_or(doorbell.clone(), PathBuf::from);
        let bench = Bench {
            doorbell,
            release,
            plugin: doorbell_guest::plugin()?,
            bell: built.join("examples/bell"),
            platforms,
            ipxe,
        };
        BENCH.set(bench).expect("set once");
        if runs { isolate() } else { Ok(()) }
    }

    pub(crate) fn platform(&self, arch: Arch) -> &Platform {
        self.platforms.iter().find(|p| p.machine.arch == arch).expect("fetched at the beginning")
    }
}

impl Platform {
    fn fetch(arch: Arch, packed: bool) -> Result<Platform, Error> {
        let said = |line: &str| eprintln!("{line}");
        let (version, modules): (&str, &[&str]) = match arch {
            Arch::X86_64 => {
                ("6.12", &["e1000", "8021q", "mlx5_core", "pktgen", "e1000e", "virtio_net"])
            }
            // It instantiates devices of a device tree behind PCI.
            Arch::Arm64 => ("7.3", &["rp1_pci", "xilinx_dma", "xilinx_emac", "pktgen"]),
            Arch::Ppc64 => ("6.12", &["ibmveth", "ibmvnic", "pktgen", "bridge"]),
        };
        let machine = Machine::fetch(arch, &said)?;
        let kernel = Kernel::find(&format!("debian:{version}"), None, arch, &said)?;
        let initramfs = ["wall", "virtual"]
            .map(|clock| PathBuf::from(format!("initramfs-{}-{clock}", arch.debian())));
        if !packed {
            for (n, file) in initramfs.iter().enumerate() {
                let order = kernel.load_order(modules)?;
                let archive = doorbell_guest::initramfs(&machine, &kernel, &order, n == 1)?;
                std::fs::write(file, archive).expect("the initramfs");
            }
        }
        Ok(Platform { machine, kernel, initramfs })
    }
}
